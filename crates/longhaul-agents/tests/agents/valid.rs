//! Every real session is recognised, read, and would be accepted.

use longhaul_agents::{
    Agent, AgentSession, Extent, MessagePart, Origin, ReadOptions, RecordedMessage, Role, recognize_path, request_body,
};
use longhaul_engine::check::{Severity, check};
use longhaul_engine::models;

use crate::support;

tests! {
    always: [],
    real: [every_session_is_recognised_read_and_valid, all_of_a_session_is_valid_too],
}

/// The sessions of the folder: how each is named there, and whose it is.
pub(crate) const SESSIONS: &[(&str, Agent)] = &[
    ("aider_own-0805.chat.history.md", Agent::Aider),
    ("aider_swe-sphinx-8713.chat.history.md", Agent::Aider),
    ("claude_clear-opus4.jsonl", Agent::Claude),
    ("claude_coderabbit/cb2e607c-c758-415a-8b45-c49e4631906a.jsonl.gz", Agent::Claude),
    ("claude_entire-compact.jsonl", Agent::Claude),
    ("claude_posh-preserved.jsonl.gz", Agent::Claude),
    ("claude_rewind-ideas.jsonl", Agent::Claude),
    ("claude_spotter/ae4a77f8-aedd-4bc1-888f-c94edc91af04.jsonl.gz", Agent::Claude),
    ("cline_agentic.compaction.json", Agent::Cline),
    ("cline_fork", Agent::Cline),
    ("codex_agentv-two-compactions.jsonl.gz", Agent::Codex),
    ("codex_old-2025-08.jsonl", Agent::Codex),
    ("codex_vibe-0.39.jsonl", Agent::Codex),
    ("gemini_bridge-c6.json", Agent::Gemini),
    ("gemini_vibe.jsonl", Agent::Gemini),
    ("goose_import-a.db", Agent::Goose),
    ("goose_legacy.jsonl", Agent::Goose),
    ("goose_native-a.db", Agent::Goose),
    ("hermes_cli-91c4ce.json", Agent::Hermes),
    ("hermes_compacted-a.db", Agent::Hermes),
    ("hermes_gateway-a96c96.jsonl", Agent::Hermes),
    ("opencode_bridge-child.json", Agent::Opencode),
    ("opencode_bridge-compaction.db.gz", Agent::Opencode),
    ("opencode_bridge-models.json", Agent::Opencode),
    ("opencode_storage-v2", Agent::Opencode),
    ("openhands_followup-a", Agent::OpenHands),
    ("openhands_v0-63b4", Agent::OpenHands),
    ("pi_before-compaction.jsonl.gz", Agent::Pi),
    ("pi_future-entry.jsonl", Agent::Pi),
    ("pi_raq-models.jsonl", Agent::Pi),
    ("roo_condensed-e73e", Agent::Roo),
];

/// Read, but not valid: its authors put one of each record into it and the same word in place of every id.
const MADE_UP: &str = "codex_all-records.jsonl";

/// That calls go out without definitions of their tools (A10): a session's file mostly does not hold them.
const NOT_IN_THE_FILE: &str = "A10";

/// A list of one record of each kind, whose ids its authors replaced by one text: no session that could be sent.
const NO_SESSION: &str = "codex_all-records.jsonl";

pub(crate) fn session(name: &str, asked: &ReadOptions) -> AgentSession {
    support::read(&support::real().join(name), asked).unwrap_or_else(|unread| panic!("{name}: {unread}"))
}

/// What the receiver of its request would refuse, once the next prompt is there.
fn faults(session: &AgentSession) -> Vec<String> {
    let mut session = session.clone();
    let prompt = (MessagePart::Text("Go on.".to_owned()), Origin::Synthetic);
    session.messages.push(RecordedMessage { role: Role::User, parts: vec![prompt], time: None });
    let target = models::find(session.model.as_deref().unwrap_or_default()).target(session.api_format);
    let found = check(&request_body(&session), session.api_format, &target).into_iter();
    let found = found.filter(|violation| violation.severity == Severity::Error && violation.rule != NOT_IN_THE_FILE);
    found.map(|violation| format!("{} {} {}", violation.rule, violation.at, violation.message)).collect()
}

fn every_session_is_recognised_read_and_valid() {
    assert!(!session(MADE_UP, &ReadOptions::default()).messages.is_empty());
    for (name, agent) in SESSIONS {
        let place = recognize_path(&support::real().join(name)).unwrap();
        assert_eq!(place.map(|place| place.agent), Some(*agent), "{name}");
        let session = session(name, &ReadOptions::default());
        say!(
            "{name}: {} turns as {}, {} requests reported, compacted {} times, unknown {:?}, damage {:?}",
            session.messages.len(),
            session.api_format,
            session.requests.len(),
            session.compactions,
            session.unknown_records,
            session.warnings,
        );
        assert!(!session.messages.is_empty(), "{name}");
        if *name == NO_SESSION {
            continue;
        }
        assert_eq!(faults(&session), Vec::<String>::new(), "{name}");
    }
}

fn all_of_a_session_is_valid_too() {
    for (name, _) in SESSIONS.iter().filter(|(name, _)| *name != NO_SESSION) {
        let whole = session(name, &ReadOptions { extent: Extent::FullHistory, ..ReadOptions::default() });
        assert_eq!(faults(&whole), Vec::<String>::new(), "{name}");
    }
}
