//! `compress` of several bodies, of a body a line, and what it shows to people.

use std::fs;

use serde_json::{Value, json};

use crate::support::{Folder, Run, against, longhaul, longhaul_reading};

/// A session of a few steps with long outputs; its name is in it, so that no two are the same.
fn session(name: &str, steps: usize) -> String {
    let mut messages = vec![json!({"role": "user", "content": format!("Look after {name}.")})];
    for step in 0..steps {
        let id = format!("c{step}");
        let function = json!({"name": "read_log", "arguments": format!("{{\"day\":{step}}}")});
        let call = json!({"id": id, "type": "function", "function": function});
        messages.push(json!({"role": "assistant", "content": null, "tool_calls": [call]}));
        let output = format!("{name} did one more thing on day {step}\n").repeat(90);
        messages.push(json!({"role": "tool", "tool_call_id": id, "content": output}));
    }
    messages.push(json!({"role": "user", "content": "And now?"}));
    json!({"model": "gpt-5", "messages": messages}).to_string()
}

const ENGINE: [&str; 4] = ["--engine", "sacred-zone", "--context-length", "8000"];

fn compress(folder: &Folder, more: &[&str], input: &str) -> Run {
    longhaul_reading(folder, &[&["compress"], &ENGINE[..], more].concat(), &[], input.as_bytes())
}

fn read(folder: &Folder, name: &str) -> String {
    fs::read_to_string(folder.0.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The reports of several bodies: one a line, each held against the schema.
fn reports(text: &str) -> Vec<Value> {
    text.lines().map(|line| against("compress.json", line)).collect()
}

#[test]
fn several_bodies_go_to_a_directory_under_their_names() {
    let folder = Folder::new("many-files");
    let names = ["a.json", "b.json", "c.json", "small.json"];
    for (at, name) in names.iter().enumerate() {
        folder.file(name, session(name, if at == 3 { 1 } else { 12 + at }));
    }
    let files = ["--out-dir", "out/smaller", "--json", "--report", "reports.jsonl", "--originals", "kept.jsonl"];
    let run = compress(&folder, &[&names[..], &files, &["--log", "log.jsonl"]].concat(), "");
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(run.err.contains("4 requests, 3 compacted, 0 failed"), "{}", run.err);
    let answers = reports(&run.out);
    assert_eq!(answers.iter().map(|report| report["body"].as_str().unwrap()).collect::<Vec<_>>(), names);
    assert_eq!(reports(&read(&folder, "reports.jsonl")), answers);
    let kept = read(&folder, "kept.jsonl");
    for (name, report) in names.iter().zip(&answers) {
        let after = read(&folder, &format!("out/smaller/{name}"));
        let alone = compress(&folder, &[name, "--originals", "other.jsonl"], "");
        assert_eq!(after, alone.out, "what a body becomes does not depend on its company");
        assert_eq!(report["bytes"]["after"], after.len());
        for block in report["blocks"].as_array().unwrap() {
            assert!(kept.contains(block["handle"].as_str().unwrap()));
        }
    }
    assert_eq!(read(&folder, "out/smaller/small.json"), session("small.json", 1), "below the trigger it is the same");
    assert_eq!(read(&folder, "log.jsonl").lines().count(), 3, "what changed nothing is no compaction");
    let wordy = compress(&folder, &["a.json", "b.json", "--preview", "--summarizer", "auto"], "");
    let note = "nothing new is summarized, so no model is asked";
    let said: Vec<&str> = wordy.err.lines().filter(|line| line.contains(note)).collect();
    assert_eq!(said, [format!("longhaul: a.json: {note}"), format!("longhaul: 2 of them: {note}")]);
    let preview = compress(&folder, &["a.json", "b.json", "--preview", "--json", "--quiet"], "");
    assert_eq!((preview.code, preview.err.as_str(), reports(&preview.out).len()), (0, "", 2));
}

#[test]
fn a_body_that_cannot_be_used_keeps_nobody_from_the_others() {
    let folder = Folder::new("many-bad");
    folder.file("good.json", session("good", 12));
    folder.file("bad.json", "{\"messages\": [");
    let run = compress(&folder, &["bad.json", "missing.json", "good.json", "--out-dir", "out"], "");
    assert_eq!((run.code, run.out.as_str()), (2, ""), "{}", run.err);
    let said: Vec<&str> = run.err.lines().collect();
    assert!(said[0].starts_with("longhaul: bad.json is not JSON"), "{}", run.err);
    assert_eq!(said[1], "longhaul: missing.json does not exist; check the path");
    assert!(run.err.contains("3 requests, 1 compacted, 2 failed"), "{}", run.err);
    assert!(read(&folder, "out/good.json").len() < session("good", 12).len());
    assert!(!folder.0.join("out/bad.json").exists());
    let none = compress(&folder, &["bad.json", "missing.json", "--out-dir", "out"], "");
    assert_eq!(none.err.lines().last(), Some("longhaul: 2 requests, 0 compacted, 2 failed"), "{}", none.err);
}

#[test]
fn places_that_would_be_written_over_are_refused() {
    let folder = Folder::new("many-places");
    fs::create_dir(folder.0.join("more")).unwrap();
    for file in ["a.json", "b.json", "more/a.json"] {
        folder.file(file, session(file, 2));
    }
    let cases: [(&[&str], &str); 11] = [
        (&["a.json", "more/a.json", "--out-dir", "out"], "a.json and more/a.json would be the same file"),
        (&["a.json", "a.json", "--out-dir", "out"], "a.json and a.json would be the same file"),
        (&["a.json", "b.json", "--out-dir", "."], "--out-dir . would overwrite the input a.json"),
        (&["b.json", "a.json", "--out-dir", "more/.."], "--out-dir more/.. would overwrite the input b.json"),
        (&["a.json", "b.json"], "several requests need an output directory; give --out-dir DIR"),
        (&["a.json", "b.json", "-o", "x"], "several requests need an output directory"),
        (&["a.json", "-", "--out-dir", "out"], "standard input has no name"),
        (&["a.json", "b.json", "--jsonl", "--preview"], "--jsonl accepts one BODY"),
        (&["a.json", "--out-dir", "out", "--report", "out/a.json"], "--report and --out-dir out name"),
        (&["a.json", "b.json", "--out-dir", "more/a.json"], "more/a.json is a file, or its path contains one"),
        (&["-", "--config", "-"], "standard input cannot be both"),
    ];
    fs::create_dir(folder.0.join("out")).unwrap();
    for (call, said) in cases {
        let run = compress(&folder, call, "");
        assert!(run.refused().contains(said), "{call:?}: {}", run.err);
    }
    assert_eq!(read(&folder, "a.json"), session("a.json", 2));
    assert_eq!(fs::read_dir(folder.0.join("out")).unwrap().count(), 0);
    let lines = compress(&folder, &["-", "--json"], &format!("{}\n", session("x", 1)));
    assert!(lines.refused().contains("give -o FILE or --out-dir DIR, or --preview"), "{}", lines.err);
}

#[test]
fn a_body_a_line_comes_out_line_by_line_in_the_same_order() {
    let folder = Folder::new("lines");
    let sessions: Vec<String> = (0..6).map(|at| session(&format!("line {at}"), 20 - at)).collect();
    let input = sessions.join("\n") + "\n";
    let run = compress(&folder, &["-"], &input);
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(run.out.len() < input.len() && run.out.ends_with('\n'));
    for (before, after) in sessions.iter().zip(run.out.lines()) {
        assert_eq!(after, compress(&folder, &["-"], before).out, "each line is compacted as if it stood alone");
    }
    assert_eq!(run.out.lines().count(), 6);
    folder.file("all.jsonl", &input);
    let file = compress(&folder, &["all.jsonl", "--in-place", "--json", "--quiet"], "");
    assert_eq!((file.code, file.err.as_str()), (0, ""));
    assert_eq!(read(&folder, "all.jsonl"), run.out, "a file of lines may take its own result");
    assert_eq!(read(&folder, "all.jsonl.bak"), input);
    let bodies: Vec<Value> = reports(&file.out).iter().map(|report| report["body"].clone()).collect();
    assert_eq!(bodies[5], "line 6 of all.jsonl");
}

#[test]
fn a_bad_line_is_said_with_its_number_and_passes_as_it_is() {
    let folder = Folder::new("lines-bad");
    let good = session("good", 12);
    let bad = ["{\"messages\": [", "not JSON at all", "{\"model\": \"gpt-5\"}"];
    let input = [&good, bad[0], "", bad[1], &good, bad[2]].join("\n");
    let run = compress(&folder, &["-", "--quiet"], &input);
    assert_eq!(run.code, 2, "{}", run.err);
    let smaller = compress(&folder, &["-"], &good).out;
    let expected = [&smaller, bad[0], "", bad[1], &smaller, bad[2]].join("\n");
    assert_eq!(run.out, expected, "nothing is lost, not even the missing end of the last line");
    let said: Vec<&str> = run.err.lines().collect();
    assert_eq!(said.len(), 3, "{}", run.err);
    for (line, number) in said.iter().zip([2, 4, 6]) {
        assert!(line.starts_with(&format!("longhaul: line {number} of standard input ")), "{line}");
    }
    let broken_first = format!("{}\n{good}\n", bad[0]);
    assert!(compress(&folder, &["-"], &broken_first).refused().contains("not JSON"));
    let told = compress(&folder, &["-", "--jsonl"], &broken_first);
    assert_eq!((told.code, told.out), (2, format!("{}\n{smaller}\n", bad[0])));
    let one = compress(&folder, &["-", "--jsonl", "-o", "x", "--json"], &good);
    assert_eq!(reports(&one.out).len(), 1);
}

#[test]
fn the_differences_say_by_step_what_went_and_why() {
    let folder = Folder::new("diff");
    folder.file("a.json", session("a", 12));
    let report = compress(&folder, &["a.json", "--preview", "--json"], "");
    let report = against("compress.json", &report.out);
    let blocks = report["blocks"].as_array().unwrap();
    let preview = compress(&folder, &["a.json", "--preview", "--diff"], "");
    let lines: Vec<&str> = preview.out.lines().collect();
    assert!(lines[0].starts_with("a.json: ") && lines[0].contains("% smaller"), "{}", preview.out);
    assert_eq!(lines.len(), 1 + blocks.len(), "each step has one changed block, and no fact is lost");
    for (line, block) in lines[1..].iter().zip(blocks) {
        let step = block["at"].as_u64().unwrap() / 2;
        let start = format!("  turn {step}");
        assert!(line.starts_with(&start) && line.contains(&format!("read_log day={}", step - 1)), "{line}");
        assert!(line.contains("shortened") && line.ends_with(block["why"].as_str().unwrap()), "{line}");
    }
    let both = compress(&folder, &["a.json", "--preview", "--diff", "--json", "--quiet"], "");
    assert_eq!(both.err, preview.out, "beside a report for programs, too");
    against("compress.json", &both.out);
    let body = compress(&folder, &["a.json", "--diff", "--quiet"], "");
    assert!(body.out.starts_with('{') && body.err == preview.out, "beside a body they go to standard error");
    let file = compress(&folder, &["a.json", "--preview", "--diff", "-o", "diff.txt"], "");
    assert_eq!((file.out.as_str(), read(&folder, "diff.txt")), ("", preview.out));
}

#[test]
fn colour_is_for_terminals_and_for_those_who_ask() {
    let folder = Folder::new("colour");
    folder.file("a.json", session("a", 12));
    let call = |more: &[&str], environment: &[(&str, &str)]| {
        let call = [&["compress", "a.json", "--preview", "--diff"], &ENGINE[..], more].concat();
        let run = longhaul(&folder, &call, environment);
        assert_eq!(run.code, 0);
        (run.out.contains('\u{1b}'), run.err.contains('\u{1b}'))
    };
    assert_eq!(call(&[], &[]), (false, false), "neither stream is a terminal");
    assert_eq!(call(&["--color", "always"], &[]), (true, true));
    assert_eq!(call(&["--color", "never"], &[("CLICOLOR_FORCE", "1")]), (false, false));
    assert_eq!(call(&[], &[("NO_COLOR", "1"), ("CLICOLOR_FORCE", "1")]), (false, false));
    let named = session("a", 12).replace("read_log", "read\\u001b[31mlog");
    folder.file("a.json", named);
    assert_eq!(call(&[], &[]), (false, false));
    let run = longhaul(&folder, &["compress", "a.json", "--preview", "--diff", "--color", "always", "--force"], &[]);
    assert!(!run.out.contains("\u{1b}[31mlog"), "a tool's name is nothing for a terminal to obey");
}

#[test]
fn a_topic_and_a_summarizer_can_be_asked_for() {
    let folder = Folder::new("focus");
    folder.file("a.json", session("a", 12));
    let call = |more: &[&str]| compress(&folder, &[&["a.json", "--preview", "--json"], more].concat(), "");
    let notes = |run: &Run| against("compress.json", &run.out)["notes"].to_string();
    let focus = call(&["--focus", "day 3"]);
    assert_eq!(against("compress.json", &focus.out)["focus"], "day 3");
    assert!(call(&["--focus", ""]).refused().contains("--focus"));
    let [plain, none, auto] = [&[][..], &["--summarizer", "none"], &["--summarizer", "auto"]].map(call);
    assert_eq!((notes(&plain).as_str(), notes(&none).as_str()), ("[]", "[]"));
    assert!(notes(&auto).contains("nothing new is summarized, so no model is asked"), "{}", notes(&auto));
    assert!(call(&["--summarizer", "me"]).refused().contains("invalid value 'me'"));
}
