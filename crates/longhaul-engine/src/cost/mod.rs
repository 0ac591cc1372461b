//! What requests cost.
//!
//! ```text
//! session.rs    a body as the requests that led to it; pauses.rs draws how long people and tools took
//! uses.rs       the values and lines of a reply that somebody may have to remember; needs.rs: where they stood before
//! course.rs     what may be done with the requests
//! replay.rs     a session request by request, through a modelled cache, on one course; view.rs: what is sent of it
//! schedule.rs   whether to compact now, priced
//! ```
//!
//! It may use everything; nothing uses it.

mod course;
mod needs;
mod pauses;
mod replay;
mod schedule;
mod session;
mod uses;
mod view;

pub use course::Course;
pub use pauses::pauses;
pub use replay::{Compacted, Fetched, Marks, Replay, Turn, total};
pub use schedule::{
    Band, CacheState, Decision, LastCompaction, Outlook, Prospect, Terms, Until, Verdict, decide,
};
pub use session::{Sent, Session};
