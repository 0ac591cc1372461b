//! Clears the results of old tool calls and the thinking of old turns, as the client's request asks.
//!
//! The walk visits the history from its beginning. After each turn, where a request could have ended, it
//! decides whether something had to be cleared then. So a decision depends only on the history before it:
//! each request clears the same texts again, and the prefix that the provider cached stays the same. No state
//! is stored.

use std::collections::VecDeque;

use longhaul_engine::block_cache::BlockCache;
use longhaul_engine::meter::Meter;
use longhaul_engine::models::Model;
use longhaul_engine::transcript::{
    Block, BlockKind, ElementId, JsonSlot, Seal, Speaker, ToolCall, Transcript, Turn, TurnKind,
};
use longhaul_engine::{Edit, Tokens};
use serde_json::{Value, json};

use super::context_edits::{ClearTools, ClearTrigger, ContextEdits, KeepThinking};

/// The text that replaces a cleared result.
const CLEARED_TEXT: &str = "[cleared to make room; call the tool again if this is needed]";
/// The tokens of [`CLEARED_TEXT`] and of empty arguments. Estimated.
const CLEARED_TEXT_TOKENS: Tokens = Tokens(14);

/// The result of clearing a history.
pub(super) struct ClearedHistory {
    pub(super) edits: Vec<Edit>,
    /// The applied edits in the provider's format, for the reply.
    pub(super) applied_edits: Vec<Value>,
    /// The tokens of the history after clearing.
    pub(super) remaining_tokens: Tokens,
    /// The tokens that clearing removed.
    pub(super) cleared_tokens: Tokens,
}

/// Applies the requested edits to a history.
pub(super) fn clear_history(edits: &ContextEdits, transcript: &Transcript<'_>, model: &Model) -> ClearedHistory {
    let (meter, cache) = (Meter::for_model(model), &mut BlockCache::default());
    let mut walk = HistoryWalk {
        transcript,
        is_thinking_bound: model.facts.thinking_bound,
        total_tokens: meter.count_outside_turns(cache, transcript),
        calls: Vec::new(),
        thinking_turns: VecDeque::new(),
        thinking_blocks: Vec::new(),
        cleared_tool_tokens: Tokens::ZERO,
        cleared_thinking: (0, Tokens::ZERO),
    };
    for (at, turn) in transcript.turns.iter().enumerate() {
        walk.total_tokens += meter.count_turn(cache, turn);
        walk.visit_turn(at, turn, &meter, cache, edits);
        if let Some(tools) = &edits.clear_tools {
            walk.clear_calls(tools, at);
        }
    }
    walk.finish()
}

/// A tool call whose results may be cleared.
struct ClearableCall {
    turn: usize,
    is_excluded: bool,
    results: Vec<ElementId>,
    /// The element of the call, if its arguments are cleared too.
    arguments: Option<ElementId>,
    saved_tokens: Tokens,
    is_cleared: bool,
}

/// A block of thinking.
struct ThinkingBlock {
    turn: usize,
    element: ElementId,
    is_sealed: bool,
    tokens: Tokens,
    is_cleared: bool,
}

struct HistoryWalk<'t, 'b> {
    transcript: &'t Transcript<'b>,
    /// Whether the provider refuses signed thinking if anything before it was changed.
    is_thinking_bound: bool,
    total_tokens: Tokens,
    calls: Vec<ClearableCall>,
    /// The thinking blocks that stay, as indices into `thinking_blocks`, grouped by thinking turn, oldest
    /// first. A thinking turn is the provider's word for everything from one user message to the next.
    thinking_turns: VecDeque<Vec<usize>>,
    thinking_blocks: Vec<ThinkingBlock>,
    cleared_tool_tokens: Tokens,
    cleared_thinking: (usize, Tokens),
}

impl HistoryWalk<'_, '_> {
    fn visit_turn(&mut self, at: usize, turn: &Turn<'_>, meter: &Meter, cache: &mut BlockCache, edits: &ContextEdits) {
        let (reply, tool_calls) = match &turn.kind {
            TurnKind::Assistant { reply, tool_calls } => (reply, tool_calls),
            TurnKind::Prompt { speaker: Speaker::User | Speaker::Unsure, .. } => {
                let kept_turns = match edits.keep_thinking {
                    Some(KeepThinking::Turns(kept_turns)) => Some(kept_turns),
                    Some(KeepThinking::All) | None => None,
                };
                return self.begin_thinking_turn(kept_turns);
            }
            _ => return,
        };
        for block in reply {
            let (BlockKind::Reasoning(seal), JsonSlot::Element(element)) = (block.kind, block.slot) else {
                continue;
            };
            if !self.is_only_thinking(element) {
                let (tokens, is_sealed) = (meter.count_block(cache, block), seal == Seal::Sealed);
                self.thinking_blocks.push(ThinkingBlock { turn: at, element, is_sealed, tokens, is_cleared: false });
                let block_index = self.thinking_blocks.len() - 1;
                match self.thinking_turns.back_mut() {
                    Some(turn) => turn.push(block_index),
                    None => self.thinking_turns.push_back(vec![block_index]),
                }
            }
        }
        let Some(tools) = &edits.clear_tools else { return };
        let calls = tool_calls.iter().filter_map(|tool_call| clearable_call(at, tool_call, tools, meter, cache));
        self.calls.extend(calls);
    }

    /// Returns whether a message consists only of thinking. Such a message is kept, because removing its
    /// blocks would leave it empty.
    fn is_only_thinking(&self, element: ElementId) -> bool {
        let message = self.transcript.message_of(element).and_then(|at| self.transcript.message_json(at));
        let message = message.and_then(|message| serde_json::from_str::<Value>(message).ok()).unwrap_or_default();
        let is_thinking = |block: &Value| block["type"].as_str().is_some_and(|kind| kind.contains("thinking"));
        message["content"].as_array().is_none_or(|blocks| blocks.iter().all(is_thinking))
    }

    /// Begins a thinking turn at a user message. Before that, if more than `kept_turns` earlier turns have any
    /// thinking, it clears that of the oldest, each turn as a whole. If thinking is bound to the text before it,
    /// it then clears all of it, because the provider would refuse the rest without the oldest.
    fn begin_thinking_turn(&mut self, kept_turns: Option<usize>) {
        let count_with_thinking = |turns: &VecDeque<Vec<usize>>| turns.iter().filter(|turn| !turn.is_empty()).count();
        if let Some(kept_turns) =
            kept_turns.filter(|kept_turns| count_with_thinking(&self.thinking_turns) > *kept_turns)
        {
            let kept_turns = if self.is_thinking_bound { 0 } else { kept_turns };
            while count_with_thinking(&self.thinking_turns) > kept_turns {
                let Some(turn) = self.thinking_turns.pop_front() else { break };
                let tokens: Tokens = turn.iter().filter_map(|at| self.clear_thinking(*at)).sum();
                if !turn.is_empty() {
                    self.cleared_thinking = (self.cleared_thinking.0 + 1, self.cleared_thinking.1 + tokens);
                }
            }
        }
        self.thinking_turns.push_back(Vec::new());
    }

    fn clear_thinking(&mut self, at: usize) -> Option<Tokens> {
        let block = self.thinking_blocks.get_mut(at).filter(|block| !block.is_cleared)?;
        block.is_cleared = true;
        self.total_tokens = self.total_tokens - block.tokens;
        Some(block.tokens)
    }

    /// Clears old results if the trigger applies to the history that ends with turn `end`.
    fn clear_calls(&mut self, tools: &ClearTools, end: usize) {
        let uncleared_count = self.calls.iter().filter(|call| !call.is_cleared).count();
        let is_triggered = match tools.trigger {
            ClearTrigger::Tokens(tokens) => self.total_tokens > tokens,
            ClearTrigger::Calls(calls) => uncleared_count > calls,
        };
        if !is_triggered || (self.is_thinking_bound && self.is_in_tool_loop(end)) {
            return;
        }
        let mut old_calls: Vec<usize> = (0..self.calls.len()).filter(|at| !self.calls[*at].is_excluded).collect();
        old_calls.truncate(old_calls.len().saturating_sub(tools.kept_calls));
        // The results of the newest turn stay, because the model has not read them yet.
        old_calls.retain(|at| {
            !self.calls[*at].is_cleared && self.calls[*at].turn != end && self.calls[*at].saved_tokens > Tokens::ZERO
        });
        let saved_tokens: Tokens = old_calls.iter().map(|at| self.calls[*at].saved_tokens).sum();
        let Some(first) = old_calls.first().map(|at| self.calls[*at].turn) else { return };
        if saved_tokens < tools.min_cleared {
            return;
        }
        for at in old_calls {
            self.calls[at].is_cleared = true;
        }
        self.total_tokens = self.total_tokens - saved_tokens;
        self.cleared_tool_tokens += saved_tokens;
        if self.is_thinking_bound {
            let invalidated_blocks: Vec<usize> = (0..self.thinking_blocks.len())
                .filter(|at| self.thinking_blocks[*at].is_sealed && self.thinking_blocks[*at].turn > first)
                .collect();
            let invalidated_tokens: Tokens =
                invalidated_blocks.into_iter().filter_map(|at| self.clear_thinking(at)).sum();
            self.cleared_tool_tokens += invalidated_tokens;
        }
    }

    /// Returns whether turn `end` is in a run of turns with tool calls of which one has signed thinking.
    fn is_in_tool_loop(&self, end: usize) -> bool {
        let turns = &self.transcript.turns;
        let run_length = turns[..=end].iter().rev().take_while(|turn| !turn.tool_calls().is_empty()).count();
        self.thinking_blocks.iter().any(|block| block.is_sealed && block.turn + run_length > end)
    }

    fn finish(self) -> ClearedHistory {
        let cleared_calls = || self.calls.iter().filter(|call| call.is_cleared);
        let set =
            |object: ElementId, key, json: String| Edit::Set { object: self.transcript.span_of(object), key, json };
        let results = cleared_calls()
            .flat_map(|call| &call.results)
            .map(|at| set(*at, "content", json!(CLEARED_TEXT).to_string()));
        let inputs = cleared_calls().filter_map(|call| call.arguments).map(|at| set(at, "input", "{}".to_owned()));
        let thinking =
            self.thinking_blocks.iter().filter(|block| block.is_cleared).map(|block| Edit::Remove(block.element));
        let edits = results.chain(inputs).chain(thinking).collect();
        let (turns, tokens) = self.cleared_thinking;
        let mut applied = Vec::new();
        if turns > 0 {
            applied.push(json!({
                "type": "clear_thinking_20251015", "cleared_thinking_turns": turns, "cleared_input_tokens": tokens.number(),
            }));
        }
        let calls = cleared_calls().count();
        if calls > 0 {
            applied.push(json!({
                "type": "clear_tool_uses_20250919", "cleared_tool_uses": calls, "cleared_input_tokens": self.cleared_tool_tokens.number(),
            }));
        }
        ClearedHistory {
            edits,
            applied_edits: applied,
            remaining_tokens: self.total_tokens,
            cleared_tokens: tokens + self.cleared_tool_tokens,
        }
    }
}

/// Describes a tool call for clearing; none if it has no results.
fn clearable_call(
    turn: usize,
    tool_call: &ToolCall<'_>,
    tools: &ClearTools,
    meter: &Meter,
    cache: &mut BlockCache,
) -> Option<ClearableCall> {
    let block = tool_call.call.as_ref().filter(|_| !tool_call.result_elements.is_empty())?;
    let JsonSlot::Element(element) = block.slot else { return None };
    let is_excluded = tools.excluded_tools.iter().any(|name| *name == *tool_call.tool);
    let arguments = Some(element).filter(|_| tools.cleared_inputs.includes(&tool_call.tool));
    let mut tokens = |block: &Block<'_>| meter.count_block(cache, block);
    let result_tokens: Tokens = tool_call.results.iter().map(&mut tokens).sum();
    let argument_tokens = arguments.map_or(Tokens::ZERO, |_| tokens(block));
    Some(ClearableCall {
        turn,
        is_excluded,
        results: tool_call.result_elements.clone(),
        arguments,
        saved_tokens: (result_tokens + argument_tokens) - CLEARED_TEXT_TOKENS,
        is_cleared: false,
    })
}
