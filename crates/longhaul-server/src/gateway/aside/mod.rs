//! What a model and the gateway say to each other aside from the client: calls of the recall tools, and what they are answered with.
//!
//! ```text
//! client ──request──▶ dress: the tools offered, earlier asides put back where they were ──▶ upstream
//!   ▲                                                                                         │
//!   └── sieve: all but our calls ◀──────────────────────────────── reply ◀────────────────────┤
//!                     └── our calls ──▶ answered from the store ──▶ the same body, longer ────┘   (talk: within a bound)
//! ```
//!
//! The client never sees a call of a tool that it did not offer. What it has of a reply is sent back by it with the next request, and
//! there the aside stands again in its place, so that the model still has what it fetched, and the provider's cache the prefix it knows:
//! what was sent once is sent again until it is folded. The store has it, too, for a gateway that was restarted, but for what holds a
//! secret: thinking is signed, and must come back byte for byte. Where it is lost, what the client has is a valid history without it. A compaction leaves the newest alone: what is older makes room like all else.
//!
//! A reply that calls our tools and the client's together is shown without our calls; they are answered beside the client's results,
//! when those come.

mod chat;
mod dress;
mod kept;
mod messages;
mod responses;
mod sieve;
mod talk;

pub(super) use dress::{Asides, SMALLEST_WINDOW, dressed, offers, tools_tokens};
pub(super) use talk::{Asked, Spent, Talk};
