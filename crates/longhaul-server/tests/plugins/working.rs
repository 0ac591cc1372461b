//! Engines from outside that do their work.

use std::sync::Arc;
use std::time::Duration;

use longhaul_engine::plan::{Engine, Plan, PlanInput, Proposal, ProposalInput, WrittenBy, compact_by_proposal};
use longhaul_engine::policy::EngineName;
use longhaul_engine::prices::Usage;
use longhaul_engine::{RewriteError, Tokens};
use longhaul_server::session::{LiveSession, PreparedRequest, RequestAction};
use serde_json::json;

use crate::made::{Made, NOON, SECRET, body, session, settings, valid};

const WORKS: &str = "open('asked', 'a').write(line)\n\
                     say(ask['id'], result={'remove': middle(ask), 'summary': 'All targets were built.'})";

#[track_caller]
fn by(turn: &PreparedRequest<'_>, engine: &str) {
    assert_eq!(turn.action, RequestAction::Compacted, "{:?}", turn.notices);
    let report = turn.report.as_ref().unwrap();
    assert_eq!(
        (report.engine.name(), report.checkpoint.unwrap().by),
        (engine, WrittenBy::Plugin),
        "{:?}",
        report.notes
    );
    valid(&turn.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_program_decided_is_replayed_byte_for_byte_and_no_secret_reaches_it() {
    let mut made = Made::new("open('seen', 'w').write(repr(dict(os.environ)))\nhello(ask['id'])", WORKS);
    made.environment.push(("HOUSE_API_KEY".to_owned(), SECRET.to_owned()));
    made.environment.push(("NAMED".to_owned(), "named in the manifest".to_owned()));
    made.manifest.push_str("\nenvironment = [\"NAMED\"]");
    let mut session_ = LiveSession::new(settings(Some(Arc::new(made.plugin()))));
    let mut messages = session(30);
    let first_body = body(&messages);
    let first = session_.prepare_request(&first_body, NOON).await;
    by(&first, "made");
    assert!(first.body.contains("All targets were built.") && first.body.contains("Never touch the tests"));
    let first = first.body.into_owned();
    messages.push(json!({"role": "assistant", "content": "The docs are next."}));
    messages.push(json!({"role": "user", "content": "Go on."}));
    let longer = body(&messages);
    let second = session_.prepare_request(&longer, NOON).await;
    assert_eq!(second.action, RequestAction::Replayed, "{:?}", second.notices);
    let end = first.rfind("]}").unwrap();
    assert!(second.body.starts_with(&first[..end]), "what was sent is sent again, byte for byte");
    valid(&second.body);
    let asked = made.written("asked");
    assert!(asked.contains("compiling a unit of target2") && !asked.contains(SECRET), "a secret reached it");
    assert_eq!(asked.lines().count(), 1, "a replay asks nobody");
    let seen = made.written("seen");
    assert!(seen.contains("named in the manifest") && !seen.contains(SECRET), "{seen}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_decides_when_and_is_told_what_replies_came_to() {
    let greets = "hello(ask['id'], capabilities=['compress', 'should_compress', 'usage'])";
    let answers = "open('asked', 'a').write(line)\n\
                   if ask['method'] == 'should_compress': say(ask['id'], result={'due': ask['params']['tokens'] > 4000, 'reason': 'it is time'})\n\
                   elif ask['method'] == 'compress': say(ask['id'], result={'remove': middle(ask), 'summary': 'All built.'})";
    let made = Made::new(greets, answers);
    let mut sessions = LiveSession::new(settings(Some(Arc::new(made.plugin()))));
    let short = body(&session(4));
    let left = sessions.prepare_request(&short, NOON).await;
    assert_eq!((left.action, left.reason.as_str()), (RequestAction::Unchanged, "made decided: it is time"));
    sessions.record_reply(&Usage { input: Some(Tokens(1_234)), ..Usage::default() }).await;
    // Below the threshold of 10,000.
    let long = body(&session(14));
    let turn = sessions.prepare_request(&long, NOON).await;
    by(&turn, "made");
    let told = || made.written("asked").contains("\"input\":1234");
    let mut tries = 0;
    while !told() && tries < 200 {
        tokio::time::sleep(Duration::from_millis(10)).await;
        tries += 1;
    }
    assert!(told(), "{}", made.written("asked"));
}

/// An engine of a host's, in Rust.
struct Folds;

impl Engine for Folds {
    fn name(&self) -> EngineName {
        "folds".to_owned().into()
    }

    fn description(&self) -> &'static str {
        "folds all that is not protected"
    }

    fn compact(&self, input: PlanInput<'_, '_>) -> Result<Plan, RewriteError> {
        compact_by_proposal(self, input, &|shown: &ProposalInput| {
            let free = shown.messages.iter().filter(|message| !message.protected);
            let remove = free.map(|message| message.index).collect();
            Ok(Proposal { remove, summary: Some("It was all built.".to_owned()), ..Proposal::default() })
        })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_a_host_registers_compacts_its_sessions() {
    let mut sessions = LiveSession::new(settings(Some(Arc::new(Folds))));
    let body = body(&session(30));
    let turn = sessions.prepare_request(&body, NOON).await;
    by(&turn, "folds");
    assert!(turn.body.contains("It was all built.") && turn.body.contains("And the docs?"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_is_found_nowhere_is_said_once_and_in_each_report() {
    let mut settings = settings(None);
    settings.config.context.engine = "nobody".to_owned().into();
    let mut sessions = LiveSession::new(settings);
    let body = body(&session(30));
    let turn = sessions.prepare_request(&body, NOON).await;
    let said = |line: &&String| line.contains("no engine is called nobody");
    assert_eq!(turn.notices.iter().filter(said).count(), 1, "{:?}", turn.notices);
    assert_eq!(turn.report.unwrap().notes.iter().filter(said).count(), 1);
}
