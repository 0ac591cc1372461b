//! Parses a tool call that is written as text at the end of a reply, and returns its arguments as JSON, as in
//! an ordinary tool call.
//!
//! ```text
//! <read_file><path>a.rs</path></read_file>      {"path":"a.rs"}
//! <command>make</command>, a fence with a shell {"command":"make"}
//! Action: search                                {"input":"port"}
//! Action Input: port
//! ```

use serde_json::{Map, Value};

/// Returns the byte offset at which the text call at the end of a reply starts, and its arguments.
pub(crate) fn parse_call(tool: &str, reply: &str) -> Option<(usize, String)> {
    let reply = reply.trim_end();
    let (start, arguments) =
        parse_tagged_call(reply).or_else(|| parse_fenced_call(reply)).or_else(|| parse_react_call(reply, tool))?;
    Some((start, Value::Object(arguments).to_string()))
}

fn single_argument(name: &str, value: &str) -> Map<String, Value> {
    Map::from_iter([(name.to_owned(), Value::from(value.trim_matches('\n')))])
}

/// Parses `<tool>…</tool>`. Each innermost tag is an argument; without inner tags, the text is the command.
fn parse_tagged_call(reply: &str) -> Option<(usize, Map<String, Value>)> {
    let tag = reply.strip_suffix('>').and_then(|text| text.rsplit_once("</")).map(|(_, tag)| tag)?;
    let start = reply.rfind(&format!("<{tag}>"))?;
    let inside = &reply[start + tag.len() + 2..reply.len() - tag.len() - 3];
    if let Ok(Value::Object(call)) = serde_json::from_str(inside.trim()) {
        let arguments = call.get("arguments").or_else(|| call.get("parameters")).and_then(Value::as_object);
        return Some((start, arguments.cloned().unwrap_or(call)));
    }
    let mut arguments = Map::new();
    collect_innermost_tags(inside, &mut arguments);
    Some((start, if arguments.is_empty() { single_argument("command", inside) } else { arguments }))
}

/// Collects the innermost tags of a text by name. The first tag of a name counts.
fn collect_innermost_tags(text: &str, found: &mut Map<String, Value>) {
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        let after = &rest[at + 1..];
        let name: &str = &after[..after.bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'_').count()];
        let inside = after[name.len()..].strip_prefix('>').filter(|_| !name.is_empty());
        let Some((inside, behind)) = inside.and_then(|text| text.split_once(&format!("</{name}>"))) else {
            rest = after;
            continue;
        };
        let nested = inside.trim_start();
        let before = found.len();
        if nested.starts_with('<') {
            collect_innermost_tags(nested, found);
        }
        if found.len() == before && !found.contains_key(name) {
            found.insert(name.to_owned(), Value::from(inside.trim_matches('\n')));
        }
        rest = behind;
    }
}

/// Parses the last fenced code block of a reply as a command.
fn parse_fenced_call(reply: &str) -> Option<(usize, Map<String, Value>)> {
    let inside = reply.strip_suffix("```")?;
    let start = inside.rfind("```")?;
    let (_, command) = inside[start..].split_once('\n')?;
    Some((start, single_argument("command", command)))
}

/// Parses `Action: tool` with its input on the same line or after `Action Input:`.
fn parse_react_call(reply: &str, tool: &str) -> Option<(usize, Map<String, Value>)> {
    let start = reply.rfind("Action:")?;
    let rest = reply[start + "Action:".len()..].trim_start();
    let rest = rest.strip_prefix(tool).unwrap_or(rest).trim_start();
    let input = rest.split_once("Action Input:").map_or(rest, |(_, input)| input).trim();
    let input = input.trim_start_matches(['(', '[']).trim_end_matches([')', ']']);
    let arguments = match serde_json::from_str(input) {
        Ok(Value::Object(map)) => map,
        _ => single_argument("input", input),
    };
    Some((start, arguments))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_in_words_have_arguments() {
        for (tool, reply, arguments) in [
            ("command", "I run it.\n<command>\nmake all\n</command>", r#"{"command":"make all"}"#),
            (
                "read_file",
                "<read_file>\n<args>\n<file>\n<path>a.rs</path>\n<line_range>1-9</line_range>\n</file>\n</args>\n</read_file>",
                r#"{"path":"a.rs","line_range":"1-9"}"#,
            ),
            ("shell", "So:\n```bash\nls -l\n```", r#"{"command":"ls -l"}"#),
            ("search", "Thought: x\nAction: search\nAction Input: port 80", r#"{"input":"port 80"}"#),
            ("tool_call", r#"<tool_call>{"name":"f","arguments":{"a":1}}</tool_call>"#, r#"{"a":1}"#),
            (
                "apply_diff",
                "<apply_diff><path>a</path><diff>\nif x < 3:\n</diff></apply_diff>",
                r#"{"path":"a","diff":"if x < 3:"}"#,
            ),
        ] {
            assert_eq!(parse_call(tool, reply).map(|(_, a)| a).as_deref(), Some(arguments), "{reply}");
        }
        assert_eq!(parse_call("shell", "Nothing is called here."), None);
    }
}
