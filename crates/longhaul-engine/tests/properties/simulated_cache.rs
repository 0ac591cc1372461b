//! The modelled cache: its rules one by one, and against what a provider really billed.

use std::time::Duration;

use crate::support::shared;
use longhaul_engine::block_cache::BlockCache;
use longhaul_engine::cache::{
    self, Breakpoint, BreakpointOwner, CacheRequest, CacheRules, CacheUsage, PieceTokens, PrefixChain, PrefixEnds,
    SimulatedCache,
};
use longhaul_engine::models::{self, Model};
use longhaul_engine::prices::Usage;
use longhaul_engine::wire::{self, CacheLifetime, PromptPart};
use longhaul_engine::{ApiFormat, Tokens};
use serde_json::{Value, json};

tests! {
    always: [
        a_growing_session_reads_what_it_wrote,
        a_prefix_lives_five_minutes_or_an_hour_after_its_last_use,
        what_is_too_short_is_not_kept,
        an_entry_is_found_from_at_most_twenty_pieces_away,
        what_changes_voids_what_follows_it,
        without_marks_prefixes_are_kept_in_steps,
    ],
    real: [
        claude_code_was_billed_as_predicted,
        openhands_was_billed_as_predicted,
        pi_was_billed_as_predicted_between_its_compactions,
        pi_was_billed_as_predicted_within_its_loops,
    ],
}

const MARKED: CacheRules = CacheRules { min_prefix: Tokens(1_024), ends: PrefixEnds::AtBreakpoints };

/// A session of messages that are a thousand tokens each, behind a system prompt of as many.
struct Session {
    body: Value,
    lifetime: CacheLifetime,
}

impl Session {
    fn new(messages: usize) -> Self {
        let message = |i: usize| json!({"role": if i.is_multiple_of(2) { "user" } else { "assistant" }, "content": format!("m{i}")});
        let messages: Vec<Value> = (0..messages).map(message).collect();
        let body = json!({"model": "claude-sonnet-4-5", "tools": [{"name": "t"}], "system": "You work.", "messages": messages});
        Self { body, lifetime: CacheLifetime::FiveMinutes }
    }

    fn with(mut self, pointer: &str, value: Value) -> Self {
        match self.body.pointer_mut(pointer) {
            Some(place) => *place = value,
            None => self.body[pointer.trim_start_matches('/')] = value,
        }
        self
    }

    fn for_an_hour(mut self) -> Self {
        self.lifetime = CacheLifetime::OneHour;
        self
    }

    /// Sends the first `n` messages with marks on the system prompt and on the last message.
    fn send(&self, cache: &mut SimulatedCache, minutes: u64, n: usize) -> CacheUsage {
        let mut body = self.body.clone();
        body["messages"].as_array_mut().unwrap().truncate(n);
        let chain = chain(&body);
        let sizes: Vec<Tokens> = (1..=chain.links.len() as u64).map(|k| Tokens(1_000 * k)).collect();
        let system = chain.links.iter().rposition(|link| link.part == PromptPart::System).unwrap();
        let marks = [system, chain.links.len() - 1].map(|piece| mark(piece, self.lifetime));
        cache.send(
            Duration::from_mins(minutes),
            &CacheRequest { links: &chain.links, settings: chain.settings, prefix_tokens: &sizes, breakpoints: &marks },
        )
    }
}

fn chain(body: &Value) -> PrefixChain {
    cache::prefix_chain(&wire::parse(ApiFormat::Messages, &body.to_string()).unwrap().0)
}

fn mark(piece: usize, lifetime: CacheLifetime) -> Breakpoint {
    Breakpoint { piece: Some(piece), lifetime, owner: BreakpointOwner::Client }
}

/// Read, written, fresh, in thousands.
fn thousands(traffic: CacheUsage) -> (u64, u64, u64) {
    let CacheUsage { read, written_5m, written_1h, uncached: fresh, .. } = traffic;
    (read.number() / 1_000, (written_5m + written_1h).number() / 1_000, fresh.number() / 1_000)
}

fn a_growing_session_reads_what_it_wrote() {
    let (session, mut cache) = (Session::new(9), SimulatedCache::new(MARKED));
    assert_eq!(thousands(session.send(&mut cache, 0, 1)), (0, 3, 0));
    assert_eq!(thousands(session.send(&mut cache, 1, 3)), (3, 2, 0));
    assert_eq!(thousands(session.send(&mut cache, 2, 5)), (5, 2, 0));
    assert_eq!(thousands(session.send(&mut cache, 3, 5)), (7, 0, 0), "the same again");
}

fn a_prefix_lives_five_minutes_or_an_hour_after_its_last_use() {
    let (session, mut cache) = (Session::new(9), SimulatedCache::new(MARKED));
    session.send(&mut cache, 0, 1);
    assert_eq!(thousands(session.send(&mut cache, 5, 1)), (3, 0, 0), "read in time, so it lives on");
    assert_eq!(thousands(session.send(&mut cache, 10, 1)), (3, 0, 0));
    assert_eq!(thousands(session.send(&mut cache, 16, 1)), (0, 3, 0));

    let (session, mut cache) = (Session::new(9).for_an_hour(), SimulatedCache::new(MARKED));
    let first = session.send(&mut cache, 0, 1);
    assert_eq!((first.written_5m, first.written_1h), (Tokens(0), Tokens(3_000)));
    assert_eq!(thousands(session.send(&mut cache, 60, 3)), (3, 2, 0));
    assert_eq!(thousands(session.send(&mut cache, 121, 3)), (0, 5, 0));
}

fn what_is_too_short_is_not_kept() {
    let mut cache = SimulatedCache::new(CacheRules { min_prefix: Tokens(4_096), ..MARKED });
    let session = Session::new(9);
    assert_eq!(thousands(session.send(&mut cache, 0, 1)), (0, 0, 3));
    assert_eq!(thousands(session.send(&mut cache, 0, 3)), (0, 5, 0));
    assert_eq!(thousands(session.send(&mut cache, 0, 4)), (5, 1, 0));
}

fn an_entry_is_found_from_at_most_twenty_pieces_away() {
    for (added, read) in [(19, 3), (20, 2)] {
        let (session, mut cache) = (Session::new(30), SimulatedCache::new(MARKED));
        session.send(&mut cache, 0, 1);
        let traffic = session.send(&mut cache, 0, 1 + added);
        assert_eq!(thousands(traffic), (read, 3 + added as u64 - read, 0), "{added} pieces later");
    }
}

fn what_changes_voids_what_follows_it() {
    let cases = [
        ("/tools/0/name", json!("other"), 0),
        ("/model", json!("claude-opus-4-5"), 0),
        ("/system", json!("You rest."), 0),
        ("/messages/0/content", json!("other"), 2),
        ("/tool_choice", json!({"type": "any"}), 2),
        ("/thinking", json!({"type": "enabled", "budget_tokens": 1024}), 2),
        ("/max_tokens", json!(7), 3),
    ];
    for (pointer, value, read) in cases {
        let mut cache = SimulatedCache::new(MARKED);
        Session::new(9).send(&mut cache, 0, 1);
        let traffic = Session::new(9).with(pointer, value).send(&mut cache, 1, 3);
        assert_eq!(thousands(traffic), (read, 5 - read, 0), "{pointer}");
    }
}

fn without_marks_prefixes_are_kept_in_steps() {
    let mut cache =
        SimulatedCache::new(CacheRules { min_prefix: Tokens(1_024), ends: PrefixEnds::InSteps(Tokens(128)) });
    let session = Session::new(9);
    let first = session.send(&mut cache, 0, 1);
    assert_eq!((first.read, first.written_5m, first.uncached), (Tokens(0), Tokens(2_944), Tokens(56)));
    assert_eq!(session.send(&mut cache, 4, 3).read, Tokens(2_944));
    assert_eq!(session.send(&mut cache, 8, 5).read, Tokens(4_992));
    assert_eq!(session.send(&mut cache, 14, 5).read, Tokens(0));
}

/// One turn of a recorded session: what the provider said and what the model says.
struct Turn {
    recorded: Tokens,
    predicted: Tokens,
}

/// How well the model did: the share of hits and misses that are right, and the error of all tokens read. A hit is right
/// if what was read is within five percent.
fn score(turns: &[Turn]) -> (f64, f64) {
    let number = |tokens: Tokens| tokens.number() as f64;
    let right = turns.iter().filter(|turn| {
        let (recorded, predicted) = (number(turn.recorded), number(turn.predicted));
        (recorded - predicted).abs() <= 0.05 * recorded
    });
    let sum = |of: fn(&Turn) -> Tokens| number(turns.iter().map(of).sum());
    let (recorded, predicted) = (sum(|turn| turn.recorded), sum(|turn| turn.predicted));
    (right.count() as f64 / turns.len() as f64, (predicted - recorded) / recorded)
}

#[track_caller]
fn report(name: &str, turns: &[Turn]) -> (f64, f64) {
    let (right, error) = score(turns);
    say!("{name}: {} turns, {:.1} % right, tokens read {:+.2} %", turns.len(), 100.0 * right, 100.0 * error);
    (right, error)
}

fn recorded(name: &str) -> (Value, Vec<Value>) {
    let folder = shared("corpus");
    let read = |path: std::path::PathBuf| serde_json::from_slice::<Value>(&std::fs::read(path).unwrap()).unwrap();
    let stem = name.split('.').next().unwrap();
    let usage = folder.join("usage").join(format!("{stem}.json"));
    let usage = if usage.exists() { read(usage)["usage"].as_array().unwrap().clone() } else { Vec::new() };
    (read(folder.join(name)), usage)
}

/// A request with the first `n` messages of a body, marked as the client marks it, its tokens brought to the recorded sum.
fn send(
    cache: &mut SimulatedCache,
    model: &Model,
    body: &Value,
    n: usize,
    at: Duration,
    size: Tokens,
    messages: usize,
) -> CacheUsage {
    let mut body = body.clone();
    body["messages"].as_array_mut().unwrap().truncate(n);
    let text = body.to_string();
    let (transcript, _) = wire::parse(None, &text).unwrap();
    let reading = wire::prompt_order(&transcript);
    let mut sizes = PieceTokens::new(&transcript, &reading, model).prefix_sums(&mut BlockCache::default());
    let counted = sizes.last().unwrap().number() as f64;
    for tokens in &mut sizes {
        *tokens = Tokens((tokens.number() as f64 * size.number() as f64 / counted).round() as u64);
    }
    let ends = |k: usize| {
        let message = Some((n - 1 - k) as u32);
        reading.pieces.iter().rposition(|piece| piece.message == message).unwrap()
    };
    let system = reading.pieces.iter().rposition(|piece| piece.part == PromptPart::System).unwrap();
    let places = (0..messages.min(n)).map(ends).chain([system]);
    let marks: Vec<Breakpoint> = places.map(|piece| mark(piece, CacheLifetime::FiveMinutes)).collect();
    let chain = PrefixChain::new(&reading);
    cache.send(
        at,
        &CacheRequest { links: &chain.links, settings: chain.settings, prefix_tokens: &sizes, breakpoints: &marks },
    )
}

fn seconds(value: &Value) -> Duration {
    Duration::from_secs_f64(value.as_f64().unwrap())
}

fn claude_code_was_billed_as_predicted() {
    let (first, usage) = recorded("claude-code-wire_lemmy-request-32.messages.json");
    let (second, _) = recorded("claude-code-wire_lemmy-request-63.messages.json");
    let model = models::find("claude-sonnet-4-20250514");
    let mut cache = SimulatedCache::new(CacheRules::for_model(&model));
    let mut turns = Vec::new();
    for row in &usage {
        let request = row["request_index"].as_u64().unwrap();
        // Request 34 is a summary without the tools; its body is not recorded.
        let body = match request {
            34 => continue,
            ..=32 => &first,
            _ => &second,
        };
        let used = Usage::parse(&row["usage"]).unwrap();
        let n = row["n_messages"].as_u64().unwrap() as usize;
        let traffic = send(&mut cache, &model, body, n, seconds(&row["ts"]), used.input.unwrap(), 2);
        turns.push(Turn { recorded: used.read.unwrap(), predicted: traffic.read });
    }
    let (right, error) = report("claude-code-wire_lemmy-request-32", &turns);
    assert!(right >= 0.95 && error.abs() <= 0.05);
}

fn openhands_was_billed_as_predicted() {
    let (body, usage) = recorded("openhands_astropy__astropy-14182.chat.json");
    let model = models::find("claude-3-5-sonnet-20241022");
    let mut cache = SimulatedCache::new(CacheRules::for_model(&model));
    let mut turns = Vec::new();
    for row in &usage {
        let used = Usage::parse(&row["usage"]).unwrap();
        // Requests without a word about the cache went to a server behind the proxy that had none.
        let Some(read) = used.read else { continue };
        let n = row["n_messages"].as_u64().unwrap() as usize;
        let traffic = send(&mut cache, &model, &body, n, seconds(&row["ts"]), used.input.unwrap(), 3);
        turns.push(Turn { recorded: read, predicted: traffic.read });
    }
    let (right, error) = report("openhands_astropy__astropy-14182", &turns);
    assert!(right >= 0.95 && error.abs() <= 0.05);
}

/// Turns of a session of which only the sizes of its prompts and its times are recorded: a prompt that is smaller than half
/// the one before was compacted and shares nothing with it.
fn by_sizes(name: &str, model: &str) -> Vec<Turn> {
    let (_, usage) = recorded(name);
    let mut cache = SimulatedCache::new(CacheRules::for_model(&models::find(model)));
    let (mut sizes, mut compaction, mut turns) = (Vec::<Tokens>::new(), 0, Vec::new());
    for row in &usage {
        let used = Usage::parse(row).unwrap();
        let size = used.input.unwrap();
        if size == Tokens::ZERO {
            // Stopped before it was answered: nothing is known of what it read.
            continue;
        }
        if sizes.last().is_some_and(|last| size.number() < last.number() / 2) {
            sizes.clear();
            compaction += 1;
        }
        sizes.retain(|earlier| *earlier < size);
        sizes.push(size);
        let messages: Vec<Value> =
            sizes.iter().map(|size| json!({"role": "user", "content": format!("{compaction} {size}")})).collect();
        let chain = chain(&json!({"messages": messages}));
        let marks = [mark(sizes.len() - 1, CacheLifetime::FiveMinutes)];
        let request =
            CacheRequest { links: &chain.links, settings: chain.settings, prefix_tokens: &sizes, breakpoints: &marks };
        let traffic = cache.send(time(row["ts"].as_str().unwrap()), &request);
        turns.push(Turn { recorded: used.read.unwrap(), predicted: traffic.read });
    }
    turns
}

/// `2025-12-08T22:41:09.389Z` as time since some day of the same month.
fn time(text: &str) -> Duration {
    let number = |at: std::ops::Range<usize>| text[at].parse::<u64>().unwrap();
    let days = number(5..7) * 31 + number(8..10);
    let seconds = days * 86_400 + number(11..13) * 3_600 + number(14..16) * 60 + number(17..19);
    Duration::from_secs(seconds) + Duration::from_millis(number(20..23))
}

fn pi_was_billed_as_predicted_between_its_compactions() {
    let turns = by_sizes("pi-mono_before-compaction.messages.json", "claude-opus-4-5");
    let (right, error) = report("pi-mono_before-compaction", &turns);
    assert!(right >= 0.95 && error.abs() <= 0.05);
}

/// Its system prompt is not recorded, and was evidently another one at every second question of the user's: seconds after
/// the last use nothing was read, not even the tools. Within the loops of calls nothing of that kind can happen.
fn pi_was_billed_as_predicted_within_its_loops() {
    let name = "pi-mono_large-session.messages.json";
    let turns = by_sizes(name, "claude-sonnet-4-5");
    report("pi-mono_large-session, all turns", &turns);
    let (_, usage) = recorded(name);
    let answered: Vec<&Value> =
        usage.iter().filter(|row| Usage::parse(row).unwrap().input != Some(Tokens::ZERO)).collect();
    let in_loop = |at: usize| at > 0 && answered[at - 1]["stopReason"] == "toolUse";
    let turns: Vec<Turn> = turns.into_iter().enumerate().filter(|(at, _)| in_loop(*at)).map(|(_, turn)| turn).collect();
    let (right, error) = report("pi-mono_large-session, turns after a tool call", &turns);
    assert!(right >= 0.95 && error.abs() <= 0.05);
}
