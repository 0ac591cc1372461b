//! What a simulator saw and did, request by request.

use std::iter::Sum;
use std::ops::Add;

use axum::body::Bytes;
use serde_json::Value;

/// One request and what became of it.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    /// The so-and-so-many-th that was taken, counted from 1.
    pub(crate) number: usize,
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    /// The bytes that came, unpacked where they were packed.
    pub(crate) body: Bytes,
    pub(crate) status: u16,
    /// The bytes of the whole answer, whether or not all of them were sent.
    pub(crate) reply: Bytes,
    /// What it cost, where a model answered.
    pub(crate) tokens: Option<Traffic>,
    pub(crate) ended: Ended,
}

/// How far the answer came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// It is still on its way.
    Not,
    /// All of it was sent, or as much as was asked for.
    Sent,
    /// The client left before.
    ClientLeft,
}

impl Seen {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let cache = self.headers.iter().find(|(cache, _)| cache.eq_ignore_ascii_case(name));
        cache.map(|(_, value)| value.as_str())
    }

    /// The body as JSON; null where it is none.
    pub(crate) fn value(&self) -> Value {
        std::str::from_utf8(&self.body).ok().and_then(|body| body.parse().ok()).unwrap_or_default()
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    /// The answer as a client may see it: a response repeats the tools of its request, of which some may not be the client's.
    pub(crate) fn shown(&self) -> Bytes {
        let reply = std::str::from_utf8(&self.reply).unwrap();
        let lines = reply.split_inclusive('\n').map(|line| {
            let at = line.find('{').filter(|_| line.contains("\"recall_"));
            let Some((before, Ok(mut value))) = at.map(|at| (&line[..at], line[at..].parse::<Value>())) else {
                return line.to_owned();
            };
            let tools = if value["tools"].is_array() { &mut value["tools"] } else { &mut value["response"]["tools"] };
            let is_theirs = |tool: &Value| !tool["name"].as_str().unwrap_or_default().starts_with("recall_");
            tools.as_array_mut().unwrap().retain(is_theirs);
            format!("{before}{value}{}", if line.ends_with('\n') { "\n" } else { "" })
        });
        lines.collect::<String>().into()
    }

    pub(crate) fn is_refused(&self) -> bool {
        self.status >= 400
    }
}

/// Tokens of prompts: `total` is `read`, `written` and `fresh` together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Traffic {
    pub(crate) total: u64,
    /// Found in the cache.
    pub(crate) read: u64,
    /// Put there because a mark asked for it, and how much of that for an hour. A provider without marks reports no writing.
    pub(crate) written: u64,
    pub(crate) written_1h: u64,
    pub(crate) fresh: u64,
    /// What an unlimited cache would have read of the same bytes.
    pub(crate) unlimited: u64,
}

impl Traffic {
    /// The share of all tokens that were read from the cache.
    pub(crate) fn read_share(&self) -> f64 {
        self.read as f64 / self.total.max(1) as f64
    }

    /// What was read, as a share of what an unlimited cache would have read; all of it where that is nothing.
    pub(crate) fn share_of_unlimited(&self) -> f64 {
        if self.unlimited == 0 { 1.0 } else { self.read as f64 / self.unlimited as f64 }
    }
}

impl Add for Traffic {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            total: self.total + other.total,
            read: self.read + other.read,
            written: self.written + other.written,
            written_1h: self.written_1h + other.written_1h,
            fresh: self.fresh + other.fresh,
            unlimited: self.unlimited + other.unlimited,
        }
    }
}

impl Sum for Traffic {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), Self::add)
    }
}
