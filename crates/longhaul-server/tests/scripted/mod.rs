//! An upstream that does what a test tells it: it speaks the three dialects, whole and as events, and fails in every way.
//!
//! - [`Server`] is one on a socket of 127.0.0.1, for tests in real time. It takes a queue of [`Act`]s, does one a request, and keeps
//!   what it was asked.
//! - [`Script`] is one without a socket, for tests with a stopped clock: real sockets and stopped clocks do not go together.
//! - [`Speech`] is what a model says; [`speech`] writes it as each dialect does. [`TOO_LONG`] are the ways to say that the input is.

#![allow(dead_code, unused_imports, reason = "each test target uses a part of it")]

mod act;
mod script;
mod server;
pub(crate) mod speech;
mod too_long;

pub(crate) use act::{Act, Done};
pub(crate) use script::{Line, Script};
pub(crate) use server::{Asked, Server};
pub(crate) use speech::{Ending, Speech};
pub(crate) use too_long::{TOO_LONG, TooLong};
