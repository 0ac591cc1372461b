//! What requests cost.
//!
//! ```text
//! prices.rs     dollars for a million tokens, by model (prices.toml)
//! usage.rs      what a provider reported, in one shape, with what it did not report told from zero
//! session.rs    a body as the requests that led to it; pauses.rs draws how long people and tools took
//! course.rs     what may be done with them
//! replay.rs     a session request by request, through a modelled cache, on one course
//! schedule.rs   whether to compact now, priced
//! ```

mod course;
mod pauses;
mod prices;
mod replay;
mod schedule;
mod session;
mod usage;

pub use course::Course;
pub use pauses::pauses;
pub use prices::{Dollars, LongTariff, Price, Prices, find, stated};
pub use replay::{Compacted, Marks, Replay, Turn, total};
pub use schedule::{Band, Decision, Outlook, Prospect, Terms, Until, Verdict, decide};
pub use session::{Sent, Session};
pub use usage::{Bill, Usage, hit_rate};
