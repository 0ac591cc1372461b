//! The upstream's client against an upstream that does what it is told.

#![allow(clippy::unwrap_used, reason = "all of it is test code, in functions too")]

mod failures;
mod keys;
mod replies;
mod retries;
#[path = "../scripted/mod.rs"]
mod scripted;
mod streams;

use std::sync::Arc;
use std::time::Duration;

use longhaul_engine::redact::Redacted;
use longhaul_engine::{Dialect, Tokens};
use longhaul_server::upstream::{
    Asked, Client, Key, Models as _, Network, Patience, Provider, Proxies, Question, Reply, Retries, Small,
    Streaming, Trouble, Upstream, ask,
};
use scripted::{Act, Server};

/// No redactor knows this key by its shape.
const KEY: &str = "a-key-that-looks-like-any-word";

fn client() -> Client {
    client_that_connects_in(Duration::from_secs(5))
}

fn client_that_connects_in(connect: Duration) -> Client {
    Client::new(Network { proxies: Proxies::None, connect, dice: Arc::new(|| 0) }).unwrap()
}

fn upstream(provider: &str, base_url: &str) -> Upstream {
    Upstream::new(Provider::named(provider).unwrap(), Some(base_url), Key::new(KEY)).unwrap()
}

fn small(streaming: Streaming) -> Small {
    Small {
        model: "scripted".into(),
        system: Redacted::own("be brief"),
        user: Redacted::own("what is new?"),
        max_tokens: Tokens(100),
        streaming,
    }
}

/// One try, and time enough.
fn once() -> Patience {
    Patience { retries: Retries::NONE, ..Patience::of(Duration::from_secs(20)) }
}

/// A question in a dialect, to a host that takes all of them.
fn question(base_url: &str, dialect: Dialect, streaming: Streaming, patience: Patience) -> Question {
    let upstream = Arc::new(upstream("compatible", base_url));
    let body = ask(upstream.provider(), dialect, &small(streaming));
    Question { upstream, asked: Asked::Body { dialect, body }, patience }
}

/// Every dialect, whole and as events.
fn ways() -> impl Iterator<Item = (Dialect, Streaming)> {
    Dialect::ALL.into_iter().flat_map(|dialect| [(dialect, Streaming::Whole), (dialect, Streaming::Events)])
}

/// What comes of one act, in one way to ask.
async fn outcome(
    act: Act,
    (dialect, streaming): (Dialect, Streaming),
    patience: Patience,
) -> Result<Reply, Trouble> {
    let server = Server::start([act]).await;
    let given = client().answer(question(&server.base_url(), dialect, streaming, patience)).await;
    assert_eq!(server.asked().len(), 1, "one try");
    given
}
