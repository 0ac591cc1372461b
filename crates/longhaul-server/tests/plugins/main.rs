//! What must hold of programs as engines: they are shown no secret, what they propose is replayed, and whatever they do wrong ends in the
//! compressor's result and one line. They are small Python programs, written for one test each.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "all of it is test code, in functions too")]

mod faults;
mod made;
mod working;
