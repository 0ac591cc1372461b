//! What a person types for us and not for the model: `/compress …`, `/context`, `/undo`, `/recall …`.
//!
//! A client keeps what was typed and what we answered in its history, and sends both again with every request. They are taken out of
//! each of them before anything else looks at it, so that neither the model nor the session ever sees them.

use std::sync::{Arc, LazyLock};

use axum::response::Response;
use longhaul_engine::known::Known;
use longhaul_engine::meter::Meter;
use longhaul_engine::models;
use longhaul_engine::policy::Policy;
use longhaul_engine::transcript::{Block, BlockKind, Speaker, Unit, UnitKind};
use longhaul_engine::{Dialect, Edit, Rewrite, wire};
use memchr::memmem;

use super::Gateway;
use super::prepare::Job;
use super::speech::{self, Form};
use crate::session::{self, Incoming};
use crate::store::{Moved, Scope, StoreError, Tenant};

/// How each answer of ours begins: by it we know it again.
const SIGN: &str = "[longhaul] ";
/// The words, as they open a JSON string.
const WORDS: [&str; 4] = ["\"/compress", "\"/context", "\"/undo", "\"/recall"];
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
    fn parse(typed: &str) -> Option<Self> {
        let typed = typed.trim();
        if let Some(compress) = session::Command::parse(typed) {
            return Some(Self::Compress(compress));
        }
        match typed.split_once(char::is_whitespace) {
            None if typed == "/context" => Some(Self::Context),
            None if typed == "/undo" => Some(Self::Undo),
            Some(("/recall", words)) => Some(Self::Recall(words.trim().to_owned())),
            _ => None,
        }
    }
}

/// Whether there can be a command in a body at all.
pub(super) fn may_be_in(text: &[u8]) -> bool {
    static OPENING: LazyLock<memmem::Finder<'static>> = LazyLock::new(|| memmem::Finder::new("\"/"));
    OPENING.find_iter(text).any(|at| WORDS.iter().any(|word| text[at..].starts_with(word.as_bytes())))
}

/// Finds the commands of a body; nothing where there are none, which is known at a glance.
pub(super) fn find(dialect: Dialect, text: &str) -> Option<Found> {
    if !may_be_in(text.as_bytes()) {
        return None;
    }
    let (transcript, _) = wire::parse(dialect, text).ok()?;
    let units = &transcript.units;
    let mut gone: Vec<&Unit<'_>> = Vec::new();
    let mut newest = None;
    for (at, unit) in units.iter().enumerate() {
        let Some(command) = typed(unit) else { continue };
        match units.get(at + 1) {
            None => {
                newest = Some(command);
                gone.push(unit);
            }
            Some(answer) if is_ours(answer) => gone.extend([unit, answer]),
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

/// The command that a person typed, if that is all they did: what a host put around it is not theirs.
fn typed(unit: &Unit<'_>) -> Option<Command> {
    let UnitKind::Prompt { by: Speaker::User, blocks } = &unit.kind else { return None };
    let text = blocks.iter().rev().find(|block| block.kind == BlockKind::Text);
    Command::parse(&text.map(Block::text)?)
}

fn is_ours(unit: &Unit<'_>) -> bool {
    let UnitKind::Step { reply, exchanges } = &unit.kind else { return false };
    exchanges.is_empty() && reply.iter().any(|block| block.text().starts_with(SIGN))
}

/// What a client wants to be told how.
#[derive(serde::Deserialize)]
struct Opening {
    #[serde(default)]
    stream: bool,
    #[serde(default)]
    model: String,
}

/// Does what was asked for, and says so as if a model did.
pub(super) async fn answer(job: &Arc<Job>, asked: Asked) -> Response {
    let dialect = job.dialect;
    let opening = serde_json::from_str::<Opening>(&asked.text);
    let opening = opening.unwrap_or(Opening { stream: false, model: String::new() });
    let said = match run(job, asked).await {
        Ok(said) => said,
        Err(problem) => format!("that could not be done: {problem}"),
    };
    let form = if opening.stream { Form::Events } else { Form::Whole };
    speech::answer(dialect, form, &opening.model, &job.gateway.request_id(), &format!("{SIGN}{said}"))
}

async fn run(job: &Arc<Job>, asked: Asked) -> Result<String, String> {
    let Asked { command, text } = asked;
    let job = Arc::clone(job);
    let runtime = tokio::runtime::Handle::current();
    let work = move || {
        runtime.block_on(async {
            let incoming = job.read(&text)?;
            if incoming.chain.is_empty() {
                return Ok("there is nothing in this session yet".to_owned());
            }
            job.gateway.obey(&job.tenant, &incoming, command).await
        })
    };
    tokio::task::spawn_blocking(work).await.map_err(|_| "an error of ours".to_owned())?
}

impl Gateway {
    async fn obey(
        &self,
        tenant: &Tenant,
        incoming: &Incoming<'_>,
        command: Command,
    ) -> Result<String, String> {
        match command {
            Command::Compress(compress) => {
                let mut claim = self.claim(tenant, incoming).await;
                let session::Command::Compress(compress) = compress;
                let turn = claim.session().compress(compress, incoming, self.now()).await;
                let said = if turn.said.is_empty() { turn.reason } else { turn.said.join("\n") };
                self.live.ends_with(&claim, incoming.chain.last());
                Ok(said)
            }
            Command::Context => self.context(tenant, incoming).await.map_err(|error| error.to_string()),
            Command::Undo => self.undo(tenant, incoming).await.map_err(|error| error.to_string()),
            Command::Recall(words) => {
                self.recall(tenant, incoming, &words).await.map_err(|error| error.to_string())
            }
        }
    }

    /// How full the window is, and what the session came to so far.
    async fn context(&self, tenant: &Tenant, incoming: &Incoming<'_>) -> Result<String, StoreError> {
        let transcript = &incoming.transcript;
        let model = models::find(transcript.model.as_deref().unwrap_or_default());
        let Ok((policy, _)) = Policy::new(&self.settings.session.config, &model) else {
            return Ok("nothing is known of this model".to_owned());
        };
        let found = self.store.find_chain(tenant, transcript, &incoming.chain).await?;
        let view = found.as_ref().and_then(|found| session::replay(&found.view.ledger, transcript));
        let seen = view.as_deref().and_then(|view| wire::parse(transcript.dialect, view).ok());
        let known = &mut Known::default();
        let meter = Meter::of(&policy.model);
        let whole = meter.parts(known, transcript).total();
        let sent = seen.map_or(whole, |(seen, _)| meter.parts(known, &seen).total());
        let share = 100.0 * sent.number() as f64 / policy.window.number().max(1) as f64;
        let (window, threshold) = (policy.window, policy.threshold);
        let mut lines = vec![format!(
            "{sent} of {window} tokens ({share:.0} %) are in the window; a compaction is due at {threshold}"
        )];
        if whole > sent {
            lines.push(format!("without compactions it would be {whole} tokens"));
        }
        if let Some(found) = found {
            let totals = self.store.session_totals(tenant, found.session.id).await?;
            let read = totals.read_share().map_or_else(String::new, |share| {
                format!(", {:.0} % of prompts read from the provider's cache", 100.0 * share)
            });
            lines.push(format!(
                "session {}: {} requests, {} compactions{read}",
                found.session.name, totals.requests, totals.compacted
            ));
        }
        Ok(lines.join("\n"))
    }

    async fn undo(&self, tenant: &Tenant, incoming: &Incoming<'_>) -> Result<String, StoreError> {
        let Some(found) = self.store.find_chain(tenant, &incoming.transcript, &incoming.chain).await? else {
            return Ok("nothing of this session was ever compacted".to_owned());
        };
        Ok(match self.store.undo(tenant, found.session.id).await? {
            Moved::To(Some(epoch)) => format!("taken back: compaction {} is in force again", epoch.number),
            Moved::To(None) => "taken back: the whole session is sent again".to_owned(),
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
