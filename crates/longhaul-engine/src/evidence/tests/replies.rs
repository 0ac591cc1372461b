//! What replies say: answers, decisions, and where the work stands.

use serde_json::json;

use super::Turn::{Assistant, Call, Saying, User};
use super::{evidence, run};
use crate::evidence::{Ask, Asker, RequestState, SaidKind};

#[test]
fn questions_have_their_answers() {
    let found = evidence(&[
        User("Why does the build fail on Windows?"),
        Saying("Let me check.", "bash", run("cat build.rs"), "fn main() {}"),
        Assistant(
            "It fails because the path has a colon in it. The script splits on colons.\n\n```rust\nsplit(':')\n```",
        ),
        User("Which port does it use? Also, can you add a log line?"),
        Assistant("Should the line go to stderr?"),
        User("Yes, to stderr."),
        Assistant("Do you also want a timestamp?"),
    ]);
    let shown: Vec<_> = found
        .questions
        .iter()
        .map(|question| (question.by, question.text.as_str(), question.answer.as_deref()))
        .collect();
    assert_eq!(
        shown,
        [
            (
                Asker::User,
                "Why does the build fail on Windows?",
                Some("It fails because the path has a colon in it. The script splits on colons.")
            ),
            (Asker::User, "Which port does it use?", None),
            (Asker::Assistant, "Should the line go to stderr?", Some("Yes, to stderr.")),
            (Asker::Assistant, "Do you also want a timestamp?", None),
        ]
    );
}

#[test]
fn an_answer_is_no_deed_and_prose_is_no_answer() {
    let found = evidence(&[
        User("Build the report. Which database does it read from?"),
        Call("bash", run("cat settings.toml"), "database = \"reports_2026\""),
        Assistant("It reads from reports_2026."),
        User("Should the totals include taxes? Build on what Ana says."),
        Saying("The river is wide.", "bash", run("sleep 1"), "leaf"),
        User("Continue."),
    ]);
    let answers: Vec<_> = found.questions.iter().map(|question| question.answer.as_deref()).collect();
    assert_eq!(answers, [Some("It reads from reports_2026."), None]);
    let requests: Vec<_> = found.requests.iter().map(|request| (request.ask, request.state)).collect();
    assert_eq!(requests, [(Ask::Both, RequestState::Open), (Ask::Both, RequestState::Open)]);
    assert!(found.closings.is_empty());
}

#[test]
fn decisions_come_with_their_reasons() {
    let found = evidence(&[
        User("Make it fast."),
        Assistant(
            "I chose a B-tree instead of a hash map because the order of keys matters here. The issue is that the lock is held \
             while the file is read. Let me look. The issue is still there. I could go on.",
        ),
    ]);
    let shown: Vec<_> =
        found.decisions.iter().map(|decision| (decision.text.as_str(), decision.reason.as_deref())).collect();
    assert_eq!(
        shown,
        [
            (
                "I chose a B-tree instead of a hash map because the order of keys matters here.",
                Some("the order of keys matters here")
            ),
            ("The issue is that the lock is held while the file is read.", None),
        ]
    );
}

#[test]
fn guesses_are_no_findings_and_what_is_said_again_is_told_once() {
    let found = evidence(&[
        User("Why is it slow?"),
        Saying("Maybe the issue is in the cache that is shared by all of them.", "bash", run("ls"), "a"),
        Saying("The problem is that the lock is held while a file is read.", "bash", run("ls"), "a"),
        Assistant("The problem is that the lock is held while a file is read from disk."),
    ]);
    let shown: Vec<_> = found.decisions.iter().map(|decision| decision.text.as_str()).collect();
    assert_eq!(shown, ["The problem is that the lock is held while a file is read from disk."]);
}

#[test]
fn what_is_said_of_the_work_is_told_apart() {
    let todo = |status: &str| json!({"todos": [{"content": "Add tests", "status": "completed"}, {"content": "Write docs", "status": status}]});
    let found = evidence(&[
        User("Add a cache."),
        Saying("Let me read the code first.", "todo_write", todo("pending"), "ok"),
        Call("todo_write", todo("in_progress"), "ok"),
        Assistant(
            "I've added the cache. I can't run the benchmarks here.\n\nNext steps:\n- measure it\n- tune it",
        ),
    ]);
    let shown: Vec<_> = found.said.iter().map(|said| (said.kind, said.text.as_str())).collect();
    assert_eq!(
        shown,
        [
            (SaidKind::Doing, "Let me read the code first."),
            (SaidKind::Done, "Add tests"),
            (SaidKind::Doing, "Write docs"),
            (SaidKind::Done, "I've added the cache."),
            (SaidKind::Blocked, "I can't run the benchmarks here."),
            (SaidKind::Next, "measure it"),
            (SaidKind::Next, "tune it"),
        ]
    );
    // Its own list says that work is left.
    assert_eq!(found.requests[0].state, RequestState::Open);
}

#[test]
fn what_was_announced_for_what_is_called_off_is_gone() {
    let said = |reversal| {
        let turns = [
            User("Add a settings page with a dark mode."),
            Saying("Next I will add the dark mode.", "bash", run("ls"), "a"),
            User(reversal),
            Saying("Next I will add the font size.", "bash", run("ls"), "a"),
        ];
        evidence(&turns).said.into_iter().map(|said| said.text).collect::<Vec<_>>()
    };
    let (dark, font) = ("Next I will add the dark mode.", "Next I will add the font size.");
    assert_eq!(said("Never mind the dark mode. Make the font size adjustable."), [font]);
    assert_eq!(said("Make the font size adjustable, too."), [dark, font]);
}
