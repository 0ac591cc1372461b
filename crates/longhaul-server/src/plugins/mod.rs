//! Programs as engines: one that lies in `plugins/context_engine/<name>/` proposes what a compaction does, in JSON lines.
//!
//! ```text
//! manifest (plugin.toml) ──▶ Plugin: an Engine ──▶ program: one thread, one call at a time, rests after a crash
//!                                                     └──▶ process: the child, its limits, its pipes ◀──JSON lines──▶ the program
//! ```
//!
//! What it is shown has no secrets, what it proposes is judged by the engine crate's door, and whatever goes wrong ends in the built-in
//! compressor's result and one line that says so. One process serves all sessions; it is started when it is first asked.
//!
//! The clock of its rests, the variables that it may see and the longest that it may take are handed in.

mod engine;
mod manifest;
mod process;
mod program;
mod protocol;

pub use engine::Plugin;
pub use manifest::{FOLDER, Lying, MANIFEST, Manifest, look};
pub use program::World;
pub use protocol::VERSION;
