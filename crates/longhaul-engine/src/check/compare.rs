//! Checks a rewritten body against its original (V rules).

use std::collections::{HashMap, HashSet, VecDeque};

use serde_json::Value;

use super::pieces::{ComparedBody, ComparedPiece, PieceAuthor, PieceKind, split_into_pieces};
use super::rules::{A25, G1, G11, R4, V1, V2, V3, V5, V6, V8, V9, V10, X12};
use super::turn_matching::{ComparedTurn, group_into_turns, match_kept_turns, match_results};
use super::{CheckedRequest, Findings, JsonPath, Severity, Target, Violation, check_value, parse, type_of};
use crate::ApiFormat;

/// Returns the rules that a rewrite of `before` into `after` broke, with pointers into `after`. An empty list
/// means that the rewrite changed only what it may.
///
/// A rewrite may remove whole turns, add one summary (as a message, or as a text block of a user message),
/// edit the text of results, the strings inside call arguments and images, drop thinking, move cache
/// breakpoints, and append to the system text. The function does not repeat what [`check`](super::check())
/// finds in `after` alone, except for faults of cache breakpoints and of the summary's own message that the
/// original did not have.
#[must_use]
pub fn compare(before: &str, after: &str, api_format: ApiFormat, target: &Target) -> Vec<Violation> {
    let mut findings = Findings::new(target);
    let read = |body| parse::parse_body(body, &mut Findings::new(target));
    let (Some(old), Some(new)) = (read(before), read(after)) else {
        findings.report(&G1, "", "one of the two bodies is not JSON, so they cannot be compared");
        return findings.violations;
    };
    let requests = (
        CheckedRequest::from_value(&old, before.len(), api_format),
        CheckedRequest::from_value(&new, after.len(), api_format),
    );
    let (Some(old_request), Some(new_request)) = requests else {
        findings.report(
            &G1,
            "",
            format!("one of the two requests is not a {api_format} request, so they cannot be compared"),
        );
        return findings.violations;
    };
    let pair = ComparedPair::new(&old_request, &new_request, api_format);
    pair.check_newest_user_message(&mut findings);
    pair.check_system_text(&mut findings);
    pair.check_thinking(api_format, &old, &mut findings);
    pair.check_open_turn(&mut findings);
    let summary = TurnMatching::new(&pair).check_changes(&mut findings);
    if api_format == ApiFormat::Responses {
        check_reasoning_links(&old_request, &new_request, &mut findings);
    }
    check_new_violations(&pair, summary, (&old, before.len()), (&new, after.len()), api_format, &mut findings);
    findings.violations
}

/// Checks V5: a second run, over the output of the first with nothing new to summarize, must return that
/// output unchanged.
#[must_use]
pub fn check_rerun(first: &str, second: &str) -> Option<Violation> {
    let differs = first.bytes().zip(second.bytes()).position(|(a, b)| a != b);
    let byte = differs.or((first.len() != second.len()).then(|| first.len().min(second.len())))?;
    Some(Violation {
        rule: V5.number,
        severity: V5.severity,
        at: String::new(),
        message: format!("a second run changed the body at byte {byte}: it must return its input"),
    })
}

struct ComparedPair<'v> {
    before: ComparedBody<'v>,
    after: ComparedBody<'v>,
    before_turns: Vec<ComparedTurn>,
    after_turns: Vec<ComparedTurn>,
    messages_path: JsonPath,
}

impl<'v> ComparedPair<'v> {
    fn new(before: &CheckedRequest<'v>, after: &CheckedRequest<'v>, api_format: ApiFormat) -> Self {
        let root = after.messages_path;
        let (before, after) = (split_into_pieces(before, api_format), split_into_pieces(after, api_format));
        let (before_turns, after_turns) = (group_into_turns(&before.pieces), group_into_turns(&after.pieces));
        Self { before, after, before_turns, after_turns, messages_path: root }
    }

    /// Checks V1: the pieces of the last user message with more than results are still together in one
    /// message.
    fn check_newest_user_message(&self, findings: &mut Findings) {
        let said = |list: &[ComparedPiece]| -> Vec<(usize, u64)> {
            // A checkpoint has the user's role, but no user wrote it.
            let of_user = |piece: &&ComparedPiece| {
                piece.author == PieceAuthor::User && piece.kind != PieceKind::Result && !piece.is_checkpoint()
            };
            list.iter().filter(of_user).map(|piece| (piece.message, piece.exact_hash)).collect()
        };
        let mut wanted = said(&self.before.pieces);
        let Some(&(newest, _)) = wanted.last() else { return };
        wanted.retain(|(message, _)| *message == newest);
        let whole = |run: &[(usize, u64)]| run.iter().zip(&wanted).all(|(is, was)| is.1 == was.1 && is.0 == run[0].0);
        if !said(&self.after.pieces).windows(wanted.len()).any(whole) {
            let message = "the newest user message was changed: keep all of its blocks unchanged";
            findings.report(&V1, self.messages_path, message);
        }
    }

    /// Checks V2: the system text only grew at its end.
    fn check_system_text(&self, findings: &mut Findings) {
        if !self.after.system.starts_with(&self.before.system) {
            let same = self.after.system.bytes().zip(self.before.system.bytes()).take_while(|(a, b)| a == b).count();
            let message = format!("the system text differs from byte {same} on: only additions at its end are allowed");
            findings.report(&V2, "", message);
        }
    }

    /// Checks V8, and A25 for models that bind thinking to everything before it.
    fn check_thinking(&self, api_format: ApiFormat, before: &Value, findings: &mut Findings) {
        let original_thinking: HashSet<u64> =
            self.before.pieces.iter().filter(|p| p.kind == PieceKind::Thinking).map(|p| p.exact_hash).collect();
        let thinking = || self.after.pieces.iter().enumerate().filter(|(_, p)| p.kind == PieceKind::Thinking);
        for (_, piece) in thinking().filter(|(_, piece)| !original_thinking.contains(&piece.exact_hash)) {
            let message = "this thinking differs from the original: keep it byte for byte or drop it";
            findings.report(&V8, piece.path, message);
        }
        if api_format != ApiFormat::Messages {
            return;
        }
        let pairs = self.before.pieces.iter().zip(&self.after.pieces);
        let mut unchanged = pairs.take_while(|(a, b)| a.exact_hash == b.exact_hash).count();
        if self.before.system != self.after.system || self.before.tools_hash != self.after.tools_hash {
            unchanged = 0;
        }
        if let Some((_, piece)) =
            thinking().find(|(p, piece)| *p >= unchanged && original_thinking.contains(&piece.exact_hash))
        {
            let message =
                "something before this thinking changed, so the model refuses it and the thinking after it: drop them";
            let drops = before["thinking"]["block_binding"]["prefix_mismatch_behavior"] == "drop_block";
            match findings.target.binds_thinking {
                Some(true) if drops => {
                    findings.report_with_severity(Severity::Silent, &A25, piece.path, message);
                }
                fact => findings.report_if_model(fact, &A25, piece.path, message),
            }
        }
    }

    /// Checks the second half of V10: a last turn with calls is still in progress and must be kept.
    fn check_open_turn(&self, findings: &mut Findings) {
        let Some(last) = self.before_turns.last() else { return };
        let open = last.pieces.iter().any(|&p| self.before.pieces[p].kind == PieceKind::Call);
        // A result that is too large by itself may be shortened in place.
        let same = |(&was, &is): (&usize, &usize)| {
            let (was, is) = (&self.before.pieces[was], &self.after.pieces[is]);
            was.exact_hash == is.exact_hash || was.kind == PieceKind::Result && was.structure_hash == is.structure_hash
        };
        let is_kept = |turn: &ComparedTurn| {
            turn.pieces.len() == last.pieces.len() && last.pieces.iter().zip(&turn.pieces).all(same)
        };
        if open && !self.after_turns.last().is_some_and(is_kept) {
            findings.report(
                &V10,
                self.messages_path,
                "the last turn is still open and was not kept: leave it unchanged, or shorten only its results",
            );
        }
    }
}

/// Matches the rewritten turns with the original ones: checks V3, V10 and X12, and finds the piece that is
/// the summary.
struct TurnMatching<'p, 'v> {
    pair: &'p ComparedPair<'v>,
    kept_turns: Vec<Option<usize>>,
    /// The original pieces of the current gap that are not claimed yet, by structure hash. The first match
    /// claims a piece.
    unclaimed: HashMap<u64, VecDeque<usize>>,
    claimed: HashSet<usize>,
    turn_of_piece: Vec<usize>,
    /// The IDs of calls that the original left unanswered. A rewrite may answer them with a stub.
    unanswered_calls: HashSet<&'v str>,
    summary: Option<usize>,
    /// The user messages that lost one text, which may have been the summary of an earlier compaction, and
    /// whether a text that is not a summary replaced it.
    messages_missing_one: Vec<(JsonPath, bool)>,
}

impl<'p, 'v> TurnMatching<'p, 'v> {
    fn new(pair: &'p ComparedPair<'v>) -> Self {
        let list = &pair.before.pieces;
        let mut turn_of = vec![0; list.len()];
        for (u, turn) in pair.before_turns.iter().enumerate() {
            turn.pieces.iter().for_each(|&p| turn_of[p] = u);
        }
        let answers = match_results(list);
        let open = |p: &usize| list[*p].kind == PieceKind::Call && answers[*p].is_none();
        let unanswered = (0..list.len()).filter(open).map(|p| list[p].id).collect();
        Self {
            pair,
            kept_turns: match_kept_turns(&pair.before_turns, &pair.after_turns),
            unclaimed: HashMap::new(),
            claimed: HashSet::new(),
            turn_of_piece: turn_of,
            unanswered_calls: unanswered,
            summary: None,
            messages_missing_one: Vec::new(),
        }
    }

    /// Checks the turns that were not kept unchanged, gap by gap, and returns the piece that is the summary.
    fn check_changes(mut self, findings: &mut Findings) -> Option<usize> {
        let mut from = 0;
        let mut u = 0;
        while u < self.kept_turns.len() {
            if let Some(original) = self.kept_turns[u] {
                self.check_reasoning_kept(original, u, findings);
                from = original + 1;
                u += 1;
                continue;
            }
            let end =
                (u..self.kept_turns.len()).find(|&v| self.kept_turns[v].is_some()).unwrap_or(self.kept_turns.len());
            let until = self.kept_turns.get(end).copied().flatten().unwrap_or(self.pair.before_turns.len());
            let gap = from..until;
            self.unclaimed.clear();
            for &p in self.pair.before_turns[gap.clone()].iter().flat_map(|turn| &turn.pieces) {
                let piece = &self.pair.before.pieces[p];
                if piece.is_matched() {
                    self.unclaimed.entry(piece.structure_hash).or_default().push_back(p);
                }
            }
            for turn in u..end {
                self.check_changed_turn(turn, &gap, findings);
            }
            u = end;
        }
        let gone = self.count_removed_pieces();
        if let Some(summary) = self.summary {
            self.check_summary(summary, gone, findings);
        }
        let replaced = usize::from(self.summary.is_some() && gone > 1);
        for &(at, edited) in self.messages_missing_one.iter().skip(replaced) {
            let message = "part of this message is gone: keep a message whole or remove it whole";
            let author = if edited { PieceAuthor::User } else { PieceAuthor::Assistant };
            self.report_changed_text(author, at, message, findings);
        }
        self.summary
    }

    /// Reports a changed text under V3. Some agents send tool output as user text. So if the original has no
    /// calls at all, a changed user text may be a shortened result and is only a warning.
    fn report_changed_text(&self, author: PieceAuthor, at: JsonPath, message: &str, findings: &mut Findings) {
        let no_calls = self.pair.before.pieces.iter().all(|piece| piece.kind != PieceKind::Call);
        if no_calls && author == PieceAuthor::User {
            findings.report_with_severity(Severity::Warning, &V3, at, message);
        } else {
            findings.report(&V3, at, message);
        }
    }

    /// Checks a turn that equals no original turn: an edited one, a cut one, the summary, or a turn that is
    /// not allowed.
    fn check_changed_turn(&mut self, turn: usize, gap: &std::ops::Range<usize>, findings: &mut Findings) {
        let turn = &self.pair.after_turns[turn];
        let mut sources = Vec::new();
        let mut new = Vec::new();
        let likely = self.likely_original(turn);
        for &p in &turn.pieces {
            let piece = &self.pair.after.pieces[p];
            if !piece.is_matched() {
                continue;
            }
            match self
                .unclaimed
                .get_mut(&piece.structure_hash)
                .and_then(|free| claim_piece(free, &self.turn_of_piece, likely))
            {
                Some(original) => {
                    self.claimed.insert(original);
                    sources.push(self.turn_of_piece[original]);
                }
                None => new.push(p),
            }
        }
        if sources.is_empty() {
            return self.check_new_turn(turn, &new, gap, findings);
        }
        sources.dedup();
        let missing: Vec<&ComparedPiece> = sources
            .iter()
            .flat_map(|&u| &self.pair.before_turns[u].pieces)
            .filter(|p| !self.claimed.contains(p))
            .map(|&p| &self.pair.before.pieces[p])
            .filter(|piece| piece.is_matched())
            .collect();
        let mut edited = false;
        let mut marks = missing.iter().filter(|piece| piece.kind == PieceKind::Image).count();
        for p in new {
            let piece = &self.pair.after.pieces[p];
            let may_be_summary = piece.kind == PieceKind::Text && turn.author == PieceAuthor::User;
            if piece.kind == PieceKind::Text && marks > 0 {
                marks -= 1;
            } else if piece.kind == PieceKind::Result && self.unanswered_calls.contains(piece.id) {
                // This is a stub for a call that never got its result.
            } else if may_be_summary && self.summary.is_none() {
                self.summary = Some(p);
            } else {
                let message = "this differs from the original: only results, arguments and images may change";
                let author = if piece.kind == PieceKind::Text { turn.author } else { PieceAuthor::Assistant };
                edited = piece.kind == PieceKind::Text;
                self.report_changed_text(author, piece.path, message, findings);
            }
        }
        let cut = missing.iter().filter(|piece| piece.kind != PieceKind::Image).count();
        let at = self.pair.after.pieces[turn.pieces[0]].path;
        match (turn.author, cut) {
            (_, 0) => {}
            (PieceAuthor::Assistant, _) => {
                findings.report(&V10, at, "part of this turn is missing: keep or remove a turn as a whole");
            }
            (PieceAuthor::User, 1) => self.messages_missing_one.push((at, edited)),
            (author, _) => {
                let message = "part of this message is gone: keep a message whole or remove it whole";
                self.report_changed_text(author, at, message, findings);
            }
        }
    }

    /// Finds the original turn that a changed turn is based on, by a piece that only one turn has. Texts and
    /// images may repeat.
    fn likely_original(&self, turn: &ComparedTurn) -> Option<usize> {
        let only = |p: &usize| match self.unclaimed.get(&self.pair.after.pieces[*p].structure_hash) {
            Some(free) if free.len() == 1 => free.front().map(|original| self.turn_of_piece[*original]),
            _ => None,
        };
        turn.pieces.iter().find_map(only)
    }

    fn check_new_turn(
        &mut self,
        turn: &ComparedTurn,
        new: &[usize],
        gap: &std::ops::Range<usize>,
        findings: &mut Findings,
    ) {
        let [p] = *new else {
            if let Some(&p) = new.first() {
                let message = "this message is not in the original: only one summary may be added";
                findings.report(&V3, self.pair.after.pieces[p].path, message);
            }
            return;
        };
        let piece = &self.pair.after.pieces[p];
        let originals = &self.pair.before_turns[gap.clone()];
        if piece.kind == PieceKind::Text && self.replaces_image(piece, originals) {
            self.claimed.extend(&originals[0].pieces);
            return;
        }
        // A checkpoint quotes the text that it replaces, but is not an edit of it.
        let is_new = || piece.is_checkpoint() || !self.is_edit(piece, originals);
        if piece.kind == PieceKind::Text && self.summary.is_none() && is_new() {
            self.summary = Some(p);
            return;
        }
        let message = "this message is not in the original as it stands here: only one summary may be added";
        let author = if piece.kind == PieceKind::Text { turn.author } else { PieceAuthor::Assistant };
        self.report_changed_text(author, piece.path, message, findings);
    }

    /// Returns whether a new text replaces a message that had only images.
    fn replaces_image(&self, piece: &ComparedPiece, originals: &[ComparedTurn]) -> bool {
        let [original] = originals else { return false };
        let mut pieces = original.pieces.iter().map(|&p| &self.pair.before.pieces[p]).filter(|p| p.is_matched());
        pieces.all(|piece| piece.kind == PieceKind::Image) && original.author == piece.author
    }

    /// Returns whether a new text is an edit of the only text that it replaces, and not a summary of it.
    fn is_edit(&self, piece: &ComparedPiece, originals: &[ComparedTurn]) -> bool {
        const MIN_SHARED_BYTES: usize = 8;
        let [original] = originals else { return false };
        let [p] = *original.pieces.as_slice() else { return false };
        let original = &self.pair.before.pieces[p];
        let (old, new) = (original.text.as_bytes(), piece.text.as_bytes());
        let shared = |a: &mut dyn Iterator<Item = (&u8, &u8)>| a.take_while(|(x, y)| x == y).count();
        let same = shared(&mut old.iter().zip(new)).max(shared(&mut old.iter().rev().zip(new.iter().rev())));
        let alike = !old.is_empty() && same >= MIN_SHARED_BYTES.min(old.len());
        original.is_matched() && original.author == piece.author && alike
    }

    /// Counts the pieces of the original that were removed.
    fn count_removed_pieces(&self) -> usize {
        let kept: usize =
            self.kept_turns.iter().flatten().map(|&u| self.pair.before_turns[u].structure_hashes.len()).sum();
        let all = self.pair.before.pieces.iter().filter(|piece| piece.is_matched()).count();
        all.saturating_sub(kept + self.claimed.len())
    }

    fn check_summary(&self, summary: usize, gone: usize, findings: &mut Findings) {
        // A turn with only thinking has no pieces to match, so its removal is counted separately.
        let thoughts = |turns: &[ComparedTurn]| turns.iter().filter(|turn| turn.structure_hashes.is_empty()).count();
        if gone == 0 && thoughts(&self.pair.before_turns) <= thoughts(&self.pair.after_turns) {
            let at = self.pair.after.pieces[summary].path;
            findings.report(&V3, at, "a message was added although none was removed: leave it out");
        }
        let text = self.pair.after.pieces[summary].text;
        if text.lines().any(imitates_tool_call) {
            let at = self.pair.after.pieces[summary].path;
            findings.report(
                &G11,
                at,
                "the summary imitates a tool call, which teaches the model to write them as prose",
            );
        }
    }

    /// Checks X12: a kept reply keeps its reasoning on hosts that can use it.
    fn check_reasoning_kept(&self, original: usize, turn: usize, findings: &mut Findings) {
        let thinks = |list: &[ComparedPiece], turn: &ComparedTurn| {
            turn.pieces.iter().any(|&p| list[p].kind == PieceKind::Thinking)
        };
        let (old, new) = (&self.pair.before_turns[original], &self.pair.after_turns[turn]);
        if thinks(&self.pair.before.pieces, old) && !thinks(&self.pair.after.pieces, new) {
            let at = self.pair.after.pieces[new.pieces[0]].path;
            findings.report(&X12, at, "this reply lost its reasoning, which the host passes on");
        }
    }
}

/// Claims a piece of the likely original turn if one of the first pieces belongs to it, or else the first
/// piece.
fn claim_piece(free: &mut VecDeque<usize>, turn_of: &[usize], likely: Option<usize>) -> Option<usize> {
    const MAX_SEARCHED_PIECES: usize = 64;
    let at = free.iter().take(MAX_SEARCHED_PIECES).position(|original| Some(turn_of[*original]) == likely);
    free.remove(at.unwrap_or(0))
}

/// Returns whether a line looks like a tool call: `[tool call]: shell({"cmd": "ls"})`, or a tag with which
/// some models call tools.
fn imitates_tool_call(line: &str) -> bool {
    let lower = line.to_ascii_lowercase();
    let names_one = ["tool call", "tool_call", "tool_use", "function call", "function_call"];
    let names_one = names_one.iter().any(|word| lower.contains(word));
    lower.contains("<tool_call>") || lower.contains("<function_call") || names_one && lower.contains("({")
}

/// Checks R4: an item that kept its ID still has the reasoning item that was before it.
fn check_reasoning_links(before: &CheckedRequest, after: &CheckedRequest, findings: &mut Findings) {
    let id = |item: &Value| item["id"].as_str().map(str::to_owned);
    let led_to: HashMap<String, String> = before
        .messages
        .windows(2)
        .filter(|pair| type_of(&pair[0]) == "reasoning" && type_of(&pair[1]) != "reasoning")
        .filter_map(|pair| Some((id(&pair[1])?, id(&pair[0])?)))
        .collect();
    let there: HashSet<String> = after.messages.iter().filter_map(id).collect();
    for (i, item) in after.messages.iter().enumerate() {
        if id(item).and_then(|id| led_to.get(&id)).is_some_and(|reasoning| !there.contains(reasoning)) {
            let message = "this item kept its id but lost the reasoning before it: keep both, or drop the id";
            findings.report(&R4, after.message_path(i), message);
        }
    }
}

/// Checks V6 and V9: the faults of cache breakpoints and of the summary that the target refuses and that the
/// original did not have.
fn check_new_violations(
    pair: &ComparedPair,
    summary: Option<usize>,
    before: (&Value, usize),
    after: (&Value, usize),
    api_format: ApiFormat,
    findings: &mut Findings,
) {
    let found = |(body, bytes)| {
        let mut found = Findings::new(findings.target);
        check_value(body, bytes, api_format, &mut found);
        found.violations
    };
    let had: HashSet<&str> = found(before).iter().map(|violation| violation.rule).collect();
    let place = summary.map(|p| pair.after.pieces[p].message);
    let pointers = place.map(|i| [i, i + 1].map(|i| String::from(pair.messages_path / i)));
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
