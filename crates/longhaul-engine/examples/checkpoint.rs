//! Prints the checkpoint that code makes of a whole request body, how much of the evidence it keeps, and how long it took:
//! `cargo run --release --example checkpoint -- 2000 body.json …`, with a topic: `-- 2000 --on "database schema" body.json`

#![allow(clippy::print_stdout, reason = "that is what it is for")]

use std::time::Instant;

use longhaul_engine::Tokens;
use longhaul_engine::checkpoint::{Checkpoint, Closing, Draft, Topic, Voice, audit};
use longhaul_engine::evidence::Evidence;
use longhaul_engine::known::Known;
use longhaul_engine::redact::{Redactor, Rules};
use longhaul_engine::tokens::{Counter, Vocabulary};
use longhaul_engine::wire;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1).peekable();
    let budget = Tokens(arguments.next().unwrap_or_default().parse()?);
    let focus = arguments.next_if_eq("--on").and_then(|_| arguments.next());
    for path in arguments {
        let body = std::fs::read_to_string(&path)?;
        let (transcript, _) = wire::parse(None, &body)?;
        let evidence = Evidence::of(&mut Known::default(), &transcript);
        let mut redactor = Redactor::numbered(Rules::default());
        let draft = Draft {
            evidence: &evidence,
            folded: &|_| true,
            previous: None,
            quotes: &[],
            budget,
            sections: budget,
            terse_below: Tokens(600),
            counter: Counter::exact(Vocabulary::O200kBase),
            focus: focus.as_deref(),
            closing: Closing::RequestFollows,
            voice: Voice::User,
        };
        // The vocabulary is unpacked when it is first used.
        let _ = draft.counter.count(" ");
        let start = Instant::now();
        let checkpoint = Checkpoint::build(&draft, &mut redactor);
        let took = start.elapsed();
        let text = checkpoint.render(draft.closing, draft.voice);
        let start = Instant::now();
        let audit = audit(&text, &evidence, &mut redactor);
        let audited = start.elapsed();
        let (tokens, kept, found) = (draft.counter.count(&text), audit.kept(), audit.found());
        println!(
            "# {path}: {tokens} tokens in {took:?}, {kept} of {found} pieces kept, audited in {audited:?}"
        );
        if let Some(topic) = focus.as_deref().and_then(Topic::on) {
            let share = checkpoint.share_on(&topic, draft.counter, draft.closing, draft.voice);
            println!("# {:.0} % on the topic", share * 100.0);
        }
        println!("{text}\n");
    }
    Ok(())
}
