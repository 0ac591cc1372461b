//! What holds for the evidence of any body: generated ones in every dialect always, real ones where `LONGHAUL_SHARED` is set.

use std::cell::RefCell;

use crate::support::{assert_in_proportion, corpus, generate};
use longhaul_engine::ApiFormat;
use longhaul_engine::block_cache::BlockCache;
use longhaul_engine::evidence::Evidence;
use longhaul_engine::transcript::{Speaker, Transcript, TurnKind};
use longhaul_engine::wire;
use proptest::prelude::*;
use serde_json::json;

tests! {
    always: [
        generated_bodies_of_every_dialect_are_read,
        any_words_in_any_mouth_are_read,
        time_grows_with_the_text_alone,
    ],
    real: [
        real_bodies_are_read,
    ],
}

/// Checks what must hold for a transcript; what is known of others must not matter.
fn holds(transcript: &Transcript<'_>, cache: &mut BlockCache) -> Evidence {
    let evidence = Evidence::collect(&mut BlockCache::default(), transcript);
    let again = Evidence::collect(cache, transcript);
    let warm = Evidence::collect(cache, transcript);
    assert_eq!(format!("{evidence:?}"), format!("{again:?}"), "what is known changes nothing");
    assert_eq!(format!("{evidence:?}"), format!("{warm:?}"), "what is known changes nothing");
    let by_user = |turn: usize| matches!(transcript.turns[turn].kind, TurnKind::Prompt { speaker: Speaker::User, .. });
    assert!(evidence.rules().all(|(turn, _)| by_user(turn)), "a rule of somebody else");
    let words =
        |turn: usize| transcript.turns[turn].blocks().map(|block| block.text().into_owned()).collect::<String>();
    for (turn, rule) in evidence.rules() {
        let bare = |text: &str| text.split_whitespace().collect::<String>();
        assert!(bare(&words(turn)).contains(&bare(&rule)), "not verbatim: {rule}");
    }
    evidence
}

fn generated_bodies_of_every_dialect_are_read() {
    let cache = RefCell::new(BlockCache::default());
    let bodies = ApiFormat::ALL.into_iter().flat_map(|d| (0..300).map(move |seed| generate::body(d, seed)));
    generate::shrink::hold(bodies, |generated| {
        let (transcript, _) = wire::parse(generated.dialect, &generated.body).unwrap();
        holds(&transcript, &mut cache.borrow_mut());
    });
}

fn real_bodies_are_read() {
    let mut cache = BlockCache::default();
    for (_, body) in corpus() {
        let (transcript, _) = wire::parse(None, &body).unwrap();
        holds(&transcript, &mut cache);
    }
}

/// Words that mean something here, in an order that nobody would say them in.
fn words() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "always",
        "never",
        "mind",
        ",",
        ".",
        "!",
        "?",
        "don't",
        "use",
        "from now on",
        "this once",
        "\n",
        "\n\n",
        "- ",
        "```",
        "`",
        "\"",
        "<log>",
        "</log>",
        "<system-reminder>",
        "</system-reminder>",
        "thanks",
        "continue",
        "undo that",
        "instead",
        "because",
        "stop",
        "[x]",
        "[ ]",
        "1.",
        "# ",
        "不要",
        "算了",
        "。",
        "今後は",
        "é",
        "🎉",
        "\u{202e}",
        "    ",
        "{\"a\":",
        "error:",
        "cd /tmp",
        "&&",
        "exit code: 1",
    ]);
    prop::collection::vec(prop_oneof![4 => piece.prop_map(str::to_owned), 1 => "\\PC{0,6}"], 0..40)
        .prop_map(|pieces| pieces.join(" "))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    fn any_words_in_any_mouth_are_read(prompt in words(), reply in words(), command in words(), result in words(), last in words()) {
        let call = json!({"id": "a", "type": "function", "function": {"name": "bash", "arguments": json!({"command": command}).to_string()}});
        let body = json!({"model": "gpt-5", "messages": [
            {"role": "user", "content": prompt},
            {"role": "assistant", "content": reply, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "a", "content": result},
            {"role": "assistant", "content": reply},
            {"role": "user", "content": last},
        ]}).to_string();
        let (transcript, _) = wire::parse(None, &body).unwrap();
        holds(&transcript, &mut BlockCache::default());
        // Tool text and replies give no rule: without the prompts there is none.
        let silent = json!({"model": "gpt-5", "messages": [
            {"role": "user", "content": "Look at it."},
            {"role": "assistant", "content": reply, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "a", "content": result},
        ]}).to_string();
        let (transcript, _) = wire::parse(None, &silent).unwrap();
        let without = holds(&transcript, &mut BlockCache::default());
        prop_assert_eq!(without.rules().count(), 0);
    }
}

/// Pieces that would be looked for again and again if anything were.
fn time_grows_with_the_text_alone() {
    for piece in [
        "a",
        "a ",
        ". ",
        "`",
        "\"a ",
        "<a>\n",
        "</a>",
        "<a>\n</b>\n",
        "<system-reminder>",
        "never mind, ",
        "- [ ] a\n",
        "```\n",
        "error: a\n",
        "从",
    ] {
        let body = |times: usize| {
            let text = piece.repeat(20_000 * times / piece.len());
            let call = json!({"id": "a", "type": "function", "function": {"name": "bash", "arguments": json!({"command": text}).to_string()}});
            json!({"model": "gpt-5", "messages": [
                {"role": "user", "content": text},
                {"role": "assistant", "content": text, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "a", "content": format!("{text}\nexit code: 1")},
            ]})
            .to_string()
        };
        assert_in_proportion(piece, body, |body| {
            let (transcript, _) = wire::parse(None, body).unwrap();
            let _ = Evidence::collect(&mut BlockCache::default(), &transcript);
        });
    }
}
