//! One reply over as many answers as it takes: as long as a model calls our tools and nobody else's, it is answered and asked again.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::HeaderValue;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING};
use http::request::Parts;
use longhaul_engine::identity::Identity;
use longhaul_engine::prices::Usage;
use longhaul_engine::{Dialect, Edit, Rewrite, Tokens, wire};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use super::dress::{Aside, Shown};
use super::sieve::{Call, Heard, Sieve, sieve};
use super::{chat, responses};
use crate::gateway::events::Split;
use crate::gateway::{Gateway, body, forward};
use crate::recall::{Answer, Reach};
use crate::store::{SessionId, Tenant};
use crate::upstream::{Pieces, Response, Trouble};

/// The most recall calls that are answered within one reply, however they are spread over its rounds (docs/gateway.md).
const MAX_CALLS: usize = 8;
/// The most time that answering them takes within one reply (docs/gateway.md): a client waits for it.
const RECALL_TIMEOUT: Duration = Duration::from_secs(10);
/// The most times that a model is told after that that it was enough; then it may call nothing.
const MAX_REMINDERS: usize = 2;
/// The most rounds of one reply.
const MAX_ROUNDS: usize = MAX_CALLS + MAX_REMINDERS + 1;
const TOO_SLOW: &str =
    "This took too long, and nothing more can be recalled in this turn. Go on with what you have.";
const ENOUGH: &str = "Nothing more can be recalled in this turn. Go on with what you have; you can recall again in your next turn.";
const NO_ROOM: &str =
    "There is no room left in the context window for this. Go on with what you have, or ask for less.";
const BUSY: &str = "Nothing can be recalled at the moment. Try again in your next turn.";
const CUT: &str = "\n[cut: there is no room left in the context window for more]";
/// The largest answer that is read whole.
const LARGEST: usize = 64 * 1024 * 1024;

/// What the answers came to, for what follows.
#[derive(Default)]
pub(in crate::gateway) struct Spent {
    /// What was used for the first answer,
    pub(in crate::gateway) first: Option<Usage>,
    /// and for all.
    pub(in crate::gateway) all: Usage,
    /// What was sent for an answer that has not reported its usage yet.
    pub(in crate::gateway) unreported: Tokens,
    /// What stands in the next requests for what the client has.
    pub(in crate::gateway) aside: Option<Aside>,
}

/// A request whose model can call our tools.
pub(in crate::gateway) struct Asked {
    pub(in crate::gateway) gateway: Arc<Gateway>,
    pub(in crate::gateway) dialect: Dialect,
    pub(in crate::gateway) parts: Parts,
    /// The body as it was sent, with our tools in it.
    pub(in crate::gateway) body: Bytes,
    /// Its newest message.
    pub(in crate::gateway) after: Identity,
    pub(in crate::gateway) tenant: Tenant,
    pub(in crate::gateway) session: SessionId,
    /// How many bytes of answers have room in the window.
    pub(in crate::gateway) room: usize,
}

/// Such a request, while it is answered.
pub(in crate::gateway) struct Talk {
    asked: Asked,
    sieve: Box<dyn Sieve>,
    split: Split,
    pieces: Pieces,
    /// What was said aside, as messages or items behind the body.
    said: Vec<Value>,
    /// The rounds so far, in which nothing but our tools was called.
    rounds: usize,
    /// The rounds in which no call was answered any more.
    reminders: usize,
    /// The calls that were answered.
    answered: usize,
    /// The time that is left for answering more.
    time_left: Duration,
    /// Whether anything was taken out.
    has_hidden: bool,
    /// Whether all was handed on.
    is_over: bool,
    spent: Arc<Mutex<Spent>>,
}

impl Talk {
    /// Begins with the first answer.
    pub(in crate::gateway) fn new(asked: Asked, pieces: Pieces, spent: Arc<Mutex<Spent>>) -> Self {
        let sieve = sieve(asked.dialect);
        Self {
            asked,
            sieve,
            split: Split::default(),
            pieces,
            said: Vec::new(),
            rounds: 0,
            reminders: 0,
            answered: 0,
            time_left: RECALL_TIMEOUT,
            has_hidden: false,
            is_over: false,
            spent,
        }
    }

    /// The next piece of what the client may see of a stream of events.
    pub(in crate::gateway) async fn next(&mut self) -> Result<Option<Bytes>, Trouble> {
        let mut out = Vec::new();
        while out.is_empty() && !self.is_over {
            let piece = self.pieces.next().await?;
            for event in self.split.feed(piece.as_deref().unwrap_or_default()) {
                self.sieve.event(event, &mut out);
            }
            if piece.is_none() {
                out.extend(self.split.rest());
            }
            if (piece.is_none() || self.sieve.is_over()) && !self.goes_on(&mut out).await? {
                self.is_over = true;
            }
        }
        Ok((!out.is_empty()).then(|| out.into()))
    }

    /// All that the client may see, where answers are documents. An answer that cannot be read is handed on as it came.
    pub(in crate::gateway) async fn whole(mut self) -> Result<Bytes, Trouble> {
        loop {
            let bytes = self.all().await?;
            let Ok(document) = serde_json::from_slice(&bytes) else { return Ok(bytes) };
            self.sieve.whole(document);
            if !self.goes_on(&mut Vec::new()).await? {
                // A response repeats its request's tools, and ours are among them.
                let is_untouched = !self.has_hidden && self.asked.dialect != Dialect::Responses;
                return Ok(if is_untouched { bytes } else { self.sieve.document().to_string().into() });
            }
        }
    }

    async fn all(&mut self) -> Result<Bytes, Trouble> {
        let mut all = Vec::new();
        while let Some(piece) = self.pieces.next().await? {
            if all.len() + piece.len() > LARGEST {
                return Err(Trouble::CutShort);
            }
            all.extend_from_slice(&piece);
        }
        Ok(all.into())
    }

    /// An answer has ended: whether another follows.
    async fn goes_on(&mut self, out: &mut Vec<u8>) -> Result<bool, Trouble> {
        let Some(Heard { reply, calls, has_ours, has_others, usage }) = self.sieve.heard() else {
            self.sieve.close(out);
            return Ok(false);
        };
        self.used(usage);
        self.has_hidden |= has_ours;
        let is_broken_off = has_ours && calls.is_empty();
        if is_broken_off || self.reminders > MAX_REMINDERS || self.rounds >= MAX_ROUNDS {
            // There are calls that nobody answers: nothing of them may come again.
            self.sieve.close(out);
            return Ok(false);
        }
        self.said.extend(match self.asked.dialect {
            Dialect::Responses => responses::sent_again(reply, responses::keeps(&self.asked.body)),
            Dialect::Chat | Dialect::Messages => reply,
        });
        let results = self.results(&calls).await;
        if calls.is_empty() || has_others {
            self.sieve.close(out);
            if self.rounds > 0 || !calls.is_empty() {
                self.remember(&calls, &results);
            } else {
                self.said.clear();
            }
            return Ok(false);
        }
        self.rounds += 1;
        self.sieve.again();
        self.split = Split::default();
        self.pieces = self.ask(&calls, results).await?.body;
        Ok(true)
    }

    fn used(&self, usage: Option<Usage>) {
        let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        let usage = usage.unwrap_or_default();
        spent.first.get_or_insert(usage);
        spent.all = spent.all + usage;
        spent.unreported = Tokens::ZERO;
    }

    /// What the calls are answered with.
    async fn results(&mut self, calls: &[Call]) -> Vec<Answer> {
        let mut results = Vec::new();
        let before = self.answered;
        let mut reach = None;
        for call in calls {
            let answer = if self.answered >= MAX_CALLS {
                wrong(ENOUGH)
            } else {
                self.answered += 1;
                self.asked.gateway.tally.recalled(call.tool);
                self.answer(call, &mut reach).await
            };
            results.push(self.fitted(answer));
        }
        self.reminders += usize::from(!calls.is_empty() && self.answered == before);
        results
    }

    /// The answer to one call, in the time that is left; searching takes processor time.
    async fn answer(&mut self, call: &Call, reach: &mut Option<Result<Reach, String>>) -> Answer {
        let started = Instant::now();
        let answering = async {
            if reach.is_none() {
                *reach = Some(self.reach().await);
            }
            match reach {
                Some(Ok(reach)) => self.recall(reach, call).await,
                Some(Err(problem)) => wrong(problem),
                None => wrong(ENOUGH),
            }
        };
        let answer = timeout(self.time_left, answering).await;
        self.time_left = self.time_left.saturating_sub(started.elapsed());
        answer.unwrap_or_else(|_| {
            self.answered = MAX_CALLS;
            wrong(TOO_SLOW)
        })
    }

    async fn recall(&self, reach: &Reach, call: &Call) -> Answer {
        let Asked { gateway, tenant, .. } = &self.asked;
        let (reach, tool, arguments) = (reach.clone(), call.tool, call.arguments.clone());
        let job = async move { reach.answer(tool, &arguments).await };
        gateway.pool.run(tenant.owner(), job).await.unwrap_or_else(|_| wrong(BUSY))
    }

    async fn reach(&self) -> Result<Reach, String> {
        let Asked { gateway, tenant, session, .. } = &self.asked;
        let found = gateway.store.session_now(tenant, *session).await.map_err(|error| error.to_string())?;
        let session = found.ok_or("the session is not in the store any more")?;
        Ok(Reach { store: gateway.store.clone(), tenant: tenant.clone(), session })
    }

    /// As much of an answer as there is room for.
    fn fitted(&mut self, mut answer: Answer) -> Answer {
        let room = self.asked.room;
        if answer.text.len() > room {
            let end = (0..=room.saturating_sub(CUT.len())).rev().find(|at| answer.text.is_char_boundary(*at));
            answer = match end.unwrap_or_default() {
                0 => wrong(NO_ROOM),
                end => Answer { text: format!("{}{CUT}", &answer.text[..end]), ..answer },
            };
        }
        self.asked.room = room.saturating_sub(answer.text.len());
        answer
    }

    /// Asks again, with what was said since; where that is too long, with less, and where it has fields that are refused, without.
    async fn ask(&mut self, calls: &[Call], results: Vec<Answer>) -> Result<Response, Trouble> {
        let dialect = self.asked.dialect;
        let mut said = self.said.clone();
        said.extend(behind(dialect, calls, &results));
        let mut answer = self.send(&said).await?;
        if let Some(Trouble::TooLong { .. } | Trouble::TooLarge(_)) = &answer.trouble {
            said.clone_from(&self.said);
            said.extend(behind(dialect, calls, &vec![wrong(NO_ROOM); calls.len()]));
            answer = self.send(&said).await?;
        }
        if matches!(answer.trouble, Some(Trouble::BadRequest(_))) && dialect == Dialect::Chat {
            said = said.iter().map(chat::plain).collect();
            answer = self.send(&said).await?;
        }
        self.said = said;
        match answer.trouble {
            Some(trouble) => Err(trouble),
            None => Ok(answer),
        }
    }

    async fn send(&self, said: &[Value]) -> Result<Response, Trouble> {
        let Asked { gateway, dialect, parts, .. } = &self.asked;
        let mut headers = forward::outgoing(&parts.headers);
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        headers.remove(CONTENT_ENCODING);
        let (body, said) = (self.asked.body.clone(), said.to_vec());
        // Once a model was reminded often enough, it may not call anything.
        let is_last = self.reminders >= MAX_REMINDERS || self.rounds + 1 >= MAX_ROUNDS;
        let dialect = *dialect;
        let join = move || joined(dialect, &body, &said, is_last).unwrap_or(body);
        let joined = gateway.pool.compute(self.asked.tenant.owner(), join).await;
        let body = joined.unwrap_or_else(|_| self.asked.body.clone());
        self.reports_later(body::about(body.len()));
        let answer = gateway.forward(dialect, parts, headers, body.into()).await;
        if !answer.as_ref().is_ok_and(|answer| answer.trouble.is_none()) {
            self.reports_later(Tokens::ZERO);
        }
        answer
    }

    /// Notes what was sent for an answer whose usage is still to come.
    fn reports_later(&self, tokens: Tokens) {
        self.spent.lock().unwrap_or_else(PoisonError::into_inner).unreported = tokens;
    }

    /// Remembers what was said, for the requests that go on from here.
    fn remember(&mut self, calls: &[Call], results: &[Answer]) {
        let shown = self.sieve.shown();
        let mut beside = Vec::new();
        if self.asked.dialect == Dialect::Messages {
            beside = calls
                .iter()
                .zip(results)
                .map(|(call, answer)| result(self.asked.dialect, call, answer))
                .collect();
        } else {
            self.said.extend(behind(self.asked.dialect, calls, results));
        }
        let text = |value: &Value| value.to_string();
        let aside = Aside {
            after: self.asked.after,
            shown: Shown::of(&shown).hash(&self.asked.tenant.identities()),
            instead: self.said.iter().map(text).collect(),
            beside: beside.iter().map(text).collect(),
            is_stored: false,
        };
        self.spent.lock().unwrap_or_else(PoisonError::into_inner).aside = Some(aside);
    }
}

/// A body with what was said behind it; once a model was reminded often enough, it may not call anything.
fn joined(dialect: Dialect, body: &Bytes, said: &[Value], is_last: bool) -> Option<Bytes> {
    let text = std::str::from_utf8(body).ok()?;
    let said: Vec<String> = said.iter().map(Value::to_string).collect();
    let (transcript, _) = wire::parse(dialect, text).ok()?;
    let longer = transcript.with_messages(&said.join(","));
    if !is_last {
        return Some(longer.into());
    }
    let (transcript, _) = wire::parse(dialect, &longer).ok()?;
    let none = if dialect == Dialect::Messages { json!({"type": "none"}) } else { json!("none") };
    let set = Edit::Set { object: transcript.root(), key: "tool_choice", json: none.to_string() };
    Some(Rewrite::new(&transcript, vec![set]).ok()?.apply(&longer).into())
}

fn wrong(said: &str) -> Answer {
    Answer { text: said.to_owned(), is_error: true }
}

/// The result of a call, as a dialect has it.
fn result(dialect: Dialect, call: &Call, answer: &Answer) -> Value {
    let (id, text) = (&call.id, &answer.text);
    match dialect {
        Dialect::Chat => json!({"role": "tool", "tool_call_id": id, "content": text}),
        Dialect::Responses => json!({"type": "function_call_output", "call_id": id, "output": text}),
        Dialect::Messages if answer.is_error => {
            json!({"type": "tool_result", "tool_use_id": id, "content": text, "is_error": true})
        }
        Dialect::Messages => json!({"type": "tool_result", "tool_use_id": id, "content": text}),
    }
}

/// The messages or items that carry results.
fn behind(dialect: Dialect, calls: &[Call], results: &[Answer]) -> Vec<Value> {
    let results = calls.iter().zip(results).map(|(call, answer)| result(dialect, call, answer));
    match dialect {
        Dialect::Messages => vec![json!({"role": "user", "content": results.collect::<Vec<_>>()})],
        Dialect::Chat | Dialect::Responses => results.collect(),
    }
}
