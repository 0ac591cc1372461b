//! Prints the evidence of request bodies, and how long it took to gather the first and the second time:
//! `cargo run --release --example evidence -- body.json …`

use std::time::Instant;

use longhaul_engine::evidence::Evidence;
use longhaul_engine::known::Known;
use longhaul_engine::wire;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for path in std::env::args().skip(1) {
        let body = std::fs::read_to_string(&path)?;
        let (transcript, _) = wire::parse(None, &body)?;
        let mut known = Known::default();
        let start = Instant::now();
        let evidence = Evidence::of(&mut known, &transcript);
        let first = start.elapsed();
        let start = Instant::now();
        let _ = Evidence::of(&mut known, &transcript);
        println!(
            "# {path}: {} bytes, {} units, {first:?}, again {:?}",
            body.len(),
            transcript.units.len(),
            start.elapsed()
        );
        print(&evidence);
    }
    Ok(())
}

fn print(evidence: &Evidence) {
    for request in &evidence.requests {
        println!(
            "{:4} request {:?} {:?} {:?}: {}",
            request.unit,
            request.ask,
            request.state,
            request.uses,
            one_line(&request.gist)
        );
    }
    for rule in &evidence.rules {
        println!("{:4} rule: {}", rule.unit, rule.text);
    }
    for once in &evidence.once_only {
        println!("{:4} once: {}", once.unit, once.text);
    }
    for reversal in &evidence.reversals {
        println!("{:4} reversal of {:?}: {}", reversal.unit, reversal.cancels, reversal.text);
    }
    for question in &evidence.questions {
        let answer = question.answer.as_deref().map(one_line);
        println!("{:4} {:?} asks: {} -> {answer:?}", question.unit, question.by, one_line(&question.text));
    }
    for problem in &evidence.problems {
        let target = problem.target.as_deref().map(one_line);
        println!(
            "{:4} problem [{}] {target:?} resolved {:?}: {}",
            problem.unit,
            problem.tool,
            problem.resolved,
            one_line(&problem.text)
        );
    }
    for decision in &evidence.decisions {
        println!(
            "{:4} decision {:?}: {} || {:?}",
            decision.unit,
            decision.uses,
            one_line(&decision.text),
            decision.reason.as_deref().map(one_line)
        );
    }
    for said in &evidence.said {
        println!("{:4} said {:?} {:?}: {}", said.unit, said.kind, said.source, one_line(&said.text));
    }
    for file in &evidence.files {
        println!("     file {} {:?} {:?}", file.path, file.uses, file.touched);
    }
    println!("{:#?}", evidence.state);
    println!("closings {:?}; {} deeds", evidence.closings, evidence.deeds.len());
}

fn one_line(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().take(240).collect()
}
