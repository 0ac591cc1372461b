//! Takes out of a history what its client wants gone: results of older tool calls, thinking of older turns.
//!
//! The history is gone through from its beginning, and at each place where a request could have ended it is asked whether something was
//! to be cleared then. So the answer is a function of what stands before that place, and of nothing else: what was cleared once is
//! cleared each time, word for word, and what follows is added to a prefix that the provider has cached. Nothing has to be remembered.

use std::collections::VecDeque;

use longhaul_engine::known::Known;
use longhaul_engine::meter::Meter;
use longhaul_engine::models::Model;
use longhaul_engine::transcript::{
    Block, BlockKind, ElementId, Exchange, Place, Seal, Speaker, Transcript, Unit, UnitKind,
};
use longhaul_engine::{Edit, Tokens};
use serde_json::{Value, json};

use super::wanted::{ClearTools, KeepThinking, Trigger, Wanted};

/// What stands in the place of a result.
const GONE: &str = "[cleared to make room; call the tool again if this is needed]";
/// About what that costs, and arguments without anything in them.
const GONE_TOKENS: Tokens = Tokens(14);

/// What is cleared.
pub(super) struct Cleared {
    pub(super) edits: Vec<Edit>,
    /// What was done, as the provider says it.
    pub(super) applied: Vec<Value>,
    /// What the history comes to then,
    pub(super) left: Tokens,
    /// and how much less that is.
    pub(super) saved: Tokens,
}

/// What a request's edits make of its history.
pub(super) fn clear(wanted: &Wanted, transcript: &Transcript<'_>, model: &Model) -> Cleared {
    let (meter, known) = (Meter::of(model), &mut Known::default());
    let mut walk = Walk {
        transcript,
        is_bound: model.facts.thinking_bound,
        total: meter.outside(known, transcript),
        calls: Vec::new(),
        turns: VecDeque::new(),
        thoughts: Vec::new(),
        by_tools: Tokens::ZERO,
        by_thinking: (0, Tokens::ZERO),
    };
    for (at, unit) in transcript.units.iter().enumerate() {
        walk.total += meter.unit(known, unit);
        walk.read(at, unit, &meter, known, wanted);
        if let Some(tools) = &wanted.tools {
            walk.clear_calls(tools, at);
        }
    }
    walk.done()
}

/// A tool call with its results.
struct Call {
    unit: usize,
    exclude: bool,
    results: Vec<ElementId>,
    /// The call itself, where its arguments go too.
    arguments: Option<ElementId>,
    saves: Tokens,
    is_gone: bool,
}

/// A block of thinking.
struct Thought {
    unit: usize,
    at: ElementId,
    is_sealed: bool,
    tokens: Tokens,
    is_gone: bool,
}

struct Walk<'t, 'b> {
    transcript: &'t Transcript<'b>,
    /// Whether thinking is refused where anything before it was changed.
    is_bound: bool,
    total: Tokens,
    calls: Vec<Call>,
    /// The turns whose thinking stays, oldest first: their blocks among the thoughts.
    turns: VecDeque<Vec<usize>>,
    thoughts: Vec<Thought>,
    by_tools: Tokens,
    by_thinking: (usize, Tokens),
}

impl Walk<'_, '_> {
    fn read(&mut self, at: usize, unit: &Unit<'_>, meter: &Meter, known: &mut Known, wanted: &Wanted) {
        let (reply, exchanges) = match &unit.kind {
            UnitKind::Step { reply, exchanges } => (reply, exchanges),
            UnitKind::Prompt { by: Speaker::User | Speaker::Unsure, .. } => {
                let keep = match wanted.thinking {
                    Some(KeepThinking::Turns(keep)) => Some(keep),
                    Some(KeepThinking::All) | None => None,
                };
                return self.turns(keep);
            }
            _ => return,
        };
        for block in reply {
            let (BlockKind::Reasoning(seal), Place::Element(element)) = (block.kind, block.place) else {
                continue;
            };
            if !self.stands_alone(element) {
                let (tokens, is_sealed) = (meter.block(known, block), seal == Seal::Sealed);
                self.thoughts.push(Thought { unit: at, at: element, is_sealed, tokens, is_gone: false });
                let thought = self.thoughts.len() - 1;
                match self.turns.back_mut() {
                    Some(turn) => turn.push(thought),
                    None => self.turns.push_back(vec![thought]),
                }
            }
        }
        let Some(tools) = &wanted.tools else { return };
        let calls = exchanges.iter().filter_map(|exchange| call(at, exchange, tools, meter, known));
        self.calls.extend(calls);
    }

    /// Whether nothing but thinking stands in a message: without it there would be none.
    fn stands_alone(&self, thought: ElementId) -> bool {
        let message = self.transcript.message_of(thought).and_then(|at| self.transcript.message(at));
        let message =
            message.and_then(|message| serde_json::from_str::<Value>(message).ok()).unwrap_or_default();
        let is_thinking =
            |block: &Value| block["type"].as_str().is_some_and(|kind| kind.contains("thinking"));
        message["content"].as_array().is_none_or(|blocks| blocks.iter().all(is_thinking))
    }

    /// Somebody speaks, and another turn begins: thinking of all but so many newest turns goes, and never in the midst of one. Where
    /// it is bound to what stands before it, all of it goes: with the oldest gone, no other would be taken.
    fn turns(&mut self, keep: Option<usize>) {
        let with_any = |turns: &VecDeque<Vec<usize>>| turns.iter().filter(|turn| !turn.is_empty()).count();
        if let Some(keep) = keep.filter(|keep| with_any(&self.turns) > *keep) {
            let keep = if self.is_bound { 0 } else { keep };
            while with_any(&self.turns) > keep {
                let Some(turn) = self.turns.pop_front() else { break };
                let tokens: Tokens = turn.iter().filter_map(|at| self.forget(*at)).sum();
                if !turn.is_empty() {
                    self.by_thinking = (self.by_thinking.0 + 1, self.by_thinking.1 + tokens);
                }
            }
        }
        self.turns.push_back(Vec::new());
    }

    fn forget(&mut self, at: usize) -> Option<Tokens> {
        let thought = self.thoughts.get_mut(at).filter(|thought| !thought.is_gone)?;
        thought.is_gone = true;
        self.total = self.total - thought.tokens;
        Some(thought.tokens)
    }

    /// Results go where it is time, in a history that ends with this unit.
    fn clear_calls(&mut self, tools: &ClearTools, end: usize) {
        let standing = self.calls.iter().filter(|call| !call.is_gone).count();
        let is_time = match tools.trigger {
            Trigger::Tokens(tokens) => self.total > tokens,
            Trigger::Calls(calls) => standing > calls,
        };
        if !is_time || (self.is_bound && self.is_in_loop(end)) {
            return;
        }
        let mut old: Vec<usize> = (0..self.calls.len()).filter(|at| !self.calls[*at].exclude).collect();
        old.truncate(old.len().saturating_sub(tools.keep));
        // What was not read yet stays, however little is to be kept.
        old.retain(|at| {
            !self.calls[*at].is_gone && self.calls[*at].unit != end && self.calls[*at].saves > Tokens::ZERO
        });
        let saves: Tokens = old.iter().map(|at| self.calls[*at].saves).sum();
        let Some(first) = old.first().map(|at| self.calls[*at].unit) else { return };
        if saves < tools.at_least {
            return;
        }
        for at in old {
            self.calls[at].is_gone = true;
        }
        self.total = self.total - saves;
        self.by_tools += saves;
        if self.is_bound {
            let unbound: Vec<usize> = (0..self.thoughts.len())
                .filter(|at| self.thoughts[*at].is_sealed && self.thoughts[*at].unit > first)
                .collect();
            let unbound: Tokens = unbound.into_iter().filter_map(|at| self.forget(at)).sum();
            self.by_tools += unbound;
        }
    }

    /// Whether the model is in the midst of calls since somebody last spoke, and has thought meanwhile.
    fn is_in_loop(&self, end: usize) -> bool {
        let units = &self.transcript.units;
        let steps = units[..=end].iter().rev().take_while(|unit| !unit.exchanges().is_empty()).count();
        self.thoughts.iter().any(|thought| thought.is_sealed && thought.unit + steps > end)
    }

    fn done(self) -> Cleared {
        let gone = || self.calls.iter().filter(|call| call.is_gone);
        let set = |object: ElementId, key, json: String| Edit::Set {
            object: self.transcript.span_of(object),
            key,
            json,
        };
        let results =
            gone().flat_map(|call| &call.results).map(|at| set(*at, "content", json!(GONE).to_string()));
        let inputs = gone().filter_map(|call| call.arguments).map(|at| set(at, "input", "{}".to_owned()));
        let thoughts =
            self.thoughts.iter().filter(|thought| thought.is_gone).map(|thought| Edit::Remove(thought.at));
        let edits = results.chain(inputs).chain(thoughts).collect();
        let (turns, tokens) = self.by_thinking;
        let mut applied = Vec::new();
        if turns > 0 {
            applied.push(json!({
                "type": "clear_thinking_20251015", "cleared_thinking_turns": turns, "cleared_input_tokens": tokens.number(),
            }));
        }
        let calls = gone().count();
        if calls > 0 {
            applied.push(json!({
                "type": "clear_tool_uses_20250919", "cleared_tool_uses": calls, "cleared_input_tokens": self.by_tools.number(),
            }));
        }
        Cleared { edits, applied, left: self.total, saved: tokens + self.by_tools }
    }
}

/// A call whose results could be cleared.
fn call(
    unit: usize,
    exchange: &Exchange<'_>,
    tools: &ClearTools,
    meter: &Meter,
    known: &mut Known,
) -> Option<Call> {
    let block = exchange.call.as_ref().filter(|_| !exchange.answers.is_empty())?;
    let Place::Element(own) = block.place else { return None };
    let exclude = tools.exclude.iter().any(|name| *name == *exchange.tool);
    let own = Some(own).filter(|_| tools.inputs.are_of(&exchange.tool));
    let mut tokens = |block: &Block<'_>| meter.block(known, block);
    let results: Tokens = exchange.results.iter().map(&mut tokens).sum();
    let input = own.map_or(Tokens::ZERO, |_| tokens(block));
    Some(Call {
        unit,
        exclude,
        results: exchange.answers.clone(),
        arguments: own,
        saves: (results + input) - GONE_TOKENS,
        is_gone: false,
    })
}
