//! A model's summary on the command line: asked of a scripted upstream, audited, and never asked for by default.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::scripted::Act;
use crate::support::{Folder, Run, Upstream, against, longhaul};

/// Looks like a key and opens nothing.
const KEY: &str = "sk-scripted-q8Zr5Lm2Xw9Kd4Tn7Vb3Hc6Js1Pf0Gy5";
/// A secret that a tool showed.
const SECRET: &str = "ghp_A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8";

/// What a good model could write about the session below.
const GOOD: &str = "## Goal\n- Make the build green.\n\n## Constraints & Preferences\n- Never touch the files under vendor.\n\n\
                    ## Completed Actions\n1. RAN make t3 — failed: main.c:3: error: expected `;`\n\n\
                    ## Remaining Work\n- The build is not green yet.\n";

/// A session whose turns outgrow 6,000 tokens. A tool shows a secret in it.
fn session() -> String {
    let first = "Make the build green. Never touch the files under vendor.";
    let mut messages = vec![json!({"role": "user", "content": first})];
    for step in 0..30 {
        let id = format!("c{step}");
        let function = json!({"name": "bash", "arguments": format!("{{\"command\":\"make t{step}\"}}")});
        let call = json!({"id": id, "type": "function", "function": function});
        let said = format!("I look at target t{step} next, as t{step} comes before the others.");
        messages.push(json!({"role": "assistant", "content": said, "tool_calls": [call]}));
        let noise = format!("compiling one more unit of step {step}\n").repeat(20);
        let secret = if step == 7 { format!("export GITHUB_TOKEN={SECRET}\n") } else { String::new() };
        let output = format!("{noise}{secret}main.c:3: error: expected `;`\nexit code: 2\n");
        messages.push(json!({"role": "tool", "tool_call_id": id, "content": output}));
    }
    messages.push(json!({"role": "user", "content": "And now?"}));
    json!({"model": "gpt-5", "messages": messages}).to_string()
}

fn folder(name: &str) -> Folder {
    let folder = Folder::new(name);
    folder.file("session.json", session());
    folder
}

/// A configuration that asks a model at an upstream.
fn configured(folder: &Folder, upstream: &Upstream, more: &str) {
    let url = upstream.server.base_url();
    let auxiliary = format!("model: small-model, base_url: '{url}', api_key_env: MY_KEY, timeout_seconds: 20");
    folder.file("own.yaml", format!("auxiliary: {{ compression: {{ {auxiliary} }} }}\n{more}"));
}

/// Runs a command; whatever it says, no key and no secret is in it.
fn run(folder: &Folder, arguments: &[&str]) -> Run {
    let run = longhaul(folder, arguments, &[("MY_KEY", KEY), ("MAIN_KEY", KEY)]);
    let all = format!("{}{}", run.out, run.err);
    assert!(!all.contains(KEY), "a key is never shown: {all}");
    run
}

const COMPRESS: [&str; 8] =
    ["compress", "session.json", "--to-tokens", "3000", "--json", "-o", "after.json", "--summarizer"];

fn compress(folder: &Folder, summarizer: &str) -> (Value, String) {
    let done = run(folder, &[&COMPRESS[..], &[summarizer]].concat());
    assert_eq!(done.code, 0, "{}", done.err);
    (against("compress.json", &done.out), done.err)
}

fn summarize(folder: &Folder, more: &[&str]) -> (Value, String) {
    let call = ["summarize", "session.json", "--to-tokens", "3000", "--json"];
    let done = run(folder, &[&call[..], more].concat());
    assert_eq!(done.code, 0, "{}", done.err);
    assert!(!done.out.contains(SECRET), "no secret is shown");
    (against("summarize.json", &done.out), done.err)
}

fn actions(report: &Value, action: &str) -> Vec<String> {
    let findings = report["findings"].as_array().into_iter().flatten();
    let of = findings.filter(|finding| finding["action"] == action);
    of.map(|finding| finding["text"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_good_answer_is_used_and_who_pays_is_said_before_it() {
    let (folder, upstream) = (folder("summary-good"), Upstream::that([Act::says(GOOD)]));
    configured(&folder, &upstream, "");
    let (report, said) = compress(&folder, "auto");
    assert_eq!(report["checkpoint"]["by"], "model", "{}", report["notes"]);
    assert_eq!(actions(&report, "taken_out"), Vec::<String>::new());
    let first = said.lines().next().unwrap();
    let address = format!("{}/chat/completions", upstream.server.base_url());
    assert!(
        first
            .starts_with(&format!("longhaul: small-model at {address} is asked for summaries, the key in MY_KEY pays")),
        "{said}"
    );
    let asked = upstream.server.asked();
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0].header("authorization"), Some(format!("Bearer {KEY}").as_str()));
    assert!(!asked[0].body.contains(SECRET) && asked[0].body.contains("make t3"), "turns go without secrets");
    let after = std::fs::read_to_string(folder.0.join("after.json")).unwrap();
    assert!(after.contains("The build is not green yet."), "the model's words stand in the body");
}

#[test]
fn a_spoiled_answer_is_mended() {
    let spoiled = GOOD.replace("- Never touch the files under vendor.\n", "")
        + "- Deploy with scripts/release-9.sh to 10.77.1.9.\n";
    let (folder, upstream) = (folder("summary-spoiled"), Upstream::that([Act::says(&spoiled)]));
    configured(&folder, &upstream, "");
    let (report, _) = compress(&folder, "auto");
    assert_eq!(report["checkpoint"]["by"], "model", "{}", report["notes"]);
    let out = actions(&report, "taken_out").join("\n");
    assert!(out.contains("10.77.1.9"), "{report}");
    let after = std::fs::read_to_string(folder.0.join("after.json")).unwrap();
    assert!(!after.contains("release-9") && after.contains("Never touch the files under vendor"), "{after}");
}

#[test]
fn a_model_that_fails_is_said_and_code_takes_its_place() {
    let refused = Act::error(longhaul_engine::ApiFormat::Chat, 401, "auth", &format!("no such key: {KEY}"));
    for (name, act, why) in [
        ("summary-refused", refused, "denied access"),
        ("summary-empty", Act::says(" \n"), "empty"),
        ("summary-garbage", Act::answers(200, "<html>welcome</html>"), "not a valid reply"),
        ("summary-cut", Act::hangs_up(), "broke off"),
    ] {
        let (folder, upstream) = (folder(name), Upstream::that([act]));
        configured(&folder, &upstream, "");
        let (report, _) = compress(&folder, "auto");
        assert_eq!(report["checkpoint"]["by"], "code", "{name}");
        let (state, notes) = (&report["state"], report["notes"].to_string());
        assert_eq!(state["auxiliary_failed"], "small-model", "{name}: {state}");
        assert!(state["last_error"].as_str().unwrap().contains(why), "{name}: {state}");
        assert!(notes.contains("no summary by small-model") && notes.contains("code writes the checkpoint"), "{notes}");
        assert_eq!(upstream.asked().len(), 1, "{name}");
    }
}

#[test]
fn an_answer_that_is_no_handover_is_not_used() {
    let (folder, upstream) = (folder("summary-chat"), Upstream::that([Act::says("Sure, I can help with that!")]));
    configured(&folder, &upstream, "");
    let (report, _) = compress(&folder, "auto");
    assert_eq!(report["checkpoint"]["by"], "code");
    assert!(report["notes"].to_string().contains("it is no summary"), "{}", report["notes"]);
    assert_eq!(report["state"]["auxiliary_failed"], "small-model");
}

#[test]
fn a_model_that_is_too_slow_is_not_waited_for_longer_than_configured() {
    let slow = Act::says(GOOD).after(Duration::from_mins(1));
    let (folder, upstream) = (folder("summary-slow"), Upstream::that([slow]));
    configured(&folder, &upstream, "");
    let call = [&COMPRESS[..], &["auto"]].concat();
    let timeout = ("LONGHAUL_AUXILIARY__COMPRESSION__TIMEOUT_SECONDS", "1");
    let began = Instant::now();
    let done = longhaul(&folder, &call, &[("MY_KEY", KEY), timeout]);
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    let report = against("compress.json", &done.out);
    assert_eq!((&report["checkpoint"]["by"], done.code), (&json!("code"), 0));
    assert!(report["state"]["last_error"].as_str().unwrap().contains("time"), "{}", report["state"]);
}

#[test]
fn nobody_listening_is_no_failure_of_the_command() {
    let folder = folder("summary-unreachable");
    // A port that was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let auxiliary = format!("model: m, base_url: 'http://127.0.0.1:{port}/v1', timeout_seconds: 1");
    folder.file("own.yaml", format!("auxiliary: {{ compression: {{ {auxiliary} }} }}\n"));
    let (report, said) = compress(&folder, "auto");
    assert_eq!(report["checkpoint"]["by"], "code");
    assert!(said.contains("no key is sent"), "{said}");
    assert!(report["notes"].to_string().contains("no summary by m: "), "{}", report["notes"]);
}

#[test]
fn the_sessions_own_model_is_asked_once_where_its_upstream_is_configured() {
    let refused = || Act::error(longhaul_engine::ApiFormat::Chat, 401, "auth", "no");
    let (folder, upstream) = (folder("summary-main"), Upstream::that([refused(), Act::says(GOOD)]));
    let main =
        format!("upstreams: {{ chat: {{ base_url: '{}', api_key_env: MAIN_KEY }} }}\n", upstream.server.base_url());
    configured(&folder, &upstream, &main);
    let (report, said) = compress(&folder, "auto");
    assert_eq!(report["checkpoint"]["by"], "model", "{}", report["notes"]);
    assert_eq!(report["state"]["auxiliary_failed"], "small-model");
    assert!(said.contains("if it fails, gpt-5 at ") && said.contains("the key in MAIN_KEY pays"), "{said}");
    let models: Vec<Value> = upstream.asked().iter().map(|body| body["model"].clone()).collect();
    assert_eq!(models, ["small-model", "gpt-5"]);
}

#[test]
fn by_default_and_without_a_model_nothing_is_sent() {
    let (folder, upstream) = (folder("summary-default"), Upstream::that([]));
    configured(&folder, &upstream, "");
    let plain = run(&folder, &COMPRESS[..7]);
    assert_eq!((plain.code, against("compress.json", &plain.out)["checkpoint"]["by"].clone()), (0, "code".into()));
    assert_eq!(compress(&folder, "none").0["checkpoint"]["by"], "code");
    let (report, said) = summarize(&folder, &["--ask"]);
    assert_eq!((said.as_str(), &report["model"], &report["address"]), ("", &json!("small-model"), &Value::Null));
    assert_eq!(upstream.server.asked().len(), 0);
    std::fs::remove_file(folder.0.join("own.yaml")).unwrap();
    for who in ["auto", "main"] {
        let (report, _) = compress(&folder, who);
        let notes = report["notes"].to_string();
        assert!(notes.contains("no summary by gpt-5") && notes.contains("OPENAI_API_KEY has no key"), "{who}: {notes}");
        assert_eq!(report["checkpoint"]["by"], "code", "{who}");
    }
}

#[test]
fn without_a_configured_model_the_sessions_own_can_be_asked() {
    for who in ["auto", "main"] {
        let (folder, upstream) = (folder(&format!("summary-own-{who}")), Upstream::that([Act::says(GOOD)]));
        let url = upstream.server.base_url();
        folder.file("own.yaml", format!("upstreams: {{ chat: {{ base_url: '{url}', api_key_env: MAIN_KEY }} }}\n"));
        let (report, said) = compress(&folder, who);
        assert_eq!(report["checkpoint"]["by"], "model", "{who}: {}", report["notes"]);
        assert!(said.contains("gpt-5 at") && said.contains("the key in MAIN_KEY pays"), "{who}: {said}");
        assert_eq!(upstream.asked()[0]["model"], "gpt-5", "{who}");
    }
}

#[test]
fn nobody_is_asked_about_what_is_not_folded() {
    let (folder, upstream) = (folder("summary-unfolded"), Upstream::that([]));
    configured(&folder, &upstream, "sacred_zone: { min_tokens: 50, digest_tokens: 20, recent_tokens: 500 }\n");
    let call = ["compress", "session.json", "--preview", "--json", "--summarizer", "auto"];
    let below = run(&folder, &call);
    assert_eq!(against("compress.json", &below.out)["changed"], false);
    let zone = run(&folder, &[&call[..], &["--engine", "sacred-zone", "--force"]].concat());
    assert!(zone.out.contains("no model is asked"), "{}", zone.out);
    assert_eq!(upstream.server.asked().len(), 0);
}

#[test]
fn several_bodies_are_asked_about_and_the_payer_is_said_once() {
    let folder = folder("summary-many");
    folder.file("second.json", session().replace("And now?", "And then?"));
    let upstream = Upstream::that([Act::says(GOOD), Act::says(GOOD)]);
    configured(&folder, &upstream, "");
    let call = ["compress", "session.json", "second.json", "--to-tokens", "3000", "--out-dir", "out", "--json"];
    let done = run(&folder, &[&call[..], &["--summarizer", "auto"]].concat());
    assert_eq!(done.code, 0, "{}", done.err);
    for line in done.out.lines() {
        assert_eq!(against("compress.json", line)["checkpoint"]["by"], "model");
    }
    assert_eq!(upstream.server.asked().len(), 2);
    assert_eq!(done.err.matches("is asked for summaries").count(), 1, "{}", done.err);
}

#[test]
fn a_session_of_the_store_is_asked_about_once_and_goes_on_with_the_models_words() {
    let (folder, upstream) = (folder("summary-store"), Upstream::that([Act::says(GOOD)]));
    configured(&folder, &upstream, "");
    let call = [&COMPRESS[..], &["auto", "--store", "store.db"]].concat();
    let first = run(&folder, &call);
    assert_eq!(against("compress.json", &first.out)["checkpoint"]["by"], "model", "{}", first.err);
    let second = run(&folder, &call);
    assert_eq!(second.code, 0, "{}", second.err);
    assert_eq!(upstream.server.asked().len(), 1, "what was decided is decided again, and nobody is asked");
    let after = std::fs::read_to_string(folder.0.join("after.json")).unwrap();
    assert!(after.contains("The build is not green yet."));
}

#[test]
fn summarize_shows_the_question_the_answer_and_what_was_mended() {
    let invented = "2. RAN scripts/release-9.sh — deployed";
    let spoiled = GOOD.replace("\n\n## Remaining Work", &format!("\n{invented}\n\n## Remaining Work"));
    let spoiled = format!("{spoiled}- The token is {SECRET}.\n");
    let folder = folder("summarize");
    let (asked, said) = summarize(&folder, &["--focus", "linker flags"]);
    assert!(said.contains("no model is configured in auxiliary.compression.model"), "{said}");
    let user = asked["ask"]["questions"][0]["user"].as_str().unwrap();
    assert!(user.contains("<turns drawn-for-each-call>") && user.contains("linker flags"), "{user}");
    assert!(asked["answer"].is_null() && asked["checkpoint"].is_null());

    let upstream = Upstream::that([Act::says(&spoiled), Act::says(&spoiled)]);
    configured(&folder, &upstream, "");
    let (answered, said) = summarize(&folder, &[]);
    assert!(said.contains("the key in MY_KEY pays"), "{said}");
    assert_eq!((&answered["answer"]["by"], &answered["key_env"]), (&json!("small-model"), &json!("MY_KEY")));
    assert!(actions(&answered, "taken_out").join("\n").contains("release-9"), "{answered}");
    assert_eq!(answered["checkpoint"]["by"], "model");
    let sent = upstream.asked()[0]["messages"][1]["content"].clone();
    assert_eq!(sent, answered["ask"]["questions"][0]["user"], "what is shown is what was sent");

    let words = run(&folder, &["summarize", "session.json", "--to-tokens", "3000"]);
    for heading in ["== question", "== answer by small-model", "== audit", "== checkpoint", "removed"] {
        assert!(words.out.contains(heading), "{heading}: {}", words.out);
    }
    assert!(!words.out.contains(SECRET));

    folder.file("summary.md", &spoiled);
    let (handed, said) = summarize(&folder, &["--answer", "summary.md"]);
    assert_eq!((said.as_str(), &handed["answer"]["by"]), ("", &json!("summary.md")));
    assert_eq!(handed["findings"], answered["findings"], "a summary handed in is audited like any other");
    // What it is about differs, and with that what stands behind its words; what is said does not.
    let said = |shown: &Value| (shown["checkpoint"]["by"].clone(), shown["checkpoint"]["tokens"].clone());
    assert_eq!(said(&handed), said(&answered));
    assert_eq!(upstream.server.asked().len(), 2);
    let call = [&COMPRESS[..7], &["--summary", "summary.md"]].concat();
    let compressed = run(&folder, &call);
    assert_eq!(against("compress.json", &compressed.out)["findings"], answered["findings"]);
}

#[test]
fn summarize_says_where_nothing_would_be_folded_and_where_a_model_failed() {
    let folder = folder("summarize-nothing");
    let call = ["summarize", "session.json", "--context-length", "400000"];
    let nothing = run(&folder, &call);
    assert_eq!(nothing.code, 0);
    assert!(nothing.out.contains("nothing would be summarized"), "{}", nothing.out);
    let upstream = Upstream::that([Act::says("")]);
    configured(&folder, &upstream, "");
    let (failed, _) = summarize(&folder, &[]);
    assert_eq!((&failed["failed"][0]["model"], &failed["checkpoint"]["by"]), (&json!("small-model"), &json!("code")));
}

#[test]
fn a_wrong_configuration_is_one_line_and_never_shows_a_key() {
    let folder = folder("summary-wrong");
    let cases = [
        ("model: claude-haiku-4-5", "auxiliary.compression: the variable ANTHROPIC_API_KEY has no key for anthropic"),
        (
            "model: openai/gpt-5-mini",
            "auxiliary.compression: the variable OPENROUTER_API_KEY has no key for openrouter",
        ),
        ("model: nobodys-model", "the provider of nobodys-model is unknown; set provider or base_url"),
        ("model: m, provider: nobody", "unknown provider nobody; use one of auto, main, none, anthropic, azure"),
        ("model: m, provider: main", "main is the session's own model, but model is also set (m); remove one"),
        ("model: m, provider: none", "provider is none, so --summarizer auto asks no model; use --summarizer main"),
        ("max_usd_per_day: -1", "-1 must be 0 or more"),
        ("max_share_of_saving: 2", "2 must be between 0 and 1"),
        ("model: m, provider: compatible", "provider `compatible` has no address of its own; set base_url"),
        ("model: m, base_url: 'localhost:8080'", "it must begin with https:// or http://"),
        ("model: gpt-5-mini, api_key_env: NOT_SET", "NOT_SET has no key for openai"),
        ("model: gpt-5-mini, api_key_env: sk-scripted-q8Zr5Lm2Xw9Kd4Tn7Vb3Hc6Js1Pf0Gy5", "not the key"),
    ];
    for (auxiliary, problem) in cases {
        folder.file("own.yaml", format!("auxiliary: {{ compression: {{ {auxiliary} }} }}\n"));
        let refused = run(&folder, &[&COMPRESS[..], &["auto"]].concat());
        assert!(refused.refused().contains(problem), "{auxiliary}: {}", refused.err);
    }
    folder.file("own.yaml", "auxiliary: { compression: { model: claude-haiku-4-5 } }\n");
    assert_eq!(compress(&folder, "none").0["checkpoint"]["by"], "code", "no key is needed where nobody is asked");
}

#[test]
fn what_is_larger_than_the_models_window_is_asked_in_parts() {
    let folder = folder("summary-parts");
    let upstream = Upstream::that(std::iter::repeat_n(Act::says(GOOD), 9));
    configured(&folder, &upstream, "models: { small-model: { context_length: 5000 } }\n");
    let (answered, _) = summarize(&folder, &[]);
    let questions = answered["ask"]["questions"].as_array().unwrap();
    let asked = upstream.asked();
    assert!(asked.len() > 1 && asked.len() == questions.len(), "{} of {}", asked.len(), questions.len());
    let last = asked.last().unwrap()["messages"][1]["content"].as_str().unwrap();
    assert!(last.contains("<summary ") && last.contains("The build is not green yet."), "{last}");
    assert_eq!(answered["checkpoint"]["by"], "model");
}

#[test]
fn a_providers_usual_key_goes_to_no_other_address() {
    let (folder, upstream) = (folder("summary-elsewhere"), Upstream::that([Act::says(GOOD)]));
    let auxiliary = format!("model: gpt-5-mini, provider: openai, base_url: '{}'", upstream.server.base_url());
    folder.file("own.yaml", format!("auxiliary: {{ compression: {{ {auxiliary} }} }}\n"));
    let call = [&COMPRESS[..], &["auto"]].concat();
    let done = longhaul(&folder, &call, &[("OPENAI_API_KEY", KEY)]);
    assert!(done.code == 0 && done.err.contains("no key is sent"), "{}", done.err);
    let asked = &upstream.server.asked()[0];
    assert_eq!((asked.header("authorization"), asked.path.as_str()), (None, "/v1/responses"));
}
