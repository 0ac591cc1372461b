//! Turns before they are final: calls and results that lost one another, neighbours that become one message, and which
//! reported request each reply came from, which has to survive both.

use std::collections::BTreeSet;

use longhaul_engine::Dialect;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{Origin, Piece, Reported, Role, Turn};

/// What an agent does with a call that nothing came back for. A result without a call goes in any case: no provider takes it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Unanswered {
    /// It is left out.
    Dropped,
    /// It gets a result that says so, in these words.
    Stubbed(&'static str),
}

/// Turns in the order in which they are sent, with the requests that they answer.
#[derive(Debug, Default)]
pub(super) struct Drafts(Vec<Draft>);

#[derive(Debug)]
struct Draft {
    turn: Turn,
    /// Numbers of reported requests whose replies begin here.
    answers: Vec<usize>,
}

impl Drafts {
    /// Adds a turn, and the number of the reported request that it is the reply to. A turn that says nothing is none.
    pub(super) fn push(&mut self, turn: Turn, answers: Option<usize>) {
        if !turn.pieces.is_empty() {
            self.0.push(Draft { turn, answers: answers.into_iter().collect() });
        }
    }

    /// Leaves out results without a call before them, and deals with calls without a result behind them. Of several results of
    /// one call the first counts.
    pub(super) fn pair(&mut self, unanswered: Unanswered) {
        let mut open = BTreeSet::new();
        let mut answered = BTreeSet::new();
        for draft in &mut self.0 {
            draft.turn.pieces.retain(|(piece, _)| match piece {
                Piece::Call { id, .. } => {
                    open.insert(id.clone());
                    true
                }
                Piece::Result { id, .. } => open.remove(id) && answered.insert(id.clone()),
                _ => true,
            });
        }
        match unanswered {
            Unanswered::Dropped => self.drop_calls(&open),
            Unanswered::Stubbed(words) => self.stub(&open, words),
        }
        self.0.retain(|draft| !draft.turn.pieces.is_empty());
    }

    fn drop_calls(&mut self, open: &BTreeSet<String>) {
        for draft in &mut self.0 {
            let dropped = |piece: &Piece| matches!(piece, Piece::Call { id, .. } if open.contains(id));
            draft.turn.pieces.retain(|(piece, _)| !dropped(piece));
        }
    }

    fn stub(&mut self, open: &BTreeSet<String>, words: &str) {
        let drafts = std::mem::take(&mut self.0);
        for draft in drafts {
            let lost: Vec<String> =
                draft.turn.pieces.iter().filter_map(|(piece, _)| lost(piece, open)).collect();
            let at = draft.turn.at;
            self.0.push(draft);
            for id in lost {
                let content = vec![Piece::Text(words.to_owned())];
                let pieces = vec![(Piece::Result { id, content, failed: true }, Origin::Client)];
                self.0.push(Draft { turn: Turn { role: Role::Tool, pieces, at }, answers: Vec::new() });
            }
        }
    }

    /// Makes one turn of neighbours with the same speaker. Results stay apart: in Chat each is a message.
    pub(super) fn merge(&mut self) {
        let drafts = std::mem::take(&mut self.0);
        for mut draft in drafts {
            match self.0.last_mut() {
                Some(last) if last.turn.role == draft.turn.role && draft.turn.role != Role::Tool => {
                    last.turn.pieces.append(&mut draft.turn.pieces);
                    last.answers.append(&mut draft.answers);
                }
                _ => self.0.push(draft),
            }
        }
    }

    /// Leaves out replies that nobody asked for.
    pub(super) fn begin_with_user(&mut self) {
        let asked =
            self.0.iter().position(|draft| draft.turn.role != Role::Assistant).unwrap_or(self.0.len());
        self.0.drain(..asked);
    }

    /// The turns as a dialect wants them; the requests learn where their replies are. A reply of nothing but thoughts is no
    /// message.
    pub(super) fn settle(mut self, dialect: Dialect, requests: &mut [Reported]) -> Vec<Turn> {
        if dialect == Dialect::Messages {
            for draft in &mut self.0 {
                if draft.turn.role == Role::Tool {
                    draft.turn.role = Role::User;
                }
            }
            self.merge();
        }
        let is_thought = |(piece, _): &(Piece, Origin)| matches!(piece, Piece::Thinking { .. });
        self.0.retain(|draft| !draft.turn.pieces.iter().all(is_thought));
        let mut turns = Vec::with_capacity(self.0.len());
        for Draft { turn, answers } in self.0 {
            for number in answers {
                if let Some(request) = requests.get_mut(number) {
                    request.reply = Some(turns.len());
                }
            }
            turns.push(turn);
        }
        turns
    }
}

fn lost(piece: &Piece, open: &BTreeSet<String>) -> Option<String> {
    match piece {
        Piece::Call { id, .. } => open.get(id).cloned(),
        _ => None,
    }
}

/// The pieces of a content in Chat form: a text, or a list of parts. What is no part that we know stays as it is.
pub(super) fn parts(content: &Value, dialect: Dialect) -> Vec<Piece> {
    match content {
        Value::String(text) => words(text).into_iter().collect(),
        Value::Array(list) => list.iter().filter_map(|part| part_of(part, dialect)).collect(),
        _ => Vec::new(),
    }
}

fn part_of(part: &Value, dialect: Dialect) -> Option<Piece> {
    match part["type"].as_str() {
        Some("text") => words(part["text"].as_str()?),
        Some("image_url") => {
            picture(part["image_url"]["url"].as_str().or(part["image_url"].as_str())?, dialect)
        }
        _ => wire(part),
    }
}

/// A text that says something; providers refuse empty ones.
pub(super) fn words(text: &str) -> Option<Piece> {
    (!text.is_empty()).then(|| Piece::Text(text.to_owned()))
}

/// A picture by its URL: one that holds it, or one that names it.
pub(super) fn picture(url: &str, dialect: Dialect) -> Option<Piece> {
    if let Some((media, data)) = data_url(url) {
        return Some(Piece::Image { media: media.to_owned(), data: data.to_owned() });
    }
    if !url.starts_with("http://") && !url.starts_with("https://") {
        return None;
    }
    wire(&match dialect {
        Dialect::Messages => json!({"type": "image", "source": {"type": "url", "url": url}}),
        Dialect::Chat => json!({"type": "image_url", "image_url": {"url": url}}),
        Dialect::Responses => json!({"type": "input_image", "image_url": url}),
    })
}

/// The media type and the base64 text of a URL that holds its content.
pub(super) fn data_url(url: &str) -> Option<(&str, &str)> {
    let (head, data) = url.strip_prefix("data:")?.split_once(',')?;
    let media = head.strip_suffix(";base64")?;
    (!data.is_empty()).then_some((media, data))
}

/// What is in the dialect's form already.
pub(super) fn wire(value: &Value) -> Option<Piece> {
    RawValue::from_string(value.to_string()).ok().map(Piece::Wire)
}

/// The calls of a reply in Chat form. Their arguments are the text that went over the wire.
pub(super) fn calls(list: &Value) -> Vec<Piece> {
    let call = |call: &Value| {
        let function = &call["function"];
        let id = call["id"].as_str().or(call["call_id"].as_str())?.to_owned();
        let name = function["name"].as_str()?.to_owned();
        let arguments = match &function["arguments"] {
            Value::Null => json!({}),
            Value::String(text) if text.trim().is_empty() => json!({}),
            other => other.clone(),
        };
        Some(Piece::Call { id, name, arguments })
    };
    list.as_array().map(|list| list.iter().filter_map(call).collect()).unwrap_or_default()
}
