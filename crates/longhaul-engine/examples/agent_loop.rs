//! An agent that never outgrows its context window, with summaries by a model. The model here is a function that
//! answers from a script; in your program it is the call of your provider's API.
//!
//!     cargo run -p longhaul-engine --example agent_loop
#![allow(clippy::print_stdout, reason = "it talks to a person")]

use longhaul_engine::{Error, Options, Prompt, Session, Tokens};
use serde_json::{Value, json};

fn main() -> Result<(), Error> {
    let mut session = Session::new("gpt-5").with_context_length(Tokens(8_000)).with_protected_last(6);
    let mut messages = vec![
        json!({"role": "system", "content": "You are a careful programmer."}),
        json!({"role": "user", "content": "Find the module that opens port 8484, and change the port to 9000."}),
    ];
    for turn in 0..20 {
        // The whole history, every time: the session decides what is sent of it.
        let body = json!({"model": "gpt-5", "messages": messages}).to_string();
        let options = summarized_options(&mut session, &body)?;
        let (sent, note) = match session.compact_with(&body, &options)? {
            Some(smaller) if smaller.is_replay => (smaller.body, "repeats the earlier decisions".to_owned()),
            Some(smaller) => {
                let author = smaller.report.checkpoint.map(|checkpoint| format!(", checkpoint by {:?}", checkpoint.by));
                (smaller.body, format!("is compacted{}", author.unwrap_or_default()))
            }
            None => (body, "is sent as it is".to_owned()),
        };
        println!("request {turn:2} {note}: {} tokens", session.count_tokens(&sent)?);
        messages.extend(ask_agent_model(&sent, turn));
    }
    Ok(())
}

/// Returns options with a model's summary, if the next compaction needs one.
fn summarized_options(session: &mut Session, body: &str) -> Result<Options, Error> {
    let options = Options::new();
    let Some(mut request) = session.request_summary(body, &options)? else { return Ok(options) };
    while let Some(prompt) = request.next_prompt() {
        request.add_reply(ask_summary_model(&prompt));
    }
    Ok(options.summary_by_model(request))
}

/// Stands for the model that writes summaries. Its statements are checked: those that the conversation does not
/// confirm are corrected or removed.
fn ask_summary_model(prompt: &Prompt) -> String {
    println!("  the summary model reads {} bytes and may write {} tokens", prompt.user.len(), prompt.max_reply_tokens);
    "## Active Task\nFind the module that opens port 8484, and change the port to 9000.\n\n\
     ## Completed Actions\n1. RUN grep -rn listen src/module_0 — 40 lines, the first listen(8001, handler)\n"
        .to_owned()
}

/// Stands for the model of the agent and its tool: a search in the next module.
fn ask_agent_model(_request: &str, turn: usize) -> [Value; 2] {
    let arguments = json!({"command": format!("grep -rn listen src/module_{turn}")}).to_string();
    let function = json!({"name": "bash", "arguments": arguments});
    let output: String = (1..=40)
        .map(|line| format!("src/module_{turn}/server.rs:{line}: listen(8{line:03}, handler)\n"))
        .collect::<Vec<_>>()
        .concat();
    let id = format!("call_{turn}");
    [
        json!({"role": "assistant", "content": null, "tool_calls": [{"id": id, "type": "function", "function": function}]}),
        json!({"role": "tool", "tool_call_id": id, "content": output}),
    ]
}
