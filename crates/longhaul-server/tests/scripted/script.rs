//! The scripted upstream without a socket: for clocks that stand still.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;

use longhaul_engine::prices::Usage;
use longhaul_engine::redact::Redacted;
use longhaul_server::upstream::{FinishReason, ModelClient, ModelReply, SummaryRequest, TimeoutStage, UpstreamError};
use tokio::time::{sleep, timeout};

/// What is given to one question, and how long that takes.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    after: Duration,
    gives: Result<ModelReply, UpstreamError>,
}

impl Line {
    pub(crate) fn says(text: &str) -> Self {
        Self::replies(ModelReply { text: text.to_owned(), usage: None, finish: FinishReason::Complete, model: None })
    }

    pub(crate) fn replies(reply: ModelReply) -> Self {
        Self { after: Duration::ZERO, gives: Ok(reply) }
    }

    pub(crate) fn fails(error: UpstreamError) -> Self {
        Self { after: Duration::ZERO, gives: Err(error) }
    }

    pub(crate) fn after(self, after: Duration) -> Self {
        Self { after, ..self }
    }

    pub(crate) fn finish(mut self, finish: FinishReason) -> Self {
        if let Ok(reply) = &mut self.gives {
            reply.finish = finish;
        }
        self
    }

    pub(crate) fn usage(mut self, usage: Usage) -> Self {
        if let Ok(reply) = &mut self.gives {
            reply.usage = Some(usage);
        }
        self
    }
}

/// Gives one line a question, in order; then it refuses. A line that takes longer than the question's patience is a time-out, as it
/// would be of the real client.
#[derive(Default)]
pub(crate) struct Script {
    lines: Mutex<VecDeque<Line>>,
    asked: Mutex<Vec<SummaryRequest>>,
}

impl Script {
    pub(crate) fn new(lines: impl IntoIterator<Item = Line>) -> Self {
        Self { lines: Mutex::new(lines.into_iter().collect()), asked: Mutex::default() }
    }

    pub(crate) fn then(&self, line: Line) {
        self.lines.lock().unwrap().push_back(line);
    }

    /// All that was asked so far.
    pub(crate) fn asked(&self) -> Vec<SummaryRequest> {
        self.asked.lock().unwrap().clone()
    }
}

#[async_trait::async_trait]
impl ModelClient for Script {
    async fn ask(&self, question: SummaryRequest) -> Result<ModelReply, UpstreamError> {
        let whole = question.timeouts.total;
        self.asked.lock().unwrap().push(question);
        let line = self.lines.lock().unwrap().pop_front();
        let line = line.unwrap_or_else(|| Line::fails(UpstreamError::Refused(Redacted::literal("the script is over"))));
        timeout(whole, sleep(line.after)).await.map_err(|_| UpstreamError::TimedOut(TimeoutStage::Total))?;
        line.gives
    }
}
