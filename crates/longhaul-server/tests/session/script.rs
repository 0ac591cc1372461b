//! Models that answer by a script, without a socket.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use longhaul_engine::Tokens;
use longhaul_engine::prices::Usage;
use longhaul_server::session::{
    FirstWriter, OwnModel, SessionSettings, Summarizer, SummaryModels, SummaryWriter, UnpricedModels,
};
use longhaul_server::upstream::{
    FinishReason, ModelClient, ModelReply, Provider, SummaryRequest, SummaryRequestBody, Timeouts, Upstream,
    UpstreamError,
};

/// One answer: after how long, and what.
#[derive(Debug, Clone)]
pub(crate) struct Line(pub(crate) Duration, pub(crate) Result<ModelReply, UpstreamError>);

/// What is answered, one after the other; the last line again and again.
pub(crate) struct Script {
    lines: Mutex<VecDeque<Line>>,
    asked: Mutex<Vec<SummaryRequest>>,
    answered: Mutex<usize>,
}

impl Script {
    pub(crate) fn new(lines: impl IntoIterator<Item = Line>) -> Arc<Self> {
        let lines = Mutex::new(lines.into_iter().collect());
        Arc::new(Self { lines, asked: Mutex::default(), answered: Mutex::default() })
    }

    /// The questions so far.
    pub(crate) fn asked(&self) -> Vec<SummaryRequest> {
        self.asked.lock().unwrap().clone()
    }

    /// The models that were asked, in order.
    pub(crate) fn models(&self) -> Vec<String> {
        let name = |question: &SummaryRequest| match &question.body {
            SummaryRequestBody::FromPrompt(small) => small.model.clone(),
            SummaryRequestBody::Raw { .. } => "the session's own request".to_owned(),
        };
        self.asked().iter().map(name).collect()
    }

    /// How many questions were answered to the end.
    pub(crate) fn answered(&self) -> usize {
        *self.answered.lock().unwrap()
    }
}

#[async_trait::async_trait]
impl ModelClient for Script {
    async fn ask(&self, question: SummaryRequest) -> Result<ModelReply, UpstreamError> {
        self.asked.lock().unwrap().push(question);
        let line = {
            let mut lines = self.lines.lock().unwrap();
            if lines.len() > 1 { lines.pop_front().unwrap() } else { lines[0].clone() }
        };
        tokio::time::sleep(line.0).await;
        *self.answered.lock().unwrap() += 1;
        line.1
    }
}

/// A summary that a model could write about the tests' agent.
pub(crate) const SUMMARY: &str = "## Active Task\n- Make the build green. Never touch the tests.\n\n## Goal\n- Make the build green.\n\n\
## Completed Actions\n1. RAN make target0 — exit code 0\n\n## Remaining Work\n- The build is not green yet.\n";

pub(crate) fn reply(text: &str, finish: FinishReason) -> ModelReply {
    let usage = Usage { input: Some(Tokens(1_000)), output: Some(Tokens(100)), ..Usage::default() };
    ModelReply { text: text.to_owned(), usage: Some(usage), finish, model: None }
}

/// A good answer after so many seconds.
pub(crate) fn good(seconds: u64) -> Line {
    Line(Duration::from_secs(seconds), Ok(reply(SUMMARY, FinishReason::Complete)))
}

/// A failure after so many seconds.
pub(crate) fn bad(seconds: u64, error: UpstreamError) -> Line {
    Line(Duration::from_secs(seconds), Err(error))
}

pub(crate) fn upstream() -> Arc<Upstream> {
    let provider = Provider::named("compatible").unwrap();
    Arc::new(Upstream::new(provider, Some("http://127.0.0.1:9/v1"), None).unwrap())
}

/// The auxiliary model of the tests.
pub(crate) const AUXILIARY: &str = "small-model";

pub(crate) fn writer(model: &str) -> SummaryWriter {
    SummaryWriter::from_name(model, upstream(), Timeouts::with_total(Duration::from_mins(2)))
}

/// A summarizer with both models: the auxiliary one, and the session's own at an upstream with a key.
pub(crate) fn both(auxiliary: SummaryWriter, first: FirstWriter) -> Summarizer {
    let (timeouts, own) = (auxiliary.timeouts, Some(OwnModel::At(upstream())));
    let unpriced = UnpricedModels::Ask;
    Summarizer::Model(SummaryModels { auxiliary: Some(auxiliary), own, first, timeouts, unpriced })
}

/// Settings in which the auxiliary model is asked, and the session's own if that fails.
pub(crate) fn asking(settings: SessionSettings) -> SessionSettings {
    SessionSettings { summarizer: both(writer(AUXILIARY), FirstWriter::Auxiliary), ..settings }
}
