//! Programs that hang, crash, flood and lie.

use std::sync::Arc;

use longhaul_engine::block_cache::BlockCache;
use longhaul_engine::plan::{CompactOptions, CompactedRequest, Engine, Plan, PlanInput};
use longhaul_engine::policy::{Config, EngineName, Policy};
use longhaul_engine::{models, wire};
use longhaul_server::session::{LiveSession, RequestAction};

use crate::made::{Made, NOON, body, session, settings, valid};

const GREETS: &str = "hello(ask['id'])";

/// Lines of a manifest, how a program greets, how it answers, and what is said of it.
const FAULTS: [(&str, &str, &str, &str); 21] = [
    ("time_limit_ms = 900", GREETS, "time.sleep(60)", "did not reply within 900 ms and was stopped"),
    ("time_limit_ms = 400", "time.sleep(60)", "pass", "did not reply within 400 ms and was stopped"),
    ("", "sys.exit(3)", "pass", "exited (exit status: 3)"),
    ("", GREETS, "os._exit(7)", "exited (exit status: 7)"),
    ("", GREETS, "while True: sys.stdout.write('x' * 65536)", "wrote a line of more than"),
    ("", GREETS, "while True: sys.stderr.write('noise\\n' * 1000)", "exited"),
    ("", GREETS, "while True: print('{}')", "sent an invalid reply"),
    ("", GREETS, "print('nope', flush=True)", "sent an invalid reply"),
    ("", GREETS, "sys.stdout.buffer.write(b'\\xff\\n'); sys.stdout.flush()", "wrote text that is not UTF-8"),
    ("", "hello(ask['id'], protocol=9)", "pass", "supports protocol 9, but Longhaul needs 1"),
    ("", "hello(ask['id'], name='other')", "pass", "reports the name 'other'"),
    ("", "say(ask['id'], result={'greetings': 1})", "pass", "sent an invalid reply to hello"),
    ("", "hello(ask['id'], capabilities=[])", "pass", "does not support compress"),
    ("", GREETS, "say(99, result={})", "replied to call 99 instead of 2"),
    ("", GREETS, "say(ask['id'], error='not today')", "not today"),
    ("", GREETS, "say(ask['id'], result={'delete': [1]})", "its reply is not a valid proposal"),
    (
        "",
        GREETS,
        "say(ask['id'], result={'remove': [len(ask['params']['messages']) - 1], 'summary': 'x'})",
        "which holds the newest user message",
    ),
    ("", GREETS, "say(ask['id'], result={'remove': [3], 'summary': 'x'})", "without message 2, which belongs to it"),
    ("", GREETS, "say(ask['id'], result={'remove': [100000], 'summary': 'x'})", "but there are only"),
    ("", GREETS, "say(ask['id'], result={'remove': middle(ask), 'summary': 'word ' * 90000})", "its summary takes"),
    ("memory_limit_mb = 160", GREETS, "eaten = bytearray(1 << 30)", "exited (exit status: 1)"),
];

#[tokio::test(flavor = "multi_thread")]
async fn whatever_a_program_does_wrong_the_compressors_result_is_sent_and_one_line_says_why() {
    let messages = session(30);
    let body = body(&messages);
    let ours = LiveSession::new(settings(None)).prepare_request(&body, NOON).await.body.into_owned();
    for (manifest, greets, answers, said) in FAULTS {
        let mut made = Made::new(greets, answers);
        if !manifest.is_empty() {
            made.manifest = manifest.to_owned();
        }
        let mut session = LiveSession::new(settings(Some(Arc::new(made.plugin()))));
        let turn = session.prepare_request(&body, NOON).await;
        assert_eq!(turn.action, RequestAction::Compacted, "{answers}: {:?}", turn.notices);
        valid(&turn.body);
        assert_eq!(turn.body, ours, "{answers}");
        let report = turn.report.unwrap();
        assert_eq!(report.engine, EngineName::COMPRESSOR, "{answers}");
        let lines: Vec<_> = report.notes.iter().filter(|note| note.starts_with("plug-in made: ")).collect();
        assert!(lines.len() == 1 && lines[0].contains(said), "{answers}: {:?}", report.notes);
        assert!(lines[0].ends_with("; compressor took its place") && !lines[0].contains('\n'), "{lines:?}");
    }
}

#[test]
fn after_each_crash_it_rests_longer_and_an_answer_ends_that() {
    let starts = "open('starts', 'a').write('x')\n";
    let made = Made::new(&format!("{starts}{GREETS}"), "os._exit(1)");
    let plugin = made.plugin();
    let (policy, _) = Policy::new(&Config::default(), &models::find("gpt-4o")).unwrap();
    let ask = || {
        let messages = body(&session(30));
        let (transcript, _) = wire::parse(None, &messages).unwrap();
        let options = CompactOptions { force: true, ..CompactOptions::default() };
        let plan = plugin
            .compact(PlanInput {
                policy: &policy,
                options: &options,
                cache: &mut BlockCache::default(),
                transcript: &transcript,
            })
            .unwrap();
        let (Plan::Ready(CompactedRequest { report, .. }) | Plan::Unchanged(report)) = plan;
        report.notes.join("\n")
    };
    let started = || made.written("starts").len();
    for (waits, crashes) in [(0, 1), (1, 2), (2, 3), (4, 4)] {
        made.later(waits);
        assert!(ask().contains("exited") && started() == crashes, "after {waits} s: {}", started());
        assert!(ask().contains("paused for"), "it is not started again at once");
        assert_eq!(started(), crashes);
    }
    // It works again, and a crash after that is a first one.
    let works = "say(ask['id'], result={'remove': middle(ask), 'summary': 'all built'})";
    let program = std::fs::read_to_string(made.folder.join("engine.py")).unwrap();
    std::fs::write(made.folder.join("engine.py"), program.replace("os._exit(1)", works)).unwrap();
    made.later(8);
    let said = ask();
    assert!(!said.contains("plug-in"), "{said}");
}

#[test]
fn a_program_and_what_it_started_end_with_the_host() {
    let spawns =
        "import subprocess\nchild = subprocess.Popen(['sleep', '300'])\nopen('child', 'w').write(str(child.pid))\n";
    let made = Made::new(&format!("{spawns}{GREETS}"), "pass");
    let plugin = made.plugin();
    plugin.start().unwrap();
    let alive = || std::path::Path::new(&format!("/proc/{}/stat", made.written("child"))).exists();
    let is_zombie = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", made.written("child"))).unwrap_or_default();
        stat.contains(") Z ")
    };
    if !cfg!(target_os = "linux") {
        return;
    }
    assert!(alive());
    drop(plugin);
    let gone = || {
        (0..200).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            !alive() || is_zombie()
        })
    };
    assert!(gone(), "what it started still runs");
}
