//! Commands by example: several cases a file in `tests/cases/*.txt`.
//!
//! ```text
//! # A body that is only a system prompt has nothing to fold.    the idea
//! peer: Hermes returns it unchanged                             who does so too, and why it serves (for the reader only)
//! == body.json                                                  a file; lines of JSON are joined where the name ends in .json
//! {"messages":[{"role":"system","content":"«word  × 900»"}]}
//! == compress body.json --json --force                          a command; several run one after the other
//! exit 0                                                        what must hold of it; `out` and `err` also `lacks` and `is`
//! out has nothing
//! err lacks panicked
//! json /dialect is "chat"                                       a value of the answer; also `at most 5`, `at least 5`, `absent`
//! out same as body.json                                         byte for byte; also of a file: `file x.json same as body.json`
//! ```
//!
//! `== stdin` is a file that is given to the commands behind it on standard input. `«x × 40»` repeats, `«drawn 36 a»` is so many
//! letters and digits that no file shows, the same for the same name, `\e` opens an escape sequence and `␍` is a carriage return.

use std::path::Path;

use serde_json::Value;

use crate::support::{Folder, Run, longhaul_reading};

#[test]
fn every_case_holds() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let only = std::env::var("CASE").unwrap_or_default();
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let mut count = 0;
    let mut wrong = Vec::new();
    for path in paths {
        let text = std::fs::read_to_string(&path).unwrap();
        let stem = path.file_stem().unwrap().to_string_lossy().into_owned();
        for (at, case) in cases(&text).into_iter().enumerate() {
            let name = format!("{stem}: {}", case.idea);
            if name.contains(&only) {
                count += 1;
                wrong.extend(case.judge(&format!("{stem}-{at}")).map(|why| format!("{name}\n{why}")));
            }
        }
    }
    assert!(count > 0, "no case has `{only}` in its name");
    assert!(wrong.is_empty(), "{} of {count} cases fail\n\n{}", wrong.len(), wrong.join("\n\n"));
}

struct Case<'t> {
    idea: String,
    sections: Vec<(&'t str, Vec<&'t str>)>,
}

fn cases(text: &str) -> Vec<Case<'_>> {
    let mut cases: Vec<Case<'_>> = Vec::new();
    let mut in_head = false;
    for line in text.lines() {
        if let Some(idea) = line.strip_prefix("# ") {
            if in_head {
                let case = cases.last_mut().unwrap();
                case.idea = format!("{} {idea}", case.idea);
            } else {
                cases.push(Case { idea: idea.to_owned(), sections: Vec::new() });
            }
            in_head = true;
            continue;
        }
        let case = cases.last_mut().expect("a file begins with an idea");
        if let Some(heading) = line.strip_prefix("== ") {
            case.sections.push((heading, Vec::new()));
            in_head = false;
        } else if let Some((_, lines)) = case.sections.last_mut() {
            lines.push(line);
        }
    }
    cases
}

impl Case<'_> {
    /// Why it does not hold.
    fn judge(&self, name: &str) -> Option<String> {
        let folder = Folder::new(&format!("case-{name}"));
        let mut stdin = Vec::new();
        let mut wrong = Vec::new();
        for (heading, lines) in &self.sections {
            let lines: Vec<&str> = lines.iter().rev().skip_while(|line| line.is_empty()).copied().collect::<Vec<_>>();
            let lines: Vec<String> = lines.iter().rev().map(|line| made(line)).collect();
            let words: Vec<String> = heading.split(' ').map(made).collect();
            if words.len() == 1 && (words[0].contains('.') || words[0] == "stdin") {
                let is_json = words[0].rsplit('.').next() == Some("json");
                let text = lines.join(if is_json { "" } else { "\n" }) + if is_json { "" } else { "\n" };
                match words[0].as_str() {
                    "stdin" => stdin = text.into_bytes(),
                    file => drop(folder.file(file, text)),
                }
                continue;
            }
            let arguments: Vec<&str> = words.iter().map(String::as_str).collect();
            let run = longhaul_reading(&folder, &arguments, &[], &stdin);
            let refuted = lines.iter().filter_map(|line| refutes(&folder, &run, line.trim()));
            let refuted: Vec<String> = refuted.collect();
            if !refuted.is_empty() {
                let shown = |text: &str| text.chars().take(3000).collect::<String>();
                wrong.push(format!(
                    "`longhaul {heading}`: {}\nexit {}\n--- out\n{}\n--- err\n{}",
                    refuted.join("; "),
                    run.code,
                    shown(&run.out),
                    shown(&run.err)
                ));
            }
        }
        if wrong.is_empty() { None } else { Some(wrong.join("\n")) }
    }
}

/// Why a line does not hold.
fn refutes(folder: &Folder, run: &Run, line: &str) -> Option<String> {
    let read = |name: &str| std::fs::read_to_string(folder.0.join(name)).unwrap_or_default();
    let (what, rest) = line.split_once(' ').unwrap_or((line, ""));
    let held = match what {
        "exit" => run.code.to_string() == rest,
        "out" => says(&run.out, rest, &read),
        "err" => says(&run.err, rest, &read),
        "file" => {
            let (name, rest) = rest.split_once(' ').unwrap();
            says(&read(name), rest, &read)
        }
        "json" => value_holds(&run.out, rest),
        _ => panic!("what is `{line}`?"),
    };
    (!held).then(|| format!("`{line}` does not hold"))
}

fn says(text: &str, rest: &str, read: &dyn Fn(&str) -> String) -> bool {
    let (verb, wanted) = rest.split_once(' ').unwrap_or((rest, ""));
    match verb {
        "has" => text.contains(wanted),
        "lacks" => !text.contains(wanted),
        "is" => text.trim_end() == wanted,
        "lines" => text.lines().count().to_string() == wanted,
        "same" => text.trim_end() == read(wanted.trim_start_matches("as ")).trim_end(),
        _ => panic!("what is `{rest}`?"),
    }
}

fn value_holds(text: &str, rest: &str) -> bool {
    let Ok(answer) = serde_json::from_str::<Value>(text) else { return false };
    let (pointer, rest) = rest.split_once(' ').unwrap();
    let value = answer.pointer(pointer);
    if rest == "absent" {
        return value.is_none_or(Value::is_null);
    }
    let Some(value) = value else { return false };
    let number = value.as_f64().or_else(|| value.as_array().map(|items| items.len() as f64));
    let bound = |prefix: &str| rest.strip_prefix(prefix).map(|bound| bound.trim().parse::<f64>().unwrap());
    if let Some(most) = bound("at most") {
        return number.is_some_and(|number| number <= most);
    }
    if let Some(least) = bound("at least") {
        return number.is_some_and(|number| number >= least);
    }
    if let Some(wanted) = rest.strip_prefix("has ") {
        return value.to_string().contains(wanted);
    }
    let wanted = rest.strip_prefix("is ").unwrap_or_else(|| panic!("what is `{rest}`?"));
    *value == serde_json::from_str::<Value>(wanted).unwrap()
}

/// A text with its made-up parts.
fn made(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('«') {
        let (inside, after) = after.split_once('»').unwrap_or_else(|| panic!("« without » in {text}"));
        out.push_str(before);
        if let Some((piece, times)) = inside.rsplit_once(" × ") {
            out.push_str(&piece.repeat(times.trim().parse().unwrap()));
        } else {
            let mut words = inside.split(' ').skip(1);
            let length = words.next().and_then(|word| word.parse().ok()).unwrap();
            out.push_str(&drawn(length, words.next().unwrap_or_default()));
        }
        rest = after;
    }
    out.push_str(rest);
    out.replace("\\e", "\u{1b}").replace('␍', "\r")
}

/// Letters and digits as a key has them, the same for the same name.
fn drawn(length: usize, name: &str) -> String {
    const CHARS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    let mut state = name
        .bytes()
        .fold(0x9e37_79b9_7f4a_7c15_u64, |state, byte| (state ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    let mut next_char = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(CHARS[usize::try_from(state % CHARS.len() as u64).unwrap()])
    };
    (0..length).map(|_| next_char()).collect()
}
