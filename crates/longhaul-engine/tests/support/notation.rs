//! A transcript in a few lines, one line a unit, that can be written as a body of any dialect.
//!
//! ```text
//! system   You are careful.                     the system prompt
//! tools    12                                   so many tool definitions beside those of the tools that are called
//! user     fix the config                       something said to the model
//! host     <system-reminder>…                   the same, where the program around the model says it (nothing else differs)
//! reply    I will look at both.                 something the model said; a step
//! + read   a.toml → port = 80                   `+` goes on with the unit: another call in the same reply,
//! + read   b.toml ✗ no such file                this one with a result that the wire marks as failed (where it can)
//! read     a.toml → first ¦ second ¦ image 8x8  any other word is a tool: a step of one call; `¦` parts the blocks of a result
//! bash     make test                            no arrow: the call has no result (open at the end, else aborted)
//! write    a.py := x = 1 → ok                   a path and a content
//! ask      {"question":"which?"} → the left one  arguments as JSON, where the word has more than one
//! patch    `*** Begin Patch` → done             arguments that are no JSON
//! orphan   → ok                                 a result without a call
//! user     what is this?
//! + image  800x600                              a picture
//! + text   and this                             another block of text
//! think    hm                                   reasoning as plain words; goes before the reply or call that follows it with `+`
//! sealed   hm                                   the same, signed or encrypted
//! for n in 1..200                               the indented lines so often, with {n} as the number
//!   bash   make t{n} → «log 1..40»ok
//! ```
//!
//! In every text `\n` is a line end, and `«…»` is made up, always the same way: `«abc × 400»` repeats, `«lines 1..200 of
//! src/a.py»` is that part of a file, `«log 1..300»` is that part of a log, `«words 500 seed»` is prose of so many words, another
//! for each seed. A line that begins with a number has it for the reader only.

use std::fmt::Write as _;

use super::Numbers;

/// A transcript before it is written in a dialect.
#[derive(Debug, Clone, Default)]
pub struct Session {
    pub system: Option<String>,
    /// How many tool definitions there are beside those of the tools that are called.
    pub further_tools: usize,
    pub units: Vec<Unit>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Unit {
    pub by: By,
    pub parts: Vec<Part>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    User,
    Assistant,
    /// A result without a call.
    Tool,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Part {
    Text(String),
    Image {
        width: u32,
        height: u32,
    },
    Thought {
        text: String,
        seal: Seal,
    },
    Call {
        tool: String,
        arguments: String,
        answer: Option<Answer>,
    },
    /// A result without a call.
    Orphan(Answer),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seal {
    Plain,
    Sealed,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    pub blocks: Vec<Part>,
    pub failed: bool,
}

impl Session {
    /// Adds what the lines say.
    pub fn extend<'t>(&mut self, lines: impl Iterator<Item = &'t str>) {
        let mut lines = lines.filter(|line| !line.trim().is_empty()).peekable();
        while let Some(line) = lines.next() {
            let Some(range) = line.strip_prefix("for n in ") else {
                self.line(line);
                continue;
            };
            let (first, last) = numbers(range);
            let mut block = Vec::new();
            while let Some(line) = lines.next_if(|line| line.starts_with("  ")) {
                block.push(line.trim());
            }
            for n in first..=last {
                for line in &block {
                    self.line(&line.replace("{n}", &n.to_string()));
                }
            }
        }
    }

    fn line(&mut self, line: &str) {
        let line = line.trim().trim_start_matches(|c: char| c.is_ascii_digit()).trim_start();
        let (goes_on, line) = line.strip_prefix("+ ").map_or((false, line), |rest| (true, rest.trim_start()));
        let (word, rest) = line.split_once(' ').map_or((line, ""), |(word, rest)| (word, rest.trim_start()));
        if word == "system" {
            self.system = Some(text(rest));
            return;
        }
        if word == "tools" {
            self.further_tools = rest.parse().unwrap_or_else(|_| panic!("`tools` wants a number: {line}"));
            return;
        }
        let part = part(word, rest);
        let by = match (word, &part) {
            ("user" | "host", _) => By::User,
            (_, Part::Orphan(_)) => By::Tool,
            _ => By::Assistant,
        };
        if goes_on {
            let turn = self.units.last_mut().unwrap_or_else(|| panic!("nothing to go on with: {line}"));
            turn.parts.push(part);
        } else {
            self.units.push(Unit { by, parts: vec![part] });
        }
    }

    /// The names of the tools that are called, in order of first sight.
    pub fn tools(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for part in self.units.iter().flat_map(|turn| &turn.parts) {
            if let Part::Call { tool, .. } = part
                && !names.contains(&tool.as_str())
            {
                names.push(tool);
            }
        }
        names
    }
}

/// What one line says beside who says it.
pub fn part_of(line: &str) -> Part {
    let (word, rest) = line.split_once(' ').map_or((line, ""), |(word, rest)| (word, rest.trim_start()));
    part(word, rest)
}

fn part(word: &str, rest: &str) -> Part {
    match word {
        "user" | "host" | "reply" | "text" => Part::Text(text(rest)),
        "image" => image(rest).unwrap_or_else(|| panic!("`image` wants a size: {rest}")),
        "think" => Part::Thought { text: text(rest), seal: Seal::Plain },
        "sealed" => Part::Thought { text: text(rest), seal: Seal::Sealed },
        "orphan" => {
            let result = rest.strip_prefix('→').unwrap_or_else(|| panic!("`orphan` wants a result: {rest}"));
            Part::Orphan(answer(result, false))
        }
        tool => call(tool, rest),
    }
}

fn image(size: &str) -> Option<Part> {
    let (width, height) = size.trim().split_once('x')?;
    Some(Part::Image { width: width.parse().ok()?, height: height.parse().ok()? })
}

fn call(tool: &str, rest: &str) -> Part {
    let arrow = [("→", false), ("✗", true)].into_iter().filter_map(|(arrow, failed)| {
        let with_space = format!(" {arrow}");
        rest.find(&with_space).map(|at| (at, with_space.len(), failed))
    });
    let (arguments, answer) = match arrow.min() {
        Some((at, len, failed)) => (&rest[..at], Some(answer(&rest[at + len..], failed))),
        None => (rest, None),
    };
    Part::Call { tool: tool.to_owned(), arguments: json_arguments(tool, arguments.trim()), answer }
}

/// Arguments as JSON: as they stand, or one word or two under the names that most agents use.
fn json_arguments(tool: &str, words: &str) -> String {
    if words.starts_with('{') {
        return expanded(words).replace('\n', "\\n");
    }
    if let Some(raw) = words.strip_prefix('`').and_then(|words| words.strip_suffix('`')) {
        return text(raw);
    }
    if let Some((path, content)) = words.split_once(" := ") {
        return serde_json::json!({"path": path, "content": text(content)}).to_string();
    }
    let key = match tool {
        "bash" | "terminal" => "command",
        "search" => "pattern",
        "fetch" => "url",
        _ => "path",
    };
    serde_json::json!({ key: text(words) }).to_string()
}

fn answer(blocks: &str, failed: bool) -> Answer {
    let block = |block: &str| {
        let size = block.trim().strip_prefix("image ").and_then(image);
        size.unwrap_or_else(|| Part::Text(text(block.strip_prefix(' ').unwrap_or(block))))
    };
    Answer { blocks: blocks.split(" ¦").map(block).collect(), failed }
}

pub fn numbers(range: &str) -> (usize, usize) {
    let parsed = range.split_once("..").and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
    parsed.unwrap_or_else(|| panic!("`{range}` is no range like 1..200"))
}

/// A text with its line ends and its made-up parts.
fn text(source: &str) -> String {
    expanded(&source.replace("\\n", "\n"))
}

/// A text with its made-up parts.
pub fn expanded(source: &str) -> String {
    let mut out = String::new();
    let mut rest = source;
    while let Some((before, after)) = rest.split_once('«') {
        let (inside, after) = after.split_once('»').unwrap_or_else(|| panic!("« without » in {source}"));
        out.push_str(before);
        out.push_str(&made_up(inside));
        rest = after;
    }
    out + rest
}

fn made_up(what: &str) -> String {
    let mut out = String::new();
    if let Some((range, path)) = what.strip_prefix("lines ").and_then(|rest| rest.split_once(" of ")) {
        let (first, last) = numbers(range);
        (first..=last).for_each(|n| file_line(&mut out, path, n));
    } else if let Some(range) = what.strip_prefix("log ") {
        let (first, last) = numbers(range);
        for n in first..=last {
            let (minute, second) = (n / 60 % 60, n % 60);
            let took = n * 7 % 97;
            let _ = writeln!(out, "12:{minute:02}:{second:02} INFO worker {} took {took} ms for job {n}", n % 4);
        }
    } else if let Some(rest) = what.strip_prefix("words ") {
        let (count, seed) = rest.split_once(' ').unwrap_or((rest, ""));
        prose(&mut out, count.parse().unwrap_or_else(|_| panic!("how many words? {what}")), seed);
    } else if let Some((piece, times)) = what.rsplit_once(" × ") {
        let times = times.trim().parse().unwrap_or_else(|_| panic!("how often? {what}"));
        out = piece.repeat(times);
    } else {
        panic!("«{what}» is not known");
    }
    out
}

/// A line of a file of source: no two lines of a file, and no two files, are the same.
fn file_line(out: &mut String, path: &str, n: usize) {
    let name = path.rsplit('/').next().unwrap_or(path);
    let name = name.split('.').next().unwrap_or(name);
    let _ = match n % 8 {
        1 => writeln!(out, "def {name}_part_{n}(request, limit={}):", n * 3),
        7 => writeln!(out, "    return {name}_value_{n}"),
        0 => writeln!(out),
        _ => writeln!(out, "    {name}_value_{n} = request.load(\"{name}\", {n})"),
    };
}

/// Words that ask for nothing, forbid nothing and decide nothing.
const WORDS: &str = "the a of to and in that it is was for on with as at by from this be are have had which one all there can \
    more out so up into than them some time other could these may then any like people over such our where after also most \
    through years much your way well down each just those how little state good very world still own see men long here \
    between both life being under day another know while might us great old year off come since against came right used three \
    river stone garden window letter morning music number paper road season silver story summer table voice water winter";

fn prose(out: &mut String, count: usize, seed: &str) {
    let words: Vec<&str> = WORDS.split_whitespace().collect();
    let mut numbers = Numbers(seed.bytes().fold(count as u64, |hash, byte| hash.wrapping_mul(31) + u64::from(byte)));
    for n in 0..count {
        out.push_str(words[numbers.below(words.len())]);
        out.push_str(match n % 12 {
            11 => ". ",
            _ if n + 1 == count => ".",
            _ => " ",
        });
    }
}
