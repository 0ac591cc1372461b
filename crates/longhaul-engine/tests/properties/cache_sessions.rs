//! What marks are worth over whole sessions, by the modelled cache.
//!
//!     LONGHAUL_SHARED=… cargo test -p longhaul-engine --test properties cache_sessions -- --nocapture

use std::time::Duration;

use crate::support::corpus;
use longhaul_engine::block_cache::BlockCache;
use longhaul_engine::cache::{
    self, BreakpointCarrier, BreakpointOptions, CacheRequest, CacheRules, PieceTokens, PrefixChain, SimulatedCache,
    StablePieces,
};
use longhaul_engine::cost::{self, BreakpointPolicy, CostStrategy, RecordedRequest, RecordedSession, Replay};
use longhaul_engine::policy::CacheStrategy::{self, Prefix, SystemAndThree};
use longhaul_engine::policy::{CacheTtl, Config, Policy};
use longhaul_engine::prices;
use longhaul_engine::texts::CHECKPOINT_OPENING;
use longhaul_engine::wire::{self, CacheLifetime, PromptPart};
use longhaul_engine::{ApiFormat, Tokens, Transcript, models};
use serde_json::{Value, json};

tests! {
    always: [
        marks_alone_take_three_quarters_off_a_growing_session,
        after_a_compaction_the_cache_is_settled_by_the_second_turn,
        twenty_seven_in_a_hundred_people_take_more_than_five_minutes,
    ],
    real: [
        marks_alone_take_three_quarters_off_the_input_of_real_sessions,
    ],
}

const MODEL: &str = "claude-sonnet-4-5";

/// What the input of a session costs without marks, with `system_and_3` and with `prefix`, in dollars.
fn input_costs<'b>(
    transcript: &'b Transcript<'b>,
    pauses: impl Fn(&[RecordedRequest]) -> Vec<Duration>,
) -> (usize, [f64; 3]) {
    let (model, price) = (models::find(MODEL), prices::find(MODEL).unwrap().price);
    let cache = &mut BlockCache::default();
    let session = RecordedSession::new(transcript, &model, cache);
    let requests = session.requests();
    let (policy, _) = Policy::new(&Config::default(), &model).unwrap();
    let pauses = pauses(&requests);
    let mut cost = |strategy: Option<CacheStrategy>| {
        let marks =
            |strategy| BreakpointPolicy { strategy, ttl: CacheTtl::FiveMinutes, carrier: BreakpointCarrier::Message };
        let replay = Replay {
            session: &session,
            requests: &requests,
            pauses: &pauses,
            rules: CacheRules::for_model(&model),
            price: &price,
            breakpoints: strategy.map(marks),
        };
        let turns = replay.run(CostStrategy::BreakpointsOnly, &policy, cache).unwrap();
        turns.iter().map(|turn| turn.bill.input().0).sum::<f64>()
    };
    (requests.len(), [None, Some(SystemAndThree), Some(Prefix)].map(&mut cost))
}

fn without_pauses(requests: &[RecordedRequest]) -> Vec<Duration> {
    vec![Duration::from_secs(10); requests.len()]
}

fn marks_alone_take_three_quarters_off_the_input_of_real_sessions() {
    let mut saved: [Vec<f64>; 4] = Default::default();
    for (name, body) in corpus() {
        let (transcript, _) = wire::parse(None, &body).unwrap();
        if transcript.api_format == ApiFormat::Responses || transcript.message_count() < 20 {
            continue;
        }
        let (requests, even) = input_costs(&transcript, without_pauses);
        let (_, human) = input_costs(&transcript, |requests| cost::simulate_pauses(requests, 1));
        let share = |[nothing, three, prefix]: [f64; 3]| [1.0 - three / nothing, 1.0 - prefix / nothing];
        let shares = [share(even), share(human)].concat();
        let shown: Vec<String> = shares.iter().map(|share| format!("{:5.1} %", 100.0 * share)).collect();
        say!("{name:70} {requests:4} requests  ${:7.2}  {}", even[0], shown.join("  "));
        saved.iter_mut().zip(shares).for_each(|(saved, share)| saved.push(share));
    }
    let mean = saved.each_ref().map(|shares| shares.iter().sum::<f64>() / shares.len() as f64);
    say!("{} sessions; mean saved: {:.1?} %", saved[0].len(), mean.map(|share| 100.0 * share));
    assert!(mean[..2].iter().all(|share| *share >= 0.75), "{mean:?}");
}

/// A session of an agent that reads and writes: each turn adds a call and a result of some 700 tokens.
fn agent(turns: usize) -> Value {
    let mut messages = vec![json!({"role": "user", "content": "make it work"})];
    for turn in 0..turns {
        let id = format!("c{turn}");
        let call = json!({"type": "tool_use", "id": id, "name": "read", "input": {"path": format!("src/{turn}.rs")}});
        let text = format!("fn f{turn}() -> usize {{ {turn} }}\n").repeat(60);
        let result = json!({"type": "tool_result", "tool_use_id": id, "content": text});
        messages.push(json!({"role": "assistant", "content": [call]}));
        messages.push(json!({"role": "user", "content": [result]}));
    }
    let tools = json!([{"name": "read", "description": "reads a file", "input_schema": {"type": "object"}}]);
    json!({"model": MODEL, "tools": tools, "system": "You work carefully. ".repeat(600), "messages": messages})
}

fn marks_alone_take_three_quarters_off_a_growing_session() {
    let body = agent(40).to_string();
    let (transcript, _) = wire::parse(ApiFormat::Messages, &body).unwrap();
    let (requests, [nothing, three, prefix]) = input_costs(&transcript, without_pauses);
    assert_eq!(requests, 41);
    assert!(three < 0.25 * nothing && prefix < 0.25 * nothing, "{nothing} → {three}, {prefix}");
}

fn after_a_compaction_the_cache_is_settled_by_the_second_turn() {
    for strategy in [SystemAndThree, Prefix] {
        let mut cache = SimulatedCache::new(CacheRules::for_model(&models::find(MODEL)));
        let mut now = Duration::ZERO;
        let mut send = |body: &Value| {
            let text = body.to_string();
            let (transcript, _) = wire::parse(ApiFormat::Messages, &text).unwrap();
            let (model, reading) = (models::find(MODEL), wire::prompt_order(&transcript));
            let sizes = PieceTokens::new(&transcript, &reading, &model).prefix_sums(&mut BlockCache::default());
            let marking = BreakpointOptions {
                strategy,
                lifetime: CacheLifetime::FiveMinutes,
                carrier: BreakpointCarrier::Content,
                first_cacheable: Some(0),
            };
            let (chain, marks) = (
                PrefixChain::new(&reading),
                cache::place_breakpoints(&StablePieces::find(&transcript, &reading), &reading, &marking),
            );
            now += Duration::from_secs(10);
            let request = CacheRequest {
                links: &chain.links,
                settings: chain.settings,
                prefix_tokens: &sizes,
                breakpoints: &marks,
            };
            let head = chain.links.iter().rposition(|link| link.part == PromptPart::System).unwrap();
            (cache.send(now, &request), sizes[head], *sizes.last().unwrap())
        };
        let whole = agent(30);
        send(&whole);
        let compacted = |turns: usize| {
            let mut body = agent(turns);
            let messages = body["messages"].as_array_mut().unwrap();
            let checkpoint =
                format!("{CHECKPOINT_OPENING}: reference only]\nActive Task: make it work\n[End of the checkpoint.]");
            messages.splice(1..49, [json!({"role": "assistant", "content": checkpoint})]);
            messages[2]["role"] = json!("user");
            body
        };
        let (first, head, size) = send(&compacted(30));
        assert_eq!(first.read, head, "the head stays warm");
        let (second, _, _) = send(&compacted(31));
        assert_eq!(second.read, size, "the second turn reads all that the first one wrote");
    }
}

fn twenty_seven_in_a_hundred_people_take_more_than_five_minutes() {
    let asked = vec![RecordedRequest { pieces: 1, output: Tokens(1), after_user_message: true }; 20_000];
    let pauses = cost::simulate_pauses(&asked, 3);
    let share = |least: u64| {
        pauses.iter().filter(|pause| **pause > Duration::from_mins(least)).count() as f64 / pauses.len() as f64
    };
    assert!((share(5) - 0.27).abs() < 0.015 && (share(60) - 0.03).abs() < 0.01, "{} {}", share(5), share(60));
    assert_eq!(pauses, cost::simulate_pauses(&asked, 3), "equal seeds give equal sessions");
    let tools = vec![RecordedRequest { after_user_message: false, ..asked[0] }; 1_000];
    assert!(cost::simulate_pauses(&tools, 3).iter().all(|pause| *pause <= Duration::from_mins(2)));
}
