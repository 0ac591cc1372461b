//! What a digest of one output must keep: several cases a file in `tests/outputs/*.txt`, where the exact text would say too much.
//!
//! ```text
//! # The test that failed is named, and so are the totals.      the idea
//! peer: rtk names the tests that fail and counts the others    who does so too, and why it serves (for the reader only)
//! call: bash cargo test                                        the call, as `support/notation.rs` writes it; left out: none
//! tokens: 150                                                  the budget; left out: 220, as on the command line
//! flag: failed                                                 what the wire says of the result; or `succeeded`; left out: nothing
//! == output
//! for n in 1..40                                               the indented lines so often, with {n} as the number
//!   test part_{n} ... ok
//! test part_41 ... FAILED
//! == holds
//! kind tests                                                   what it was taken for
//! digest has part_41                                           also `lacks`
//! line has 40 passed, 1 failed                                 the one-line form; also `lacks`
//! digest at most 60 tokens
//! ```
//!
//! Whatever a case is about, a digest keeps to its budget, and is not longer than the output.

use std::path::PathBuf;

use libtest_mimic::{Failed, Trial};
use longhaul_engine::digest::{Focus, ToolOutput, digest, one_line_digest};
use longhaul_engine::tokens::{Tokens, estimate};

use crate::support::notation::{self, Part};

struct Case {
    head: Vec<String>,
    output: String,
    holds: Vec<String>,
}

pub fn trials() -> Vec<Trial> {
    crate::files("outputs").into_iter().flat_map(of_file).collect()
}

fn of_file(path: PathBuf) -> Vec<Trial> {
    let text = std::fs::read_to_string(&path).unwrap();
    let cases = Case::all(&text).into_iter();
    let trials = cases.map(|case| {
        let idea = case.head[0].trim_start_matches("# ").to_owned();
        Trial::test(format!("outputs/{}: {idea}", crate::stem(&path)), move || case.judge())
    });
    trials.collect()
}

impl Case {
    /// The cases of a file. An output may have lines that begin as an idea does, so it ends at `== holds` alone.
    fn all(text: &str) -> Vec<Self> {
        let mut cases = Vec::new();
        let mut lines = text.lines().peekable();
        while lines.peek().is_some() {
            let mut until = |end: fn(&str) -> bool| {
                let mut part = Vec::new();
                while let Some(line) = lines.next_if(|line| !end(line)) {
                    part.push(line.to_owned());
                }
                part
            };
            let head = until(|line| line == "== output");
            let output = until(|line| line == "== holds");
            let holds = until(|line| line.starts_with("# "));
            assert!(head.iter().any(|line| line.starts_with("# ")), "an idea is missing before {output:?}");
            assert!(holds.len() > 1, "nothing must hold of {head:?}");
            cases.push(Self { head, output: repeated(&output[1..]), holds });
        }
        cases
    }

    fn field(&self, name: &str) -> Option<&str> {
        self.head.iter().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    fn judge(&self) -> Result<(), Failed> {
        let call = self.field("call").map(notation::part_of);
        let (tool, arguments) = match &call {
            Some(Part::Call { tool, arguments, .. }) => (Some(tool.as_str()), Some(arguments.as_str())),
            Some(other) => panic!("{other:?} is no call"),
            None => (None, None),
        };
        let failed = self.field("flag").map(|flag| match flag {
            "failed" => true,
            "succeeded" => false,
            other => panic!("what is the flag `{other}`?"),
        });
        let focus = Focus::from_texts(self.field("focus"));
        let source = ToolOutput {
            text: &self.output,
            original_bytes: None,
            tool,
            arguments,
            kind: None,
            failed,
            focus: &focus,
            recall_id: None,
        };
        let budget = Tokens(self.field("tokens").map_or(220, |tokens| tokens.parse().unwrap()));
        let made = digest(&source, budget);
        let line = one_line_digest(&source).text;
        let size = estimate(&made.text);
        let mut wrong = Vec::new();
        if size > budget {
            wrong.push(format!("{size} tokens are more than {budget}"));
        }
        if made.text.len() > self.output.len() {
            wrong.push("the digest is longer than the output".to_owned());
        }
        for hold in self.holds[1..].iter().map(|line| line.trim()).filter(|line| !line.is_empty()) {
            let (what, rest) = hold.split_once(' ').unwrap_or((hold, ""));
            let held = match (what, rest.split_once(' ').unwrap_or((rest, ""))) {
                ("kind", _) => made.kind.name() == rest,
                ("digest", ("has", text)) => made.text.contains(text),
                ("digest", ("lacks", text)) => !made.text.contains(text),
                ("digest", ("at", most)) => {
                    let most = most.trim_start_matches("most ").trim_end_matches(" tokens");
                    size <= Tokens(most.parse().unwrap())
                }
                ("line", ("has", text)) => line.contains(text),
                ("line", ("lacks", text)) => !line.contains(text),
                _ => panic!("what is `{hold}`?"),
            };
            if !held {
                wrong.push(format!("`{hold}` does not hold"));
            }
        }
        if wrong.is_empty() {
            return Ok(());
        }
        wrong.push(format!("the {} digest:\n{}\n\nthe line:\n{line}", made.kind.name(), made.text));
        Err(wrong.join("\n").into())
    }
}

/// The lines, with those of a loop as often as it says.
fn repeated(lines: &[String]) -> String {
    let mut out = String::new();
    let mut lines = lines.iter().peekable();
    while let Some(line) = lines.next() {
        let Some(range) = line.strip_prefix("for n in ") else {
            out.push_str(line);
            out.push('\n');
            continue;
        };
        let (first, last) = notation::numbers(range);
        let mut block = Vec::new();
        while let Some(line) = lines.next_if(|line| line.starts_with("  ")) {
            block.push(&line[2..]);
        }
        for n in first..=last {
            for line in &block {
                out.push_str(&line.replace("{n}", &n.to_string()));
                out.push('\n');
            }
        }
    }
    notation::expanded(&out)
}
