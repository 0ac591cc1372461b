//! Commands that a person types for the gateway: `/compress …`, `/context`, `/undo`, `/recall …`, or the same
//! after the word `longhaul`, for agents that handle every slash themselves.
//!
//! A command is a whole message: all that a person typed, apart from text that known host programs wrap
//! around it.
//!
//! A client keeps commands and our replies in its history and sends both again with every request. They are
//! removed from a request before the session reads it, so neither the model nor the session sees them. A
//! bypassed request keeps them, and an older command that we did not answer stays.

use std::sync::{Arc, LazyLock};

use axum::response::Response;
use longhaul_engine::transcript::{BlockKind, Turn, TurnKind};
use longhaul_engine::{ApiFormat, CancelFlag, Edit, Rewrite, wire};
use memchr::memmem;

use super::Gateway;
use super::own_replies::{self, ReplyForm};
use super::prepare::RequestJob;
use crate::pages::pluralize;
use crate::session::{self, CompressRequest, IncomingRequest, RequestSizes, SessionCommand, UNDO_PROMISE, WindowUsage};
use crate::store::{HeadMove, SearchScope, StoreError, Tenant};

/// The prefix of every reply of ours, by which we recognize it in the history.
const REPLY_PREFIX: &str = "[longhaul] ";
/// The word that introduces a command without a slash.
const COMMAND_PREFIX: &str = "longhaul";
/// The words that name the commands.
const COMMAND_WORDS: [&str; 4] = ["compress", "context", "undo", "recall"];
/// The tags in which host programs add text to a person's message, or describe how it was entered.
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
/// The largest number of characters of a recalled text that a reply shows. Chosen by hand.
const MAX_RECALL_CHARS: usize = 4_000;
/// The largest number of search results that a reply shows. Chosen by hand.
const MAX_MATCHES: usize = 5;

/// A command that a person typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TypedCommand {
    Compress(CompressRequest),
    Context,
    Undo,
    /// A recall ID, or words to search for.
    Recall(String),
}

/// The result of searching a request body for commands.
pub(super) struct FoundCommands {
    /// The command in the newest message, which must be answered.
    pub(super) newest: Option<TypedCommand>,
    /// The body without commands and our replies to them.
    pub(super) body: String,
}

/// A command with the request body (without commands) that it applies to.
pub(super) struct CommandRequest {
    pub(super) command: TypedCommand,
    pub(super) body: String,
}

impl TypedCommand {
    /// Parses a whole message, ignoring white space around it.
    fn parse(typed: &str) -> Option<Self> {
        let typed = typed.trim();
        match typed.strip_prefix('/') {
            Some(typed) => Self::parse_after_slash(typed),
            None => Self::parse_after_prefix(typed.strip_prefix(COMMAND_PREFIX)?),
        }
    }

    fn parse_after_slash(typed: &str) -> Option<Self> {
        if let Some(SessionCommand::Compress(request)) = SessionCommand::parse(&format!("/{typed}")) {
            return Some(Self::Compress(request));
        }
        match typed.split_once(char::is_whitespace) {
            None if typed == "context" => Some(Self::Context),
            None if typed == "undo" => Some(Self::Undo),
            Some(("recall", query)) => Some(Self::Recall(query.trim().to_owned())),
            _ => None,
        }
    }

    /// Parses the text after the word `longhaul`, on one line and strictly, because a sentence about the
    /// program is not a command. Free text needs a colon after the command, `--focus` before a topic, or
    /// quotes around search words.
    fn parse_after_prefix(typed: &str) -> Option<Self> {
        if !typed.starts_with([' ', '\t']) || typed.contains(['\n', '\r']) {
            return None;
        }
        let typed = typed.trim();
        if let Some((word, rest)) = typed.split_once(':').filter(|(word, _)| COMMAND_WORDS.contains(word)) {
            return Self::parse_after_slash(format!("{word} {rest}").trim());
        }
        let (word, rest) = typed.split_once([' ', '\t']).map_or((typed, ""), |(word, rest)| (word, rest.trim()));
        match (word, rest) {
            ("context", "") => Some(Self::Context),
            ("undo", "") => Some(Self::Undo),
            ("recall", query) => {
                let quoted = query.strip_prefix('"').and_then(|query| query.strip_suffix('"')).map(str::trim);
                let query =
                    quoted.filter(|query| !query.is_empty()).or(Some(query).filter(|id| looks_like_recall_id(id)));
                query.map(|query| Self::Recall(query.to_owned()))
            }
            ("compress", options) => parse_compress_options(options),
            _ => None,
        }
    }
}

/// Parses the options of `longhaul compress`: `[here [N]] [--preview] [--focus TOPIC]`.
fn parse_compress_options(options: &str) -> Option<TypedCommand> {
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
    let is_valid = match words.as_slice() {
        [] => true,
        ["here"] => topic.is_none(),
        ["here", number] => topic.is_none() && number.parse::<usize>().is_ok_and(|number| number > 0),
        _ => false,
    };
    if !is_valid {
        return None;
    }
    let SessionCommand::Compress(mut request) = SessionCommand::parse(&format!("/compress {options}"))?;
    request.focus = topic.map(str::to_owned);
    Some(TypedCommand::Compress(request))
}

/// Returns whether a body may contain a command: one of the command words at the start of a text or line. It
/// parses nothing, so it is fast and may report too much.
pub(super) fn may_contain_command(text: &[u8]) -> bool {
    static SLASH: LazyLock<memmem::Finder<'static>> = LazyLock::new(|| memmem::Finder::new("/"));
    static NAMED: LazyLock<memmem::Finder<'static>> = LazyLock::new(|| memmem::Finder::new(COMMAND_PREFIX));
    // In JSON, white space is a space or an escape that ends in one letter. A `>` ends a tag of the host
    // program before the command.
    let opens = |at: usize| matches!(text[..at].last(), Some(b'"' | b' ' | b'n' | b't' | b'r' | b'>'));
    let is_word = |at: usize| COMMAND_WORDS.iter().any(|word| text[at..].starts_with(word.as_bytes()));
    let named = |at: usize| {
        let rest = &text[at + COMMAND_PREFIX.len()..];
        let blanks = rest.iter().take_while(|byte| **byte == b' ').count();
        let tab = rest.starts_with(b"\\t");
        tab || blanks > 0 && is_word(at + COMMAND_PREFIX.len() + blanks)
    };
    SLASH.find_iter(text).any(|at| is_word(at + 1) && opens(at))
        || NAMED.find_iter(text).any(|at| opens(at) && named(at))
}

/// Finds the commands in a body; none if there are none, which a quick search usually shows.
pub(super) fn find_commands(api_format: ApiFormat, text: &str) -> Option<FoundCommands> {
    if !may_contain_command(text.as_bytes()) {
        return None;
    }
    let (transcript, _) = wire::parse(api_format, text).ok()?;
    let turns = &transcript.turns;
    let message = |turn: &Turn<'_>| turn.owned_elements.first().and_then(|id| transcript.message_of(*id));
    let mut removed: Vec<&Turn<'_>> = Vec::new();
    let mut newest = None;
    let mut rest = turns.as_slice();
    while let Some(first) = rest.first() {
        let message_index = message(first);
        let turn_count =
            rest.iter().take_while(|turn| message_index.is_some() && message(turn) == message_index).count();
        let (turns, later_turns) = rest.split_at(turn_count.max(1));
        rest = later_turns;
        let Some(command) = command_in_message(turns) else { continue };
        match later_turns.first() {
            None => {
                newest = Some(command);
                removed.extend(turns);
            }
            Some(answer) if is_own_reply(answer) => removed.extend(turns.iter().chain([answer])),
            Some(_) => {}
        }
    }
    if removed.is_empty() {
        return None;
    }
    let edits = removed.iter().flat_map(|turn| turn.owned_elements.iter().map(|id| Edit::Remove(*id))).collect();
    let body = Rewrite::new(&transcript, edits).ok()?.apply(text);
    Some(FoundCommands { newest, body })
}

/// Returns the command in a message, if a person typed nothing else in it.
fn command_in_message(message: &[Turn<'_>]) -> Option<TypedCommand> {
    let mut typed = None;
    for turn in message {
        let TurnKind::Prompt { blocks, .. } = &turn.kind else { return None };
        for block in blocks {
            if block.kind != BlockKind::Text {
                return None;
            }
            let text = strip_host_text(&block.text());
            if !text.trim().is_empty() && typed.replace(text).is_some() {
                return None;
            }
        }
    }
    TypedCommand::parse(&typed?)
}

/// Returns a text without the sections that a host program added.
fn strip_host_text(text: &str) -> String {
    let mut stripped = text.to_owned();
    for tag in HOST_TAGS {
        let (open, close) = (format!("<{tag}>"), format!("</{tag}>"));
        while let Some(start) = stripped.find(&open) {
            let Some(end) = stripped[start..].find(&close) else { break };
            stripped.replace_range(start..start + end + close.len(), "");
        }
    }
    stripped
}

fn is_own_reply(turn: &Turn<'_>) -> bool {
    let TurnKind::Assistant { reply, tool_calls } = &turn.kind else { return false };
    tool_calls.is_empty() && reply.iter().any(|block| block.text().starts_with(REPLY_PREFIX))
}

/// The fields of a request that decide the form of our reply.
#[derive(Default, serde::Deserialize)]
struct ReplyOptions {
    #[serde(default)]
    stream: bool,
    #[serde(default)]
    model: String,
}

/// Executes a command and replies in the form of a model's reply.
pub(super) async fn answer_command(job: &Arc<RequestJob>, request: CommandRequest) -> Response {
    let (api_format, mut options) = (job.api_format, ReplyOptions::default());
    let outcome = job.run_in_pool(|job, cancel| async move {
        let options = serde_json::from_str::<ReplyOptions>(&request.body).unwrap_or_default();
        (options, parse_and_execute(&job, request, cancel).await)
    });
    let answer = match outcome.await {
        Ok((read, answer)) => {
            options = read;
            answer
        }
        Err("busy") => Err("the gateway is busy; try again".to_owned()),
        Err("deadline") => Err("it took too long and was cancelled; try again".to_owned()),
        Err(_) => Err("internal error".to_owned()),
    };
    let answer = answer.unwrap_or_else(|problem| format!("the command failed: {problem}"));
    job.gateway.metrics.count_command();
    let form = if options.stream { ReplyForm::Events } else { ReplyForm::Document };
    own_replies::text_response(
        api_format,
        form,
        &options.model,
        &job.gateway.next_request_id(),
        &format!("{REPLY_PREFIX}{answer}"),
    )
}

async fn parse_and_execute(
    job: &RequestJob,
    CommandRequest { command, body: text }: CommandRequest,
    cancel: CancelFlag,
) -> Result<String, String> {
    let incoming = job.parse(&text)?;
    if incoming.message_hashes.is_empty() {
        return Ok("there is nothing in this session yet".to_owned());
    }
    execute_command(job, &incoming, command, cancel).await
}

async fn execute_command(
    job: &RequestJob,
    incoming: &IncomingRequest<'_>,
    command: TypedCommand,
    cancel: CancelFlag,
) -> Result<String, String> {
    let RequestJob { gateway, tenant, .. } = job;
    match command {
        TypedCommand::Compress(request) => {
            let mut claim = job.claim_session(incoming).await;
            claim.begin_preparation(cancel);
            let prepared = claim.session().compress(request, incoming, gateway.now()).await;
            claim.end_preparation();
            if prepared.action == session::RequestAction::Compacted {
                gateway.metrics.count_manual_compaction();
            }
            let reply_text = if prepared.notices.is_empty() { prepared.reason } else { prepared.notices.join("\n") };
            gateway.live_sessions.index_by_newest_message(&claim, incoming.message_hashes.last());
            Ok(reply_text)
        }
        TypedCommand::Context => gateway.describe_context(tenant, incoming).await,
        TypedCommand::Undo => gateway.undo_compaction(tenant, incoming).await.map_err(|error| error.to_string()),
        TypedCommand::Recall(query) => {
            gateway.recall_text(tenant, incoming, &query).await.map_err(|error| error.to_string())
        }
    }
}

impl Gateway {
    /// Describes how full the context window is, with the totals of the session.
    async fn describe_context(&self, tenant: &Tenant, incoming: &IncomingRequest<'_>) -> Result<String, String> {
        let mut claim = self.claim_session(tenant, incoming).await;
        let session = claim.session();
        let WindowUsage { sizes: RequestSizes { original: original_tokens, sent }, measured_by, window, threshold } =
            session.window_usage(incoming, self.now()).await?;
        for line in session.save_pending().await {
            tracing::warn!("{line}");
        }
        let share = 100.0 * sent.number() as f64 / window.number().max(1) as f64;
        let mut lines = vec![format!(
            "{sent} of {window} tokens of the context window are in use ({share:.0} %, {measured_by}); a compaction is \
             triggered at {threshold}"
        )];
        if original_tokens > sent {
            lines.push(format!("without compactions it would be {original_tokens} tokens"));
        }
        if let (Some(id), Some(name)) = (session.id(), session.name()) {
            let totals = self.store.session_totals(tenant, id).await.map_err(|error| error.to_string())?;
            let read = totals.cache_read_share().map_or_else(String::new, |share| {
                format!(", {:.0} % of input tokens read from the provider's cache", 100.0 * share)
            });
            let requests = pluralize(totals.requests, "request");
            let compactions = pluralize(totals.compacted, "compaction");
            lines.push(format!("session {name}: {requests}, {compactions}{read}"));
        }
        self.live_sessions.index_by_newest_message(&claim, incoming.message_hashes.last());
        Ok(lines.join("\n"))
    }

    async fn undo_compaction(&self, tenant: &Tenant, incoming: &IncomingRequest<'_>) -> Result<String, StoreError> {
        let Some(found) =
            self.store.find_match_by_hashes(tenant, &incoming.transcript, &incoming.message_hashes).await?
        else {
            return Ok("this session has no compaction".to_owned());
        };
        Ok(match self.store.undo(tenant, found.session.id).await? {
            HeadMove::To(Some(compaction)) => {
                format!("undone: compaction {} is active again; {UNDO_PROMISE}", compaction.number)
            }
            HeadMove::To(None) => format!("undone: the whole session is sent again; {UNDO_PROMISE}"),
            HeadMove::NoTarget => "this session has no active compaction".to_owned(),
        })
    }

    async fn recall_text(
        &self,
        tenant: &Tenant,
        incoming: &IncomingRequest<'_>,
        query: &str,
    ) -> Result<String, StoreError> {
        let Some(found) =
            self.store.find_match_by_hashes(tenant, &incoming.transcript, &incoming.message_hashes).await?
        else {
            return Ok("the store has nothing of this session yet".to_owned());
        };
        match self.store.recall(tenant, Some(&found.session), query).await {
            Ok(recalled) => Ok(recalled.text.truncated(MAX_RECALL_CHARS).to_string()),
            // Do not search for an unknown recall ID: parts of it could match anything.
            Err(StoreError::NotFound(_) | StoreError::InvalidInput(_)) if looks_like_recall_id(query) => {
                Ok("no results".to_owned())
            }
            Err(StoreError::NotFound(_) | StoreError::InvalidInput(_)) => {
                let hits = self.store.search(tenant, &found.session, SearchScope::Family, query, MAX_MATCHES).await?;
                let lines = hits.iter().map(|hit| format!("{}: {}", hit.recall_id, hit.excerpt));
                let lines: Vec<String> = lines.collect();
                Ok(if lines.is_empty() { "no results".to_owned() } else { lines.join("\n") })
            }
            Err(error) => Err(error),
        }
    }
}

fn looks_like_recall_id(text: &str) -> bool {
    text.len() >= 8
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
        && text.bytes().any(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_typed_is_read() {
        assert_eq!(TypedCommand::parse(" /context "), Some(TypedCommand::Context));
        assert_eq!(TypedCommand::parse("/undo"), Some(TypedCommand::Undo));
        assert_eq!(TypedCommand::parse("/recall the port"), Some(TypedCommand::Recall("the port".to_owned())));
        assert!(matches!(TypedCommand::parse("/compress the schema"), Some(TypedCommand::Compress(_))));
        for other in ["/contexts", "/undo that", "/recall", "undo", "tell me about /context"] {
            assert_eq!(TypedCommand::parse(other), None, "{other}");
        }
    }

    #[test]
    fn the_name_stands_for_a_slash_and_a_sentence_is_no_command() {
        let read = |typed: &str| match TypedCommand::parse(typed) {
            Some(TypedCommand::Compress(request)) => {
                Some((request.focus, request.keep_newest, request.preview == session::Preview::Yes))
            }
            _ => None,
        };
        let focus = |focus: &str| Some(focus.to_owned());
        assert_eq!(read("longhaul compress"), Some((None, None, false)));
        assert_eq!(read("\n  longhaul   compress  "), Some((None, None, false)));
        assert_eq!(read("longhaul compress here 3 --preview"), Some((None, Some(3), true)));
        assert_eq!(read("longhaul compress --focus the schema"), Some((focus("the schema"), None, false)));
        assert_eq!(read("longhaul compress --preview --focus \"a b\""), Some((focus("a b"), None, true)));
        assert_eq!(TypedCommand::parse("longhaul undo"), Some(TypedCommand::Undo));
        assert_eq!(TypedCommand::parse("longhaul context"), Some(TypedCommand::Context));
        let recall = |words: &str| Some(TypedCommand::Recall(words.to_owned()));
        assert_eq!(TypedCommand::parse("longhaul recall 4k2m9x7q1z"), recall("4k2m9x7q1z"));
        assert_eq!(TypedCommand::parse("longhaul recall \"the port\""), recall("the port"));
        assert_eq!(read("longhaul compress:"), Some((None, None, false)));
        assert_eq!(read("longhaul compress: the schema"), Some((focus("the schema"), None, false)));
        assert_eq!(read("longhaul compress: here 3"), Some((None, Some(3), false)));
        assert_eq!(TypedCommand::parse("longhaul recall: the port"), recall("the port"));
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
            assert_eq!(TypedCommand::parse(other), None, "{other:?}");
        }
    }

    /// Returns the newest command of a Messages body whose newest message has these blocks.
    fn newest(blocks: &serde_json::Value) -> Option<TypedCommand> {
        let body = serde_json::json!({"model": "m", "messages": [
            {"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes"}, {"role": "user", "content": blocks},
        ]});
        find_commands(ApiFormat::Messages, &body.to_string()).and_then(|found| found.newest)
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
            assert_eq!(newest(&blocks), Some(TypedCommand::Undo), "{blocks}");
        }
        let picture = json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": ""}});
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
        let found = find_commands(ApiFormat::Chat, body).unwrap();
        let left = r#"{"model":"m","messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"yes"},{"role":"user","content":"go on"}]}"#;
        assert_eq!((found.body.as_str(), found.newest), (left, None));
        let asks = body.replace("go on", "/undo");
        assert_eq!(find_commands(ApiFormat::Chat, &asks).unwrap().newest, Some(TypedCommand::Undo));
        assert!(find_commands(ApiFormat::Chat, &body.replace("[longhaul]", "well:")).is_none(), "a model answered it");
        assert!(find_commands(ApiFormat::Chat, &body.replace("\"/context\"", "\"context\"")).is_none());
    }
}
