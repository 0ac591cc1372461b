//! What requests cost.
//!
//! ```text
//! session.rs    a body as the requests that led to it; pauses.rs draws how long people and tools took
//! course.rs     what may be done with them
//! replay.rs     a session request by request, through a modelled cache, on one course
//! schedule.rs   whether to compact now, priced
//! ```
//!
//! It may use everything; nothing uses it.

mod course;
mod pauses;
mod replay;
mod schedule;
mod session;

pub use course::Course;
pub use pauses::pauses;
pub use replay::{Compacted, Marks, Replay, Turn, total};
pub use schedule::{Band, Decision, Outlook, Prospect, Terms, Until, Verdict, decide};
pub use session::{Sent, Session};
