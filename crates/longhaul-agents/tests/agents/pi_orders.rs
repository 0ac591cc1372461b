//! What would be sent of pi's sessions, block by block, against what pi sent when it took them up again.
//!
//! An order names where each block stands in the file. It was made by looking the sent words up in the file, so where the same
//! words stand twice it may name the other place: what is there is compared then.

use std::collections::HashMap;

use longhaul_agents::{AgentSession, Extent, MessagePart, Origin, ReadOptions, RecordedMessage, Role};
use longhaul_engine::ApiFormat;
use serde_json::Value;

use crate::support;

tests! {
    always: [],
    real: [what_is_sent_agrees_with_the_agents_order],
}

/// The orders that are held against, and the model that the agent was told to ask.
const ORDERS: &[(&str, &str)] =
    &[("pi_before-compaction", "anthropic/claude-opus-4-5"), ("pi_raq-models", "openai/gpt-5.4")];

/// What an empty text says.
const EMPTY: &str = r#"Text("")"#;

/// A message: who speaks, and its blocks.
type Message = (String, Vec<String>);

fn what_is_sent_agrees_with_the_agents_order() {
    for (name, model) in ORDERS {
        let path = support::real().join("orders").join(format!("{name}.order.json"));
        let order: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let asked = ReadOptions { model: Some((*model).to_owned()), ..ReadOptions::default() };
        let file = order["session"].as_str().unwrap();
        let read = |asked: &ReadOptions| support::read(&support::real().join(file), asked).unwrap();
        let sent = read(&asked);
        let whole = read(&ReadOptions { extent: Extent::FullHistory, ..asked });
        let words = words_by_place(&[&sent, &whole]);
        let (theirs, ours) = (ordered(&order), ours(&sent));
        for (at, (theirs, (ours, said))) in theirs.iter().zip(&ours).enumerate() {
            assert_eq!(theirs.0, ours.0, "{name}: message {at}, {theirs:?} against {ours:?}");
            assert_eq!(theirs.1.len(), ours.1.len(), "{name}: message {at}, {theirs:?} against {ours:?}");
            for ((place, own), said) in theirs.1.iter().zip(&ours.1).zip(said) {
                let elsewhere = || words.get(place).is_some_and(|there| there.contains(said));
                // Where an empty text stands, nobody can tell.
                let same = place == own || said == EMPTY || elsewhere();
                assert!(same, "{name}: message {at}: {place} is sent, and not {own}");
            }
        }
        assert_eq!(theirs.len(), ours.len(), "{name}: messages");
        let blocks: usize = ours.iter().map(|((_, blocks), _)| blocks.len()).sum();
        say!("{name}: all {} messages agree, {blocks} blocks", ours.len());
        none_is_left_out(name, &order, &ours);
    }
}

/// The messages that an order lists, without what the client added.
fn ordered(order: &Value) -> Vec<Message> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let message = |message: &Value| {
        let blocks = message[1].as_array().unwrap().iter().map(text).filter(|block| !block.starts_with('+'));
        (text(&message[0]), blocks.collect::<Vec<_>>())
    };
    let messages = order["messages"].as_array().unwrap().iter().map(message);
    messages.filter(|(_, blocks)| !blocks.is_empty()).collect()
}

/// Ours, each with what its blocks say.
fn ours(session: &AgentSession) -> Vec<(Message, Vec<String>)> {
    let message = |turn: &RecordedMessage| {
        let named: Vec<(String, String)> =
            turn.parts.iter().filter_map(|(piece, at)| Some((named(session, turn, piece, at)?, said(piece)))).collect();
        let (names, said): (Vec<String>, Vec<String>) = named.into_iter().unzip();
        ((speaker(session.api_format, turn), names), said)
    };
    session.messages.iter().map(message).filter(|((_, blocks), _)| !blocks.is_empty()).collect()
}

fn named(session: &AgentSession, turn: &RecordedMessage, piece: &MessagePart, at: &Origin) -> Option<String> {
    let place = match at {
        Origin::Line(line) => format!("L{line}"),
        Origin::ListItem(line, item) => format!("L{line}[{item}]"),
        Origin::Row(row) => format!("row {row}"),
        Origin::Id(id) => id.clone(),
        Origin::Synthetic => return None,
    };
    Some(format!("{place} {}", kind(session.api_format, turn, piece)))
}

fn kind(api_format: ApiFormat, turn: &RecordedMessage, piece: &MessagePart) -> String {
    let kind = match (api_format, piece) {
        (_, MessagePart::Raw(wire)) => {
            return serde_json::from_str::<Value>(wire.get()).unwrap()["type"].as_str().unwrap().to_owned();
        }
        (ApiFormat::Responses, MessagePart::Text(_)) if turn.role == Role::Assistant => "output_text",
        (ApiFormat::Responses, MessagePart::Text(_)) => "input_text",
        (ApiFormat::Responses, MessagePart::ToolCall { .. }) => "function_call",
        (ApiFormat::Responses, MessagePart::ToolResult { .. }) => "function_call_output",
        (ApiFormat::Responses, MessagePart::Thinking { .. }) => "reasoning",
        (ApiFormat::Messages, MessagePart::ToolCall { .. }) => "tool_use",
        (ApiFormat::Messages, MessagePart::ToolResult { .. }) => "tool_result",
        (ApiFormat::Chat, MessagePart::ToolCall { .. }) => "call",
        (ApiFormat::Chat, MessagePart::ToolResult { .. }) => "result",
        (_, MessagePart::Text(_)) => "text",
        (_, MessagePart::Thinking { .. }) => "thinking",
        (_, MessagePart::Image { .. }) => "image",
    };
    kind.to_owned()
}

/// In Responses an item that is no message stands for itself.
fn speaker(api_format: ApiFormat, turn: &RecordedMessage) -> String {
    let first = turn.parts.first().map(|(piece, _)| piece);
    match first {
        Some(piece)
            if api_format == ApiFormat::Responses
                && !matches!(piece, MessagePart::Text(_) | MessagePart::Image { .. }) =>
        {
            kind(api_format, turn, piece)
        }
        _ => match turn.role {
            Role::System => "system".to_owned(),
            Role::Developer => "developer".to_owned(),
            Role::User => "user".to_owned(),
            Role::Assistant => "assistant".to_owned(),
            Role::Tool => "tool".to_owned(),
        },
    }
}

/// What a block says, whoever it belongs to: ids of calls differ where words are the same.
fn said(piece: &MessagePart) -> String {
    match piece {
        MessagePart::ToolCall { name, arguments, .. } => format!("{name} {arguments}"),
        MessagePart::ToolResult { content, failed, .. } => format!("{content:?} {failed}"),
        other => format!("{other:?}"),
    }
}

fn words_by_place(sessions: &[&AgentSession]) -> HashMap<String, Vec<String>> {
    let mut words: HashMap<String, Vec<String>> = HashMap::new();
    for session in sessions {
        for ((_, names), said) in ours(session) {
            for (name, said) in names.into_iter().zip(said) {
                words.entry(name).or_default().push(said);
            }
        }
    }
    words
}

/// No line that the agent left out is among ours, unless its words are somebody else's too.
fn none_is_left_out(name: &str, order: &Value, ours: &[(Message, Vec<String>)]) {
    let left_out = order["left_out"].as_array().unwrap();
    let ours: Vec<&str> =
        ours.iter().flat_map(|((_, blocks), _)| blocks).filter_map(|block| block.split(' ').next()).collect();
    let both = left_out.iter().filter_map(Value::as_str).filter(|line| ours.contains(line)).count();
    say!("{name}: {} lines left out by both, {both} by the order alone (same words elsewhere)", left_out.len() - both);
    assert!(both <= 1, "{name}: {both} lines that the agent leaves out are sent");
}
