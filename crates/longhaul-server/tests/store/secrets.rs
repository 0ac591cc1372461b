//! Secrets never reach the disk: not in messages, not in views, not in what stands around them, not in an index or a log.

use longhaul_engine::ApiFormat;
use longhaul_engine::redact::Rules;
use longhaul_server::store::{CommitOutcome, ExampleContent, HistoryPoint, SearchScope};
use serde_json::{Value, json};

use super::ground::{Dice, Ground};
use super::speech::{DIALECTS, NOON, Turn, around, keep, outcome, parsed, record, replayed, reply, steps, user};

tests! {
    Both: [
        no_secret_is_written_anywhere,
        what_was_decided_is_decided_again_byte_for_byte,
        a_body_with_secrets_is_given_back_with_marks_in_their_places,
        a_secret_has_one_mark_in_a_session_and_another_elsewhere,
        a_mark_that_was_cut_is_left_as_it_is,
        no_line_of_a_private_key_is_written_anywhere,
    ],
}

/// The shape of a private key, which has several lines.
const PRIVATE_KEY: usize = 5;

/// Secrets of known shapes, drawn so that none stands in the repository. Each is the text to plant and the part that must not
/// be found.
struct Canaries {
    dice: Dice,
    planted: Vec<String>,
    /// Whether private keys are among them.
    keys: bool,
}

impl Canaries {
    fn letters(&mut self, alphabet: &str, count: usize) -> String {
        let alphabet: Vec<char> = alphabet.chars().collect();
        (0..count).map(|_| alphabet[self.dice.below(alphabet.len())]).collect()
    }

    /// Letters and digits, some of each: of letters alone not all are redacted, which is a test of its own.
    fn any(&mut self, count: usize) -> String {
        let drawn = self.letters("abcdefghijkmnopqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789", count - 3);
        format!("{}{}{}", &drawn[..drawn.len() / 2], self.letters("23456789", 3), &drawn[drawn.len() / 2..])
    }

    /// A line with a secret of one of the shapes in it.
    fn line(&mut self, shape: usize) -> String {
        let shape = if shape % 12 == PRIVATE_KEY && !self.keys { 0 } else { shape };
        let secret = match shape % 12 {
            0 => format!("ghp_{}", self.any(36)),
            1 => format!("AKIA{}", self.letters("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", 16)),
            2 | 8 | 9 | 10 | 11 => self.any(24),
            3 => format!("sk-ant-api03-{}AA", self.any(93)),
            4 => format!("eyJhbGciOiJIUzI1NiJ9.eyJ{}.{}", self.any(40), self.any(43)),
            PRIVATE_KEY => self.any(64),
            6 => format!("xoxb-{}-{}-{}", self.letters("123456789", 12), self.letters("123456789", 12), self.any(24)),
            _ => format!("glpat-{}", self.any(20)),
        };
        self.planted.push(secret.clone());
        match shape % 12 {
            2 => format!("DATABASE_URL=postgres://app:{secret}@db.example.com/app"),
            PRIVATE_KEY => {
                format!("-----BEGIN RSA PRIVATE KEY-----\n{secret}\n{secret}\n-----END RSA PRIVATE KEY-----")
            }
            8 => format!("password: {secret}"),
            9 => format!("curl -H 'Authorization: Bearer {secret}' https://example.com"),
            10 => format!("https://me:{secret}@example.com/x"),
            11 => format!("AWS_SECRET_ACCESS_KEY={secret}"),
            _ => format!("the key is {secret} there"),
        }
    }
}

/// A session with secrets in every part of it.
fn telling(api_format: ApiFormat, canaries: &mut Canaries, more: usize) -> (String, Vec<Turn>) {
    let mut turns = vec![user(&format!("Deploy it. {}", canaries.line(0)))];
    for shape in 0..12 {
        let noise = "deploying a part of the project\n".repeat(30);
        turns.push(Turn::Thought(format!("I could use {}", canaries.line(shape + 1))));
        let arguments = json!({
            "command": format!("deploy --with '{}'", canaries.line(shape)),
            "env": {"note": canaries.line(shape + 5), "list": [canaries.line(shape + 7)]},
            "content": format!("{}\n{}", "x = 1\n".repeat(80), canaries.line(shape + 3)),
        });
        let output =
            format!("{noise}error: {}\n{noise}{}\nexit code: 1\n", canaries.line(shape + 2), canaries.line(shape));
        turns.push(Turn::Call(arguments, output));
        turns.push(reply(&format!("It failed with {}", canaries.line(shape + 4))));
        turns.push(user(&format!("Use {} then.", canaries.line(shape + 6))));
    }
    turns.extend(steps(50, more, 10));
    turns.push(user("Go on."));
    let system = format!("{} {}", canaries.line(1), "You deploy things for others. ".repeat(20));
    let tool = format!("Deploys. {} {}", canaries.line(3), "It takes a while. ".repeat(30));
    (around(api_format, &system, &tool, &turns).to_string(), turns)
}

fn canaries(seed: u64) -> Canaries {
    Canaries { dice: Dice::new(seed), planted: Vec::new(), keys: true }
}

/// The secrets that stand somewhere, whole or but for their ends.
fn found<'s>(bytes: &[u8], planted: &'s [String]) -> Vec<&'s str> {
    let text = String::from_utf8_lossy(bytes).to_lowercase();
    let inside = |secret: &&String| text.contains(&secret[secret.len() - 14..secret.len() - 2].to_lowercase());
    planted.iter().filter(inside).map(String::as_str).collect()
}

async fn no_secret_is_written_anywhere(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    for (seed, api_format) in DIALECTS.into_iter().enumerate() {
        let mut canaries = canaries(11 + seed as u64);
        let (sent, mut turns) = telling(api_format, &mut canaries, 0);
        assert!(canaries.planted.len() > 100);
        assert_eq!(found(sent.as_bytes(), &canaries.planted).len(), canaries.planted.len());
        for (round, tokens) in [6_000, 4_000, 2_500, 1_500].into_iter().enumerate() {
            let sent = rewrapped(&sent, api_format, &turns);
            let recorded = record(&store, &tenant, &sent).await;
            let outcome = outcome(&recorded, &sent, tokens);
            let committed = keep(&store, &tenant, &recorded, &sent, &outcome).await.unwrap();
            let CommitOutcome::Done { session, .. } = committed else { panic!("{committed:?}") };
            assert!(
                found(&ground.bytes().await, &canaries.planted).is_empty(),
                "{api_format:?}: {:?}",
                found(&ground.bytes().await, &canaries.planted)
            );
            // Nor is one told.
            for original in &outcome.originals {
                let block = store.recall(&tenant, Some(&session), &original.recall_id).await.unwrap();
                assert!(found(block.text.as_str().as_bytes(), &canaries.planted).is_empty());
            }
            turns.push(reply(&format!("Now with {}", canaries.line(round))));
            turns.push(user(&format!("And {}", canaries.line(round + 8))));
            turns.extend(steps(100 * (round + 1), 6, 30));
            turns.push(user("On."));
        }
        let session = store.session_by_name(&tenant, "latest").await.unwrap();
        let hits = store.search(&tenant, &session, SearchScope::Family, &canaries.planted[0], 10).await.unwrap();
        assert!(hits.iter().all(|hit| found(hit.excerpt.as_str().as_bytes(), &canaries.planted).is_empty()));
        let examples = store.examples(&tenant, &session, ExampleContent::AsShown).await.unwrap();
        let examples = serde_json::to_string(&examples).unwrap();
        assert!(found(examples.as_bytes(), &canaries.planted).is_empty());
    }
    store.vacuum().await.unwrap();
    assert!(store.check_integrity().await.unwrap().is_empty());
}

/// The system prompt and the tools of one body around other turns.
fn rewrapped(body: &str, api_format: ApiFormat, turns: &[Turn]) -> String {
    let mut value: Value = serde_json::from_str(body).unwrap();
    let list = if api_format == ApiFormat::Responses { "input" } else { "messages" };
    let system = value[list][0].clone();
    value[list] = around(api_format, "", "", turns)[list].clone();
    if api_format == ApiFormat::Chat {
        value[list][0] = system;
    }
    value.to_string()
}

async fn what_was_decided_is_decided_again_byte_for_byte(ground: Ground) {
    decided_again(&ground, say_little).await;
}

/// What people say is quoted in a checkpoint, and clipped there: here it holds no secrets, and leaves room for other things.
fn say_little(turns: &mut [Turn]) {
    for turn in turns {
        if let Turn::User(text) | Turn::Reply(text) = turn {
            "Go on.".clone_into(text);
        }
    }
}

async fn a_mark_that_was_cut_is_left_as_it_is(ground: Ground) {
    decided_again(&ground, |_| {}).await;
}

async fn decided_again(ground: &Ground, change: fn(&mut [Turn])) {
    let (store, tenant) = ground.opened().await;
    for (seed, api_format) in DIALECTS.into_iter().enumerate() {
        let mut canaries = Canaries { keys: false, ..canaries(31 + seed as u64) };
        let (first, mut turns) = telling(api_format, &mut canaries, 4);
        change(&mut turns);
        let first = rewrapped(&first, api_format, &turns);
        let recorded = record(&store, &tenant, &first).await;
        let outcome = outcome(&recorded, &first, 3_000);
        keep(&store, &tenant, &recorded, &first, &outcome).await.unwrap();
        for round in 0..3 {
            turns.push(reply(&format!("So {round}, {}", canaries.line(round))));
            let sent = rewrapped(&first, api_format, &turns);
            let recorded = record(&store, &tenant, &sent).await;
            assert_eq!(recorded.view.compaction_number, Some(1));
            assert_eq!(recorded.view.ledger, outcome.ledger, "what is kept is what was decided");
            let next = replayed(&recorded, &sent);
            let list = |body: &str| {
                let transcript = parsed(body);
                (0..transcript.message_count())
                    .map(|at| transcript.message_json(at).unwrap().to_owned())
                    .collect::<Vec<_>>()
            };
            let (before, after) = (list(&outcome.body), list(&next));
            assert_eq!(after[..before.len()], before, "{api_format:?}: the view before the new messages is unchanged");
            assert_eq!(after.len(), before.len() + round + 1);
        }
    }
}

async fn no_line_of_a_private_key_is_written_anywhere(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    for (seed, api_format) in DIALECTS.into_iter().enumerate() {
        let mut canaries = canaries(31 + seed as u64);
        let (first, mut turns) = telling(api_format, &mut canaries, 4);
        say_little(&mut turns);
        let sent = rewrapped(&first, api_format, &turns);
        let recorded = record(&store, &tenant, &sent).await;
        for tokens in [3_000, 4_000, 5_000] {
            let outcome = outcome(&recorded, &sent, tokens);
            keep(&store, &tenant, &recorded, &sent, &outcome).await.unwrap();
            let told = found(&ground.bytes().await, &canaries.planted).join(" ");
            assert!(told.is_empty(), "{api_format:?}, {tokens}: {told}");
        }
    }
}

async fn a_body_with_secrets_is_given_back_with_marks_in_their_places(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    for (seed, api_format) in DIALECTS.into_iter().enumerate() {
        let mut canaries = canaries(51 + seed as u64);
        let (sent, _) = telling(api_format, &mut canaries, 2);
        let transcript = parsed(&sent);
        let recorded = store.record(&tenant, &transcript, &Rules::default(), NOON).await.unwrap();
        let given = store.body_at(&tenant, &recorded.session, HistoryPoint::Original).await.unwrap();
        assert!(found(given.as_bytes(), &canaries.planted).is_empty());
        assert!(given.matches("[REDACTED:").count() > 80, "{}", given.matches("[REDACTED:").count());
        let again = parsed(&given);
        assert_eq!(
            (again.api_format, again.message_count(), again.turns.len()),
            (api_format, transcript.message_count(), transcript.turns.len())
        );
    }
}

async fn a_secret_has_one_mark_in_a_session_and_another_elsewhere(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    let secret = canaries(71).line(0);
    let mut marks = Vec::new();
    for task in ["one", "two"] {
        let turns = [user(&format!("Task {task}. {secret}")), reply(&secret), user(&secret)];
        let sent = around(ApiFormat::Messages, "Be careful.", "Runs.", &turns).to_string();
        let session = record(&store, &tenant, &sent).await.session;
        let given = store.body_at(&tenant, &session, HistoryPoint::Original).await.unwrap();
        let own: Vec<String> =
            given.split("[REDACTED:").skip(1).map(|mark| mark.split(']').next().unwrap().to_owned()).collect();
        assert_eq!(own.len(), 3);
        assert!(own.iter().all(|mark| *mark == own[0]), "{own:?}");
        marks.push(own[0].clone());
    }
    assert_ne!(marks[0], marks[1]);
}
