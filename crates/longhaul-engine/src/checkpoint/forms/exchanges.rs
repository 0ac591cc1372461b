//! Forms of a request with its answer: the sentence of each that tells most, then one sentence more in each form.

use std::rc::Rc;

use super::{CandidateText, FormWriter, WordedCandidate};
use crate::checkpoint::Section;
use crate::checkpoint::candidates::{DraftCandidate, ExchangePart};
use crate::checkpoint::excerpt::{RankedPieces, TextValue};
use crate::checkpoint::exchanges::{Exchange, RequestStatus};
use crate::checkpoint::rarity::WordRarity;
use crate::checkpoint::weights::{
    AGENT_CUE_FACTOR, COURTESY_FACTOR, EXCHANGE_FRAME_TOKENS, ITEM_MARKER_TOKENS, MAX_ASKED_BACK_CHARS,
    MAX_SETTLED_REQUEST_BYTES, MAX_TITLE_CHARS, MIN_ASKED_BACK_DENSITY, USER_CUE_FACTOR,
};
use crate::evidence::{
    EvidenceItem, Reception, has_question, last_sentence, reception, score_sentence, score_user_text, title_line,
};
use crate::redact::Redacted;
use crate::texts::{ActionEntry, EntryKind};
use crate::tokens::budget::PricedForm;
use crate::tokens::estimate;

/// A request with its answer, in pieces.
#[derive(PartialEq)]
pub(in crate::checkpoint) struct ExchangeText {
    /// The beginning of the request, if only the answer is told.
    target: Redacted,
    /// The question of the assistant that the request answers.
    asked_back: Option<Redacted>,
    request: Option<Side>,
    answer: Option<Side>,
    /// The pieces in the order in which the forms add them.
    order: Vec<(SideName, usize)>,
    /// The number of pieces in the shortest form.
    opening: usize,
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
        let has_request = self.order[..count].iter().any(|(name, _)| *name == SideName::Request);
        let kind = if has_request { EntryKind::UserRequest } else { EntryKind::Answer };
        ActionEntry::new(kind, &self.target, &text).with_recall_id(recall_id)
    }
}

/// Returns the words for what became of a request.
fn status_words(status: RequestStatus) -> &'static str {
    match status {
        // A word of thanks is no proof that the work was done.
        RequestStatus::Unknown | RequestStatus::Accepted | RequestStatus::Revisited => "",
        RequestStatus::Submitted => " (submitted)",
        RequestStatus::Rejected => " (the user rejected the answer)",
        RequestStatus::Superseded => " (the user then wanted something else)",
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
        let frame = EXCHANGE_FRAME_TOKENS
            + ITEM_MARKER_TOKENS
            + factor.apply(estimate(text.target.as_str())).number()
            + text.asked_back.as_ref().map_or(0, |question| factor.apply(estimate(question.as_str())).number());
        let mut tokens = frame;
        let mut forms: Vec<(CandidateText, PricedForm)> = Vec::new();
        let mut bytes = 0;
        let first = text.opening;
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
            let earlier = text.order[..at].iter().filter(|(of, _)| of == name).map(|(_, piece)| *piece);
            let heading = side.pieces.new_heading(*piece, earlier);
            tokens += heading.map_or(0, |heading| factor.apply(estimate(heading)).number());
            let own = f64::from(side.pieces.value_of(*piece));
            if at + 1 < first {
                opening_value += own;
                continue;
            }
            // The first form also pays for the frame.
            let own = if at + 1 == first {
                (opening_value + own) / first as f64 * (tokens - frame) as f64 / tokens as f64
            } else {
                own
            };
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
        // An answer that the user rejected is no answer.
        let is_told =
            part == ExchangePart::Answer || part == ExchangePart::Both && exchange.status != RequestStatus::Rejected;
        let answer = exchange.answer.filter(|_| is_told).map(|item| {
            let words = item.tool_use().map_or_else(|| item.text().to_owned(), |call| call.key_lines.lines.join("\n"));
            let words = self.redact(&words).replace_with_literal("**", "");
            let pieces = RankedPieces::new(words, |piece: &str| agent_piece_value(piece, rarity));
            Side { pieces, recall_id: self.recall_id(item) }
        });
        let (request, answer) = (request.filter(Side::has_words), answer.filter(Side::has_words));
        // A long reply explains itself, and a question such as "Anything else?" explains nothing.
        let is_short = exchange.request.is_some_and(|request| request.text().len() <= MAX_ASKED_BACK_CHARS);
        let asked_back = exchange.asked_back.filter(|_| part != ExchangePart::Answer && is_short);
        let asked_back = asked_back.map(|item| last_sentence(item.text()));
        let asked_back = asked_back.filter(|question| rarity.density(question) >= MIN_ASKED_BACK_DENSITY);
        let asked_back = asked_back.map(|question| self.redact_line(question, MAX_ASKED_BACK_CHARS));
        // Every question carries a line of its answer. A message that only tells something needs no reply.
        let asks = request.as_ref().is_some_and(|side| {
            let words = side.pieces.text();
            has_question(words) || score_user_text(words) > 1.0
        });
        let is_pair = asks || !self.input.evidence.tool_uses.is_empty();
        let (order, opening) = order_pieces(request.as_ref(), answer.as_ref(), is_pair);
        let target = self.answered_request(exchange, part);
        let status = exchange.status;
        (!order.is_empty()).then_some(ExchangeText { target, asked_back, request, answer, order, opening, status })
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

/// Returns the pieces in the order in which the forms add them, and the number of pieces in the shortest form: the best
/// piece of each text, or of both.
fn order_pieces(request: Option<&Side>, answer: Option<&Side>, is_pair: bool) -> (Vec<(SideName, usize)>, usize) {
    let ranked = |name: SideName, side: Option<&Side>| {
        let order = side.map(|side| side.pieces.ranked()).unwrap_or_default();
        order.into_iter().map(move |(piece, value)| (name, piece, value)).collect::<Vec<(SideName, usize, TextValue)>>()
    };
    let (request, answer) = (ranked(SideName::Request, request), ranked(SideName::Answer, answer));
    let opening = usize::from(is_pair);
    let mut others: Vec<(SideName, usize, TextValue)> =
        request.iter().skip(opening).chain(answer.iter().skip(opening)).copied().collect();
    others.sort_by(|one, other| other.2.total_cmp(&one.2));
    let first = request.iter().take(opening).chain(answer.iter().take(opening));
    let order: Vec<(SideName, usize)> = first.clone().chain(&others).map(|(name, piece, _)| (*name, *piece)).collect();
    (order, first.count().max(1))
}

/// Returns what a piece of a person's message is worth for its length: rules, wishes and questions are worth more.
fn user_piece_value(piece: &str, rarity: &WordRarity) -> TextValue {
    rarity.density(piece) * courtesy_factor(piece) * (1.0 + USER_CUE_FACTOR * (score_user_text(piece) - 1.0).max(0.0))
}

/// Returns what a piece of the agent's text is worth for its length: causes, decisions and results are worth more.
fn agent_piece_value(piece: &str, rarity: &WordRarity) -> TextValue {
    rarity.density(piece) * courtesy_factor(piece) * (1.0 + AGENT_CUE_FACTOR * score_sentence(piece).0.clamp(-2.0, 3.0))
}

/// Returns the factor of a sentence such as "Great, thanks for finding that!", which tells nothing.
fn courtesy_factor(piece: &str) -> TextValue {
    if reception(piece.trim_start()) == Some(Reception::Accepts) { COURTESY_FACTOR } else { 1.0 }
}
