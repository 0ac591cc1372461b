//! Compacts a request, and then the longer request that follows it.
//!
//!     cargo run -p longhaul-engine --example compact
#![allow(clippy::print_stdout, reason = "it talks to a person")]

use longhaul_engine::{Session, Tokens};
use serde_json::{Value, json};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The conversation so far: an agent that builds and tests a program.
    let mut request: Value = serde_json::from_str(include_str!("../../../examples/session.json"))?;
    let body = request.to_string();

    // A small window, so that this short conversation fills it. `Session::new("gpt-5")` alone knows the real one.
    let mut session = Session::new("gpt-5").with_context_length(Tokens(8_000)).with_protected_last(6);
    let Some(first) = session.compact(&body)? else {
        println!("{} tokens are small enough", session.count_tokens(&body)?);
        return Ok(());
    };
    let tokens = &first.report.tokens;
    println!("{} tokens became {}: {}", tokens.before, tokens.after, first.report.reason);
    for block in &first.report.blocks {
        let (tool, [before, after]) = (block.tool.as_deref().unwrap_or("-"), block.tokens);
        println!("  message {:2} {tool:6} {before} to {after} tokens: {}", block.at, block.why);
    }
    println!("violations of the provider's rules: {:?}", session.check(&first.body)?);

    // Your own history stays complete. When it grows, the session repeats its decisions byte for byte.
    let messages = request["messages"].as_array_mut().ok_or("the request has messages")?;
    messages.push(json!({"role": "assistant", "content": "The tests pass."}));
    messages.push(json!({"role": "user", "content": "Now write the release notes."}));
    if let Some(next) = session.compact(&request.to_string())? {
        let same = first.body.bytes().zip(next.body.bytes()).take_while(|(old, new)| old == new).count();
        println!("the next request begins with {same} of the {} bytes of this one", first.body.len());
    }
    Ok(())
}
