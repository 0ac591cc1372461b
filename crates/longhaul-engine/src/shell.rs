//! Splits a shell script into commands, with any quoting, even if the script is truncated.
//!
//! ```text
//! cd /app && grep -n "a b" x 2>&1 | head -3        cd /app · grep -n `a b` x (piped) · head -3
//! cat > y <<'E'↵text↵E                             cat (writes y, reads the heredoc "text")
//! ```
//!
//! No crate reads what agents write: word splitters do not know operators and heredocs, and parsers refuse a
//! truncated script.

use std::ops::Range;

/// One command: its words, the files that it writes by redirection, and the heredoc that it reads.
#[derive(Debug, Default)]
pub(crate) struct Command {
    pub(crate) words: Vec<Word>,
    pub(crate) writes: Vec<(Word, WriteMode)>,
    pub(crate) heredoc: String,
    /// Whether its output is piped into the next command.
    pub(crate) is_piped: bool,
    /// The range in the script from its first word, or a redirection before it, to its last word.
    pub(crate) at: Range<usize>,
    /// The offsets in the script where its redirections start.
    pub(crate) redirect_offsets: Vec<usize>,
}

/// A word of a command, without its quotes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Word {
    pub(crate) text: String,
    /// Whether the shell would expand the word: it has a variable, pattern or command outside of quotes that
    /// prevent it.
    pub(crate) has_expansion: bool,
}

/// How a command writes a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriteMode {
    /// The file is replaced (`>`).
    Truncate,
    /// The output is appended to the file (`>>`).
    Append,
}

/// Parses the commands of a script, in order.
pub(crate) fn parse_commands(script: &str) -> Vec<Command> {
    Lexer { script, rest: script, ..Lexer::default() }.into_commands()
}

impl Command {
    /// Returns the name of the command without its path. Words before it, such as `sudo` and assignments, are
    /// skipped.
    pub(crate) fn name(&self) -> &str {
        self.words.get(self.name_index()).map_or("", |word| word.text.rsplit('/').next().unwrap_or_default())
    }

    /// Returns whether the command starts with these words, as the script writes them.
    pub(crate) fn starts_with(&self, script: &str, words: &str) -> bool {
        let behind = script[self.at.clone()].strip_prefix(words);
        behind.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
    }

    fn name_index(&self) -> usize {
        let is_before = |word: &Word| {
            let assigns = word.text.split_once('=').is_some_and(|(name, _)| {
                !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            });
            assigns
                || matches!(word.text.as_str(), "sudo" | "time" | "nohup" | "env" | "command" | "then" | "do" | "else")
        };
        self.words.iter().take_while(|word| is_before(word)).count()
    }

    pub(crate) fn arguments(&self) -> &[Word] {
        self.words.get(self.name_index() + 1..).unwrap_or_default()
    }

    pub(crate) fn has_option(&self, name: &str) -> bool {
        self.arguments().iter().any(|word| word.text == name)
    }

    /// Returns the arguments that are not options.
    pub(crate) fn operands(&self) -> impl Iterator<Item = &Word> {
        let mut only_operands = false;
        self.arguments().iter().filter(move |word| {
            let is_option = !only_operands && word.text.starts_with('-') && word.text.len() > 1;
            only_operands |= word.text == "--";
            !is_option
        })
    }
}

/// Splits a script into commands.
#[derive(Default)]
struct Lexer<'a> {
    script: &'a str,
    rest: &'a str,
    /// The offset of the character that is being read.
    at: usize,
    /// The offset where the current word started.
    word_at: usize,
    commands: Vec<Command>,
    command: Command,
    word: Option<Word>,
    /// The redirection that the current word is the target of, if there is one.
    open_redirect: Option<Redirect>,
    /// The heredocs that start on the next line: the index of the command that reads each, and the line that
    /// ends it.
    pending_heredocs: Vec<(usize, String)>,
}

#[derive(Clone, Copy)]
enum Redirect {
    Write(WriteMode),
    Heredoc,
    Ignored,
}

impl Lexer<'_> {
    fn into_commands(mut self) -> Vec<Command> {
        while let Some(next) = self.rest.chars().next() {
            self.at = self.script.len() - self.rest.len();
            self.rest = &self.rest[next.len_utf8()..];
            match next {
                ' ' | '\t' => self.end_word(),
                '\n' => {
                    self.end_word();
                    self.end_command();
                    self.read_heredocs();
                }
                ';' | '&' | '(' | ')' => {
                    // `2>&1` is one redirection, `&>` another.
                    if next == '&' && (self.open_redirect.is_some() || self.rest.starts_with('>')) {
                        continue;
                    }
                    self.end_word();
                    self.end_command();
                }
                '|' => {
                    self.end_word();
                    self.command.is_piped = !self.rest.starts_with('|');
                    self.rest = self.rest.trim_start_matches('|');
                    self.end_command();
                }
                '>' | '<' => self.read_redirection(next),
                '#' if self.word.is_none() => {
                    self.rest = self.rest.find('\n').map_or("", |end| &self.rest[end..]);
                }
                '\\' => {
                    let escaped = self.rest.chars().next();
                    self.rest = &self.rest[escaped.map_or(0, char::len_utf8)..];
                    if let Some(escaped) = escaped.filter(|escaped| *escaped != '\n') {
                        self.push(escaped);
                    }
                }
                '\'' => {
                    let end = self.rest.find('\'').unwrap_or(self.rest.len());
                    let quoted = &self.rest[..end];
                    self.open_word().text.push_str(quoted);
                    self.rest = self.rest.get(end + 1..).unwrap_or_default();
                }
                '"' => self.read_double_quoted(),
                '$' | '*' | '?' | '`' | '{' | '[' => {
                    self.open_word().has_expansion = true;
                    self.push(next);
                }
                other => self.push(other),
            }
        }
        self.at = self.script.len();
        self.end_word();
        self.end_command();
        self.commands
    }

    fn open_word(&mut self) -> &mut Word {
        if self.word.is_none() {
            self.word_at = self.at;
        }
        self.word.get_or_insert(Word { text: String::new(), has_expansion: false })
    }

    fn push(&mut self, character: char) {
        self.open_word().text.push(character);
    }

    fn read_double_quoted(&mut self) {
        let mut characters = self.rest.char_indices();
        self.open_word();
        while let Some((at, character)) = characters.next() {
            match character {
                '"' => {
                    self.rest = &self.rest[at + 1..];
                    return;
                }
                '\\' => {
                    let escaped = characters.next().map_or('\\', |(_, escaped)| escaped);
                    if let Some(word) = &mut self.word {
                        word.text.push(escaped);
                    }
                }
                other => {
                    if let Some(word) = &mut self.word {
                        word.has_expansion |= matches!(other, '$' | '`');
                        word.text.push(other);
                    }
                }
            }
        }
        self.rest = "";
    }

    fn read_redirection(&mut self, c: char) {
        // A digit before the operator selects the stream. Only standard output counts as writing a file.
        let stream = self.word.take_if(|word| matches!(word.text.as_str(), "0" | "1" | "2"));
        self.end_word();
        self.command.redirect_offsets.push(if stream.is_some() { self.word_at } else { self.at });
        let doubled = self.rest.starts_with(c);
        self.rest = self.rest.strip_prefix(c).unwrap_or(self.rest);
        self.open_redirect = Some(match (c, doubled) {
            ('<', true) if self.rest.starts_with('<') => {
                self.rest = &self.rest[1..];
                Redirect::Ignored
            }
            ('<', true) => {
                self.rest = self.rest.strip_prefix('-').unwrap_or(self.rest);
                Redirect::Heredoc
            }
            ('<', false) => Redirect::Ignored,
            _ if stream.is_some_and(|stream| stream.text != "1") => Redirect::Ignored,
            (_, true) => Redirect::Write(WriteMode::Append),
            (_, false) => Redirect::Write(WriteMode::Truncate),
        });
    }

    fn end_word(&mut self) {
        let Some(word) = self.word.take() else { return };
        if self.command.at.is_empty() {
            self.command.at.start = self.command.redirect_offsets.first().copied().unwrap_or(self.word_at);
        }
        self.command.at.end = self.at;
        match self.open_redirect.take() {
            None => self.command.words.push(word),
            Some(Redirect::Write(how)) => {
                // `>&2` writes to a stream, not to a file.
                if !matches!(word.text.as_str(), "1" | "2") {
                    self.command.writes.push((word, how));
                }
            }
            Some(Redirect::Heredoc) => self.pending_heredocs.push((self.commands.len(), word.text)),
            Some(Redirect::Ignored) => {}
        }
    }

    /// Reads the heredocs that the previous line announced and gives each to its command.
    fn read_heredocs(&mut self) {
        for (command, end) in std::mem::take(&mut self.pending_heredocs) {
            let mut at = 0;
            let mut after = self.rest.len();
            for line in self.rest.split_inclusive('\n') {
                if line.trim() == end {
                    after = at + line.len();
                    break;
                }
                at += line.len();
            }
            if let Some(command) = self.commands.get_mut(command) {
                command.heredoc.push_str(&self.rest[..at]);
            }
            self.rest = &self.rest[after..];
        }
    }

    fn end_command(&mut self) {
        self.open_redirect = None;
        let command = std::mem::take(&mut self.command);
        let reads_document = self.pending_heredocs.last().is_some_and(|(at, _)| *at == self.commands.len());
        if !command.words.is_empty() || !command.writes.is_empty() || reads_document {
            self.commands.push(command);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Formats each command with its text in the script, its words and its heredoc.
    fn render_commands(script: &str) -> Vec<String> {
        let shown = |command: &Command| {
            let words = command.words.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join("·");
            let piped = if command.is_piped { " |" } else { "" };
            format!("{} = {words}{piped} {}", &script[command.at.clone()], command.heredoc).trim().to_owned()
        };
        parse_commands(script).iter().map(shown).collect()
    }

    #[test]
    fn quotes_heredocs_and_operators_are_parsed_like_a_shell() {
        for (script, expected) in [
            ("cd /a && ls -l|head", &["cd /a = cd·/a", "ls -l = ls·-l |", "head = head"][..]),
            ("echo 'a; b' \"c | d\" # e; f", &["echo 'a; b' \"c | d\" = echo·a; b·c | d"]),
            ("make >& log; (pwd)", &["make >& log = make", "pwd = pwd"]),
            ("cat > x <<'E'\na; b\nE\nls", &["cat > x <<'E' = cat a; b", "ls = ls"]),
            ("> x echo a 2>&1", &["> x echo a 2>&1 = echo·a"]),
        ] {
            assert_eq!(
                render_commands(script).iter().map(|s| s.replace('\n', "")).collect::<Vec<_>>(),
                expected,
                "{script}"
            );
        }
    }

    #[test]
    fn a_truncated_script_is_parsed_to_its_end() {
        for (script, expected) in [
            ("echo 'a; b", &["echo 'a; b = echo·a; b"][..]),
            ("echo \"a \\", &["echo \"a \\ = echo·a \\"]),
            ("cat <<E\na", &["cat <<E = cat a"]),
            ("ls |", &["ls = ls |"]),
            ("ls >", &["ls = ls"]),
            ("", &[]),
        ] {
            assert_eq!(render_commands(script), expected, "{script}");
        }
    }
}
