//! All that touches the world: files of other programs, databases, models, and the agents that come through the gateway.
//!
//! ```text
//! gateway/   what an agent talks to in the place of its provider: finds the session, makes room, forwards, streams back
//! mcp/       the store as tools for any agent that speaks the Model Context Protocol
//! recall/    what a model can be offered, to reach back to what compactions removed
//! plugins/   programs as engines: their manifests, the lines they speak, their limits
//! session/   one session: when it is compacted, by whom its summaries are written, and what is said about it
//! upstream/  who answers questions: one client for three dialects, and what went wrong by what can be done about it
//! store/     what nothing is lost from: the messages of sessions, and the views that compactions made of them
//! pages/     what people look at: the parts of pages, and one compaction before and after
//! agents/    the sessions that coding agents keep on disk, as the requests that they would send next
//! listen.rs  connections, for the gateway and the MCP server
//! pool.rs    the threads for work that takes processor time
//! ```
//!
//! The engine stays pure: what is read here goes into it as bytes, and what it gives is written by whoever called.

pub mod agents;
pub mod gateway;
mod listen;
pub mod mcp;
pub mod pages;
pub mod plugins;
pub mod pool;
pub mod recall;
pub mod session;
pub mod store;
pub mod upstream;
