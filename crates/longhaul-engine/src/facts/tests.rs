use super::*;

fn fact_texts(text: &str, kind: FactKind) -> Vec<String> {
    Facts::scan(text).of_kind(kind).map(|fact| fact.text.to_string()).collect()
}

#[test]
fn exit_statuses_in_their_usual_spellings() {
    for (text, status) in [
        ("Exit code: 1", 1),
        ("[The command completed with exit code 137.]", 137),
        ("Process exited with code 0", 0),
        ("exit status 2", 2),
        ("{\"output\":\"x\",\"metadata\":{\"exit_code\":-1}}", -1),
        ("<returncode>3</returncode>", 3),
    ] {
        assert_eq!(Facts::scan(text).exit_status, Some(status), "{text}");
    }
    assert_eq!(Facts::scan("if x; then exit 1; fi").exit_status, None, "a line of a script is no status");
}

#[test]
fn totals_are_numbers_with_their_noun() {
    assert_eq!(
        fact_texts("== 3 failed, 1,045 passed, 2 warnings in 3.2s ==", FactKind::Total),
        ["3 failed", "1,045 passed", "2 warnings"]
    );
    assert_eq!(
        fact_texts(" 2 files changed, 10 insertions(+), 1 deletion(-)", FactKind::Total),
        ["2 files changed", "10 insertions", "1 deletion"]
    );
    assert_eq!(fact_texts("  60 passing (12ms)\n  1 failing\n", FactKind::Total), ["60 passing", "1 failing"]);
    assert_eq!(fact_texts("(12 rows)\nx2 rows\n5 tested", FactKind::Total), ["12 rows"]);
}

#[test]
fn errors_that_differ_in_digits_are_one() {
    let facts = Facts::scan(
        "ERROR at 12:00 disk 1\nok\nERROR at 12:01 disk 2\nwarning: low\nTypeError: x is not a function\nterror here\n",
    );
    let errors: Vec<_> = facts.of_kind(FactKind::Error).map(|fact| (fact.text.as_ref(), fact.count)).collect();
    assert_eq!(errors, [("ERROR at 12:00 disk 1", 2), ("TypeError: x is not a function", 1)]);
    assert_eq!((facts.error_lines, facts.warning_lines, facts.lines, facts.blank_lines), (3, 1, 6, 0));
}

#[test]
fn none_of_something_is_no_error() {
    for line in ["0 failed", "ok. 9 passed; 0 failed", "Failures: 0, Errors: 0", "ok=2 failed=0 unreachable=0"] {
        assert_eq!(Facts::scan(line).error_lines, 0, "{line}");
    }
    for line in ["10 failed", "Failures: 0, Errors: 01", "error: 0.5 is too small", "failed=2", "error: 0x1f"] {
        assert_eq!(Facts::scan(line).error_lines, 1, "{line}");
    }
}

#[test]
fn failing_tests_of_the_common_runners() {
    for (line, name) in [
        ("FAILED tests/test_a.py::test_x - assert 1 == 2", "tests/test_a.py::test_x"),
        ("ERROR tests/test_a.py::test_y", "tests/test_a.py::test_y"),
        ("tests/test_a.py::test_z FAILED", "tests/test_a.py::test_z"),
        ("test shell::tests::detects ... FAILED", "shell::tests::detects"),
        (" FAIL  src/a.test.ts > adds numbers", "src/a.test.ts > adds numbers"),
        ("   × adds numbers", "adds numbers"),
        ("  ● sums › adds numbers", "sums › adds numbers"),
        ("\u{1b}[31m   ✗ adds numbers\u{1b}[39m", "adds numbers"),
        ("--- FAIL: TestAdd (0.00s)", "TestAdd"),
        ("not ok 3 - adds numbers", "adds numbers"),
        ("ERROR: test_media (forms.MediaTest)", "test_media (forms.MediaTest)"),
        ("test_media (forms.MediaTest) ... FAIL", "test_media (forms.MediaTest)"),
        ("com.acme.SumTest > addsNumbers FAILED", "com.acme.SumTest > addsNumbers"),
    ] {
        assert_eq!(fact_texts(line, FactKind::FailingTest), [name], "{line}");
    }
    assert_eq!(
        fact_texts("--- FAIL: Case1\n--- FAIL: Case2\n--- FAIL: Case1\n", FactKind::FailingTest),
        ["Case1", "Case2"]
    );
    for line in [
        "FAILED (errors=1)",
        "> Task :compile FAILED",
        "test a ... ok",
        "not ok 3 - later # TODO",
        "FAIL\texample.com/beds\t0.412s",
    ] {
        assert!(fact_texts(line, FactKind::FailingTest).is_empty(), "{line}");
    }
}

#[test]
fn a_trace_gives_its_innermost_frame() {
    let python = "Traceback (most recent call last):\n  File \"a.py\", line 1, in <module>\n    f()\n  File \"b.py\", line 2, in f\n    g()\nKeyError: 'x'\n";
    assert_eq!(fact_texts(python, FactKind::StackFrame), ["File \"b.py\", line 2, in f"]);
    let node = "TypeError: x is undefined\n    at run (/app/a.js:3:4)\n    at main (/app/b.js:1:1)\n";
    assert_eq!(fact_texts(node, FactKind::StackFrame), ["at run (/app/a.js:3:4)"]);
    let rust = "thread 'main' panicked at src/main.rs:2:5:\nindex out of bounds\n";
    assert_eq!(fact_texts(rust, FactKind::Error).len(), 2);
}

#[test]
fn names_and_lengths() {
    assert_eq!(fact_texts("[{\"id\":1,\"name\":\"a\"},{\"id\":2}]", FactKind::Key), ["id", "name"]);
    assert_eq!(fact_texts("[1,2,3]", FactKind::ListLength), ["3"]);
    let table = format!("id,name,\"size\"\n{}", "1,a,2\n".repeat(20));
    assert_eq!(fact_texts(&table, FactKind::Column), ["id", "name", "size"]);
}

#[test]
fn facts_are_kept_by_their_first_sixty_characters() {
    let long = format!("error: {}", "x".repeat(90));
    let text = format!("{long}\n{}", "line\n".repeat(1233));
    let facts = Facts::scan(&text);
    assert_eq!(facts.all.len(), 2);
    assert_eq!(facts.count_kept_in(&format!("1,234 lines\n{}…", &long[..60])), 2);
    assert_eq!(facts.count_kept_in("nothing"), 0);
}
