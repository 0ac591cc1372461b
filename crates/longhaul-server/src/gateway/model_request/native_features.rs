//! The provider features of a request that the gateway serves because the upstream lacks them.
//!
//! They are removed from the request before anything else reads it, and the reply reports what was done.

use std::sync::Arc;

use axum::response::Response;
use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH};
use http::{HeaderMap, HeaderName};
use longhaul_engine::Tokens;

use super::{ACTION_HEADER, ModelRequest, set_header};
use crate::gateway::body;
use crate::gateway::native::{self, CompactionSigner, ReplyAnnotator, ReplyNotes, RequestedCompaction, ServedRequest};
use crate::gateway::own_replies::ReplyForm;
use crate::gateway::prepare::RequestJob;
use crate::pool::JobError;
use crate::session::RequestAction;

/// The response header that lists the features that the gateway served.
pub(super) const SERVED_HEADER: HeaderName = HeaderName::from_static("x-longhaul-served");

/// The features of one request that the gateway served, and their effects.
#[derive(Default)]
pub(super) struct ServedFeatures {
    /// The notes that must be added to the reply.
    pub(super) reply_notes: Option<ReplyNotes>,
    /// Whether the request contains a compaction that the gateway handed to the client earlier.
    pub(super) continues_client_compaction: bool,
    /// The tokens that the client's edits cleared from the history.
    pub(super) cleared_tokens: Tokens,
    /// The value of the response header [`SERVED_HEADER`].
    pub(super) header_value: String,
}

/// A compaction that the client's request asked for.
pub(super) enum ClientCompaction {
    /// The reply of the model begins with it.
    WithReply,
    /// It is the whole reply, and no model is asked.
    AsReply(Response),
}

impl ModelRequest {
    /// Removes the features that the gateway serves. The request without them replaces `self.original`.
    pub(super) async fn take_native_features(
        &mut self,
        signer: &CompactionSigner,
        text: Bytes,
    ) -> Result<(Bytes, Option<RequestedCompaction>), String> {
        let served = native::serve_features(&self.gateway, self.owner(), signer, self.api_format, &text).await?;
        let Some(served) = served else {
            return Ok((text, None));
        };
        let ServedRequest {
            body,
            reply_notes,
            requested_compaction,
            continues_client_compaction,
            cleared_tokens,
            served_features,
        } = served;
        self.original = body.clone();
        self.parts.headers.remove(CONTENT_ENCODING);
        native::remove_served_betas(&mut self.parts.headers);
        self.native_features = ServedFeatures {
            reply_notes,
            continues_client_compaction,
            cleared_tokens,
            header_value: served_features.join(", "),
        };
        Ok((body, requested_compaction))
    }

    /// Lets the session make the compaction that the client asked for, and adds it to the reply.
    pub(super) async fn compact_for_client(
        &mut self,
        job: &Arc<RequestJob>,
        signer: &CompactionSigner,
        requested: &RequestedCompaction,
    ) -> Result<Option<ClientCompaction>, &'static str> {
        let (compress, signer) = (requested.to_compress_request(), signer.clone());
        let compaction = job.run_in_pool(|job, cancel| async move {
            let compacted = native::compact_history(&job, compress, cancel).await?;
            Ok((compacted.to_block(&signer), compacted.action, compacted.action_name()))
        });
        let (block, action, action_name) = compaction.await.flatten()?;
        let Some(block) = block else { return Ok(None) };
        let mut notes = self.native_features.reply_notes.take().unwrap_or_default();
        notes.compaction_block = Some(block);
        if !requested.pause_after {
            self.native_features.reply_notes = Some(notes);
            return Ok((action == RequestAction::Compacted).then_some(ClientCompaction::WithReply));
        }
        let (text, id) = (job.text.clone(), self.gateway.next_request_id());
        let build_reply = move || native::compaction_reply(std::str::from_utf8(&text).unwrap_or_default(), &id, notes);
        let response = self.gateway.pool.compute(self.owner(), build_reply).await;
        let mut response = response.map_err(JobError::name)?;
        let headers = response.headers_mut();
        set_header(headers, ACTION_HEADER, action_name);
        set_header(headers, SERVED_HEADER, &self.native_features.header_value);
        Ok(Some(ClientCompaction::AsReply(response)))
    }

    /// Returns the filter that adds the notes to the reply; none if there are no notes or the reply is
    /// compressed.
    pub(super) fn reply_annotator(&self, status: u16, headers: &mut HeaderMap) -> Option<ReplyAnnotator> {
        let notes = self.native_features.reply_notes.clone().filter(|_| status < 300)?;
        if body::is_content_encoded(headers) {
            tracing::warn!("the reply is compressed, so the notes about its request could not be added");
            return None;
        }
        headers.remove(CONTENT_LENGTH);
        let form = if body::is_event_stream(headers) { ReplyForm::Events } else { ReplyForm::Document };
        Some(ReplyAnnotator::new(notes, form))
    }
}
