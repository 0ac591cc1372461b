//! What a request asks to have done to its history. Shapes and defaults: the provider's Python SDK and its pages on context editing and
//! compaction, November 2026.

use longhaul_engine::Tokens;
use serde::Deserialize;
use serde_json::Value;

use super::MANAGED;

/// The edits that a request asks for.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Wanted {
    pub(super) tools: Option<ClearTools>,
    pub(super) thinking: Option<KeepThinking>,
    pub(super) compact: Option<Compact>,
}

/// Results of older tool calls go.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ClearTools {
    pub(super) trigger: Trigger,
    /// So many newest calls stay.
    pub(super) keep: usize,
    /// Less is not worth it.
    pub(super) at_least: Tokens,
    /// Results of these stay.
    pub(super) exclude: Vec<String>,
    pub(super) inputs: Inputs,
}

/// From when on results are cleared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trigger {
    Tokens(Tokens),
    Calls(usize),
}

/// Whose arguments are cleared with their results.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Inputs {
    None,
    All,
    Of(Vec<String>),
}

impl Inputs {
    pub(super) fn are_of(&self, tool: &str) -> bool {
        match self {
            Self::None => false,
            Self::All => true,
            Self::Of(tools) => tools.iter().any(|name| name == tool),
        }
    }
}

/// Of so many newest turns thinking stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeepThinking {
    All,
    Turns(usize),
}

/// The history is compacted once it is so long.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Compact {
    pub(super) trigger: Tokens,
    pub(super) pauses: bool,
    pub(super) instructions: Option<String>,
}

/// What the provider clears at, where a request does not say.
const CLEARS_AT: u64 = 100_000;
const KEEPS: usize = 3;
/// What it compacts at.
const COMPACTS_AT: u64 = 150_000;

#[derive(Deserialize)]
struct Opening {
    context_management: Option<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Managed {
    #[serde(default)]
    edits: Vec<Value>,
}

#[derive(Deserialize)]
#[serde(tag = "type", deny_unknown_fields)]
enum Edit {
    #[serde(rename = "clear_tool_uses_20250919")]
    Tools {
        trigger: Option<Count>,
        keep: Option<Count>,
        clear_at_least: Option<Count>,
        exclude_tools: Option<Vec<String>>,
        clear_tool_inputs: Option<Cleared>,
    },
    #[serde(rename = "clear_thinking_20251015")]
    Thinking { keep: Option<Kept> },
    #[serde(rename = "compact_20260112")]
    Compact { trigger: Option<Count>, pause_after_compaction: Option<bool>, instructions: Option<String> },
}

/// So many of something.
#[derive(Deserialize)]
#[serde(tag = "type", content = "value", rename_all = "snake_case", deny_unknown_fields)]
enum Count {
    InputTokens(u64),
    ToolUses(usize),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Cleared {
    All(bool),
    Of(Vec<String>),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Kept {
    Word(All),
    Count(Turns),
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum All {
    All,
}

#[derive(Deserialize)]
#[serde(tag = "type", content = "value", rename_all = "snake_case", deny_unknown_fields)]
enum Turns {
    ThinkingTurns(usize),
    All,
}

impl Wanted {
    /// What a body asks for; nothing where it asks for nothing. The error says what is wrong, and where.
    pub(super) fn of(text: &str) -> Result<Option<Self>, String> {
        // What is no request at all is the upstream's to refuse.
        let opening = serde_json::from_str::<Opening>(text).ok();
        let Some(managed) = opening.and_then(|opening| opening.context_management) else { return Ok(None) };
        let wrong = |error: serde_json::Error| format!("{MANAGED}: {error}");
        let Managed { edits } = serde_json::from_value(managed).map_err(wrong)?;
        let mut wanted = Self::default();
        for (at, edit) in edits.into_iter().enumerate() {
            let place = format!("{MANAGED}.edits.{at}");
            let edit = serde_json::from_value(edit).map_err(|error| {
                format!("{place}: {error}; longhaul serves these edits itself, as the upstream is not known to have them (upstreams.messages.native)")
            })?;
            wanted.add(edit).map_err(|problem| format!("{place}.{problem}"))?;
        }
        Ok(Some(wanted))
    }

    fn add(&mut self, edit: Edit) -> Result<(), &'static str> {
        const TWICE: &str = "type: an edit is asked for twice";
        match edit {
            Edit::Tools { trigger, keep, clear_at_least, exclude_tools, clear_tool_inputs } => {
                let tools = ClearTools {
                    trigger: match trigger {
                        None => Trigger::Tokens(Tokens(CLEARS_AT)),
                        Some(Count::InputTokens(tokens)) => Trigger::Tokens(Tokens(tokens)),
                        Some(Count::ToolUses(calls)) => Trigger::Calls(calls),
                    },
                    keep: match keep {
                        None => KEEPS,
                        Some(Count::ToolUses(calls)) => calls,
                        Some(Count::InputTokens(_)) => return Err("keep.type: expected tool_uses"),
                    },
                    at_least: match clear_at_least {
                        None => Tokens::ZERO,
                        Some(Count::InputTokens(tokens)) => Tokens(tokens),
                        Some(Count::ToolUses(_)) => return Err("clear_at_least.type: expected input_tokens"),
                    },
                    exclude: exclude_tools.unwrap_or_default(),
                    inputs: match clear_tool_inputs {
                        None | Some(Cleared::All(false)) => Inputs::None,
                        Some(Cleared::All(true)) => Inputs::All,
                        Some(Cleared::Of(tools)) => Inputs::Of(tools),
                    },
                };
                self.tools.replace(tools).map_or(Ok(()), |_| Err(TWICE))
            }
            Edit::Thinking { keep } => {
                let keep = match keep {
                    None => KeepThinking::Turns(1),
                    Some(Kept::Word(All::All) | Kept::Count(Turns::All)) => KeepThinking::All,
                    Some(Kept::Count(Turns::ThinkingTurns(0))) => {
                        return Err("keep.value: expected 1 or more");
                    }
                    Some(Kept::Count(Turns::ThinkingTurns(turns))) => KeepThinking::Turns(turns),
                };
                self.thinking.replace(keep).map_or(Ok(()), |_| Err(TWICE))
            }
            Edit::Compact { trigger, pause_after_compaction, instructions } => {
                let trigger = match trigger {
                    None => COMPACTS_AT,
                    Some(Count::InputTokens(tokens)) => tokens,
                    Some(Count::ToolUses(_)) => return Err("trigger.type: expected input_tokens"),
                };
                let pauses = pause_after_compaction.unwrap_or_default();
                let compact = Compact { trigger: Tokens(trigger), pauses, instructions };
                self.compact.replace(compact).map_or(Ok(()), |_| Err(TWICE))
            }
        }
    }
}
