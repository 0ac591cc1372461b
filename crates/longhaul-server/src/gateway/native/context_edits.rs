//! Parses the edits that a Messages request asks for. Format and defaults are those of the provider's Python
//! SDK and of its pages on context editing and compaction, November 2026.

use longhaul_engine::Tokens;
use serde::Deserialize;
use serde_json::Value;

use super::CONTEXT_MANAGEMENT;

/// The edits that a request asks for, each at most once.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct ContextEdits {
    pub(super) clear_tools: Option<ClearTools>,
    pub(super) keep_thinking: Option<KeepThinking>,
    pub(super) compact: Option<CompactEdit>,
}

/// The edit that clears the results of old tool calls.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ClearTools {
    pub(super) trigger: ClearTrigger,
    /// The number of newest calls that keep their results.
    pub(super) kept_calls: usize,
    /// The smallest number of tokens that is worth clearing.
    pub(super) min_cleared: Tokens,
    /// The tools whose results are never cleared.
    pub(super) excluded_tools: Vec<String>,
    pub(super) cleared_inputs: ClearedInputs,
}

/// The size of a history from which on results are cleared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClearTrigger {
    Tokens(Tokens),
    Calls(usize),
}

/// The tools whose arguments are cleared together with their results.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ClearedInputs {
    None,
    All,
    Tools(Vec<String>),
}

impl ClearedInputs {
    pub(super) fn includes(&self, tool: &str) -> bool {
        match self {
            Self::None => false,
            Self::All => true,
            Self::Tools(tools) => tools.iter().any(|name| name == tool),
        }
    }
}

/// The newest turns whose thinking stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeepThinking {
    All,
    Turns(usize),
}

/// The edit that compacts the history from a size on.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct CompactEdit {
    pub(super) trigger: Tokens,
    pub(super) pause_after: bool,
    pub(super) instructions: Option<String>,
}

/// The tokens at which tool results are cleared if the request gives no trigger: the provider's default.
const DEFAULT_CLEAR_TOKENS: u64 = 100_000;
/// The newest tool calls that keep their results if the request gives no number: the provider's default.
const DEFAULT_KEPT_CALLS: usize = 3;
/// The tokens at which a history is compacted if the request gives no trigger: the provider's default.
const DEFAULT_COMPACT_TOKENS: u64 = 150_000;

#[derive(Deserialize)]
struct EditedRequest {
    context_management: Option<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ContextManagement {
    #[serde(default)]
    edits: Vec<Value>,
}

#[derive(Deserialize)]
#[serde(tag = "type", deny_unknown_fields)]
enum EditSpec {
    #[serde(rename = "clear_tool_uses_20250919")]
    ClearTools {
        trigger: Option<EditAmount>,
        keep: Option<EditAmount>,
        clear_at_least: Option<EditAmount>,
        exclude_tools: Option<Vec<String>>,
        clear_tool_inputs: Option<InputSelection>,
    },
    #[serde(rename = "clear_thinking_20251015")]
    ClearThinking { keep: Option<ThinkingSelection> },
    #[serde(rename = "compact_20260112")]
    Compact { trigger: Option<EditAmount>, pause_after_compaction: Option<bool>, instructions: Option<String> },
}

/// A limit in tokens or in tool calls.
#[derive(Deserialize)]
#[serde(tag = "type", content = "value", rename_all = "snake_case", deny_unknown_fields)]
enum EditAmount {
    InputTokens(u64),
    ToolUses(usize),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum InputSelection {
    All(bool),
    Tools(Vec<String>),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum ThinkingSelection {
    All(AllKeyword),
    Turns(TurnSelection),
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum AllKeyword {
    All,
}

#[derive(Deserialize)]
#[serde(tag = "type", content = "value", rename_all = "snake_case", deny_unknown_fields)]
enum TurnSelection {
    ThinkingTurns(usize),
    All,
}

impl ContextEdits {
    /// Parses the edits of a request body; nothing if it asks for none. The error gives the field and the
    /// problem.
    pub(super) fn parse(text: &str) -> Result<Option<Self>, String> {
        // The upstream refuses a body that is not a request.
        let opening = serde_json::from_str::<EditedRequest>(text).ok();
        let Some(context_management) = opening.and_then(|opening| opening.context_management) else { return Ok(None) };
        let invalid = |error: serde_json::Error| format!("{CONTEXT_MANAGEMENT}: {error}");
        let ContextManagement { edits } = serde_json::from_value(context_management).map_err(invalid)?;
        let mut requested_edits = Self::default();
        for (at, edit) in edits.into_iter().enumerate() {
            let place = format!("{CONTEXT_MANAGEMENT}.edits.{at}");
            let edit = serde_json::from_value(edit).map_err(|error| {
                format!(
                    "{place}: {error}; longhaul applies these edits itself, because the upstream may not \
                     support them (upstreams.messages.native)"
                )
            })?;
            requested_edits.add(edit).map_err(|problem| format!("{place}.{problem}"))?;
        }
        Ok(Some(requested_edits))
    }

    fn add(&mut self, edit: EditSpec) -> Result<(), &'static str> {
        const TWICE: &str = "type: the same edit is listed twice";
        match edit {
            EditSpec::ClearTools { trigger, keep, clear_at_least, exclude_tools, clear_tool_inputs } => {
                let tools = ClearTools {
                    trigger: match trigger {
                        None => ClearTrigger::Tokens(Tokens(DEFAULT_CLEAR_TOKENS)),
                        Some(EditAmount::InputTokens(tokens)) => ClearTrigger::Tokens(Tokens(tokens)),
                        Some(EditAmount::ToolUses(calls)) => ClearTrigger::Calls(calls),
                    },
                    kept_calls: match keep {
                        None => DEFAULT_KEPT_CALLS,
                        Some(EditAmount::ToolUses(calls)) => calls,
                        Some(EditAmount::InputTokens(_)) => return Err("keep.type: expected tool_uses"),
                    },
                    min_cleared: match clear_at_least {
                        None => Tokens::ZERO,
                        Some(EditAmount::InputTokens(tokens)) => Tokens(tokens),
                        Some(EditAmount::ToolUses(_)) => {
                            return Err("clear_at_least.type: expected input_tokens");
                        }
                    },
                    excluded_tools: exclude_tools.unwrap_or_default(),
                    cleared_inputs: match clear_tool_inputs {
                        None | Some(InputSelection::All(false)) => ClearedInputs::None,
                        Some(InputSelection::All(true)) => ClearedInputs::All,
                        Some(InputSelection::Tools(tools)) => ClearedInputs::Tools(tools),
                    },
                };
                self.clear_tools.replace(tools).map_or(Ok(()), |_| Err(TWICE))
            }
            EditSpec::ClearThinking { keep } => {
                let kept_turns = match keep {
                    None => KeepThinking::Turns(1),
                    Some(ThinkingSelection::All(AllKeyword::All) | ThinkingSelection::Turns(TurnSelection::All)) => {
                        KeepThinking::All
                    }
                    Some(ThinkingSelection::Turns(TurnSelection::ThinkingTurns(0))) => {
                        return Err("keep.value: expected 1 or more");
                    }
                    Some(ThinkingSelection::Turns(TurnSelection::ThinkingTurns(turns))) => KeepThinking::Turns(turns),
                };
                self.keep_thinking.replace(kept_turns).map_or(Ok(()), |_| Err(TWICE))
            }
            EditSpec::Compact { trigger, pause_after_compaction, instructions } => {
                let trigger = match trigger {
                    None => DEFAULT_COMPACT_TOKENS,
                    Some(EditAmount::InputTokens(tokens)) => tokens,
                    Some(EditAmount::ToolUses(_)) => return Err("trigger.type: expected input_tokens"),
                };
                let pause_after = pause_after_compaction.unwrap_or_default();
                let compact = CompactEdit { trigger: Tokens(trigger), pause_after, instructions };
                self.compact.replace(compact).map_or(Ok(()), |_| Err(TWICE))
            }
        }
    }
}
