//! Finding what was removed: full text over the messages of a session, or of all that it descends from.
//!
//! ```text
//! query ──terms──▶ which messages have each (the index) ──▶ the likeliest steps ──▶ read, weighed, told apart ──▶ hits
//! ```
//!
//! The index knows which message has a term, and nothing else; what a message is worth is reckoned here, alike for both databases:
//! a call and its results are one step, rare terms and whole identifiers weigh more, and what is sought is what the view in force does
//! not show: values that stand there, or in a better hit, add nothing. What holds the query letter for letter comes first. A hit is
//! quoted material, never an instruction.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use longhaul_engine::redact::Redacted;
use serde::Serialize;

use super::epochs::{self, Epoch};
use super::error::Result;
use super::message::{self, BlockRow, MESSAGE, Stored, Stretch};
use super::recall;
use super::schema::session_and_place;
use super::session::{self, Session};
use super::sql::{Row, Sql, Value};
use super::tenant::Tenant;
use super::terms::{self, Class};
use super::{Store, work};

/// So many terms of a query are asked for, identifiers and long words first,
const ASKED: usize = 128;
/// of which the weightiest are used.
const TERMS: usize = 64;
/// A term that more messages have says little.
const COMMON: usize = 2_000;
/// So many messages are looked at for the steps that they are of,
const MESSAGES: usize = 600;
/// and so many steps are read.
const CANDIDATES: usize = 200;
/// How soon more of the same term says no more, and how much a long message has to answer for its length.
const SATURATION: f64 = 1.2;
const LENGTH: f64 = 0.75;
/// What an identifier is worth beside a word.
const IDENTIFIER: f64 = 2.0;
/// How soon a term that the query says again weighs no more.
const REPETITION: f64 = 2.0;
/// How much an excerpt shows.
const EXCERPT: usize = 300;

/// Where to search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scope {
    /// One session, with what it shares with others.
    #[default]
    Session,
    /// All sessions that it descends from and all that descend from those.
    Family,
}

/// A block that a search found.
#[derive(Debug, Clone, PartialEq)]
pub struct Hit {
    /// What fetches it.
    pub handle: String,
    /// The session that it is of.
    pub session: String,
    /// The place of its message.
    pub at: usize,
    /// What it is.
    pub what: String,
    /// The tool that it has to do with.
    pub tool: Option<String>,
    /// The lines that speak most of what was asked for.
    pub excerpt: Redacted,
    /// How well its step fits; among other things the order goes by it.
    pub score: f64,
    /// The blocks of the whole step.
    pub step: Vec<StepBlock>,
    /// Whether all of it still stands in the view in force.
    pub shown: bool,
}

/// A block of a step that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StepBlock {
    /// What fetches it.
    pub handle: String,
    /// The place of its message.
    pub at: usize,
    /// What it is.
    pub what: String,
    /// The tool that it has to do with.
    pub tool: Option<String>,
}

/// A term of the query and what it weighs.
struct Asked {
    term: String,
    weight: f64,
    messages: Vec<i64>,
}

/// A step that may be a hit: a reply with the results of its calls, or a message by itself.
struct Candidate {
    number: i64,
    messages: Vec<Stored>,
    text: String,
    score: f64,
    /// The values in it that nothing before it in the order has.
    new: BTreeSet<String>,
    values: usize,
    /// Whether the query stands in it letter for letter.
    holds_it: bool,
    /// Whether all of it still stands in the view in force.
    shown: bool,
}

async fn search(
    sql: &mut dyn Sql,
    tenant: &Tenant,
    session: &Session,
    scope: Scope,
    query: &str,
    most: usize,
) -> Result<Vec<Hit>> {
    let stretches = stretches(sql, tenant, session, scope).await?;
    let total: usize = stretches.iter().map(|stretch| stretch.places.len()).sum();
    let ranges = match scope {
        Scope::Session => apart(&stretches),
        Scope::Family => joined(&stretches),
    };
    let asked = ask(sql, query, &ranges, total).await?;
    let view = match session.head {
        Some(head) => epochs::epoch(sql, tenant, head).await?,
        None => None,
    };
    let steps = likely(sql, tenant, &asked).await?;
    let mut pool = read(sql, tenant, &steps, &ranges).await?;
    let phrase = query.trim();
    if !phrase.is_empty() && phrase.len() <= 200 && !phrase.contains('\n') {
        for candidate in &mut pool {
            candidate.holds_it = candidate.holds(phrase);
        }
        if !phrase.contains(char::is_whitespace) && !pool.iter().any(|candidate| candidate.holds_it) {
            let steps = holding(sql, tenant, phrase, &ranges).await?;
            let mut held = read(sql, tenant, &steps, &ranges).await?;
            for candidate in &mut held {
                candidate.holds_it = true;
            }
            pool.retain(|candidate| !steps.contains(&candidate.number));
            pool.extend(held);
        }
    }
    weigh(&mut pool, &asked);
    let mut covered = values(query);
    if let Some(view) = &view {
        covered.extend(in_view(sql, tenant, session, view).await?);
        // What only a relative said is in nobody's view here.
        let own = apart(&self::stretches(sql, tenant, session, Scope::Session).await?);
        for candidate in &mut pool {
            candidate.shown =
                candidate.messages.iter().all(|m| within(m.number, &own) && view.shows(m.place));
        }
    }
    hits(sql, tenant, phrase, &asked, tell_apart(pool, &covered, most)).await
}

/// Where to search.
async fn stretches(
    sql: &mut dyn Sql,
    tenant: &Tenant,
    session: &Session,
    scope: Scope,
) -> Result<Vec<Stretch>> {
    if scope == Scope::Session {
        return message::path(sql, tenant, session, session.length).await;
    }
    let family = "SELECT id, begins, length FROM sessions WHERE family = $1 AND tenant = $2 ORDER BY id";
    let rows = sql.rows(family, &[session.family.into(), tenant.id.into()]).await?;
    let stretch = |row: &Row| Ok(Stretch { session: row.int(0)?, places: row.count(1)?..row.count(2)? });
    rows.iter().map(stretch).collect()
}

/// The numbers of the messages of each stretch.
fn apart(stretches: &[Stretch]) -> Vec<(i64, i64)> {
    stretches.iter().filter_map(Stretch::numbers).collect()
}

/// The same of whole sessions, the oldest first, as few ranges: those that were made one right after the other have nobody else's
/// messages between theirs. A client that goes on from what a compaction left begins a session with each, and every term is asked
/// for once a range.
fn joined(sessions: &[Stretch]) -> Vec<(i64, i64)> {
    let follow = |a: &Stretch, b: &Stretch| a.session + 1 == b.session;
    let numbers = |run: &[Stretch]| {
        let mut ranges = run.iter().filter_map(Stretch::numbers);
        let (first, last) = ranges.next()?;
        Some((first, ranges.next_back().map_or(last, |(_, last)| last)))
    };
    sessions.chunk_by(follow).filter_map(numbers).collect()
}

fn within(number: i64, ranges: &[(i64, i64)]) -> bool {
    ranges.iter().any(|(first, last)| (*first..=*last).contains(&number))
}

/// The values that the model sees anyway: in what stands in the view as it was sent, and in what the compaction wrote.
async fn in_view(
    sql: &mut dyn Sql,
    tenant: &Tenant,
    session: &Session,
    view: &Epoch,
) -> Result<BTreeSet<String>> {
    let mut seen: BTreeSet<String> = view.ledger.words().flat_map(values).collect();
    let later = view.length..session.length;
    let kept = view.kept.iter().map(|range| *range.start()..range.end() + 1).chain([later]);
    for places in kept {
        for message in message::messages(sql, tenant, session, places).await? {
            seen.extend(values(&terms::words_of(message.text.as_str())));
        }
    }
    Ok(seen)
}

/// The terms of the query that somebody has, the weightiest first.
async fn ask(sql: &mut dyn Sql, query: &str, ranges: &[(i64, i64)], total: usize) -> Result<Vec<Asked>> {
    let mut times: BTreeMap<Cow<'_, str>, (usize, Class)> = BTreeMap::new();
    for (term, class) in terms::terms(query) {
        let (count, known) = times.entry(term).or_insert((0, class));
        *count += 1;
        *known = (*known).min(class);
    }
    let mut times: Vec<(Cow<'_, str>, (usize, Class))> = times.into_iter().collect();
    times.sort_by_key(|(term, (_, class))| Reverse((*class, term.len())));
    times.truncate(ASKED);
    let (having, term_of) = (sql.flavour().having_term, sql.flavour().term);
    let mut asked = Vec::new();
    for (term, (count, class)) in times {
        let mut messages = Vec::new();
        for (first, last) in ranges.iter().rev() {
            let room = COMMON + 1 - messages.len().min(COMMON + 1);
            if room > 0 {
                let values = [term_of(&term).into(), (*first).into(), (*last).into(), room.into()];
                let rows = sql.rows(having, &values).await?;
                messages.extend(rows.iter().map(|row| row.int(0)).collect::<Result<Vec<_>>>()?);
            }
        }
        if messages.is_empty() {
            continue;
        }
        let (n, having) = (total as f64, messages.len() as f64);
        let rarity = (1.0 + (n - having + 0.5).max(0.0) / (having + 0.5)).ln();
        let count = count as f64;
        let said = count * (1.0 + REPETITION) / (count + REPETITION);
        let weight = rarity * said * if class == Class::Identifier { IDENTIFIER } else { 1.0 };
        asked.push(Asked { term: term.into_owned(), weight, messages });
    }
    let is_rare = |asked: &Asked| asked.messages.len() <= COMMON;
    if asked.iter().any(is_rare) {
        asked.retain(is_rare);
    }
    asked.sort_by(|a, b| b.weight.total_cmp(&a.weight).then_with(|| a.term.cmp(&b.term)));
    asked.truncate(TERMS);
    Ok(asked)
}

/// The steps that have most of the query's weight, by the number of their first message.
async fn likely(sql: &mut dyn Sql, tenant: &Tenant, asked: &[Asked]) -> Result<Vec<i64>> {
    let mut messages: HashMap<i64, f64> = HashMap::new();
    for term in asked {
        term.messages.iter().for_each(|message| *messages.entry(*message).or_default() += term.weight);
    }
    let messages: Vec<i64> = best(messages, MESSAGES);
    let list = format!(
        "SELECT id, step FROM messages WHERE tenant = $1 AND id IN ({})",
        message::placeholders(2, MESSAGES)
    );
    let Some(values) = padded(tenant, &messages, MESSAGES) else { return Ok(Vec::new()) };
    let rows = sql.rows(&list, &values).await?;
    let step_of =
        rows.iter().map(|row| Ok((row.int(0)?, row.int(1)?))).collect::<Result<HashMap<i64, i64>>>()?;
    let mut steps: HashMap<i64, f64> = HashMap::new();
    for term in asked {
        let of_term: HashSet<i64> =
            term.messages.iter().filter_map(|message| step_of.get(message).copied()).collect();
        for step in of_term {
            *steps.entry(step).or_default() += term.weight;
        }
    }
    Ok(best(steps, CANDIDATES))
}

/// The numbers with the highest scores; of equals the newest.
fn best(scores: HashMap<i64, f64>, most: usize) -> Vec<i64> {
    let mut scores: Vec<(i64, f64)> = scores.into_iter().collect();
    scores.sort_by(|a, b| b.1.total_cmp(&a.1).then(b.0.cmp(&a.0)));
    scores.into_iter().take(most).map(|(number, _)| number).collect()
}

/// The values of a statement that takes a tenant and so many numbers: the same statement serves for fewer.
fn padded(tenant: &Tenant, numbers: &[i64], count: usize) -> Option<Vec<Value>> {
    let last = *numbers.last()?;
    let numbers = numbers.iter().copied().chain(std::iter::repeat(last)).take(count);
    Some([tenant.id].into_iter().chain(numbers).map(Value::Int).collect())
}

/// Steps with all their messages that are on the path.
async fn read(
    sql: &mut dyn Sql,
    tenant: &Tenant,
    steps: &[i64],
    ranges: &[(i64, i64)],
) -> Result<Vec<Candidate>> {
    let Some(values) = padded(tenant, steps, CANDIDATES) else { return Ok(Vec::new()) };
    let list = message::placeholders(2, CANDIDATES);
    let find = format!("{MESSAGE} WHERE tenant = $1 AND step IN ({list}) ORDER BY step, id");
    let rows = sql.rows(&find, &values).await?;
    let mut stored = rows.iter().map(message::stored_message).collect::<Result<Vec<Stored>>>()?;
    stored.retain(|message| within(message.number, ranges));
    Ok(stored.chunk_by(|a, b| a.step == b.step).map(candidate).collect())
}

fn candidate(messages: &[Stored]) -> Candidate {
    let text: String = messages.iter().map(|message| terms::words_of(message.text.as_str())).collect();
    let new = values(&text);
    let (number, values) = (messages[0].step, new.len());
    Candidate {
        number,
        messages: messages.to_owned(),
        text,
        score: 0.0,
        values,
        new,
        holds_it: false,
        shown: false,
    }
}

/// What the index did not find: a value that stands in the middle of a longer word. Every message is read for it, newest first.
async fn holding(
    sql: &mut dyn Sql,
    tenant: &Tenant,
    phrase: &str,
    ranges: &[(i64, i64)],
) -> Result<Vec<i64>> {
    let escaped = longhaul_engine::json::escape(phrase);
    let escaped = escaped.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_");
    let find = "SELECT step FROM messages WHERE tenant = $1 AND id BETWEEN $2 AND $3 AND text LIKE $4 ESCAPE '\\' \
                ORDER BY id DESC LIMIT $5";
    let mut held = Vec::new();
    for (first, last) in ranges.iter().rev() {
        let like = format!("%{escaped}%");
        let values = [tenant.id.into(), (*first).into(), (*last).into(), like.into(), CANDIDATES.into()];
        for row in sql.rows(find, &values).await? {
            held.push(row.int(0)?);
        }
    }
    held.dedup();
    held.truncate(CANDIDATES);
    Ok(held)
}

/// What each step is worth by the terms of the query in it.
fn weigh(pool: &mut [Candidate], asked: &[Asked]) {
    let weights: HashMap<&str, f64> = asked.iter().map(|asked| (asked.term.as_str(), asked.weight)).collect();
    // In one order always, or equal searches would differ in the last digit.
    let asked_for: f64 = asked.iter().map(|asked| asked.weight).sum();
    let mut counted = Vec::with_capacity(pool.len());
    for candidate in pool.iter() {
        let mut times: BTreeMap<&str, f64> = BTreeMap::new();
        let terms = terms::terms(&candidate.text);
        for (term, _) in &terms {
            if let Some((term, _)) = weights.get_key_value(term.as_ref()) {
                *times.entry(term).or_default() += 1.0;
            }
        }
        counted.push((terms.len() as f64, times));
    }
    let average = counted.iter().map(|(length, _)| length).sum::<f64>() / counted.len().max(1) as f64;
    for (candidate, (length, times)) in pool.iter_mut().zip(counted) {
        let slack = SATURATION * (1.0 - LENGTH + LENGTH * length / average.max(1.0));
        let worth = |(term, times): (&str, f64)| weights[term] * times * (SATURATION + 1.0) / (times + slack);
        let said: f64 = times.keys().map(|term| weights[term]).sum();
        candidate.score = times.into_iter().map(worth).sum::<f64>() * said / asked_for.max(1e-9);
    }
}

impl Candidate {
    /// Whether a text stands in it, letter for letter, as it reads or as it is written.
    fn holds(&self, phrase: &str) -> bool {
        self.text.contains(phrase)
            || self.messages.iter().any(|message| message.text.as_str().contains(phrase))
    }

    /// What it is worth when what others hold already is taken off.
    fn worth(&self) -> f64 {
        let share = (self.new.len() as f64 + 1.0) / (self.values as f64 + 1.0);
        self.score * share.sqrt()
    }

    /// Which of two comes first: what was asked for by name, then what the view lacks, then by worth, then the newer.
    fn before(&self, other: &Self) -> std::cmp::Ordering {
        let first = (self.holds_it, !self.shown).cmp(&(other.holds_it, !other.shown));
        first.then_with(|| self.worth().total_cmp(&other.worth())).then(self.number.cmp(&other.number))
    }
}

/// The best first, and behind it what adds most to it.
fn tell_apart(mut pool: Vec<Candidate>, covered: &BTreeSet<String>, most: usize) -> Vec<Candidate> {
    for candidate in &mut pool {
        candidate.new.retain(|value| !covered.contains(value));
    }
    let mut ranked: Vec<Candidate> = Vec::new();
    while ranked.len() < most {
        let best = pool.iter().enumerate().max_by(|(_, a), (_, b)| a.before(b)).map(|(at, _)| at);
        let Some(at) = best else { break };
        let best = pool.swap_remove(at);
        for other in &mut pool {
            other.new.retain(|value| !best.new.contains(value));
        }
        ranked.push(best);
    }
    ranked
}

/// The exact values of a text: paths, addresses, ids, numbers, names with inner structure.
fn values(text: &str) -> BTreeSet<String> {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '@' | '+' | '~' | '-' | '/');
    let runs = text.split(|c: char| !is_part(c)).map(|run| run.trim_matches(['.', '-', '+']));
    let is_value = |run: &&str| {
        (4..=160).contains(&run.len())
            && (run.contains(['/', '@', '_'])
                || run.contains(|c: char| c.is_ascii_digit())
                || (run[1..].contains(char::is_uppercase) && run.contains(char::is_lowercase)))
    };
    runs.filter(|run| run.is_char_boundary(1)).filter(is_value).map(str::to_owned).collect()
}

/// The best block of each step, with the lines that speak most of what was asked for.
async fn hits(
    sql: &mut dyn Sql,
    tenant: &Tenant,
    phrase: &str,
    asked: &[Asked],
    ranked: Vec<Candidate>,
) -> Result<Vec<Hit>> {
    let weights: HashMap<&str, f64> = asked.iter().map(|asked| (asked.term.as_str(), asked.weight)).collect();
    let mut sessions: BTreeMap<i64, Session> = BTreeMap::new();
    let mut hits = Vec::with_capacity(ranked.len());
    for candidate in ranked {
        let (owner, _) = session_and_place(candidate.messages[0].number);
        if !sessions.contains_key(&owner)
            && let Some(session) = session::session(sql, tenant, session::SessionId(owner)).await?
        {
            sessions.insert(owner, session);
        }
        let Some(session) = sessions.get(&owner) else { continue };
        let mut blocks: Vec<(usize, &BlockRow, String)> = Vec::new();
        for message in &candidate.messages {
            let texts = recall::texts(session.dialect, message);
            blocks.extend(message.blocks.iter().zip(texts).map(|(row, text)| (message.place, row, text)));
        }
        // What was asked for by name is shown where it stands, though the index may know it only as part of a longer word.
        let phrase = Some(phrase).filter(|phrase| candidate.holds_it && !phrase.is_empty());
        let worth = |text: &str| {
            let new = values(text).intersection(&candidate.new).count() as f64;
            let holds = phrase.is_some_and(|phrase| text.contains(phrase));
            if holds { f64::MAX } else { speaks(text, &weights) * (1.0 + new).sqrt() }
        };
        let worths: Vec<f64> = blocks.iter().map(|(_, _, text)| worth(text)).collect();
        let best = worths.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1).then(b.0.cmp(&a.0)));
        let Some((at, row, text)) = best.and_then(|(place, _)| blocks.get(place)) else { continue };
        let part = |(at, row, _): &(usize, &BlockRow, String)| StepBlock {
            handle: row.handle.clone(),
            at: *at + session.lead,
            what: row.what.clone(),
            tool: row.tool.clone(),
        };
        hits.push(Hit {
            handle: row.handle.clone(),
            session: session.name.clone(),
            at: *at + session.lead,
            what: row.what.clone(),
            tool: row.tool.clone(),
            excerpt: excerpt(text, phrase, &weights),
            score: candidate.score,
            step: blocks.iter().map(part).collect(),
            shown: candidate.shown,
        });
    }
    Ok(hits)
}

/// How much of the query a text speaks of.
fn speaks(text: &str, weights: &HashMap<&str, f64>) -> f64 {
    let mut seen = HashSet::new();
    let terms = terms::terms(text);
    let new = terms.iter().filter(|(term, _)| seen.insert(term.as_ref()));
    new.filter_map(|(term, _)| weights.get(term.as_ref())).sum()
}

/// The line of a text that has the query in it or speaks most of it, with what stands behind it while there is room.
fn excerpt(text: &str, phrase: Option<&str>, weights: &HashMap<&str, f64>) -> Redacted {
    const LINES: usize = 20_000;
    let lines: Vec<&str> = text.lines().take(LINES).collect();
    let has_it = |line: &str| phrase.is_some_and(|phrase| line.contains(phrase));
    let speaks = |line: &str| if has_it(line) { f64::MAX } else { speaks(line, weights) };
    let best = lines.iter().enumerate().map(|(at, line)| (speaks(line), at));
    let best = best.max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1))).map_or(0, |(_, at)| at);
    let mut shown = lines.get(best..).unwrap_or_default().join("\n");
    let line = lines.get(best).copied().unwrap_or_default();
    if line.len() > EXCERPT {
        let start = part_of(line, phrase, weights);
        if start > 0 {
            shown.replace_range(..start, "… ");
        }
    }
    Redacted::from_store(shown).on_one_line(EXCERPT)
}

/// Where the part of a long line begins that has the query in it or speaks most of it, with a little of what stands before it. A
/// result in JSON is often one line of all there is.
fn part_of(line: &str, phrase: Option<&str>, weights: &HashMap<&str, f64>) -> usize {
    const LEAD_BYTES: usize = 60;
    const STEP_BYTES: usize = 80;
    let at = |byte: usize| line.floor_char_boundary(byte.min(line.len()));
    let best_window = || {
        let starts = (0..line.len()).step_by(STEP_BYTES).map(at);
        let windows =
            starts.map(|start| (speaks(&line[start..at(start + EXCERPT - LEAD_BYTES)], weights), start));
        // The first of equals: what follows is shown too.
        windows.fold((0.0, 0), |best, window| if window.0 > best.0 { window } else { best }).1
    };
    let found = phrase.and_then(|phrase| line.find(phrase)).unwrap_or_else(best_window);
    let start = at(found.saturating_sub(LEAD_BYTES));
    // Whole words, where there are any nearby.
    line[start..found].find([' ', ',']).filter(|_| start > 0).map_or(start, |gap| start + gap + 1)
}

impl Store {
    /// The blocks of a session, or of its family, that fit a query best.
    pub async fn search(
        &self,
        tenant: &Tenant,
        session: &Session,
        scope: Scope,
        query: &str,
        most: usize,
    ) -> Result<Vec<Hit>> {
        let with = (tenant.clone(), session.clone(), query.to_owned(), scope, most);
        self.read(work(with, |sql, (tenant, session, query, scope, most)| {
            Box::pin(search(sql, tenant, session, *scope, query, *most))
        }))
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::schema::number;

    #[test]
    fn an_excerpt_of_one_long_line_shows_what_was_found() {
        let rows: Vec<String> =
            (0..400).map(|n| format!(r#"{{"id":{n},"name":"item {n}","stock":{}}}"#, n * 7 + 1)).collect();
        let text = format!("[{}]", rows.join(","));
        let weights = HashMap::from([("item", 0.1), ("371", 3.0)]);
        for phrase in [Some("item 371"), None] {
            let shown = excerpt(&text, phrase, &weights);
            assert!(shown.as_str().contains("item 371"), "{phrase:?}: {shown}");
            assert!(
                shown.as_str().starts_with('…') && shown.as_str().chars().count() <= EXCERPT + 1,
                "{shown}"
            );
        }
        let first = excerpt(&text, Some("item 0"), &weights);
        assert!(first.as_str().starts_with("[{"), "{first}");
        let accented = "é".repeat(1_000) + " the needle is here";
        assert!(excerpt(&accented, Some("needle"), &weights).as_str().contains("needle"));
        let lines = "first\nsecond needle\nthird";
        assert_eq!(excerpt(lines, Some("needle"), &weights).as_str(), "second needle third");
    }

    #[test]
    fn sessions_that_follow_on_one_another_are_searched_as_one() {
        let session = |session, places| Stretch { session, places };
        let family =
            [session(3, 0..5), session(4, 2..2), session(5, 1..9), session(8, 0..4), session(9, 0..0)];
        assert_eq!(joined(&family), [(number(3, 0), number(5, 8)), (number(8, 0), number(8, 3))]);
        assert_eq!(joined(&family[1..2]), []);
    }
}
