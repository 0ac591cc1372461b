//! The part of Longhaul that uses files, the network, databases and models. The engine crate stays pure: this
//! crate hands it bytes, and writes what it returns.
//!
//! ```text
//! gateway/   the HTTP server between an agent and its provider: finds the session, compacts, forwards, streams the reply back
//! mcp/       the store as tools for any agent that supports the Model Context Protocol
//! recall/    the tools with which a model reads what compactions removed
//! plugins/   external programs as engines: their manifests, their protocol, their limits
//! session/   one session: when it is compacted, who writes its summaries, and what is reported about it
//! upstream/  the client for model providers: one client for three API formats, and errors sorted by what can be done about them
//! store/     the messages of all sessions, and the compactions of these sessions
//! pages/     HTML for people: parts of pages, and one compaction before and after
//! listen.rs  connections, for the gateway and the MCP server
//! daily_budget.rs  the money that Longhaul may spend on its own requests in a day
//! pool.rs    the threads for work that needs the processor
//! ```

mod daily_budget;
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

pub use daily_budget::DailyBudget;
