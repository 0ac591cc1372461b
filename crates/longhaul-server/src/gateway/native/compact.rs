//! A compaction that a client asks for, made by the session as `/compress` makes one, and handed out sealed.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use bytes::Bytes;
use http::StatusCode;
use longhaul_engine::transcript::{Status, Transcript, Unit};
use longhaul_engine::{Dialect, Stop, Tokens, wire};
use serde_json::{Value, json};

use super::count::size;
use super::seal::{Seal, Sealed};
use super::told::{Says, Told};
use super::{COMPACTION, Due, share, unfold};
use crate::gateway::body::Pace;
use crate::gateway::commands;
use crate::gateway::in_flight::{Kind, OUTPUT_RESERVE};
use crate::gateway::passing::Paid;
use crate::gateway::prepare::Job;
use crate::gateway::speech::{self, Form};
use crate::gateway::turn::{self, ACTION, SESSION, TOKENS, set};
use crate::gateway::{Gateway, body};
use crate::pool::Owner;
use crate::session::{Action, Compress, Sizes};
use crate::store::Tenant;
use crate::upstream::Feature;

/// Of shorter histories nothing can be folded.
const SHORTEST: Tokens = Tokens(2_000);
/// What is said where a compaction needed no words: what it leaves stands beside it, sealed.
const SHORTENED: &str = "[Longhaul checkpoint: earlier tool output was shortened where it stands; nothing was folded.]\n\n[End of the checkpoint.]";

/// What a history became.
pub(in crate::gateway) struct Folded {
    /// The body.
    body: String,
    /// The length of the request that it takes the place of, in bytes.
    original_bytes: usize,
    /// The words that stand in it for what is gone.
    checkpoint: Option<String>,
    pub(in crate::gateway) action: Action,
    pub(in crate::gateway) sizes: Sizes,
    session: Option<String>,
}

/// Lets the session make a compaction of a request. Nothing where it made none; why, where it could not. It is work for the pool.
pub(in crate::gateway) async fn fold(
    job: &Job,
    compress: Compress,
    stop: Stop,
) -> Result<Folded, &'static str> {
    let text = std::str::from_utf8(&job.text).unwrap_or_default();
    let is_on = job.gateway.settings.commands.is_on();
    let stripped = is_on.then(|| commands::find(job.dialect, text)).flatten().map(|found| found.body);
    let incoming = job.read(stripped.as_deref().unwrap_or(text)).map_err(|_| "unreadable")?;
    if incoming.chain.is_empty() {
        return Err("unreadable");
    }
    let mut claim = job.gateway.claim(&job.tenant, &incoming).await;
    claim.begins(stop);
    let turn = claim.session().compress(compress, &incoming, job.gateway.now()).await;
    claim.ends();
    let session = claim.session();
    for line in &turn.said {
        tracing::info!(session = session.name(), "{line}");
    }
    let (is_recorded, name) = (session.is_recorded(), session.name());
    let checkpoint = session.ledger().checkpoint().map(str::to_owned);
    job.gateway.live.ends_with(&claim, incoming.chain.last());
    if !is_recorded {
        return Err("store");
    }
    let (sizes, original_bytes) = (turn.sizes.ok_or("engine")?, text.len());
    let body = turn.body.into_owned();
    Ok(Folded { body, original_bytes, checkpoint, action: turn.action, sizes, session: name })
}

impl Due {
    /// As the session is asked for it.
    pub(in crate::gateway) fn compress(&self) -> Compress {
        Compress { focus: self.focus.clone(), to_tokens: Some(self.to_tokens), ..Compress::default() }
    }
}

impl Folded {
    /// What was done, for a header.
    pub(in crate::gateway) fn done(&self) -> &'static str {
        match self.action {
            Action::None => "none",
            Action::Replayed => "replayed",
            Action::Compacted => "compacted",
        }
    }

    /// The block that a Messages client is handed; nothing where too little was gained to tell.
    pub(in crate::gateway) fn block(&self, seal: &Seal) -> Option<Value> {
        // In bytes: tokens are scaled to the upstream's own counts, which need not mean anything.
        if self.body.len() as f64 > 0.9 * self.original_bytes as f64 {
            return None;
        }
        let (transcript, _) = wire::parse(Dialect::Messages, &self.body).ok()?;
        let sealed = Sealed { messages: from(&transcript, transcript.lead()), covers: Vec::new() };
        let content = self.checkpoint.as_deref().unwrap_or(SHORTENED);
        let sealed = seal.close(Dialect::Messages, &sealed)?;
        Some(json!({"type": COMPACTION, "content": content, "encrypted_content": sealed}))
    }
}

/// The messages from one on, as they are written.
fn from(transcript: &Transcript<'_>, first: usize) -> Vec<String> {
    (first..transcript.message_count()).filter_map(|at| transcript.message(at)).map(str::to_owned).collect()
}

/// The answer that is a compaction and nothing else: the client wants to see it before the model is asked.
pub(in crate::gateway) fn paused(text: &str, id: &str, says: Says) -> Response {
    let request: Value = serde_json::from_str(text).unwrap_or_default();
    let usage = json!({"input_tokens": 0, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 0});
    let message = |stop: Option<&str>| {
        json!({
            "id": format!("msg_{id}"), "type": "message", "role": "assistant", "model": request["model"], "content": [],
            "stop_reason": stop, "stop_sequence": null, "usage": usage,
        })
    };
    let stop = Some(COMPACTION);
    let told = |form: Form, text: String| {
        let mut told = Told::new(says, form);
        let mut out = told.feed(text.as_bytes());
        out.extend(told.end());
        out
    };
    if request["stream"] != true {
        let mut response = speech::document(StatusCode::OK, &Value::Null);
        *response.body_mut() = Body::from(told(Form::Whole, message(stop).to_string()));
        return response;
    }
    let events = [
        json!({"type": "message_start", "message": message(None)}),
        json!({"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": null}, "usage": {"output_tokens": 0}}),
        json!({"type": "message_stop"}),
    ];
    let named = |event: &Value| speech::event(event["type"].as_str().unwrap_or_default(), event);
    speech::stream(told(Form::Events, events.iter().map(named).collect()))
}

/// What `/v1/responses/compact` is asked for.
#[derive(serde::Deserialize)]
struct Asked {
    model: Option<String>,
    input: Option<Value>,
    previous_response_id: Option<String>,
}

impl Gateway {
    /// `POST /v1/responses/compact`: passed on where the upstream has it, else served.
    pub(in crate::gateway) async fn compact(State(gateway): State<Arc<Self>>, request: Request) -> Response {
        let dialect = Dialect::Responses;
        let (parts, incoming) = request.into_parts();
        let guest = match gateway.let_in(&parts, dialect).await {
            Ok(guest) => guest,
            Err(closed) => return closed.answer(dialect),
        };
        let limits = gateway.settings.limits;
        let original = match body::read(incoming, Pace::of(&limits), &gateway.room).await {
            Ok(original) => original,
            Err(problem) => return problem.answer(dialect),
        };
        let is_ours = !gateway.settings.upstreams.of(dialect).has(Feature::ResponsesCompact)
            && gateway.settings.compression.is_on()
            && !turn::is_bypassed(&parts.headers);
        let estimate = body::estimate(&parts.headers, original.len());
        let flight = match gateway.admit(&guest, (dialect, Kind::Other), (estimate, OUTPUT_RESERVE)).await {
            Ok(flight) => flight,
            Err(closed) => return closed.answer(dialect),
        };
        let paid = Some(Paid::new(flight, original.len()));
        if !is_ours {
            return gateway.hand_over(parts, dialect, original.into(), paid).await;
        }
        let scope = turn::scope(&parts.headers);
        let owner = guest.tenant.as_ref().map_or(Owner::EVERYBODY, Tenant::owner);
        let text = gateway.text(owner, &parts.headers, &original).await;
        let served = match (guest.tenant.clone(), text) {
            (Some(tenant), Ok(text)) => {
                let gateway = Arc::clone(&gateway);
                let job = Arc::new(Job { gateway, tenant, dialect, text, scope, is_continued: false });
                job.at_work(serve).await.flatten()
            }
            (None, _) => Err("store"),
            (_, Err(reason)) => Err(reason.name()),
        };
        match served {
            Ok(response) => response,
            Err(reason) => {
                tracing::warn!("the request goes as it came: {reason}");
                let mut response = gateway.hand_over(parts, dialect, original.into(), paid).await;
                set(response.headers_mut(), ACTION, &format!("bypassed:{reason}"));
                response
            }
        }
    }
}

/// The answer, or why there is none of ours.
async fn serve(job: Arc<Job>, stop: Stop) -> Result<Response, &'static str> {
    let text = std::str::from_utf8(&job.text).map_err(|_| "unreadable")?;
    let wrong = |said: &str| Ok(speech::error(Dialect::Responses, StatusCode::BAD_REQUEST, said));
    let asked: Asked = match serde_json::from_str(text) {
        Ok(asked) => asked,
        Err(error) => return wrong(&format!("the body is no request to compact: {error}")),
    };
    if asked.previous_response_id.is_some() {
        return wrong(
            "previous_response_id: only the provider has that history, and it is not known to have this route; send the items as input",
        );
    }
    if asked.model.is_none() {
        return wrong("model: expected the name of a model");
    }
    let given = match asked.input {
        Some(Value::Array(items)) => items,
        Some(Value::String(said)) => vec![json!({"role": "user", "content": said})],
        _ => return wrong("input: expected text or a list of items"),
    };
    let seal = Seal::new(&job.tenant, job.gateway.settings.limits.body);
    let unfolded = unfold::unfold(Dialect::Responses, text, &seal);
    if unfolded.foreign > 0 {
        tracing::warn!("{} compactions are not ours to read, and go as they came", unfolded.foreign);
    }
    let text = unfolded.body.map_or_else(|| job.text.clone(), Bytes::from);
    let job = job.with_text(text);
    let whole = size(Dialect::Responses, std::str::from_utf8(&job.text).unwrap_or_default());
    let folded = if whole < SHORTEST {
        None
    } else {
        let compress = Compress { to_tokens: Some(share(whole)), ..Compress::default() };
        Some(fold(&job, compress, stop).await?)
    };
    answer(&job, &seal, &given, folded.as_ref(), whole)
}

/// All that the user said, then one item for everything, then calls that wait for their results: a client adds those behind them.
fn answer(
    job: &Job,
    seal: &Seal,
    given: &[Value],
    folded: Option<&Folded>,
    whole: Tokens,
) -> Result<Response, &'static str> {
    let text = std::str::from_utf8(&job.text).unwrap_or_default();
    let body = folded.map_or(text, |folded| folded.body.as_str());
    let (transcript, _) = wire::parse(Dialect::Responses, body).map_err(|_| "unreadable")?;
    let mut messages = match from(&transcript, 0) {
        // A lone text is no list.
        none if none.is_empty() => given.iter().map(Value::to_string).collect(),
        messages => messages,
    };
    let open = transcript.units.last().filter(|unit| is_open(unit)).and_then(|unit| unit.owns.first());
    let open = open.and_then(|id| transcript.message_of(*id)).unwrap_or(messages.len());
    let waiting = messages.split_off(open.min(messages.len()));
    let covers = given.iter().map(|item| seal.known_by(item)).collect();
    let sealed = seal.close(Dialect::Responses, &Sealed { messages, covers }).ok_or("engine")?;
    let id = job.gateway.request_id();
    let users = given.iter().filter(|item| item["role"] == "user").enumerate();
    let mut output: Vec<Value> = users.map(|(at, item)| user(item, &format!("msg_{id}_{at}"))).collect();
    output.push(json!({"id": format!("cmp_{id}"), "type": COMPACTION, "encrypted_content": sealed}));
    output.extend(waiting.iter().filter_map(|item| serde_json::from_str::<Value>(item).ok()));
    let sizes = folded.map_or(Sizes { whole, sent: whole }, |folded| folded.sizes);
    let document = json!({
        "id": format!("resp_{id}"), "object": "response.compaction", "created_at": job.gateway.now().0 / 1000,
        "output": output,
        // No model was asked, and nothing is billed.
        "usage": {
            "input_tokens": 0, "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0}, "output_tokens": 0,
            "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 0,
        },
    });
    let mut response = speech::document(StatusCode::OK, &document);
    let headers = response.headers_mut();
    set(headers, ACTION, folded.map_or("none", Folded::done));
    set(headers, TOKENS, &format!("{}/{}", sizes.whole.number(), sizes.sent.number()));
    if let Some(session) = folded.and_then(|folded| folded.session.as_deref()) {
        set(headers, SESSION, session);
    }
    Ok(response)
}

/// Whether a call still waits for its result.
fn is_open(unit: &Unit<'_>) -> bool {
    unit.exchanges().iter().any(|exchange| exchange.status == Status::Open)
}

/// What the user said as an item.
fn user(item: &Value, id: &str) -> Value {
    let content = match &item["content"] {
        Value::String(text) => json!([{"type": "input_text", "text": text}]),
        content => content.clone(),
    };
    json!({"id": id, "type": "message", "role": "user", "status": "completed", "content": content})
}
