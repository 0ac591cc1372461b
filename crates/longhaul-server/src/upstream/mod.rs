//! The upstream: who answers questions, in any of the three dialects, streaming or not.
//!
//! ```text
//! Question ──ask──▶ body ──send──▶ status, head, pieces ──collect──▶ Reply
//!                     ▲    │                               │
//!                     └─wait, if nothing came yet          └──judge──▶ Trouble ──reaction──▶ compress, wait, another, give up
//! ```
//!
//! - [`Provider`] is a row of `providers.toml`; [`Upstream`] is one with an address and a [`Key`], which is never printed.
//! - [`Models`] is all that a session needs to know: a [`Question`] gets a [`Reply`] or a [`Trouble`]. [`Client`] is who asks over
//!   HTTP. Its [`Client::send`] hands over what comes as it comes, for a gateway.
//! - `wordings.toml` tells what an error means by its words, `delays.toml` how long it asks to wait. Both are tried for everybody,
//!   since routers hand the words of others through.
//! - [`Reading`] has one file a dialect, and takes an answer in pieces of any size. Only an answer that was told to have ended is one.
//!
//! What must hold: no key in anything that is printed, or sent to another host; no second try once anything of an answer came; no
//! wait beyond the caller's [`Patience`]. Time is the runtime's, chance is passed in, and dates are taken against the answer's own.

mod address;
mod ask;
mod client;
mod delay;
mod events;
mod key;
mod patience;
mod provider;
mod question;
mod reading;
mod said;
mod trouble;
mod wire;
mod wording;

pub use address::Upstream;
pub use ask::ask;
pub use client::{Call, Client, Letter, Network, Proxies};
pub(crate) use events::Events;
pub use key::Key;
pub use patience::{Patience, Retries};
pub use provider::{Feature, Provider};
pub use question::{Asked, Finish, Question, Reply, Small, Streaming};
pub use reading::{Progress, Reading, SoFar};
pub use trouble::{Reaction, Stage, Trouble};
pub use wire::{Pieces, Response};

/// Those who can be asked. The client is one; a test brings a script, and needs no socket for it.
#[async_trait::async_trait]
pub trait Models: Send + Sync {
    /// The answer to one question. It takes no longer than the question's patience.
    async fn answer(&self, question: Question) -> Result<Reply, Trouble>;
}
