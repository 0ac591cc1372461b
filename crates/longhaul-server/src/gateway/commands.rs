//! What a person types for us and not for the model: `/compress …`, `/context`, `/undo`, `/recall …`, or the same behind the word
//! `longhaul`, for agents that keep every slash to themselves.
//!
//! A command is a whole message: all that a person typed, apart from what known hosts wrap around it.
//!
//! A client keeps what was typed and what we answered in its history, and sends both again with every request. They are taken out of
//! each of them before anything else looks at it, so that neither the model nor the session ever sees them.

use std::sync::{Arc, LazyLock};

use axum::response::Response;
use longhaul_engine::transcript::{BlockKind, Unit, UnitKind};
use longhaul_engine::{Dialect, Edit, Rewrite, Stop, wire};
use memchr::memmem;

use super::Gateway;
use super::prepare::Job;
use super::speech::{self, Form};
use crate::session::{self, Context, Incoming, Sizes, UNDO_HOLDS};
use crate::store::{Moved, Scope, StoreError, Tenant};

/// How each answer of ours begins: by it we know it again.
const SIGN: &str = "[longhaul] ";
/// The name by which commands can be typed without a slash.
const NAME: &str = "longhaul";
/// The commands.
const WORDS: [&str; 4] = ["compress", "context", "undo", "recall"];
/// Tags in which hosts speak beside a person's words, or say how those were entered.
const HOST_TAGS: [&str; 9] = [
    "system-reminder",
    "environment_details",
    "environment_context",
    "ide_selection",
    "ide_opened_file",
    "command-message",
    "command-name",
    "command-args",
    "local-command-caveat",
];
/// So much of a text is shown.
const SHOWN: usize = 4_000;
/// So many matches of a search.
const MATCHES: usize = 5;

/// What was typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Command {
    Compress(session::Command),
    Context,
    Undo,
    /// A handle, or words to search for.
    Recall(String),
}

/// A body with commands in it.
pub(super) struct Found {
    /// The command that it ends with.
    pub(super) newest: Option<Command>,
    /// The body without them.
    pub(super) body: String,
}

/// A command, and the history that it is about.
pub(super) struct Asked {
    pub(super) command: Command,
    pub(super) text: String,
}

impl Command {
    /// Reads a whole message. Leading and trailing white space does not matter.
    fn parse(typed: &str) -> Option<Self> {
        let typed = typed.trim();
        match typed.strip_prefix('/') {
            Some(typed) => Self::with_slash(typed),
            None => Self::with_name(typed.strip_prefix(NAME)?),
        }
    }

    fn with_slash(typed: &str) -> Option<Self> {
        if let Some(compress) = session::Command::parse(&format!("/{typed}")) {
            return Some(Self::Compress(compress));
        }
        match typed.split_once(char::is_whitespace) {
            None if typed == "context" => Some(Self::Context),
            None if typed == "undo" => Some(Self::Undo),
            Some(("recall", words)) => Some(Self::Recall(words.trim().to_owned())),
            _ => None,
        }
    }

    /// Reads what stands behind the name. On one line, and strictly: a sentence about the program is not for us. Free words need a mark:
    /// a colon behind the command, `--focus` before a topic, quotes around words to search for.
    fn with_name(typed: &str) -> Option<Self> {
        if !typed.starts_with([' ', '\t']) || typed.contains(['\n', '\r']) {
            return None;
        }
        let typed = typed.trim();
        if let Some((word, rest)) = typed.split_once(':').filter(|(word, _)| WORDS.contains(word)) {
            return Self::with_slash(format!("{word} {rest}").trim());
        }
        let (word, rest) =
            typed.split_once([' ', '\t']).map_or((typed, ""), |(word, rest)| (word, rest.trim()));
        match (word, rest) {
            ("context", "") => Some(Self::Context),
            ("undo", "") => Some(Self::Undo),
            ("recall", words) => {
                let quoted = words.strip_prefix('"').and_then(|words| words.strip_suffix('"')).map(str::trim);
                let words = quoted
                    .filter(|words| !words.is_empty())
                    .or(Some(words).filter(|id| looks_like_handle(id)));
                words.map(|words| Self::Recall(words.to_owned()))
            }
            ("compress", options) => compress_options(options),
            _ => None,
        }
    }
}

/// The options of a compaction that was asked for by name: `[here [N]] [--preview] [--focus TOPIC]`.
fn compress_options(options: &str) -> Option<Command> {
    let (options, topic) = match options.split_once("--focus") {
        Some((options, topic)) => (options, Some(topic.strip_prefix([' ', '=']).map(str::trim)?)),
        None => (options, None),
    };
    let topic = topic.map(|topic| topic.trim_matches('"').trim());
    if topic.is_some_and(str::is_empty) {
        return None;
    }
    let mut words: Vec<&str> = options.split_whitespace().collect();
    words.retain(|word| *word != "--preview");
    let is_known = match words.as_slice() {
        [] => true,
        ["here"] => topic.is_none(),
        ["here", number] => topic.is_none() && number.parse::<usize>().is_ok_and(|number| number > 0),
        _ => false,
    };
    if !is_known {
        return None;
    }
    let command = session::Command::parse(&format!("/compress {options}"))?;
    let session::Command::Compress(mut compress) = command;
    compress.focus = topic.map(str::to_owned);
    Some(Command::Compress(session::Command::Compress(compress)))
}

/// Whether there can be a command in a body at all: one of the words, where a text or a line begins.
pub(super) fn may_be_in(text: &[u8]) -> bool {
    static SLASH: LazyLock<memmem::Finder<'static>> = LazyLock::new(|| memmem::Finder::new("/"));
    static NAMED: LazyLock<memmem::Finder<'static>> = LazyLock::new(|| memmem::Finder::new(NAME));
    // White space in JSON is itself, or an escape of one letter; a tag of a host can end right before.
    let opens = |at: usize| matches!(text[..at].last(), Some(b'"' | b' ' | b'n' | b't' | b'r' | b'>'));
    let is_word = |at: usize| WORDS.iter().any(|word| text[at..].starts_with(word.as_bytes()));
    let named = |at: usize| {
        let rest = &text[at + NAME.len()..];
        let blanks = rest.iter().take_while(|byte| **byte == b' ').count();
        let tab = rest.starts_with(b"\\t");
        tab || blanks > 0 && is_word(at + NAME.len() + blanks)
    };
    SLASH.find_iter(text).any(|at| is_word(at + 1) && opens(at))
        || NAMED.find_iter(text).any(|at| opens(at) && named(at))
}

/// Finds the commands of a body; nothing where there are none, which is known at a glance.
pub(super) fn find(dialect: Dialect, text: &str) -> Option<Found> {
    if !may_be_in(text.as_bytes()) {
        return None;
    }
    let (transcript, _) = wire::parse(dialect, text).ok()?;
    let units = &transcript.units;
    let message = |unit: &Unit<'_>| unit.owns.first().and_then(|id| transcript.message_of(*id));
    let mut gone: Vec<&Unit<'_>> = Vec::new();
    let mut newest = None;
    let mut rest = units.as_slice();
    while let Some(first) = rest.first() {
        let number = message(first);
        let same = rest.iter().take_while(|unit| number.is_some() && message(unit) == number).count();
        let (units, behind) = rest.split_at(same.max(1));
        rest = behind;
        let Some(command) = typed(units) else { continue };
        match behind.first() {
            None => {
                newest = Some(command);
                gone.extend(units);
            }
            Some(answer) if is_ours(answer) => gone.extend(units.iter().chain([answer])),
            Some(_) => {}
        }
    }
    if gone.is_empty() {
        return None;
    }
    let edits = gone.iter().flat_map(|unit| unit.owns.iter().map(|id| Edit::Remove(*id))).collect();
    let body = Rewrite::new(&transcript, edits).ok()?.apply(text);
    Some(Found { newest, body })
}

/// The command in a message, if it is all that a person typed there.
fn typed(message: &[Unit<'_>]) -> Option<Command> {
    let mut words = None;
    for unit in message {
        let UnitKind::Prompt { blocks, .. } = &unit.kind else { return None };
        for block in blocks {
            if block.kind != BlockKind::Text {
                return None;
            }
            let text = without_hosts(&block.text());
            if !text.trim().is_empty() && words.replace(text).is_some() {
                return None;
            }
        }
    }
    Command::parse(&words?)
}

/// A text without the sections in which a host speaks.
fn without_hosts(text: &str) -> String {
    let mut kept = text.to_owned();
    for tag in HOST_TAGS {
        let (open, close) = (format!("<{tag}>"), format!("</{tag}>"));
        while let Some(start) = kept.find(&open) {
            let Some(end) = kept[start..].find(&close) else { break };
            kept.replace_range(start..start + end + close.len(), "");
        }
    }
    kept
}

fn is_ours(unit: &Unit<'_>) -> bool {
    let UnitKind::Step { reply, exchanges } = &unit.kind else { return false };
    exchanges.is_empty() && reply.iter().any(|block| block.text().starts_with(SIGN))
}

/// What a client wants to be told how.
#[derive(Default, serde::Deserialize)]
struct Opening {
    #[serde(default)]
    stream: bool,
    #[serde(default)]
    model: String,
}

/// Does what was asked for, and says so as if a model did.
pub(super) async fn answer(job: &Arc<Job>, asked: Asked) -> Response {
    let (dialect, mut opening) = (job.dialect, Opening::default());
    let done = job.at_work(|job, stop| async move {
        let opening = serde_json::from_str::<Opening>(&asked.text).unwrap_or_default();
        (opening, obey(&job, asked, stop).await)
    });
    let said = match done.await {
        Ok((read, said)) => {
            opening = read;
            said
        }
        Err("busy") => Err("the gateway is busy; try again".to_owned()),
        Err("deadline") => Err("it took too long, and was ended; try again".to_owned()),
        Err(_) => Err("an internal error".to_owned()),
    };
    let said = said.unwrap_or_else(|problem| format!("that could not be done: {problem}"));
    job.gateway.tally.commanded();
    let form = if opening.stream { Form::Events } else { Form::Whole };
    speech::answer(dialect, form, &opening.model, &job.gateway.request_id(), &format!("{SIGN}{said}"))
}

async fn obey(job: &Job, Asked { command, text }: Asked, stop: Stop) -> Result<String, String> {
    let incoming = job.read(&text)?;
    if incoming.chain.is_empty() {
        return Ok("there is nothing in this session yet".to_owned());
    }
    job.gateway.obey(&job.tenant, &incoming, command, stop).await
}

impl Gateway {
    async fn obey(
        &self,
        tenant: &Tenant,
        incoming: &Incoming<'_>,
        command: Command,
        stop: Stop,
    ) -> Result<String, String> {
        match command {
            Command::Compress(compress) => {
                let mut claim = self.claim(tenant, incoming).await;
                let session::Command::Compress(compress) = compress;
                claim.begins(stop);
                let turn = claim.session().compress(compress, incoming, self.now()).await;
                claim.ends();
                if turn.action == session::Action::Compacted {
                    self.tally.compacted_by_hand();
                }
                let said = if turn.said.is_empty() { turn.reason } else { turn.said.join("\n") };
                self.live.ends_with(&claim, incoming.chain.last());
                Ok(said)
            }
            Command::Context => self.context(tenant, incoming).await,
            Command::Undo => self.undo(tenant, incoming).await.map_err(|error| error.to_string()),
            Command::Recall(words) => {
                self.recall(tenant, incoming, &words).await.map_err(|error| error.to_string())
            }
        }
    }

    /// How full the window is, and what the session came to so far.
    async fn context(&self, tenant: &Tenant, incoming: &Incoming<'_>) -> Result<String, String> {
        let mut claim = self.claim(tenant, incoming).await;
        let session = claim.session();
        let Context { sizes: Sizes { whole, sent }, by, window, threshold } =
            session.context(incoming, self.now()).await?;
        for line in session.write().await {
            tracing::warn!("{line}");
        }
        let share = 100.0 * sent.number() as f64 / window.number().max(1) as f64;
        let mut lines = vec![format!(
            "{sent} of {window} tokens ({share:.0} %, {by}) are in the window; a compaction is due at {threshold}"
        )];
        if whole > sent {
            lines.push(format!("without compactions it would be {whole} tokens"));
        }
        if let (Some(id), Some(name)) = (session.id(), session.name()) {
            let totals = self.store.session_totals(tenant, id).await.map_err(|error| error.to_string())?;
            let read = totals.read_share().map_or_else(String::new, |share| {
                format!(", {:.0} % of prompts read from the provider's cache", 100.0 * share)
            });
            let (requests, compactions) = (totals.requests, totals.compacted);
            lines.push(format!("session {name}: {requests} requests, {compactions} compactions{read}"));
        }
        self.live.ends_with(&claim, incoming.chain.last());
        Ok(lines.join("\n"))
    }

    async fn undo(&self, tenant: &Tenant, incoming: &Incoming<'_>) -> Result<String, StoreError> {
        let Some(found) = self.store.find_chain(tenant, &incoming.transcript, &incoming.chain).await? else {
            return Ok("nothing of this session was ever compacted".to_owned());
        };
        Ok(match self.store.undo(tenant, found.session.id).await? {
            Moved::To(Some(epoch)) => {
                format!("taken back: compaction {} is in force again; {UNDO_HOLDS}", epoch.number)
            }
            Moved::To(None) => format!("taken back: the whole session is sent again; {UNDO_HOLDS}"),
            Moved::Nowhere => "nothing of this session is compacted".to_owned(),
        })
    }

    async fn recall(
        &self,
        tenant: &Tenant,
        incoming: &Incoming<'_>,
        words: &str,
    ) -> Result<String, StoreError> {
        let Some(found) = self.store.find_chain(tenant, &incoming.transcript, &incoming.chain).await? else {
            return Ok("nothing of this session was kept yet".to_owned());
        };
        match self.store.recall(tenant, Some(&found.session), words).await {
            Ok(recalled) => Ok(recalled.text.clipped(SHOWN).to_string()),
            // What looks like a handle and leads nowhere is no word to search for: parts of it may stand anywhere.
            Err(StoreError::Unknown(_) | StoreError::Wrong(_)) if looks_like_handle(words) => {
                Ok("nothing was found".to_owned())
            }
            Err(StoreError::Unknown(_) | StoreError::Wrong(_)) => {
                let hits = self.store.search(tenant, &found.session, Scope::Family, words, MATCHES).await?;
                let lines = hits.iter().map(|hit| format!("{}: {}", hit.handle, hit.excerpt));
                let lines: Vec<String> = lines.collect();
                Ok(if lines.is_empty() { "nothing was found".to_owned() } else { lines.join("\n") })
            }
            Err(error) => Err(error),
        }
    }
}

fn looks_like_handle(words: &str) -> bool {
    words.len() >= 8
        && words.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
        && words.bytes().any(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_typed_is_read() {
        assert_eq!(Command::parse(" /context "), Some(Command::Context));
        assert_eq!(Command::parse("/undo"), Some(Command::Undo));
        assert_eq!(Command::parse("/recall the port"), Some(Command::Recall("the port".to_owned())));
        assert!(matches!(Command::parse("/compress the schema"), Some(Command::Compress(_))));
        for other in ["/contexts", "/undo that", "/recall", "undo", "tell me about /context"] {
            assert_eq!(Command::parse(other), None, "{other}");
        }
    }

    #[test]
    fn the_name_stands_for_a_slash_and_a_sentence_is_no_command() {
        let read = |typed: &str| match Command::parse(typed) {
            Some(Command::Compress(session::Command::Compress(compress))) => {
                Some((compress.focus, compress.here, compress.preview == session::Preview::Yes))
            }
            _ => None,
        };
        let focus = |focus: &str| Some(focus.to_owned());
        assert_eq!(read("longhaul compress"), Some((None, None, false)));
        assert_eq!(read("\n  longhaul   compress  "), Some((None, None, false)));
        assert_eq!(read("longhaul compress here 3 --preview"), Some((None, Some(3), true)));
        assert_eq!(read("longhaul compress --focus the schema"), Some((focus("the schema"), None, false)));
        assert_eq!(read("longhaul compress --preview --focus \"a b\""), Some((focus("a b"), None, true)));
        assert_eq!(Command::parse("longhaul undo"), Some(Command::Undo));
        assert_eq!(Command::parse("longhaul context"), Some(Command::Context));
        let recall = |words: &str| Some(Command::Recall(words.to_owned()));
        assert_eq!(Command::parse("longhaul recall 4k2m9x7q1z"), recall("4k2m9x7q1z"));
        assert_eq!(Command::parse("longhaul recall \"the port\""), recall("the port"));
        assert_eq!(read("longhaul compress:"), Some((None, None, false)));
        assert_eq!(read("longhaul compress: the schema"), Some((focus("the schema"), None, false)));
        assert_eq!(read("longhaul compress: here 3"), Some((None, Some(3), false)));
        assert_eq!(Command::parse("longhaul recall: the port"), recall("the port"));
        for other in [
            "longhaul compress is a good tool",
            "longhaul compress is good: it works",
            "longhaul undo: why",
            "longhaul compress the schema",
            "longhaul compress here and there",
            "longhaul compress --focus",
            "longhaul compress\nand then go on",
            "longhaul undo that",
            "longhaul recall the port",
            "longhaul recall",
            "longhaul",
            "longhauls undo",
            "Longhaul undo",
            "use longhaul undo",
            "longhaul\nundo",
        ] {
            assert_eq!(Command::parse(other), None, "{other:?}");
        }
    }

    /// The newest command of a Messages body whose newest message has these blocks.
    fn newest(blocks: &serde_json::Value) -> Option<Command> {
        let body = serde_json::json!({"model": "m", "messages": [
            {"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes"}, {"role": "user", "content": blocks},
        ]});
        find(Dialect::Messages, &body.to_string()).and_then(|found| found.newest)
    }

    #[test]
    fn a_command_is_a_whole_message() {
        use serde_json::json;
        let text = |text: &str| json!({"type": "text", "text": text});
        let reminder = "<system-reminder>Today is Monday.</system-reminder>";
        for blocks in [
            json!("/undo"),
            json!(" /undo"),
            json!("\n\t/undo\n"),
            json!("longhaul undo"),
            json!(format!("{reminder}\n\n/undo")),
            json!([text("/undo")]),
            json!([text(reminder), text("/undo")]),
            json!([text("  longhaul undo"), text(reminder)]),
            json!([
                text("<command-message>undo</command-message>\n<command-name>/undo</command-name>"),
                text("longhaul undo")
            ]),
        ] {
            assert_eq!(newest(&blocks), Some(Command::Undo), "{blocks}");
        }
        let picture =
            json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": ""}});
        for blocks in [
            json!([text("Look at the attached file."), text("/undo")]),
            json!([text("/undo"), text("the file above is called undo.txt")]),
            json!([text("/undo"), text("/undo")]),
            json!([picture, text("/undo")]),
            json!([{"type": "tool_result", "tool_use_id": "t", "content": "x"}, text("/undo")]),
            json!("What does /undo do?"),
            json!("<file_content>x</file_content>\n/undo"),
            json!([
                text("<system-reminder>a</system-reminder>/undo<system-reminder>b</system-reminder>"),
                text("Go on.")
            ]),
            json!("<system-reminder>/undo</system-reminder>"),
        ] {
            assert_eq!(newest(&blocks), None, "{blocks}");
        }
    }

    #[test]
    fn commands_and_our_answers_leave_no_trace() {
        let body = r#"{"model":"m","messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"yes"},{"role":"user","content":"/context"},{"role":"assistant","content":"[longhaul] 3 tokens"},{"role":"user","content":"go on"}]}"#;
        let found = find(Dialect::Chat, body).unwrap();
        let left = r#"{"model":"m","messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"yes"},{"role":"user","content":"go on"}]}"#;
        assert_eq!((found.body.as_str(), found.newest), (left, None));
        let asks = body.replace("go on", "/undo");
        assert_eq!(find(Dialect::Chat, &asks).unwrap().newest, Some(Command::Undo));
        assert!(find(Dialect::Chat, &body.replace("[longhaul]", "well:")).is_none(), "a model answered it");
        assert!(find(Dialect::Chat, &body.replace("\"/context\"", "\"context\"")).is_none());
    }
}
