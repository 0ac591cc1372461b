//! The essential rules of Messages.

use std::collections::HashSet;

use serde_json::Value;

use super::super::prompt::list;
use super::super::refusal::Refusal;
use super::refuse;

const MOST_MARKS: usize = 4;

pub(super) fn judge(request: &Value) -> Result<(), Refusal> {
    if list(&request["messages"]).next().is_none() {
        return refuse("messages: at least one message is required");
    }
    // Who lacks what another provider has does not know its fields and blocks.
    if request.get("context_management").is_some() {
        return refuse("context_management: Extra inputs are not permitted");
    }
    for (m, message) in list(&request["messages"]) {
        if let Some((b, _)) = list(&message["content"]).find(|(_, block)| block["type"] == "compaction") {
            return refuse(format!(
                "messages.{m}.content.{b}: Input tag 'compaction' does not match any of the expected tags"
            ));
        }
        match message["role"].as_str().unwrap_or_default() {
            "user" | "assistant" | "system" => {}
            role => {
                return refuse(format!("messages.{m}.role: Input should be 'user' or 'assistant', not '{role}'"));
            }
        }
    }
    marks(request)?;
    texts(request)?;
    let turns = turns(&request["messages"]);
    unique(&turns)?;
    for pair in turns.windows(2) {
        answered(&pair[0], pair.get(1))?;
    }
    if let Some(last) = turns.last() {
        answered(last, None)?;
    }
    for (t, turn) in turns.iter().enumerate() {
        answers(turn, t.checked_sub(1).map(|before| &turns[before]))?;
    }
    results_first(&request["messages"])?;
    let has_tools = turns.iter().flat_map(|turn| &turn.blocks).any(|block| {
        let kind = &block.value["type"];
        kind == "tool_use" || kind == "tool_result"
    });
    if has_tools && list(&request["tools"]).next().is_none() {
        return refuse("Requests which include `tool_use` or `tool_result` blocks must define tools.");
    }
    Ok(())
}

/// Messages of one role in a row, which are read as one.
struct Turn<'v> {
    role: &'v Value,
    blocks: Vec<Placed<'v>>,
}

struct Placed<'v> {
    message: usize,
    at: usize,
    value: &'v Value,
}

impl Turn<'_> {
    /// The blocks of these kinds, each with the id in that field.
    fn ids<'t>(&'t self, kinds: &'t [&str], field: &'t str) -> impl Iterator<Item = (&'t Placed<'t>, &'t str)> {
        let of_kind = |block: &&Placed<'_>| kinds.iter().any(|kind| block.value["type"] == *kind);
        self.blocks.iter().filter(of_kind).map(move |block| (block, block.value[field].as_str().unwrap_or_default()))
    }
}

fn turns(messages: &Value) -> Vec<Turn<'_>> {
    let mut turns: Vec<Turn<'_>> = Vec::new();
    for (m, message) in list(messages) {
        if turns.last().is_none_or(|turn| *turn.role != message["role"]) {
            turns.push(Turn { role: &message["role"], blocks: Vec::new() });
        }
        if let Some(turn) = turns.last_mut() {
            turn.blocks.extend(list(&message["content"]).map(|(at, value)| Placed { message: m, at, value }));
        }
    }
    turns
}

fn unique(turns: &[Turn<'_>]) -> Result<(), Refusal> {
    let mut cache = HashSet::new();
    for (block, id) in turns.iter().flat_map(|turn| turn.ids(&["tool_use"], "id")) {
        if !cache.insert(id) {
            return refuse(format!("messages.{}.content.{}: `tool_use` ids must be unique", block.message, block.at));
        }
    }
    Ok(())
}

/// Every call has its result in the turn behind it.
fn answered(turn: &Turn<'_>, next: Option<&Turn<'_>>) -> Result<(), Refusal> {
    if turn.role != "assistant" {
        return Ok(());
    }
    let next = next.filter(|next| next.role == "user");
    let results: HashSet<&str> =
        next.into_iter().flat_map(|next| next.ids(&["tool_result"], "tool_use_id")).map(|(_, id)| id).collect();
    let open: Vec<_> = turn.ids(&["tool_use"], "id").filter(|(_, id)| !results.contains(id)).collect();
    let Some((first, _)) = open.first() else { return Ok(()) };
    let ids: Vec<&str> = open.iter().map(|(_, id)| *id).collect();
    refuse(format!(
        "messages.{}: `tool_use` ids were found without `tool_result` blocks immediately after: {}. Each `tool_use` block must \
         have a corresponding `tool_result` block in the next message.",
        first.message,
        ids.join(", ")
    ))
}

/// Every result answers a call of the turn before it, once.
fn answers(turn: &Turn<'_>, before: Option<&Turn<'_>>) -> Result<(), Refusal> {
    const CALLS: [&str; 3] = ["tool_use", "server_tool_use", "mcp_tool_use"];
    if turn.role != "user" {
        return Ok(());
    }
    let before = before.filter(|before| before.role == "assistant");
    let calls: HashSet<&str> = before.into_iter().flat_map(|turn| turn.ids(&CALLS, "id")).map(|(_, id)| id).collect();
    let mut cache = HashSet::new();
    for (block, id) in turn.ids(&["tool_result"], "tool_use_id") {
        if !calls.contains(id) {
            return refuse(format!(
                "messages.{}.content.{}: unexpected `tool_use_id` found in `tool_result` blocks: {id}. Each `tool_result` block \
                 must have a corresponding `tool_use` block in the previous message.",
                block.message, block.at
            ));
        }
        if !cache.insert(id) {
            return refuse(format!(
                "messages.{}.content.{}: each tool_use must have a single result. Found multiple `tool_result` blocks with id: {id}",
                block.message, block.at
            ));
        }
    }
    Ok(())
}

fn results_first(messages: &Value) -> Result<(), Refusal> {
    for (m, message) in list(messages) {
        let is_result = |(_, block): &(usize, &Value)| block["type"] == "tool_result";
        if list(&message["content"]).skip_while(is_result).any(|block| is_result(&block)) {
            return refuse(format!(
                "messages.{m}: Did not find 1 tool_result block(s) at the beginning of this message. Messages following tool_use \
                 blocks must begin with a matching number of tool_result blocks."
            ));
        }
    }
    Ok(())
}

/// Text says something, and thinking is signed.
fn texts(request: &Value) -> Result<(), Refusal> {
    for (m, message) in list(&request["messages"]) {
        for (b, block) in list(&message["content"]) {
            let text = block["text"].as_str().unwrap_or_default();
            match block["type"].as_str().unwrap_or_default() {
                "text" if text.is_empty() => {
                    return refuse("messages: text content blocks must be non-empty");
                }
                "text" if text.trim().is_empty() => {
                    return refuse("messages: text content blocks must contain non-whitespace text");
                }
                "thinking" if block["signature"].as_str().is_none_or(str::is_empty) => {
                    return refuse(format!("messages.{m}.content.{b}.thinking.signature: Field required"));
                }
                _ => {}
            }
        }
    }
    Ok(())
}

/// The marks in the order of reading: at most four, the longer-lived first, none on what cannot be kept.
fn marks(request: &Value) -> Result<(), Refusal> {
    let mut holders: Vec<(String, &Value)> = Vec::new();
    holders.extend(list(&request["tools"]).map(|(t, tool)| (format!("tools.{t}"), tool)));
    holders.extend(list(&request["system"]).map(|(s, block)| (format!("system.{s}"), block)));
    for (m, message) in list(&request["messages"]) {
        for (b, block) in list(&message["content"]) {
            let at = format!("messages.{m}.content.{b}");
            holders.extend(list(&block["content"]).map(|(i, inner)| (format!("{at}.content.{i}"), inner)));
            holders.push((at, block));
        }
    }
    holders.push((String::new(), request));
    holders.retain(|(_, holder)| !holder["cache_control"].is_null());
    if holders.len() > MOST_MARKS {
        return refuse(format!(
            "A maximum of {MOST_MARKS} blocks with cache_control may be provided. Found {}.",
            holders.len()
        ));
    }
    let mut short = false;
    for (at, holder) in holders {
        let kind = holder["type"].as_str().unwrap_or_default();
        let text = holder["text"].as_str();
        let long = holder["cache_control"]["ttl"] == "1h";
        if kind == "text" && text.is_none_or(|text| text.trim().is_empty()) {
            return refuse(format!("{at}: cache_control cannot be set for empty text blocks"));
        }
        if ["thinking", "redacted_thinking"].contains(&kind) {
            return refuse(format!("{at}.{kind}.cache_control: Extra inputs are not permitted"));
        }
        if holder["cache_control"]["type"] != "ephemeral" {
            return refuse(format!("{at}.cache_control.type: Input should be 'ephemeral'"));
        }
        if long && short {
            return refuse(format!(
                "{at}.cache_control.ttl: a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block. Note \
                 that blocks are processed in the following order: `tools`, `system`, `messages`."
            ));
        }
        short |= !long;
    }
    Ok(())
}
