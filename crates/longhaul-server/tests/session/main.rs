//! What holds of a session: when it compacts, what it says, how it fails and what it remembers. No clock is read and no socket opened.

mod script;
mod triggers;
mod world;
