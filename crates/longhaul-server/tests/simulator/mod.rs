//! A strict simulator of the three providers, on a socket of 127.0.0.1: what they accept, count, keep and refuse, as far as that is
//! known, so that a gateway can be judged without one of them.
//!
//! ```text
//! bytes ──▶ server ──▶ answer ──▶ rules      refused as the provider refuses: rules written here, then the engine's own
//!              │          │
//!              │          ├──▶ prompt         tools, system, messages as blocks with a running hash; tokens.rs counts them
//!              │          ├──▶ thinking       what it signed comes back behind the same prefix, or is refused
//!              │          ├──▶ cache          what is read, written, fresh; and what an unlimited cache would have read
//!              │          └──▶ reply          what the model says, as the provider writes it
//!              └──▶ delivery                  whole events, pieces, late, cut
//! ```
//!
//! It shares nothing with the engine but [`longhaul_engine::check`], which judges after the rules that are written here, and the
//! table of models that tells the check whom it judges for. The clock stands still until a test moves it.

#![allow(dead_code, unused_imports, reason = "each test target uses a part of it")]
#![allow(clippy::unwrap_used, reason = "all of it is test code, in functions too")]

mod answer;
mod cache;
mod content;
mod delivery;
mod prompt;
mod refusal;
mod reply;
mod rules;
mod seen;
mod server;
mod settings;
mod thinking;
mod tokens;

pub(crate) use cache::Keeping;
pub(crate) use delivery::{Delivery, Next, Pieces};
pub(crate) use reply::{Call, Say};
pub(crate) use rules::target;
pub(crate) use seen::{Ended, Seen, Traffic};
pub(crate) use server::Simulator;
pub(crate) use settings::{Binding, Limits, Room, Settings, Speaker, says};
