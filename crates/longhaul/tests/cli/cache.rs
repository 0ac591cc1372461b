//! `cache`: marks in, and what broke the cache between two bodies.

use serde_json::{Value, json};

use crate::support::{Folder, Run, longhaul, longhaul_reading};

/// A session with a system prompt of some 3,000 tokens, whose first line can be chosen.
fn session(first_line: &str, turns: usize) -> Value {
    let rules = "Read a file before you change it, and run the tests after.\n".repeat(220);
    let message = |i: usize| json!({"role": if i.is_multiple_of(2) { "user" } else { "assistant" }, "content": format!("turn {i}")});
    json!({
        "model": "claude-sonnet-4-5",
        "max_tokens": 1000,
        "system": format!("{first_line}\n{rules}"),
        "messages": (0..turns).map(message).collect::<Vec<_>>(),
    })
}

fn cache(folder: &Folder, body: &Value, more: &[&str]) -> Run {
    folder.file("body.json", body.to_string());
    longhaul(folder, &[&["cache", "body.json"][..], more].concat(), &[])
}

fn places(answer: &Value) -> Vec<&str> {
    answer["marks"].as_array().unwrap().iter().map(|mark| mark["at"].as_str().unwrap()).collect()
}

#[test]
fn a_body_gets_its_marks_and_stays_acceptable() {
    let folder = Folder::new("cache");
    let body = session("You are careful.", 7);
    let run = cache(&folder, &body, &[]);
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(run.err.starts_with("longhaul: Prompt caching: on (Claude, 5m)\n"), "{}", run.err);
    let marked: Value = serde_json::from_str(&run.out).unwrap();
    let mark = json!({"type": "ephemeral"});
    assert_eq!(marked["system"][0]["cache_control"], mark);
    for message in 4..7 {
        assert_eq!(marked["messages"][message]["content"][0]["cache_control"], mark);
    }
    assert_eq!(run.out.matches("cache_control").count(), 4);
    folder.file("marked.json", &run.out);
    let check = longhaul(&folder, &["check", "marked.json", "--before", "body.json"], &[]);
    assert_eq!(check.code, 0, "{}", check.out);

    let again = cache(&folder, &marked, &[]);
    assert_eq!(again.out, marked.to_string(), "four are enough");
}

#[test]
fn of_more_marks_than_a_provider_takes_four_stay_and_the_others_are_said() {
    let folder = Folder::new("cache-surplus");
    let mut body = session("You are careful.", 9);
    for message in body["messages"].as_array_mut().unwrap().iter_mut().step_by(2) {
        let text = message["content"].clone();
        message["content"] = json!([{"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}]);
    }
    let run = cache(&folder, &body, &[]);
    assert_eq!((run.code, run.out.matches("cache_control").count()), (0, 4), "{}", run.err);
    assert!(run.err.contains("breakpoint on /messages/0/content/0 removed: the provider allows 4"), "{}", run.err);
    let answer = cache(&folder, &body, &["--json"]).json("cache.json");
    assert_eq!(answer["removed"], json!(["/messages/0/content/0"]));
    assert_eq!((places(&answer).len(), &answer["changed"]), (4, &json!(true)));
    folder.file("marked.json", &run.out);
    let check = longhaul(&folder, &["check", "marked.json", "--before", "body.json"], &[]);
    assert_eq!(check.code, 0, "{}", check.out);
}

#[test]
fn older_claude_models_on_bedrock_get_no_marks() {
    let folder = Folder::new("cache-bedrock");
    for (model, provider, cached) in [
        ("anthropic.claude-3-haiku-20240307-v1:0", None, false),
        ("claude-3-haiku-20240307", Some("bedrock"), false),
        ("claude-3-haiku-20240307", None, true),
        ("us.anthropic.claude-3-7-sonnet-20250219-v1:0", None, true),
    ] {
        let mut body = session("You are careful.", 7);
        body["model"] = json!(model);
        let told: Vec<&str> = provider.iter().flat_map(|provider| ["--provider", provider]).collect();
        let run = cache(&folder, &body, &told);
        assert_eq!(run.out.contains("cache_control"), cached, "{model}: {}", run.err);
    }
}

#[test]
fn the_answer_for_programs_keeps_to_its_schema() {
    let folder = Folder::new("cache-schema");
    let answer = cache(&folder, &session("You are careful.", 7), &["--json", "--ttl", "1h"]).json("cache.json");
    assert_eq!(
        places(&answer),
        ["/system/0", "/messages/4/content/0", "/messages/5/content/0", "/messages/6/content/0"]
    );
    let marks = answer["marks"].as_array().unwrap();
    assert!(marks.iter().all(|mark| mark["ttl"] == "1h" && mark["by"] == "longhaul"));
    assert!(marks.is_sorted_by_key(|mark| mark["prefix_tokens"].as_u64()));
    assert_eq!(marks[3]["prefix_tokens"], answer["tokens"]);

    let file = cache(&folder, &session("You are careful.", 7), &["--json", "-o", "out.json"]);
    assert_eq!(file.json("cache.json")["changed"], true);
    assert!(std::fs::read_to_string(folder.0.join("out.json")).unwrap().contains("cache_control"));
    for example in ["chat.json", "messages.json", "responses.json"] {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(example);
        longhaul(&folder, &["cache", path.to_str().unwrap(), "--json"], &[]).json("cache.json");
    }
}

#[test]
fn a_chat_body_is_marked_for_the_route_that_it_takes() {
    let folder = Folder::new("cache-chat");
    let call = json!({"id": "c", "type": "function", "function": {"name": "ls", "arguments": "{}"}});
    let body = json!({"model": "claude-sonnet-4-5", "messages": [
        {"role": "system", "content": "Read before you write. ".repeat(300)},
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": null, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "a.txt"},
    ]});
    let routed = cache(&folder, &body, &["--provider", "openrouter", "--json"]).json("cache.json");
    assert_eq!(places(&routed), ["/messages/0/content/0", "/messages/1/content/0"]);
    assert_eq!(routed["status"], "Prompt caching: on (Claude via OpenRouter, 5m)");
    let translated = cache(&folder, &body, &["--provider", "anthropic", "--json"]).json("cache.json");
    assert_eq!(places(&translated), ["/messages/0/content/0", "/messages/1/content/0", "/messages/2", "/messages/3"]);
    assert_eq!(places(&cache(&folder, &body, &["--json"]).json("cache.json")), places(&routed));
}

#[test]
fn where_marks_do_nothing_none_are_set_and_it_is_said() {
    let folder = Folder::new("cache-off");
    let cases: [(Value, &[&str], &str); 4] = [
        (json!({"model": "deepseek-chat", "messages": [{"role": "user", "content": "hi"}]}), &[], "by itself"),
        (json!({"model": "claude-sonnet-4-5", "input": "hi"}), &[], "off (Responses"),
        (session("x", 3), &["--model", "llama-3-70b"], "off (no cache is known"),
        (json!({"model": "claude-sonnet-4-5", "system": "x", "messages": []}), &[], "of 1,024 tokens or more"),
    ];
    for (body, more, said) in cases {
        let run = cache(&folder, &body, more);
        assert_eq!((run.code, run.out.as_str()), (0, body.to_string().as_str()), "{}", run.err);
        assert!(run.err.contains(said), "{}", run.err);
    }
    let off = [("LONGHAUL_PROMPT_CACHING__ENABLED", "false")];
    folder.file("body.json", session("x", 3).to_string());
    let run = longhaul(&folder, &["cache", "body.json"], &off);
    assert!(run.err.contains("off (prompt_caching.enabled is false)"), "{}", run.err);
    assert!(!run.out.contains("cache_control"));
}

#[test]
fn openai_gets_a_key() {
    let folder = Folder::new("cache-key");
    let body = json!({"model": "gpt-5", "input": [{"role": "user", "content": "hi"}]});
    let answer = cache(&folder, &body, &["--json", "-o", "out.json"]).json("cache.json");
    let out: Value = serde_json::from_slice(&std::fs::read(folder.0.join("out.json")).unwrap()).unwrap();
    assert!(answer["prompt_cache_key"].as_str().unwrap().starts_with("longhaul-"));
    assert_eq!(out["prompt_cache_key"], answer["prompt_cache_key"]);
}

#[test]
fn a_model_that_nobody_names_is_taken_for_the_usual_one() {
    let folder = Folder::new("cache-unnamed");
    let text = "Read a file before you change it. ".repeat(900);
    let body = json!({"system": text, "messages": [{"role": "user", "content": "go"}]}).to_string();
    let run = longhaul_reading(&folder, &["cache", "-", "--json"], &[], body.as_bytes());
    let answer = run.json("cache.json");
    assert_eq!(places(&answer), ["/system/0", "/messages/0/content/0"]);
    assert!(answer["notes"][0].as_str().unwrap().contains("is unknown"), "{answer}");
}

#[test]
fn a_date_in_the_first_line_is_found_named_and_priced() {
    let folder = Folder::new("cache-date");
    let body = session("Today is 2026-11-16.", 7);
    let answer = cache(&folder, &body, &["--json"]).json("cache.json");
    let found = &answer["volatile"][0];
    assert_eq!((&found["name"], &found["line"], &found["at"]), (&json!("date"), &json!(1), &json!("/system")));
    assert_eq!((&found["text"], &found["remedy"]), (&json!("2026-11-16"), &json!("move-to-end")));
    assert_eq!(found["tokens_behind"], answer["tokens"]);
    let expected = answer["tokens"].as_f64().unwrap() * (3.75 - 0.30) / 1e6;
    assert!((found["usd_each_change"].as_f64().unwrap() - expected).abs() < 1e-9);
    let said = cache(&folder, &body, &[]).err;
    assert!(said.contains("date `2026-11-16` in line 1 of /system changes every day"), "{said}");
}

#[test]
fn what_broke_the_cache_is_shown_where_it_is() {
    let folder = Folder::new("cache-compare");
    let compare = |old: &Value, new: &Value, more: &[&str]| {
        folder.file("old.json", old.to_string());
        folder.file("new.json", new.to_string());
        longhaul(&folder, &[&["cache", "new.json", "--compare", "old.json"][..], more].concat(), &[])
    };
    let old = session("Today is 2026-11-15.", 5);
    let run = compare(&old, &session("Today is 2026-11-15.", 7), &["--json"]);
    assert_eq!(run.json("cache-compare.json")["warm"], true);

    let new = session("Today is 2026-11-16.", 7);
    let run = compare(&old, &new, &[]);
    assert_eq!((run.code, run.err.as_str()), (1, ""));
    assert!(run.out.contains("in the system prompt") && run.out.contains("looks like a date"), "{}", run.out);
    let run = compare(&old, &new, &["--json"]);
    assert_eq!(run.code, 1);
    let answer: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!((&answer["warm_tokens"], &answer["difference"]["part"]), (&json!(0), &json!("system")));
    assert_eq!(answer["difference"]["volatile"], "date");
    assert!(answer["difference"]["new_text"].as_str().unwrap().contains("2026-11-16"));
    assert!(answer["lost_usd"].as_f64().unwrap() > 0.0);

    let mut marked = session("Today is 2026-11-15.", 7);
    marked["messages"][0]["content"] =
        json!([{"type": "text", "text": "turn 0", "cache_control": {"type": "ephemeral"}}]);
    assert_eq!(compare(&old, &marked, &[]).code, 0, "other marks break nothing");
}

#[test]
fn a_wrong_call_is_one_line() {
    let folder = Folder::new("cache-wrong");
    let body = session("x", 3);
    assert!(cache(&folder, &body, &["--provider", "acme"]).refused().contains("use one of anthropic"));
    assert!(cache(&folder, &body, &["--ttl", "2h"]).refused().contains("5m, 1h, auto"));
    assert!(cache(&folder, &body, &["--compare", "missing.json"]).refused().contains("does not exist"));
}

#[test]
fn compress_and_compare_agree_on_what_stays_cached() {
    let folder = Folder::new("cache-compress");
    let mut body = session("Today is 2026-11-15.", 61);
    for message in body["messages"].as_array_mut().unwrap() {
        let turn = message["content"].as_str().unwrap().to_owned();
        message["content"] = json!(format!("{turn}: the beds want water. ").repeat(30));
    }
    folder.file("old.json", body.to_string());
    let args = ["compress", "old.json", "--keep-from", "50", "-o", "new.json", "--report", "report.json", "--quiet"];
    assert_eq!(longhaul(&folder, &args, &[]).code, 0);
    let run = longhaul(&folder, &["cache", "new.json", "--compare", "old.json", "--json"], &[]);
    let compared: Value = serde_json::from_str(&run.out).unwrap();
    let report: Value = serde_json::from_str(&std::fs::read_to_string(folder.0.join("report.json")).unwrap()).unwrap();
    assert!(report["tokens"]["warm"].as_u64() > Some(2_000), "{report}");
    assert_eq!(report["tokens"]["warm"], compared["warm_tokens"]);
    assert_eq!(report["cost"]["cold_tokens"], compared["cold_tokens"]);
    let new: Value = serde_json::from_str(&std::fs::read_to_string(folder.0.join("new.json")).unwrap()).unwrap();
    let list = |body: &Value| body["messages"].as_array().unwrap().clone();
    // The checkpoint may stand in front of the first message that is kept, as a block of its own.
    assert!(list(&new).ends_with(&list(&body)[51..]) && list(&new).len() < 30);
    assert!(new.to_string().contains(body["messages"][50]["content"].as_str().unwrap()));
}
