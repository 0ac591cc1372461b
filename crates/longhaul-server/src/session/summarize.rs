//! One summary by a model: asked of one writer, and of another if that fails.
//!
//! ```text
//! Ask ──parts──▶ question 1 ──▶ handover ──▶ question 2, with the handover so far ──▶ … ──▶ Answer
//! Ask ──extend──▶ the session's own request with the question behind it ──▶ Answer
//! ```
//!
//! Whatever goes wrong is a [`Failure`], and no failure is the end of anything: who gets no answer makes the checkpoint by code.

use std::fmt;
use std::sync::Arc;

use longhaul_engine::prices::{Dollars, Usage};
use longhaul_engine::redact::{Content, Redacted, Redactor, Rules, SessionKey};
use longhaul_engine::summary::{self, Answer, Ask, End, FRAME};
use longhaul_engine::{Dialect, Tokens};

use super::settings::Writer;
use crate::upstream::{Asked, Finish, Models, Question, Reply, Small, Stage, Streaming, Trouble};

/// Why there is no summary of a writer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// The call failed.
    Trouble(Trouble),
    /// There are no words in the answer.
    Empty,
    /// The model, or a filter before it, would not.
    WouldNot,
    /// It wants to call a tool instead.
    WantsTool,
    /// Its window has no room for anything.
    TooSmall {
        /// The window.
        window: Tokens,
    },
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Trouble(trouble) => trouble.fmt(f),
            Self::Empty => f.write_str("the answer is empty"),
            Self::WouldNot => f.write_str("the model would not answer"),
            Self::WantsTool => f.write_str("the model wanted to call a tool instead"),
            Self::TooSmall { window } => {
                write!(f, "a window of {window} tokens has no room for any of the turns")
            }
        }
    }
}

/// How a writer is asked.
#[derive(Debug, Clone)]
pub(super) enum Way {
    /// By small requests of our own, as many as its window needs.
    Small,
    /// By the session's own request with the question behind it, so that what the provider has cached is used.
    Extension {
        /// What the body is written in.
        dialect: Dialect,
        /// The body.
        body: String,
    },
}

/// One try to get a summary.
#[derive(Debug, Clone)]
pub(super) struct Attempt {
    pub(super) writer: Writer,
    pub(super) way: Way,
    /// What it is expected to cost, where prices are known.
    pub(super) price: Option<Dollars>,
}

/// All that a summary needs.
#[derive(Debug, Clone)]
pub(super) struct Task {
    pub(super) ask: Ask,
    /// Those who are asked, in order, each only if the one before failed.
    pub(super) attempts: Vec<Attempt>,
    /// What nobody who wrote the turns can know.
    pub(super) mark: String,
    pub(super) rules: Rules,
    pub(super) key: Option<SessionKey>,
}

/// What came of it.
#[derive(Debug, Clone)]
pub(super) struct Done {
    pub(super) answer: Option<Answer>,
    /// Who failed before, and how.
    pub(super) failed: Vec<(String, Failure)>,
    /// What it cost by the providers' own reports; nothing where they did not say, or prices are not known.
    pub(super) paid: Option<Dollars>,
}

/// What a writer is expected to cost if it is asked by small requests.
pub(super) fn small_price(ask: &Ask, writer: &Writer) -> Option<Dollars> {
    let ask = ask.clone().counted_by(writer.model.counter());
    let parts = ask.parts(writer.window()).len() as u64;
    let most = ask.most();
    // Each part but the first is asked with the handover so far.
    let input = ask.tokens() + Tokens((FRAME + most).number() * parts);
    bill(writer, input, Tokens::ZERO, Tokens(most.number() * parts))
}

/// The same for the session's own request of this size, of which so much is in the cache.
pub(super) fn extension_price(ask: &Ask, writer: &Writer, sent: Tokens, warm: Tokens) -> Option<Dollars> {
    bill(writer, sent + FRAME, warm.min(sent), ask.most())
}

fn bill(writer: &Writer, input: Tokens, read: Tokens, output: Tokens) -> Option<Dollars> {
    let usage = Usage { input: Some(input), read: Some(read), output: Some(output), ..Usage::default() };
    writer.price.map(|price| usage.bill(&price).total())
}

/// Asks those who are to be asked, one after the other.
pub(super) async fn summarize(models: Arc<dyn Models>, task: Task) -> Done {
    let mut done = Done { answer: None, failed: Vec::new(), paid: Some(Dollars::ZERO) };
    for attempt in &task.attempts {
        let mut call = Call { models: &*models, task: &task, writer: &attempt.writer, paid: &mut done.paid };
        match call.run(&attempt.way).await {
            Ok((text, end)) => {
                let (covers, by) = (task.ask.covers.clone(), attempt.writer.model.name.clone());
                done.answer = Some(Answer { covers, text, by, end });
                return done;
            }
            Err(failure) => done.failed.push((attempt.writer.model.name.clone(), failure)),
        }
    }
    done
}

/// One writer being asked.
struct Call<'t> {
    models: &'t dyn Models,
    task: &'t Task,
    writer: &'t Writer,
    paid: &'t mut Option<Dollars>,
}

impl Call<'_> {
    async fn run(&mut self, way: &Way) -> Result<(String, End), Failure> {
        if let Way::Extension { dialect, body } = way {
            return self.ask(Asked::Body { dialect: *dialect, body: body.clone() }).await;
        }
        let window = self.writer.window();
        match self.in_parts(window).await {
            // The provider knows its window better; with that, it is asked in smaller parts, once.
            Err(Failure::Trouble(Trouble::TooLong { maximum, .. })) => {
                let smaller = maximum.filter(|maximum| *maximum < window).unwrap_or(window / 2);
                self.in_parts(smaller).await
            }
            other => other,
        }
    }

    /// Asks for one part after the other, each with the handover that the ones before it gave.
    async fn in_parts(&mut self, window: Tokens) -> Result<(String, End), Failure> {
        let ask = self.task.ask.clone().counted_by(self.writer.model.counter());
        let parts = ask.parts(window);
        let mut redactor = match &self.task.key {
            Some(key) => Redactor::keyed(self.task.rules.clone(), key.clone()),
            None => Redactor::numbered(self.task.rules.clone()),
        };
        let mut so_far: Option<(Redacted, String, End)> = None;
        for part in &parts {
            let before = so_far.as_ref().map(|(text, ..)| text);
            let question = ask.question(part, before, &self.task.mark, window);
            let (text, end) = self.ask(self.small(question)).await?;
            so_far = Some((redactor.redact(&text, Content::Text).text, text, end));
        }
        so_far.map(|(_, text, end)| (text, end)).ok_or(Failure::TooSmall { window })
    }

    fn small(&self, question: summary::Question) -> Asked {
        let summary::Question { system, user, most } = question;
        let model = self.writer.model.name.clone();
        Asked::Small(Small { model, system, user, max_tokens: most, streaming: Streaming::Whole })
    }

    async fn ask(&mut self, asked: Asked) -> Result<(String, End), Failure> {
        let patience = self.writer.patience;
        let question = Question { upstream: Arc::clone(&self.writer.upstream), asked, patience };
        // Whoever is asked keeps to its patience by its own word; nobody hangs on that word.
        let answer = tokio::time::timeout(patience.whole, self.models.answer(question)).await;
        let reply =
            answer.map_err(|_| Trouble::TimedOut(Stage::Whole)).flatten().map_err(Failure::Trouble)?;
        self.pay(&reply);
        let end = match reply.finish {
            Finish::Whole => End::Whole,
            Finish::Cut => End::Cut,
            Finish::Refused => return Err(Failure::WouldNot),
            Finish::ToolCall => return Err(Failure::WantsTool),
        };
        if reply.text.trim().is_empty() {
            return Err(Failure::Empty);
        }
        Ok((reply.text, end))
    }

    fn pay(&mut self, reply: &Reply) {
        let bill = reply.usage.zip(self.writer.price).map(|(usage, price)| usage.bill(&price).total());
        *self.paid = self.paid.zip(bill).map(|(paid, bill)| paid + bill);
    }
}
