//! The result of processing a request: the body to send, what was done, and the notices for people.

use std::borrow::Cow;

use longhaul_engine::Tokens;
use longhaul_engine::plan::CompactionReport;

use super::host::Host;
use super::request_size::{MeasuredBy, MeasuredSize};

/// A request that is ready to be sent.
#[derive(Debug, Clone)]
pub struct PreparedRequest<'b> {
    /// The body to send.
    pub body: Cow<'b, str>,
    /// The change that the session made to the client's body.
    pub action: RequestAction,
    /// The reason for the action, in words.
    pub reason: String,
    /// The report of the compaction, if one was made or tried.
    pub report: Option<CompactionReport>,
    /// The size before a compaction; `None` if the body cannot be parsed.
    pub measured: Option<MeasuredSize>,
    /// The client's size and the sent size, on the provider's scale if that is known; `None` if the body
    /// cannot be parsed.
    pub sizes: Option<RequestSizes>,
    /// Lines for people. They are never sent to the model.
    pub notices: Vec<String>,
}

impl<'b> PreparedRequest<'b> {
    /// Returns the body unchanged because of a problem, and reports it.
    pub(super) fn unchanged(body: &'b str, problem: &str, reporter: &mut Reporter<'_>) -> Self {
        let reason = format!("the request is passed through unchanged: {problem}");
        reporter.report(reason.clone());
        let (body, reporter) = (Cow::Borrowed(body), std::mem::take(&mut reporter.notices));
        Self {
            body,
            action: RequestAction::Unchanged,
            reason,
            report: None,
            measured: None,
            sizes: None,
            notices: reporter,
        }
    }
}

/// How full a session's context window is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowUsage {
    /// The size of the newest request.
    pub sizes: RequestSizes,
    /// The origin of the size.
    pub measured_by: MeasuredBy,
    /// The model's context window.
    pub window: Tokens,
    /// The size at which a compaction is triggered.
    pub threshold: Tokens,
}

/// The size of a request before and after the session changed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestSizes {
    /// The tokens that the client sent.
    pub original: Tokens,
    /// The tokens that are sent to the provider.
    pub sent: Tokens,
}

/// The change that a session made to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestAction {
    /// The client's body is sent unchanged.
    Unchanged,
    /// The ledger of an earlier compaction was replayed.
    Replayed,
    /// The request was compacted now.
    Compacted,
}

/// Passes notices to the host at once, and collects them for the caller.
pub(super) struct Reporter<'h> {
    host: &'h dyn Host,
    pub(super) notices: Vec<String>,
}

impl<'h> Reporter<'h> {
    pub(super) fn new(host: &'h dyn Host) -> Self {
        Self { host, notices: Vec::new() }
    }

    pub(super) fn report(&mut self, line: impl Into<String>) {
        let line = line.into();
        self.host.report(&line);
        self.notices.push(line);
    }
}
