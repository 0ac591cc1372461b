//! `cost`: a session replayed on every course.

use serde_json::{Value, json};

use crate::support::{Folder, Run, longhaul};

/// A session of an agent that reads one file after another, some 700 tokens each.
fn session(turns: usize) -> Value {
    let mut messages = vec![json!({"role": "user", "content": "find out why the import is slow"})];
    for turn in 0..turns {
        let id = format!("c{turn}");
        let call = json!({"type": "tool_use", "id": id, "name": "read_file", "input": {"path": format!("src/part_{turn}.py")}});
        let lines: Vec<String> =
            (0..60).map(|line| format!("def step_{turn}_{line}(rows): return rows[{line}:]")).collect();
        let result = json!({"type": "tool_result", "tool_use_id": id, "content": lines.join("\n")});
        messages.push(json!({"role": "assistant", "content": [call]}));
        messages.push(json!({"role": "user", "content": [result]}));
    }
    let tool = json!({"name": "read_file", "description": "Reads a file.", "input_schema": {"type": "object"}});
    let system = "Read before you judge. ".repeat(400);
    json!({"model": "claude-sonnet-4-5", "max_tokens": 1000, "tools": [tool], "system": system, "messages": messages})
}

fn cost(folder: &Folder, body: &Value, more: &[&str]) -> Run {
    folder.file("session.json", body.to_string());
    longhaul(folder, &[&["cost", "session.json"][..], more].concat(), &[])
}

fn policy<'a>(answer: &'a Value, name: &str) -> &'a Value {
    let policies = answer["policies"].as_array().unwrap();
    policies.iter().find(|policy| policy["name"] == name).unwrap()
}

#[test]
fn every_policy_is_priced_and_the_answer_keeps_to_its_schema() {
    let folder = Folder::new("cost");
    let answer = cost(&folder, &session(60), &["--json", "--context-length", "40000"]).json("cost.json");
    assert_eq!(answer["requests"], 61);
    let names: Vec<&str> =
        answer["policies"].as_array().unwrap().iter().map(|policy| policy["name"].as_str().unwrap()).collect();
    let fixed = ["0.30", "0.40", "0.50", "0.60", "0.70", "0.80", "0.90"].map(|at| format!("compressor@{at}"));
    let fixed = fixed.iter().map(String::as_str);
    let wanted: Vec<&str> = ["nothing", "marks"].into_iter().chain(fixed).chain(["sacred-zone", "scheduler"]).collect();
    assert_eq!(names, wanted);

    let usd = |name: &str| policy(&answer, name)["usd"].as_f64().unwrap();
    assert!(usd("marks") < 0.3 * usd("nothing"));
    assert!(usd("scheduler") < usd("marks"), "the session outgrows its window");
    assert_eq!(policy(&answer, "nothing")["cached"], 0);
    assert!(policy(&answer, "marks")["over_window"].as_u64().unwrap() > 0);
    assert_eq!(policy(&answer, "scheduler")["over_window"], 0);
    let scheduled = policy(&answer, "scheduler")["compacted"].as_array().unwrap();
    assert!(!scheduled.is_empty() && scheduled.iter().all(|done| done["terms"]["gain"].is_number()));
    assert!(policy(&answer, "compressor@0.30")["compacted"][0]["terms"].is_null());

    let again = cost(&folder, &session(60), &["--json", "--context-length", "40000"]).json("cost.json");
    assert_eq!(answer, again, "equal seeds give equal sessions");
}

#[test]
fn what_is_forgotten_is_counted_and_paid_for() {
    let folder = Folder::new("cost-forgotten");
    let mut body = session(60);
    let used = "def step_0_31(rows): return rows[31:]";
    let edit = json!({"path": "src/part_0.py", "old": used, "new": "def step_0_31(rows): return rows"});
    let call = json!({"type": "tool_use", "id": "late", "name": "edit_file", "input": edit});
    body["messages"].as_array_mut().unwrap().push(json!({"role": "assistant", "content": [call]}));

    let answer = cost(&folder, &body, &["--json", "--context-length", "40000"]).json("cost.json");
    assert_eq!(policy(&answer, "marks")["forgotten"], 0, "nothing was removed");
    for name in ["compressor@0.30", "compressor@0.50", "scheduler"] {
        let row = policy(&answer, name);
        assert_eq!(row["forgotten"], 1, "{name}: the first file is read again before it is edited");
        let (step, all) = (row["forgotten_usd"].as_f64().unwrap(), row["usd"].as_f64().unwrap());
        assert!(0.0 < step && step < 0.2 * all, "{name}: {step} of {all}");
        let last = row["compacted"].as_array().unwrap().last().unwrap();
        assert!(last["forgotten"] == 1 && last["fetched"].as_u64() > Some(500), "{name}: {last}");
    }
    let terms = &policy(&answer, "scheduler")["compacted"][0]["terms"];
    assert!(terms["forgotten"].as_f64() > Some(1.0) && terms["lost"].as_f64() > Some(0.0), "{terms}");

    let run = cost(&folder, &body, &["--context-length", "40000"]);
    assert!(run.out.contains("With it 1 turn would have been repeated"), "{}", run.out);
    assert!(run.out.lines().any(|line| line.starts_with("forgotten ")), "{}", run.out);
}

#[test]
fn the_table_says_what_it_rests_on_and_the_page_is_one_file() {
    let folder = Folder::new("cost-page");
    let run = cost(&folder, &session(30), &["--pause", "20", "-o", "cost.html", "--context-length", "20000"]);
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(run.out.starts_with("These 31 requests to claude-"), "{}", run.out);
    assert!(run.out.contains("\npolicy "), "{}", run.out);
    assert!(run.out.contains("31 requests over 10 minutes (pauses constant; 0 over five minutes)"), "{}", run.out);
    assert!(run.out.contains("Prompt caching: on (Claude, 5m)"), "{}", run.out);
    let page = std::fs::read_to_string(folder.0.join("cost.html")).unwrap();
    assert_eq!(page.matches("<svg class=\"wide\"").count(), 3);
    assert_eq!(page.matches("<svg class=\"narrow\"").count(), 3);
    for outside in ["http-equiv", "<script", "<link", "src="] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(page.contains("The cost of session.json") && page.contains("Why the scheduler compacted"));
}

#[test]
fn pauses_can_be_the_real_ones() {
    let folder = Folder::new("cost-pauses");
    let body = session(4);
    folder.file("pauses.txt", "10\n400\n\n10\n4000\n");
    let answer = cost(&folder, &body, &["--pauses", "pauses.txt", "--json"]).json("cost.json");
    assert_eq!(answer["pauses"], json!({"by": "recorded", "seed": null, "over_five_minutes": 2}));
    let hour = cost(&folder, &body, &["--pauses", "pauses.txt", "--json", "--ttl", "1h"]).json("cost.json");
    let cached = |answer: &Value| policy(answer, "marks")["cached"].as_u64().unwrap();
    assert!(cached(&hour) > cached(&answer), "an hour outlives 400 seconds");

    let fewer = cost(&folder, &body, &["--pauses", "pauses.txt", "--json", "--requests", "2"]).json("cost.json");
    assert_eq!((&fewer["requests"], &fewer["pauses"]["over_five_minutes"]), (&json!(2), &json!(0)));

    folder.file("short.txt", "10\n");
    folder.file("words.txt", "10\nsoon\n");
    for (file, wanted) in
        [("short.txt", "has 1 pauses, but 4 are needed"), ("words.txt", "line 2 of words.txt is not a number")]
    {
        let run = cost(&folder, &body, &["--pauses", file]);
        assert_eq!((run.code, run.err.lines().count()), (2, 1), "{}", run.err);
        assert!(run.err.contains(wanted), "{}", run.err);
    }
    assert_eq!(cost(&folder, &body, &["--pause", "-3"]).code, 2);
    assert!(cost(&folder, &body, &["--engine", "sacred-zone"]).refused().contains("leave --engine out"));
}

#[test]
fn both_strategies_stand_side_by_side_if_asked() {
    let folder = Folder::new("cost-strategies");
    let answer = cost(&folder, &session(20), &["--strategy", "all", "--json"]).json("cost.json");
    let policies = answer["policies"].as_array().unwrap();
    let of = |strategy: Value| policies.iter().filter(|policy| policy["strategy"] == strategy).count();
    assert_eq!((of(Value::Null), of(json!("system_and_3")), of(json!("prefix"))), (1, 10, 10));
}

#[test]
fn what_has_no_price_is_said_and_what_has_no_name_is_assumed() {
    let folder = Folder::new("cost-prices");
    let mut body = session(3);
    body["model"] = json!("grok-3");
    let run = cost(&folder, &body, &["--dialect", "messages"]);
    assert_eq!(run.code, 2, "{}", run.err);
    assert!(run.err.contains("no prices are known for grok-3"), "{}", run.err);
    folder.file("own.yaml", "models: { grok-3: { prices: { input: 3, output: 15, cache_read: 0.75 } } }\n");
    assert_eq!(cost(&folder, &body, &["--dialect", "messages"]).code, 0);
    body.as_object_mut().unwrap().remove("model");
    let answer = cost(&folder, &body, &["--json"]).json("cost.json");
    assert!(answer["notes"][0].as_str().unwrap().contains("treated as a claude model"), "{answer}");

    assert_eq!(answer["priced_as"]["row"], "claude", "{answer}");

    folder.file("empty.json", r#"{"model":"claude-sonnet-4-5","messages":[]}"#);
    let run = longhaul(&folder, &["cost", "empty.json"], &[]);
    assert_eq!((run.code, run.err.lines().count()), (2, 1), "{}", run.err);
}

#[test]
fn whose_prices_were_taken_and_why_is_said() {
    let folder = Folder::new("cost-priced-as");
    let body = session(3);
    let own = cost(&folder, &body, &["--json"]).json("cost.json");
    assert_eq!((&own["priced_as"], &own["prices"]["row"]), (&Value::Null, &json!("claude-sonnet-4-5")));
    for (asked, row, why) in [
        ("claude-sonnet-4-9", "claude-sonnet-4", "it has no known price"),
        ("my-own-tune", "claude", "the model is unknown; claude is the usual one of anthropic"),
    ] {
        let answer = cost(&folder, &body, &["--json", "--model", asked]).json("cost.json");
        let said = &answer["priced_as"];
        assert_eq!((&said["asked"], &said["row"]), (&json!(asked), &json!(row)));
        assert!(said["why"].as_str().unwrap().contains(why), "{said}");
        let run = cost(&folder, &body, &["--model", asked]);
        assert!(run.err.contains(&format!("{asked} is priced as {row}: ")), "{}", run.err);
        assert!(run.out.contains(&format!("prices of {row}, ")), "{}", run.out);
    }
}

#[test]
fn what_costs_nothing_saves_no_share_and_what_is_no_price_is_refused() {
    let folder = Folder::new("cost-free");
    let priced = |input: &str| {
        let row = format!("{{ input: {input}, output: 0, cache_read: 0, cache_write: 0, cache_write_1h: 0 }}");
        folder.file("own.yaml", format!("models: {{ claude-sonnet-4-5: {{ prices: {row} }} }}\n"));
        cost(&folder, &session(3), &[])
    };
    let free = priced("0");
    assert_eq!(free.code, 0, "{}", free.err);
    for absurd in ["inf", "NaN", "100.0 %  cheapest"] {
        assert!(!free.out.contains(absurd), "{}", free.out);
    }
    let table = free.out.lines().skip_while(|line| !line.starts_with("policy "));
    let rows: Vec<&str> = table.filter(|line| line.contains("$0.00")).collect();
    assert!(rows.len() == 11 && rows.iter().all(|row| row.trim_end().ends_with('-')), "{}", free.out);
    for wrong in ["-1", "1e300"] {
        let run = priced(wrong);
        assert_eq!((run.code, run.err.lines().count()), (2, 1), "{wrong}: {}", run.err);
        assert!(run.err.contains("prices.input"), "{wrong}: {}", run.err);
    }
    folder.file("own.yaml", "{}\n");
    let forever = cost(&folder, &session(3), &["--pause", "1e18"]);
    assert_eq!((forever.code, forever.err.lines().count()), (2, 1), "{}", forever.err);
}

#[test]
fn without_a_cache_everything_is_paid_in_full() {
    let folder = Folder::new("cost-off");
    folder.file("session.json", session(20).to_string());
    let off = [("LONGHAUL_PROMPT_CACHING__ENABLED", "false")];
    let answer = longhaul(&folder, &["cost", "session.json", "--json"], &off).json("cost.json");
    assert!(answer["policies"].as_array().unwrap().iter().all(|policy| policy["cached"] == 0));
    assert!(answer["notes"].to_string().contains("without a cache"), "{}", answer["notes"]);
}

#[test]
fn the_answer_comes_first_in_sentences_and_savings_are_against_breakpoints_alone() {
    let folder = Folder::new("cost-answer");
    let more = ["--pause", "20", "--context-length", "40k"];
    let answer = cost(&folder, &session(60), &[&more[..], &["--json"]].concat()).json("cost.json");
    let dollars = |name: &str| policy(&answer, name)["usd"].as_f64().unwrap();
    let saved = policy(&answer, "scheduler")["saved"].as_f64().unwrap();
    assert!((saved - (1.0 - dollars("scheduler") / dollars("marks"))).abs() < 1e-9);
    assert!(policy(&answer, "marks")["saved"].is_null() && policy(&answer, "nothing")["saved"].as_f64() < Some(0.0));
    let people = cost(&folder, &session(60), &[&more[..], &["-o", "cost.html"]].concat());
    let page = std::fs::read_to_string(folder.0.join("cost.html")).unwrap();
    for (line, sentence) in people.out.lines().zip(answer["summary"].as_array().unwrap()) {
        assert_eq!(line, sentence.as_str().unwrap());
        assert!(page.contains(line), "{line}");
    }
    let first = people.out.lines().next().unwrap();
    for name in ["nothing", "marks", "scheduler"] {
        assert!(first.contains(&format!("${:.2}", dollars(name))), "{name}: {first}");
    }
    assert!(people.out.contains("would have been larger than the window"), "{}", people.out);
    for word in ["hit rate", "saved", "uncached"] {
        assert!(people.out.lines().any(|line| line.starts_with(word)), "{word} is not explained");
        assert!(page.contains(&format!("<dt>{word}</dt>")));
    }
    let short = cost(&folder, &session(2), &["--pause", "20"]);
    assert!(short.out.contains("Compaction never pays here"), "{}", short.out);
    assert!(!short.out.contains("NaN") && !short.out.contains("inf"), "{}", short.out);
}
