//! What the server does with one request.

use std::time::Duration;

use longhaul_engine::ApiFormat;
use serde_json::json;

use super::speech::Speech;

/// What is done with one request, when, and how far.
#[derive(Debug, Clone)]
pub(crate) struct Act {
    pub(crate) done: Done,
    /// Before the first byte.
    pub(crate) after: Duration,
    /// Between two pieces of the body.
    pub(crate) pace: Duration,
    /// Bytes of a piece.
    pub(crate) piece: usize,
    /// The connection is cut when so many bytes of the body are sent.
    pub(crate) cut: Option<usize>,
    /// What the head says about the body, where it does not tell the truth.
    pub(crate) kind: Option<&'static str>,
}

#[derive(Debug, Clone)]
pub(crate) enum Done {
    /// Says this, as the request wants it.
    Says(Speech),
    /// Answers with these very bytes.
    Answers { status: u16, headers: Vec<(&'static str, String)>, body: Vec<u8> },
    /// Hangs up without a word.
    HangsUp,
}

impl Act {
    fn of(done: Done) -> Self {
        Self { done, after: Duration::ZERO, pace: Duration::ZERO, piece: usize::MAX, cut: None, kind: None }
    }

    pub(crate) fn says(text: &str) -> Self {
        Self::of(Done::Says(Speech::new(text)))
    }

    pub(crate) fn speaks(speech: Speech) -> Self {
        Self::of(Done::Says(speech))
    }

    pub(crate) fn answers(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self::of(Done::Answers { status, headers: Vec::new(), body: body.into() })
    }

    pub(crate) fn hangs_up() -> Self {
        Self::of(Done::HangsUp)
    }

    /// An error as the dialect words it.
    pub(crate) fn error(api_format: ApiFormat, status: u16, kind: &str, message: &str) -> Self {
        let error = json!({ "type": kind, "message": message });
        Self::answers(
            status,
            match api_format {
                ApiFormat::Messages => json!({ "type": "error", "error": error }).to_string(),
                ApiFormat::Chat | ApiFormat::Responses => json!({ "error": error }).to_string(),
            },
        )
    }

    pub(crate) fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        if let Done::Answers { headers, .. } = &mut self.done {
            headers.push((name, value.into()));
        }
        self
    }

    pub(crate) fn after(self, after: Duration) -> Self {
        Self { after, ..self }
    }

    pub(crate) fn paced(self, piece: usize, pace: Duration) -> Self {
        Self { pace, piece, ..self }
    }

    pub(crate) fn cut_at(self, bytes: usize) -> Self {
        Self { cut: Some(bytes), ..self }
    }

    pub(crate) fn typed(self, kind: &'static str) -> Self {
        Self { kind: Some(kind), ..self }
    }
}
