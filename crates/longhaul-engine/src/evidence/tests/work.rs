//! What calls and their results show: problems, files, the state of the work.

use serde_json::json;

use super::Turn::{Assistant, Call, User};
use super::{evidence, run};

#[test]
fn problems_end_when_the_same_goes_well() {
    let fail = "error[E0432]: unresolved import `foo`\nerror: could not compile";
    let found = evidence(&[
        User("Fix the build."),
        Call("bash", run("cargo build"), fail),
        Call(
            "edit_file",
            json!({"path": "src/a.rs", "old": "x", "new": "y"}),
            "Error: could not find the text in src/a.rs",
        ),
        Call("edit_file", json!({"path": "src/a.rs", "old": "z", "new": "y"}), "ok"),
        Call(
            "bash",
            run("cargo test 2>&1 | tail -5"),
            "test tests::parses_empty ... FAILED\ntest result: FAILED. 3 passed; 1 failed",
        ),
        Call("bash", run("cd . && cargo build"), "Finished `dev` profile\nexit code: 0"),
    ]);
    let shown: Vec<_> = found
        .problems
        .iter()
        .map(|problem| (problem.unit, problem.text.lines().next().unwrap_or(""), problem.resolved))
        .collect();
    assert_eq!(
        shown,
        [
            (1, "error[E0432]: unresolved import `foo`", Some(5)),
            (2, "Error: could not find the text in src/a.rs", Some(3)),
            (4, "test result: FAILED. 3 passed; 1 failed", None),
        ]
    );
    assert_eq!(found.state.tests.map(|tests| (tests.passed, tests.failed)), Some((3, 1)));
    let quiet = evidence(&[
        User("Find it."),
        Call("bash", run("grep -n foo a.rs"), "(no output)\nCommand exited with code 1"),
    ]);
    assert!(quiet.problems.is_empty());
}

#[test]
fn a_narrower_or_other_test_run_resolves_nothing() {
    let failed = || {
        Call(
            "bash",
            run("pytest tests/test_a.py"),
            "FAILED tests/test_a.py::test_x - assert 1 == 2\n1 failed, 2 passed in 0.10s",
        )
    };
    for (command, resolved) in [
        ("pytest", Some(2)),
        ("pytest tests/test_a.py", Some(2)),
        ("pytest tests/test_b.py", None),
        ("python other.py", None),
    ] {
        let found = evidence(&[User("Fix it."), failed(), Call("bash", run(command), "9 passed in 0.20s")]);
        assert_eq!(found.problems[0].resolved, resolved, "{command}");
    }
}

#[test]
fn an_error_without_spaces_is_an_error() {
    let failed = "失败：无法连接到数据库「订单库」\nexit code: 1";
    let found = evidence(&[User("跑测试。"), Call("bash", run("pytest"), failed)]);
    assert_eq!(found.problems[0].text, "失败：无法连接到数据库「订单库」");
}

#[test]
fn a_heading_is_not_the_error_below_it() {
    let failed = "test a ... ok\ntest b ... FAILED\n\nfailures:\n\n---- b stdout ----\n\
                  thread 'b' panicked at src/b.rs:8:5:\nassertion `left == right` failed\n\n\
                  test result: FAILED. 1 passed; 1 failed; 0 ignored\nexit code: 101";
    let found = evidence(&[User("Run the tests."), Call("bash", run("cargo test"), failed)]);
    assert!(found.problems[0].text.contains("panicked at src/b.rs:8:5"), "{:?}", found.problems);
}

#[test]
fn files_are_told_by_what_was_done_to_them() {
    let found = evidence(&[
        User("Look at src/a.rs."),
        Call("bash", run("cd /repo && cat src/a.rs"), "fn main() {}"),
        Call("write_file", json!({"path": "/repo/src/b.rs", "content": "x"}), "ok"),
        Call("edit_file", json!({"path": "/repo/src/a.rs", "old": "x", "new": "y"}), "ok"),
        Call("edit_file", json!({"path": "/repo/src/c.rs", "old": "x", "new": "y"}), "Error: no such file"),
        Assistant("I changed src/a.rs and b.rs."),
    ]);
    let shown: Vec<_> =
        found.files.iter().map(|file| (file.path.as_str(), file.touched.len(), file.uses.times)).collect();
    assert_eq!(shown, [("/repo/src/b.rs", 1, 1), ("/repo/src/a.rs", 2, 2)]);
    assert_eq!(found.state.directory.as_deref(), Some("/repo"));
}

#[test]
fn the_state_is_the_newest_that_was_seen() {
    let found = evidence(&[
        User("Start it."),
        Call("bash", run("cd /app && git status"), "On branch main\nnothing to commit"),
        Call("bash", run("git checkout -b fix/login"), "Switched to a new branch 'fix/login'"),
        Call("bash", run("cd web"), ""),
        Call("bash", run("cd ../docs && npm run dev &"), "[1] 4242"),
        Call("bash", run("python3 --version"), "Python 3.11.4"),
        Call("bash", run("export API_KEY=abc123 && export NODE_ENV=test"), ""),
        Call("bash", run("python -m http.server 8000 &"), ""),
        Call("bash", run("pkill -f http.server"), ""),
    ]);
    let state = &found.state;
    assert_eq!((state.directory.as_deref(), state.branch.as_deref()), (Some("/app/web"), Some("fix/login")));
    assert_eq!(state.processes, ["cd ../docs && npm run dev &"]);
    assert_eq!(state.environment, ["Python 3.11.4", "API_KEY=(set)", "NODE_ENV=test"]);
}

#[test]
fn only_what_goes_on_behind_the_shell_is_running() {
    let running = |command| {
        let found = evidence(&[User("Start it."), Call("bash", run(command), "<returncode>0</returncode>")]);
        (found.state.processes.len(), found.state.environment)
    };
    for command in [
        "git commit -m 'search & replace'",
        "grep \"a & b\" notes.txt",
        "make && sleep 2",
        "make > log 2>&1",
        "make &> log",
        "cat > a.py <<'EOF'\nx = a & b\nEOF",
        "server & sleep 1; kill $!",
        "a & b & wait",
        "cd /src && python --version",
    ] {
        assert_eq!(running(command), (0, vec![]), "{command}");
    }
    for command in [
        "npm run dev &",
        "server 2>&1 & sleep 2; curl localhost",
        "nohup server > log",
        "docker compose up -d",
    ] {
        assert_eq!(running(command).0, 1, "{command}");
    }
}
