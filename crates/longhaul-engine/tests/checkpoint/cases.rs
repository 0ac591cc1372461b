//! Each case is a file beside this one: a sentence, the settings, the evidence, perhaps the checkpoint before, and the
//! checkpoint. `UPDATE_GOLDEN=1 cargo test` writes the checkpoints anew; read the difference before keeping it.

use std::path::Path;

use longhaul_engine::checkpoint::{Checkpoint, Closing, Draft, Voice};
use longhaul_engine::redact::{Redactor, Rules};
use longhaul_engine::tokens::{Counter, Tokens, Vocabulary};

use crate::notation;

#[test]
fn each_case_reads_as_written_down() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/checkpoint/cases");
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty());
    let mut wrong = Vec::new();
    for path in paths {
        let text = std::fs::read_to_string(&path).unwrap();
        let (given, expected) = text.split_once("== checkpoint\n").unwrap();
        let made = checkpoint_of(given);
        if made == expected {
            continue;
        }
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&path, format!("{given}== checkpoint\n{made}")).unwrap();
        } else {
            wrong.push(format!("--- {}\n{made}", path.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn checkpoint_of(given: &str) -> String {
    let field = |name: &str| given.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    let (_, rest) = given.split_once("== evidence\n").unwrap();
    let (told, before) =
        rest.split_once("== before\n").map_or((rest, None), |(told, before)| (told, Some(before)));
    let before = before.map(|text| Checkpoint::parse(text.trim_end()).unwrap());
    let told = notation::read(told);
    let kept_from = field("kept from").map_or(usize::MAX, |unit| unit.parse().unwrap());
    let closing = match field("request") {
        Some("above") => Closing::RequestAbove,
        _ => Closing::RequestFollows,
    };
    let counter = Counter::exact(Vocabulary::O200kBase);
    let draft = Draft {
        evidence: &told.evidence,
        folded: &|unit| unit < kept_from,
        previous: before.as_ref(),
        quotes: &told.quotes,
        budget: Tokens(field("budget").unwrap().parse().unwrap()),
        sections: Tokens(field("budget").unwrap().parse().unwrap()),
        terse_below: Tokens(600),
        counter,
        focus: field("focus"),
        closing,
        voice: Voice::User,
    };
    let made = Checkpoint::build(&draft, &mut Redactor::numbered(Rules::default()));
    let text = made.render(closing, Voice::User);
    assert!(counter.count(&text) <= draft.budget, "{text}");
    assert_eq!(Checkpoint::parse(&text), Some(made));
    text + "\n"
}
