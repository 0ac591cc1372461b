//! One pass over a rollout: the items that count, in order, with what was rolled back taken out.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;

use longhaul_engine::Tokens;
use longhaul_engine::prices::Usage;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::super::lines::{self, Line, LineAt};
use super::super::{Moment, Unread};

/// What the history is made of.
#[derive(Debug, Clone, Copy)]
pub(super) enum Step {
    /// An item that is sent.
    Item(LineAt, Item),
    /// The history was replaced: by the list that the line holds, or
    Compacted(LineAt),
    /// by what the user said so far and a summary.
    Summarised(LineAt),
}

/// What an item is to the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Item {
    /// A prompt, which begins a turn.
    Prompt,
    /// What the client says in the user's or the developer's name.
    Context,
    /// What the model wrote.
    Reply,
    /// What came back from a tool.
    Output,
}

/// What the provider reported, and how many items stood before it.
pub(super) struct Used {
    /// Where the report stands.
    pub(super) line: usize,
    pub(super) at: Option<Moment>,
    pub(super) model: Option<String>,
    pub(super) usage: Usage,
}

/// A file, as far as it has to be known before its items are read.
#[derive(Default)]
pub(super) struct Rollout {
    pub(super) steps: Vec<Step>,
    pub(super) used: Vec<Used>,
    /// What the user's files instruct, as the old format keeps it.
    pub(super) instructions: Option<String>,
    pub(super) id: Option<String>,
    pub(super) project: Option<String>,
    pub(super) title: Option<String>,
    pub(super) model: Option<String>,
    pub(super) system: Option<String>,
    pub(super) compactions: usize,
    pub(super) started: Option<Moment>,
    pub(super) updated: Option<Moment>,
    pub(super) unknown: BTreeMap<String, usize>,
    pub(super) damage: Vec<String>,
    /// The sum of the last report: the client repeats reports.
    total: Option<u64>,
}

/// How texts begin that the client writes in the user's name; they begin no turn.
const CONTEXT: [&str; 9] = [
    "<environment_context>",
    "<user_instructions>",
    "# AGENTS.md instructions",
    "<turn_aborted>",
    "<skill>",
    "<user_shell_command>",
    "<subagent_notification>",
    "<permissions instructions>",
    "<INSTRUCTIONS>",
];

/// Items that stand in the file and are not sent.
pub(super) const UNSENT: [&str; 1] = ["ghost_snapshot"];

/// Records that hold nothing for a request.
const SILENT: [&str; 2] = ["world_state", "inter_agent_communication_metadata"];

#[derive(Deserialize)]
struct Record<'a> {
    #[serde(rename = "type", borrow)]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow)]
    timestamp: Option<Cow<'a, str>>,
    #[serde(borrow)]
    payload: Option<&'a RawValue>,
    #[serde(rename = "record_type", borrow)]
    state: Option<Cow<'a, str>>,
    #[serde(borrow)]
    id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    instructions: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct Written<'a> {
    #[serde(rename = "type", borrow)]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow)]
    role: Option<Cow<'a, str>>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Part<'a> {
    #[serde(borrow)]
    text: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct Meta<'a> {
    #[serde(borrow)]
    id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    cwd: Option<Cow<'a, str>>,
    #[serde(borrow)]
    model: Option<Cow<'a, str>>,
    base_instructions: Option<Instructions>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Instructions {
    Text(String),
    Object { text: String },
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(rename = "type", borrow)]
    kind: Option<Cow<'a, str>>,
    info: Option<Info>,
    num_turns: Option<usize>,
    #[serde(borrow)]
    thread_name: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct Info {
    total_token_usage: Option<Counts>,
    last_token_usage: Option<Counts>,
}

#[derive(Deserialize)]
struct Counts {
    #[serde(rename = "input_tokens")]
    input: Option<u64>,
    #[serde(rename = "cached_input_tokens")]
    cached: Option<u64>,
    #[serde(rename = "cache_write_input_tokens")]
    written: Option<u64>,
    #[serde(rename = "output_tokens")]
    output: Option<u64>,
    #[serde(rename = "total_tokens")]
    total: Option<u64>,
}

#[derive(Deserialize)]
struct Compacted<'a> {
    #[serde(borrow)]
    replacement_history: Option<&'a RawValue>,
}

impl Rollout {
    pub(super) fn read(path: &Path) -> Result<Self, Unread> {
        let mut rollout = Self::default();
        rollout.damage = lines::each(path, |line| rollout.take(line))?;
        Ok(rollout)
    }

    fn take(&mut self, line: Line<'_>) -> Result<(), serde_json::Error> {
        let record: Record<'_> = serde_json::from_str(line.text)?;
        let moment = record.timestamp.as_deref().and_then(Moment::parse);
        self.started = [self.started, moment].into_iter().flatten().min();
        self.updated = self.updated.max(moment);
        let Some(payload) = record.payload else { return self.take_old(line, &record) };
        match record.kind.as_deref().unwrap_or("nothing") {
            "response_item" => self.item(line.at, &serde_json::from_str(payload.get())?),
            "session_meta" => self.meta(serde_json::from_str(payload.get())?),
            "turn_context" => {
                let context: Meta<'_> = serde_json::from_str(payload.get())?;
                if let Some(model) = context.model {
                    self.model = Some(model.into_owned());
                }
            }
            "event_msg" => self.event(line.at, moment, serde_json::from_str(payload.get())?),
            "compacted" => {
                let compacted: Compacted<'_> = serde_json::from_str(payload.get())?;
                let listed = compacted.replacement_history.is_some_and(|list| list.get().starts_with('['));
                self.compactions += 1;
                self.steps.push(if listed { Step::Compacted(line.at) } else { Step::Summarised(line.at) });
            }
            kind if SILENT.contains(&kind) => {}
            kind => *self.unknown.entry(kind.to_owned()).or_default() += 1,
        }
        Ok(())
    }

    /// Before records had payloads, items stood bare.
    fn take_old(&mut self, line: Line<'_>, record: &Record<'_>) -> Result<(), serde_json::Error> {
        if record.kind.is_some() {
            self.item(line.at, &serde_json::from_str(line.text)?);
        } else if record.state.is_none() && self.id.is_none() {
            self.id = record.id.as_deref().map(str::to_owned);
            self.instructions = record.instructions.as_deref().map(str::to_owned);
        }
        Ok(())
    }

    fn meta(&mut self, meta: Meta<'_>) {
        // A fork repeats its parent's; the first is its own.
        if self.id.is_some() {
            return;
        }
        self.id = meta.id.map(Cow::into_owned);
        self.project = meta.cwd.map(Cow::into_owned);
        self.system = meta.base_instructions.map(|instructions| match instructions {
            Instructions::Text(text) | Instructions::Object { text } => text,
        });
    }

    fn item(&mut self, at: LineAt, written: &Written<'_>) {
        let kind = written.kind.as_deref().unwrap_or_default();
        if UNSENT.contains(&kind) {
            return;
        }
        let item = match (kind, written.role.as_deref()) {
            ("message", Some("user")) if !written.is_context() => Item::Prompt,
            ("message", Some("user" | "developer" | "system")) => Item::Context,
            (kind, _) if kind.ends_with("_output") => Item::Output,
            _ => Item::Reply,
        };
        self.steps.push(Step::Item(at, item));
    }

    fn event(&mut self, at: LineAt, moment: Option<Moment>, event: Event<'_>) {
        match event.kind.as_deref() {
            Some("thread_rolled_back") => self.roll_back(event.num_turns.unwrap_or(0)),
            Some("thread_name_updated") => self.title = event.thread_name.map(Cow::into_owned),
            Some("token_count") => {
                let Some(Info { total_token_usage: total, last_token_usage: Some(last) }) = event.info else {
                    return;
                };
                let total = total.and_then(|total| total.total);
                if total.is_some() && total == self.total {
                    return;
                }
                self.total = total;
                let usage = Usage {
                    input: last.input.map(Tokens),
                    read: last.cached.map(Tokens),
                    written: last.written.map(Tokens),
                    written_1h: None,
                    output: last.output.map(Tokens),
                };
                self.used.push(Used { line: at.number, at: moment, model: self.model.clone(), usage });
            }
            _ => {}
        }
    }

    /// Takes the newest turns away, with the compactions in them.
    fn roll_back(&mut self, turns: usize) {
        let prompts: Vec<usize> = self
            .steps
            .iter()
            .enumerate()
            .filter(|(_, step)| matches!(step, Step::Item(_, Item::Prompt)))
            .map(|(at, _)| at)
            .collect();
        if turns > 0 && !prompts.is_empty() {
            self.steps.truncate(prompts[prompts.len().saturating_sub(turns)]);
        }
    }
}

impl Written<'_> {
    /// Whether the client wrote it in the user's name.
    fn is_context(&self) -> bool {
        let parts = self
            .content
            .and_then(|raw| serde_json::from_str::<Vec<Part<'_>>>(raw.get()).ok())
            .unwrap_or_default();
        let mut texts = parts.iter().filter_map(|part| part.text.as_deref()).map(str::trim_start).peekable();
        texts.peek().is_some() && texts.all(|text| CONTEXT.iter().any(|start| text.starts_with(start)))
    }
}
