//! When a request is open, done or cancelled.

use super::Turn::{Assistant, Call, User};
use super::{Turn, evidence, run, states};
use crate::evidence::RequestState;

#[test]
fn a_request_is_done_when_a_report_was_let_stand() {
    use RequestState::{Cancelled, Done, Open};
    let fix = || Call("bash", run("cargo test"), "test result: ok. 3 passed; 0 failed");
    let cases: &[(&str, &[Turn<'_>], &[RequestState])] = &[
        ("nothing happened yet", &[User("Add a cache.")], &[Open]),
        ("work goes on", &[User("Add a cache."), fix()], &[Open]),
        (
            "a report at the end",
            &[User("Add a cache."), fix(), Assistant("I've added the cache. All tests pass.")],
            &[Done],
        ),
        (
            "an announcement is no report",
            &[User("Add a cache."), Assistant("Sure. Let me look at the code.")],
            &[Open],
        ),
        ("thanks", &[User("Add a cache."), fix(), Assistant("Done."), User("Thanks!")], &[Done]),
        (
            "the next request",
            &[User("Add a cache."), fix(), Assistant("Done."), User("Now add a test.")],
            &[Done, Open],
        ),
        (
            "thanks and a remark",
            &[
                User("Add a cache."),
                fix(),
                Assistant("Done."),
                User("Thanks for the quick help. I'll try it tomorrow."),
            ],
            &[Done],
        ),
        (
            "thanks and a complaint",
            &[User("Add a cache."), fix(), Assistant("Done."), User("Thanks! The tests are red, though.")],
            &[Done, Open],
        ),
        (
            "it is not so",
            &[User("Add a cache."), fix(), Assistant("Done."), User("It still fails.")],
            &[Open, Open],
        ),
        ("a question waits", &[User("Add a cache."), Assistant("In memory or on disk?")], &[Open]),
        (
            "an answer is no request",
            &[User("Add a cache."), Assistant("In memory or on disk?"), User("In memory.")],
            &[Open],
        ),
        (
            "answered and done",
            &[
                User("Add a cache."),
                Assistant("In memory or on disk?"),
                User("In memory."),
                fix(),
                Assistant("I've added it."),
            ],
            &[Done],
        ),
        (
            "a blocked turn is no report",
            &[User("Deploy it."), Assistant("I can't deploy: I need your credentials.")],
            &[Open],
        ),
        (
            "go on",
            &[User("Add a cache."), fix(), Assistant("Half of it is done."), User("continue")],
            &[Open],
        ),
        (
            "broken off, then both done",
            &[User("Add a cache."), fix(), User("Also add a test."), fix(), Assistant("I've added both.")],
            &[Done, Done],
        ),
        (
            "an offer that is accepted",
            &[
                User("Add a cache."),
                fix(),
                Assistant("Done. Would you like me to add tests?"),
                User("yes please"),
            ],
            &[Done, Open],
        ),
        (
            "an offer is no question",
            &[User("Add a cache."), fix(), Assistant("I've added it. Would you like me to add tests?")],
            &[Done],
        ),
        ("undo", &[User("Add a cache."), fix(), Assistant("Done."), User("Undo that.")], &[Cancelled, Open]),
        ("a greeting is no request", &[User("Hello!"), Assistant("Hi, what can I do?")], &[]),
        ("a rule is no request", &[User("From now on use tabs.")], &[]),
    ];
    for (case, turns, expected) in cases {
        assert_eq!(states(turns), *expected, "{case}");
    }
}

#[test]
fn a_reversal_cancels_what_it_is_about() {
    for reversal in [
        "Never mind.",
        "Stop",
        "Actually, don't do that.",
        "Forget it.",
        "On second thought, leave it as it is.",
        "Scratch that.",
        "Never mind, I'll do it myself tomorrow.",
        "Vergiss es.",
        "Lass das.",
        "Laisse tomber.",
        "Oublie ça.",
        "Olvídalo.",
        "Déjalo.",
        "算了。",
        "不用了。",
        "取り消してください。",
        "やめて",
        "やっぱりやめます。",
    ] {
        let turns = [
            User("Add a dark mode to the settings page."),
            Call("bash", run("ls src"), "a.rs"),
            User(reversal),
        ];
        let states = states(&turns);
        assert_eq!(states.first(), Some(&RequestState::Cancelled), "{reversal}");
    }
    let found = evidence(&[
        User("Add a dark mode."),
        Call("bash", run("ls"), "a"),
        User("Also write a changelog."),
        Call("bash", run("ls"), "a"),
        User("Forget about the dark mode."),
    ]);
    let states: Vec<_> = found.requests.iter().map(|request| request.state).collect();
    assert_eq!(states, [RequestState::Cancelled, RequestState::Open]);
    assert_eq!(found.reversals[0].cancels, Some(found.requests[0].unit));
}

#[test]
fn a_reversal_with_a_new_request_leaves_the_new_one_open() {
    for prompt in [
        "Never mind, write a changelog for the release.",
        "Stop. Write a changelog instead.",
        "Instead, write a changelog.",
    ] {
        let turns = [User("Add a dark mode."), Call("bash", run("ls"), "a"), User(prompt)];
        assert_eq!(states(&turns), [RequestState::Cancelled, RequestState::Open], "{prompt}");
    }
    // A word about a detail, or about how, takes back nothing.
    for prompt in ["Use Postgres instead of SQLite for it.", "Don't change the header."] {
        let turns = [User("Add a page that lists all users."), Call("bash", run("ls"), "a"), User(prompt)];
        assert_eq!(states(&turns)[0], RequestState::Open, "{prompt}");
    }
}

#[test]
fn a_question_between_steps_does_not_end_the_task() {
    let turns = |answer| {
        [User("Add a cart."), Call("bash", run("ls"), "a"), User("How far are you?"), Assistant(answer)]
    };
    assert_eq!(states(&turns("Half of it stands.")), [RequestState::Open, RequestState::Done]);
    assert_eq!(states(&turns("Done: I added the cart.")), [RequestState::Done; 2]);
}
