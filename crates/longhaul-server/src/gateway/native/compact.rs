//! Compactions that a client asks for. The session makes them as it does for `/compress`, and the client
//! receives them signed.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use bytes::Bytes;
use http::StatusCode;
use longhaul_engine::transcript::{CallStatus, Transcript, Turn};
use longhaul_engine::{ApiFormat, CancelFlag, Tokens, wire};
use serde_json::{Value, json};

use super::reply_notes::{ReplyAnnotator, ReplyNotes};
use super::signed_compaction::{CompactionSigner, SignedCompaction};
use super::token_count::count_request;
use super::{COMPACTION_TYPE, RequestedCompaction, expand, target_size};
use crate::gateway::body::BodyLimits;
use crate::gateway::commands;
use crate::gateway::in_flight::{DEFAULT_OUTPUT_RESERVE, RequestKind};
use crate::gateway::model_request::{self, ACTION_HEADER, SESSION_HEADER, TOKENS_HEADER, set_header};
use crate::gateway::own_replies::{self, ReplyForm};
use crate::gateway::passthrough::PassthroughAccount;
use crate::gateway::prepare::RequestJob;
use crate::gateway::{Gateway, body};
use crate::pool::Owner;
use crate::session::{CompressRequest, RequestAction, RequestSizes};
use crate::store::Tenant;
use crate::upstream::NativeFeature;

/// The smallest history that is compacted. A shorter one has nothing to summarize. Chosen by hand.
const MIN_COMPACT_TOKENS: Tokens = Tokens(2_000);
/// The visible text of a compaction that has no checkpoint because it only shortened tool output.
const SHORTENED_NOTE: &str =
    "[Longhaul checkpoint: earlier tool output was shortened; nothing was summarized.]\n\n[End of the checkpoint.]";

/// A history after the session compacted it.
pub(in crate::gateway) struct CompactedHistory {
    /// The compacted request body.
    body: String,
    /// The bytes of the request that it replaces.
    original_bytes: usize,
    /// The checkpoint in it, if it has one.
    checkpoint: Option<String>,
    pub(in crate::gateway) action: RequestAction,
    pub(in crate::gateway) sizes: RequestSizes,
    session: Option<String>,
}

/// Lets the session compact the history of a request, in the pool. The error is the reason for the header
/// `x-longhaul-action`.
pub(in crate::gateway) async fn compact_history(
    job: &RequestJob,
    compress: CompressRequest,
    cancel: CancelFlag,
) -> Result<CompactedHistory, &'static str> {
    let text = std::str::from_utf8(&job.text).unwrap_or_default();
    let answers_commands = job.gateway.settings.commands.is_on();
    let stripped =
        answers_commands.then(|| commands::find_commands(job.api_format, text)).flatten().map(|found| found.body);
    let incoming = job.parse(stripped.as_deref().unwrap_or(text)).map_err(|_| "unreadable")?;
    if incoming.message_hashes.is_empty() {
        return Err("unreadable");
    }
    let mut claim = job.claim_session(&incoming).await;
    claim.begin_preparation(cancel);
    let prepared = claim.session().compress(compress, &incoming, job.gateway.now()).await;
    claim.end_preparation();
    let session = claim.session();
    for line in &prepared.notices {
        tracing::info!(session = session.name(), "{line}");
    }
    let (is_recorded, name) = (session.is_recorded(), session.name());
    let checkpoint = session.ledger().checkpoint().map(str::to_owned);
    job.gateway.live_sessions.index_by_newest_message(&claim, incoming.message_hashes.last());
    if !is_recorded {
        return Err("store");
    }
    let (sizes, original_bytes) = (prepared.sizes.ok_or("engine")?, text.len());
    let body = prepared.body.into_owned();
    Ok(CompactedHistory { body, original_bytes, checkpoint, action: prepared.action, sizes, session: name })
}

impl RequestedCompaction {
    /// Returns the command that asks the session for this compaction.
    pub(in crate::gateway) fn to_compress_request(&self) -> CompressRequest {
        CompressRequest { focus: self.focus.clone(), to_tokens: Some(self.target_tokens), ..CompressRequest::default() }
    }
}

impl CompactedHistory {
    /// Returns the name of the action, for a header.
    pub(in crate::gateway) fn action_name(&self) -> &'static str {
        match self.action {
            RequestAction::Unchanged => "none",
            RequestAction::Replayed => "replayed",
            RequestAction::Compacted => "compacted",
        }
    }

    /// Returns the compaction block for a Messages client; nothing if the compaction saves less than a tenth
    /// of the bytes.
    pub(in crate::gateway) fn to_block(&self, signer: &CompactionSigner) -> Option<Value> {
        // The comparison uses bytes, because the tokens are scaled to the counts of the upstream.
        if self.body.len() as f64 > 0.9 * self.original_bytes as f64 {
            return None;
        }
        let (transcript, _) = wire::parse(ApiFormat::Messages, &self.body).ok()?;
        let compaction = SignedCompaction {
            messages: messages_from(&transcript, transcript.system_message_count()),
            covers: Vec::new(),
        };
        let content = self.checkpoint.as_deref().unwrap_or(SHORTENED_NOTE);
        let signed_text = signer.sign(ApiFormat::Messages, &compaction)?;
        Some(json!({"type": COMPACTION_TYPE, "content": content, "encrypted_content": signed_text}))
    }
}

/// Returns the JSON of the messages from index `first` on.
fn messages_from(transcript: &Transcript<'_>, first: usize) -> Vec<String> {
    (first..transcript.message_count()).filter_map(|at| transcript.message_json(at)).map(str::to_owned).collect()
}

/// Returns a reply that consists only of a compaction, for a client that wants to see it before the model is
/// asked.
pub(in crate::gateway) fn compaction_reply(text: &str, id: &str, notes: ReplyNotes) -> Response {
    let request: Value = serde_json::from_str(text).unwrap_or_default();
    let usage =
        json!({"input_tokens": 0, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 0});
    let message = |stop_reason: Option<&str>| {
        json!({
            "id": format!("msg_{id}"), "type": "message", "role": "assistant", "model": request["model"], "content": [],
            "stop_reason": stop_reason, "stop_sequence": null, "usage": usage,
        })
    };
    let stop_reason = Some(COMPACTION_TYPE);
    let annotate = |form: ReplyForm, text: String| {
        let mut annotator = ReplyAnnotator::new(notes, form);
        let mut out = annotator.feed(text.as_bytes());
        out.extend(annotator.finish());
        out
    };
    if request["stream"] != true {
        let mut response = own_replies::json_response(StatusCode::OK, &Value::Null);
        *response.body_mut() = Body::from(annotate(ReplyForm::Document, message(stop_reason).to_string()));
        return response;
    }
    let events = [
        json!({"type": "message_start", "message": message(None)}),
        json!({"type": "message_delta", "delta": {"stop_reason": stop_reason, "stop_sequence": null}, "usage": {"output_tokens": 0}}),
        json!({"type": "message_stop"}),
    ];
    let named = |event: &Value| own_replies::sse_event(event["type"].as_str().unwrap_or_default(), event);
    own_replies::stream_response(annotate(ReplyForm::Events, events.iter().map(named).collect()))
}

/// The body of a request to `/v1/responses/compact`.
#[derive(serde::Deserialize)]
struct CompactRequest {
    model: Option<String>,
    input: Option<Value>,
    previous_response_id: Option<String>,
}

impl Gateway {
    /// Handles `POST /v1/responses/compact`: forwards it if the upstream supports it, and serves it
    /// otherwise.
    pub(in crate::gateway) async fn handle_responses_compact(
        State(gateway): State<Arc<Self>>,
        request: Request,
    ) -> Response {
        let api_format = ApiFormat::Responses;
        let (parts, incoming) = request.into_parts();
        let principal = match gateway.authenticate(&parts, api_format).await {
            Ok(principal) => principal,
            Err(denied) => return denied.to_response(api_format),
        };
        let limits = gateway.settings.limits;
        let original = match body::read(incoming, BodyLimits::new(&limits), &gateway.body_memory).await {
            Ok(original) => original,
            Err(error) => return error.to_response(api_format),
        };
        let is_served_here =
            !gateway.settings.upstreams.for_api_format(api_format).has_native(NativeFeature::ResponsesCompact)
                && gateway.settings.compression.is_on()
                && !model_request::wants_bypass(&parts.headers);
        let estimate = body::estimate_body_tokens(&parts.headers, original.len());
        let in_flight =
            match gateway.admit(&principal, (api_format, RequestKind::Other), (estimate, DEFAULT_OUTPUT_RESERVE)).await
            {
                Ok(in_flight) => in_flight,
                Err(denied) => return denied.to_response(api_format),
            };
        let account = Some(PassthroughAccount::new(in_flight, original.len()));
        if !is_served_here {
            return gateway.forward_passthrough(parts, api_format, original.into(), account).await;
        }
        let client_session_id = model_request::client_session_id(&parts.headers);
        let owner = principal.tenant.as_ref().map_or(Owner::NO_TENANT, Tenant::pool_owner);
        let text = gateway.body_text(owner, &parts.headers, &original).await;
        let served = match (principal.tenant.clone(), text) {
            (Some(tenant), Ok(text)) => {
                let gateway = Arc::clone(&gateway);
                let job = Arc::new(RequestJob {
                    gateway,
                    tenant,
                    api_format,
                    text,
                    client_session_id,
                    continues_client_compaction: false,
                    summary_client: None,
                });
                job.run_in_pool(serve_compact).await.flatten()
            }
            (None, _) => Err("store"),
            (_, Err(reason)) => Err(reason.name()),
        };
        match served {
            Ok(response) => response,
            Err(reason) => {
                tracing::warn!("request passed through unchanged: {reason}");
                let mut response = gateway.forward_passthrough(parts, api_format, original.into(), account).await;
                set_header(response.headers_mut(), ACTION_HEADER, &format!("bypassed:{reason}"));
                response
            }
        }
    }
}

/// Serves a request to compact. An error is the reason why the original request must be forwarded instead.
async fn serve_compact(job: Arc<RequestJob>, cancel: CancelFlag) -> Result<Response, &'static str> {
    let text = std::str::from_utf8(&job.text).map_err(|_| "unreadable")?;
    let bad_request =
        |message: &str| Ok(own_replies::error_response(ApiFormat::Responses, StatusCode::BAD_REQUEST, message));
    let request: CompactRequest = match serde_json::from_str(text) {
        Ok(request) => request,
        Err(error) => return bad_request(&format!("the request body is invalid: {error}")),
    };
    if request.previous_response_id.is_some() {
        return bad_request(
            "previous_response_id: only the provider has that history, and the gateway does not know whether it \
             supports this route; send the items as input",
        );
    }
    if request.model.is_none() {
        return bad_request("model: expected the name of a model");
    }
    let items = match request.input {
        Some(Value::Array(items)) => items,
        Some(Value::String(text)) => vec![json!({"role": "user", "content": text})],
        _ => return bad_request("input: expected text or a list of items"),
    };
    let signer = CompactionSigner::new(&job.tenant, job.gateway.settings.limits.max_body_bytes);
    let expanded = expand::expand_compactions(ApiFormat::Responses, text, &signer);
    if expanded.unreadable_count > 0 {
        tracing::warn!("{} compactions were not made here and are passed through unchanged", expanded.unreadable_count);
    }
    let text = expanded.body.map_or_else(|| job.text.clone(), Bytes::from);
    let job = job.with_text(text);
    let history_tokens = count_request(ApiFormat::Responses, std::str::from_utf8(&job.text).unwrap_or_default());
    let compacted = if history_tokens < MIN_COMPACT_TOKENS {
        None
    } else {
        let compress = CompressRequest { to_tokens: Some(target_size(history_tokens)), ..CompressRequest::default() };
        Some(compact_history(&job, compress, cancel).await?)
    };
    compact_response(&job, &signer, &items, compacted.as_ref(), history_tokens)
}

/// Builds the response: all user messages, then one compaction item, then the calls that still wait for their
/// results, because the client appends those results.
fn compact_response(
    job: &RequestJob,
    signer: &CompactionSigner,
    items: &[Value],
    compacted: Option<&CompactedHistory>,
    history_tokens: Tokens,
) -> Result<Response, &'static str> {
    let text = std::str::from_utf8(&job.text).unwrap_or_default();
    let body = compacted.map_or(text, |compacted| compacted.body.as_str());
    let (transcript, _) = wire::parse(ApiFormat::Responses, body).map_err(|_| "unreadable")?;
    let mut messages = match messages_from(&transcript, 0) {
        // A plain text as `input` is not a list of messages.
        none if none.is_empty() => items.iter().map(Value::to_string).collect(),
        messages => messages,
    };
    let first_open =
        transcript.turns.last().filter(|turn| has_open_call(turn)).and_then(|turn| turn.owned_elements.first());
    let first_open = first_open.and_then(|id| transcript.message_of(*id)).unwrap_or(messages.len());
    let open_calls = messages.split_off(first_open.min(messages.len()));
    let covers = items.iter().map(|item| signer.content_hash(item)).collect();
    let signed_text = signer.sign(ApiFormat::Responses, &SignedCompaction { messages, covers }).ok_or("engine")?;
    let id = job.gateway.next_request_id();
    let users = items.iter().filter(|item| item["role"] == "user").enumerate();
    let mut output: Vec<Value> = users.map(|(at, item)| user_item(item, &format!("msg_{id}_{at}"))).collect();
    output.push(json!({"id": format!("cmp_{id}"), "type": COMPACTION_TYPE, "encrypted_content": signed_text}));
    output.extend(open_calls.iter().filter_map(|item| serde_json::from_str::<Value>(item).ok()));
    let sizes =
        compacted.map_or(RequestSizes { original: history_tokens, sent: history_tokens }, |compacted| compacted.sizes);
    let document = json!({
        "id": format!("resp_{id}"), "object": "response.compaction", "created_at": job.gateway.now().0 / 1000,
        "output": output,
        // No model was asked, so nothing is billed.
        "usage": {
            "input_tokens": 0, "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0}, "output_tokens": 0,
            "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 0,
        },
    });
    let mut response = own_replies::json_response(StatusCode::OK, &document);
    let headers = response.headers_mut();
    set_header(headers, ACTION_HEADER, compacted.map_or("none", CompactedHistory::action_name));
    set_header(headers, TOKENS_HEADER, &format!("{}/{}", sizes.original.number(), sizes.sent.number()));
    if let Some(session) = compacted.and_then(|compacted| compacted.session.as_deref()) {
        set_header(headers, SESSION_HEADER, session);
    }
    Ok(response)
}

/// Returns whether a call of this turn still waits for its result.
fn has_open_call(turn: &Turn<'_>) -> bool {
    turn.tool_calls().iter().any(|tool_call| tool_call.status == CallStatus::Open)
}

/// Converts a user message to an output item.
fn user_item(item: &Value, id: &str) -> Value {
    let content = match &item["content"] {
        Value::String(text) => json!([{"type": "input_text", "text": text}]),
        content => content.clone(),
    };
    json!({"id": id, "type": "message", "role": "user", "status": "completed", "content": content})
}
