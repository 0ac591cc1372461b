//! A look at a request that is left alone: what it gives, and what it leaves for later.

use crate::support::{corpus, generate, policy};
use longhaul_engine::block_cache::BlockCache;
use longhaul_engine::meter::Meter;
use longhaul_engine::plan::{CompactOptions, Compressor, Engine, Plan, PlanInput};
use longhaul_engine::policy::Policy;
use longhaul_engine::{ApiFormat, wire};

tests! {
    always: [a_session_that_grows_is_counted_as_if_it_had_not, a_compaction_after_looks_is_the_same_as_without],
    real: [real_sessions_that_grow_are_counted_as_if_they_had_not],
}

fn a_session_that_grows_is_counted_as_if_it_had_not() {
    let policy = policy("gpt-5", 100_000);
    let bodies = ApiFormat::ALL.into_iter().flat_map(|d| (0..300).map(move |seed| generate::long_body(d, seed)));
    generate::shrink::hold(bodies, |generated| grows(&policy, &generated.body));
}

fn real_sessions_that_grow_are_counted_as_if_they_had_not() {
    let policy = policy("claude-sonnet-4-5", 200_000);
    for (_, body) in corpus() {
        grows(&policy, &body);
    }
}

/// Looks at a body as it was after some of its messages, after more, and so on; once it is also changed at its beginning.
fn grows(policy: &Policy, body: &str) {
    let (whole, _) = wire::parse(None, body).unwrap();
    let count = whole.message_count();
    let mut cache = BlockCache::default();
    for messages in (0..=8).map(|part| count * part / 8) {
        let earlier = whole.body_with_first_messages(messages);
        let edited = earlier.replacen("the", "tne", 1);
        for request in [&earlier, &edited, &earlier] {
            let (transcript, _) = wire::parse(whole.api_format, request).unwrap();
            let looked = Compressor.observe(policy, &mut cache, &transcript);
            let counted = Meter::for_model(&policy.model).breakdown(&mut BlockCache::default(), &transcript).total();
            assert_eq!(looked, counted, "after {messages} of {count} messages");
        }
    }
}

fn a_compaction_after_looks_is_the_same_as_without() {
    let policy = policy("gpt-5", 4_000);
    let options = CompactOptions { force: true, ..CompactOptions::default() };
    let bodies = ApiFormat::ALL.into_iter().flat_map(|d| (0..100).map(move |seed| generate::long_body(d, seed)));
    generate::shrink::hold(bodies, |generated| {
        let (transcript, _) = wire::parse(generated.dialect, &generated.body).unwrap();
        let mut cache = BlockCache::default();
        let earlier = transcript.body_with_first_messages(transcript.message_count() / 2);
        for request in [&earlier, &generated.body] {
            Compressor.observe(&policy, &mut cache, &wire::parse(generated.dialect, request).unwrap().0);
        }
        let out = |cache: &mut BlockCache| match Compressor
            .compact(PlanInput { policy: &policy, options: &options, cache, transcript: &transcript })
            .unwrap()
        {
            Plan::Unchanged(_) => None,
            Plan::Ready(outcome) => Some(outcome.body),
        };
        assert_eq!(out(&mut cache), out(&mut BlockCache::default()));
    });
}
