//! What the providers make of a request.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::Read;

use axum::body::Bytes;
use axum::http::HeaderMap;
use longhaul_engine::ApiFormat;
use serde_json::{Value, json};

use super::cache::{Cache, Keeping, Terms};
use super::content::{print_text, then};
use super::prompt::{Prompt, list};
use super::refusal::Refusal;
use super::reply::{Reply, Say};
use super::seen::Traffic;
use super::settings::{Room, Settings};
use super::tokens::Meter;
use super::{rules, thinking};

const LARGEST_BODY: usize = 32 * 1024 * 1024;

/// What each route speaks, and does.
const ROUTES: [(&str, ApiFormat, Does); 4] = [
    ("/v1/messages", ApiFormat::Messages, Does::Answers),
    ("/v1/messages/count_tokens", ApiFormat::Messages, Does::Counts),
    ("/v1/chat/completions", ApiFormat::Chat, Does::Answers),
    ("/v1/responses", ApiFormat::Responses, Does::Answers),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Does {
    Answers,
    Counts,
}

/// A request as it came, but unpacked.
pub(super) struct Asked<'r> {
    pub(super) path: &'r str,
    pub(super) headers: &'r HeaderMap,
    pub(super) body: &'r Bytes,
    pub(super) number: usize,
    /// In milliseconds.
    pub(super) now: i64,
}

/// What is answered.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) pieces: Vec<Bytes>,
    pub(super) streams: bool,
    pub(super) tokens: Option<Traffic>,
}

/// What the providers know.
pub(super) struct Providers {
    meter: Meter,
    cache: Cache,
    /// The stored responses of Responses, by whose and which they are.
    stored: HashMap<(u64, String), Stored>,
}

/// A response that a later request can go on from: what was asked, and what was said to it.
struct Stored {
    body: Bytes,
    output: Vec<Value>,
}

impl Asked<'_> {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    fn route(&self) -> Option<(ApiFormat, Does)> {
        let found = ROUTES.iter().find(|(path, _, _)| *path == self.path);
        found.map(|(_, api_format, does)| (*api_format, *does))
    }

    /// The one who asks, as a number.
    fn credential(&self, api_format: ApiFormat) -> Result<u64, Refusal> {
        let key = self.header("x-api-key").or_else(|| self.header("authorization"));
        key.map(print_text).ok_or_else(|| Refusal::of(api_format, 401))
    }
}

impl Providers {
    pub(super) fn new() -> Self {
        Self { meter: Meter::new(), cache: Cache::default(), stored: HashMap::new() }
    }

    /// The answer to a request, or the provider's refusal.
    pub(super) fn answer(&mut self, asked: &Asked<'_>, settings: &Settings) -> Answer {
        let Some((api_format, does)) = asked.route() else { return fails(asked, 404) };
        self.judged(asked, settings, api_format, does)
            .unwrap_or_else(|refusal| refused(&refusal, api_format, asked.number))
    }

    fn judged(
        &mut self,
        asked: &Asked<'_>,
        settings: &Settings,
        api_format: ApiFormat,
        does: Does,
    ) -> Result<Answer, Refusal> {
        if asked.body.len() > LARGEST_BODY {
            return Err(Refusal::of(api_format, 413));
        }
        let credential = asked.credential(api_format)?;
        if api_format == ApiFormat::Messages && asked.header("anthropic-version").is_none() {
            return Err(Refusal::invalid("anthropic-version: header is required"));
        }
        let (body, request) = parsed(asked.body)?;
        let Some(model) = request["model"].as_str() else {
            return Err(Refusal::invalid("model: Field required").param("model"));
        };
        let whole = match api_format {
            ApiFormat::Responses => self.whole(&request, credential)?,
            ApiFormat::Messages | ApiFormat::Chat => Cow::Borrowed(&request),
        };
        rules::judge(api_format, body, &request, &whole)?;
        let prompt = Prompt::of(api_format, &whole, &mut self.meter);
        match api_format {
            ApiFormat::Messages => {
                let betas = asked.header("anthropic-beta").unwrap_or_default();
                thinking::judge(&request, &prompt, settings.binding, betas)?;
            }
            ApiFormat::Responses => thinking::judge_reasoning(&request)?,
            ApiFormat::Chat => {}
        }
        let limits = settings.limits(model);
        if does == Does::Counts {
            let count = json!({ "input_tokens": prompt.tokens() }).to_string();
            return Ok(Answer { status: 200, pieces: vec![count.into()], streams: false, tokens: None });
        }
        fits(api_format, &request, prompt.tokens(), limits.window, settings.room)?;
        let keeping = match api_format {
            ApiFormat::Messages => Keeping::Marks,
            ApiFormat::Chat => settings.chat,
            ApiFormat::Responses => Keeping::Automatic,
        };
        let terms = Terms {
            keeping,
            minimum: limits.minimum,
            unmarked: i64::try_from(settings.unmarked.as_millis()).unwrap(),
            owner: then(credential, print_text(model)),
            now: asked.now,
        };
        let tokens = self.cache.send(&prompt, &terms);
        let say = (settings.speaker)(&request, asked.number);
        let reply = Reply {
            say: &say,
            tokens,
            output: self.spoken(&say),
            model,
            number: asked.number,
            created: asked.now / 1_000,
            signature: thinking::signature(prompt.prefix(), &say.thinking),
            encrypted: thinking::encrypted(prompt.prefix()),
            request: &request,
        };
        if api_format == ApiFormat::Responses && request["store"] != false {
            let (id, output) = reply.output_items();
            self.stored.insert((credential, id), Stored { body: asked.body.clone(), output });
        }
        let streams = request["stream"] == true;
        Ok(Answer { status: 200, pieces: reply.pieces(api_format), streams, tokens: Some(tokens) })
    }

    /// The request with what is stored of the response that it goes on from.
    fn whole<'r>(&self, request: &'r Value, credential: u64) -> Result<Cow<'r, Value>, Refusal> {
        if request["previous_response_id"].is_null() {
            return Ok(Cow::Borrowed(request));
        }
        let mut whole = request.clone();
        whole["input"] = Value::Array(self.history(request, credential)?);
        Ok(Cow::Owned(whole))
    }

    /// All items that a request goes on from, and its own.
    fn history(&self, request: &Value, credential: u64) -> Result<Vec<Value>, Refusal> {
        let mut history = Vec::new();
        if let Some(id) = request["previous_response_id"].as_str() {
            let Some(before) = self.stored.get(&(credential, id.to_owned())) else {
                let refusal = Refusal::invalid(format!("Previous response with id '{id}' not found."));
                return Err(refusal.code("previous_response_not_found").param("previous_response_id"));
            };
            history = self.history(&parsed(&before.body)?.1, credential)?;
            history.extend(before.output.iter().cloned());
        }
        match &request["input"] {
            Value::String(text) => history.push(json!({ "role": "user", "content": text })),
            input => history.extend(list(input).map(|(_, item)| item.clone())),
        }
        Ok(history)
    }

    /// The tokens of what the model says.
    fn spoken(&self, say: &Say) -> u64 {
        let calls = say.calls.iter().map(|call| self.meter.text(&call.name) + self.meter.text(&call.input.to_string()));
        calls.sum::<u64>() + self.meter.text(&say.thinking) + self.meter.text(&say.text)
    }
}

/// A failure that no request could have prevented, or a route that nobody has.
pub(super) fn fails(asked: &Asked<'_>, status: u16) -> Answer {
    let api_format = asked.route().map_or(ApiFormat::Chat, |(api_format, _)| api_format);
    refused(&Refusal::of(api_format, status), api_format, asked.number)
}

fn refused(refusal: &Refusal, api_format: ApiFormat, number: usize) -> Answer {
    let body = refusal.body(api_format, number);
    Answer { status: refusal.status, pieces: vec![body.into()], streams: false, tokens: None }
}

/// The body as it was before it was packed. What cannot be unpacked is left as it is, and is no JSON then.
pub(super) fn unpacked(headers: &HeaderMap, body: Bytes) -> Bytes {
    let mut plain = Vec::new();
    let packed = headers.get("content-encoding").and_then(|value| value.to_str().ok()).unwrap_or_default();
    let read = match packed {
        "gzip" => flate2::read::GzDecoder::new(&*body).read_to_end(&mut plain).is_ok(),
        "zstd" => ruzstd::decoding::StreamingDecoder::new(&*body)
            .is_ok_and(|mut decoder| decoder.read_to_end(&mut plain).is_ok()),
        _ => false,
    };
    if read { plain.into() } else { body }
}

fn parsed(body: &[u8]) -> Result<(&str, Value), Refusal> {
    let refuse = |why: String| Refusal::invalid(format!("The request body is not valid JSON: {why}"));
    let body = std::str::from_utf8(body).map_err(|why| refuse(why.to_string()))?;
    let request = body.parse().map_err(|why: serde_json::Error| refuse(why.to_string()))?;
    Ok((body, request))
}

fn fits(api_format: ApiFormat, request: &Value, prompt: u64, window: u64, room: Room) -> Result<(), Refusal> {
    let fields: &[&str] = match api_format {
        ApiFormat::Messages => &["max_tokens"],
        ApiFormat::Chat => &["max_completion_tokens", "max_tokens"],
        ApiFormat::Responses => &["max_output_tokens"],
    };
    let asked = fields.iter().find_map(|field| request[field].as_u64()).filter(|_| room == Room::Reserved);
    let reply = asked.unwrap_or_default();
    if prompt.saturating_add(reply) > window {
        return Err(Refusal::too_long(api_format, prompt, reply, window));
    }
    Ok(())
}
