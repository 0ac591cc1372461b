//! What would be sent of pi's sessions, block by block, against what pi sent when it took them up again.
//!
//! An order names where each block stands in the file. It was made by looking the sent words up in the file, so where the same
//! words stand twice it may name the other place: what is there is compared then.

use std::collections::HashMap;

use longhaul_engine::Dialect;
use longhaul_server::agents::{Asked, Extent, Origin, Piece, Role, Session, Turn};
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
        let asked = Asked { model: Some((*model).to_owned()), ..Asked::default() };
        let file = order["session"].as_str().unwrap();
        let read = |asked: &Asked| support::read(&support::real().join(file), asked).unwrap();
        let sent = read(&asked);
        let whole = read(&Asked { extent: Extent::Whole, ..asked });
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
fn ours(session: &Session) -> Vec<(Message, Vec<String>)> {
    let message = |turn: &Turn| {
        let named: Vec<(String, String)> = turn
            .pieces
            .iter()
            .filter_map(|(piece, at)| Some((named(session, turn, piece, at)?, said(piece))))
            .collect();
        let (names, said): (Vec<String>, Vec<String>) = named.into_iter().unzip();
        ((speaker(session.dialect, turn), names), said)
    };
    session.turns.iter().map(message).filter(|((_, blocks), _)| !blocks.is_empty()).collect()
}

fn named(session: &Session, turn: &Turn, piece: &Piece, at: &Origin) -> Option<String> {
    let place = match at {
        Origin::Line(line) => format!("L{line}"),
        Origin::Item(line, item) => format!("L{line}[{item}]"),
        Origin::Row(row) => format!("row {row}"),
        Origin::Id(id) => id.clone(),
        Origin::Client => return None,
    };
    Some(format!("{place} {}", kind(session.dialect, turn, piece)))
}

fn kind(dialect: Dialect, turn: &Turn, piece: &Piece) -> String {
    let kind = match (dialect, piece) {
        (_, Piece::Wire(wire)) => {
            return serde_json::from_str::<Value>(wire.get()).unwrap()["type"].as_str().unwrap().to_owned();
        }
        (Dialect::Responses, Piece::Text(_)) if turn.role == Role::Assistant => "output_text",
        (Dialect::Responses, Piece::Text(_)) => "input_text",
        (Dialect::Responses, Piece::Call { .. }) => "function_call",
        (Dialect::Responses, Piece::Result { .. }) => "function_call_output",
        (Dialect::Responses, Piece::Thinking { .. }) => "reasoning",
        (Dialect::Messages, Piece::Call { .. }) => "tool_use",
        (Dialect::Messages, Piece::Result { .. }) => "tool_result",
        (Dialect::Chat, Piece::Call { .. }) => "call",
        (Dialect::Chat, Piece::Result { .. }) => "result",
        (_, Piece::Text(_)) => "text",
        (_, Piece::Thinking { .. }) => "thinking",
        (_, Piece::Image { .. }) => "image",
    };
    kind.to_owned()
}

/// In Responses an item that is no message stands for itself.
fn speaker(dialect: Dialect, turn: &Turn) -> String {
    let first = turn.pieces.first().map(|(piece, _)| piece);
    match first {
        Some(piece)
            if dialect == Dialect::Responses && !matches!(piece, Piece::Text(_) | Piece::Image { .. }) =>
        {
            kind(dialect, turn, piece)
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
fn said(piece: &Piece) -> String {
    match piece {
        Piece::Call { name, arguments, .. } => format!("{name} {arguments}"),
        Piece::Result { content, failed, .. } => format!("{content:?} {failed}"),
        other => format!("{other:?}"),
    }
}

fn words_by_place(sessions: &[&Session]) -> HashMap<String, Vec<String>> {
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
    say!(
        "{name}: {} lines left out by both, {both} by the order alone (same words elsewhere)",
        left_out.len() - both
    );
    assert!(both <= 1, "{name}: {both} lines that the agent leaves out are sent");
}
