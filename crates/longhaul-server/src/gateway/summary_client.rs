//! Asks models for summaries in the background, for the sessions of the gateway.
//!
//! ```text
//! request ──▶ prepare: the session plans a summary ──▶ sent, answered ──▶ settled: the summary is requested
//!                          with this client in memory                       │
//!                          until the request is settled                     └──▶ ask ──▶ its own settlement
//! ```
//!
//! A session's own model is asked with the headers of the request that was just answered, at the same path. So the
//! provider sees the same client, and reads everything but the instruction from its cache. The credential stays in
//! memory until that one call has ended, and is never stored.

use std::sync::{Arc, OnceLock};

use http::HeaderValue;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE};
use http::request::Parts;
use longhaul_engine::ApiFormat;

use super::auth::Principal;
use super::in_flight::{DEFAULT_OUTPUT_RESERVE, RequestKind, SummaryCall};
use super::relay::{EndKind, ReplyEnding};
use super::{Gateway, body, forward};
use crate::store::SessionId;
use crate::upstream::{
    ModelClient, ModelReply, PartialUsage, Payer, ReplyReader, SummaryRequest, SummaryRequestBody, UpstreamError,
    prompt_request_body,
};

/// The number of summaries that are written at the same time in one gateway. Chosen by hand: each has the text of a
/// whole session in memory.
pub(super) const MAX_RUNNING_SUMMARIES: usize = 16;

/// Asks models for the summaries of one session, for the client whose request is being served.
pub(super) struct SummaryClient {
    gateway: Arc<Gateway>,
    principal: Principal,
    api_format: ApiFormat,
    /// The head of the client's request, with its credential.
    parts: Parts,
    session: OnceLock<SessionId>,
}

impl SummaryClient {
    pub(super) fn new(gateway: Arc<Gateway>, principal: Principal, api_format: ApiFormat, parts: Parts) -> Self {
        Self { gateway, principal, api_format, parts, session: OnceLock::new() }
    }

    /// Sets the session that the cost of its summaries is recorded for.
    pub(super) fn set_session(&self, session: Option<SessionId>) {
        if let Some(session) = session {
            let _ = self.session.set(session);
        }
    }

    /// Sends a request with the client's headers, and reads the whole reply.
    async fn ask_as_client(&self, api_format: ApiFormat, body: String) -> Result<ModelReply, UpstreamError> {
        let gateway = &self.gateway;
        let mut headers = forward::outgoing_headers(&self.parts.headers);
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.remove(CONTENT_ENCODING);
        let mut answer = gateway.forward(api_format, &self.parts, headers, body.into()).await?;
        if let Some(error) = answer.error {
            return Err(error);
        }
        let upstream = Arc::clone(gateway.settings.upstreams.for_api_format(api_format));
        let mut reader = ReplyReader::new(upstream, api_format);
        while let Some(piece) = answer.body.next().await? {
            reader.feed(&piece)?;
        }
        reader.finish()
    }
}

#[async_trait::async_trait]
impl ModelClient for SummaryClient {
    async fn ask(&self, request: SummaryRequest) -> Result<ModelReply, UpstreamError> {
        let gateway = &self.gateway;
        let Ok(_slot) = gateway.summary_slots.try_acquire() else {
            return Err(UpstreamError::Overloaded { delay: None });
        };
        let SummaryRequest { upstream, payer, model, price, body, timeouts } = request;
        let (api_format, body) = match body {
            SummaryRequestBody::Raw { api_format, body } => (api_format, body),
            SummaryRequestBody::FromPrompt(prompt) => {
                let api_format = match payer {
                    Payer::Client => self.api_format,
                    Payer::Upstream => upstream.provider().default_api_format(),
                };
                (api_format, prompt_request_body(upstream.provider(), api_format, &prompt))
            }
        };
        let input = body::estimate_tokens(body.len());
        let kind =
            RequestKind::Summary(SummaryCall { session: self.session.get().copied(), model: model.clone(), price });
        let admitted = gateway.admit(&self.principal, (api_format, kind), (input, DEFAULT_OUTPUT_RESERVE)).await;
        // The key's daily limit is reached. Its own requests are refused as well.
        let mut in_flight = admitted.map_err(|_| UpstreamError::RateLimited { delay: None })?;
        in_flight.mark_called(input);
        let result = match payer {
            Payer::Client => self.ask_as_client(api_format, body).await,
            Payer::Upstream => {
                let body = SummaryRequestBody::Raw { api_format, body };
                gateway.models.ask(SummaryRequest { upstream, payer, model, price, body, timeouts }).await
            }
        };
        match &result {
            Ok(reply) => {
                in_flight.mark_answered(200);
                let reply = Some(reply.clone());
                in_flight.finish(ReplyEnding { kind: EndKind::Complete, reply, so_far: PartialUsage::default() });
            }
            // The provider may have read the prompt, so it is charged by estimate.
            Err(error @ (UpstreamError::TimedOut(_) | UpstreamError::CutShort | UpstreamError::Unreachable(_))) => {
                in_flight.mark_unanswered(error, http::StatusCode::BAD_GATEWAY.as_u16());
            }
            Err(_) => in_flight.mark_answered(http::StatusCode::BAD_GATEWAY.as_u16()),
        }
        result
    }
}

impl Gateway {
    /// Counts what earlier processes spent on summaries today against the daily limit.
    pub(super) async fn load_summary_spending(&self) {
        let Some(budget) = &self.settings.session.limits.daily_budget else { return };
        let now = self.now();
        match self.store.summary_spending(crate::store::UtcDay::containing(now)).await {
            Ok(spent) => budget.record(spent, now),
            Err(error) => tracing::warn!("cannot read what was spent on summaries today: {error}"),
        }
    }
}
