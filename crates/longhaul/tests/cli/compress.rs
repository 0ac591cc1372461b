//! `compress`, `recall` and `stats`: a compaction from body to body, what it kept aside, and what it logged.

use serde_json::{Value, json};

use crate::support::{Folder, Run, against, longhaul, longhaul_reading};

/// A session whose outputs outgrow a context window of 20,000 tokens. One of them holds a secret.
fn session() -> String {
    let mut messages = vec![json!({"role": "user", "content": "Make the build green."})];
    for step in 0..30 {
        let id = format!("c{step}");
        let function = json!({"name": "bash", "arguments": format!("{{\"command\":\"make t{step}\"}}")});
        let call = json!({"id": id, "type": "function", "function": function});
        messages.push(json!({"role": "assistant", "content": null, "tool_calls": [call]}));
        let noise = format!("compiling one more unit of step {step}\n").repeat(90);
        let secret = if step == 7 { format!("export API_TOKEN={SECRET}\n") } else { String::new() };
        let output = format!("{noise}{secret}main.c:3: error: expected `;`\nexit code: 2\n");
        messages.push(json!({"role": "tool", "tool_call_id": id, "content": output}));
    }
    messages.push(json!({"role": "user", "content": "And now?"}));
    json!({"model": "gpt-5", "messages": messages}).to_string()
}

/// Looks like a key and opens nothing.
const SECRET: &str = "q8Zr5Lm2Xw9Kd4Tn7Vb3Hc6Js1Pf0Gy5";

fn compress(folder: &Folder, more: &[&str]) -> Run {
    compress_in(folder, "20000", more)
}

fn compress_in(folder: &Folder, window: &str, more: &[&str]) -> Run {
    folder.file("session.json", session());
    let call = ["compress", "session.json", "--engine", "sacred-zone", "--context-length", window];
    longhaul(folder, &[&call[..], more].concat(), &[])
}

#[test]
fn a_body_goes_in_and_a_smaller_valid_one_comes_out() {
    let folder = Folder::new("compress");
    let run = compress(&folder, &[]);
    assert_eq!(run.code, 0, "{}", run.err);
    let lines: Vec<&str> = run.err.lines().collect();
    assert!(lines[0].contains("% of the window of 20,000") && lines[0].contains("trigger"), "{}", run.err);
    assert!(lines[1].contains(" → ") && lines[1].contains("% smaller"), "{}", run.err);
    folder.file("after.json", &run.out);
    let check = longhaul(&folder, &["check", "after.json", "--before", "session.json"], &[]);
    assert_eq!(check.code, 0, "{}", check.out);
    let tokens = |file: &str| longhaul(&folder, &["tokens", file, "--json"], &[]).json("tokens.json")["total"].as_u64();
    assert!(tokens("after.json") < Some(10_500) && tokens("session.json") > Some(15_000));
}

#[test]
fn a_block_removed_from_the_example_session_can_be_recalled() {
    let folder = Folder::new("compress-example");
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    folder.file("session.json", std::fs::read_to_string(root.join("examples/session.json")).unwrap());
    let files = ["-o", "smaller.json", "--originals", "removed.jsonl"];
    longhaul(&folder, &[&["compress", "session.json", "--context-length", "8000"], &files[..]].concat(), &[]);
    let after = std::fs::read_to_string(folder.0.join("smaller.json")).unwrap();
    assert!(after.contains("(recall hv6smc21p6); succeeded later"), "{after}");
    let recalled = longhaul(&folder, &["recall", "--originals", "removed.jsonl", "hv6smc21p6"], &[]);
    assert!(recalled.out.contains("mismatched types"), "{}", recalled.err);
}

#[test]
fn the_report_keeps_to_its_schema_and_is_the_same_each_time() {
    let folder = Folder::new("compress-report");
    let read = |run: Run| -> Value {
        let mut report = Run { err: String::new(), ..run }.json("compress.json");
        report["elapsed_ms"] = json!(0);
        report
    };
    let first = read(compress(&folder, &["--json", "-o", "after.json"]));
    assert_eq!(first, read(compress(&folder, &["--json", "-o", "after.json"])));
    assert_eq!(first["changed"], true);
    assert!(first["blocks"].as_array().unwrap().iter().all(|b| b["fate"] == "digested" && b["handle"].is_null()));
    let evidence = |key: &str| first["evidence"][key].as_u64().unwrap();
    assert!(evidence("found") > 0 && evidence("recallable") == 0, "nothing was kept aside");
    assert_eq!(evidence("found"), evidence("kept") + evidence("lost"));
    assert!(first["checkpoint"].is_null());
    assert!(first["cost"]["usd"].as_f64() > Some(0.0) && first["cost"]["usd_saved_per_turn"].as_f64() > Some(0.0));
    let cold = first["tokens"]["after"].as_u64().unwrap() - first["tokens"]["warm"].as_u64().unwrap();
    assert_eq!(first["cost"]["cold_tokens"], cold);
    let leave = read(compress_in(&folder, "400000", &["--json", "--preview"]));
    assert_eq!((&leave["changed"], &leave["ratio"]), (&json!(false), &json!(0.0)));
    assert!(leave["reason"].as_str().unwrap().starts_with("below the trigger"));
}

#[test]
fn what_is_removed_can_be_recalled_without_its_secrets() {
    let folder = Folder::new("compress-originals");
    let run =
        compress(&folder, &["--originals", "removed.jsonl", "--report", "report.json", "-o", "after.json", "--force"]);
    assert_eq!((run.code, run.out.as_str()), (0, ""), "{}", run.err);
    let report: Value = serde_json::from_str(&std::fs::read_to_string(folder.0.join("report.json")).unwrap()).unwrap();
    let after = std::fs::read_to_string(folder.0.join("after.json")).unwrap();
    for block in report["blocks"].as_array().unwrap() {
        let recall_id = block["handle"].as_str().unwrap();
        assert!(after.contains(&format!("recall {recall_id}")), "the digest says how to get it back");
        let recalled = longhaul(&folder, &["recall", "--originals", "removed.jsonl", recall_id], &[]);
        assert!(recalled.out.contains("compiling one more unit"), "{}", recalled.err);
        longhaul(&folder, &["recall", "--originals", "removed.jsonl", recall_id, "--json"], &[]).json("recall.json");
    }
    let kept = std::fs::read_to_string(folder.0.join("removed.jsonl")).unwrap();
    assert!(!kept.contains(SECRET), "a secret reached the originals");
    let missing = longhaul(&folder, &["recall", "--originals", "removed.jsonl", "nothing"], &[]);
    assert_eq!((missing.code, missing.out.as_str()), (1, ""));
}

#[cfg(unix)]
#[test]
fn originals_with_their_secrets_are_for_their_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new("compress-raw");
    let run = compress(&folder, &["--originals-raw", "raw.jsonl", "-o", "after.json", "--force"]);
    assert_eq!(run.code, 0, "{}", run.err);
    let file = folder.0.join("raw.jsonl");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(std::fs::read_to_string(file).unwrap().contains(SECRET));
}

#[test]
fn a_log_is_kept_and_summed() {
    let folder = Folder::new("compress-log");
    for _ in 0..2 {
        assert_eq!(compress(&folder, &["--log", "log.jsonl", "-o", "after.json", "--quiet"]).err, "");
    }
    assert_eq!(compress_in(&folder, "400000", &["--log", "log.jsonl", "-o", "after.json"]).code, 0);
    let stats = longhaul(&folder, &["stats", "log.jsonl", "--json"], &[]).json("stats.json");
    assert_eq!(stats["total_compactions"], 2, "what changed nothing is no compaction");
    let row = &stats["rows"][0];
    let saved = row["tokens_before"].as_u64().unwrap() - row["tokens_after"].as_u64().unwrap();
    assert_eq!(stats["total_tokens_saved"], 2 * saved);
    assert!(longhaul(&folder, &["stats", "log.jsonl"], &[]).out.contains("2 compactions"));
    let empty = longhaul_reading(&folder, &["stats", "-", "--json"], &[], b"").json("stats.json");
    assert_eq!((&empty["total_compactions"], &empty["average_ratio"]), (&json!(0), &json!(0.0)));
    let nothing = longhaul_reading(&folder, &["stats", "-"], &[], b"");
    assert_eq!(nothing.out, "no compactions in standard input\n");
    let row = |ratio: &str| {
        let row = r#"{"engine":"compressor","reason":"r","tokens_before":18446744073709551615,"tokens_after":0,"#;
        format!("{row}\"messages_before\":1,\"messages_after\":1,\"ratio\":{ratio}}}\n").repeat(2)
    };
    let huge = longhaul_reading(&folder, &["stats", "-", "--json"], &[], row("1.0").as_bytes());
    assert_eq!(huge.json("stats.json")["total_tokens_saved"], i64::MAX);
    let absurd = longhaul_reading(&folder, &["stats", "-"], &[], row("1e308").as_bytes());
    assert!(absurd.refused().contains("line 1"), "{}", absurd.err);
    let bad = longhaul_reading(&folder, &["stats", "-"], &[], b"{}\nnonsense\n");
    assert!(bad.refused().contains("line 1"), "{}", bad.err);
}

#[test]
fn wrong_calls_are_one_line() {
    let folder = Folder::new("compress-wrong");
    assert!(compress(&folder, &["--json"]).refused().contains("-o"));
    let shared: [&[&str]; 5] = [
        &["-o", "./session.json"],
        &["-o", "x", "--originals", "x"],
        &["-o", "x", "--report", "./x"],
        &["--originals", "session.json"],
        &["--log", "session.json", "-o", "x"],
    ];
    folder.file("x", "");
    for more in shared {
        let run = compress(&folder, more);
        assert!(run.refused().contains("file"), "{more:?}: {}", run.err);
    }
    assert_eq!(std::fs::read_to_string(folder.0.join("session.json")).unwrap(), session());
}

#[test]
fn the_result_may_replace_the_body_and_without_an_engine_there_is_one() {
    let folder = Folder::new("compress-in-place");
    folder.file("session.json", session());
    let call = ["compress", "session.json", "--in-place", "--context-length", "20k"];
    let run = longhaul(&folder, &call, &[]);
    assert_eq!((run.code, run.out.as_str()), (0, ""), "{}", run.err);
    assert!(
        run.err.contains("compressor: ") && run.err.contains("the backup of session.json is session.json.bak"),
        "{}",
        run.err
    );
    let unknown = longhaul(&folder, &["compress", "session.json", "--engine", "lossles", "--preview"], &[]);
    let said = "--engine: no engine is called lossles; there are compressor, sacred-zone, lossless";
    assert_eq!(unknown.refused().trim_end(), said);
    let configured = [("LONGHAUL_CONTEXT__ENGINE", "lossles")];
    let unknown = longhaul(&folder, &["compress", "session.json", "--preview"], &configured);
    assert_eq!(unknown.code, 0, "a name found nowhere is no reason to leave a session without compaction");
    assert!(unknown.err.contains("no engine is called lossles"), "{}", unknown.err);
    let after = std::fs::read_to_string(folder.0.join("session.json")).unwrap();
    assert!(after.len() < session().len() && after.contains("And now?"));
    let mut left: Vec<_> = std::fs::read_dir(&folder.0).unwrap().map(|e| e.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["session.json", "session.json.bak"], "nothing half-written is left");
    assert_eq!(std::fs::read_to_string(folder.0.join("session.json.bak")).unwrap(), session());
}

#[test]
fn a_line_that_was_cut_off_keeps_nobody_from_the_other_originals() {
    let folder = Folder::new("compress-cut");
    compress(&folder, &["--originals", "removed.jsonl", "-o", "after.json", "--force"]);
    let kept = std::fs::read_to_string(folder.0.join("removed.jsonl")).unwrap();
    let row: Value = serde_json::from_str(kept.lines().next().unwrap()).unwrap();
    folder.file("removed.jsonl", format!("{kept}{{\"handle\":\"cut"));
    let run = longhaul(&folder, &["recall", "--originals", "removed.jsonl", row["handle"].as_str().unwrap()], &[]);
    assert_eq!((run.code, run.out.as_str()), (0, row["text"].as_str().unwrap()));
}

#[test]
fn a_preview_writes_no_body() {
    let folder = Folder::new("compress-preview");
    let run = compress(&folder, &["--preview", "--originals", "removed.jsonl", "--log", "log.jsonl"]);
    assert_eq!((run.code, run.out.as_str()), (0, ""));
    assert!(run.err.contains("% smaller"), "{}", run.err);
    assert!(!folder.0.join("removed.jsonl").exists() && !folder.0.join("log.jsonl").exists());
}

#[test]
fn a_result_that_is_still_too_large_is_given_said_and_answered_with_no() {
    let folder = Folder::new("compress-shortfall");
    folder.file("session.json", session());
    for (more, over) in [
        (&["--to-tokens", "10"][..], "the requested size"),
        (&["--context-length", "4k", "--engine", "compressor"], "the window of 4,000"),
    ] {
        let large = format!("And now? {}", "one more wish of mine; ".repeat(2_000));
        folder.file("session.json", session().replace("And now?", &large));
        let call = [&["compress", "session.json", "--quiet"], more].concat();
        let run = longhaul(&folder, &call, &[]);
        assert_eq!(run.code, 1, "{}", run.err);
        assert!(run.out.starts_with('{') && run.out.len() < session().len() + large.len(), "the body is there");
        assert_eq!(run.err.lines().count(), 1, "even to those who want to hear nothing: {}", run.err);
        assert!(run.err.contains("session.json: still ") && run.err.contains(over), "{}", run.err);
        let report = longhaul(&folder, &[&call[..], &["--json", "-o", "after.json"]].concat(), &[]);
        assert_eq!((report.code, &against("compress.json", &report.out)["reached"]), (1, &json!(false)));
        assert!(folder.0.join("after.json").exists());
        let several = longhaul(&folder, &[&call[..], &["--out-dir", "out"]].concat(), &[]);
        assert_eq!((several.code, several.err.lines().count()), (1, 1), "{}", several.err);
        assert_eq!(longhaul(&folder, &[&call[..], &["--preview"]].concat(), &[]).code, 1);
    }
    assert_eq!(compress(&folder, &["-o", "after.json"]).code, 0);
}

#[test]
fn a_compaction_that_is_switched_off_is_made_only_by_force() {
    let folder = Folder::new("compress-off");
    folder.file("session.json", session());
    folder.file("own.yaml", "compression: { enabled: false }\n");
    for engine in ["compressor", "sacred-zone"] {
        let call = ["compress", "session.json", "--context-length", "10k", "--engine", engine];
        for more in [&[][..], &["--to-tokens", "3k"]] {
            let run = longhaul(&folder, &[&call[..], more].concat(), &[]);
            assert_eq!((run.code, run.out), (0, session()), "{}", run.err);
            assert!(run.err.contains("compression.enabled is false"), "{}", run.err);
        }
        let forced = longhaul(&folder, &[&call[..], &["--force"]].concat(), &[]);
        assert!(forced.code == 0 && forced.out.len() < session().len(), "{}", forced.err);
    }
}

#[test]
fn the_checkpoint_can_be_read_alone() {
    let folder = Folder::new("compress-show");
    folder.file("session.json", session());
    let call = ["compress", "session.json", "--show", "checkpoint", "--quiet"];
    let shown = longhaul(&folder, &[&call[..], &["--to-tokens", "2000"]].concat(), &[]);
    assert_eq!((shown.code, shown.err.as_str()), (0, ""));
    assert!(shown.out.starts_with("[Longhaul checkpoint") && shown.out.contains("\n## "), "{}", shown.out);
    let body = longhaul(&folder, &["compress", "session.json", "--to-tokens", "2000", "--quiet"], &[]);
    let text = serde_json::to_string(shown.out.trim_end()).unwrap();
    assert!(body.out.contains(text.trim_matches('"')), "it is the one that the body has");
    assert!(longhaul(&folder, &call, &[]).failed(1).contains("has no checkpoint"));
    assert!(!folder.0.join("removed.jsonl").exists());
    longhaul(&folder, &[&call[..], &["--json", "-o", "x"]].concat(), &[]).refused();
}

#[test]
fn the_differences_say_what_was_folded_and_which_facts_are_lost() {
    let folder = Folder::new("compress-diff");
    folder.file("session.json", session().replace("main.c:3: error", "oven.c:3: error: the cake fell"));
    let call = ["compress", "session.json", "--to-tokens", "700", "--preview", "--diff", "--quiet"];
    let run = longhaul(&folder, &call, &[]);
    let line = run.out.lines().find(|line| line.starts_with("  turn 1 ")).unwrap();
    assert!(line.contains("bash make t0") && line.contains("summarized"), "{}", run.out);
    assert!(run.out.contains("+ checkpoint: "), "{}", run.out);
    let more = |step: usize| {
        (format!("of step {step}\\nmain.c"), format!("of step {step}\\nerror: oven {step} is out of gas\\nmain.c"))
    };
    let other = (1..9).map(more).fold(session(), |session, (old, new)| session.replace(&old, &new));
    folder.file("session.json", other);
    let lost = longhaul(&folder, &["compress", "session.json", "--to-tokens", "500", "--preview", "--diff"], &[]);
    assert!(lost.out.contains("missing from the new request (") && lost.out.contains("): lost;"), "{}", lost.out);
    let kept = longhaul(&folder, &[&call[..], &["--originals", "kept.jsonl"]].concat(), &[]);
    assert!(kept.out.contains("(recall "), "{}", kept.out);
    for run in [&run, &kept] {
        assert!(!run.out.contains("unit"), "{}", run.out);
    }
}

#[test]
fn numbers_may_be_short_and_shares_percentages() {
    let folder = Folder::new("compress-numbers");
    let report = |more: &[&str]| {
        folder.file("session.json", session());
        let run =
            longhaul(&folder, &[&["compress", "session.json", "--preview", "--json", "--quiet"], more].concat(), &[]);
        let mut report = against("compress.json", &run.out);
        report["elapsed_ms"] = json!(0);
        report
    };
    assert_eq!(report(&["--to-tokens", "5k"]), report(&["--to-tokens", "5000"]));
    assert_eq!(report(&["--context-length", "0.02M"]), report(&["--context-length", "20000"]));
    assert_eq!(report(&["--threshold", "10%"]), report(&["--threshold", "0.1"]));
    let refused =
        |more: &[&str]| longhaul(&folder, &[&["compress", "session.json"], more].concat(), &[]).refused().to_owned();
    assert!(refused(&["--to-tokens", "50%"]).contains("this is a share, not a number of tokens"));
    assert!(refused(&["--to-tokens", "many"]).contains("20000, 20k or 1.5M"));
    assert!(refused(&["--threshold", "150%"]).contains("must be over 0 and at most 1"));
    assert_eq!(
        refused(&["--context-length", "0"]),
        "--context-length: a window of 0 tokens is too small; the smallest is 4000"
    );
    assert_eq!(
        refused(&["--preview", "-o", "no/directory/x"]),
        "the directory of no/directory/x does not exist; create it first",
        "nothing is printed before it"
    );
}
