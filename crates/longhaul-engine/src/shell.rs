//! A shell script as its commands, however it is quoted and wherever it ends.
//!
//! ```text
//! cd /app && grep -n "a b" x 2>&1 | head -3        cd /app · grep -n `a b` x (piped) · head -3
//! cat > y <<'E'↵text↵E                             cat (writes y, is given "text")
//! ```
//!
//! It is our own because no crate reads what agents write: those that cut words know no operators and no documents, and those
//! that parse refuse a script which was cut off.
//!
//! It uses nothing of the engine.

use std::ops::Range;

/// One command: its words, the files that its output goes to, and the text given to it in place of a file.
#[derive(Debug, Default)]
pub(crate) struct Command {
    pub(crate) words: Vec<Word>,
    pub(crate) writes: Vec<(Word, Write)>,
    pub(crate) document: String,
    /// Whether its output goes into the next command.
    pub(crate) piped: bool,
    /// Where it stands in the script, from its first word to its last,
    pub(crate) at: Range<usize>,
    /// and where in it the places are named that it reads from or writes to.
    pub(crate) redirected: Vec<usize>,
}

/// A word of a command. What is quoted keeps its patterns from the shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Word {
    pub(crate) text: String,
    /// Whether the shell would put something else in its place.
    pub(crate) expands: bool,
}

/// How a command writes a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Write {
    /// From its beginning.
    Anew,
    /// Behind what is in it.
    Behind,
}

/// The commands of a script, in order.
pub(crate) fn commands(script: &str) -> Vec<Command> {
    Lexer { script, rest: script, ..Lexer::default() }.commands()
}

impl Command {
    /// Its name, without the words that only change how it is run.
    pub(crate) fn name(&self) -> &str {
        self.words.get(self.start()).map_or("", |word| word.text.rsplit('/').next().unwrap_or_default())
    }

    /// Whether it opens with these words, as the script writes it.
    pub(crate) fn begins(&self, script: &str, words: &str) -> bool {
        let behind = script[self.at.clone()].strip_prefix(words);
        behind.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
    }

    fn start(&self) -> usize {
        let is_before = |word: &Word| {
            let assigns = word.text.split_once('=').is_some_and(|(name, _)| {
                !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            });
            assigns
                || matches!(
                    word.text.as_str(),
                    "sudo" | "time" | "nohup" | "env" | "command" | "then" | "do" | "else"
                )
        };
        self.words.iter().take_while(|word| is_before(word)).count()
    }

    pub(crate) fn arguments(&self) -> &[Word] {
        self.words.get(self.start() + 1..).unwrap_or_default()
    }

    pub(crate) fn option(&self, name: &str) -> bool {
        self.arguments().iter().any(|word| word.text == name)
    }

    /// Its arguments that are no options.
    pub(crate) fn operands(&self) -> impl Iterator<Item = &Word> {
        let mut only_operands = false;
        self.arguments().iter().filter(move |word| {
            let is_option = !only_operands && word.text.starts_with('-') && word.text.len() > 1;
            only_operands |= word.text == "--";
            !is_option
        })
    }
}

/// Cuts a script into commands.
#[derive(Default)]
struct Lexer<'a> {
    script: &'a str,
    rest: &'a str,
    /// Where the sign stands that is being read, and where the word began.
    at: usize,
    word_at: usize,
    commands: Vec<Command>,
    command: Command,
    word: Option<Word>,
    /// Where the word being read goes, if not to the command.
    redirect: Option<Redirect>,
    /// The documents that begin on the next line: which command each is for, and the line that ends it.
    awaited: Vec<(usize, String)>,
}

#[derive(Clone, Copy)]
enum Redirect {
    Write(Write),
    Document,
    Elsewhere,
}

impl Lexer<'_> {
    fn commands(mut self) -> Vec<Command> {
        while let Some(next) = self.rest.chars().next() {
            self.at = self.script.len() - self.rest.len();
            self.rest = &self.rest[next.len_utf8()..];
            match next {
                ' ' | '\t' => self.end_word(),
                '\n' => {
                    self.end_word();
                    self.end_command();
                    self.documents();
                }
                ';' | '&' | '(' | ')' => {
                    // `2>&1` is one redirection, `&>` another.
                    if next == '&' && (self.redirect.is_some() || self.rest.starts_with('>')) {
                        continue;
                    }
                    self.end_word();
                    self.end_command();
                }
                '|' => {
                    self.end_word();
                    self.command.piped = !self.rest.starts_with('|');
                    self.rest = self.rest.trim_start_matches('|');
                    self.end_command();
                }
                '>' | '<' => self.redirection(next),
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
                '"' => self.quoted(),
                '$' | '*' | '?' | '`' | '{' | '[' => {
                    self.open_word().expands = true;
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
        self.word.get_or_insert(Word { text: String::new(), expands: false })
    }

    fn push(&mut self, character: char) {
        self.open_word().text.push(character);
    }

    fn quoted(&mut self) {
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
                        word.expands |= matches!(other, '$' | '`');
                        word.text.push(other);
                    }
                }
            }
        }
        self.rest = "";
    }

    fn redirection(&mut self, sign: char) {
        // The number before it says which stream; only the output itself is a file that is written.
        let stream = self.word.take_if(|word| matches!(word.text.as_str(), "0" | "1" | "2"));
        self.end_word();
        self.command.redirected.push(if stream.is_some() { self.word_at } else { self.at });
        let doubled = self.rest.starts_with(sign);
        self.rest = self.rest.strip_prefix(sign).unwrap_or(self.rest);
        self.redirect = Some(match (sign, doubled) {
            ('<', true) if self.rest.starts_with('<') => {
                self.rest = &self.rest[1..];
                Redirect::Elsewhere
            }
            ('<', true) => {
                self.rest = self.rest.strip_prefix('-').unwrap_or(self.rest);
                Redirect::Document
            }
            ('<', false) => Redirect::Elsewhere,
            _ if stream.is_some_and(|stream| stream.text != "1") => Redirect::Elsewhere,
            (_, true) => Redirect::Write(Write::Behind),
            (_, false) => Redirect::Write(Write::Anew),
        });
    }

    fn end_word(&mut self) {
        let Some(word) = self.word.take() else { return };
        if self.command.at.is_empty() {
            self.command.at.start = self.command.redirected.first().copied().unwrap_or(self.word_at);
        }
        self.command.at.end = self.at;
        match self.redirect.take() {
            None => self.command.words.push(word),
            Some(Redirect::Write(how)) => {
                // `>&2` writes to a stream.
                if !matches!(word.text.as_str(), "1" | "2") {
                    self.command.writes.push((word, how));
                }
            }
            Some(Redirect::Document) => self.awaited.push((self.commands.len(), word.text)),
            Some(Redirect::Elsewhere) => {}
        }
    }

    /// The documents that the line before announced, each for its command.
    fn documents(&mut self) {
        for (command, end) in std::mem::take(&mut self.awaited) {
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
                command.document.push_str(&self.rest[..at]);
            }
            self.rest = &self.rest[after..];
        }
    }

    fn end_command(&mut self) {
        self.redirect = None;
        let command = std::mem::take(&mut self.command);
        let reads_document = self.awaited.last().is_some_and(|(at, _)| *at == self.commands.len());
        if !command.words.is_empty() || !command.writes.is_empty() || reads_document {
            self.commands.push(command);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each command as it stands in the script, with what it is given.
    fn shown(script: &str) -> Vec<String> {
        let shown = |command: &Command| {
            let words = command.words.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join("·");
            let piped = if command.piped { " |" } else { "" };
            format!("{} = {words}{piped} {}", &script[command.at.clone()], command.document).trim().to_owned()
        };
        commands(script).iter().map(shown).collect()
    }

    #[test]
    fn quotes_documents_and_operators_are_read_as_a_shell_does() {
        for (script, expected) in [
            ("cd /a && ls -l|head", &["cd /a = cd·/a", "ls -l = ls·-l |", "head = head"][..]),
            ("echo 'a; b' \"c | d\" # e; f", &["echo 'a; b' \"c | d\" = echo·a; b·c | d"]),
            ("make >& log; (pwd)", &["make >& log = make", "pwd = pwd"]),
            ("cat > x <<'E'\na; b\nE\nls", &["cat > x <<'E' = cat a; b", "ls = ls"]),
            ("> x echo a 2>&1", &["> x echo a 2>&1 = echo·a"]),
        ] {
            assert_eq!(
                shown(script).iter().map(|s| s.replace('\n', "")).collect::<Vec<_>>(),
                expected,
                "{script}"
            );
        }
    }

    #[test]
    fn what_was_cut_off_is_read_as_far_as_it_goes() {
        for (script, expected) in [
            ("echo 'a; b", &["echo 'a; b = echo·a; b"][..]),
            ("echo \"a \\", &["echo \"a \\ = echo·a \\"]),
            ("cat <<E\na", &["cat <<E = cat a"]),
            ("ls |", &["ls = ls |"]),
            ("ls >", &["ls = ls"]),
            ("", &[]),
        ] {
            assert_eq!(shown(script), expected, "{script}");
        }
    }
}
