//! The recall loop: the gateway offers recall tools to a model and answers their calls. The client sees none
//! of it.
//!
//! ```text
//! client ──request──▶ inject: offer the tools, restore earlier hidden turns ──▶ upstream
//!   ▲                                                                              │
//!   └── stream_filter: all but recall calls ◀──────────────── reply ◀──────────────┤
//!                     └── recall calls ──▶ answered from the store ──▶ longer body ┘   (run: within limits)
//! ```
//!
//! A client never sees a call of a tool that it did not offer. It sends back only the visible part of a
//! reply. The gateway then puts the hidden tool turn back in its place, so that the model keeps what it
//! fetched and the provider's cache still matches. This is repeated with every request until the turn is
//! summarized. A compaction keeps only the newest hidden turn.
//!
//! The store keeps hidden turns for a restarted gateway, except those with a secret: thinking is signed and
//! must come back byte for byte, so it cannot be redacted. If a hidden turn is lost, the client's history is
//! still valid without it.
//!
//! If a reply calls recall tools and the client's tools together, the client sees it without the recall
//! calls. Their results are added beside the client's results in the next request.

mod chat;
mod inject;
mod messages;
mod persistence;
mod responses;
mod run;
mod stream_filter;

pub(super) use inject::{HiddenToolTurns, MIN_WINDOW, can_offer_tools, inject_tools_and_turns, tool_definition_tokens};
pub(super) use run::{RecallLoop, RecallLoopRequest, RecallLoopResult};
