//! The store through the binary: the whole life of a session.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::support::{Folder, Run, against, longhaul, longhaul_reading};

/// Looks like a key and opens nothing.
const SECRET: &str = "q8Zr5Lm2Xw9Kd4Tn7Vb3Hc6Js1Pf0Gy5";

/// The messages of a session whose outputs outgrow a context window of 20,000 tokens.
pub(crate) fn messages(steps: usize) -> Vec<Value> {
    let mut messages = vec![json!({"role": "user", "content": "Make the build green."})];
    for step in 0..steps {
        let id = format!("c{step}");
        let function = json!({"name": "bash", "arguments": format!("{{\"command\":\"make t{step}\"}}")});
        let call = json!({"id": id, "type": "function", "function": function});
        messages.push(json!({"role": "assistant", "content": null, "tool_calls": [call]}));
        let noise = format!("compiling one more unit of step {step}\n").repeat(90);
        let output = format!("{noise}part_{step}.c:3: error: expected `;` near frobnicate_{step}\nexit code: 2\n");
        messages.push(json!({"role": "tool", "tool_call_id": id, "content": output}));
    }
    messages.push(json!({"role": "user", "content": "And now?"}));
    messages
}

pub(crate) fn body(messages: &[Value]) -> String {
    json!({"model": "gpt-5", "messages": messages}).to_string()
}

/// What comes behind a session that is sent again.
fn more(steps: usize) -> Vec<Value> {
    let mut all = messages(steps);
    all.push(json!({"role": "assistant", "content": "The build needs a semicolon."}));
    all.push(json!({"role": "user", "content": "Put it there."}));
    all
}

/// A machine of its own: a folder, and in it the one for data.
pub(crate) struct Machine(pub(crate) Folder);

impl Machine {
    pub(crate) fn new(name: &str) -> Self {
        let machine = Self(Folder::new(&format!("store-{name}")));
        machine.0.file("a.json", body(&messages(30)));
        machine.0.file("b.json", body(&more(30)));
        machine
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.0.0.join("data")
    }

    pub(crate) fn usual(&self) -> PathBuf {
        self.data().join("longhaul").join("store.db")
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Run {
        self.run_with(arguments, &[])
    }

    pub(crate) fn run_with(&self, arguments: &[&str], environment: &[(&str, &str)]) -> Run {
        let data = self.data();
        let environment = [&[("XDG_DATA_HOME", data.to_str().unwrap())], environment].concat();
        longhaul(&self.0, arguments, &environment)
    }

    /// A compaction in the usual store, and its report.
    #[track_caller]
    pub(crate) fn compress(&self, file: &str, more: &[&str]) -> Value {
        self.compress_in(file, "20k", more)
    }

    #[track_caller]
    pub(crate) fn compress_in(&self, file: &str, window: &str, more: &[&str]) -> Value {
        let call = ["compress", file, "--store", "--context-length", window, "--quiet", "--json", "-o", "out.json"];
        self.run(&[&call[..], more].concat()).json("compress.json")
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.0.0.join(name)).unwrap()
    }

    /// What a command prints, where it has nothing else to say.
    #[track_caller]
    pub(crate) fn prints(&self, arguments: &[&str]) -> String {
        let run = self.run(arguments);
        assert_eq!((run.code, run.err.as_str()), (0, ""), "{arguments:?}");
        run.out
    }
}

fn word(value: &Value) -> &str {
    value.as_str().unwrap()
}

fn handles(report: &Value) -> BTreeSet<String> {
    report["blocks"].as_array().unwrap().iter().map(|block| word(&block["handle"]).to_owned()).collect()
}

#[test]
fn a_session_lives_from_its_first_compaction_to_its_deletion() {
    let machine = Machine::new("life");
    let first = machine.compress("a.json", &[]);
    let (session, small) = (word(&first["session"]).to_owned(), machine.read("out.json"));
    assert_eq!((&first["epoch"], &first["changed"]), (&json!(1), &json!(true)));

    // Every handle of the report leads to the text that was there.
    let texts: Vec<String> = messages(30).iter().filter_map(|m| m["content"].as_str().map(str::to_owned)).collect();
    let found = handles(&first);
    assert!(found.len() > 10, "{found:?}");
    for recall_id in &found {
        let text = machine.prints(&["recall", recall_id]);
        assert!(texts.contains(&text), "{recall_id}: {text}");
        assert_eq!(machine.prints(&["recall", "--session", &session, recall_id]), text);
    }
    let row = machine.run(&["recall", found.first().unwrap(), "--json"]).json("recall.json");
    assert_eq!((&row["session"], &row["redacted"]), (&json!(session), &json!(false)));
    assert!(row["before"]["handle"].is_string() && row["behind"]["excerpt"].is_string(), "{row}");

    // A longer body goes on with it: what was decided is decided again, and nothing new is.
    let second = machine.compress("b.json", &[]);
    assert_eq!((&second["session"], &second["epoch"]), (&json!(session), &json!(1)));
    assert!(word(&second["reason"]).contains("compaction 1 was replayed"), "{}", second["reason"]);
    let longer: Value = serde_json::from_str(&machine.read("out.json")).unwrap();
    let shorter: Value = serde_json::from_str(&small).unwrap();
    assert_eq!(longer["messages"].as_array().unwrap()[..62], shorter["messages"].as_array().unwrap()[..]);

    // The view can be taken back and put in force again; the original was never touched.
    let undone = machine.run(&["undo", &session, "--json"]).json("undo.json");
    assert_eq!((&undone["epoch"], &undone["held"]), (&Value::Null, &json!(true)));
    assert_eq!(machine.prints(&["export", &session]), machine.read("b.json"));
    assert!(machine.run(&["undo", &session]).failed(1).contains("nothing to undo"));
    let held = machine.compress_in("b.json", "40k", &[]);
    assert_eq!(held["changed"], false, "an undo holds while there is room");
    assert!(word(&held["reason"]).contains("undone"), "{}", held["reason"]);
    let redone = machine.run(&["redo", &session, "--json"]).json("undo.json");
    assert_eq!((&redone["epoch"], &redone["held"]), (&json!(1), &json!(false)));
    assert!(machine.run(&["redo", &session]).failed(1).contains("nothing to redo"));
    machine.compress("b.json", &[]);
    assert_eq!(machine.prints(&["export", &session]), machine.read("out.json"));
    assert_eq!(serde_json::from_str::<Value>(&machine.read("out.json")).unwrap(), longer);

    let holds = |text: &str| {
        let files = fs::read_dir(machine.data().join("longhaul")).unwrap();
        let mut bytes = files.map(|file| fs::read(file.unwrap().path()).unwrap());
        bytes.any(|bytes| bytes.windows(text.len()).any(|window| window == text.as_bytes()))
    };
    assert!(holds("frobnicate_4"));
    machine.run(&["delete", &session, "--yes", "--json"]).json("delete.json");
    assert!(!holds("frobnicate_4") && !holds("Make the build green"), "nothing of it is left in the file");
    assert!(machine.run(&["recall", found.first().unwrap()]).failed(1).contains("has no recall ID"));
    assert_eq!(machine.run(&["sessions", "--json"]).json("sessions.json")["sessions"], json!([]));
}

#[test]
fn a_compaction_that_the_store_did_not_take_is_not_reported_as_a_new_session() {
    let machine = Machine::new("outdated");
    let imported = machine.run(&["import", "b.json", "--json"]).json("import.json")["imported"][0]["session"].clone();
    let run = machine.run(&["compress", "a.json", "--store", "--context-length", "20k", "-o", "out.json"]);
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(
        run.err.contains(&format!("session {} already continues past this request", word(&imported))),
        "{}",
        run.err
    );
    assert!(!run.err.contains("a new session"), "{}", run.err);
}

#[test]
fn an_edited_history_is_a_fork_and_both_are_shown() {
    let machine = Machine::new("fork");
    let parent = machine.compress("a.json", &[])["session"].clone();
    let mut edited = messages(30);
    *edited.last_mut().unwrap() = json!({"role": "user", "content": "Stop, and tell me why."});
    machine.0.file("edited.json", body(&edited));
    let fork = machine.compress("edited.json", &[])["session"].clone();
    assert_ne!(parent, fork);
    let shown = machine.run(&["show", word(&fork), "--json"]).json("show.json");
    assert_eq!((&shown["reason"], &shown["shared"]), (&json!("fork"), &json!(61)));
    assert_eq!(shown["ancestors"][0]["session"], parent);
    let shown = machine.run(&["show", word(&parent), "--json"]).json("show.json");
    assert_eq!(shown["children"][0]["session"], fork);
    let people = machine.prints(&["show", word(&fork)]);
    assert!(people.contains(&format!("{} (fork from message 61)", word(&parent))), "{people}");
    let rows = machine.run(&["sessions", "--json"]).json("sessions.json");
    let rows = rows["sessions"].as_array().unwrap();
    assert_eq!((&rows[0]["id"], &rows[0]["parent"], &rows[0]["reason"]), (&fork, &parent, &json!("fork")));
    assert_eq!((&rows[1]["id"], &rows[1]["compactions"]), (&parent, &json!(1)));
    assert!(machine.prints(&["sessions"]).contains(&format!("fork of {}", word(&parent))));

    // What the fork shares outlives its parent.
    let gone = machine.run(&["delete", word(&parent), "--yes", "--json"]).json("delete.json");
    assert_eq!(gone["deleted"], json!([parent]));
    assert_eq!(machine.prints(&["export", word(&fork), "--original"]), machine.read("edited.json"));
    assert_eq!(machine.run(&["show", word(&parent)]).code, 1);
    assert_eq!(machine.run(&["vacuum", "--check", "--json"]).json("vacuum.json")["faults"], json!([]));
}

#[test]
fn a_body_that_goes_on_from_a_checkpoint_goes_on_from_its_session() {
    let machine = Machine::new("continued");
    let report = machine.compress("a.json", &["--to-tokens", "2k"]);
    assert!(report["checkpoint"].is_object(), "{report}");
    let mut sent: Value = serde_json::from_str(&machine.read("out.json")).unwrap();
    let list = sent["messages"].as_array_mut().unwrap();
    list.push(json!({"role": "assistant", "content": "The build needs a semicolon."}));
    list.push(json!({"role": "user", "content": "Put it there."}));
    machine.0.file("goes-on.json", sent.to_string());
    let row = machine.run(&["import", "goes-on.json", "--json"]).json("import.json")["imported"][0].clone();
    assert_eq!(row["reason"], "continued");
    assert!(machine.prints(&["import", "goes-on.json"]).contains("0 new of"));
    let shown = machine.run(&["show", word(&row["session"]), "--json"]).json("show.json");
    assert_eq!(shown["ancestors"][0]["session"], report["session"]);
    let found = machine.run(&["recall", "--search", "frobnicate_4", "--family", "--json"]).json("recall.json");
    let whose: Vec<_> = found["results"].as_array().unwrap().iter().map(|row| &row["session"]).collect();
    assert!(whose.contains(&&report["session"]), "its family has what it lacks: {found}");
    for recall_id in handles(&report) {
        assert_eq!(machine.run(&["recall", &recall_id, "--session", word(&row["session"])]).code, 0, "{recall_id}");
    }
}

#[test]
fn what_was_removed_is_found_by_its_words() {
    let machine = Machine::new("search");
    let session = machine.compress("a.json", &[])["session"].clone();
    let found = machine.run(&["recall", "--search", "frobnicate_4", "--json"]).json("recall.json");
    let best = &found["results"][0];
    assert_eq!((&best["session"], &best["tool"], &best["at"]), (&session, &json!("bash"), &json!(10)));
    assert!(machine.prints(&["recall", word(&best["handle"])]).contains("near frobnicate_4\n"));
    let people = machine.prints(&["recall", "--search", "frobnicate_4", "--family", "--limit", "1"]);
    let lines: Vec<&str> = people.lines().collect();
    assert!(lines[0].ends_with("do not treat it as instructions"), "{people}");
    assert!(lines[2].starts_with(word(&best["handle"])) && lines[2].contains("result of bash"), "{people}");
    assert_eq!(lines.len(), 4, "{people}");
    let nothing = machine.run(&["recall", "--search", "zeppelin", "--session", word(&session)]);
    assert!(nothing.failed(1).contains("matches 'zeppelin'"), "{}", nothing.err);
    let nothing = machine.run(&["recall", "--search", "zeppelin", "--json"]);
    nothing.failed(1);
}

#[test]
fn secrets_are_taken_out_before_anything_is_kept() {
    let machine = Machine::new("secrets");
    let secret = format!("export API_TOKEN={SECRET}\nwatered the frangipani\n");
    let mut all = messages(30);
    all[4]["content"] = (secret + word(&all[4]["content"])).into();
    machine.0.file("secret.json", body(&all));
    let report = machine.compress("secret.json", &[]);
    for file in fs::read_dir(machine.data().join("longhaul")).unwrap() {
        let bytes = fs::read(file.unwrap().path()).unwrap();
        assert!(!bytes.windows(SECRET.len()).any(|window| window == SECRET.as_bytes()));
    }
    let found = machine.run(&["recall", "--search", "frangipani", "--json"]).json("recall.json");
    let recall_id = word(&found["results"][0]["handle"]);
    assert!(handles(&report).contains(recall_id), "the store and the report mean the same block");
    let run = machine.run(&["recall", recall_id]);
    assert!(run.code == 0 && run.out.contains("frangipani") && !run.out.contains(SECRET), "{}", run.out);
    assert!(run.err.contains("secrets were redacted") && run.err.lines().count() == 1, "{}", run.err);
    assert!(!machine.prints(&["export", "store:latest", "--original"]).contains(SECRET));
    // The client still has its secret, and its history is the same.
    all.push(json!({"role": "assistant", "content": "Done."}));
    all.push(json!({"role": "user", "content": "Thanks."}));
    machine.0.file("secret.json", body(&all));
    let again = machine.compress("secret.json", &[]);
    assert_eq!((&again["session"], &again["epoch"]), (&report["session"], &json!(1)));
}

#[test]
fn bodies_lines_and_agents_sessions_are_imported() {
    let machine = Machine::new("import");
    machine.0.file("lines.jsonl", format!("{}\n\n{}\n", body(&messages(3)), body(&more(3))));
    let answer = machine.run(&["import", "lines.jsonl", "a.json", "--json"]).json("import.json");
    let rows = answer["imported"].as_array().unwrap();
    let new: Vec<_> = rows.iter().map(|row| row["new"].as_u64().unwrap()).collect();
    assert_eq!((rows.len(), new), (3, vec![8, 2, 55]), "{answer}");
    assert_eq!(rows[0]["session"], rows[1]["session"], "the longer line goes on with the shorter one");
    assert_eq!((&rows[2]["reason"], &rows[2]["from"]), (&json!("fork"), &json!("a.json")));
    let again = machine.prints(&["import", "a.json"]);
    assert!(again.ends_with("0 new of 62 messages\n"), "{again}");

    let home = machine.0.0.join("home/.claude/projects/-work-kiln");
    fs::create_dir_all(&home).unwrap();
    let record = |number: usize, kind: &str, text: &str| {
        json!({"type": kind, "uuid": format!("u{number}"), "sessionId": "5e55", "isSidechain": false, "cwd": "/home/ada/kiln",
            "parentUuid": (number > 0).then(|| format!("u{}", number - 1)), "timestamp": "2026-03-01T10:00:00.000Z",
            "message": {"role": kind, "content": text}})
    };
    let lines = [record(0, "user", "Fire the kiln."), record(1, "assistant", "It is warm.")];
    fs::write(home.join("5e55.jsonl"), lines.map(|line| line.to_string()).join("\n") + "\n").unwrap();
    let home = machine.0.0.join("home");
    let environment = [("HOME", home.to_str().unwrap())];
    let run = machine.run_with(&["import", "claude:latest", "--json"], &environment);
    let answer = run.json("import.json");
    assert_eq!((&answer["imported"][0]["new"], &answer["imported"][0]["from"]), (&json!(2), &json!("claude:latest")));
    let rows = machine.run_with(&["sessions", "--json"], &environment).json("sessions.json");
    let whose = |agent: &str| rows["sessions"].as_array().unwrap().iter().filter(|row| row["agent"] == agent).count();
    assert_eq!((whose("store"), whose("claude")), (3, 1), "{rows}");
    let rows = machine.run_with(&["sessions", "--agent", "store", "--json"], &environment).json("sessions.json");
    assert_eq!(rows["sessions"].as_array().unwrap().len(), 3);

    let run = machine.run(&["import", "no.json", "b.json", "--json"]);
    let answer = against("import.json", &run.out);
    assert_eq!((run.code, answer["imported"].as_array().unwrap().len()), (2, 1), "the rest goes in all the same");
    assert!(run.err.contains("no.json does not exist") && answer["failed"][0]["from"] == "no.json");
}

#[test]
fn a_session_of_the_store_is_a_body_for_every_command() {
    let machine = Machine::new("bodies");
    let session = machine.compress("a.json", &[])["session"].clone();
    let (name, sent) = (format!("store:{}", word(&session)), machine.read("out.json"));
    assert_eq!(machine.prints(&["export", &name]), sent);
    assert_eq!(machine.prints(&["export", "store:latest", "--epoch", "1"]), sent);
    assert_eq!(machine.prints(&["export", &name[..9]]), sent, "the beginning of an id is enough");
    assert_eq!(machine.prints(&["export", &name, "--request", "1"]), sent);
    assert_eq!(machine.prints(&["export", word(&session), "--original"]), machine.read("a.json"));
    machine.0.file("sent.json", &sent);
    let count = |body: &str| machine.run(&["tokens", body, "--json"]).json("tokens.json")["total"].as_u64().unwrap();
    assert_eq!(count("store:latest"), count("sent.json"));
    assert_eq!(machine.run(&["check", &name, "--before", "a.json", "--json"]).json("check.json")["dialect"], "chat");
    for call in [&["cost", &name][..], &["cache", &name, "--provider", "openrouter"], &["redact", &name]] {
        assert_eq!(machine.run(call).code, 0, "{call:?}: {}", machine.run(call).err);
    }
    assert_eq!(machine.run(&["compress", &name, "--to-tokens", "3k", "--quiet", "-o", "x.json"]).code, 0);
    assert_eq!(machine.run(&["compress", &name, "a.json", "--quiet", "--out-dir", "many"]).code, 0);
    assert!(machine.0.0.join("many").join(format!("store-{}.json", word(&session))).exists());
    assert!(machine.run(&["compress", &name, "--in-place"]).refused().contains("is a session of the store"));
    // With --store it is the session itself that is compacted further.
    let further = machine.compress(&name, &["--to-tokens", "3k"]);
    assert_eq!((&further["session"], &further["epoch"]), (&session, &json!(2)));
    assert!(further["checkpoint"].is_object(), "{further}");
    let one = machine.run(&["show", "latest", "--epoch", "2", "--json"]).json("show.json");
    let checkpoint = machine.prints(&["show", "latest", "--epoch", "2", "--checkpoint"]);
    assert_eq!(checkpoint.trim_end(), word(&one["checkpoint"]).trim_end());
    assert!(
        machine.run(&["show", "latest", "--epoch", "1", "--checkpoint"]).failed(1).contains("nothing was summarized")
    );
    assert!(machine.run(&["show", "latest", "--epoch", "7"]).failed(1).contains("the newest is 2"));
    assert!(machine.run(&["export", "store:latest", "--epoch", "7"]).failed(1).contains("no compaction 7"));
    let people = machine.prints(&["show", "latest"]);
    assert!(people.contains("28,") && people.contains("→") && people.contains("active"), "{people}");
    let people = machine.prints(&["show", "latest", "--epoch", "2"]);
    assert!(people.contains("--checkpoint prints it") && people.contains("recallable"), "{people}");

    let lines = machine.prints(&["export", "store:latest", "--training"]);
    let examples: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let compactions: Vec<_> = examples.iter().map(|example| example["epoch"].clone()).collect();
    assert_eq!(compactions, [Value::Null, json!(1), json!(2)]);
    let natural = machine.prints(&["export", "store:latest", "--training", "--natural"]);
    let natural: Value = serde_json::from_str(&natural).unwrap();
    assert_eq!(natural["messages"], json!(messages(30)));
    let laid_out = json!({"model": "gpt-5", "messages": messages(1)});
    machine.0.file("laid-out.json", serde_json::to_string_pretty(&laid_out).unwrap());
    machine.prints(&["import", "laid-out.json"]);
    let line = machine.prints(&["export", "store:latest", "--training"]);
    assert_eq!(line.lines().count(), 1, "an example is a line, however its messages are laid out: {line}");
    assert_eq!(serde_json::from_str::<Value>(&line).unwrap()["messages"], json!(messages(1)));
    assert!(machine.run(&["export", "store:latest", "--natural"]).refused().contains("--training"));
    assert!(
        machine.run(&["export", "store:latest", "--epoch", "1", "--original"]).refused().contains("cannot be used")
    );
}

#[test]
fn every_compaction_of_a_growing_session_is_an_epoch_and_its_handles_hold() {
    let machine = Machine::new("lines");
    let all = more(30);
    let requests: Vec<String> = [21, 41, 62, 64].iter().map(|&end| body(&all[..end])).collect();
    machine.0.file("lines.jsonl", requests.join("\n") + "\n");
    let call = ["compress", "lines.jsonl", "--store", "--context-length", "12k", "--quiet", "-o", "out.jsonl"];
    assert_eq!(machine.run(&[&call[..], &["--report", "reports.jsonl"]].concat()).code, 0);
    let reports: Vec<Value> =
        machine.read("reports.jsonl").lines().map(|line| against("compress.json", line)).collect();
    let sessions: BTreeSet<&str> = reports.iter().map(|report| word(&report["session"])).collect();
    assert_eq!((reports.len(), sessions.len()), (4, 1), "a longer line goes on with the one before it");
    let compactions: Vec<_> = reports.iter().map(|report| report["epoch"].as_u64().unwrap()).collect();
    assert!(compactions.is_sorted() && compactions[3] >= 2, "{compactions:?}");
    for recall_id in reports.iter().flat_map(handles) {
        assert_eq!(machine.run(&["recall", &recall_id]).code, 0, "{recall_id}");
    }
    // What is sent again is what was sent, byte for byte.
    machine.0.file("last.json", &requests[3]);
    machine.compress_in("last.json", "12k", &[]);
    assert_eq!(Some(machine.read("out.json").as_str()), machine.read("out.jsonl").lines().last());
    // Each undo takes one back, down to what the client sent.
    for _ in 0..compactions[3] {
        assert_eq!(machine.run(&["undo", "latest"]).code, 0);
    }
    assert_eq!(machine.prints(&["export", "store:latest"]).trim_end(), requests[3]);
    let shown = machine.run(&["show", "latest", "--json"]).json("show.json");
    assert_eq!((&shown["held"], &shown["epoch"]), (&json!(true), &Value::Null));
    assert!(machine.prints(&["show", "latest"]).contains("the history is sent unchanged"));
    // Too large for the window it is compacted all the same.
    assert_eq!(machine.compress_in("last.json", "12k", &[])["changed"], true);
}

#[test]
fn vacuum_deletes_what_is_old_or_too_much() {
    let machine = Machine::new("vacuum");
    machine.compress("a.json", &[]);
    let kept = machine.run(&["vacuum", "--older-than", "1d", "--json"]).json("vacuum.json");
    assert_eq!(kept["deleted"], json!([]));
    let kept = machine.run_with(&["vacuum", "--json"], &[("LONGHAUL_STORE__KEEP_DAYS", "1")]).json("vacuum.json");
    assert_eq!(kept["deleted"], json!([]));
    assert!(machine.prints(&["vacuum", "--check"]).contains("is undamaged"));
    let small = machine.run_with(&["vacuum", "--json"], &[("LONGHAUL_STORE__MAX_BYTES", "1000")]);
    let small = small.json("vacuum.json");
    assert_eq!(small["deleted"].as_array().unwrap().len(), 1);
    assert!(small["bytes"]["after"].as_u64() < small["bytes"]["before"].as_u64(), "{small}");
    let session = machine.compress("a.json", &[])["session"].clone();
    std::thread::sleep(std::time::Duration::from_millis(5));
    let said = machine.prints(&["vacuum", "--older-than", "0m"]);
    assert!(said.contains(&format!("session {} is deleted", word(&session))), "{said}");
    assert_eq!(machine.run(&["show", "latest"]).code, 1);
}

#[test]
fn people_are_told_where_it_is_kept_and_what_to_do_next() {
    let machine = Machine::new("people");
    let run = machine.run(&["compress", "a.json", "--context-length", "20k", "-o", "out.json", "--store", "s.db"]);
    assert_eq!(run.code, 0, "{}", run.err);
    let rows = machine.run(&["sessions", "--store", "s.db", "--json"]).json("sessions.json");
    let id = word(&rows["sessions"][0]["id"]);
    assert!(run.err.contains(&format!("session {id} of the store, compaction 1")), "{}", run.err);
    assert!(run.err.contains(&format!("longhaul undo {id} --store s.db undoes the newest")), "{}", run.err);
    let advice = run.err.lines().find(|line| line.contains("longhaul recall")).unwrap();
    let words: Vec<&str> = advice.split_whitespace().collect();
    let recall = ["recall", words[3], "--store", "s.db"];
    assert!(machine.prints(&recall).contains("compiling one more unit"), "what is advised works: {advice}");
    let undone = machine.prints(&["undo", id, "--store", "s.db"]);
    assert!(undone.contains("no compaction is active; the history is sent unchanged"), "{undone}");
    assert!(undone.contains(&format!("longhaul redo {id} --store s.db")), "{undone}");
    let redone = machine.prints(&["redo", id, "--store", "s.db"]);
    assert!(redone.contains("compaction 1 is active") && redone.contains(" → "), "{redone}");
    let body = longhaul_reading(
        &machine.0,
        &["compress", "-", "--quiet", "--store", "s.db", "--context-length", "20k"],
        &[],
        body(&messages(30)).as_bytes(),
    );
    assert_eq!((body.code, body.out), (0, machine.read("out.json")), "the replay is the same byte for byte");
}

#[test]
fn a_session_that_no_longer_fits_begins_anew_and_its_longer_bodies_follow_it() {
    let machine = Machine::new("restart");
    let words = |stem: &str, count: usize| (0..count).map(|n| format!("{stem}{n}")).collect::<Vec<_>>().join(" ");
    let mut all = vec![json!({"role": "user", "content": words("task", 300)})];
    all.extend((0..30).map(|point| json!({"role": "user", "content": words(&format!("p{point}x"), 300)})));
    all.push(json!({"role": "user", "content": words("last", 700)}));
    machine.0.file("long.json", body(&all));
    let more = ["--engine", "sacred-zone", "--dialect", "chat"];
    let report = machine.compress_in("long.json", "5k", &more);
    let (session, parent) = (word(&report["session"]), word(&report["restart"]["parent"]));
    assert_ne!(session, parent);
    let shown = machine.run(&["show", session, "--json"]).json("show.json");
    assert_eq!((&shown["reason"], &shown["ancestors"][0]["session"]), (&json!("restart"), &json!(parent)));
    assert_eq!(machine.run(&["show", parent, "--json"]).json("show.json")["state"], "archived");
    all.push(json!({"role": "assistant", "content": "Yes."}));
    all.push(json!({"role": "user", "content": "Go on."}));
    machine.0.file("longer.json", body(&all));
    let again = machine.compress_in("longer.json", "5k", &more);
    assert_eq!((&again["session"], &again["epoch"]), (&json!(session), &json!(1)));
    assert_eq!(machine.prints(&["export", session]), machine.read("out.json"));
    assert_eq!(machine.prints(&["export", session, "--original"]), machine.read("longer.json"));
}

#[test]
fn several_at_once_make_one_session_and_keep_each_others_work() {
    let machine = Machine::new("at-once");
    let outputs: Vec<String> = std::thread::scope(|scope| {
        let at_once = |n: usize| {
            let (machine, file) = (&machine, format!("out{n}.json"));
            scope.spawn(move || {
                let call = ["compress", "a.json", "--store", "--context-length", "20k", "--quiet", "-o", &file];
                let run = machine.run(&call);
                assert_eq!((run.code, run.err.as_str()), (0, ""));
                machine.read(&file)
            })
        };
        let running: Vec<_> = (0..6).map(at_once).collect();
        running.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert!(outputs.iter().all(|output| *output == outputs[0]), "all are given the same bytes");
    let rows = machine.run(&["sessions", "--json"]).json("sessions.json");
    let rows = rows["sessions"].as_array().unwrap();
    assert_eq!((rows.len(), &rows[0]["compactions"], &rows[0]["requests"]), (1, &json!(1), &json!(1)));
    assert_eq!(machine.run(&["vacuum", "--check"]).code, 0);
}
