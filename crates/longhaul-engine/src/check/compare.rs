//! What must hold between a body and its rewrite.

use std::collections::{HashMap, HashSet, VecDeque};

use serde_json::Value;

use super::align::{Unit, answers, kept, units};
use super::pieces::{Kind, Piece, Pieces, Speaker, pieces};
use super::rules::{A25, G1, G11, R4, V1, V2, V3, V5, V6, V8, V9, V10, X12};
use super::{At, Findings, Request, Severity, Target, Violation, check_value, json, kind};
use crate::Dialect;

/// What a rewrite of `before` into `after` broke; pointers are into `after`. Empty: it did what a rewrite may.
///
/// A rewrite may remove whole units, put one summary in (a message of its own, or a text block of a user message), edit the
/// text of results, the strings inside call arguments and images, drop thinking, move cache marks and add to the end of
/// the system text. Compare does not repeat what [`check`](super::check) finds in `after` alone, except for cache marks and
/// the summary's own message where the original was better.
#[must_use]
pub fn compare(before: &str, after: &str, dialect: Dialect, target: &Target) -> Vec<Violation> {
    let mut findings = Findings::new(target);
    let read = |body| json::read(body, &mut Findings::new(target));
    let (Some(old), Some(new)) = (read(before), read(after)) else {
        findings.report(&G1, "", "one of the two bodies is not JSON, so they cannot be compared");
        return findings.list;
    };
    let requests = (Request::of(&old, before.len(), dialect), Request::of(&new, after.len(), dialect));
    let (Some(old_request), Some(new_request)) = requests else {
        findings.report(
            &G1,
            "",
            format!("one of the two bodies is no {dialect} request, so they cannot be compared"),
        );
        return findings.list;
    };
    let pair = Pair::new(&old_request, &new_request, dialect);
    pair.newest_user_message(&mut findings);
    pair.system(&mut findings);
    pair.thinking(dialect, &old, &mut findings);
    pair.open_step(&mut findings);
    let summary = Matching::new(&pair).judge(&mut findings);
    if dialect == Dialect::Responses {
        reasoning_links(&old_request, &new_request, &mut findings);
    }
    refused(&pair, summary, (&old, before.len()), (&new, after.len()), dialect, &mut findings);
    findings.list
}

/// V5: the second of two runs, over the output of the first with nothing new to fold, gave that output back.
#[must_use]
pub fn repeated(first: &str, second: &str) -> Option<Violation> {
    let differs = first.bytes().zip(second.bytes()).position(|(a, b)| a != b);
    let byte = differs.or((first.len() != second.len()).then(|| first.len().min(second.len())))?;
    Some(Violation {
        rule: V5.number,
        severity: V5.severity,
        at: String::new(),
        message: format!("a second run changed the body at byte {byte}: it must return its input"),
    })
}

struct Pair<'v> {
    before: Pieces<'v>,
    after: Pieces<'v>,
    before_units: Vec<Unit>,
    after_units: Vec<Unit>,
    root: At,
}

impl<'v> Pair<'v> {
    fn new(before: &Request<'v>, after: &Request<'v>, dialect: Dialect) -> Self {
        let root = after.root;
        let (before, after) = (pieces(before, dialect), pieces(after, dialect));
        let (before_units, after_units) = (units(&before.list), units(&after.list));
        Self { before, after, before_units, after_units, root }
    }

    /// V1: the last user message with anything but results in it is a run of pieces of one message afterwards.
    fn newest_user_message(&self, findings: &mut Findings) {
        let said = |list: &[Piece]| -> Vec<(usize, u64)> {
            // A checkpoint under the user's name is nothing that a user said.
            let of_user = |piece: &&Piece| {
                piece.speaker == Speaker::User && piece.kind != Kind::Result && !piece.is_checkpoint()
            };
            list.iter().filter(of_user).map(|piece| (piece.message, piece.exact)).collect()
        };
        let mut wanted = said(&self.before.list);
        let Some(&(newest, _)) = wanted.last() else { return };
        wanted.retain(|(message, _)| *message == newest);
        let whole =
            |run: &[(usize, u64)]| run.iter().zip(&wanted).all(|(is, was)| is.1 == was.1 && is.0 == run[0].0);
        if !said(&self.after.list).windows(wanted.len()).any(whole) {
            let message =
                "the newest user message is not there as it was: leave all of its blocks where they stand";
            findings.report(&V1, self.root, message);
        }
    }

    /// V2.
    fn system(&self, findings: &mut Findings) {
        if !self.after.system.starts_with(&self.before.system) {
            let same =
                self.after.system.bytes().zip(self.before.system.bytes()).take_while(|(a, b)| a == b).count();
            let message =
                format!("the system text differs from byte {same} on: only additions at its end are allowed");
            findings.report(&V2, "", message);
        }
    }

    /// V8, and A25 where thinking is bound to what stands before it.
    fn thinking(&self, dialect: Dialect, before: &Value, findings: &mut Findings) {
        let known: HashSet<u64> =
            self.before.list.iter().filter(|p| p.kind == Kind::Thinking).map(|p| p.exact).collect();
        let thinking = || self.after.list.iter().enumerate().filter(|(_, p)| p.kind == Kind::Thinking);
        for (_, piece) in thinking().filter(|(_, piece)| !known.contains(&piece.exact)) {
            let message =
                "this thinking is not in the original as it stands here: keep it byte for byte or drop it";
            findings.report(&V8, piece.at, message);
        }
        if dialect != Dialect::Messages {
            return;
        }
        let pairs = self.before.list.iter().zip(&self.after.list);
        let mut unchanged = pairs.take_while(|(a, b)| a.exact == b.exact).count();
        if self.before.system != self.after.system || self.before.tools != self.after.tools {
            unchanged = 0;
        }
        if let Some((_, piece)) =
            thinking().find(|(p, piece)| *p >= unchanged && known.contains(&piece.exact))
        {
            let message =
                "something before this thinking changed, which unbinds it and all that follow: drop them";
            let drops = before["thinking"]["block_binding"]["prefix_mismatch_behavior"] == "drop_block";
            match findings.target.binds_thinking {
                Some(true) if drops => findings.report_as(Severity::Silent, &A25, piece.at, message),
                fact => findings.report_if(fact, &A25, piece.at, message),
            }
        }
    }

    /// V10, second half: calls at the very end are still being worked on.
    fn open_step(&self, findings: &mut Findings) {
        let Some(last) = self.before_units.last() else { return };
        let open = last.pieces.iter().any(|&p| self.before.list[p].kind == Kind::Call);
        // Results that alone are too large may be shortened where they stand.
        let same = |(&was, &is): (&usize, &usize)| {
            let (was, is) = (&self.before.list[was], &self.after.list[is]);
            was.exact == is.exact || was.kind == Kind::Result && was.skeleton == is.skeleton
        };
        let is_kept = |unit: &Unit| {
            unit.pieces.len() == last.pieces.len() && last.pieces.iter().zip(&unit.pieces).all(same)
        };
        if open && !self.after_units.last().is_some_and(is_kept) {
            findings.report(
                &V10,
                self.root,
                "the last step is still open and was not kept: leave it as it is, or shorten its results alone",
            );
        }
    }
}

/// The rewritten units against the original ones: V3, V10, X12, and which piece is the summary.
struct Matching<'p, 'v> {
    pair: &'p Pair<'v>,
    kept: Vec<Option<usize>>,
    /// Original pieces that no kept unit holds, by what may not change; first come, first claimed.
    free: HashMap<u64, VecDeque<usize>>,
    claimed: HashSet<usize>,
    unit_of: Vec<usize>,
    /// Calls that the original left unanswered: a rewrite may answer them with a stub.
    unanswered: HashSet<&'v str>,
    summary: Option<usize>,
    /// User messages that lost one text, which may have been the summary of an earlier compaction, and whether another text
    /// that is no summary came in its place.
    lost_one: Vec<(At, bool)>,
}

impl<'p, 'v> Matching<'p, 'v> {
    fn new(pair: &'p Pair<'v>) -> Self {
        let list = &pair.before.list;
        let mut unit_of = vec![0; list.len()];
        for (u, unit) in pair.before_units.iter().enumerate() {
            unit.pieces.iter().for_each(|&p| unit_of[p] = u);
        }
        let answers = answers(list);
        let open = |p: &usize| list[*p].kind == Kind::Call && answers[*p].is_none();
        let unanswered = (0..list.len()).filter(open).map(|p| list[p].id).collect();
        Self {
            pair,
            kept: kept(&pair.before_units, &pair.after_units),
            free: HashMap::new(),
            claimed: HashSet::new(),
            unit_of,
            unanswered,
            summary: None,
            lost_one: Vec::new(),
        }
    }

    /// Judges the units that are not kept as they were, gap by gap, and names the piece that is the summary.
    fn judge(mut self, findings: &mut Findings) -> Option<usize> {
        let mut from = 0;
        let mut u = 0;
        while u < self.kept.len() {
            if let Some(original) = self.kept[u] {
                self.reasoning_kept(original, u, findings);
                from = original + 1;
                u += 1;
                continue;
            }
            let end = (u..self.kept.len()).find(|&v| self.kept[v].is_some()).unwrap_or(self.kept.len());
            let until = self.kept.get(end).copied().flatten().unwrap_or(self.pair.before_units.len());
            let gap = from..until;
            self.free.clear();
            for &p in self.pair.before_units[gap.clone()].iter().flat_map(|unit| &unit.pieces) {
                let piece = &self.pair.before.list[p];
                if piece.counts() {
                    self.free.entry(piece.skeleton).or_default().push_back(p);
                }
            }
            for unit in u..end {
                self.changed(unit, &gap, findings);
            }
            u = end;
        }
        let gone = self.gone();
        if let Some(summary) = self.summary {
            self.judge_summary(summary, gone, findings);
        }
        let replaced = usize::from(self.summary.is_some() && gone > 1);
        for &(at, edited) in self.lost_one.iter().skip(replaced) {
            let message = "part of this message is gone: keep a message whole or remove it whole";
            let speaker = if edited { Speaker::User } else { Speaker::Assistant };
            self.prose_changed(speaker, at, message, findings);
        }
        self.summary
    }

    /// Prose that is not as it was. Some agents send tool output as the user's text: where no call was ever made, a change of
    /// such text may be one of a result, and the caller knows better than this module.
    fn prose_changed(&self, speaker: Speaker, at: At, message: &str, findings: &mut Findings) {
        let no_calls = self.pair.before.list.iter().all(|piece| piece.kind != Kind::Call);
        if no_calls && speaker == Speaker::User {
            findings.report_as(Severity::Warning, &V3, at, message);
        } else {
            findings.report(&V3, at, message);
        }
    }

    /// One unit that no original unit equals: an edited one, a cut one, the summary, or something that must not be.
    fn changed(&mut self, unit: usize, gap: &std::ops::Range<usize>, findings: &mut Findings) {
        let unit = &self.pair.after_units[unit];
        let mut sources = Vec::new();
        let mut new = Vec::new();
        let likely = self.likely_source(unit);
        for &p in &unit.pieces {
            let piece = &self.pair.after.list[p];
            if !piece.counts() {
                continue;
            }
            match self.free.get_mut(&piece.skeleton).and_then(|free| claim(free, &self.unit_of, likely)) {
                Some(original) => {
                    self.claimed.insert(original);
                    sources.push(self.unit_of[original]);
                }
                None => new.push(p),
            }
        }
        if sources.is_empty() {
            return self.wholly_new(unit, &new, gap, findings);
        }
        sources.dedup();
        let missing: Vec<&Piece> = sources
            .iter()
            .flat_map(|&u| &self.pair.before_units[u].pieces)
            .filter(|p| !self.claimed.contains(p))
            .map(|&p| &self.pair.before.list[p])
            .filter(|piece| piece.counts())
            .collect();
        let mut edited = false;
        let mut marks = missing.iter().filter(|piece| piece.kind == Kind::Image).count();
        for p in new {
            let piece = &self.pair.after.list[p];
            let may_be_summary = piece.kind == Kind::Prose && unit.speaker == Speaker::User;
            if piece.kind == Kind::Prose && marks > 0 {
                marks -= 1;
            } else if piece.kind == Kind::Result && self.unanswered.contains(piece.id) {
                // A stub for a call that never got its result.
            } else if may_be_summary && self.summary.is_none() {
                self.summary = Some(p);
            } else {
                let message = "this is not in the original as it stands here: only results, arguments and images may change";
                let speaker = if piece.kind == Kind::Prose { unit.speaker } else { Speaker::Assistant };
                edited = piece.kind == Kind::Prose;
                self.prose_changed(speaker, piece.at, message, findings);
            }
        }
        let cut = missing.iter().filter(|piece| piece.kind != Kind::Image).count();
        let at = self.pair.after.list[unit.pieces[0]].at;
        match (unit.speaker, cut) {
            (_, 0) => {}
            (Speaker::Assistant, _) => {
                findings.report(&V10, at, "part of this step is gone: keep a step whole or remove it whole");
            }
            (Speaker::User, 1) => self.lost_one.push((at, edited)),
            (speaker, _) => {
                let message = "part of this message is gone: keep a message whole or remove it whole";
                self.prose_changed(speaker, at, message, findings);
            }
        }
    }

    /// The original unit that a changed one comes from, by a piece that only one has: texts and images repeat.
    fn likely_source(&self, unit: &Unit) -> Option<usize> {
        let only = |p: &usize| match self.free.get(&self.pair.after.list[*p].skeleton) {
            Some(free) if free.len() == 1 => free.front().map(|original| self.unit_of[*original]),
            _ => None,
        };
        unit.pieces.iter().find_map(only)
    }

    fn wholly_new(
        &mut self,
        unit: &Unit,
        new: &[usize],
        gap: &std::ops::Range<usize>,
        findings: &mut Findings,
    ) {
        let [p] = *new else {
            if let Some(&p) = new.first() {
                let message = "this message is not in the original: only one summary may be added";
                findings.report(&V3, self.pair.after.list[p].at, message);
            }
            return;
        };
        let piece = &self.pair.after.list[p];
        let originals = &self.pair.before_units[gap.clone()];
        if piece.kind == Kind::Prose && self.was_an_image(piece, originals) {
            self.claimed.extend(&originals[0].pieces);
            return;
        }
        // A checkpoint quotes what it replaces, and is no edit of it.
        let is_new = || piece.is_checkpoint() || !self.edits(piece, originals);
        if piece.kind == Kind::Prose && self.summary.is_none() && is_new() {
            self.summary = Some(p);
            return;
        }
        let message = "this message is not in the original as it stands here: only one summary may be added";
        let speaker = if piece.kind == Kind::Prose { unit.speaker } else { Speaker::Assistant };
        self.prose_changed(speaker, piece.at, message, findings);
    }

    /// Whether a new text stands for a message that was nothing but an image.
    fn was_an_image(&self, piece: &Piece, originals: &[Unit]) -> bool {
        let [original] = originals else { return false };
        let mut pieces = original.pieces.iter().map(|&p| &self.pair.before.list[p]).filter(|p| p.counts());
        pieces.all(|piece| piece.kind == Kind::Image) && original.speaker == piece.speaker
    }

    /// Whether a new text is an edit of the only text it stands for, rather than a summary of it.
    fn edits(&self, piece: &Piece, originals: &[Unit]) -> bool {
        const TELLING: usize = 8;
        let [original] = originals else { return false };
        let [p] = *original.pieces.as_slice() else { return false };
        let original = &self.pair.before.list[p];
        let (old, new) = (original.text.as_bytes(), piece.text.as_bytes());
        let shared = |a: &mut dyn Iterator<Item = (&u8, &u8)>| a.take_while(|(x, y)| x == y).count();
        let same = shared(&mut old.iter().zip(new)).max(shared(&mut old.iter().rev().zip(new.iter().rev())));
        let alike = !old.is_empty() && same >= TELLING.min(old.len());
        original.counts() && original.speaker == piece.speaker && alike
    }

    /// How many pieces of the original are no more.
    fn gone(&self) -> usize {
        let kept: usize = self.kept.iter().flatten().map(|&u| self.pair.before_units[u].skeleton.len()).sum();
        let all = self.pair.before.list.iter().filter(|piece| piece.counts()).count();
        all.saturating_sub(kept + self.claimed.len())
    }

    fn judge_summary(&self, summary: usize, gone: usize, findings: &mut Findings) {
        // A unit of thoughts alone has nothing by which it could be matched, and is gone all the same.
        let thoughts = |units: &[Unit]| units.iter().filter(|unit| unit.skeleton.is_empty()).count();
        if gone == 0 && thoughts(&self.pair.before_units) <= thoughts(&self.pair.after_units) {
            let at = self.pair.after.list[summary].at;
            findings.report(&V3, at, "a message was added although none was removed: leave it out");
        }
        let text = self.pair.after.list[summary].text;
        if text.lines().any(imitates_a_call) {
            let at = self.pair.after.list[summary].at;
            findings.report(
                &G11,
                at,
                "the summary imitates a tool call, which teaches the model to write them as prose",
            );
        }
    }

    /// X12: a kept reply keeps its reasoning where the host can use it.
    fn reasoning_kept(&self, original: usize, unit: usize, findings: &mut Findings) {
        let thinks =
            |list: &[Piece], unit: &Unit| unit.pieces.iter().any(|&p| list[p].kind == Kind::Thinking);
        let (old, new) = (&self.pair.before_units[original], &self.pair.after_units[unit]);
        if thinks(&self.pair.before.list, old) && !thinks(&self.pair.after.list, new) {
            let at = self.pair.after.list[new.pieces[0]].at;
            findings.report(&X12, at, "this reply lost its reasoning, which the host passes on");
        }
    }
}

/// Takes a piece of the likely unit, if there is one among the first, else the first.
fn claim(free: &mut VecDeque<usize>, unit_of: &[usize], likely: Option<usize>) -> Option<usize> {
    const LOOKED_AT: usize = 64;
    let at = free.iter().take(LOOKED_AT).position(|original| Some(unit_of[*original]) == likely);
    free.remove(at.unwrap_or(0))
}

/// A line such as `[tool call]: shell({"cmd": "ls"})`, or the tags some models call tools with.
fn imitates_a_call(line: &str) -> bool {
    let lower = line.to_ascii_lowercase();
    let names_one = ["tool call", "tool_call", "tool_use", "function call", "function_call"];
    let names_one = names_one.iter().any(|word| lower.contains(word));
    lower.contains("<tool_call>") || lower.contains("<function_call") || names_one && lower.contains("({")
}

/// R4: an item that kept its id still has the reasoning item that stood before it.
fn reasoning_links(before: &Request, after: &Request, findings: &mut Findings) {
    let id = |item: &Value| item["id"].as_str().map(str::to_owned);
    let led_to: HashMap<String, String> = before
        .messages
        .windows(2)
        .filter(|pair| kind(&pair[0]) == "reasoning" && kind(&pair[1]) != "reasoning")
        .filter_map(|pair| Some((id(&pair[1])?, id(&pair[0])?)))
        .collect();
    let there: HashSet<String> = after.messages.iter().filter_map(id).collect();
    for (i, item) in after.messages.iter().enumerate() {
        if id(item).and_then(|id| led_to.get(&id)).is_some_and(|reasoning| !there.contains(reasoning)) {
            let message = "this item kept its id but lost the reasoning before it: keep both, or drop the id";
            findings.report(&R4, after.at(i), message);
        }
    }
}

/// V6 and V9: what the target refuses about the marks and the summary, although the original did not have that fault.
fn refused(
    pair: &Pair,
    summary: Option<usize>,
    before: (&Value, usize),
    after: (&Value, usize),
    dialect: Dialect,
    findings: &mut Findings,
) {
    let found = |(body, bytes)| {
        let mut found = Findings::new(findings.target);
        check_value(body, bytes, dialect, &mut found);
        found.list
    };
    let had: HashSet<&str> = found(before).iter().map(|violation| violation.rule).collect();
    let place = summary.map(|p| pair.after.list[p].message);
    let pointers = place.map(|i| [i, i + 1].map(|i| String::from(pair.root / i)));
    for violation in found(after).into_iter().filter(|v| !had.contains(v.rule)) {
        let Violation { rule, severity, at, message } = violation;
        let at_summary = pointers.iter().flatten().any(|pointer| {
            at.strip_prefix(pointer.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        });
        if ["A27", "A28", "A29", "A30"].contains(&rule) {
            findings.report(&V6, at, format!("{rule}: {message}"));
        } else if at_summary && severity == Severity::Error {
            findings.report(&V9, at, format!("the summary does not fit here, {rule}: {message}"));
        }
    }
}
