//! A body in short lines, each unit under the number that it has in the session: what stayed as it was is `=`.

use std::fmt::Write as _;

use longhaul_engine::texts::CHECKPOINT_OPENING;
use longhaul_engine::transcript::{Block, BlockKind, CallStatus, Seal, ToolCall, Transcript, Turn, TurnKind};
use serde_json::Value;

/// What became of a unit of the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    Verbatim,
    Changed,
    Gone,
}

/// The checkpoint in a body, and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seated {
    pub text: String,
    pub seat: Seat,
    /// Among the units of the output.
    pub at: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seat {
    /// A message of its own, of this role.
    Message(String),
    /// A block in the message of this unit of the session.
    BlockOf(usize),
}

/// A session beside what became of it.
pub struct View<'t, 'b> {
    original: &'t Transcript<'b>,
    output: &'t Transcript<'b>,
    /// For each unit of the output, the session's unit that it is; a checkpoint is none.
    numbers: Vec<Option<usize>>,
}

impl<'t, 'b> View<'t, 'b> {
    pub fn new(original: &'t Transcript<'b>, output: &'t Transcript<'b>) -> Self {
        let mut numbers = vec![None; output.turns.len()];
        let mut next = original.turns.len();
        for (at, turn) in output.turns.iter().enumerate().rev() {
            // What somebody wrote in the form of a checkpoint is a unit of the session.
            let is_said = || original.turns.iter().any(|said| content(said) == content(turn));
            if matches!(turn.kind, TurnKind::Checkpoint(_)) && !is_said() {
                continue;
            }
            let same = |number: &usize| opening(&original.turns[*number]) == opening(turn);
            let by_words = || (0..next).rev().find(same);
            let number = number_in_ids(output, turn).or_else(by_words).or(next.checked_sub(1));
            let number = number.unwrap_or_else(|| panic!("what is this?\n{turn:?}"));
            assert!(number < next, "unit {number} stands before unit {next}, or twice");
            numbers[at] = Some(number);
            next = number;
        }
        Self { original, output, numbers }
    }

    pub fn place(&self, number: usize) -> Option<usize> {
        self.numbers.iter().position(|n| *n == Some(number))
    }

    pub fn fate(&self, number: usize) -> Fate {
        match self.place(number) {
            None => Fate::Gone,
            Some(at) if content(&self.original.turns[number]) == content(&self.output.turns[at]) => Fate::Verbatim,
            Some(_) => Fate::Changed,
        }
    }

    pub fn unit(&self, number: usize) -> Option<&Turn<'b>> {
        self.place(number).map(|at| &self.output.turns[at])
    }

    /// The units whose results no longer say of themselves that they failed, or say so now.
    pub fn changed_flags(&self) -> Vec<usize> {
        let flags = |turn: &Turn<'_>| match &turn.kind {
            TurnKind::Assistant { tool_calls: exchanges, .. } => {
                exchanges.iter().map(|tool_call| tool_call.failed).collect()
            }
            _ => Vec::new(),
        };
        let numbers = self.numbers.iter().zip(&self.output.turns);
        let numbers = numbers.filter_map(|(number, turn)| Some(((*number)?, turn)));
        let changed = numbers.filter(|(number, turn)| flags(turn) != flags(&self.original.turns[*number]));
        changed.map(|(number, _)| number).collect()
    }

    /// The checkpoints, of which there should be at most one.
    pub fn checkpoints(&self) -> Vec<Seated> {
        let body: Value = serde_json::from_str(self.output.body).unwrap();
        let list = body.get("messages").or(body.get("input")).unwrap();
        let message_of = |at: usize| {
            self.output.turns[at].owned_elements.first().and_then(|element| self.output.message_of(*element))
        };
        let turns = self.output.turns.iter().enumerate();
        let checkpoints = turns.filter_map(|(at, turn)| match &turn.kind {
            TurnKind::Checkpoint(block) if self.numbers[at].is_none() => Some((at, block)),
            _ => None,
        });
        let seated = checkpoints.map(|(at, block)| {
            let message = message_of(at);
            let neighbours = [at.checked_sub(1), Some(at + 1)].into_iter().flatten();
            let shared = neighbours
                .filter(|n| *n < self.output.turns.len() && message_of(*n) == message)
                .find_map(|n| self.numbers[n]);
            let role = list[message.unwrap()]["role"].as_str().unwrap_or_default().to_owned();
            let seat = shared.map_or(Seat::Message(role), Seat::BlockOf);
            Seated { text: block.text().into_owned(), seat, at }
        });
        seated.collect()
    }

    /// The whole output.
    pub fn lines(&self) -> String {
        let mut out = String::new();
        let mut checkpoints = self.checkpoints().into_iter();
        let mut next = 0;
        let mut at = 0;
        while at < self.numbers.len() {
            let Some(number) = self.numbers[at] else {
                checkpoints.next().into_iter().for_each(|seated| write_checkpoint(&mut out, &seated));
                at += 1;
                continue;
            };
            if number > next {
                let _ = writeln!(out, "{} gone", range(next, number - 1));
            }
            let fate = self.fate(number);
            let in_run =
                |n: &usize| self.numbers.get(at + n) == Some(&Some(number + n)) && self.fate(number + n) == fate;
            let run = (0..self.numbers.len() - at).take_while(in_run).count();
            match fate {
                Fate::Verbatim => {
                    let _ = writeln!(out, "{} =", range(number, number + run - 1));
                }
                _ => self.write_changed(&mut out, at, run),
            }
            at += run;
            next = number + run;
        }
        if next < self.original.turns.len() {
            let _ = writeln!(out, "{} gone", range(next, self.original.turns.len() - 1));
        }
        out
    }

    /// A run of changed units: all of a few, the first and the last of many.
    fn write_changed(&self, out: &mut String, at: usize, run: usize) {
        const FEW: usize = 5;
        for n in 0..run {
            let number = self.numbers[at + n].unwrap_or_default();
            if run > FEW && n == 2 {
                let _ = writeln!(out, "{} likewise", range(number, number + run - 4));
            }
            if run <= FEW || n < 2 || n + 1 == run {
                write_unit(out, number, &self.output.turns[at + n], &self.original.turns[number]);
            }
        }
    }
}

fn range(first: usize, last: usize) -> String {
    if first == last { format!("{first:02}") } else { format!("{first:02}..{last:02}") }
}

/// The number that the ids of a unit's calls and results carry.
fn number_in_ids(transcript: &Transcript<'_>, turn: &Turn<'_>) -> Option<usize> {
    let TurnKind::Assistant { tool_calls: exchanges, .. } = &turn.kind else { return None };
    let in_answers =
        exchanges.iter().flat_map(|e| &e.result_elements).map(|id| &transcript.body[transcript.span_of(*id).range()]);
    let in_calls = exchanges.iter().filter_map(|e| e.call.as_ref()).map(Block::raw);
    let number = |json: &str| {
        let digits = json.split("\"call_").nth(1)?.split('_').next()?;
        digits.parse().ok()
    };
    in_calls.chain(in_answers).find_map(number)
}

fn opening(turn: &Turn<'_>) -> Option<(bool, String)> {
    let is_step = matches!(turn.kind, TurnKind::Assistant { .. });
    let text = turn.blocks().find(|block| block.kind == BlockKind::Text)?;
    Some((is_step, text.text().into_owned()))
}

/// Everything that a unit says, however it is written.
fn content(turn: &Turn<'_>) -> Vec<(String, String)> {
    let words = |block: &Block<'_>| {
        if block.text.is_some() { block.text().into_owned() } else { block.raw().to_owned() }
    };
    turn.blocks().map(|block| (kind(block).to_owned(), words(block))).collect()
}

fn kind(block: &Block<'_>) -> &'static str {
    match block.kind {
        BlockKind::Text => "text",
        BlockKind::Image(_) => "image",
        BlockKind::Document(_) => "document",
        BlockKind::Reasoning(Seal::Sealed) => "sealed",
        BlockKind::Reasoning(Seal::Unsealed) => "think",
        BlockKind::Call => "call",
        _ => "other",
    }
}

/// One changed unit: what changed at length, what did not in short.
fn write_unit(out: &mut String, number: usize, turn: &Turn<'_>, original: &Turn<'_>) {
    let before = content(original);
    let words = |block: &Block<'_>| {
        let is_new = !before.iter().any(|(k, text)| k == kind(block) && *text == *block.text());
        shown(&block.text(), if is_new { 400 } else { 60 })
    };
    let mut lines: Vec<String> = Vec::new();
    match &turn.kind {
        TurnKind::Prompt { blocks, .. } => lines.extend(blocks.iter().map(|block| match kind(block) {
            "text" => format!("user {}", words(block)),
            other => other.to_owned(),
        })),
        TurnKind::Assistant { reply, tool_calls: exchanges } => {
            lines.extend(reply.iter().map(|block| match kind(block) {
                "text" => format!("reply {}", words(block)),
                other => format!("{other} {}", words(block)),
            }));
            lines.extend(exchanges.iter().map(|tool_call| exchange_line(tool_call, &words)));
        }
        TurnKind::Checkpoint(_) | TurnKind::Opaque(_) => lines.push("opaque".to_owned()),
    }
    for (n, line) in lines.iter().enumerate() {
        let lead = if n == 0 { format!("{number:02}") } else { " +".to_owned() };
        let _ = writeln!(out, "{lead} {line}");
    }
}

fn exchange_line(tool_call: &ToolCall<'_>, words: &impl Fn(&Block<'_>) -> String) -> String {
    let tool = if tool_call.status == CallStatus::Orphan { "orphan" } else { &tool_call.tool };
    let call = tool_call.call.as_ref().map(|call| format!(" {}", words(call))).unwrap_or_default();
    let results = tool_call.results.iter().map(|block| match kind(block) {
        "text" => words(block),
        other => other.to_owned(),
    });
    let results = results.collect::<Vec<_>>().join(" ¦ ");
    if tool_call.result_elements.is_empty() { format!("{tool}{call}") } else { format!("{tool}{call} → {results}") }
}

/// A text on one line, its middle left out where it is long.
fn shown(text: &str, most: usize) -> String {
    let line = text.replace('\n', "\\n");
    let count = line.chars().count();
    if count <= most {
        return line;
    }
    let start: String = line.chars().take(most * 2 / 3).collect();
    let end: String = line.chars().skip(count - most / 3).collect();
    format!("{start} … {end} ({count} characters)")
}

/// The checkpoint with the sections that say something; its marker and its end mark have a case of their own.
fn write_checkpoint(out: &mut String, seated: &Seated) {
    let seat = match &seated.seat {
        Seat::Message(role) => format!("as {role}"),
        Seat::BlockOf(number) => format!("in the message of {number:02}"),
    };
    let _ = writeln!(out, "-- checkpoint {seat}, request {}", seated.request());
    for (title, lines) in seated.sections() {
        if lines == ["None."] {
            continue;
        }
        let _ = writeln!(out, "   ## {title}");
        for run in lines.chunk_by(|a, b| without_numbers(a) == without_numbers(b)) {
            let few = run.len() <= 4;
            let shown_lines = if few { run } else { &run[..2] };
            for line in shown_lines {
                let _ = writeln!(out, "   {}", shown(line, 240));
            }
            if let (false, Some(last)) = (few, run.last()) {
                let _ = writeln!(out, "   … {} alike\n   {}", run.len() - 3, shown(last, 240));
            }
        }
    }
}

fn without_numbers(line: &str) -> String {
    line.chars().filter(|c| !c.is_ascii_digit()).collect()
}

impl Seated {
    /// Where the marker says that the request is.
    pub fn request(&self) -> &'static str {
        let marker = self.text.lines().next().unwrap_or_default();
        match (marker.contains("The request follows"), marker.contains("The request is above")) {
            (true, false) => "follows",
            (false, true) => "above",
            _ => "not said",
        }
    }

    pub fn sections(&self) -> Vec<(&str, Vec<&str>)> {
        assert!(self.text.starts_with(CHECKPOINT_OPENING));
        let mut sections: Vec<(&str, Vec<&str>)> = Vec::new();
        let end = |line: &&str| !line.starts_with("[End of the checkpoint");
        for line in self.text.lines().take_while(end).filter(|line| !line.is_empty()) {
            if let Some(title) = line.strip_prefix("## ") {
                sections.push((title, Vec::new()));
            } else if let Some((_, lines)) = sections.last_mut() {
                lines.push(line);
            }
        }
        sections
    }
}
