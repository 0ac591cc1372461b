//! An agent that never outgrows its window: what is typed goes to a model, with all that was said before; the session makes it smaller
//! when that is due. Any server that speaks Chat Completions will do, such as one on this machine:
//!
//!     cargo run -p longhaul-server --example live_session -- http://127.0.0.1:8080/v1 my-model
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it talks to a person")]

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use longhaul_engine::ApiFormat;
use longhaul_engine::Timestamp;
use longhaul_server::session::{LiveSession, RetryDecision, SessionSettings};
use longhaul_server::upstream::{
    Client, ClientOptions, ModelClient, Provider, ProxyMode, SummaryRequest, SummaryRequestBody, Timeouts, Upstream,
};
use serde_json::json;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), String> {
    let mut typed = std::env::args().skip(1);
    let (Some(address), Some(model)) = (typed.next(), typed.next()) else {
        return Err("type the address of a server and the name of a model".to_owned());
    };
    let provider = Provider::named("compatible").ok_or("there is no such provider")?;
    let upstream = Arc::new(Upstream::new(provider, Some(&address), None)?);
    let (proxies, dice) = (ProxyMode::Environment, Arc::new(|| u32::MAX / 2));
    let client = Client::new(ClientOptions { proxies, connect_timeout: Duration::from_secs(10), random_bits: dice })?;
    let now = || Timestamp::from(SystemTime::now());

    let mut session = LiveSession::new(SessionSettings { model: model.clone(), ..SessionSettings::default() });
    let mut messages = vec![json!({"role": "system", "content": "You are a helpful agent."})];
    for line in std::io::stdin().lines() {
        messages.push(json!({"role": "user", "content": line.map_err(|error| error.to_string())?}));
        let reply = loop {
            let body = json!({"model": model, "messages": messages}).to_string();
            let turn = session.prepare_request(&body, now()).await;
            turn.notices.iter().for_each(|line| eprintln!("· {line}"));
            let asked = SummaryRequestBody::Raw { api_format: ApiFormat::Chat, body: turn.body.into_owned() };
            let (upstream, timeouts) = (Arc::clone(&upstream), Timeouts::with_total(Duration::from_mins(5)));
            let trouble = match client.ask(SummaryRequest::new(upstream, asked, timeouts)).await {
                Ok(reply) => break reply,
                Err(trouble) => trouble,
            };
            match session.record_failure(&trouble, now()).await.0 {
                RetryDecision::Retry | RetryDecision::SendOriginal => {}
                RetryDecision::Wait(delay) => {
                    tokio::time::sleep(delay.unwrap_or(Duration::from_secs(5))).await;
                }
                RetryDecision::GiveUp(why) => return Err(why),
            }
        };
        session.record_reply(&reply.usage.unwrap_or_default()).await;
        println!("{}", reply.text);
        messages.push(json!({"role": "assistant", "content": reply.text}));
    }
    Ok(())
}
