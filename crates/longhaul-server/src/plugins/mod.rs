//! External programs as engines: a program in `plugins/context_engine/<name>/` proposes what a compaction
//! does, over a protocol of JSON lines.
//!
//! ```text
//! manifest (plugin.toml) ──▶ Plugin: an Engine ──▶ supervisor: one thread, one call at a time, pauses after a crash
//!                                                     └──▶ process: the child, its limits, its pipes ◀──JSON lines──▶ the program
//! ```
//!
//! Invariants: the program sees no secrets, the engine crate checks every proposal, and after any
//! failure the built-in compressor runs and one line reports it. One process serves all sessions; it is
//! started at the first call.
//!
//! The caller passes in the clock for the pauses, the environment variables and the maximum time of a call.

mod engine;
mod manifest;
mod process;
mod protocol;
mod supervisor;

pub use engine::Plugin;
pub use manifest::{ENGINE_FOLDER, FoundPlugin, MANIFEST_FILE, Manifest, find_plugins};
pub use protocol::PROTOCOL_VERSION;
pub use supervisor::PluginContext;
