//! Compacts with rules of your own: results of `cargo` are cut to their last lines, and everything else stays.
//! Longhaul applies the proposal if the result is valid and smaller. Otherwise its own engine compacts.
//!
//!     cargo run -p longhaul-engine --example custom_engine
#![allow(clippy::print_stdout, reason = "it talks to a person")]

use longhaul_engine::{Error, Options, Proposal, ProposalInput, Session, ShorterText, Tokens};

fn main() -> Result<(), Error> {
    let body = include_str!("../../../examples/session.json");
    let mut session = Session::new("gpt-5").with_engine("last-lines", propose);
    let Some(smaller) = session.compact_with(body, &Options::new().target_tokens(Tokens(6_500)))? else {
        println!("nothing changed: {}", session.last_report().map_or("", |report| &report.reason));
        return Ok(());
    };
    let report = &smaller.report;
    println!("{} made {} tokens of {}", report.engine, report.tokens.after, report.tokens.before);
    report.notes.iter().for_each(|note| println!("note: {note}"));
    Ok(())
}

/// Proposes to cut long results. The texts of the input contain no secrets.
fn propose(input: &ProposalInput) -> Result<Proposal, String> {
    let mut proposal = Proposal::default();
    for message in input.messages.iter().filter(|message| !message.protected) {
        for block in message.blocks.iter().filter(|block| block.editable && block.kind == "result") {
            let text = block.text.as_str();
            let start = text.trim_end().rmatch_indices('\n').nth(2).map_or(0, |(at, _)| at + 1);
            if start > 0 {
                let text = text[start..].to_owned();
                proposal.shorten.push(ShorterText { message: message.index, block: block.index, text });
            }
        }
    }
    if proposal.shorten.is_empty() { Err("no result is longer than three lines".to_owned()) } else { Ok(proposal) }
}
