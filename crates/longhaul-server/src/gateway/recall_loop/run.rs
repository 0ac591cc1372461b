//! Runs the recall loop: while a model calls only recall tools, it is answered and asked again, all within
//! one reply to the client.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderValue;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING};
use http::request::Parts;
use longhaul_engine::keyed_hash::KeyedHash;
use longhaul_engine::prices::Usage;
use longhaul_engine::{ApiFormat, Edit, Rewrite, Tokens, wire};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use super::inject::{HiddenToolTurn, ShownReply};
use super::stream_filter::{RecallCall, ReplyOutcome, StreamFilter, new_filter};
use super::{chat, responses};
use crate::gateway::{Gateway, body, forward};
use crate::recall::{RecallScope, ToolAnswer};
use crate::store::{SessionId, Tenant};
use crate::upstream::SseDecoder;
use crate::upstream::{BodyStream, Response, UpstreamError};

/// The largest number of recall calls that are answered within one reply, over all rounds
/// (docs/gateway-reference.md).
const MAX_CALLS: usize = 8;
/// The longest time that recall calls may take within one reply (docs/gateway-reference.md), because a client
/// waits.
const RECALL_TIMEOUT: Duration = Duration::from_secs(10);
/// The number of times that a model is told that the limit is reached, before it may call no tool at all.
/// Chosen by hand.
const MAX_REMINDERS: usize = 2;
/// The largest number of rounds within one reply.
const MAX_ROUNDS: usize = MAX_CALLS + MAX_REMINDERS + 1;
const TOO_SLOW_MESSAGE: &str =
    "This took too long, and nothing more can be recalled in this turn. Continue with what you have.";
const LIMIT_MESSAGE: &str =
    "Nothing more can be recalled in this turn. Continue with what you have; you can recall again in your next turn.";
const NO_ROOM_MESSAGE: &str =
    "There is no room left in the context window for this. Continue with what you have, or ask for less.";
const BUSY_MESSAGE: &str = "Nothing can be recalled at the moment. Try again in your next turn.";
const CUT_NOTICE: &str = "\n[cut: there is no room left in the context window for more]";
/// The largest reply, in bytes, that is read whole.
const MAX_DOCUMENT_BYTES: usize = 64 * 1024 * 1024;

/// The result of the recall loop: the usage of a reply with all its rounds, and the hidden turn.
#[derive(Default)]
pub(in crate::gateway) struct RecallLoopResult {
    /// The usage of the first reply, which is the one to the client's own request.
    pub(in crate::gateway) first_reply: Option<Usage>,
    /// The usage of all replies.
    pub(in crate::gateway) all_replies: Usage,
    /// The estimated tokens that were sent for a reply whose usage is not reported yet.
    pub(in crate::gateway) unreported_tokens: Tokens,
    /// The hidden tool turn that later requests must contain.
    pub(in crate::gateway) hidden_turn: Option<HiddenToolTurn>,
}

/// A request whose model can call the recall tools.
pub(in crate::gateway) struct RecallLoopRequest {
    pub(in crate::gateway) gateway: Arc<Gateway>,
    pub(in crate::gateway) api_format: ApiFormat,
    pub(in crate::gateway) parts: Parts,
    /// The body as it was sent, with the recall tools.
    pub(in crate::gateway) body: Bytes,
    /// The hash of its newest message.
    pub(in crate::gateway) newest_message: KeyedHash,
    pub(in crate::gateway) tenant: Tenant,
    pub(in crate::gateway) session: SessionId,
    /// The bytes of recalled text that still fit into the window.
    pub(in crate::gateway) recall_bytes_left: usize,
}

/// The recall loop of one request.
pub(in crate::gateway) struct RecallLoop {
    request: RecallLoopRequest,
    filter: Box<dyn StreamFilter>,
    decoder: SseDecoder,
    reply_body: BodyStream,
    /// The hidden messages or items that follow the body.
    hidden_messages: Vec<Value>,
    /// The rounds so far. In each, the model called only recall tools.
    rounds: usize,
    /// The rounds in which calls were no longer answered.
    reminders: usize,
    /// The recall calls that were answered.
    answered_calls: usize,
    /// Whether no further call is answered, because one took too long.
    has_stopped_answering: bool,
    /// The time that is left for answering calls.
    time_left: Duration,
    /// Whether anything was hidden from the client.
    has_hidden: bool,
    /// Whether the whole reply was passed on.
    is_over: bool,
    result: Arc<Mutex<RecallLoopResult>>,
}

impl RecallLoop {
    /// Creates the loop with the body of the first reply.
    pub(in crate::gateway) fn new(
        request: RecallLoopRequest,
        reply_body: BodyStream,
        result: Arc<Mutex<RecallLoopResult>>,
    ) -> Self {
        let filter = new_filter(request.api_format);
        Self {
            request,
            filter,
            decoder: SseDecoder::default(),
            reply_body,
            hidden_messages: Vec::new(),
            rounds: 0,
            reminders: 0,
            answered_calls: 0,
            has_stopped_answering: false,
            time_left: RECALL_TIMEOUT,
            has_hidden: false,
            is_over: false,
            result,
        }
    }

    /// Returns the next piece of the visible stream; none at its end.
    pub(in crate::gateway) async fn next(&mut self) -> Result<Option<Bytes>, UpstreamError> {
        let mut out = Vec::new();
        while out.is_empty() && !self.is_over {
            let piece = self.reply_body.next().await?;
            for event in self.decoder.feed(piece.as_deref().unwrap_or_default()) {
                self.filter.feed_event(event, &mut out);
            }
            if piece.is_none() {
                out.extend(self.decoder.take_rest());
            }
            if (piece.is_none() || self.filter.has_ended()) && !self.continue_after_reply(&mut out).await? {
                self.is_over = true;
            }
        }
        Ok((!out.is_empty()).then(|| out.into()))
    }

    /// Returns the visible reply, if replies are documents. A reply that cannot be parsed is returned
    /// unchanged.
    pub(in crate::gateway) async fn collect_document(mut self) -> Result<Bytes, UpstreamError> {
        loop {
            let bytes = self.read_document().await?;
            let Ok(document) = serde_json::from_slice(&bytes) else { return Ok(bytes) };
            self.filter.feed_document(document);
            if !self.continue_after_reply(&mut Vec::new()).await? {
                // A Responses document repeats the tools of its request, including ours.
                let is_untouched = !self.has_hidden && self.request.api_format != ApiFormat::Responses;
                return Ok(if is_untouched { bytes } else { self.filter.shown_document().to_string().into() });
            }
        }
    }

    async fn read_document(&mut self) -> Result<Bytes, UpstreamError> {
        let mut all = Vec::new();
        while let Some(piece) = self.reply_body.next().await? {
            if all.len() + piece.len() > MAX_DOCUMENT_BYTES {
                return Err(UpstreamError::CutShort);
            }
            all.extend_from_slice(&piece);
        }
        Ok(all.into())
    }

    /// Handles the end of a reply. Returns whether another reply follows.
    async fn continue_after_reply(&mut self, out: &mut Vec<u8>) -> Result<bool, UpstreamError> {
        let Some(ReplyOutcome { reply, calls, has_recall_calls, has_client_calls, usage }) = self.filter.outcome()
        else {
            self.filter.write_ending(out);
            return Ok(false);
        };
        self.add_usage(usage);
        self.has_hidden |= has_recall_calls;
        let is_broken_off = has_recall_calls && calls.is_empty();
        if is_broken_off || self.reminders > MAX_REMINDERS || self.rounds >= MAX_ROUNDS {
            // Some recall calls stay unanswered. A history with an open call is invalid, so the reply is not
            // recorded as a hidden turn.
            self.filter.write_ending(out);
            return Ok(false);
        }
        self.hidden_messages.extend(match self.request.api_format {
            ApiFormat::Responses => responses::resendable_items(reply, &self.request.body),
            ApiFormat::Chat | ApiFormat::Messages => reply,
        });
        let results = self.answer_calls(&calls).await;
        if calls.is_empty() || has_client_calls {
            self.filter.write_ending(out);
            if self.rounds > 0 || !calls.is_empty() {
                self.record_hidden_turn(&calls, &results);
            } else {
                self.hidden_messages.clear();
            }
            return Ok(false);
        }
        self.rounds += 1;
        self.filter.start_next_round();
        self.decoder = SseDecoder::default();
        self.reply_body = self.ask_again(&calls, results).await?.body;
        Ok(true)
    }

    fn add_usage(&self, usage: Option<Usage>) {
        let mut result = self.result.lock();
        let usage = usage.unwrap_or_default();
        result.first_reply.get_or_insert(usage);
        result.all_replies = result.all_replies + usage;
        result.unreported_tokens = Tokens::ZERO;
    }

    /// Answers all recall calls of a reply.
    async fn answer_calls(&mut self, calls: &[RecallCall]) -> Vec<ToolAnswer> {
        let mut results = Vec::new();
        let answered_before = self.answered_calls;
        let mut recall_scope = None;
        for call in calls {
            let answer = if self.has_stopped_answering || self.answered_calls >= MAX_CALLS {
                error_answer(LIMIT_MESSAGE)
            } else {
                self.answered_calls += 1;
                self.request.gateway.metrics.count_recall(call.tool);
                self.answer_call(call, &mut recall_scope).await
            };
            results.push(self.fit_to_window(answer));
        }
        self.reminders += usize::from(!calls.is_empty() && self.answered_calls == answered_before);
        results
    }

    /// Answers one call within the time that is left. Searching needs the processor, so it runs in the pool.
    async fn answer_call(
        &mut self,
        call: &RecallCall,
        recall_scope: &mut Option<Result<RecallScope, String>>,
    ) -> ToolAnswer {
        let started = Instant::now();
        let answering = async {
            if recall_scope.is_none() {
                *recall_scope = Some(self.find_session().await);
            }
            match recall_scope {
                Some(Ok(recall_scope)) => self.run_recall_tool(recall_scope, call).await,
                Some(Err(problem)) => error_answer(problem),
                None => error_answer(LIMIT_MESSAGE),
            }
        };
        let answer = timeout(self.time_left, answering).await;
        self.time_left = self.time_left.saturating_sub(started.elapsed());
        answer.unwrap_or_else(|_| {
            self.has_stopped_answering = true;
            error_answer(TOO_SLOW_MESSAGE)
        })
    }

    async fn run_recall_tool(&self, scope: &RecallScope, call: &RecallCall) -> ToolAnswer {
        let RecallLoopRequest { gateway, tenant, .. } = &self.request;
        let (scope, tool, arguments) = (scope.clone(), call.tool, call.arguments.clone());
        let job = async move { scope.call(tool, &arguments).await };
        gateway.pool.run(tenant.pool_owner(), job).await.unwrap_or_else(|_| error_answer(BUSY_MESSAGE))
    }

    async fn find_session(&self) -> Result<RecallScope, String> {
        let RecallLoopRequest { gateway, tenant, session, .. } = &self.request;
        let found = gateway.store.session_by_id(tenant, *session).await.map_err(|error| error.to_string())?;
        let session = found.ok_or("the session is no longer in the store")?;
        Ok(RecallScope { store: gateway.store.clone(), tenant: tenant.clone(), session })
    }

    /// Cuts an answer to the bytes that still fit into the window.
    fn fit_to_window(&mut self, mut answer: ToolAnswer) -> ToolAnswer {
        let bytes_left = self.request.recall_bytes_left;
        if answer.text.len() > bytes_left {
            let end =
                (0..=bytes_left.saturating_sub(CUT_NOTICE.len())).rev().find(|at| answer.text.is_char_boundary(*at));
            answer = match end.unwrap_or_default() {
                0 => error_answer(NO_ROOM_MESSAGE),
                end => ToolAnswer { text: format!("{}{CUT_NOTICE}", &answer.text[..end]), ..answer },
            };
        }
        self.request.recall_bytes_left = bytes_left.saturating_sub(answer.text.len());
        answer
    }

    /// Asks the model again, with the hidden messages and the results. If that is too long, it sends errors
    /// instead of the results. If a Chat server refuses fields that its own reply had, it sends the messages
    /// again with standard fields only.
    async fn ask_again(&mut self, calls: &[RecallCall], results: Vec<ToolAnswer>) -> Result<Response, UpstreamError> {
        let api_format = self.request.api_format;
        let mut appended_messages = self.hidden_messages.clone();
        appended_messages.extend(result_messages(api_format, calls, &results));
        let mut answer = self.send(&appended_messages).await?;
        if let Some(UpstreamError::TooLong { .. } | UpstreamError::TooLarge(_)) = &answer.error {
            appended_messages.clone_from(&self.hidden_messages);
            appended_messages.extend(result_messages(
                api_format,
                calls,
                &vec![error_answer(NO_ROOM_MESSAGE); calls.len()],
            ));
            answer = self.send(&appended_messages).await?;
        }
        if matches!(answer.error, Some(UpstreamError::BadRequest(_))) && api_format == ApiFormat::Chat {
            appended_messages = appended_messages.iter().map(chat::with_standard_fields).collect();
            answer = self.send(&appended_messages).await?;
        }
        self.hidden_messages = appended_messages;
        match answer.error {
            Some(error) => Err(error),
            None => Ok(answer),
        }
    }

    async fn send(&self, appended_messages: &[Value]) -> Result<Response, UpstreamError> {
        let RecallLoopRequest { gateway, api_format, parts, .. } = &self.request;
        let mut headers = forward::outgoing_headers(&parts.headers);
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        headers.remove(CONTENT_ENCODING);
        let (body, appended_messages) = (self.request.body.clone(), appended_messages.to_vec());
        // After the last reminder the model may not call any tool.
        let is_last = self.reminders >= MAX_REMINDERS || self.rounds + 1 >= MAX_ROUNDS;
        let api_format = *api_format;
        let join = move || {
            let longer = append_messages(api_format, &body, &appended_messages);
            let longer = if is_last { longer.and_then(|longer| forbid_tools(api_format, &longer)) } else { longer };
            longer.map_or(body, Bytes::from)
        };
        let body = gateway.pool.compute(self.request.tenant.pool_owner(), join).await;
        let body = body.unwrap_or_else(|_| self.request.body.clone());
        self.set_unreported(body::estimate_tokens(body.len()));
        let answer = gateway.forward(api_format, parts, headers, body.into()).await;
        if !answer.as_ref().is_ok_and(|answer| answer.error.is_none()) {
            self.set_unreported(Tokens::ZERO);
        }
        answer
    }

    /// Sets the tokens that were sent for a reply whose usage is not reported yet.
    fn set_unreported(&self, tokens: Tokens) {
        self.result.lock().unreported_tokens = tokens;
    }

    /// Records the hidden tool turn for later requests of the session.
    fn record_hidden_turn(&mut self, calls: &[RecallCall], results: &[ToolAnswer]) {
        let shown = self.filter.shown_messages();
        let mut extra_results = Vec::new();
        if self.request.api_format == ApiFormat::Messages {
            extra_results = calls
                .iter()
                .zip(results)
                .map(|(call, answer)| result_json(self.request.api_format, call, answer))
                .collect();
        } else {
            self.hidden_messages.extend(result_messages(self.request.api_format, calls, results));
        }
        let text = |value: &Value| value.to_string();
        let hidden_turn = HiddenToolTurn {
            answered_message: self.request.newest_message,
            shown_hash: ShownReply::from_messages(&shown).hash(&self.request.tenant.hasher()),
            replacement: self.hidden_messages.iter().map(text).collect(),
            extra_results: extra_results.iter().map(text).collect(),
            is_stored: false,
        };
        self.result.lock().hidden_turn = Some(hidden_turn);
    }
}

/// Appends messages to a body.
fn append_messages(api_format: ApiFormat, body: &Bytes, messages: &[Value]) -> Option<String> {
    let text = std::str::from_utf8(body).ok()?;
    let messages: Vec<String> = messages.iter().map(Value::to_string).collect();
    let (transcript, _) = wire::parse(api_format, text).ok()?;
    Some(transcript.body_with_appended(&messages.join(",")))
}

/// Returns a body with which the model may not call any tool.
fn forbid_tools(api_format: ApiFormat, body: &str) -> Option<String> {
    let (transcript, _) = wire::parse(api_format, body).ok()?;
    let no_tool = if api_format == ApiFormat::Messages { json!({"type": "none"}) } else { json!("none") };
    let set = Edit::Set { object: transcript.root(), key: "tool_choice", json: no_tool.to_string() };
    Some(Rewrite::new(&transcript, vec![set]).ok()?.apply(body))
}

fn error_answer(message: &str) -> ToolAnswer {
    ToolAnswer { text: message.to_owned(), is_error: true }
}

/// Returns the result of a call in an API format.
fn result_json(api_format: ApiFormat, call: &RecallCall, answer: &ToolAnswer) -> Value {
    let (id, text) = (&call.id, &answer.text);
    match api_format {
        ApiFormat::Chat => json!({"role": "tool", "tool_call_id": id, "content": text}),
        ApiFormat::Responses => json!({"type": "function_call_output", "call_id": id, "output": text}),
        ApiFormat::Messages if answer.is_error => {
            json!({"type": "tool_result", "tool_use_id": id, "content": text, "is_error": true})
        }
        ApiFormat::Messages => json!({"type": "tool_result", "tool_use_id": id, "content": text}),
    }
}

/// Returns the messages or items with the results of calls.
fn result_messages(api_format: ApiFormat, calls: &[RecallCall], results: &[ToolAnswer]) -> Vec<Value> {
    let results = calls.iter().zip(results).map(|(call, answer)| result_json(api_format, call, answer));
    match api_format {
        ApiFormat::Messages => vec![json!({"role": "user", "content": results.collect::<Vec<_>>()})],
        ApiFormat::Chat | ApiFormat::Responses => results.collect(),
    }
}
