//! What must hold of every rewrite, over generated bodies and, where they are there, over real ones.

use crate::support::generate::{self, Generated, Tally};
use crate::support::{Numbers, corpus, sketch, written_differently};
use longhaul_engine::transcript::{Block, TextEncoding, Transcript, Turn, TurnKind};
use longhaul_engine::wire::Role;
use longhaul_engine::{ApiFormat, Edit, Rewrite, RewriteError, wire};
use serde_json::Value;

tests! {
    always: [
        the_generator_produces_every_quirk_a_hundred_times,
        a_body_that_fails_is_made_small,
        an_empty_rewrite_changes_nothing,
        replacing_one_text_changes_its_bytes_and_nothing_else,
        removing_any_turns_leaves_the_others_and_can_be_undone,
        every_message_belongs_to_the_preamble_or_to_turns,
        elements_come_go_and_change_with_their_commas,
        fields_are_set_and_unset,
        edits_that_want_the_same_bytes_are_refused,
        an_edit_inside_something_that_goes_goes_with_it,
    ],
    real: [
        an_empty_rewrite_changes_nothing_in_real_bodies,
        replacing_one_text_of_a_real_body_changes_nothing_else,
        removing_units_of_real_bodies_can_be_undone,
    ],
}

/// Bodies for each dialect: enough that every quirk comes up a hundred times.
const GENERATED: u64 = 4_000;

fn generated() -> impl Iterator<Item = Generated> {
    ApiFormat::ALL.into_iter().flat_map(|api_format| (0..GENERATED).map(move |seed| generate::body(api_format, seed)))
}

fn read(api_format: Option<ApiFormat>, body: &str) -> Transcript<'_> {
    wire::parse(api_format, body).unwrap_or_else(|e| panic!("{e}: {body}")).0
}

fn the_generator_produces_every_quirk_a_hundred_times() {
    let mut metrics = Tally::default();
    generated().for_each(|g| metrics.add(&g));
    metrics.assert_each_at_least(100);
}

fn a_body_that_fails_is_made_small() {
    let long = ApiFormat::ALL.into_iter().flat_map(|d| (0..60).map(move |seed| generate::long_body(d, seed)));
    let has_secret = |body: &Generated| body.body.contains("ghp_");
    for whole in long.filter(has_secret) {
        let small = whole.smallest(has_secret);
        let transcript = read(Some(small.dialect), &small.body);
        // A result and a prompt can be drawn as one unit and read as two.
        assert!(has_secret(&small) && transcript.turns.len() <= 2, "{}", small.body);
    }
}

fn an_empty_rewrite_changes_nothing() {
    generate::shrink::hold(generated(), |g| {
        let transcript = read(Some(g.dialect), &g.body);
        assert_eq!(Rewrite::new(&transcript, Vec::new()).unwrap().apply(&g.body), g.body);
    });
}

fn an_empty_rewrite_changes_nothing_in_real_bodies() {
    for (name, body) in corpus() {
        let transcript = read(None, &body);
        let nothing = Rewrite::new(&transcript, Vec::new()).unwrap();
        assert_eq!(nothing.apply(&body), body, "{name}");
        let said = sketch(&transcript);
        for (how, other) in written_differently(&body) {
            let transcript = read(None, &other);
            assert_eq!(Rewrite::new(&transcript, Vec::new()).unwrap().apply(&other), other, "{name} {how}");
            assert!(said == sketch(&transcript), "{name} reads differently when {how}");
        }
    }
}

/// Another text that leaves a block what it is: its opening and ending decide that, so they stay.
fn another_text(block: &Block<'_>) -> String {
    let text = block.text();
    match block.text.unwrap().encoding {
        TextEncoding::Json => r#"{"changed":"\"é\" 😀"}"#.to_owned(),
        TextEncoding::JsonInString => r#"{"changed": "yes"}"#.to_owned(),
        TextEncoding::String | TextEncoding::Damaged => format!("{text}\n changed \"é\" \\ 😀 {text}"),
    }
}

fn kind(turn: &Turn<'_>) -> String {
    match &turn.kind {
        TurnKind::Prompt { speaker: by, blocks } => format!("prompt {by:?} {}", blocks.len()),
        TurnKind::Assistant { reply, tool_calls: exchanges } => {
            format!("step {} {}", reply.len(), exchanges.len())
        }
        TurnKind::Checkpoint(_) => "checkpoint".into(),
        TurnKind::Opaque(_) => "opaque".into(),
    }
}

fn check_one_replacement(api_format: ApiFormat, body: &str, transcript: &Transcript<'_>, block: &Block<'_>) {
    let text = block.text.unwrap();
    let with = another_text(block);
    let edit = Edit::Text { text, with: with.clone() };
    if text.encoding == TextEncoding::Damaged {
        assert_eq!(Rewrite::new(transcript, vec![edit]), Err(RewriteError::Damaged(text.at)));
        return;
    }
    let rewrite = Rewrite::new(transcript, vec![edit]).unwrap();
    let changed = rewrite.apply(body);
    let range = text.at.range();
    assert_eq!(changed[..range.start], body[..range.start]);
    assert!(changed.ends_with(&body[range.end..]));
    assert_eq!(rewrite.inverse(body).apply(&changed), body);

    let again = read(Some(api_format), &changed);
    let texts = |t: &Transcript<'_>| t.blocks().map(|b| b.text().into_owned()).collect::<Vec<_>>();
    let mut expected = texts(transcript);
    let index = transcript.blocks().position(|b| std::ptr::eq(b, block)).unwrap();
    expected[index] = with;
    assert_eq!(texts(&again), expected);
    let turns = |t: &Transcript<'_>| t.turns.iter().map(|u| (kind(u), u.owned_elements.clone())).collect::<Vec<_>>();
    assert_eq!(turns(&again), turns(transcript), "the units are the same");
}

fn replacing_one_text_changes_its_bytes_and_nothing_else() {
    generate::shrink::hold(generated(), |g| {
        let transcript = read(Some(g.dialect), &g.body);
        for block in transcript.blocks().filter(|b| b.text.is_some()) {
            check_one_replacement(g.dialect, &g.body, &transcript, block);
        }
    });
}

fn replacing_one_text_of_a_real_body_changes_nothing_else() {
    let mut numbers = Numbers(7);
    for (_, body) in corpus() {
        let transcript = read(None, &body);
        let texts: Vec<_> = transcript.blocks().filter(|b| b.text.is_some()).collect();
        for _ in 0..texts.len().min(12) {
            check_one_replacement(transcript.api_format, &body, &transcript, numbers.pick::<&Block<'_>>(&texts));
        }
    }
}

/// The bytes of the blocks that stay, in the order of the body. The preamble always does.
fn remaining<'b>(transcript: &Transcript<'b>, originals: impl Fn(usize) -> bool) -> Vec<&'b str> {
    let kept = transcript.turns.iter().enumerate().filter(|(index, _)| originals(*index));
    let blocks = transcript.preamble.iter().chain(kept.flat_map(|(_, turn)| turn.blocks()));
    let mut blocks: Vec<_> = blocks.map(|b| (b.at, b.raw())).collect();
    blocks.sort_unstable();
    blocks.into_iter().map(|(_, raw)| raw).collect()
}

fn check_removal(api_format: ApiFormat, body: &str, transcript: &Transcript<'_>, goes: &[bool]) {
    let turns = transcript.turns.iter().zip(goes).filter(|(_, goes)| **goes).map(|(turn, _)| turn);
    let edits: Vec<Edit> = turns.flat_map(|turn| turn.owned_elements.iter().map(|id| Edit::Remove(*id))).collect();
    let rewrite = Rewrite::new(transcript, edits).unwrap();
    let smaller = rewrite.apply(body);
    assert_eq!(rewrite.inverse(body).apply(&smaller), body);
    let again = read(Some(api_format), &smaller);
    let is_fixed = |index: usize| transcript.turns[index].owned_elements.is_empty();
    assert_eq!(
        remaining(&again, |_| true),
        remaining(transcript, |index| !goes[index] || is_fixed(index)),
        "{body}\n→\n{smaller}"
    );
}

fn removing_any_turns_leaves_the_others_and_can_be_undone() {
    generate::shrink::hold(generated(), |g| {
        let mut numbers = Numbers(g.seed);
        let transcript = read(Some(g.dialect), &g.body);
        let some: Vec<bool> = transcript.turns.iter().map(|_| numbers.one_in(2)).collect();
        check_removal(g.dialect, &g.body, &transcript, &some);
        check_removal(g.dialect, &g.body, &transcript, &vec![true; some.len()]);
    });
}

fn removing_units_of_real_bodies_can_be_undone() {
    let mut numbers = Numbers(11);
    for (_, body) in corpus() {
        let transcript = read(None, &body);
        for share in [2, 5] {
            let some: Vec<bool> = transcript.turns.iter().map(|_| numbers.one_in(share)).collect();
            check_removal(transcript.api_format, &body, &transcript, &some);
        }
    }
}

fn every_message_belongs_to_the_preamble_or_to_turns() {
    generate::shrink::hold(generated(), |g| {
        let transcript = read(Some(g.dialect), &g.body);
        let mut seen = vec![false; transcript.message_count()];
        for id in transcript.turns.iter().flat_map(|u| &u.owned_elements) {
            seen[transcript.message_of(*id).unwrap()] = true;
        }
        for (index, _) in seen.iter().enumerate().filter(|(_, seen)| !**seen) {
            assert_eq!(transcript.role(index), Some(Role::System), "message {index} belongs to nothing: {}", g.body);
        }
    });
}

fn elements_come_go_and_change_with_their_commas() {
    for (seed, separator) in (0..3_000).zip([",", " , ", ",\n  "].into_iter().cycle()) {
        let mut numbers = Numbers(seed);
        let count = numbers.below(6);
        let messages: Vec<String> = (0..count).map(|i| format!(r#"{{"role":"user","content":"m{i}"}}"#)).collect();
        let body = format!(r#"{{"messages": [ {} ] }}"#, messages.join(separator));
        let transcript = read(Some(ApiFormat::Chat), &body);
        let array = transcript.turns.first().map_or(0, |u| u.owned_elements[0].array);
        let id = |index: usize| longhaul_engine::transcript::ElementId { array, index: index as u32 };

        let mut edits = Vec::new();
        let mut expected: Vec<Value> = Vec::new();
        for index in 0..=count {
            if numbers.one_in(3) {
                let json = format!(r#"{{"role":"user","content":"new {index}"}}"#);
                expected.push(serde_json::from_str(&json).unwrap());
                edits.push(Edit::Insert { before: id(index), json });
            }
            let Some(message) = messages.get(index) else { break };
            match numbers.below(4) {
                0 => edits.push(Edit::Remove(id(index))),
                1 => {
                    edits.push(Edit::Replace { element: id(index), json: "[1]".into() });
                    expected.push(serde_json::json!([1]));
                }
                _ => expected.push(serde_json::from_str(message).unwrap()),
            }
        }
        let rewrite = Rewrite::new(&transcript, edits).unwrap();
        let changed = rewrite.apply(&body);
        let value: Value = serde_json::from_str(&changed).unwrap_or_else(|e| panic!("{e}: {body} → {changed}"));
        assert_eq!(value["messages"].as_array().unwrap(), &expected, "{body} → {changed}");
        assert_eq!(rewrite.inverse(&body).apply(&changed), body);
    }
}

fn fields_are_set_and_unset() {
    let cases = [
        (r#"{"messages":[],"a":1}"#, r#"{"messages":[],"a":2,"b":3}"#),
        (r#"{"a" : 1 , "messages" : []}"#, r#"{"a":2,"messages":[],"b":3}"#),
        (r"{}", r#"{"a":2,"b":3}"#),
        (r#"{"b":9}"#, r#"{"b":3,"a":2}"#),
        (r#"{"c":0,"b":9,"c":1}"#, r#"{"b":3,"a":2}"#),
    ];
    for (before, after) in cases {
        let transcript = read(Some(ApiFormat::Chat), before);
        let object = transcript.root();
        let edits = vec![
            Edit::Set { object, key: "a", json: "2".into() },
            Edit::Set { object, key: "b", json: "3".into() },
            Edit::Unset { object, key: "c" },
        ];
        let rewrite = Rewrite::new(&transcript, edits).unwrap();
        let changed = rewrite.apply(before);
        let value: Value = serde_json::from_str(&changed).unwrap_or_else(|e| panic!("{e}: {changed}"));
        assert_eq!(value, serde_json::from_str::<Value>(after).unwrap(), "{before} → {changed}");
        assert_eq!(rewrite.inverse(before).apply(&changed), before);
    }
}

fn edits_that_want_the_same_bytes_are_refused() {
    let body = r#"{"messages":[{"role":"user","content":"hi"},{"role":"user","content":"there"}]}"#;
    let transcript = read(Some(ApiFormat::Chat), body);
    let text = transcript.blocks().next().unwrap().text.unwrap();
    let twice = vec![Edit::Text { text, with: "a".into() }, Edit::Text { text, with: "b".into() }];
    assert!(matches!(Rewrite::new(&transcript, twice), Err(RewriteError::Conflict(..))));
    let bad = vec![Edit::Set { object: transcript.root(), key: "a", json: "{".into() }];
    assert!(matches!(Rewrite::new(&transcript, bad), Err(RewriteError::NotJson(_))));
}

fn an_edit_inside_something_that_goes_goes_with_it() {
    let body = r#"{"messages":[{"role":"user","content":"hi"},{"role":"user","content":"there"}]}"#;
    let transcript = read(Some(ApiFormat::Chat), body);
    let first = &transcript.turns[0];
    let text = first.blocks().next().unwrap().text.unwrap();
    let edits = vec![Edit::Text { text, with: "longer than before".into() }, Edit::Remove(first.owned_elements[0])];
    let changed = Rewrite::new(&transcript, edits).unwrap().apply(body);
    assert_eq!(changed, r#"{"messages":[{"role":"user","content":"there"}]}"#);
}
