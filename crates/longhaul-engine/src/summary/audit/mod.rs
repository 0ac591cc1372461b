//! Of a model's summary, what the transcript bears out.
//!
//! ```text
//! statements ──claims──▶ is it in the session? ──outcomes──▶ did it end so? ──finished──▶ is it still open? ──▶ what stays
//! ```
//!
//! What is wrong goes clause by clause, so that what is right stays word for word. What the summary lost is not put back here: a
//! checkpoint is made from what stays and from the evidence together, and buys what was not said.

mod claims;
mod clauses;
mod finished;
mod language;
mod outcomes;
mod rule;
mod source;
mod support;
mod words;

use std::collections::BTreeSet;

use serde::Serialize;

use super::{Answer, End, read};
use crate::checkpoint::{Section, Statement, Tells};
use crate::clip::{on_one_line, start_within};
use crate::evidence::{Bag, Evidence};
use crate::redact::{Content, Redacted, Redactor};
use crate::transcript::{BlockAt, Transcript};
use claims::{Claim, Kind, claims};
use finished::Finished;
use rule::Rule;
use source::Source;
use support::{Origin, Support, is_order};
use words::{TABLE, has_any, prose};

/// What is left of a summary.
#[derive(Debug, Clone, Default)]
pub(crate) struct Audited {
    /// What stays.
    pub(crate) statements: Vec<Statement>,
    /// What it told otherwise than it was.
    pub(crate) wrong: BTreeSet<BlockAt>,
    /// What was found.
    pub(crate) findings: Vec<Finding>,
}

/// Something that an audit found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was done about it.
    pub action: Mended,
    /// Under which heading.
    pub section: &'static str,
    /// The words that it is about.
    pub text: String,
    /// Why.
    pub why: String,
}

/// What an audit does about something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mended {
    /// Taken out.
    TakenOut,
    /// Put back, because the summary lost it.
    PutBack,
}

/// Why an answer is no summary of the session at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoSummary {
    /// There are no words.
    Empty,
    /// It has none of the headings: a refusal, or something else.
    NoSections,
    /// It is in a language that nobody in the session speaks.
    Language(&'static str),
    /// Nothing of it is borne out.
    NothingTrue,
}

impl std::fmt::Display for NoSummary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Empty => f.write_str("it is empty"),
            Self::NoSections => f.write_str("it is no handover: none of the headings is in it"),
            Self::Language(name) => write!(f, "it is in {name}, which nobody in the session speaks"),
            Self::NothingTrue => f.write_str("nothing in it is borne out by the session"),
        }
    }
}

/// The most that a summary is read of, and that a statement of it may be: what is longer is none.
pub(crate) const LONGEST: usize = 80_000;
const LONGEST_STATEMENT: usize = 4_000;
/// What has so many faults is no summary of this session.
const FAULTS: usize = 200;

/// Audits an answer against the session that it is about.
pub(crate) fn audit(
    answer: &Answer,
    transcript: &Transcript<'_>,
    evidence: &Evidence,
    redactor: &mut Redactor,
) -> Result<Audited, NoSummary> {
    let text = start_within(answer.text.trim(), LONGEST);
    if text.is_empty() {
        return Err(NoSummary::Empty);
    }
    // A model may say a secret again that it saw, or one of its own making.
    let text = super::harmless(&redactor.redact(text, Content::Text).text);
    let mut statements = read::statements(&text);
    if answer.end == End::Cut {
        statements.pop();
    }
    if statements.is_empty() {
        return Err(NoSummary::NoSections);
    }
    if let Some(name) = language::strange(text.as_str(), transcript) {
        return Err(NoSummary::Language(name));
    }
    let source = Source::of(transcript, evidence);
    let mut audited = Audited::default();
    let rules: Vec<Rule> = evidence.rules().map(|(_, rule)| Rule::of(&rule)).collect();
    let mut told = BTreeSet::new();
    statements.retain(|statement| told.insert(statement.text.as_str().to_lowercase()));
    let words = statements.iter().map(|statement| statement.text.as_str());
    let session = Session { support: Support::new(transcript, evidence, words), source: &source, rules };
    for statement in statements {
        if audited.findings.len() > FAULTS {
            return Err(NoSummary::NothingTrue);
        }
        audited.judge(statement, &session);
    }
    audited.drop_finished(evidence);
    let founded = audited.statements.iter().filter(|statement| is_founded(statement, &source)).count();
    if founded * 2 <= audited.statements.len() {
        return Err(NoSummary::NothingTrue);
    }
    for statement in &mut audited.statements {
        if outcomes::tells_of_trouble(statement.text.as_str()) {
            statement.tells = Tells::Trouble;
        }
    }
    Ok(audited)
}

/// What a summary is held against.
struct Session<'s> {
    source: &'s Source,
    support: Support,
    /// The rules that people gave.
    rules: Vec<Rule>,
}

/// What becomes of a clause.
enum Judged {
    /// It stays.
    Stays,
    /// It goes, for this reason.
    Goes(String),
    /// It is no statement of people's: it is quoted as whose it is.
    Quoted(Origin),
}

impl Audited {
    /// Keeps what is borne out of a statement.
    fn judge(&mut self, statement: Statement, session: &Session<'_>) {
        let whole = statement.text.as_str();
        if whole.len() > LONGEST_STATEMENT {
            return self.take_out(&statement, whole, "it is too long for a statement".to_owned());
        }
        if rests_on_people(statement.section)
            && let Some(rule) = session.rules.iter().find(|rule| rule.is_turned_by(whole))
        {
            return self.take_out(&statement, whole, format!("the user said otherwise: {rule}"));
        }
        let clauses = clauses::clauses(whole);
        let mut kept = Vec::with_capacity(clauses.len());
        let mut quoted = Vec::new();
        for clause in &clauses {
            let words = &whole[clause.clone()];
            match self.judge_clause(&statement, words, session) {
                Judged::Stays => kept.push(clause.clone()),
                Judged::Goes(why) => self.take_out(&statement, words, why),
                Judged::Quoted(origin) => {
                    self.take_out(&statement, words, unsaid(origin).to_owned());
                    quoted.push(quote(&statement, clause, origin));
                }
            }
        }
        // What is left of a statement has to say something.
        let says = kept.iter().map(|clause| whole[clause.clone()].split_whitespace().count()).sum::<usize>();
        if kept.len() == clauses.len() {
            self.statements.push(statement);
        } else if says >= 3 && (kept.first() == clauses.first() || !quoted.is_empty()) {
            let text = statement.text.parts(&kept, "", "").trimmed();
            self.statements.push(Statement { text, ..statement });
        }
        self.statements.extend(quoted);
    }

    /// What becomes of a clause: what is wrong goes, and what people did not say is not said in their name.
    fn judge_clause(&mut self, statement: &Statement, clause: &str, session: &Session<'_>) -> Judged {
        let Session { source, support, .. } = session;
        if let Some(why) = self.fault(statement, clause, source) {
            return Judged::Goes(why);
        }
        let section = statement.section;
        let claims = claims(clause);
        let is_theirs = rests_on_people(section);
        let permits = has_any(&prose(clause), &TABLE.permits);
        let directs = permits || has_any(&prose(clause), &TABLE.directs);
        let orders = claims.iter().find(|claim| is_order(claim) && !support.says(claim.text));
        if let Some(order) = orders.filter(|order| is_theirs && !source.is_asked(order.text)) {
            return Judged::Goes(format!("no person said so: {}", on_one_line(order.text, 80)));
        }
        // What was run before is the agent's own, whoever shows it.
        let repeats = |order: &Claim<'_>| source.is_shown(order.text) && !source.is_asked(order.text);
        let repeats_a_tool = is_open(section) && orders.is_some_and(repeats);
        if !(is_theirs || repeats_a_tool || directs || is_open(section)) {
            return Judged::Stays;
        }
        match support.origin(clause, &claims) {
            None | Some(Origin::People) => Judged::Stays,
            Some(origin) if is_theirs => Judged::Quoted(origin),
            Some(_) if repeats_a_tool => Judged::Quoted(Origin::Tool),
            // A permission is a person's to give, whoever repeats it.
            Some(Origin::Tool) if permits || Bag::of(clause).share_in(&source.topics) < FEW => {
                Judged::Quoted(Origin::Tool)
            }
            Some(_) => Judged::Stays,
        }
    }

    /// What is wrong with a clause.
    fn fault(&mut self, statement: &Statement, clause: &str, source: &Source) -> Option<String> {
        let claims = claims(clause);
        if let Some(unknown) = claims.iter().find(|claim| !source.has(claim)) {
            return Some(format!(
                "{} is not in the session: {}",
                kind(unknown.kind),
                on_one_line(unknown.text, 80)
            ));
        }
        if is_open(statement.section)
            && let Some(claim) =
                claims.iter().filter(|claim| is_order(claim)).find(|claim| !source.is_said(claim))
        {
            let words = on_one_line(claim.text, 80);
            return Some(format!("only a tool's output says so, neither people nor the agent: {words}"));
        }
        let wrong = match statement.section {
            Section::CompletedActions | Section::ActiveState | Section::Blocked => {
                outcomes::contradicted(statement.text.as_str(), clause, source)
            }
            _ => Vec::new(),
        };
        if !wrong.is_empty() {
            self.wrong.extend(wrong);
            return Some("it did not end like this".to_owned());
        }
        if outcomes::is_miscounted(clause, source) {
            return Some("no output counts so".to_owned());
        }
        outcomes::is_misreported(clause, source).then(|| "no result shows that output".to_owned())
    }

    /// Takes out what is told as open and was finished.
    fn drop_finished(&mut self, evidence: &Evidence) {
        let finished = Finished::of(&self.statements, evidence);
        for statement in std::mem::take(&mut self.statements) {
            match finished.shows(statement.text.as_str()).filter(|_| is_open(statement.section)) {
                Some(by) => {
                    let why = format!("it is finished: {}", on_one_line(by, 120));
                    self.take_out(&statement, statement.text.as_str(), why);
                }
                None => self.statements.push(statement),
            }
        }
    }

    fn take_out(&mut self, statement: &Statement, words: &str, why: String) {
        let (section, text) = (statement.section.title(), on_one_line(words, 300));
        self.findings.push(Finding { action: Mended::TakenOut, section, text, why });
    }
}

/// A statement of which less than this is in the words of people and the agent is a tool's, where a tool's output says it.
const FEW: f32 = 0.5;

/// Why a clause is not said in people's name.
fn unsaid(origin: Origin) -> &'static str {
    match origin {
        Origin::Tool => "only a tool's output says so, and no person; it is quoted as that",
        _ => "no person said so; it is quoted as that",
    }
}

/// A clause as what it is: not people's words.
fn quote(statement: &Statement, clause: &std::ops::Range<usize>, origin: Origin) -> Statement {
    let opening = match origin {
        Origin::Tool => "A tool's output said: \u{201c}",
        Origin::Agent => "The agent said, not the user: \u{201c}",
        Origin::People | Origin::Nobody => "The summary says, not the user: \u{201c}",
    };
    let words = statement.text.parts(std::slice::from_ref(clause), "", "").trimmed();
    let text = Redacted::own(opening).and(&words).and_own("\u{201d}");
    Statement { section: Section::CriticalContext, text, tells: Tells::Other }
}

/// Whether there is anything in a statement by which it is known to be about the session: a name that it has, or the words of those
/// who speak in it.
fn is_founded(statement: &Statement, source: &Source) -> bool {
    let text = statement.text.as_str();
    !claims(text).is_empty() || Bag::of(text).share_in(&source.topics) >= FOUNDED
}

/// So much of a statement without a name is in the words of people and the agent.
const FOUNDED: f32 = 0.6;

/// Whether what stands under a heading is what people want.
fn rests_on_people(section: Section) -> bool {
    matches!(section, Section::ActiveTask | Section::Goal | Section::Constraints | Section::PendingUserAsks)
}

/// Whether what stands under a heading is still to be done.
fn is_open(section: Section) -> bool {
    matches!(
        section,
        Section::ActiveTask | Section::InProgress | Section::PendingUserAsks | Section::RemainingWork
    )
}

fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Path => "a path",
        Kind::Url => "an address",
        Kind::Name => "a name",
        Kind::Number => "a number",
        Kind::Code => "code",
    }
}
