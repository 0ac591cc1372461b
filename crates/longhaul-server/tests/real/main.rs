//! Sessions that agents really wrote. They are no part of the repository: `LONGHAUL_SHARED` names the folder that has them, and
//! without it these tests are reported as ignored.
//!
//!     LONGHAUL_SHARED=… cargo test -p longhaul-server --test real -- --nocapture
//!
//! prints what `bench/sessions/README.md` records.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "all of it is test code, in functions too")]

mod growth;
mod orders;

use std::path::{Path, PathBuf};

use libtest_mimic::{Arguments, Trial};
use longhaul_engine::check::{Severity, check};
use longhaul_engine::models;
use longhaul_server::agents::{
    Agent, Asked, Extent, Origin, Piece, Place, Role, Session, Turn, body, read, recognise,
};

/// Prints a figure where it is asked for.
macro_rules! say {
    ($($what:tt)*) => {
        if std::env::args().any(|argument| argument == "--nocapture") {
            println!($($what)*);
        }
    };
}
pub(crate) use say;

/// Every session of the folder: how it is named there, and whose it is.
pub(crate) const SESSIONS: &[(&str, Agent)] = &[
    ("aider_own-0805.chat.history.md", Agent::Aider),
    ("aider_swe-sphinx-8713.chat.history.md", Agent::Aider),
    ("cline_agentic.compaction.json", Agent::Cline),
    ("cline_fork", Agent::Cline),
    ("gemini_bridge-c6.json", Agent::Gemini),
    ("gemini_vibe.jsonl", Agent::Gemini),
    ("pi_before-compaction.jsonl.gz", Agent::Pi),
    ("pi_future-entry.jsonl", Agent::Pi),
    ("pi_raq-models.jsonl", Agent::Pi),
    ("roo_condensed-e73e", Agent::Roo),
];

fn main() {
    let tests: &[(&str, fn())] = &[
        ("every_session_is_recognised_read_and_valid", every_session_is_recognised_read_and_valid),
        ("all_of_a_session_is_valid_too", all_of_a_session_is_valid_too),
        ("what_is_sent_agrees_with_the_agents_order", orders::what_is_sent_agrees_with_the_agents_order),
        ("growth_agrees_with_recorded_usage", growth::growth_agrees_with_recorded_usage),
    ];
    let is_there = std::env::var_os("LONGHAUL_SHARED").is_some();
    let trial = |&(name, run): &(&str, fn())| {
        let run = move || {
            run();
            Ok(())
        };
        Trial::test(name, run).with_ignored_flag(!is_there)
    };
    libtest_mimic::run(&Arguments::from_args(), tests.iter().map(trial).collect()).exit();
}

pub(crate) fn folder() -> PathBuf {
    Path::new(&std::env::var_os("LONGHAUL_SHARED").unwrap()).join("sessions")
}

pub(crate) fn place(name: &str) -> Place {
    recognise(&folder().join(name)).unwrap().unwrap_or_else(|| panic!("{name} is not recognised"))
}

pub(crate) fn session(name: &str, asked: &Asked) -> Session {
    read(&place(name), asked).unwrap_or_else(|unread| panic!("{name}: {unread}"))
}

/// That calls go out without definitions of their tools (A10): a session's file does not hold them.
const NOT_IN_THE_FILE: &str = "A10";

/// What the receiver of its request would refuse, once the next prompt is there.
fn faults(session: &Session) -> Vec<String> {
    let mut session = session.clone();
    let prompt = (Piece::Text("Go on.".to_owned()), Origin::Client);
    session.turns.push(Turn { role: Role::User, pieces: vec![prompt], at: None });
    let target = models::find(session.model.as_deref().unwrap_or_default()).target(session.dialect);
    let found = check(&body(&session), session.dialect, &target);
    let found = found
        .into_iter()
        .filter(|violation| violation.severity == Severity::Error && violation.rule != NOT_IN_THE_FILE);
    found.map(|violation| format!("{} {} {}", violation.rule, violation.at, violation.message)).collect()
}

fn every_session_is_recognised_read_and_valid() {
    for (name, agent) in SESSIONS {
        assert_eq!(place(name).agent, *agent, "{name}");
        let session = session(name, &Asked::default());
        say!(
            "{name}: {} turns, {} requests, {} compactions, {:?}, model {:?}, unknown {:?}, damage {:?}",
            session.turns.len(),
            session.requests.len(),
            session.compactions,
            session.dialect,
            session.model,
            session.unknown,
            session.damage,
        );
        assert!(!session.turns.is_empty(), "{name}");
        assert_eq!(faults(&session), Vec::<String>::new(), "{name}");
    }
}

fn all_of_a_session_is_valid_too() {
    for (name, _) in SESSIONS {
        let asked = Asked { extent: Extent::Whole, ..Asked::default() };
        let whole = session(name, &asked);
        assert!(
            whole.turns.len() >= session(name, &Asked::default()).turns.len() || whole.compactions > 0,
            "{name}"
        );
        assert_eq!(faults(&whole), Vec::<String>::new(), "{name}");
    }
}
