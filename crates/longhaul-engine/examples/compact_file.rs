//! Compacts one request from standard input, for the scripts that measure checkpoints. It takes the options of
//! `longhaul compress` that those scripts use, and it is built in seconds, because it contains the engine alone.
//!
//! ```text
//! compact_file compress - --context-length 20000 [--to-tokens 5000] [--summary FILE] < request.json > smaller.json
//! compact_file tokens --json - < request.json
//! ```
//!
//! With `--prepared-at N`, the summary is one that a model was asked for when the request had only its first N messages.
//! With `--weights FILE`, the file replaces `src/checkpoint/weights.toml`.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it is a program for a terminal")]

use std::io::Read;

use longhaul_engine::report::CompactionReport;
use longhaul_engine::{Options, Session, Tokens};

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let value_of = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1).map(String::as_str)
    };
    let mut body = String::new();
    std::io::stdin().read_to_string(&mut body)?;
    let mut session = Session::new(&model_of(&body));
    if arguments.first().is_some_and(|command| command == "tokens") {
        println!("{{\"total\":{}}}", session.count_tokens(&body)?.number());
        return Ok(());
    }
    if let Some(window) = value_of("--context-length") {
        session = session.with_context_length(Tokens(window.parse()?));
    }
    let mut options = Options::new().force();
    if let Some(size) = value_of("--to-tokens") {
        options = options.target_tokens(Tokens(size.parse()?));
    }
    if let Some(file) = value_of("--summary") {
        let text = std::fs::read_to_string(file)?;
        options = match value_of("--prepared-at") {
            None => options.summary(text),
            Some(messages) => {
                let mut early = Session::new(&model_of(&body));
                if let Some(window) = value_of("--context-length") {
                    early = early.with_context_length(Tokens(window.parse()?));
                }
                let begun =
                    early.request_summary(&first_messages(&body, messages.parse()?)?, &Options::new().force())?;
                let mut request = begun.ok_or("so few messages need no summary")?;
                while request.next_prompt().is_some() {
                    request.add_reply(text.clone());
                }
                options.summary_by_model(request)
            }
        };
    }
    if let Some(file) = value_of("--weights") {
        options = options.weights(toml::from_str(&std::fs::read_to_string(file)?)?);
    }
    let compacted = session.compact_with(&body, &options)?;
    if arguments.iter().any(|argument| argument == "--show") {
        eprintln!("{}", describe(session.last_report()));
    }
    print!("{}", compacted.map_or(body, |smaller| smaller.body));
    Ok(())
}

/// Returns a request with its first messages only.
fn first_messages(body: &str, count: usize) -> Result<String, Failure> {
    let mut body: serde_json::Value = serde_json::from_str(body)?;
    let messages = ["messages", "input"].into_iter().find(|field| body[*field].is_array()).ok_or("no messages")?;
    body[messages].as_array_mut().into_iter().for_each(|messages| messages.truncate(count));
    Ok(body.to_string())
}

fn model_of(body: &str) -> String {
    let model = body.split_once("\"model\":").map(|(_, rest)| rest.trim_start().trim_start_matches('"'));
    model.and_then(|rest| rest.split('"').next()).unwrap_or_default().to_owned()
}

/// Describes a compaction: the size of its checkpoint, the notes of the report, and what the audit of a summary found.
fn describe(report: Option<&CompactionReport>) -> String {
    let Some(report) = report else { return "no report".to_owned() };
    let findings = report
        .findings
        .iter()
        .map(|finding| format!("{:?} from {}: {} ({})", finding.action, finding.section, finding.text, finding.why));
    let checkpoint = report.checkpoint.map(|checkpoint| format!("checkpoint of {} tokens", checkpoint.tokens.number()));
    checkpoint.into_iter().chain(report.notes.iter().cloned()).chain(findings).collect::<Vec<_>>().join("\n")
}
