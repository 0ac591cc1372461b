//! Runs a case of the passes: what all of them make of a session whose newest unit is kept, as `unit.block pass: text`.

use longhaul_engine::passes::{NewText, PASSES, ProposedChange, run_all};
use longhaul_engine::wire;

use crate::case::Case;
use crate::run::{Made, Rendered, grouped};
use crate::support::notation::Session;
use crate::support::passes::{changes, policy};
use crate::support::write;

pub fn run(case: &Case) -> Made {
    let mut session = Session::default();
    session.extend(case.rounds[0].lines.iter().map(String::as_str));
    let made = case.dialects().into_iter().map(|api_format| {
        let body = write::body(api_format, "gpt-5", &session, &session);
        let (transcript, _) = wire::parse(api_format, &body).unwrap();
        let after = changes(&policy(200), &transcript, 1, run_all).iter().map(shown).collect();
        (api_format, Rendered { after, report: String::new() })
    });
    Made { failures: Vec::new(), goldens: vec![grouped(made.collect())] }
}

fn shown(change: &ProposedChange) -> String {
    let (NewText::Text(text) | NewText::Mark(text)) = &change.new_text;
    format!("{}.{} {}: {}\n", change.at.unit, change.at.block, change.pass, text.replace('\n', "\\n"))
}

/// Each pass changes something in a file of its own.
pub fn each_has_its_cases() {
    for pass in PASSES {
        let path = crate::folder("passes").join(pass.name).with_extension("txt");
        let cases = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        assert!(cases.contains(&format!(" {}: ", pass.name)), "{} changes nothing", pass.name);
    }
}
