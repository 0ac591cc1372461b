//! What would be sent, held against what the agents themselves sent when they took these sessions up again.

use std::path::Path;

use longhaul_agents::{AgentSession, ReadOptions};
use longhaul_engine::ApiFormat;
use serde_json::Value;

use crate::support::{self, plain};

tests! {
    always: [],
    real: [every_session_is_sent_as_its_agent_sent_it],
}

/// What differs on purpose: the session, what it is about, and why.
const DIFFERS: &[(&str, &str, &str)] = &[];

/// The models that the clients were asked for, where the order says it in words.
fn asked(client: &str) -> ReadOptions {
    let model = client.rsplit(' ').next().filter(|word| word.contains('-'));
    let model = model.map(|word| word.rsplit('/').next().unwrap_or(word).to_owned());
    ReadOptions { model, ..ReadOptions::default() }
}

fn every_session_is_sent_as_its_agent_sent_it() {
    let folder = support::real();
    let mut wrong = Vec::new();
    let mut seen = 0;
    for entry in std::fs::read_dir(folder.join("orders")).unwrap() {
        let order: Value = serde_json::from_slice(&std::fs::read(entry.unwrap().path()).unwrap()).unwrap();
        let name = order["session"].as_str().unwrap();
        if !SUPPORTED.iter().any(|agent| name.starts_with(agent)) {
            continue;
        }
        seen += 1;
        let session = support::read(&folder.join(name), &asked(order["client"].as_str().unwrap()));
        let session = session.unwrap_or_else(|unread| panic!("{name}: {unread}"));
        let (theirs, ours) = (theirs(&order), ours(&session, &folder.join(name)));
        let first = theirs.iter().zip(&ours).position(|(theirs, ours)| theirs != ours);
        let first = first.or((theirs.len() != ours.len()).then(|| theirs.len().min(ours.len())));
        if let Some(at) = first.filter(|_| !DIFFERS.iter().any(|(differs, ..)| *differs == name)) {
            wrong.push(format!("{name}, message {at}:\n  theirs {:?}\n  ours   {:?}", theirs.get(at), ours.get(at)));
        }
        say!("{name}: {} messages, {} blocks", ours.len(), ours.iter().map(|(_, blocks)| blocks.len()).sum::<usize>());
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(seen > 0);
}

const SUPPORTED: &[&str] = &["claude", "codex"];

type Message = (String, Vec<String>);

/// What was sent, without what the client added. Results of one message have no order of their own.
fn theirs(order: &Value) -> Vec<Message> {
    let block = |block: &Value| {
        let block = block.as_str().unwrap();
        let (from, kind) = block.rsplit_once(' ').unwrap_or((block, ""));
        (!block.starts_with('+')).then(|| format!("{from} {}", plain(kind)))
    };
    let message = |message: &Value| match message {
        Value::String(item) => (String::new(), block(&Value::from(item.as_str())).into_iter().collect()),
        list => {
            let blocks: Vec<String> = list[1].as_array().unwrap().iter().filter_map(block).collect();
            (list[0].as_str().unwrap().to_owned(), sorted(blocks))
        }
    };
    let list = order["messages"].as_array().or_else(|| order["input"].as_array()).unwrap();
    list.iter().map(message).filter(|(_, blocks): &Message| !blocks.is_empty()).collect()
}

fn ours(session: &AgentSession, path: &Path) -> Vec<Message> {
    let attached = attachments(path);
    let from_client = |piece: &str| attached.iter().any(|line| piece.split(' ').next() == Some(line));
    let mut messages: Vec<Message> = Vec::new();
    for turn in &session.messages {
        let mut blocks = support::pieces(session, turn);
        blocks.retain(|block| !from_client(block));
        if blocks.is_empty() {
            continue;
        }
        let role = if session.api_format == ApiFormat::Responses { "" } else { support::role(turn) };
        messages.push((role.to_owned(), sorted(blocks)));
    }
    messages
}

fn sorted(mut blocks: Vec<String>) -> Vec<String> {
    let results = blocks.iter().take_while(|block| block.ends_with(" result")).count();
    blocks[..results].sort();
    blocks
}

/// Lines of Claude Code that the client words itself: the orders have them as additions.
fn attachments(path: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let bytes = std::fs::read(path).unwrap();
    let mut text = String::new();
    if bytes.starts_with(&[0x1f, 0x8b]) {
        std::io::Read::read_to_string(&mut flate2::read::MultiGzDecoder::new(bytes.as_slice()), &mut text).unwrap();
    } else if let Ok(plain) = String::from_utf8(bytes) {
        text = plain;
    }
    for (number, line) in text.lines().enumerate() {
        if serde_json::from_str::<Value>(line).is_ok_and(|record| record["type"] == "attachment") {
            found.push(format!("L{}", number + 1));
        }
    }
    found
}
