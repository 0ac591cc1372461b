//! The audit of a model's summary: it removes what the transcript contradicts.
//!
//! ```text
//! parts ──claims──▶ is it in the session? ──outcomes──▶ did it end so? ──finished──▶ is it still open? ──▶ kept parts
//! ```
//!
//! The audit removes whole parts: a list item, or a sentence with those that depend on it. Everything else stays
//! byte for byte, in its order and with its numbers. It does not restore facts that the summary left out; the
//! checkpoint does that, behind the summary.
//!
//! The thresholds and word lists of this folder were chosen with the summaries in `bench/audit/summaries` and
//! checked with those in `bench/audit/second`.

mod claims;
mod clauses;
mod finished;
mod language;
mod origin_index;
mod outcomes;
mod phrases;
mod session_index;
mod stated_rule;

use std::collections::BTreeSet;

use serde::Serialize;

use super::{Completeness, ModelSummary};
use crate::checkpoint::{Notes, NotesPart, NotesPartKind, NotesTopic};
use crate::evidence::{Evidence, WordBag};
use crate::redact::{Redacted, RedactionMode, Redactor};
use crate::transcript::{BlockPosition, Transcript};
use crate::truncate::{first_bytes, to_one_line};
use claims::{Claim, ClaimKind, find_claims, parse_number};
use finished::FinishedWork;
use origin_index::{ClauseOrigin, OriginIndex, is_instruction};
use phrases::{TABLE, contains_any, gives_permission, lowercase_prose};
use session_index::SessionIndex;
use stated_rule::StatedRule;

/// A summary that passed the audit.
#[derive(Debug, Clone)]
pub(crate) struct AuditedSummary {
    /// The summary without the parts that the session contradicts. If there are none, it is the same byte for byte.
    pub(crate) notes: Notes,
    /// The instructions that only a tool or the agent gave: removed from the summary, and quoted behind it with their
    /// origin.
    pub(crate) moved: Vec<Redacted>,
    /// The tool calls whose outcome the summary reported wrongly.
    pub(crate) misreported: BTreeSet<BlockPosition>,
    /// The parts that were removed, with the reasons.
    pub(crate) findings: Vec<AuditFinding>,
}

/// A correction that an audit made to a summary.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AuditFinding {
    /// The correction.
    pub action: AuditAction,
    /// The heading of the section in the summary, or of our section if the words were restored.
    pub section: String,
    /// The words that were removed or restored, on one line.
    pub text: String,
    /// The reason, as it is shown to people.
    pub why: String,
}

/// The kind of correction that an audit makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AuditAction {
    /// The words were removed, because the session does not confirm them.
    #[serde(rename = "taken_out")]
    Removed,
    /// The words were restored, because the summary left them out.
    #[serde(rename = "put_back")]
    Restored,
}

/// The reason why a reply is rejected as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SummaryRejection {
    /// The reply has no text.
    Empty,
    /// The reply is too short or no prose, so it is a refusal, an error or something else.
    NoNotes,
    /// The reply is in a language that nobody in the session uses. The field is its English name.
    ForeignLanguage(&'static str),
    /// The session confirms too little of it.
    Unsupported,
}

impl std::fmt::Display for SummaryRejection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Empty => f.write_str("it is empty"),
            Self::NoNotes => f.write_str("it is no summary"),
            Self::ForeignLanguage(name) => write!(f, "it is in {name}, which nobody in the session uses"),
            Self::Unsupported => f.write_str("the session confirms too little of it"),
        }
    }
}

/// The maximum length of a summary in bytes. The rest of a longer one is ignored. Chosen by hand.
pub(crate) const MAX_SUMMARY_BYTES: usize = 80_000;
/// The shortest summary, in words. A refusal or an error message is shorter.
const MIN_SUMMARY_WORDS: usize = 15;
/// The number of corrections above which a summary is rejected. Chosen by hand.
const MAX_FINDINGS: usize = 200;

/// Audits a summary against the session that it is about.
///
/// # Errors
/// Returns the reason if the reply is rejected as a whole.
pub(crate) fn audit(
    answer: &ModelSummary,
    transcript: &Transcript<'_>,
    evidence: &Evidence,
    redactor: &mut Redactor,
) -> Result<AuditedSummary, SummaryRejection> {
    let text = first_bytes(answer.text.trim(), MAX_SUMMARY_BYTES);
    if text.is_empty() {
        return Err(SummaryRejection::Empty);
    }
    // A model may repeat a secret that it saw, or invent a text that looks like one.
    let text = super::escape_markers(&redactor.redact(unfence(text), RedactionMode::Text).text);
    let notes = Notes::parse(&text);
    let is_content =
        |part: &NotesPart| !matches!(part.kind, NotesPartKind::Heading(_)) && !is_empty_item(notes.text_of(part));
    let content: Vec<usize> = (0..notes.parts().len()).filter(|at| is_content(&notes.parts()[*at])).collect();
    // The last part of a reply that was cut may say something else than the whole would have said.
    let is_cut = answer.completeness == Completeness::Truncated;
    let last = notes.parts().len().checked_sub(1).filter(|_| is_cut);
    let words = content.iter().map(|at| notes.text_of(&notes.parts()[*at]).split_whitespace().count()).sum::<usize>();
    if words < MIN_SUMMARY_WORDS || text.as_str().starts_with(['{', '[']) {
        return Err(SummaryRejection::NoNotes);
    }
    if let Some(name) = language::find_foreign_language(text.as_str(), transcript) {
        return Err(SummaryRejection::ForeignLanguage(name));
    }
    let index = SessionIndex::build(transcript, evidence);
    let grounded = content.iter().filter(|at| is_grounded(notes.text_of(&notes.parts()[**at]), &index)).count();
    if grounded * 2 <= content.len() {
        return Err(SummaryRejection::Unsupported);
    }
    let rules: Vec<StatedRule> = evidence.rules().map(|(_, rule)| StatedRule::new(&rule)).collect();
    let texts = notes.parts().iter().map(|part| notes.text_of(part));
    let session = AuditContext {
        origins: OriginIndex::new(transcript, evidence, texts),
        index: &index,
        rules,
        finished: FinishedWork::collect(&notes, evidence),
        computed: find_computed_numbers(&notes),
    };
    let mut audit = Audit::default();
    for (at, part) in notes.parts().iter().enumerate() {
        if Some(at) == last {
            audit.removed.insert(at);
        } else if content.contains(&at) {
            audit.audit_part(at, &notes, part, &session);
        }
        if audit.findings.len() > MAX_FINDINGS {
            return Err(SummaryRejection::Unsupported);
        }
    }
    let Audit { removed, moved, misreported, findings } = audit;
    let kept = notes.keep(&|at| !removed.contains(&at));
    if kept.text().as_str().is_empty() {
        return Err(SummaryRejection::Unsupported);
    }
    Ok(AuditedSummary { notes: kept, moved, misreported, findings })
}

/// Returns a text without a code fence around the whole of it, which some models write.
fn unfence(text: &str) -> &str {
    let inside = text.strip_prefix("```").and_then(|rest| rest.split_once('\n')).map(|(_, inside)| inside);
    inside
        .and_then(|inside| inside.trim_end().strip_suffix("```"))
        .filter(|inside| !inside.contains("```"))
        .unwrap_or(text)
}

/// Returns whether a list item only says that there is nothing.
fn is_empty_item(text: &str) -> bool {
    /// The items that models write into a section without content, in lower case.
    const EMPTY: [&str; 8] = ["none", "n/a", "nothing", "not applicable", "empty", "no", "-", "(none)"];
    let bare = text.trim_matches(|c: char| !c.is_alphanumeric() && c != '/').to_lowercase();
    bare.is_empty() || EMPTY.contains(&bare.as_str())
}

/// The session, prepared for the checks.
struct AuditContext<'s> {
    index: &'s SessionIndex,
    origins: OriginIndex,
    /// The rules that people gave.
    rules: Vec<StatedRule>,
    finished: FinishedWork,
    /// The numbers that the writer of the summary calculated.
    computed: BTreeSet<u64>,
}

/// The findings of an audit so far.
#[derive(Default)]
struct Audit {
    /// The indices of the removed parts.
    removed: BTreeSet<usize>,
    moved: Vec<Redacted>,
    misreported: BTreeSet<BlockPosition>,
    findings: Vec<AuditFinding>,
}

/// The decision about one clause.
enum ClauseDecision {
    /// The clause stays.
    Keep,
    /// The clause is wrong for this reason.
    Remove(String),
    /// The clause is not a statement of people, so it is moved behind the summary as a quote with its origin.
    Quote(ClauseOrigin),
}

impl Audit {
    /// Removes a part of which a clause does not pass the checks. A part goes as a whole: half a sentence misleads.
    fn audit_part(&mut self, at: usize, notes: &Notes, part: &NotesPart, session: &AuditContext<'_>) {
        let range = item_text(notes.text_of(part), part);
        let text = &notes.text().as_str()[range.clone()];
        let found = self.judge(text, notes.judged_topic(part), session);
        let (words, why) = match found {
            None | Some((_, ClauseDecision::Keep)) => return,
            Some((clause, ClauseDecision::Quote(origin))) => {
                let words = notes.text().join_ranges(std::slice::from_ref(&range), "", "").one_line(usize::MAX);
                self.moved.push(quote(&words, origin));
                (clause, reason_for_origin(origin).to_owned())
            }
            Some((clause, ClauseDecision::Remove(why))) => (clause, why),
        };
        self.removed.insert(at);
        let (section, text) = (notes.heading_of(part), to_one_line(words, 300));
        self.findings.push(AuditFinding { action: AuditAction::Removed, section, text, why });
    }

    /// Returns the first clause of a part that does not pass, with the decision about it.
    fn judge<'t>(
        &mut self,
        text: &'t str,
        topic: NotesTopic,
        session: &AuditContext<'_>,
    ) -> Option<(&'t str, ClauseDecision)> {
        if topic.states_user_wishes()
            && let Some(rule) = session.rules.iter().find(|rule| rule.is_contradicted_by(text))
        {
            return Some((text, ClauseDecision::Remove(format!("it contradicts the user's rule: {rule}"))));
        }
        if topic.is_open_work()
            && let Some(by) = session.finished.find_match(text)
        {
            return Some((text, ClauseDecision::Remove(format!("it is finished: {}", to_one_line(by, 120)))));
        }
        let clauses: Vec<&str> = clauses::split_clauses(text).into_iter().map(|clause| &text[clause]).collect();
        let decisions = clauses.into_iter().map(|clause| (clause, self.audit_clause(text, topic, clause, session)));
        let faults = decisions.filter(|(_, decision)| !matches!(decision, ClauseDecision::Keep));
        faults.min_by_key(|(_, decision)| matches!(decision, ClauseDecision::Quote(_)))
    }

    /// Decides about a clause: what the session contradicts is wrong, and an instruction that only a tool's output gives
    /// is not the user's.
    fn audit_clause(
        &mut self,
        text: &str,
        topic: NotesTopic,
        clause: &str,
        session: &AuditContext<'_>,
    ) -> ClauseDecision {
        let AuditContext { index, origins, .. } = session;
        let claims = find_claims(clause);
        if let Some(why) = self.find_fault(text, topic, clause, &claims, session) {
            return ClauseDecision::Remove(why);
        }
        // Only a person can give a permission, whoever repeats it.
        let gives_permission = gives_permission(clause);
        if !(topic.states_user_wishes() || topic.is_open_work() || gives_permission) {
            return ClauseDecision::Keep;
        }
        // That the agent repeats an order of a tool does not make it a person's. What it ran before is its own.
        let is_from_tool = |claim: &Claim<'_>| {
            is_instruction(claim)
                && index.is_in_tool_output(claim.text)
                && !index.is_in_tool_request(claim.text)
                && !origins.is_said_by_people(claim.text)
        };
        if claims.iter().any(is_from_tool) {
            return ClauseDecision::Quote(ClauseOrigin::Tool);
        }
        let Some(origin) = origins.find_origin(clause, &claims) else { return ClauseDecision::Keep };
        let speaks_for_people = topic.states_user_wishes();
        let is_foreign = match origin {
            ClauseOrigin::People => false,
            // In a section that speaks for people, the words of a tool would become their wish.
            ClauseOrigin::Tool => {
                speaks_for_people
                    || gives_permission
                    || WordBag::new(clause).share_in(&index.conversation_words) < MAX_TOOL_ONLY_SHARE
            }
            // A writer puts people's wishes into other words, so only a permission needs their own.
            ClauseOrigin::Agent | ClauseOrigin::Unclear => speaks_for_people && gives_permission,
            ClauseOrigin::Nobody => topic == NotesTopic::Rules || speaks_for_people && gives_permission,
        };
        if is_foreign { ClauseDecision::Quote(origin) } else { ClauseDecision::Keep }
    }

    /// Returns the reason why a clause is wrong; `None` if it is not. Records the tool calls that a wrong
    /// outcome is about.
    fn find_fault(
        &mut self,
        text: &str,
        topic: NotesTopic,
        clause: &str,
        claims: &[Claim<'_>],
        session: &AuditContext<'_>,
    ) -> Option<String> {
        let source = session.index;
        let reports_past = !topic.is_open_work() && !topic.states_user_wishes();
        // A plan may name what does not exist yet; a report may not.
        let is_invented = |claim: &&Claim<'_>| match claim.kind {
            ClaimKind::Url => !source.contains_claim(claim) && !claim.text.contains("..."),
            ClaimKind::Path => reports_past && is_subject(claim, text) && !source.contains_claim(claim),
            ClaimKind::Identifier => reports_past && !source.contains_claim(claim),
            ClaimKind::Number => {
                let is_computed = parse_number(claim.text).is_some_and(|number| session.computed.contains(&number));
                reports_past && !is_computed && !source.contains_claim(claim)
            }
            ClaimKind::Code => false,
        };
        if let Some(unknown) = claims.iter().find(is_invented) {
            let kind = match unknown.kind {
                ClaimKind::Url => "an address",
                ClaimKind::Path => "a path",
                ClaimKind::Number => "a number",
                ClaimKind::Identifier | ClaimKind::Code => "a name",
            };
            return Some(format!("{kind} is not in the session: {}", to_one_line(unknown.text, 80)));
        }
        let wrong = if reports_past { outcomes::find_contradicted(text, clause, source) } else { Vec::new() };
        if !wrong.is_empty() {
            self.misreported.extend(wrong);
            return Some("the outcome was different".to_owned());
        }
        if reports_past && outcomes::is_miscounted(clause, source) {
            return Some("no output has this count".to_owned());
        }
        (reports_past && outcomes::is_misreported(clause, source)).then(|| "no result shows that output".to_owned())
    }
}

/// Returns the numbers in the parts of a summary that calculate something.
fn find_computed_numbers(notes: &Notes) -> BTreeSet<u64> {
    let calculates = |text: &&str| contains_any(&lowercase_prose(text), &TABLE.computes);
    let parts = notes.parts().iter().map(|part| notes.text_of(part)).filter(calculates);
    let claims = parts.flat_map(find_claims).filter(|claim| claim.kind == ClaimKind::Number);
    claims.filter_map(|claim| parse_number(claim.text)).collect()
}

/// Returns whether an item is about this path: it is the first or second word.
fn is_subject(claim: &Claim<'_>, text: &str) -> bool {
    text.split_whitespace().take(2).any(|word| word.contains(claim.text))
}

/// Returns the bytes of a part without its list marker and the white space around it.
fn item_text(text: &str, part: &NotesPart) -> std::ops::Range<usize> {
    let bare = text.trim_start();
    let marker = match part.kind {
        NotesPartKind::Item(_) => bare.find(' ').map_or(0, |at| at + 1),
        _ => 0,
    };
    let start = part.range.start + text.len() - bare.len() + marker;
    start..(part.range.start + text.trim_end().len()).max(start)
}

/// The share of a clause's words in the words of people and the agent below which the clause is attributed to
/// the tool whose output contains it.
const MAX_TOOL_ONLY_SHARE: f32 = 0.5;

/// Returns the reason why a clause is not attributed to people.
fn reason_for_origin(origin: ClauseOrigin) -> &'static str {
    match origin {
        ClauseOrigin::Tool => "only a tool's output says so, and no person; it is quoted as that",
        _ => "no person said so in these words; it is quoted as that",
    }
}

/// Quotes words with their origin, so that they are not taken for the words of people.
fn quote(words: &Redacted, origin: ClauseOrigin) -> Redacted {
    Redacted::literal(origin.quote_opening()).append(words).append_literal("\u{201d}")
}

/// Returns whether a text is recognizably about this session: it has a verifiable name, or enough words of people
/// and the agent.
fn is_grounded(text: &str, source: &SessionIndex) -> bool {
    !find_claims(text).is_empty() || WordBag::new(text).share_in(&source.conversation_words) >= MIN_GROUNDED_SHARE
}

/// The minimum share of the words of a text without names that people or the agent used.
const MIN_GROUNDED_SHARE: f32 = 0.6;
