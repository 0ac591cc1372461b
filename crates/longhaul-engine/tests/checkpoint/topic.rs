//! With a topic, 60 to 70 % of the tokens are about it.

use std::fmt::Write as _;

use longhaul_engine::checkpoint::{Checkpoint, Draft, Topic};

use crate::budget::{COUNTER, draft, redactor, render, session};
use crate::notation;

#[test]
fn a_topic_gets_sixty_to_seventy_per_cent() {
    let mut text = session(200);
    for n in 0..300 {
        writeln!(text, "{n} quote {}.0 read db/schema_{}.sql: CREATE TABLE t{n} (id BIGINT, total_{n} INTEGER NOT NULL);", n % 6, n % 4)
            .unwrap();
        writeln!(
            text,
            "{n} quote {}.0 read web/page_{}.ts: const cell{n} = render(row.cells[{n}], theme.colour_{n});",
            n % 6,
            n % 4
        )
        .unwrap();
    }
    let told = notation::read(&text);
    for words in ["database schema", "the schema", "SQL", "schemas"] {
        let topic = Topic::on(words).unwrap();
        for budget in [1_000, 2_000, 5_000, 10_000] {
            let draft = Draft { focus: Some(words), ..draft(&told, budget) };
            let checkpoint = Checkpoint::build(&draft, &mut redactor());
            let share = checkpoint.share_on(&topic, COUNTER, draft.closing, draft.voice);
            assert!(
                (0.6..=0.7).contains(&share),
                "{share} at {budget} on {words}\n{}",
                render(&checkpoint, &draft)
            );
            let tokens = checkpoint.tokens(COUNTER, draft.closing, draft.voice).number();
            assert!(
                tokens <= budget && (tokens * 10 > budget * 9 || budget == 10_000),
                "{tokens} of {budget}"
            );
        }
    }
}

#[test]
fn a_topic_that_nothing_is_about_leaves_what_must_be_there() {
    let told = notation::read(&session(100));
    let draft = Draft { focus: Some("quantum chemistry"), ..draft(&told, 2_000) };
    let text = render(&Checkpoint::build(&draft, &mut redactor()), &draft);
    assert!(text.contains("Port the parser") && text.contains("Never change the public API."), "{text}");
}

#[test]
fn short_words_are_whole_words() {
    let cases = [
        ("db", "src/db/pool.rs", true),
        ("db", "the feedback", false),
        ("DB", "open db", true),
        ("the API", "api/routes.ts", true),
        ("the API", "capital", false),
        ("schemas", "one schema", true),
        ("データ", "このデータベース", true),
        ("Überschrift", "die überschrift", true),
    ];
    for (topic, text, expected) in cases {
        assert_eq!(Topic::on(topic).unwrap().is_in(text), expected, "{topic} in {text}");
    }
    assert!(Topic::on(" - ").is_none());
}
