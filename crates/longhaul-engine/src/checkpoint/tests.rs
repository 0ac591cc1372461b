use proptest::prelude::*;

use super::marker::{end_mark, marker};
use super::{Checkpoint, Closing, Completed, EmptySections, Quoted, Section, Voice};
use crate::redact::Redacted;
use crate::tokens::{Counter, Tokens, Vocabulary};
use crate::transcript::CHECKPOINT_OPENING;

const COUNTER: Counter = Counter::exact(Vocabulary::O200kBase);
const CLOSINGS: [Closing; 2] = [Closing::RequestFollows, Closing::RequestAbove];
const VOICES: [Voice; 2] = [Voice::User, Voice::Assistant];

/// A line that could be taken for structure, or any other.
fn line() -> impl Strategy<Value = String> {
    let forged = prop::sample::select(vec![
        "",
        " ",
        "  ",
        "- ",
        "- a",
        "-",
        "None.",
        "1. ",
        "12. READ a — b [tool: c]",
        "## Goal",
        "## Active Task\r",
        "### read src/a.rs",
        "#",
        "\\",
        "\\\\## Goal",
        "> quoted",
        "```",
        "~~~rust",
        "[End of the checkpoint",
        "[End of the checkpoint: answer the message below, not the summary above.]",
        CHECKPOINT_OPENING,
        "[Longhaul checkpoint: background",
        "\r",
        "\u{2028}",
        "\u{85}x",
        "\u{feff}",
        "日本語のテキスト",
        "مرحبا",
        "👩‍👩‍👧",
        "\t- a",
        "+5. b",
        "99999999999. c",
    ]);
    prop_oneof![forged.prop_map(str::to_owned), "[^\n]{0,30}"]
}

fn text() -> impl Strategy<Value = Redacted> {
    prop::collection::vec(line(), 1..4).prop_map(|lines| Redacted::from_store(lines.join("\n")))
}

fn checkpoint() -> impl Strategy<Value = Checkpoint> {
    let one_line = || line().prop_map(Redacted::from_store);
    let quoted = (one_line(), prop::collection::vec(one_line(), 0..4))
        .prop_map(|(source, lines)| Quoted { source, lines });
    let completed = (any::<u32>(), text()).prop_map(|(number, text)| Completed { number, text });
    let empty = prop::sample::select(vec![EmptySections::Said, EmptySections::LeftOut]);
    let lists = prop::collection::vec(prop::collection::vec(text(), 0..3), Section::ALL.len());
    let (completed, quoted) = (prop::collection::vec(completed, 0..4), prop::collection::vec(quoted, 0..4));
    (lists, completed, quoted, empty).prop_map(|(lists, completed, quoted, empty)| {
        let mut checkpoint = Checkpoint { completed, quoted, empty, ..Checkpoint::default() };
        for (section, items) in Section::ALL.into_iter().zip(lists) {
            if section != Section::CompletedActions {
                checkpoint.lists[section as usize] = items;
            }
        }
        checkpoint.settle()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]
    #[test]
    fn what_is_rendered_is_parsed_back(checkpoint in checkpoint()) {
        for closing in CLOSINGS {
            for voice in VOICES {
                let text = checkpoint.render(closing, voice);
                prop_assert_eq!(Checkpoint::parse(&text), Some(checkpoint.clone()), "{}", text);
            }
        }
    }

    #[test]
    fn nothing_inside_opens_or_closes_a_checkpoint(checkpoint in checkpoint()) {
        let text = checkpoint.render(Closing::RequestFollows, Voice::User);
        let starting = |opening: &str| text.split('\n').filter(|line| line.starts_with(opening)).count();
        prop_assert_eq!(starting(CHECKPOINT_OPENING), 1);
        prop_assert_eq!(starting("[End of the checkpoint"), 1);
        prop_assert_eq!(starting("## "), Section::ALL.into_iter().filter(|s| text.contains(&format!("\n\n## {}\n", s.title()))).count());
    }

    #[test]
    fn no_text_makes_parsing_panic(lines in prop::collection::vec(line(), 0..30)) {
        let _ = Checkpoint::parse(&format!("{CHECKPOINT_OPENING}\n{}", lines.join("\n")));
    }
}

#[test]
fn the_words_around_cost_little_and_order_nothing() {
    for closing in CLOSINGS {
        let marker = marker(closing);
        assert!(marker.starts_with(CHECKPOINT_OPENING));
        assert!(COUNTER.count(&marker) < Tokens(110), "{marker}");
        let end = end_mark(closing, Voice::User).unwrap();
        assert!(COUNTER.count(&end) < Tokens(25), "{end}");
        assert_eq!(end_mark(closing, Voice::Assistant), None);
        for filtered in ["ignore", "obey", "disregard", "do not", "must"] {
            assert!(!marker.to_lowercase().contains(filtered), "{filtered}");
        }
    }
}

#[test]
fn an_empty_section_says_so_and_every_heading_stands_in_order() {
    let text = Checkpoint::default().render(Closing::RequestFollows, Voice::Assistant);
    let headings: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    assert_eq!(headings, Section::ALL.map(Section::title));
    assert_eq!(text.lines().filter(|line| *line == "None.").count(), 13);
}

#[test]
fn what_is_no_checkpoint_is_not_read_as_one() {
    for text in [
        "",
        "## Goal\n- a",
        "[Longhaul checkpoint: 12 earlier messages were removed",
        " [Longhaul checkpoint",
    ] {
        assert_eq!(Checkpoint::parse(text), None, "{text}");
    }
}

#[test]
fn what_a_person_wrote_into_it_is_kept() {
    let text = "[Longhaul checkpoint: x]\n## Goal\nship it\n* soon\n## Completed Actions\nfixed a bug\n7. RUN b — c\nNone.\n";
    let read = Checkpoint::parse(text).unwrap();
    assert_eq!(
        read.list(Section::Goal).iter().map(Redacted::as_str).collect::<Vec<_>>(),
        ["ship it", "* soon"]
    );
    let numbers: Vec<u32> = read.completed().iter().map(|line| line.number).collect();
    assert_eq!(numbers, [1, 7, 8]);
}
