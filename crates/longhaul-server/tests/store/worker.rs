//! This program run again as another process: one that is killed, or one in whose world something fails.

use std::io::{self, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use longhaul_engine::ApiFormat;
use longhaul_engine::plan::Plan;
use longhaul_server::store::{CommitOutcome, Durability, Result, Store, StoreLocation, Tenant};

use super::ground::wait_for;
use super::speech::{NOON, Turn, bash, body, keep, planned, recorded, reply, said, steps, user};

/// Says what a worker is to do.
const TASK: &str = "LONGHAUL_STORE_TASK";
/// Says on which store: a file or a URL.
const STORE: &str = "LONGHAUL_STORE_PLACE";

/// How much longer a session of a worker becomes with each turn, at most, before it begins another.
pub(crate) const TURNS: usize = 12;

pub(crate) fn is_asked_for() -> bool {
    std::env::var_os(TASK).is_some()
}

/// This program as a worker that is not started yet.
pub(crate) fn command(task: &str, place: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.env(TASK, task).env(STORE, place).stdin(Stdio::null());
    command
}

/// A worker whose words are nobody's business.
pub(crate) fn start(task: &str, file: &Path) -> Child {
    command(task, &file.display().to_string()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Does what the environment asks for.
pub(crate) fn work() {
    let task = std::env::var(TASK).unwrap();
    let place: StoreLocation = std::env::var(STORE).unwrap().parse().unwrap();
    wait_for(async {
        match task.as_str() {
            "open" => drop(Store::open(&place, Durability::Normal).await),
            "turns" => turns(&place).await,
            "try" => attempt(&place).await,
            other => panic!("no worker does {other}"),
        }
    });
}

/// A line that is out before anything else happens.
fn say(line: &str) {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}").unwrap();
    out.flush().unwrap();
}

/// The turns of a worker's session, told by its number.
pub(crate) fn session(number: usize, turns: usize) -> Vec<Turn> {
    let turn = |n: usize| match n % 3 {
        0 => user(&format!("session {number} asks {n}")),
        1 => bash(&format!("make {number} {n}"), &format!("output {number} {n}\n").repeat(60)),
        _ => reply(&format!("session {number} answers {n}")),
    };
    (0..turns).map(turn).collect()
}

/// Appends and compacts until it is killed, and says what is in the store once it is: `record NUMBER MESSAGES` and
/// `keep NUMBER EPOCH`.
async fn turns(place: &StoreLocation) {
    let sync = if matches!(place, StoreLocation::Postgres(_)) { Durability::Full } else { Durability::Normal };
    let store = Store::open(place, sync).await.unwrap();
    let tenant = store.get_or_create_tenant("local").await.unwrap();
    let first: usize = std::env::var("LONGHAUL_STORE_FIRST").unwrap().parse().unwrap();
    for number in first.. {
        for count in 1..=TURNS {
            let sent = body(ApiFormat::Messages, &session(number, count));
            let recorded = recorded(&store, &tenant, &sent, NOON).await.unwrap();
            say(&format!("record {number} {}", recorded.session.path_length));
            if count % 4 == 0
                && let Plan::Ready(outcome) = planned(&recorded, &sent, 400)
                && let CommitOutcome::Done { number: epoch, .. } =
                    keep(&store, &tenant, &recorded, &sent, &outcome).await.unwrap()
            {
                say(&format!("keep {number} {epoch}"));
            }
        }
    }
}

/// Writes ever more to a store until something fails, then goes on with a good one: `ok N` for each turn that was kept, the
/// variant and the words of the first failure, and `alive` if the process can still work.
async fn attempt(place: &StoreLocation) {
    let most: usize = std::env::var("LONGHAUL_STORE_TURNS").unwrap().parse().unwrap();
    if let Err(error) = write(place, most).await {
        let variant = format!("{error:?}");
        say(&format!(
            "error {} {}",
            variant.split('(').next().unwrap_or_default(),
            error.message().replace('\n', "\\n")
        ));
    }
    let store = Store::open(&StoreLocation::Memory, Durability::Normal).await.unwrap();
    let tenant = store.get_or_create_tenant("local").await.unwrap();
    let sent = body(ApiFormat::Chat, &[user("Still here.")]);
    let recorded = recorded(&store, &tenant, &sent, NOON).await.unwrap();
    assert_eq!(recorded.new_messages, said(&sent));
    say("alive");
}

async fn write(place: &StoreLocation, most: usize) -> Result<()> {
    let store = Store::open(place, Durability::Normal).await?;
    let tenant: Tenant = store.get_or_create_tenant("local").await?;
    for count in 1..=most {
        recorded(&store, &tenant, &body(ApiFormat::Chat, &attempted(count)), NOON).await?;
        say(&format!("ok {count}"));
    }
    Ok(())
}

/// What an attempt has written after so many turns.
pub(crate) fn attempted(count: usize) -> Vec<Turn> {
    [vec![user("Fill the disk.")], steps(0, count, 150)].concat()
}
