//! Candidates for the requests of people with their answers, for messages of unknown authors, and for the sentences
//! that the assistant wrote while it worked.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::{CandidateCollector, CandidateSource, ExchangePart};
use crate::checkpoint::exchanges::{Exchange, RequestStatus, first_open_turn};
use crate::checkpoint::rarity::WordRarity;
use crate::checkpoint::weights::{self, RECENT_SENTENCES};
use crate::evidence::{
    EvidenceItem, SentenceFingerprint, is_identifier, is_lasting_rule, score_user_text, split_words,
};
use crate::transcript::BlockPosition;

impl<'d> CandidateCollector<'_, 'd> {
    /// Adds each request with its answer as one candidate, and the lasting rules in a message as candidates of their
    /// own, so that they survive if the message is cut.
    pub(super) fn add_exchanges(&mut self, exchanges: &[Exchange<'d>], rarity: &WordRarity) {
        let summarized = self.input.is_summarized;
        let requests = exchanges.iter().filter_map(|exchange| exchange.request);
        let last: HashMap<&str, usize> = requests.map(|request| (request.text(), request.at.unit)).collect();
        for (place, exchange) in exchanges.iter().enumerate() {
            let request = exchange.request.filter(|request| summarized(request.at.unit));
            let answer = exchange.answer.filter(|answer| summarized(answer.at.unit));
            let (part, at) = match (request, answer) {
                (Some(request), Some(_)) => (ExchangePart::Both, request.at),
                (Some(request), None) => (ExchangePart::Request, request.at),
                (None, Some(answer)) => (ExchangePart::Answer, answer.at),
                (None, None) => continue,
            };
            // Of equal messages keep the last.
            let is_repeated = request.is_some_and(|request| last.get(request.text()) != Some(&request.at.unit));
            if is_repeated && part == ExchangePart::Request {
                continue;
            }
            // The state has the request that is being worked on.
            let is_active = place + 1 == exchanges.len();
            if !(is_active && part == ExchangePart::Request && self.input.notes.is_none()) {
                let value = self.exchange_value(exchange, part, rarity);
                let age = weights::age_factor(self.input.weights.age.exchange, at.unit, self.turn_count);
                self.add_ageless(CandidateSource::Exchange(*exchange, part), (at.unit, at.block), value * age);
            }
            let Some(request) = request else { continue };
            // What a message demanded for one task goes with the task; a rule that lasts does not.
            let is_settled = matches!(exchange.status, RequestStatus::Submitted | RequestStatus::Superseded);
            for (place, rule) in request.rules().into_iter().enumerate() {
                let log = &self.input.weights.log;
                let value = match is_lasting_rule(&rule) {
                    true => log.rule,
                    false if is_settled => continue,
                    false => log.task_rule,
                };
                self.add_ageless(CandidateSource::UserRule(rule), (request.at.unit, place), value);
            }
        }
    }

    fn exchange_value(&self, exchange: &Exchange<'d>, part: ExchangePart, rarity: &WordRarity) -> f64 {
        let replied_to = self.input.replied_to_turn;
        if exchange.answer.is_some_and(|answer| replied_to == Some(answer.at.unit)) {
            return self.input.weights.log.replied_answer;
        }
        let base = match (part, exchange.status) {
            (_, RequestStatus::Submitted | RequestStatus::Superseded) => self.input.weights.log.settled_request,
            (ExchangePart::Answer, RequestStatus::Rejected) => self.input.weights.log.rejected_answer,
            (ExchangePart::Answer, _) => self.input.weights.log.answer,
            _ => self.input.weights.log.request,
        };
        let answer = exchange.answer.map_or("", EvidenceItem::text);
        let request = exchange.request.map_or("", EvidenceItem::text);
        let density = rarity.density(request).max(rarity.density(answer));
        base * (self.input.weights.log.plain_exchange_share
            + (1.0 - self.input.weights.log.plain_exchange_share) * f64::from(density))
    }

    /// Adds the messages that may be from a person, and those that a host passed on inside another block.
    pub(super) fn add_other_messages(&mut self) {
        let messages = &self.input.evidence.user_messages;
        for message in self.summarized(messages).filter(|message| !message.by_user && !message.text().is_empty()) {
            let (source, value) = if message.is_relayed() {
                (CandidateSource::RelayedMessage(message), self.input.weights.log.request)
            } else {
                (CandidateSource::PossibleUserMessage(message), self.input.weights.log.unknown_author)
            };
            let is_empty = score_user_text(message.text()) < weights::MIN_MESSAGE_SCORE && message.text().len() < 8;
            if !is_empty {
                self.add(source, (message.at.unit, message.at.block), value);
            }
        }
    }

    /// Adds the informative sentences of the texts that are no answers. Of two sentences with the same meaning the newer
    /// one is kept, and so is the newest of several findings about the same names: the older ones were guesses on the
    /// way.
    pub(super) fn add_assistant_notes(&mut self, exchanges: &[Exchange<'d>]) {
        let texts = &self.input.evidence.assistant_texts;
        let first_open = first_open_turn(exchanges);
        let answers: BTreeSet<BlockPosition> =
            exchanges.iter().filter_map(|exchange| Some(exchange.answer?.at)).collect();
        let mut newer: Vec<&SentenceFingerprint> = Vec::new();
        let mut newer_names: Vec<HashSet<&str>> = Vec::new();
        for item in self.summarized(texts).rev() {
            let Some(reply) = item.assistant_text() else { continue };
            if answers.contains(&item.at) || item.at.unit < first_open {
                continue;
            }
            let mut places = Vec::new();
            for (place, note) in reply.key_sentences.iter().enumerate().rev() {
                let recent = newer.len().saturating_sub(RECENT_SENTENCES);
                let names: HashSet<&str> = split_words(&note.text).filter(|word| is_identifier(word)).collect();
                let is_same = |other: &HashSet<&str>| {
                    names.intersection(other).count() as f32 >= names.len() as f32 * weights::MIN_SAME_NAMES_SHARE
                };
                let is_refined = note.states_finding
                    && !names.is_empty()
                    && newer_names.iter().rev().take(RECENT_SENTENCES).any(is_same);
                if !note.claims_success
                    && !is_refined
                    && !newer[recent..].iter().any(|other| note.fingerprint.is_covered_by(other))
                {
                    newer.push(&note.fingerprint);
                    places.push(place);
                    if note.states_finding {
                        newer_names.push(names);
                    }
                }
            }
            places.sort_by(|a, b| reply.key_sentences[*b].score.total_cmp(&reply.key_sentences[*a].score));
            if let Some(best) = places.first() {
                let score = reply.key_sentences[*best].score.min(weights::MAX_NOTE_SCORE);
                let value = self.input.weights.log.note * f64::from(score);
                self.add(CandidateSource::AssistantNotes(item, places), (item.at.unit, item.at.block), value);
            }
        }
    }
}
