//! What a case says must hold of a round, where the exact text would say too much.
//!
//! ```text
//! changed                          something was rewritten
//! unchanged because TEXT           nothing was, and the reason has TEXT in it
//! reached | not reached            whether it fits the window and the size that was asked for
//! checkpoint | no checkpoint       whether there is one (there are never two)
//! checkpoint has TEXT              the checkpoint has TEXT in it; also `lacks`
//! lines with TEXT say A or B       there are lines of the checkpoint with TEXT in them, and each has A or B in it too
//! section TITLE is TEXT            a section has this one entry and no other; also `has`, `lacks`, `is empty`
//! output has TEXT                  some text of the body has TEXT in it; also `lacks`
//! reason has TEXT, note has TEXT   the report's own words; also `lacks`
//! 4 verbatim                       the unit is there and says the same; also `changed`, `gone`, and ranges: `4..9 gone`
//! 4 has TEXT                       some text of that unit has TEXT in it; also `lacks`
//! 4 keeps its reasoning            also `loses`
//! role of checkpoint user          its message's role; `block of 4`: it stands in the message of that unit
//! request follows                  where the marker says that the request is; or `above`
//! checkpoint before 4              where it stands; also `after`
//! tokens at most 2000              of the result; also `at least`
//! saves at least 40 %
//! checkpoint tokens at most 400    of the checkpoint alone
//! ```
//!
//! TEXT may be in quotes. `chat: …` in front makes a line hold in that dialect only.

use longhaul_engine::plan::CompactionReport;
use longhaul_engine::transcript::{BlockKind, Transcript};
use longhaul_engine::{ApiFormat, Tokens};

use crate::render::{Fate, Seat, Seated, View};

/// What a round came to.
pub struct Held<'t, 'b> {
    pub dialect: ApiFormat,
    pub view: &'t View<'t, 'b>,
    pub output: &'t Transcript<'b>,
    pub report: &'t CompactionReport,
    pub count: &'t dyn Fn(&str) -> Tokens,
}

impl Held<'_, '_> {
    /// Why a line does not hold.
    pub fn refutes(&self, line: &str) -> Option<String> {
        let mut line = line.trim();
        for api_format in ApiFormat::ALL {
            if let Some(rest) = line.strip_prefix(&format!("{api_format}: ")) {
                if api_format != self.dialect {
                    return None;
                }
                line = rest;
            }
        }
        self.judge(line).err()
    }

    fn judge(&self, line: &str) -> Result<(), String> {
        let report = self.report;
        if line == "changed" {
            return when(report.changed, || format!("left: {}", report.reason));
        }
        if let "reached" | "not reached" = line {
            return when(report.reached == (line == "reached"), || format!("reached: {}", report.reached));
        }
        if let Some(why) = line.strip_prefix("unchanged") {
            when(!report.changed, || format!("changed: {}", report.reason))?;
            return has(&report.reason, "has", why.trim().trim_start_matches("because "));
        }
        if let Some(rest) = line.strip_prefix("reason ") {
            let (verb, text) = verb(rest)?;
            return has(&report.reason, verb, text);
        }
        if let Some(rest) = line.strip_prefix("note ") {
            let (verb, text) = verb(rest)?;
            return has(&report.notes.join("\n"), verb, text);
        }
        if let Some(rest) = line.strip_prefix("output ") {
            let (verb, text) = verb(rest)?;
            return has(&self.words(), verb, text);
        }
        if let Some(rest) = line.strip_prefix("tokens ") {
            return amount(rest, report.tokens.after.number() as f64);
        }
        if let Some(rest) = line.strip_prefix("saves ") {
            return amount(rest.trim_end_matches(" %"), 100.0 * report.ratio);
        }
        if line.starts_with(|c: char| c.is_ascii_digit()) {
            return self.judge_units(line);
        }
        if line == "no checkpoint" {
            return when(self.view.checkpoints().is_empty(), || "there is one".to_owned());
        }
        let checkpoints = self.view.checkpoints();
        let [seated] = checkpoints.as_slice() else {
            return Err(format!("{} checkpoints", checkpoints.len()));
        };
        self.judge_checkpoint(line, seated)
    }

    fn judge_checkpoint(&self, line: &str, seated: &Seated) -> Result<(), String> {
        if line == "checkpoint" {
            return Ok(());
        }
        if let Some(rest) = line.strip_prefix("checkpoint tokens ") {
            return amount(rest, (self.count)(&seated.text).number() as f64);
        }
        if let Some(rest) = line.strip_prefix("section ") {
            return judge_section(rest, seated);
        }
        if let Some((with, say)) = line.strip_prefix("lines with ").and_then(|rest| rest.split_once(" say ")) {
            let lines: Vec<&str> = seated.text.lines().filter(|line| line.contains(unquoted(with))).collect();
            let says = |line: &&str| say.split(" or ").any(|words| line.contains(unquoted(words)));
            when(!lines.is_empty(), || format!("there are none in\n{}", seated.text))?;
            return when(lines.iter().all(says), || lines.join("\n"));
        }
        if let Some(wanted) = line.strip_prefix("role of checkpoint ") {
            let seat = match &seated.seat {
                Seat::Message(role) => role.clone(),
                Seat::BlockOf(number) => format!("block of {number}"),
            };
            return when(seat == wanted, || format!("it is {seat}"));
        }
        if let Some(wanted) = line.strip_prefix("request ") {
            return when(seated.request() == wanted, || format!("it {}", seated.request()));
        }
        let rest = line.strip_prefix("checkpoint ").ok_or("what is this?")?;
        let (verb, text) = verb(rest)?;
        if let ("before" | "after", Ok(number)) = (verb, text.parse()) {
            let place = self.view.place(number).ok_or_else(|| format!("{number} is gone"))?;
            let before = seated.at < place;
            return when(before == (verb == "before"), || {
                format!("it stands at {} and {number} at {place}", seated.at)
            });
        }
        has(&seated.text, verb, text)
    }

    fn judge_units(&self, line: &str) -> Result<(), String> {
        let (numbers, rest) = line.split_once(' ').ok_or("what about it?")?;
        let (first, last) = numbers.split_once("..").unwrap_or((numbers, numbers));
        let number = |text: &str| text.parse::<usize>().map_err(|e| format!("{text}: {e}"));
        for at in number(first)?..=number(last)? {
            self.judge_unit(at, rest).map_err(|why| format!("{at}: {why}"))?;
        }
        Ok(())
    }

    fn judge_unit(&self, number: usize, rest: &str) -> Result<(), String> {
        let fate = self.view.fate(number);
        let wanted = match rest {
            "verbatim" => Some(Fate::Verbatim),
            "changed" => Some(Fate::Changed),
            "gone" => Some(Fate::Gone),
            _ => None,
        };
        if let Some(wanted) = wanted {
            return when(fate == wanted, || format!("it is {fate:?}"));
        }
        let turn = self.view.unit(number).ok_or("it is gone")?;
        let reasons = turn.blocks().any(|block| matches!(block.kind, BlockKind::Reasoning(_)));
        match rest {
            "keeps its reasoning" => when(reasons, || "it has none".to_owned()),
            "loses its reasoning" => when(!reasons, || "it has some".to_owned()),
            _ => {
                let (verb, text) = verb(rest)?;
                let words: String = turn.blocks().map(|block| block.text().into_owned() + "\n").collect();
                has(&words, verb, text)
            }
        }
    }

    fn words(&self) -> String {
        self.output.blocks().map(|block| block.text().into_owned() + "\n").collect()
    }
}

fn judge_section(rest: &str, seated: &Seated) -> Result<(), String> {
    let sections = seated.sections();
    let found = sections.iter().find_map(|(title, lines)| Some((rest.strip_prefix(title)?.trim_start(), lines)));
    let Some((rest, lines)) = found else {
        // A terse checkpoint leaves out what is empty.
        let absent = rest.ends_with(" is empty") || rest.contains(" lacks ");
        return when(absent, || format!("no such section: {:?}", sections.iter().map(|s| s.0).collect::<Vec<_>>()));
    };
    let text = lines.join("\n");
    if rest == "is empty" {
        return when(text == "None.", || text.clone());
    }
    let (verb, wanted) = verb(rest)?;
    if verb == "is" {
        let entry = text.strip_prefix("- ").unwrap_or(&text);
        return when(entry == wanted, || format!("it is {text}"));
    }
    has(&text, verb, wanted)
}

fn when(holds: bool, otherwise: impl Fn() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(otherwise()) }
}

fn verb(rest: &str) -> Result<(&str, &str), String> {
    let (verb, text) = rest.split_once(' ').ok_or("what is this?")?;
    Ok((verb, unquoted(text)))
}

fn unquoted(text: &str) -> &str {
    text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text)
}

fn has(text: &str, verb: &str, wanted: &str) -> Result<(), String> {
    let found = text.contains(wanted);
    match verb {
        "has" => when(found, || format!("it is not in\n{text}")),
        "lacks" => when(!found, || format!("it is in\n{text}")),
        _ => Err(format!("`{verb}` is not known")),
    }
}

fn amount(rest: &str, number: f64) -> Result<(), String> {
    let (bound, wanted) = rest.rsplit_once(' ').ok_or("how many?")?;
    let wanted: f64 = wanted.parse().map_err(|e| format!("{wanted}: {e}"))?;
    let holds = match bound {
        "at most" => number <= wanted,
        "at least" => number >= wanted,
        _ => return Err(format!("`{bound}` is not known")),
    };
    when(holds, || format!("it is {number}"))
}
