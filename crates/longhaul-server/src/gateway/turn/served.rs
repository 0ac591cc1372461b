//! What of a request is served here because its upstream lacks it: taken out before anything else, and told with the answer.

use std::sync::Arc;

use axum::response::Response;
use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, HeaderName};
use longhaul_engine::Tokens;

use super::{ACTION, Call, set};
use crate::gateway::native::{self, Due, Says, Seal, Taken, Told};
use crate::gateway::prepare::Job;
use crate::gateway::speech::Form;
use crate::pool::NotDone;
use crate::session::Action;

/// What of the request was served here, because its upstream lacks it.
pub(super) const SERVED: HeaderName = HeaderName::from_static("x-longhaul-served");

/// What was served of a request because its upstream lacks it.
#[derive(Default)]
pub(super) struct Native {
    /// What its answer is to say.
    pub(super) says: Option<Says>,
    /// Whether it goes on from a compaction that the client was handed.
    pub(super) is_continued: bool,
    /// The tokens that were cleared.
    pub(super) saved: Tokens,
    /// In words.
    pub(super) served: String,
}

/// A compaction that a request asked for.
pub(super) enum Compacted {
    /// It goes with the answer.
    Sent,
    /// It is the answer.
    Shown(Response),
}

impl Call {
    /// Takes out of the request what is for us where the upstream lacks it. From now on that is the request.
    pub(super) async fn take_native(
        &mut self,
        seal: &Seal,
        text: Bytes,
    ) -> Result<(Bytes, Option<Due>), String> {
        let taken = native::take(&self.gateway, self.owner(), seal, self.dialect, &text).await?;
        let Some(taken) = taken else {
            return Ok((text, None));
        };
        let Taken { body, says, due, is_continued, saved, served } = taken;
        self.original = body.clone();
        self.parts.headers.remove(CONTENT_ENCODING);
        native::without_betas(&mut self.parts.headers);
        self.native = Native { says, is_continued, saved, served: served.join(", ") };
        Ok((body, due))
    }

    /// Lets the session make the compaction that a request asks for, and has the answer tell of it.
    pub(super) async fn compact(
        &mut self,
        job: &Arc<Job>,
        seal: &Seal,
        due: &Due,
    ) -> Result<Option<Compacted>, &'static str> {
        let (compress, seal) = (due.compress(), seal.clone());
        let made = job.at_work(|job, stop| async move {
            let folded = native::fold(&job, compress, stop).await?;
            Ok((folded.block(&seal), folded.action, folded.done()))
        });
        let (block, action, done) = made.await.flatten()?;
        let Some(block) = block else { return Ok(None) };
        let mut says = self.native.says.take().unwrap_or_default();
        says.block = Some(block);
        if !due.pauses {
            self.native.says = Some(says);
            return Ok((action == Action::Compacted).then_some(Compacted::Sent));
        }
        let (text, id) = (job.text.clone(), self.gateway.request_id());
        let show = move || native::paused(std::str::from_utf8(&text).unwrap_or_default(), &id, says);
        let shown = self.gateway.pool.compute(self.owner(), show).await;
        let mut response = shown.map_err(NotDone::name)?;
        let headers = response.headers_mut();
        set(headers, ACTION, done);
        set(headers, SERVED, &self.native.served);
        Ok(Some(Compacted::Shown(response)))
    }

    /// What an answer is to say beyond what the upstream says, where it can be added.
    pub(super) fn told(&self, status: u16, headers: &mut HeaderMap) -> Option<Told> {
        let says = self.native.says.clone().filter(|_| status < 300)?;
        if headers.get(CONTENT_ENCODING).is_some_and(|packed| packed != "identity") {
            tracing::warn!("the answer is packed, and does not say what was done to its request");
            return None;
        }
        headers.remove(CONTENT_LENGTH);
        let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let form = if kind.starts_with("text/event-stream") { Form::Events } else { Form::Whole };
        Some(Told::new(says, form))
    }
}
