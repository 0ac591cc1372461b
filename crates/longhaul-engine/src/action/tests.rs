use super::*;
use crate::ApiFormat;
use crate::wire;
use serde_json::json;

fn describe_script(command: &str) -> Vec<String> {
    let script = shell_script::analyze_script(command);
    let touches = script.touched.iter().map(|touch| format!("{:?} {}", touch.operation, touch.path));
    let shows = script.shown_file.iter().map(|(path, lines)| match lines {
        Some((from, usize::MAX)) => format!("shows {path} {from}-"),
        Some((from, to)) => format!("shows {path} {from}-{to}"),
        None => format!("shows {path}"),
    });
    touches.chain(shows).collect()
}

#[test]
fn scripts_name_their_files() {
    for (command, expected) in [
        ("cat a.rs", &["Read a.rs", "shows a.rs"][..]),
        ("cat ./a.rs b.rs", &["Read a.rs", "Read b.rs"]),
        ("cd /app && cat src/a.rs", &["Read /app/src/a.rs", "shows /app/src/a.rs"]),
        ("cd sub; head -n 20 a", &["Read sub/a", "shows sub/a 1-20"]),
        ("head -50 a", &["Read a", "shows a 1-50"]),
        ("head a", &["Read a", "shows a 1-10"]),
        ("head -c 100 a", &["Read a"]),
        ("tail -n 20 a.log", &["Read a.log"]),
        ("sed -n '10,40p' src/a.rs", &["Read src/a.rs", "shows src/a.rs 10-40"]),
        ("sed -n 10,\\$p a", &["Read a", "shows a 10-"]),
        ("nl -ba src/a.rs | sed -n '1,80p'", &["Read src/a.rs", "shows src/a.rs 1-80"]),
        ("cat a | grep x", &["Read a"]),
        ("cat a && cat b", &["Read a", "Read b"]),
        ("cat *.rs $HOME/x", &[]),
        ("sed -i 's/a/b/' src/a.rs src/b.rs", &["Edited src/a.rs", "Edited src/b.rs"]),
        ("sed -i -e 's/a/b/' a", &["Edited a"]),
        ("echo hi > out.txt", &["Created out.txt"]),
        ("make 2>&1 | tee -a log.txt >/dev/null", &["Edited log.txt"]),
        ("make >> log 2> err", &["Edited log"]),
        ("cat > a.py <<'EOF'\nrm -rf b\nEOF\nrm c", &["Created a.py", "Deleted c"]),
        ("cat <<EOF | tee a.py\nx > y\nEOF\nrm c", &["Created a.py", "Deleted c"]),
        ("mv a b", &["Deleted a", "Created b"]),
        ("cp src/a lib/", &["Read src/a", "Created lib/a"]),
        ("git checkout -- src/a.rs", &["Restored src/a.rs"]),
        ("git checkout main", &[]),
        ("git restore a", &["Restored a"]),
        ("rm -f 'a b' c", &["Deleted a b", "Deleted c"]),
        ("sudo FOO=1 rm c # rm d", &["Deleted c"]),
        (
            "apply_patch <<'EOF'\n*** Begin Patch\n*** Update File: a.rs\n@@\n*** Add File: b.rs\n+x\n*** End Patch\nEOF",
            &["Edited a.rs", "Created b.rs"],
        ),
        ("git apply <<'X'\n--- a/src/a.rs\n+++ b/src/a.rs\nX\n", &["Edited src/a.rs"]),
        ("python run.py > \"", &[]),
        ("echo \"$(cat a)\" '", &[]),
    ] {
        assert_eq!(describe_script(command), expected, "{command}");
    }
}

/// Returns the action of one call with its result, in a Chat Completions request.
fn parse_action(tool: &str, arguments: &str, result: &str) -> Action {
    let call = json!({"id": "c", "type": "function", "function": {"name": tool, "arguments": arguments}});
    let body = json!({"messages": [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": null, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": result},
    ]})
    .to_string();
    let (transcript, _) = wire::parse(Some(ApiFormat::Chat), &body).unwrap();
    (*Actions::from_transcript(&transcript).in_turn(1)[0]).clone()
}

#[test]
fn calls_are_read_by_tool_arguments_and_result() {
    use Outcome::{Failed, Succeeded, Unknown};
    for (tool, arguments, result, verb, target, outcome) in [
        ("bash", r#"{"command":"make\n all"}"#, "done", Verb::Run, Some("make all"), Unknown),
        ("bash", r#"{"command":"make"}"#, "ok\nExit code: 0", Verb::Run, Some("make"), Succeeded),
        ("bash", r#"{"command":"make"}"#, "x\nExit code: 2", Verb::Run, Some("make"), Failed),
        ("Read", r#"{"file_path":"a.rs"}"#, "fn main() {}", Verb::Read, Some("a.rs"), Succeeded),
        ("Read", r#"{"file_path":"a.rs"}"#, "Error: no such file", Verb::Read, Some("a.rs"), Failed),
        ("Edit", r#"{"file_path":"a.rs"}"#, "The file a.rs has been updated.", Verb::Edit, Some("a.rs"), Succeeded),
        ("Edit", r#"{"file_path":"a.rs"}"#, "String to replace not found", Verb::Edit, Some("a.rs"), Failed),
        ("apply_patch", "*** Begin Patch\n*** Delete File: b.rs", "Success.", Verb::Edit, Some("b.rs"), Succeeded),
        ("grep", r#"{"pattern":"x","path":"src"}"#, "src/a:1:x", Verb::Search, Some("x"), Succeeded),
        ("delete_file", r#"{"path":"a.rs"}"#, "gone", Verb::Edit, Some("a.rs"), Unknown),
        ("get_order", r#"{"id":7}"#, "shipped", Verb::Other, Some("id=7"), Unknown),
        ("bash", "not json", "", Verb::Run, None, Unknown),
        (
            "bash",
            r#"{"command":"make"}"#,
            "[bash] ran `make` → exit 2, failed, 9 lines",
            Verb::Run,
            Some("make"),
            Failed,
        ),
        ("Read", r#"{"path":"a"}"#, "[Read] a from line 1 (3,400 chars)", Verb::Read, Some("a"), Succeeded),
        ("Read", r#"{"path":"a"}"#, "[Read] a from line 1 (3,400 chars) → failed", Verb::Read, Some("a"), Failed),
    ] {
        let action = parse_action(tool, arguments, result);
        assert_eq!(
            (action.verb, action.target.as_deref(), action.outcome),
            (verb, target, outcome),
            "{tool} {arguments} {result}"
        );
    }
}

#[test]
fn a_long_run_is_judged_by_its_end_and_all_its_test_summaries_count() {
    let summary = "test result: ok. 5 passed; 0 failed; 0 ignored\n";
    let text = format!("{summary}{}{summary}", "test a ... ok\n".repeat(2_000));
    let action = parse_action("bash", r#"{"command":"cargo test"}"#, &text);
    assert_eq!(action.test_counts, Some(TestCounts { passed: 10, failed: 0 }));
    assert_eq!(action.outcome, Outcome::Succeeded);
}

#[test]
fn a_call_that_is_only_words_has_a_target_and_an_outcome() {
    let body = json!({"messages": [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": "I look.\nAction: bash[ls]"},
        {"role": "user", "content": "Observation: bash: ls: not found\nexit code: 127"},
        {"role": "assistant", "content": "Hm."},
    ]})
    .to_string();
    let (transcript, _) = wire::parse(Some(ApiFormat::Chat), &body).unwrap();
    let actions = Actions::from_transcript(&transcript);
    let (_, _, action) = actions.all().next().unwrap();
    assert_eq!((action.verb, action.target.as_deref(), action.exit_status), (Verb::Run, Some("ls"), Some(127)));
    assert_eq!(action.outcome, Outcome::Failed);
}

#[test]
fn a_call_without_a_result_is_unanswered() {
    let call = json!({"id": "c", "type": "function", "function": {"name": "bash", "arguments": "{}"}});
    let body = json!({"messages": [{"role": "assistant", "tool_calls": [call]}]}).to_string();
    let (transcript, _) = wire::parse(Some(ApiFormat::Chat), &body).unwrap();
    assert_eq!(Actions::from_transcript(&transcript).in_turn(0)[0].outcome, Outcome::Unanswered);
}
