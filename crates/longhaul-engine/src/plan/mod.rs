//! Whether and how a transcript is made smaller.
//!
//! ```text
//! transcript ──survey──▶ what stands where, in tokens ──engine, ladder──▶ a draft ──▶ edits ──▶ rewrite, report
//! ```
//!
//! A plan is a value: nothing is changed until its rewrite is applied, and the report says what that will have done.

mod draft;
mod ladder;
mod report;
mod sacred_zone;
mod seat;
mod survey;

pub use report::{
    BlockReport, CheckpointReport, CostReport, EvidenceReport, Fate, Pair, Report, Restart, Rung,
    StateReport, Step, TokensReport, Trigger, UnitsReport, What, WrittenBy, ZoneReport,
};

use std::collections::BTreeSet;

use draft::Draft;
use survey::Survey;

use crate::known::Known;
use crate::meter::Meter;
use crate::policy::Policy;
use crate::redact::SessionKey;
use crate::transcript::{BlockKind, CHECKPOINT_OPENING, ElementId, Seal, Transcript, UnitKind};
use crate::{Refused, Rewrite, Tokens, wire};

/// Whether what is removed is kept somewhere.
#[derive(Debug, Clone)]
pub enum Keep {
    /// Nowhere: what is removed is lost, and said to be.
    Nothing,
    /// The caller keeps the originals under the handles that this key gives.
    Originals(SessionKey),
}

impl Keep {
    /// The handle of a text: the same text has the same one, and nobody can make one without the key.
    fn handle(&self, text: &str) -> Option<String> {
        const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
        let Self::Originals(key) = self else { return None };
        let hash = blake3::keyed_hash(key.bytes(), text.as_bytes());
        Some(hash.as_bytes().iter().take(10).map(|byte| ALPHABET[usize::from(byte % 32)] as char).collect())
    }
}

/// A block as it was before it was removed or shortened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Original {
    /// What fetches it.
    pub handle: String,
    /// The index of its message.
    pub at: usize,
    /// What it was.
    pub what: What,
    /// The tool that it has to do with.
    pub tool: Option<String>,
    /// Its text, secrets included: redact it before it is kept.
    pub text: String,
}

/// What is wanted of a compaction beyond the policy.
#[derive(Debug, Clone)]
pub struct Wish {
    /// What set it off.
    pub trigger: Trigger,
    /// Whether to compact below the threshold too.
    pub force: bool,
    /// The largest result wanted, instead of the policy's target.
    pub to_tokens: Option<Tokens>,
    /// A topic that is to be kept before all else.
    pub focus: Option<String>,
    /// Whether originals are kept.
    pub keep: Keep,
    /// The session's name, recorded where a new one has to begin.
    pub session: Option<String>,
}

/// What is to be done with a transcript.
#[derive(Debug, Clone, PartialEq)]
pub enum Plan {
    /// Nothing; the report says why.
    Leave(Report),
    /// A rewrite.
    Ready(Outcome),
}

impl Plan {
    /// Its account.
    pub fn report_mut(&mut self) -> &mut Report {
        match self {
            Self::Leave(report) => report,
            Self::Ready(outcome) => &mut outcome.report,
        }
    }
}

/// A settled plan.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// What changes.
    pub rewrite: Rewrite,
    /// The body with it applied.
    pub body: String,
    /// What it did.
    pub report: Report,
    /// What was removed or shortened, where the caller keeps it.
    pub originals: Vec<Original>,
}

/// Plans a compaction of tool outputs alone: the `sacred-zone` engine, and the ladder if that is not enough.
pub fn sacred_zone(
    policy: &Policy,
    wish: &Wish,
    known: &mut Known,
    transcript: &Transcript<'_>,
) -> Result<Plan, Refused> {
    let mut survey = Survey::new(Meter::of(&policy.model), known, transcript);
    survey.about.extend(wish.focus.clone());
    let mut draft = Draft::new(&survey, &wish.keep);
    let trigger = Tokens(policy.sacred.trigger as u64);
    let now = format!(
        "{} tokens ({:.0} % of the window)",
        survey.total,
        100.0 * survey.total.number() as f64 / policy.window.max(1) as f64
    );
    let leave =
        |draft: &Draft<'_, '_, '_>, zone, reason| Ok(Plan::Leave(unchanged(draft, wish, zone, reason)));
    if survey.total < trigger && !wish.force && wish.to_tokens.is_none() {
        return leave(&draft, None, format!("below the trigger of {trigger}: {now}"));
    }
    if let Some(wanted) = wish.to_tokens.filter(|wanted| survey.total <= *wanted && !wish.force) {
        return leave(&draft, None, format!("already at or under the {wanted} tokens asked for: {now}"));
    }
    let overflows = survey.total > Tokens(policy.drop_oldest as u64);
    let in_loop = policy.model.facts.thinking_bound && ends_in_bound_loop(transcript);
    if in_loop && !overflows {
        let reason =
            "a tool loop with reasoning bound to its prefix is open; it is compacted when the loop ends";
        return leave(&draft, None, reason.to_owned());
    }
    let zone = sacred_zone::zone(policy, &survey);
    let target = wish.to_tokens.unwrap_or(Tokens(policy.sacred.target as u64));
    let forced_below = wish.force && survey.total <= target;
    let shrink_to = if forced_below { Tokens::ZERO } else { target };
    sacred_zone::shrink(policy, &mut draft, known, shrink_to, &zone);
    let protected = sacred_zone::protected(&survey, zone.recent);
    let ladder = ladder::climb(policy, &mut draft, known, target, &protected);
    if draft.shrunk.is_empty() && draft.dropped.is_empty() {
        let floor = ladder::floor(&survey);
        let reason = format!(
            "nothing to shrink: no output outside the protected zone is large enough (the floor is {floor} tokens)"
        );
        return leave(&draft, Some(zone), reason);
    }
    let reason = if survey.total < trigger {
        format!("asked for at {now}")
    } else {
        format!("{now} reach the trigger of {trigger}")
    };
    let settled = Settled { policy, wish, zone, ladder, reason, target, in_loop };
    if let Some(outcome) = settled.outcome(known, &draft)? {
        return Ok(Plan::Ready(outcome));
    }
    let reason = "what could be removed is smaller than what would stand in its place";
    leave(&draft, Some(zone), reason.to_owned())
}

/// Whether the transcript ends in a tool loop with sealed reasoning in it: nobody has spoken since it began, and the reply to
/// the last results is still to come.
fn ends_in_bound_loop(transcript: &Transcript<'_>) -> bool {
    let in_loop = transcript.units.iter().rev().map_while(|unit| match &unit.kind {
        UnitKind::Step { reply, exchanges } if !exchanges.is_empty() => Some(reply),
        _ => None,
    });
    in_loop.flatten().any(|block| block.kind == BlockKind::Reasoning(Seal::Sealed))
}

/// Everything that was decided, before it becomes a rewrite.
struct Settled<'p> {
    policy: &'p Policy,
    wish: &'p Wish,
    zone: ZoneReport,
    ladder: Vec<Rung>,
    reason: String,
    target: Tokens,
    /// Whether a tool loop with bound reasoning is open.
    in_loop: bool,
}

impl Settled<'_> {
    /// The rewrite with its account; nothing if it would not make the request smaller.
    fn outcome(self, known: &mut Known, draft: &Draft<'_, '_, '_>) -> Result<Option<Outcome>, Refused> {
        let transcript = draft.survey.transcript;
        let mut edits = draft.edits();
        let unbound = if self.policy.model.facts.thinking_bound { draft.unbound() } else { Vec::new() };
        edits.extend(unbound.iter().map(|(_, block)| draft::remove(block)));
        let gone = gone_messages(draft);
        let is_gone = |message: usize| gone.get(message).copied().unwrap_or(false);
        let unsummarized = gone.iter().filter(|g| **g).count();
        let restarted = self.ladder.iter().any(|rung| rung.step == Step::Restart);
        let restart =
            restarted.then(|| Restart { parent: self.wish.session.clone(), archived_messages: unsummarized });
        if let Some(first) = gone.iter().position(|g| *g) {
            let text = marker(unsummarized, restart.as_ref());
            edits.extend(seat::put(transcript, first, &is_gone, &text));
        }
        let rewrite = Rewrite::new(transcript, edits)?;
        let body = rewrite.apply(transcript.body);
        let (after, messages) = match wire::parse(transcript.dialect, &body) {
            Ok((after, _)) => (draft.survey.meter.parts(known, &after).total(), after.message_count()),
            Err(error) => return Err(Refused::NotJson(error)),
        };
        if after >= draft.survey.total {
            return Ok(None);
        }
        let notes = self.notes(after, ladder::floor(draft.survey));
        let account = draft.account(known, &unbound);
        let mut report = unchanged(draft, self.wish, Some(self.zone), self.reason);
        let before = draft.survey.total;
        report.changed = true;
        report.tokens.after = after;
        report.tokens.warm = warm(draft, &rewrite);
        report.messages.after = messages;
        report.bytes.after = body.len();
        report.blocks = account.rows;
        report.evidence = account.evidence;
        report.ratio = 1.0 - after.number() as f64 / before.number().max(1) as f64;
        report.cost.cold_tokens = after - report.tokens.warm;
        report.state = StateReport::after(0, report.ratio);
        let changed =
            draft.shrunk.keys().map(|(unit, ..)| *unit).chain(unbound.iter().map(|(unit, _)| *unit));
        let changed = changed.filter(|unit| !draft.dropped.contains(unit));
        report.units.digested = changed.collect::<BTreeSet<_>>().len();
        report.units.dropped = draft.dropped.len();
        report.units.kept -= report.units.digested + report.units.dropped;
        report.unsummarized = unsummarized;
        report.notes = notes;
        report.ladder = self.ladder;
        report.restart = restart;
        Ok(Some(Outcome { rewrite, body, report, originals: account.originals }))
    }

    /// What a person should know: a goal that was missed, reasoning that may be refused.
    fn notes(&self, after: Tokens, floor: Tokens) -> Vec<String> {
        let window = Tokens(self.policy.window as u64);
        let mut notes = Vec::new();
        if after > window {
            notes.push(format!(
                "still over the window of {window} tokens: {floor} of them no step can take away"
            ));
        } else if after > self.target {
            let target = self.target;
            notes.push(format!(
                "still over the target of {target} tokens: {floor} of them no step can take away"
            ));
        }
        if self.in_loop {
            let note = "a tool loop is open, and its reasoning is bound to what was changed; the provider may refuse it \
                        unless it is told to drop such blocks";
            notes.push(note.to_owned());
        }
        notes
    }
}

/// Which messages go entirely.
fn gone_messages(draft: &Draft<'_, '_, '_>) -> Vec<bool> {
    let transcript = draft.survey.transcript;
    let mut stays = vec![false; transcript.message_count()];
    let mut goes = vec![false; transcript.message_count()];
    for (at, unit) in transcript.units.iter().enumerate() {
        for message in unit.owns.iter().filter_map(|id| transcript.message_of(*id)) {
            let list = if draft.dropped.contains(&at) { &mut goes } else { &mut stays };
            list[message] = true;
        }
    }
    goes.iter().zip(&stays).map(|(goes, stays)| *goes && !*stays).collect()
}

/// What stands in the place of messages that went without a summary.
fn marker(messages: usize, restart: Option<&Restart>) -> String {
    let from = match restart.map(|restart| restart.parent.as_deref()) {
        Some(Some(session)) => format!(" of session {session}, which is archived,"),
        Some(None) => " of the session before, which is archived,".to_owned(),
        None => String::new(),
    };
    let (noun, verb) = if messages == 1 { ("message", "was") } else { ("messages", "were") };
    format!(
        "{CHECKPOINT_OPENING}: {messages} earlier {noun}{from} {verb} removed from here on without a summary, because the context \
         window was full. For reference only; go on from the recent messages below.]"
    )
}

/// Tokens before the first splice, in reading order: tools and system come first wherever they stand in the body.
fn warm(draft: &Draft<'_, '_, '_>, rewrite: &Rewrite) -> Tokens {
    let survey = draft.survey;
    let Some(first) = rewrite.splices().first().map(|splice| splice.at.start) else { return survey.total };
    let starts_after = |id: &ElementId| survey.transcript.span_of(*id).end > first;
    let cold = survey.transcript.units.iter().zip(&survey.units);
    let cold: Tokens =
        cold.filter(|(unit, _)| unit.owns.iter().any(starts_after)).map(|(_, tokens)| *tokens).sum();
    survey.total - cold
}

fn unchanged(draft: &Draft<'_, '_, '_>, wish: &Wish, zone: Option<ZoneReport>, reason: String) -> Report {
    let survey = draft.survey;
    let transcript = survey.transcript;
    let (messages, bytes) = (transcript.message_count(), transcript.body.len());
    Report {
        dialect: transcript.dialect,
        dialect_sure: transcript.dialect_sure,
        engine: "sacred-zone".to_owned(),
        reason,
        changed: false,
        tokens: TokensReport {
            before: survey.total,
            after: survey.total,
            warm: survey.total,
            floor: ladder::floor(survey),
            counted_by: survey.meter.counter.name(),
        },
        messages: Pair { before: messages, after: messages },
        bytes: Pair { before: bytes, after: bytes },
        units: UnitsReport { kept: transcript.units.len(), digested: 0, summarized: 0, dropped: 0 },
        blocks: Vec::new(),
        evidence: EvidenceReport::default(),
        checkpoint: None,
        trigger: wish.trigger,
        focus: wish.focus.clone(),
        ratio: 0.0,
        unsummarized: 0,
        cost: CostReport::default(),
        state: StateReport::default(),
        zone,
        ladder: Vec::new(),
        restart: None,
        notes: Vec::new(),
    }
}
