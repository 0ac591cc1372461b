//! Forms of a request with its answer: the sentence of each that tells most, then one sentence more in each form.

use std::rc::Rc;

use super::{CandidateText, FormWriter, WordedCandidate};
use crate::checkpoint::Section;
use crate::checkpoint::candidates::{DraftCandidate, ExchangePart};
use crate::checkpoint::excerpt::{RankedPieces, TextValue};
use crate::checkpoint::exchanges::{Exchange, RequestStatus};
use crate::checkpoint::rarity::WordRarity;
use crate::checkpoint::weights::{
    AGENT_CUE_FACTOR, EXCHANGE_FRAME_TOKENS, ITEM_MARKER_TOKENS, MAX_ASKED_BACK_CHARS, MAX_SETTLED_REQUEST_BYTES,
    MAX_TITLE_CHARS, MIN_ASKED_BACK_DENSITY, USER_CUE_FACTOR,
};
use crate::evidence::{EvidenceItem, last_sentence, score_sentence, score_user_text, title_line};
use crate::redact::Redacted;
use crate::texts::{ActionEntry, EntryKind};
use crate::tokens::budget::PricedForm;
use crate::tokens::estimate;

/// A request with its answer, in pieces.
#[derive(PartialEq)]
pub(in crate::checkpoint) struct ExchangeText {
    kind: EntryKind,
    /// The beginning of the request, if only the answer is told.
    target: Redacted,
    /// The question of the assistant that the request answers.
    asked_back: Option<Redacted>,
    request: Option<Side>,
    answer: Option<Side>,
    /// The pieces in the order in which the forms add them.
    order: Vec<(SideName, usize)>,
    status: RequestStatus,
}

/// One of the two texts.
#[derive(PartialEq)]
struct Side {
    pieces: RankedPieces,
    recall_id: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SideName {
    Request,
    Answer,
}

impl ExchangeText {
    fn side(&self, name: SideName) -> Option<&Side> {
        match name {
            SideName::Request => self.request.as_ref(),
            SideName::Answer => self.answer.as_ref(),
        }
    }

    /// Returns the entry with the first `count` pieces, each text in its own order.
    pub(super) fn entry(&self, count: usize) -> ActionEntry {
        let mut text = Redacted::literal("");
        let mut recall_id = None;
        for name in [SideName::Request, SideName::Answer] {
            let Some(side) = self.side(name) else { continue };
            let chosen: Vec<usize> =
                self.order[..count].iter().filter(|(of, _)| *of == name).map(|(_, piece)| *piece).collect();
            if chosen.is_empty() {
                continue;
            }
            if chosen.len() < side.pieces.len() && recall_id.is_none() {
                recall_id.clone_from(&side.recall_id);
            }
            let words = side.pieces.excerpt(&chosen).without_blank_lines();
            text = match name {
                SideName::Request => {
                    let quoted = text.append_literal("“").append(&words).append_literal("”");
                    match &self.asked_back {
                        Some(question) => quoted.append_literal(" (asked: ").append(question).append_literal(")"),
                        None => quoted,
                    }
                }
                SideName::Answer => {
                    let arrow = if text.as_str().is_empty() { "" } else { "\n→ " };
                    text.append_literal(arrow).append(&words)
                }
            };
        }
        let text = text.append_literal(status_words(self.status));
        ActionEntry::new(self.kind, &self.target, &text).with_recall_id(recall_id)
    }
}

/// Returns the words for what became of a request.
fn status_words(status: RequestStatus) -> &'static str {
    match status {
        RequestStatus::Unknown => "",
        RequestStatus::Submitted => " (submitted)",
        RequestStatus::Accepted => " (the user was satisfied)",
        RequestStatus::Rejected => " (the user rejected this)",
        RequestStatus::Superseded => " (the user then wanted something else)",
        RequestStatus::Revisited => " (taken up again later)",
    }
}

impl FormWriter<'_, '_> {
    /// Words a request with its answer; `None` if there are no words.
    pub(super) fn word_exchange(
        &mut self,
        draft: &DraftCandidate<'_>,
        exchange: &Exchange<'_>,
        part: ExchangePart,
    ) -> Option<WordedCandidate> {
        let text = Rc::new(self.exchange_text(exchange, part)?);
        let factor = self.input.counter.factor;
        let is_settled = exchange.status != RequestStatus::Unknown;
        let mut tokens = EXCHANGE_FRAME_TOKENS
            + ITEM_MARKER_TOKENS
            + factor.apply(estimate(text.target.as_str())).number()
            + text.asked_back.as_ref().map_or(0, |question| factor.apply(estimate(question.as_str())).number());
        let mut forms: Vec<(CandidateText, PricedForm)> = Vec::new();
        let mut bytes = 0;
        // The first form has a piece of each text, so that every question carries a line of its answer.
        let first = [SideName::Request, SideName::Answer].into_iter().filter(|name| text.side(*name).is_some()).count();
        let mut value = f64::MAX;
        let mut opening_value = 0.0;
        for (at, (name, piece)) in text.order.iter().enumerate() {
            let Some(side) = text.side(*name) else { continue };
            let words = side.pieces.text_of(*piece);
            bytes += words.len();
            if is_settled && bytes > MAX_SETTLED_REQUEST_BYTES && !forms.is_empty() {
                break;
            }
            tokens += factor.apply(estimate(words)).number() + 1;
            let own = f64::from(side.pieces.value_of(*piece));
            if at + 1 < first {
                opening_value += own;
                continue;
            }
            let own = if at + 1 == first { (opening_value + own) / first as f64 } else { own };
            value = value.min(own);
            let price = PricedForm { tokens, value_per_token: draft.value_per_token * value };
            forms.push((CandidateText::Exchange(Rc::clone(&text), at + 1), price));
        }
        (!forms.is_empty()).then_some(WordedCandidate {
            section: Section::CompletedActions,
            action_number: draft.action_number,
            full_path: None,
            forms,
        })
    }

    fn exchange_text(&mut self, exchange: &Exchange<'_>, part: ExchangePart) -> Option<ExchangeText> {
        let rarity = self.rarity;
        let request = exchange.request.filter(|_| part != ExchangePart::Answer).map(|item| {
            let words = self.redact(item.text());
            let words = self.repeated_lines.omit_repeated(&words, item.at.unit);
            let pieces = RankedPieces::new(words, |piece: &str| user_piece_value(piece, rarity));
            Side { pieces, recall_id: self.recall_id(item) }
        });
        let answer = exchange.answer.filter(|_| part != ExchangePart::Request).map(|item| {
            let words = item.tool_use().map_or_else(|| item.text().to_owned(), |call| call.key_lines.lines.join("\n"));
            let words = self.redact(&words).replace_with_literal("**", "");
            let pieces = RankedPieces::new(words, |piece: &str| agent_piece_value(piece, rarity));
            Side { pieces, recall_id: self.recall_id(item) }
        });
        let (request, answer) = (request.filter(Side::has_words), answer.filter(Side::has_words));
        // A question such as "Anything else?" explains nothing.
        let asked_back = exchange.asked_back.filter(|_| part != ExchangePart::Answer);
        let asked_back = asked_back.map(|item| last_sentence(item.text()));
        let asked_back = asked_back.filter(|question| rarity.density(question) >= MIN_ASKED_BACK_DENSITY);
        let asked_back = asked_back.map(|question| self.redact_line(question, MAX_ASKED_BACK_CHARS));
        let order = order_pieces(request.as_ref(), answer.as_ref());
        let kind = if part == ExchangePart::Answer { EntryKind::Answer } else { EntryKind::UserRequest };
        let target = self.answered_request(exchange, part);
        let status = exchange.status;
        (!order.is_empty()).then_some(ExchangeText { kind, target, asked_back, request, answer, order, status })
    }

    /// Returns the beginning of a request that stays in place, for the entry of its answer.
    fn answered_request(&mut self, exchange: &Exchange<'_>, part: ExchangePart) -> Redacted {
        let request = exchange.request.filter(|_| part == ExchangePart::Answer).map(EvidenceItem::text);
        match request.map(title_line).filter(|title| !title.is_empty()) {
            Some(title) => {
                Redacted::literal("to “").append(&self.redact_line(title, MAX_TITLE_CHARS)).append_literal("”")
            }
            None => Redacted::literal(""),
        }
    }
}

impl Side {
    fn has_words(&self) -> bool {
        self.pieces.len() > 0
    }
}

/// Returns the best piece of each text, then all others, the most valuable first.
fn order_pieces(request: Option<&Side>, answer: Option<&Side>) -> Vec<(SideName, usize)> {
    let ranked = |name: SideName, side: Option<&Side>| {
        let order = side.map(|side| side.pieces.ranked()).unwrap_or_default();
        order.into_iter().map(move |(piece, value)| (name, piece, value)).collect::<Vec<(SideName, usize, TextValue)>>()
    };
    let (request, answer) = (ranked(SideName::Request, request), ranked(SideName::Answer, answer));
    let mut others: Vec<(SideName, usize, TextValue)> =
        request.iter().skip(1).chain(answer.iter().skip(1)).copied().collect();
    others.sort_by(|one, other| other.2.total_cmp(&one.2));
    let first = request.first().into_iter().chain(answer.first());
    first.chain(&others).map(|(name, piece, _)| (*name, *piece)).collect()
}

/// Returns what a piece of a person's message is worth for its length: rules, wishes and questions are worth more.
fn user_piece_value(piece: &str, rarity: &WordRarity) -> TextValue {
    rarity.density(piece) * (1.0 + USER_CUE_FACTOR * (score_user_text(piece) - 1.0).max(0.0))
}

/// Returns what a piece of the agent's text is worth for its length: causes, decisions and results are worth more.
fn agent_piece_value(piece: &str, rarity: &WordRarity) -> TextValue {
    rarity.density(piece) * (1.0 + AGENT_CUE_FACTOR * score_sentence(piece).0.clamp(-2.0, 3.0))
}
