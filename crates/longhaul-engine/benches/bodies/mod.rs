//! Bodies of any size, made of the messages of real ones where they are there, else of invented words.

/// A chat body of this many megabytes, made of the messages of real ones.
pub(crate) fn chat(megabytes: usize) -> String {
    let messages = real_messages().unwrap_or_else(invented_messages);
    let mut out = String::from(r#"{"model":"gpt-5","messages":[{"role":"system","content":"You work."}"#);
    for message in messages.iter().cycle() {
        if out.len() >= megabytes << 20 {
            break;
        }
        out.push(',');
        out.push_str(message);
    }
    out.push_str("]}");
    out
}

fn real_messages() -> Option<Vec<String>> {
    let folder = std::path::PathBuf::from(std::env::var_os("LONGHAUL_SHARED")?).join("corpus");
    let mut paths: Vec<_> = std::fs::read_dir(folder).ok()?.filter_map(|e| Some(e.ok()?.path())).collect();
    paths.retain(|p| p.to_string_lossy().ends_with(".chat.json"));
    paths.sort();
    let values = paths.iter().filter_map(|p| serde_json::from_slice::<serde_json::Value>(&std::fs::read(p).ok()?).ok());
    let messages = values.flat_map(|v| v["messages"].as_array().cloned().unwrap_or_default());
    Some(messages.filter(|m| m["role"] != "system").map(|m| m.to_string()).collect())
}

fn invented_messages() -> Vec<String> {
    let line = "src/main.rs:17: warning: unused variable `x`\\n\\tlet x = \\\"a\\\";\\n";
    let step = |i: usize| {
        let output = line.repeat(1 + i % 40);
        [
            format!(
                r#"{{"role":"assistant","content":"step {i}","tool_calls":[{{"id":"c{i}","type":"function","function":{{"name":"bash","arguments":"{{\"command\":\"cargo check\"}}"}}}}]}}"#
            ),
            format!(r#"{{"role":"tool","tool_call_id":"c{i}","content":"{output}"}}"#),
        ]
    };
    (0..2000).flat_map(step).collect()
}
