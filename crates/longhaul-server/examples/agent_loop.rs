//! An agent that never outgrows its window: what is typed goes to a model, with all that was said before; the session makes it smaller
//! when that is due. Any server that speaks the Chat dialect will do, such as one on this machine:
//!
//!     cargo run -p longhaul-server --example agent_loop -- http://127.0.0.1:8080/v1 my-model
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it talks to a person")]

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use longhaul_engine::Dialect;
use longhaul_server::agents::Moment;
use longhaul_server::session::{Reaction, Session, Settings};
use longhaul_server::upstream::{
    Asked, Client, Models, Network, Patience, Provider, Proxies, Question, Upstream,
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
    let (proxies, dice) = (Proxies::Environment, Arc::new(|| u32::MAX / 2));
    let client = Client::new(Network { proxies, connect: Duration::from_secs(10), dice })?;
    let now = || Moment::of_system(SystemTime::now());

    let mut session = Session::new(Settings { model: model.clone(), ..Settings::default() });
    let mut messages = vec![json!({"role": "system", "content": "You are a helpful agent."})];
    for line in std::io::stdin().lines() {
        messages.push(json!({"role": "user", "content": line.map_err(|error| error.to_string())?}));
        let reply = loop {
            let body = json!({"model": model, "messages": messages}).to_string();
            let turn = session.before(&body, now()).await;
            turn.said.iter().for_each(|line| eprintln!("· {line}"));
            let asked = Asked::Body { dialect: Dialect::Chat, body: turn.body.into_owned() };
            let (upstream, patience) = (Arc::clone(&upstream), Patience::of(Duration::from_mins(5)));
            let trouble = match client.answer(Question { upstream, asked, patience }).await {
                Ok(reply) => break reply,
                Err(trouble) => trouble,
            };
            match session.failed(&trouble, now()).await.0 {
                Reaction::Retry | Reaction::SendOriginal => {}
                Reaction::Wait(delay) => tokio::time::sleep(delay.unwrap_or(Duration::from_secs(5))).await,
                Reaction::GiveUp(why) => return Err(why),
            }
        };
        session.after(&reply.usage.unwrap_or_default()).await;
        println!("{}", reply.text);
        messages.push(json!({"role": "assistant", "content": reply.text}));
    }
    Ok(())
}
