//! `longhaul config`, `explain` and `completions` through the real binary.

use serde_json::{Value, json};

use crate::support::{Folder, longhaul, longhaul_reading, validate};

fn value<'a>(answer: &'a Value, key: &str) -> &'a Value {
    answer["values"].as_array().unwrap().iter().find(|row| row["key"] == key).unwrap()
}

fn number<'a>(answer: &'a Value, name: &str) -> &'a Value {
    answer["numbers"].as_array().unwrap().iter().find(|row| row["name"] == name).unwrap()
}

#[test]
fn config_says_what_is_in_force_and_where_it_came_from() {
    let folder = Folder::new("config");
    folder.file("longhaul.yaml", "compression:\n  threshold: 0.6\n");
    folder.file("other.yaml", "compression:\n  threshold: 0.7\n");
    let environment = [("LONGHAUL_COMPRESSION__PROTECT_LAST_N", "7"), ("LONGHAUL_SHARED", "elsewhere")];

    let people = longhaul(&folder, &["config"], &environment);
    assert_eq!((people.code, people.err.as_str()), (0, ""));
    let line = |key: &str| people.out.lines().find(|line| line.starts_with(key)).unwrap().split_whitespace().collect();
    let words: Vec<&str> = line("compression.threshold ");
    assert_eq!(words, ["compression.threshold", "0.6", "longhaul.yaml:2:14"]);
    let words: Vec<&str> = line("compression.protect_last_n ");
    assert_eq!(words, ["compression.protect_last_n", "7", "LONGHAUL_COMPRESSION__PROTECT_LAST_N"]);

    let programs = longhaul(&folder, &["config", "--json", "--config", "other.yaml"], &environment).json("config.json");
    let origin = json!({"kind": "file", "file": "other.yaml", "line": 2, "column": 14});
    assert_eq!(
        value(&programs, "compression.threshold"),
        &json!({"key": "compression.threshold", "value": 0.7, "origin": origin, "has_effect": true})
    );
    assert_eq!(
        value(&programs, "compression.enabled"),
        &json!({"key": "compression.enabled", "value": true, "origin": {"kind": "default"}, "has_effect": true})
    );
    let words: Vec<&str> = line("store.path ");
    assert_eq!(words, ["store.path", "null", "default"]);
    let words: Vec<&str> = line("compression.system_note ");
    assert_eq!(words, ["compression.system_note", "false", "default", "no", "effect", "yet"]);
}

#[test]
fn config_says_older_spellings_and_strange_values_on_standard_error() {
    let folder = Folder::new("notes");
    folder.file("own.yaml", "model: { cache_ttl: 1h }\ncompression: { threshold: 0.1 }\n");
    let run = longhaul(&folder, &["config"], &[]);
    assert_eq!(run.code, 0);
    let said: Vec<&str> = run.err.lines().collect();
    assert_eq!(said.len(), 2);
    assert!(said[0].contains("own.yaml:1:21: 'model.cache_ttl' is the old name"), "{}", run.err);
    assert!(said[1].contains("own.yaml:2:27: warning: compression.threshold: 0.1"), "{}", run.err);
    let programs = longhaul(&folder, &["config", "--json"], &[]).json("config.json");
    assert_eq!((programs["notes"].as_array().unwrap().len(), programs["warnings"].as_array().unwrap().len()), (1, 1));
}

#[test]
fn config_reads_standard_input_and_writes_to_a_file() {
    let folder = Folder::new("stdin");
    let arguments = ["config", "--config", "-", "--json", "-o", "out.json"];
    let run = longhaul_reading(&folder, &arguments, &[], b"\xef\xbb\xbfstore: { path: here }\n");
    assert_eq!((run.code, run.out.as_str(), run.err.as_str()), (0, "", ""));
    let written: Value = serde_json::from_str(&std::fs::read_to_string(folder.0.join("out.json")).unwrap()).unwrap();
    assert_eq!(value(&written, "store.path")["origin"]["file"], "standard input");
}

#[test]
fn explain_gives_every_number_with_its_reason() {
    let folder = Folder::new("explain");
    let answer =
        longhaul(&folder, &["explain", "--model", "anthropic/claude-opus-4.5", "--json"], &[]).json("explain.json");
    assert_eq!(answer["model"]["row"], "claude-opus-4-5");
    let numbers = [("window", 200_000), ("threshold", 100_000), ("tail", 20_000), ("checkpoint_most", 10_000)];
    for (name, value) in numbers {
        assert_eq!(number(&answer, name)["value"], value);
        assert_eq!(number(&answer, name)["assumed"], false);
    }
    let people = longhaul(&folder, &["explain", "--model", "claude-opus-4-5"], &[]);
    assert!(people.out.contains("20,000") && people.out.contains("threshold × 0.2"), "{}", people.out);
}

#[test]
fn explain_takes_flags_and_says_what_was_typed_where() {
    let folder = Folder::new("flags");
    folder.file("longhaul.yaml", "models:\n  gpt-5: { threshold: 0.7 }\ncompression: { target_ratio: 0.4 }\n");
    let arguments = ["explain", "--model", "gpt-5-mini", "--context-length", "4000", "--threshold", "0.5", "--json"];
    let answer = longhaul(&folder, &arguments, &[]).json("explain.json");
    assert_eq!(number(&answer, "window")["value"], 4_000);
    assert_eq!(number(&answer, "window")["from"], json!(["--context-length"]));
    assert_eq!(number(&answer, "threshold")["value"], 2_000);
    assert_eq!(number(&answer, "threshold")["from"], json!(["--threshold"]));
    assert_eq!(number(&answer, "tail")["value"], 800);
    assert_eq!(number(&answer, "tail")["from"], json!(["longhaul.yaml:3:30"]));
}

#[test]
fn explain_calls_what_is_assumed_assumed() {
    let folder = Folder::new("assumed");
    let answer = longhaul(&folder, &["explain", "--model", "my-own-model", "--json"], &[]).json("explain.json");
    assert_eq!(answer["model"]["row"], Value::Null);
    assert_eq!(number(&answer, "window")["assumed"], true);
    let people = longhaul(&folder, &["explain"], &[]);
    assert_eq!(people.code, 0);
    assert!(people.out.contains("every fact is assumed"), "{}", people.out);
}

#[test]
fn a_wrong_call_is_one_line_and_exit_code_2() {
    let folder = Folder::new("wrong");
    folder.file("slip.yaml", "store: {}\ncontext: {}\n\n\n\n\ncompresion: {}\n");
    folder.file("gzip.yaml", [0x1f, 0x8b, 8, 0]);
    folder.file("latin.yaml", b"store: { path: caf\xe9 }\n");
    let cases: [(&[&str], &str); 12] = [
        (&["config", "--config", "slip.yaml"], "slip.yaml:7:1: unknown key 'compresion', did you mean 'compression'?"),
        (&["config", "--config", "none.yaml"], "none.yaml does not exist; check the path"),
        (&["config", "--config", "."], ". is a directory; name a file in it"),
        (&["config", "--config", "gzip.yaml"], "gzip.yaml is gzip-compressed; unpack it first"),
        (&["config", "--config", "latin.yaml"], "latin.yaml is not UTF-8 (byte 18); convert it first"),
        (&["config", "-o", "no/such/folder"], "the directory of no/such/folder does not exist; create it first"),
        (&["explain", "--threshold", "2"], "--threshold: 2 must be over 0 and at most 1"),
        (
            &["explain", "--model", "m", "--context-length", "10"],
            "--context-length: a window of 10 tokens is too small; the smallest is 4000",
        ),
        (&["explain", "--threshold", "x"], "invalid value 'x' for '--threshold <F>': expected a share as 0.5 or 50%"),
        (&["confg"], "unrecognized subcommand 'confg'; tip: a similar subcommand exists: 'config'; see --help"),
        (&["completions", "tcsh"], "invalid value 'tcsh' for '<SHELL>'"),
        (&[], "no command; longhaul --help lists them"),
    ];
    for (arguments, said) in cases {
        let run = longhaul(&folder, arguments, &[]);
        assert!(run.refused().starts_with(said), "{arguments:?}: {}", run.err);
    }
    let run = longhaul(&folder, &["config"], &[("LONGHAUL_STORE__PTAH", "x")]);
    assert_eq!(run.refused(), "LONGHAUL_STORE__PTAH: unknown key 'store.ptah', did you mean 'path'?");
}

#[test]
fn every_command_has_help_with_an_example() {
    let folder = Folder::new("help");
    let help = longhaul(&folder, &["--help"], &[]);
    assert_eq!((help.code, help.err.as_str()), (0, ""));
    let commands = help.out.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let names: Vec<&str> =
        commands.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help").collect();
    assert!(names.len() >= 3, "{}", help.out);
    for name in names {
        let help = longhaul(&folder, &[name, "--help"], &[]);
        assert!(help.code == 0 && help.out.contains("Example:\n  "), "{name}: {}", help.out);
    }
}

#[test]
fn completions_are_printed_for_each_shell() {
    let folder = Folder::new("completions");
    for shell in ["bash", "zsh", "fish"] {
        let run = longhaul(&folder, &["completions", shell], &[]);
        assert!(run.code == 0 && run.out.contains("explain"), "{shell}");
    }
}

/// A reader that closes early, as `head` does, gets no complaint.
#[cfg(unix)]
#[test]
fn a_closed_pipe_is_quiet() {
    let folder = Folder::new("pipe");
    for arguments in [&["config"][..], &["--help"], &["completions", "bash"], &["explain", "--json"]] {
        let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_longhaul"))
            .args(arguments)
            .current_dir(&folder.0)
            .env_clear()
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), output.stderr), (Some(0), Vec::new()), "{arguments:?}");
    }
}

#[test]
fn the_schema_check_can_say_no() {
    let schema = json!({"type": "object", "required": ["a"], "properties": {"a": {"enum": [1]}, "b": {"items": {"type": "string"}}},
        "additionalProperties": false});
    assert!(validate(&schema, &json!({"a": 1, "b": ["x"]}), "").is_ok());
    for bad in [json!([]), json!({}), json!({"a": 2}), json!({"a": 1, "c": 1}), json!({"a": 1, "b": [1]})] {
        assert!(validate(&schema, &bad, "").is_err(), "{bad}");
    }
    assert!(validate(&json!({"format": "date"}), &json!(1), "").is_err());
}

#[test]
fn a_configuration_is_found_where_it_is() {
    let folder = Folder::new("found");
    let below = folder.0.join("project/src");
    std::fs::create_dir_all(&below).unwrap();
    std::fs::create_dir_all(folder.0.join("home/.config/longhaul")).unwrap();
    let home = folder.0.join("home");
    let home = [("HOME", home.to_str().unwrap())];
    let source = Folder(below);
    let threshold = |arguments: &[&str], environment: &[(&str, &str)]| {
        let run = longhaul(&source, &[&["config", "--json"], arguments].concat(), environment);
        let answer = run.json("config.json");
        (value(&answer, "compression.threshold")["value"].clone(), answer["found"].clone())
    };
    let text = |threshold: &str| format!("compression: {{ threshold: {threshold} }}\n");
    assert_eq!(threshold(&[], &home), (json!(0.5), Value::Null));
    folder.file("home/.config/longhaul/longhaul.yaml", text("0.61"));
    assert_eq!(threshold(&[], &home), (json!(0.61), json!("user")));
    folder.file("project/longhaul.yaml", text("0.62"));
    assert_eq!(threshold(&[], &home), (json!(0.62), json!("above")));
    source.file("longhaul.yaml", text("0.63"));
    assert_eq!(threshold(&[], &home), (json!(0.63), json!("folder")));
    let named = folder.file("named.yaml", text("0.64"));
    let variable = [home[0], ("LONGHAUL_CONFIG", named.to_str().unwrap())];
    assert_eq!(threshold(&[], &variable), (json!(0.64), json!("variable")));
    assert_eq!(threshold(&["--config", "longhaul.yaml"], &variable), (json!(0.63), json!("option")));
    let people = longhaul(&source, &["config"], &variable);
    assert!(people.out.starts_with("configuration: ") && people.out.contains("named by LONGHAUL_CONFIG"));
    let missing = longhaul(&source, &["config"], &[("LONGHAUL_CONFIG", "missing.yaml")]);
    assert_eq!(missing.refused(), "missing.yaml does not exist; check the path");
}

#[test]
fn init_writes_a_configuration_that_changes_nothing_and_overwrites_none() {
    let folder = Folder::new("init");
    let home = folder.0.join("home");
    let home = [("HOME", home.to_str().unwrap())];
    let values = || {
        let answer = longhaul(&folder, &["config", "--json"], &home).json("config.json");
        let rows = answer["values"].as_array().unwrap().clone();
        let mut pairs: Vec<(String, Value)> =
            rows.iter().map(|row| (row["key"].to_string(), row["value"].clone())).collect();
        pairs.sort_by(|a, b| a.0.cmp(&b.0));
        pairs
    };
    let defaults = values();
    let run = longhaul(&folder, &["init"], &home);
    assert_eq!((run.code, run.out.as_str()), (0, ""), "{}", run.err);
    assert!(run.err.contains("trusted with this content; after an edit: longhaul trust longhaul.yaml"), "{}", run.err);
    assert_eq!(values(), defaults);
    let text = std::fs::read_to_string(folder.0.join("longhaul.yaml")).unwrap();
    assert!(text.contains("threshold: 0.50") && text.contains('#'));
    folder.file("longhaul.yaml", "compression: { threshold: 0.7 }\n");
    assert!(longhaul(&folder, &["init"], &[]).refused().contains("longhaul.yaml already exists"));
    assert!(std::fs::read_to_string(folder.0.join("longhaul.yaml")).unwrap().contains("0.7"));
    let home = [("XDG_CONFIG_HOME", folder.0.to_str().unwrap())];
    assert_eq!(longhaul(&folder, &["init", "--user"], &home).code, 0);
    assert!(folder.0.join("longhaul/longhaul.yaml").exists());
    longhaul(&folder, &["init", "--user"], &[]).refused();
    longhaul(&folder, &["init", "no/such/folder.yaml"], &[]).refused();
}

#[test]
fn engines_are_listed_with_the_one_in_force() {
    let folder = Folder::new("engines");
    let environment = [("LONGHAUL_CONTEXT__ENGINE", "sacred-zone")];
    let engines = longhaul(&folder, &["engines", "--json"], &environment).json("engines.json");
    let in_force = |name: &str| {
        let row = engines.as_array().unwrap().iter().find(|row| row["name"] == name).unwrap();
        row["in_force"].as_bool().unwrap()
    };
    assert!(in_force("sacred-zone") && !in_force("compressor"));
    let people = longhaul(&folder, &["engines"], &[]);
    assert!(people.out.contains("compressor") && people.out.contains("active"), "{}", people.out);
}

#[test]
fn the_manual_has_a_page_for_each_command() {
    let folder = Folder::new("man");
    let whole = longhaul(&folder, &["man"], &[]);
    assert!(whole.code == 0 && whole.out.contains(".TH longhaul 1"), "{}", whole.out);
    let one = longhaul(&folder, &["man", "compress"], &[]);
    assert!(one.out.contains(".TH longhaul-compress 1") && one.out.contains("to\\-tokens"), "{}", one.out);
    assert!(longhaul(&folder, &["man", "compres"], &[]).refused().contains("compress"));
    assert_eq!(longhaul(&folder, &["man", "--out-dir", "man1"], &[]).code, 0);
    let pages: Vec<_> = std::fs::read_dir(folder.0.join("man1")).unwrap().collect();
    assert!(pages.len() >= 13 && folder.0.join("man1/longhaul-cost.1").exists());
    // A command that has commands of its own has a page for each.
    assert!(folder.0.join("man1/longhaul-keys-add.1").exists());
    let add = longhaul(&folder, &["man", "keys-add"], &[]).out;
    assert!(add.contains(".TH longhaul-keys-add 1") && add.contains("tokens\\-per\\-day"), "{add}");
}

#[test]
fn defaults_in_the_help_are_those_in_force() {
    let folder = Folder::new("defaults");
    let help = longhaul(&folder, &["compress", "--help"], &[]).out;
    let words: String = help.split_whitespace().collect::<Vec<_>>().join(" ");
    let config = longhaul(&folder, &["config", "--json"], &[]).json("config.json");
    for (option, key) in [
        ("--threshold", "compression.threshold"),
        ("--target-ratio", "compression.target_ratio"),
        ("--protect-first", "compression.protect_first_n"),
        ("--protect-last", "compression.protect_last_n"),
        ("--engine", "context.engine"),
    ] {
        let about = &words[words.find(&format!("{option} <")).unwrap()..];
        let value = value(&config, key)["value"].to_string().replace('"', "");
        let told = &about[about.find("[default: ").unwrap() + 10..];
        assert!(told.starts_with(&format!("{value}]")), "{option}: {about}");
    }
    assert!(words.contains("compressor, sacred-zone"), "{help}");
    for word in ["warm", " cold", "read anew", " marks", " unit ", "the world failed"] {
        assert!(!words.contains(word), "{word}: {help}");
    }
}
