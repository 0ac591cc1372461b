//! A session sent request by request, as one of two kinds of clients does it.

use std::path::Path;

use longhaul_engine::block_cache::BlockCache;
use longhaul_engine::check::{Target, check};
use longhaul_engine::meter::Meter;
use longhaul_engine::models::{self, Model};
use longhaul_engine::{ApiFormat, wire};
use serde::Deserialize;
use serde_json::value::RawValue;

/// What a client does with what was sent in place of its request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Client {
    /// It goes on from it.
    View,
    /// It sends all of its own history again.
    Whole,
}

impl Client {
    pub(crate) fn named(name: &str) -> Option<Self> {
        match name {
            "view" => Some(Self::View),
            "whole" => Some(Self::Whole),
            _ => None,
        }
    }

    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::View => "a client that goes on from what was sent",
            Self::Whole => "a client that sends all of its history again",
        }
    }
}

/// The body of a session, and its messages one by one.
#[derive(Deserialize)]
struct Body<'s> {
    model: String,
    #[serde(borrow)]
    messages: Vec<&'s RawValue>,
}

#[derive(Deserialize)]
struct Message {
    role: String,
}

/// A session to be replayed.
pub(crate) struct Replay {
    pub(crate) model: Model,
    /// What stands before the messages.
    opening: String,
    messages: Vec<String>,
    /// The tokens of the session up to each message, and of all of it.
    pub(crate) tokens: Vec<u64>,
}

/// The end of a body whose messages stand last.
const CLOSING: &str = "]}";
pub(crate) const DIALECT: ApiFormat = ApiFormat::Chat;

impl Replay {
    /// The first messages of a session in a file, up to so many tokens.
    pub(crate) fn read(file: &Path, most: u64) -> Self {
        let text = std::fs::read_to_string(file).unwrap();
        let body: Body<'_> = serde_json::from_str(&text).unwrap();
        let model = models::find(&body.model);
        let opening = &text[..text.find(body.messages[0].get()).unwrap()];
        let mut replay = Self {
            opening: opening.to_owned(),
            messages: body.messages.iter().map(|message| message.get().to_owned()).collect(),
            tokens: Vec::new(),
            model,
        };
        replay.weigh(most);
        replay
    }

    fn weigh(&mut self, most: u64) {
        let mut cache = BlockCache::default();
        let around = self.count(&mut cache, &[&self.opening, CLOSING].concat());
        let mut sum = around;
        for message in &self.messages {
            self.tokens.push(sum);
            if sum >= most {
                break;
            }
            sum += self.count(&mut cache, &[&self.opening, message.as_str(), CLOSING].concat()) - around;
        }
        self.messages.truncate(self.tokens.len());
        self.tokens.push(sum);
    }

    /// The tokens of a body.
    pub(crate) fn count(&self, cache: &mut BlockCache, body: &str) -> u64 {
        let (transcript, _) = wire::parse(DIALECT, body).unwrap();
        Meter::for_model(&self.model).breakdown(cache, &transcript).total().number()
    }

    /// The tokens of a text.
    pub(crate) fn words(&self, text: &str) -> u64 {
        self.model.counter().count(text).number()
    }

    pub(crate) fn target(&self) -> Target {
        self.model.target(DIALECT)
    }

    pub(crate) fn len(&self) -> usize {
        self.messages.len()
    }

    /// The places of the replies: before each of them a request was sent.
    pub(crate) fn replies(&self) -> Vec<usize> {
        let is_reply =
            |message: &str| serde_json::from_str::<Message>(message).is_ok_and(|message| message.role == "assistant");
        (1..self.messages.len()).filter(|at| is_reply(&self.messages[*at])).collect()
    }

    /// A body without messages.
    pub(crate) fn begin(&self) -> String {
        [&self.opening, CLOSING].concat()
    }

    /// Adds the messages from one place to another to a body.
    pub(crate) fn add(&self, body: &mut String, places: std::ops::Range<usize>) {
        for message in &self.messages[places] {
            body.truncate(body.strip_suffix(CLOSING).unwrap().len());
            if !body.ends_with('[') {
                body.push(',');
            }
            body.push_str(message);
            body.push_str(CLOSING);
        }
    }

    /// The rules that a body breaks.
    pub(crate) fn broken(&self, body: &str) -> Vec<String> {
        let found = check(body, DIALECT, &self.target());
        found.into_iter().map(|violation| violation.rule.to_owned()).collect()
    }
}
