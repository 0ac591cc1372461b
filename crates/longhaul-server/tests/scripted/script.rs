//! The scripted upstream without a socket: for clocks that stand still.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;

use longhaul_engine::prices::Usage;
use longhaul_engine::redact::Redacted;
use longhaul_server::upstream::{Finish, Models, Question, Reply, Stage, Trouble};
use tokio::time::{sleep, timeout};

/// What is given to one question, and how long that takes.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    after: Duration,
    gives: Result<Reply, Trouble>,
}

impl Line {
    pub(crate) fn says(text: &str) -> Self {
        Self::replies(Reply { text: text.to_owned(), usage: None, finish: Finish::Whole, model: None })
    }

    pub(crate) fn replies(reply: Reply) -> Self {
        Self { after: Duration::ZERO, gives: Ok(reply) }
    }

    pub(crate) fn fails(trouble: Trouble) -> Self {
        Self { after: Duration::ZERO, gives: Err(trouble) }
    }

    pub(crate) fn after(self, after: Duration) -> Self {
        Self { after, ..self }
    }

    pub(crate) fn finish(mut self, finish: Finish) -> Self {
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
    asked: Mutex<Vec<Question>>,
}

impl Script {
    pub(crate) fn new(lines: impl IntoIterator<Item = Line>) -> Self {
        Self { lines: Mutex::new(lines.into_iter().collect()), asked: Mutex::default() }
    }

    pub(crate) fn then(&self, line: Line) {
        self.lines.lock().unwrap().push_back(line);
    }

    /// All that was asked so far.
    pub(crate) fn asked(&self) -> Vec<Question> {
        self.asked.lock().unwrap().clone()
    }
}

#[async_trait::async_trait]
impl Models for Script {
    async fn answer(&self, question: Question) -> Result<Reply, Trouble> {
        let whole = question.patience.whole;
        self.asked.lock().unwrap().push(question);
        let line = self.lines.lock().unwrap().pop_front();
        let line = line.unwrap_or_else(|| Line::fails(Trouble::Refused(Redacted::own("the script is over"))));
        timeout(whole, sleep(line.after)).await.map_err(|_| Trouble::TimedOut(Stage::Whole))?;
        line.gives
    }
}
