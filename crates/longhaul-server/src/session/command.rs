//! What people ask a session for by hand.

use longhaul_engine::Tokens;

use super::gauge::Gauge;
use super::scene::Wanted;
use super::turn::Turn;
use super::{Incoming, Session};
use crate::agents::Moment;

/// So many newest exchanges stay where `here` says no number.
const HERE: usize = 2;

/// What somebody typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// `/compress`: a compaction now, whatever the threshold, also while the automatic one pauses.
    Compress(Compress),
}

/// How a compaction is wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Compress {
    /// A topic that is kept before all else.
    pub focus: Option<String>,
    /// So many newest exchanges stay as they are, and all before them goes.
    pub here: Option<usize>,
    /// Whether it is only looked at.
    pub preview: Preview,
    /// The largest result wanted, instead of the policy's own.
    pub to_tokens: Option<Tokens>,
}

/// Whether a compaction is only looked at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Preview {
    /// It is made.
    #[default]
    No,
    /// It is.
    Yes,
}

impl Command {
    /// Reads `/compress`, `/compress <focus>`, `/compress here [N]` and `/compress --preview`; nothing where a text is none of them.
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
            ["here"] => Some(HERE),
            ["here", number] => number.parse().ok().filter(|number| *number > 0),
            _ => None,
        };
        let focus = (here.is_none() && !words.is_empty()).then(|| words.join(" "));
        Some(Self::Compress(Compress { focus, here, preview, to_tokens: None }))
    }
}

impl Session {
    /// Does what somebody asked for. What there is to say about it is in the turn; its body is what the session comes to now, and
    /// need not be sent.
    pub async fn command<'b>(&mut self, command: Command, body: &'b str, now: Moment) -> Turn<'b> {
        let Command::Compress(compress) = command;
        self.read_and_settle(body, &Wanted::Compress(compress), now).await
    }

    /// Makes a compaction that somebody asked for, of a request that was read already.
    pub async fn compress<'b>(
        &mut self,
        compress: Compress,
        incoming: &Incoming<'b>,
        now: Moment,
    ) -> Turn<'b> {
        let mut turn = self.settle(incoming, &Wanted::Compress(compress), now, &mut |_, _, _| None).await;
        turn.said.extend(self.write().await);
        turn
    }

    /// The session goes on with another model: what was counted and cached says nothing any more, and the next request is held
    /// against the window of that one.
    pub fn switch(&mut self, model: &str) {
        if self.model != model {
            model.clone_into(&mut self.settings.model);
            self.gauge = Gauge::default();
            self.state.cached.forget();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_typed_is_read() {
        let read = |typed: &str| {
            Command::parse(typed).map(|Command::Compress(compress)| {
                (compress.focus, compress.here, compress.preview == Preview::Yes)
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
