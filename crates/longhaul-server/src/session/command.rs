//! The commands that a person gives a session by hand.

use longhaul_engine::Tokens;

use super::prepared_request::PreparedRequest;
use super::request_context::Purpose;
use super::request_size::SizeTracker;
use super::{IncomingRequest, LiveSession};
use longhaul_engine::Timestamp;

/// The number of newest exchanges that `/compress here` keeps if no number is given. Chosen by hand.
const DEFAULT_KEPT_EXCHANGES: usize = 2;

/// A command for one session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionCommand {
    /// `/compress`: compact now, whatever the threshold, even while automatic compaction is paused.
    Compress(CompressRequest),
}

/// The options of a compaction that a person requests.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CompressRequest {
    /// The topic that the checkpoint keeps before anything else.
    pub focus: Option<String>,
    /// The number of newest exchanges (a user message and all that follows it) to keep unchanged. Everything
    /// before them is compacted.
    pub keep_newest: Option<usize>,
    /// Whether to show the result without applying it.
    pub preview: Preview,
    /// The maximum size of the result, in place of the policy's own.
    pub to_tokens: Option<Tokens>,
}

/// Whether a compaction is only shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Preview {
    /// Apply the compaction.
    #[default]
    No,
    /// Plan and show the compaction, and change nothing.
    Yes,
}

impl SessionCommand {
    /// Parses `/compress`, `/compress <focus>`, `/compress here [N]` and `/compress --preview`; returns
    /// `None` for any other text.
    #[must_use]
    pub fn parse(typed: &str) -> Option<Self> {
        let rest = typed.trim().strip_prefix("/compress")?;
        if !rest.is_empty() && !rest.starts_with(char::is_whitespace) {
            return None;
        }
        let mut words: Vec<&str> = rest.split_whitespace().collect();
        let all = words.len();
        words.retain(|word| *word != "--preview");
        let preview = if words.len() < all { Preview::Yes } else { Preview::No };
        let here = match words.as_slice() {
            ["here"] => Some(DEFAULT_KEPT_EXCHANGES),
            ["here", number] => number.parse().ok().filter(|number| *number > 0),
            _ => None,
        };
        let focus = (here.is_none() && !words.is_empty()).then(|| words.join(" "));
        Some(Self::Compress(CompressRequest { focus, keep_newest: here, preview, to_tokens: None }))
    }
}

impl LiveSession {
    /// Runs a command. The returned request has the notices for the person. Its body is the session as it is
    /// now; the caller need not send it.
    pub async fn run_command<'b>(
        &mut self,
        command: SessionCommand,
        body: &'b str,
        now: Timestamp,
    ) -> PreparedRequest<'b> {
        let SessionCommand::Compress(compress) = command;
        self.parse_and_process(body, &Purpose::Compress(compress), now).await
    }

    /// Compacts a request that was parsed already, because a person asked for it.
    pub async fn compress<'b>(
        &mut self,
        compress: CompressRequest,
        incoming: &IncomingRequest<'b>,
        now: Timestamp,
    ) -> PreparedRequest<'b> {
        let mut prepared = self.process(incoming, &Purpose::Compress(compress), now, &mut |_, _, _| None).await;
        prepared.notices.extend(self.save_pending().await);
        prepared
    }

    /// Continues the session with another model. Token counts and cached prefixes of the old model are
    /// dropped, and the next request is measured against the new model's window.
    pub fn switch_model(&mut self, model: &str) {
        if self.model != model {
            model.clone_into(&mut self.settings.model);
            self.size_tracker = SizeTracker::default();
            self.state.prompt_cache.forget();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_typed_is_read() {
        let read = |typed: &str| {
            SessionCommand::parse(typed).map(|SessionCommand::Compress(compress)| {
                (compress.focus, compress.keep_newest, compress.preview == Preview::Yes)
            })
        };
        let focus = |focus: &str| Some(focus.to_owned());
        assert_eq!(read("/compress"), Some((None, None, false)));
        assert_eq!(read(" /compress database schema "), Some((focus("database schema"), None, false)));
        assert_eq!(read("/compress here"), Some((None, Some(2), false)));
        assert_eq!(read("/compress here 5 --preview"), Some((None, Some(5), true)));
        assert_eq!(read("/compress --preview"), Some((None, None, true)));
        assert_eq!(read("/compress here and there"), Some((focus("here and there"), None, false)));
        assert_eq!((read("/compressed"), read("compress")), (None, None));
    }
}
