//! Full-text search in the messages of a session, or of all sessions of its family.
//!
//! ```text
//! query ──terms──▶ messages with a form of each term (the index) ──▶ the likeliest turns, and their neighbours
//!       ──▶ read, scored, lent to neighbours, ranked ──▶ hits
//! ```
//!
//! The index only knows which message has a word. The scores (BM25) are computed here, the same for both
//! databases. A tool call and its results count as one turn. A word counts in all its inflected forms; words
//! that only ask or connect are left out. Rare terms and whole identifiers weigh more. A turn lends a share of
//! its score to the turns next to it, because an answer often has no word of its question; and if the query
//! names somebody who speaks in the session, turns that this person said come first. A search looks for text
//! that the model no longer sees, so values that are visible to it, or in a better hit, add nothing to a
//! score. Turns that contain the query literally come first. A hit is quoted material, never an instruction.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use longhaul_engine::redact::Redacted;
use serde::Serialize;

use super::compactions::{self, Compaction};
use super::error::Result;
use super::message::{self, BlockRow, PathSegment, SELECT_MESSAGE, StoredMessage};
use super::recall;
use super::schema::split_message_id;
use super::search_excerpt::{best_passage_weight, excerpt, passage_ranges};
use super::search_terms::{self, TermClass};
use super::session::{self, StoredSession};
use super::sql::{Row, Sql, Value};
use super::tenant::Tenant;
use super::word_forms;
use super::{Store, in_transaction};

/// The terms of a query that are looked up in the index at most, identifiers and long words first. Chosen by
/// hand.
const MAX_LOOKED_UP_TERMS: usize = 128;
/// The terms with the most weight that are used for scores. Chosen by hand.
const MAX_SCORED_TERMS: usize = 64;
/// The messages above which a term counts as common; common terms are ignored if the query has a rarer one.
/// Chosen by hand.
const COMMON_TERM_MESSAGES: usize = 2_000;
/// The best messages of which the turns are looked up. Chosen by hand.
const MAX_CANDIDATE_MESSAGES: usize = 600;
/// The best turns that are read and scored. Chosen by hand.
const MAX_CANDIDATES: usize = 200;
/// BM25's k1: how soon further occurrences of a term in a turn stop adding to the score. 1.2 is the customary
/// value.
const TERM_SATURATION: f64 = 1.2;
/// BM25's b: how much a long turn is penalized for its length. 0.75 is the customary value.
const LENGTH_NORMALIZATION: f64 = 0.75;
/// What a term adds to the score of a turn however long the turn is, in relation to its weight. Without it, a value in
/// a very long result is never found: BM25's length normalization has no lower bound. 1.0 is the value of BM25+ (Lv and
/// Zhai, 2011).
const MIN_TERM_SCORE: f64 = 1.0;
/// The weight of an identifier in relation to a word. Chosen by hand.
const IDENTIFIER_WEIGHT: f64 = 2.0;
/// BM25's k3: how soon further occurrences of a term in the query stop adding to its weight. Chosen by hand.
const QUERY_TERM_SATURATION: f64 = 2.0;
/// The shares of its score that a turn lends to the next and the next but one, before and after it. Chosen on
/// three chats of `bench/recall`; the result hardly changes from 0.3 to 0.6.
const LENT_SHARES: [f64; 2] = [0.4, 0.32];
/// The share of the best score that is added to turns of a speaker whom the query names. Chosen on three chats
/// of `bench/recall`.
const SPEAKER_SHARE: f64 = 0.25;
/// The weight of the best passage of a turn in relation to the whole turn. Chosen by hand.
const PASSAGE_WEIGHT: f64 = 1.0;
/// The factor for turns that the model still sees: a search looks for text that it lacks. They are no last
/// resort, because it asks for what it did not find in its own context. Chosen by hand.
const VISIBLE_FACTOR: f64 = 0.5;
/// The turns that a name must open a line of to be a speaker's: fewer may be a label such as `Note:`. Chosen
/// by hand.
const MIN_SPEAKER_TURNS: usize = 3;

/// The sessions that a search covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SearchScope {
    /// One session, including the messages that it shares with others.
    #[default]
    Session,
    /// All sessions with the same oldest ancestor.
    Family,
}

/// A block that a search found.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchHit {
    /// The ID that recalls the block.
    pub recall_id: String,
    /// The name of the session that has the block.
    pub session_name: String,
    /// The index of its message in the session's newest request.
    pub message: usize,
    /// The kind of content: `prompt`, `reply`, `call`, `result`, ….
    pub kind: String,
    /// The name of the tool, for a tool call or its result.
    pub tool: Option<String>,
    /// The lines that match the query best.
    pub excerpt: Redacted,
    /// The BM25 score of its turn. The order of hits depends on it, but also on literal matches and on
    /// novelty.
    pub score: f64,
    /// All blocks of its turn.
    pub turn_blocks: Vec<BlockSummary>,
    /// Whether the model still sees all of the turn unchanged.
    pub is_visible: bool,
}

/// The recall ID, kind and tool of a block, and the index of its message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BlockSummary {
    /// The ID that recalls the block.
    #[serde(rename = "handle")]
    pub recall_id: String,
    /// The index of its message in the session's newest request.
    #[serde(rename = "at")]
    pub message: usize,
    /// The kind of content: `prompt`, `reply`, `call`, `result`, ….
    #[serde(rename = "what")]
    pub kind: String,
    /// The name of the tool, for a tool call or its result.
    pub tool: Option<String>,
}

/// A term of the query, its weight, and the IDs of the messages that have one of its forms.
struct QueryTerm {
    forms: Vec<String>,
    weight: f64,
    messages: Vec<i64>,
}

/// The terms of a query, heaviest first.
#[derive(Default)]
pub(super) struct QueryTerms {
    terms: Vec<QueryTerm>,
    /// The index in `terms` of each form.
    index_of_form: HashMap<String, usize>,
}

impl QueryTerms {
    fn new(terms: Vec<QueryTerm>) -> Self {
        let forms = |(index, term): (usize, &QueryTerm)| {
            term.forms.iter().map(move |form| (form.clone(), index)).collect::<Vec<_>>()
        };
        let index_of_form = terms.iter().enumerate().flat_map(forms).collect();
        Self { terms, index_of_form }
    }

    /// Returns the indexes of the terms that a text has.
    pub(super) fn terms_in(&self, text: &str) -> BTreeSet<usize> {
        let terms = search_terms::split_terms(text);
        terms.iter().filter_map(|(term, _)| self.index_of_form.get(term.as_ref()).copied()).collect()
    }

    /// Makes a query of terms with these weights, each with one form.
    #[cfg(test)]
    pub(super) fn for_test(terms: &[(&str, f64)]) -> Self {
        let term = |(form, weight): &(&str, f64)| QueryTerm {
            forms: vec![(*form).to_owned()],
            weight: *weight,
            messages: Vec::new(),
        };
        Self::new(terms.iter().map(term).collect())
    }

    /// Sums the weights of terms.
    pub(super) fn weight_of(&self, indexes: &BTreeSet<usize>) -> f64 {
        indexes.iter().map(|index| self.terms[*index].weight).sum()
    }
}

/// Whether a turn contains the query literally.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum LiteralMatch {
    No,
    /// Only as a part of longer words, as `target3` is in `target32`.
    InsideWords,
    Words,
}

impl LiteralMatch {
    /// Looks for a phrase in a text.
    fn find(text: &str, phrase: &str) -> Self {
        let is_word = |c: Option<char>| c.is_some_and(|c| c == '_' || c.is_alphanumeric());
        let starts_word = is_word(phrase.chars().next());
        let ends_word = is_word(phrase.chars().next_back());
        let mut found = Self::No;
        for (at, _) in text.match_indices(phrase) {
            let continues_before = starts_word && is_word(text[..at].chars().next_back());
            let continues_after = ends_word && is_word(text[at + phrase.len()..].chars().next());
            if !continues_before && !continues_after {
                return Self::Words;
            }
            found = Self::InsideWords;
        }
        found
    }
}

/// A turn that may become a hit: an assistant message with the results of its calls, or another message
/// alone.
struct Candidate {
    turn_id: i64,
    messages: Vec<StoredMessage>,
    text: String,
    score: f64,
    /// The exact values in it that neither the view nor a better hit has.
    new_values: BTreeSet<String>,
    value_count: usize,
    literal_match: LiteralMatch,
    /// Whether the model still sees all of it unchanged.
    is_visible: bool,
    /// The names that open its lines, such as `Ann` in `Ann: Yes.`
    line_names: BTreeSet<String>,
}

async fn search_session(
    sql: &mut dyn Sql,
    tenant: &Tenant,
    session: &StoredSession,
    scope: SearchScope,
    query: &str,
    max_hits: usize,
) -> Result<Vec<SearchHit>> {
    let segments = search_segments(sql, tenant, session, scope).await?;
    let total: usize = segments.iter().map(|segment| segment.positions.len()).sum();
    let ranges = match scope {
        SearchScope::Session => id_ranges(&segments),
        SearchScope::Family => merge_id_ranges(&segments),
    };
    let query_terms = look_up_terms(sql, query, &ranges, total).await?;
    let view = match session.head {
        Some(head) => compactions::find_compaction(sql, tenant, head).await?,
        None => None,
    };
    let turn_ids = find_likely_turns(sql, tenant, &query_terms.terms).await?;
    let mut candidates = read_candidates(sql, tenant, &turn_ids, &ranges).await?;
    let phrase = query.trim();
    if !phrase.is_empty() && phrase.len() <= 200 && !phrase.contains('\n') {
        for candidate in &mut candidates {
            candidate.literal_match = candidate.find_literally(phrase);
        }
        let is_found = candidates.iter().any(|candidate| candidate.literal_match != LiteralMatch::No);
        if !phrase.contains(char::is_whitespace) && !is_found {
            let turn_ids = find_turns_containing(sql, tenant, phrase, &ranges).await?;
            let mut matching = read_candidates(sql, tenant, &turn_ids, &ranges).await?;
            for candidate in &mut matching {
                candidate.literal_match = LiteralMatch::InsideWords;
            }
            candidates.retain(|candidate| !turn_ids.contains(&candidate.turn_id));
            candidates.extend(matching);
        }
    }
    score_candidates(&mut candidates, &query_terms);
    let mut covered = exact_values(query);
    if let Some(view) = &view {
        covered.extend(values_in_view(sql, tenant, session, view).await?);
        // The model sees no messages of other sessions of the family.
        let session_ranges = id_ranges(&self::search_segments(sql, tenant, session, SearchScope::Session).await?);
        for candidate in &mut candidates {
            candidate.is_visible = candidate
                .messages
                .iter()
                .all(|m| is_in_ranges(m.id, &session_ranges) && view.shows_unchanged(m.position));
        }
    }
    build_hits(sql, tenant, phrase, &query_terms, &ranges, rank_by_novelty(candidates, &covered, max_hits)).await
}

/// Returns the path segments that the search covers.
async fn search_segments(
    sql: &mut dyn Sql,
    tenant: &Tenant,
    session: &StoredSession,
    scope: SearchScope,
) -> Result<Vec<PathSegment>> {
    if scope == SearchScope::Session {
        return message::path_segments(sql, tenant, session, session.path_length).await;
    }
    let family = "SELECT id, begins, length FROM sessions WHERE family = $1 AND tenant = $2 ORDER BY id";
    let rows = sql.rows(family, &[session.family.into(), tenant.id.into()]).await?;
    let segment = |row: &Row| Ok(PathSegment { session: row.int(0)?, positions: row.count(1)?..row.count(2)? });
    rows.iter().map(segment).collect()
}

/// Returns the range of message IDs of each segment.
fn id_ranges(segments: &[PathSegment]) -> Vec<(i64, i64)> {
    segments.iter().filter_map(PathSegment::message_ids).collect()
}

/// Returns the ranges of message IDs of whole sessions, oldest first. Sessions with consecutive IDs share one
/// range, because no other session's messages are between theirs. That saves look-ups: each term is looked up
/// once for each range, and a client that continues from compacted requests starts a new session each time.
fn merge_id_ranges(sessions: &[PathSegment]) -> Vec<(i64, i64)> {
    let follow = |a: &PathSegment, b: &PathSegment| a.session + 1 == b.session;
    let range_of = |run: &[PathSegment]| {
        let mut ranges = run.iter().filter_map(PathSegment::message_ids);
        let (first, last) = ranges.next()?;
        Some((first, ranges.next_back().map_or(last, |(_, last)| last)))
    };
    sessions.chunk_by(follow).filter_map(range_of).collect()
}

fn is_in_ranges(id: i64, ranges: &[(i64, i64)]) -> bool {
    ranges.iter().any(|(first, last)| (*first..=*last).contains(&id))
}

/// Collects the exact values that the model sees anyway: in unchanged messages, and in the texts that the
/// compaction inserted.
async fn values_in_view(
    sql: &mut dyn Sql,
    tenant: &Tenant,
    session: &StoredSession,
    view: &Compaction,
) -> Result<BTreeSet<String>> {
    let mut values: BTreeSet<String> = view.ledger.inserted_texts().flat_map(exact_values).collect();
    let later = view.path_length..session.path_length;
    let unchanged = view.unchanged_ranges.iter().map(|range| *range.start()..range.end() + 1).chain([later]);
    for positions in unchanged {
        for message in message::read_messages(sql, tenant, session, positions).await? {
            values.extend(exact_values(&search_terms::message_text(message.text.as_str())));
        }
    }
    Ok(values)
}

/// A term of the query before it is looked up.
struct CountedTerm {
    /// What its inflected forms have in common; of an identifier the term itself.
    stem: String,
    /// The form that was counted first.
    term: String,
    count: usize,
    class: TermClass,
}

/// Counts the terms of a query, identifiers and long words first. Function words count only if there is
/// nothing else.
fn count_terms(query: &str) -> Vec<CountedTerm> {
    let mut terms = search_terms::split_terms(query);
    if terms.iter().any(|(term, _)| !word_forms::is_function_word(term)) {
        terms.retain(|(term, _)| !word_forms::is_function_word(term));
    }
    let mut counts: BTreeMap<String, CountedTerm> = BTreeMap::new();
    for (term, class) in terms {
        let stem = if class == TermClass::Word { word_forms::stem(&term) } else { term.to_string() };
        let entry = || CountedTerm { stem: stem.clone(), term: term.into_owned(), count: 0, class };
        let counted = counts.entry(stem.clone()).or_insert_with(entry);
        counted.count += 1;
        counted.class = counted.class.min(class);
    }
    let mut counts: Vec<CountedTerm> = counts.into_values().collect();
    counts.sort_by_key(|counted| Reverse((counted.class, counted.term.len())));
    counts.truncate(MAX_LOOKED_UP_TERMS);
    counts
}

/// Looks up the terms of the query, and returns those that some message has, heaviest first.
async fn look_up_terms(sql: &mut dyn Sql, query: &str, ranges: &[(i64, i64)], total: usize) -> Result<QueryTerms> {
    let (find_terms, any_of) = (sql.dialect().find_any_term, sql.dialect().quote_terms);
    let mut query_terms: Vec<(QueryTerm, String)> = Vec::new();
    for CountedTerm { stem, term, count, class } in count_terms(query) {
        let forms = if class == TermClass::Word { word_forms::forms(&term) } else { vec![term] };
        let condition = any_of(&forms);
        let mut messages = Vec::new();
        for (first, last) in ranges.iter().rev() {
            let rows_left = COMMON_TERM_MESSAGES + 1 - messages.len().min(COMMON_TERM_MESSAGES + 1);
            if rows_left > 0 {
                let values = [condition.as_str().into(), (*first).into(), (*last).into(), rows_left.into()];
                let rows = sql.rows(find_terms, &values).await?;
                messages.extend(rows.iter().map(|row| row.int(0)).collect::<Result<Vec<_>>>()?);
            }
        }
        if messages.is_empty() {
            continue;
        }
        let (total_messages, matching_messages) = (total as f64, messages.len() as f64);
        let rarity = (1.0 + (total_messages - matching_messages + 0.5).max(0.0) / (matching_messages + 0.5)).ln();
        let count = count as f64;
        let query_frequency_weight = count * (1.0 + QUERY_TERM_SATURATION) / (count + QUERY_TERM_SATURATION);
        let weight =
            rarity * query_frequency_weight * if class == TermClass::Identifier { IDENTIFIER_WEIGHT } else { 1.0 };
        query_terms.push((QueryTerm { forms, weight, messages }, stem));
    }
    let is_rare = |(term, _): &(QueryTerm, String)| term.messages.len() <= COMMON_TERM_MESSAGES;
    if query_terms.iter().any(is_rare) {
        query_terms.retain(is_rare);
    }
    query_terms.sort_by(|(a, a_stem), (b, b_stem)| b.weight.total_cmp(&a.weight).then_with(|| a_stem.cmp(b_stem)));
    query_terms.truncate(MAX_SCORED_TERMS);
    Ok(QueryTerms::new(query_terms.into_iter().map(|(term, _)| term).collect()))
}

/// Returns the turns with the most query weight, their own and what neighbours lend, by the ID of their first
/// message.
async fn find_likely_turns(sql: &mut dyn Sql, tenant: &Tenant, query_terms: &[QueryTerm]) -> Result<Vec<i64>> {
    let mut own: HashMap<i64, f64> = HashMap::new();
    for term in query_terms {
        term.messages.iter().for_each(|message| *own.entry(*message).or_default() += term.weight);
    }
    // Messages next to one another in a session have consecutive IDs.
    let weight_at = |id: i64| own.get(&id).copied().unwrap_or_default();
    let lent: HashMap<i64, f64> = own
        .keys()
        .map(|id| {
            let shares = (1..).zip(LENT_SHARES);
            (*id, shares.map(|(distance, share)| share * (weight_at(id - distance) + weight_at(id + distance))).sum())
        })
        .collect();
    let messages = own.iter().map(|(id, weight)| (*id, weight + lent[id])).collect();
    let messages: Vec<i64> = top_scored(messages, MAX_CANDIDATE_MESSAGES);
    let list = format!(
        "SELECT id, step FROM messages WHERE tenant = $1 AND id IN ({})",
        message::parameter_list(2, MAX_CANDIDATE_MESSAGES)
    );
    let Some(values) = padded_values(tenant, &messages, MAX_CANDIDATE_MESSAGES) else {
        return Ok(Vec::new());
    };
    let rows = sql.rows(&list, &values).await?;
    let turn_of_message =
        rows.iter().map(|row| Ok((row.int(0)?, row.int(1)?))).collect::<Result<HashMap<i64, i64>>>()?;
    let mut turn_ids: HashMap<i64, f64> = HashMap::new();
    for term in query_terms {
        let turns_of_term: HashSet<i64> =
            term.messages.iter().filter_map(|message| turn_of_message.get(message).copied()).collect();
        for turn_id in turns_of_term {
            *turn_ids.entry(turn_id).or_default() += term.weight;
        }
    }
    let mut lent_to_turns: HashMap<i64, f64> = HashMap::new();
    for (message, turn_id) in &turn_of_message {
        let most = lent_to_turns.entry(*turn_id).or_default();
        *most = most.max(lent[message]);
    }
    for (turn_id, lent) in lent_to_turns {
        *turn_ids.entry(turn_id).or_default() += lent;
    }
    Ok(top_scored(turn_ids, MAX_CANDIDATES))
}

/// Returns the IDs with the highest scores; of equal ones the newest.
fn top_scored(scores: HashMap<i64, f64>, max_count: usize) -> Vec<i64> {
    let mut scores: Vec<(i64, f64)> = scores.into_iter().collect();
    scores.sort_by(|a, b| b.1.total_cmp(&a.1).then(b.0.cmp(&a.0)));
    scores.into_iter().take(max_count).map(|(id, _)| id).collect()
}

/// Returns the parameters of a statement that takes a tenant and exactly `count` IDs. Missing IDs are filled
/// up with the last one, so that one prepared statement serves any number.
fn padded_values(tenant: &Tenant, ids: &[i64], count: usize) -> Option<Vec<Value>> {
    let last = *ids.last()?;
    let ids = ids.iter().copied().chain(std::iter::repeat(last)).take(count);
    Some([tenant.id].into_iter().chain(ids).map(Value::Int).collect())
}

/// Reads turns, with those of their messages that are in the ranges.
async fn read_candidates(
    sql: &mut dyn Sql,
    tenant: &Tenant,
    turn_ids: &[i64],
    ranges: &[(i64, i64)],
) -> Result<Vec<Candidate>> {
    let Some(values) = padded_values(tenant, turn_ids, MAX_CANDIDATES) else { return Ok(Vec::new()) };
    let list = message::parameter_list(2, MAX_CANDIDATES);
    let find = format!("{SELECT_MESSAGE} WHERE tenant = $1 AND step IN ({list}) ORDER BY step, id");
    let rows = sql.rows(&find, &values).await?;
    let mut stored = rows.iter().map(message::message_from_row).collect::<Result<Vec<StoredMessage>>>()?;
    stored.retain(|message| is_in_ranges(message.id, ranges));
    Ok(stored.chunk_by(|a, b| a.turn_id == b.turn_id).map(build_candidate).collect())
}

fn build_candidate(messages: &[StoredMessage]) -> Candidate {
    let text: String = messages.iter().map(|message| search_terms::message_text(message.text.as_str())).collect();
    let new_values = exact_values(&text);
    let (turn_id, value_count) = (messages[0].turn_id, new_values.len());
    let is_said =
        |message: &StoredMessage| message.blocks.iter().any(|b| matches!(b.kind.as_str(), "prompt" | "reply"));
    let line_names = if messages.iter().any(is_said) { line_names(&text) } else { BTreeSet::new() };
    Candidate {
        turn_id,
        messages: messages.to_owned(),
        text,
        score: 0.0,
        value_count,
        new_values,
        literal_match: LiteralMatch::No,
        is_visible: false,
        line_names,
    }
}

/// Extracts the names at the starts of lines, such as `ann` in `[8 May] Ann: Yes.`, in small letters. A chat
/// between people is often recorded in this way.
fn line_names(text: &str) -> BTreeSet<String> {
    const MAX_LINES: usize = 200;
    const MAX_NAME_CHARS: usize = 40;
    let name_of = |line: &str| {
        let line = line.trim_start();
        let line = line.strip_prefix('[').and_then(|rest| rest.split_once(']')).map_or(line, |(_, rest)| rest.trim());
        let (name, said) = line.split_once(':')?;
        let is_name = name.chars().count() <= MAX_NAME_CHARS
            && name.chars().all(|c| c.is_alphabetic() || c == ' ')
            && name.split(' ').all(|word| word.starts_with(|c: char| c.is_alphabetic() && !c.is_lowercase()))
            && (said.is_empty() || said.starts_with(char::is_whitespace));
        is_name.then(|| name.to_lowercase())
    };
    text.lines().take(MAX_LINES).filter_map(name_of).collect()
}

/// Finds turns that contain the phrase inside a longer word, which the index cannot find. It scans every
/// message, newest first.
async fn find_turns_containing(
    sql: &mut dyn Sql,
    tenant: &Tenant,
    phrase: &str,
    ranges: &[(i64, i64)],
) -> Result<Vec<i64>> {
    let escaped = longhaul_engine::json::escape(phrase);
    let escaped = escaped.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_");
    let find = "SELECT step FROM messages WHERE tenant = $1 AND id BETWEEN $2 AND $3 AND text LIKE $4 ESCAPE '\\' \
                ORDER BY id DESC LIMIT $5";
    let mut turn_ids = Vec::new();
    for (first, last) in ranges.iter().rev() {
        let like = format!("%{escaped}%");
        let values = [tenant.id.into(), (*first).into(), (*last).into(), like.into(), MAX_CANDIDATES.into()];
        for row in sql.rows(find, &values).await? {
            turn_ids.push(row.int(0)?);
        }
    }
    turn_ids.dedup();
    turn_ids.truncate(MAX_CANDIDATES);
    Ok(turn_ids)
}

/// Sets the score of each candidate: its own, and what its neighbours lend.
fn score_candidates(candidates: &mut [Candidate], query: &QueryTerms) {
    candidates.sort_by_key(|candidate| candidate.turn_id);
    let own = own_scores(candidates, query);
    for index in 0..candidates.len() {
        candidates[index].score = own[index] + lent_score(candidates, &own, index);
    }
    let best = candidates.iter().map(|candidate| candidate.score).fold(0.0, f64::max);
    let asked_for = asked_for_speakers(candidates, query);
    for (candidate, _) in candidates.iter_mut().zip(asked_for).filter(|(_, is_asked_for)| *is_asked_for) {
        candidate.score += SPEAKER_SHARE * best;
    }
}

/// Returns what the neighbours of a candidate lend to it. A turn that has nothing of the query gets nothing,
/// or each turn beside a match would be a hit.
fn lent_score(candidates: &[Candidate], own: &[f64], index: usize) -> f64 {
    if own[index] <= 0.0 {
        return 0.0;
    }
    let follows = |first: usize| match candidates[first..].get(..2) {
        Some([one, other]) => one.last_message() + 1 == other.first_message(),
        _ => false,
    };
    let (mut after, mut before, mut lent) = (Some(index), Some(index), 0.0);
    for share in LENT_SHARES {
        after = after.filter(|at| follows(*at)).map(|at| at + 1);
        before = before.and_then(|at| at.checked_sub(1)).filter(|at| follows(*at));
        lent += share * [before, after].into_iter().flatten().map(|at| own[at]).sum::<f64>();
    }
    lent
}

/// Returns for each candidate whether one of its speakers is named in the query.
fn asked_for_speakers(candidates: &[Candidate], query: &QueryTerms) -> Vec<bool> {
    let mut turns_of_name: HashMap<&str, usize> = HashMap::new();
    for name in candidates.iter().flat_map(|candidate| &candidate.line_names) {
        *turns_of_name.entry(name).or_default() += 1;
    }
    let is_asked_for = |name: &String| {
        turns_of_name[name.as_str()] >= MIN_SPEAKER_TURNS
            && name.split(' ').any(|word| query.index_of_form.contains_key(word))
    };
    candidates.iter().map(|candidate| candidate.line_names.iter().any(is_asked_for)).collect()
}

/// Returns the BM25 score of each candidate, multiplied by the share of the query's weight that it has, and
/// that its best passage has: terms that stand together say more than terms at both ends of a long result.
fn own_scores(candidates: &[Candidate], query: &QueryTerms) -> Vec<f64> {
    // Summed in a fixed order, or equal searches could differ in the last digit.
    let total_weight: f64 = query.terms.iter().map(|term| term.weight).sum();
    let mut counted = Vec::with_capacity(candidates.len());
    for candidate in candidates {
        let (mut counts, mut length, mut passages): (BTreeMap<usize, f64>, f64, Vec<BTreeSet<usize>>) =
            Default::default();
        for bytes in passage_ranges(&candidate.text) {
            let terms = search_terms::split_terms(&candidate.text[bytes]);
            let indexes = terms.iter().filter_map(|(term, _)| query.index_of_form.get(term.as_ref()).copied());
            let indexes: Vec<usize> = indexes.collect();
            for index in &indexes {
                *counts.entry(*index).or_default() += 1.0;
            }
            length += terms.len() as f64;
            passages.push(indexes.into_iter().collect());
        }
        counted.push((length, counts, best_passage_weight(&passages, query)));
    }
    let average = counted.iter().map(|(length, ..)| length).sum::<f64>() / counted.len().max(1) as f64;
    let score = |(length, counts, passage_weight): (f64, BTreeMap<usize, f64>, f64)| {
        let slack = TERM_SATURATION * (1.0 - LENGTH_NORMALIZATION + LENGTH_NORMALIZATION * length / average.max(1.0));
        let weight = |index: &usize| query.terms[*index].weight;
        let matched_weight: f64 = counts.keys().map(weight).sum();
        let term_score = |(index, count): (usize, f64)| {
            weight(&index) * (MIN_TERM_SCORE + count * (TERM_SATURATION + 1.0) / (count + slack))
        };
        let coverage = (matched_weight + PASSAGE_WEIGHT * passage_weight) / total_weight.max(1e-9);
        counts.into_iter().map(term_score).sum::<f64>() * coverage
    };
    counted.into_iter().map(score).collect()
}

impl Candidate {
    fn first_message(&self) -> i64 {
        self.messages.first().map_or(self.turn_id, |message| message.id)
    }

    fn last_message(&self) -> i64 {
        self.messages.last().map_or(self.turn_id, |message| message.id)
    }

    /// Looks for a text, unescaped or as written in the JSON.
    fn find_literally(&self, phrase: &str) -> LiteralMatch {
        let texts = self.messages.iter().map(|message| message.text.as_str()).chain([self.text.as_str()]);
        texts.map(|text| LiteralMatch::find(text, phrase)).max().unwrap_or(LiteralMatch::No)
    }

    /// Returns the score, reduced by the share of its values that others have already, and if the model still
    /// sees it.
    fn novelty_score(&self) -> f64 {
        let share = (self.new_values.len() as f64 + 1.0) / (self.value_count as f64 + 1.0);
        self.score * share.sqrt() * if self.is_visible { VISIBLE_FACTOR } else { 1.0 }
    }

    /// Compares the ranks of two candidates: literal matches first, and of these the ones that the model no
    /// longer sees; then by novelty score, then the newer.
    fn compare_rank(&self, other: &Self) -> std::cmp::Ordering {
        let literal = |candidate: &Self| {
            let is_match = candidate.literal_match != LiteralMatch::No;
            (candidate.literal_match, is_match && !candidate.is_visible)
        };
        literal(self)
            .cmp(&literal(other))
            .then_with(|| self.novelty_score().total_cmp(&other.novelty_score()))
            .then(self.turn_id.cmp(&other.turn_id))
    }
}

/// Ranks the candidates: the best one first, and after it always the one that adds most to those before it.
fn rank_by_novelty(mut candidates: Vec<Candidate>, covered: &BTreeSet<String>, max_hits: usize) -> Vec<Candidate> {
    for candidate in &mut candidates {
        candidate.new_values.retain(|value| !covered.contains(value));
    }
    let mut ranked: Vec<Candidate> = Vec::new();
    while ranked.len() < max_hits {
        let best = candidates.iter().enumerate().max_by(|(_, a), (_, b)| a.compare_rank(b)).map(|(at, _)| at);
        let Some(at) = best else { break };
        let best = candidates.swap_remove(at);
        for other in &mut candidates {
            other.new_values.retain(|value| !best.new_values.contains(value));
        }
        ranked.push(best);
    }
    ranked
}

/// Extracts the exact values of a text: paths, addresses, IDs, numbers, and names with inner structure.
fn exact_values(text: &str) -> BTreeSet<String> {
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

/// Reads the message after another one of the same session, if the search covers it.
async fn next_message(
    sql: &mut dyn Sql,
    tenant: &Tenant,
    message: i64,
    ranges: &[(i64, i64)],
) -> Result<Option<StoredMessage>> {
    if !is_in_ranges(message + 1, ranges) {
        return Ok(None);
    }
    let find = format!("{SELECT_MESSAGE} WHERE tenant = $1 AND id = $2");
    let row = sql.row(&find, &[tenant.id.into(), (message + 1).into()]).await?;
    row.as_ref().map(message::message_from_row).transpose()
}

/// Builds a hit from the best block of each turn, with the lines that match the query best.
async fn build_hits(
    sql: &mut dyn Sql,
    tenant: &Tenant,
    phrase: &str,
    query: &QueryTerms,
    ranges: &[(i64, i64)],
    ranked: Vec<Candidate>,
) -> Result<Vec<SearchHit>> {
    let mut sessions: BTreeMap<i64, StoredSession> = BTreeMap::new();
    let mut hits = Vec::with_capacity(ranked.len());
    for candidate in ranked {
        let (owner, _) = split_message_id(candidate.messages[0].id);
        if !sessions.contains_key(&owner)
            && let Some(session) = session::find_session(sql, tenant, session::SessionId(owner)).await?
        {
            sessions.insert(owner, session);
        }
        let Some(session) = sessions.get(&owner) else { continue };
        let mut blocks: Vec<(usize, &BlockRow, String)> = Vec::new();
        for message in &candidate.messages {
            let texts = recall::block_texts(session.api_format, message);
            blocks.extend(message.blocks.iter().zip(texts).map(|(row, text)| (message.position, row, text)));
        }
        // A literal match is shown where it occurs, even if the index knows it only as part of a longer word.
        let phrase = Some(phrase).filter(|phrase| candidate.literal_match != LiteralMatch::No && !phrase.is_empty());
        let block_score = |text: &str| {
            let new_values = exact_values(text).intersection(&candidate.new_values).count() as f64;
            let contains_phrase = phrase.is_some_and(|phrase| text.contains(phrase));
            if contains_phrase { f64::MAX } else { query.weight_of(&query.terms_in(text)) * (1.0 + new_values).sqrt() }
        };
        let block_scores: Vec<f64> = blocks.iter().map(|(_, _, text)| block_score(text)).collect();
        let best = block_scores.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1).then(b.0.cmp(&a.0)));
        let Some((index, _)) = best else { continue };
        let (at, row, text) = &blocks[index];
        // A short question is shown with the beginning of what was replied.
        let next = next_message(sql, tenant, candidate.last_message(), ranges).await?;
        let next = next.iter().flat_map(|next| {
            let texts = recall::block_texts(session.api_format, next);
            next.blocks.iter().zip(texts).map(|(row, text)| format!("[next {}] {text}", row.kind)).collect::<Vec<_>>()
        });
        let following = blocks.iter().skip(index + 1).map(|(_, _, text)| text.clone());
        let following: Vec<String> = following.chain(next).collect();
        let summary = |(at, row, _): &(usize, &BlockRow, String)| BlockSummary {
            recall_id: row.recall_id.clone(),
            message: *at + session.system_message_count,
            kind: row.kind.clone(),
            tool: row.tool.clone(),
        };
        hits.push(SearchHit {
            recall_id: row.recall_id.clone(),
            session_name: session.name.clone(),
            message: *at + session.system_message_count,
            kind: row.kind.clone(),
            tool: row.tool.clone(),
            excerpt: excerpt(text, &following, phrase, query),
            score: candidate.score,
            turn_blocks: blocks.iter().map(summary).collect(),
            is_visible: candidate.is_visible,
        });
    }
    Ok(hits)
}

impl Store {
    /// Finds the blocks of a session, or of its family, that match a query best.
    pub async fn search(
        &self,
        tenant: &Tenant,
        session: &StoredSession,
        scope: SearchScope,
        query: &str,
        max_hits: usize,
    ) -> Result<Vec<SearchHit>> {
        let arguments = (tenant.clone(), session.clone(), query.to_owned(), scope, max_hits);
        self.read(in_transaction(arguments, |sql, (tenant, session, query, scope, max_hits)| {
            Box::pin(search_session(sql, tenant, session, *scope, query, *max_hits))
        }))
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::schema::message_id;

    #[test]
    fn sessions_that_follow_on_one_another_are_searched_as_one() {
        let session = |session, positions| PathSegment { session, positions };
        let family = [session(3, 0..5), session(4, 2..2), session(5, 1..9), session(8, 0..4), session(9, 0..0)];
        assert_eq!(
            merge_id_ranges(&family),
            [(message_id(3, 0), message_id(5, 8)), (message_id(8, 0), message_id(8, 3))]
        );
        assert_eq!(merge_id_ranges(&family[1..2]), []);
    }
}
