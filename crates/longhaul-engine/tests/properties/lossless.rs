//! What must hold of the engine that keeps an overview of all of a session, over sessions of many compactions: generated ones, and
//! real ones one after another.

use std::collections::{BTreeMap, BTreeSet};

use crate::support::notation::Session;
use crate::support::{Numbers, policy, real_bodies, write};
use longhaul_engine::block_cache::BlockCache;
use longhaul_engine::check::{Severity, check, compare};
use longhaul_engine::checkpoint::Checkpoint;
use longhaul_engine::ledger::Ledger;
use longhaul_engine::plan::{
    CompactOptions, CompactedRequest, ContentKind, Engine, Lossless, Originals, Plan, PlanInput, RecallIds,
    SUMMARIZED_REASON,
};
use longhaul_engine::policy::Policy;
use longhaul_engine::redact::SessionKey;
use longhaul_engine::texts::EarlierWorkNode;
use longhaul_engine::transcript::TurnKind;
use longhaul_engine::{ApiFormat, wire};
use serde_json::Value;

tests! {
    always: [
        every_block_that_is_gone_is_reached_from_the_newest_checkpoint,
        a_client_that_sends_its_original_history_reaches_every_block_too,
        without_originals_no_node_claims_a_handle_and_the_overview_is_there_all_the_same,
    ],
    real: [
        every_block_of_a_long_real_session_is_reached_within_a_window_of_64_000,
    ],
}

/// What of a checkpoint may tell of the work before.
const SHARE: f64 = 0.35;

/// A session that goes on from compaction to compaction.
struct Story {
    dialect: ApiFormat,
    policy: Policy,
    wish: CompactOptions,
    known: BlockCache,
    /// What the host keeps, by its handle.
    kept: BTreeMap<String, String>,
    /// What fetches the blocks that were folded.
    gone: BTreeSet<String>,
    rounds: usize,
    wrong: Vec<String>,
}

impl Story {
    fn new(api_format: ApiFormat, window: usize) -> Self {
        let model = if api_format == ApiFormat::Messages { "claude-sonnet-4-5" } else { "gpt-5" };
        let key = SessionKey::new([7; 32]);
        let originals = Originals::Stored(RecallIds::new(key.clone()));
        Self {
            dialect: api_format,
            policy: policy(model, window),
            wish: CompactOptions { originals, session_key: Some(key), ..CompactOptions::default() },
            known: BlockCache::default(),
            kept: BTreeMap::new(),
            gone: BTreeSet::new(),
            rounds: 0,
            wrong: Vec::new(),
        }
    }

    /// What comes of a body that is sent, and what was decided.
    fn send(&mut self, body: String, ledger: &Ledger) -> (String, Ledger) {
        let (transcript, _) = wire::parse(self.dialect, &body).unwrap();
        match Lossless
            .plan(
                ledger,
                PlanInput {
                    policy: &self.policy,
                    options: &self.wish,
                    cache: &mut self.known,
                    transcript: &transcript,
                },
            )
            .unwrap()
        {
            Plan::Unchanged(_) => (body, ledger.clone()),
            Plan::Ready(outcome) => {
                if outcome.ledger.epoch > ledger.epoch {
                    self.rounds += 1;
                    self.judge(&body, &outcome);
                }
                (outcome.body, outcome.ledger)
            }
        }
    }

    fn judge(&mut self, body: &str, outcome: &CompactedRequest) {
        let mut wrong = Vec::new();
        let target = self.policy.model.target(self.dialect);
        let broken =
            |body: &str| check(body, self.dialect, &target).into_iter().map(|v| v.rule).collect::<BTreeSet<_>>();
        let new: Vec<_> = broken(&outcome.body).difference(&broken(body)).copied().collect();
        if !new.is_empty() {
            wrong.push(format!("breaks {new:?}"));
        }
        let compared = compare(body, &outcome.body, self.dialect, &target).into_iter();
        let errors = compared.filter(|v| v.severity == Severity::Error);
        wrong.extend(errors.map(|v| format!("breaks {} at {}: {}", v.rule, v.at, v.message)));
        if outcome.report.tokens.after > self.policy.window {
            wrong.push(format!("{} tokens are over the window", outcome.report.tokens.after));
        }
        for original in &outcome.originals {
            self.kept.insert(original.recall_id.clone(), original.text.clone());
        }
        let summarized = outcome.report.blocks.iter().filter(|row| row.why == SUMMARIZED_REASON);
        let summarized = summarized.filter(|row| row.what != ContentKind::Checkpoint);
        self.gone.extend(summarized.filter_map(|row| row.handle.clone()));
        let Some(text) = checkpoint(self.dialect, &outcome.body) else {
            self.wrong.extend(wrong);
            return;
        };
        let parsed = Checkpoint::parse(&text).unwrap();
        let counter = self.policy.model.counter();
        let section = section(&text);
        let most = self.policy.checkpoint.max.share(SHARE);
        if parsed.earlier_work().len() > 1 && counter.count(&section) > most {
            wrong.push(format!("{} tokens of earlier work, {most} are allowed", counter.count(&section)));
        }
        if matches!(self.wish.originals, Originals::Stored(_)) {
            wrong.extend(self.unreached(&text).map(|lost| format!("nothing leads to {lost}")));
        }
        let round = self.rounds;
        self.wrong.extend(wrong.into_iter().map(|wrong| format!("{} {round}: {wrong}", self.dialect)));
    }

    /// What is gone and nothing leads to, and handles that lead nowhere.
    fn unreached(&self, text: &str) -> impl Iterator<Item = String> {
        let mut reached: BTreeSet<String> = BTreeSet::new();
        let mut open = handles(text);
        let mut lost = Vec::new();
        while let Some(recall_id) = open.pop() {
            if !reached.insert(recall_id.clone()) {
                continue;
            }
            match self.kept.get(&recall_id) {
                Some(text) => open.extend(handles(text)),
                None => lost.push(format!("{recall_id}, which is named and not kept")),
            }
        }
        let unreached = self.gone.iter().filter(|recall_id| !reached.contains(*recall_id));
        let unreached = unreached.map(|recall_id| self.kept[recall_id].chars().take(80).collect());
        lost.into_iter().chain(unreached.collect::<Vec<String>>())
    }

    fn assert_right(&self, rounds: usize) {
        let count = self.wrong.len();
        assert!(count == 0, "{count} do not hold\n{}", self.wrong[..count.min(12)].join("\n"));
        assert!(self.rounds >= rounds, "only {} compactions", self.rounds);
    }
}

/// The handles that a text names, as those are written that we name.
fn handles(text: &str) -> Vec<String> {
    let named = text.split("recall ").skip(1).filter_map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric())?;
        (end == 10).then(|| rest[..end].to_owned())
    });
    named.collect()
}

fn checkpoint(api_format: ApiFormat, body: &str) -> Option<String> {
    let (transcript, _) = wire::parse(api_format, body).unwrap();
    transcript.turns.iter().find_map(|turn| match &turn.kind {
        TurnKind::Checkpoint(block) => Some(block.text().into_owned()),
        _ => None,
    })
}

/// The section with the work before.
fn section(text: &str) -> String {
    let lines = text.lines().skip_while(|line| *line != "## Earlier Work");
    let ends = |line: &str| line.is_empty() || line.starts_with('[');
    lines.take_while(|line| !ends(line)).map(|line| line.to_owned() + "\n").collect()
}

/// So many steps of work, other ones for each seed: what is asked, told, run and edited.
fn steps(numbers: &mut Numbers, round: usize) -> String {
    let mut lines = Vec::new();
    for step in 0..6 + numbers.below(12) {
        let n = numbers.below(10_000);
        lines.push(match numbers.below(6) {
            0 => format!(
                "reply The cause of fault {n} is the cache of part{round}.\n+ bash make t{n} → «log 1..40»{n} passed\n"
            ),
            1 => {
                format!("edit {{\"path\":\"src/part{round}_{n}.py\",\"old\":\"x = 1\",\"new\":\"x = {n}\"}} → edited\n")
            }
            2 => format!("bash make check{n} ✗ «log 1..60»error: {n} is out of range\n"),
            3 => format!("read src/part{n}.py → «lines 1..60 of src/part{n}.py»\n"),
            4 if step > 2 => format!(
                "reply «words 60 a{n}»\nuser Now see to part {n} of round {round}, and mind the order of its fields.\n"
            ),
            _ => format!("reply «words 80 r{n}»\n+ bash ls part{n} → leaf {n}\n"),
        });
    }
    lines.concat() + "reply So far, so good.\nuser Go on.\n"
}

/// What a client sends the next time.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Client {
    SendsTheResult,
    SendsTheOriginal,
}

fn tell(
    api_format: ApiFormat,
    seed: u64,
    rounds: usize,
    originals: Option<Originals>,
    client: Client,
) -> (Story, String) {
    let mut story = Story::new(api_format, 8_000);
    story.wish.originals = originals.unwrap_or(story.wish.originals);
    let mut numbers = Numbers(seed);
    let mut all = Session::default();
    let opening = "system You are careful.\nuser Build the planner, part by part. Never touch the file legacy.py.\n";
    all.extend(opening.lines());
    let (mut body, mut ledger, mut first) = (String::new(), Ledger::default(), 0);
    for round in 0..rounds {
        let lines = steps(&mut numbers, round);
        all.extend(lines.lines());
        let sent = if body.is_empty() || client == Client::SendsTheOriginal {
            write::body(api_format, "gpt-5", &all, &all)
        } else {
            write::grown(api_format, &body, &all.units[first..], first)
        };
        first = all.units.len();
        let decided = match client {
            Client::SendsTheOriginal => ledger,
            Client::SendsTheResult => Ledger::default(),
        };
        (body, ledger) = story.send(sent, &decided);
    }
    (story, body)
}

fn every_block_that_is_gone_is_reached_from_the_newest_checkpoint() {
    for api_format in ApiFormat::ALL {
        let (story, body) = tell(api_format, 1, 120, None, Client::SendsTheResult);
        story.assert_right(50);
        let text = checkpoint(api_format, &body).unwrap();
        say!("{api_format}: {} compactions, {} blocks gone\n{text}", story.rounds, story.gone.len());
        let nodes = Checkpoint::parse(&text).unwrap().earlier_work().to_vec();
        assert!(nodes.iter().any(|node| node.spans() >= 36), "a group of groups");
        assert!(body.contains("Never touch the file legacy.py."), "{text}");
        let first = nodes[0].actions().unwrap().0;
        assert_eq!(first, 1, "the overview begins where the session does");
        let follow = |(one, next): (&(u32, u32), &(u32, u32))| one.1 + 1 == next.0;
        let actions: Vec<(u32, u32)> = nodes.iter().filter_map(EarlierWorkNode::actions).collect();
        assert!(actions.iter().zip(&actions[1..]).all(follow), "{actions:?}");
    }
}

fn a_client_that_sends_its_original_history_reaches_every_block_too() {
    for api_format in ApiFormat::ALL {
        let (story, body) = tell(api_format, 2, 40, None, Client::SendsTheOriginal);
        story.assert_right(15);
        assert!(checkpoint(api_format, &body).is_some_and(|text| text.contains("## Earlier Work")));
    }
}

fn without_originals_no_node_claims_a_handle_and_the_overview_is_there_all_the_same() {
    for api_format in ApiFormat::ALL {
        let (story, body) = tell(api_format, 3, 60, Some(Originals::Discarded), Client::SendsTheResult);
        story.assert_right(25);
        let text = checkpoint(api_format, &body).unwrap();
        assert!(text.contains("stretches\n") && handles(&text).is_empty(), "{text}");
    }
}

/// A message of more bytes is none of a session in so small a window.
const LARGEST: usize = 100_000;

/// The real bodies of a dialect, one after another, as one session.
fn one_after_another(api_format: ApiFormat) -> (Value, Vec<Value>) {
    let mut first: Option<Value> = None;
    let mut messages = Vec::new();
    for (_, _, body) in real_bodies().into_iter().filter(|(_, of, _)| *of == api_format) {
        let mut body: Value = serde_json::from_str(&body).unwrap();
        let Some(list) = body.get_mut("messages").and_then(Value::as_array_mut) else { continue };
        let list = std::mem::take(list);
        if list.iter().any(|message| message.to_string().len() > LARGEST) {
            continue;
        }
        messages.extend(list.into_iter().filter(|message| message["role"] != "system"));
        first.get_or_insert(body);
    }
    (first.unwrap(), messages)
}

fn every_block_of_a_long_real_session_is_reached_within_a_window_of_64_000() {
    for api_format in [ApiFormat::Chat, ApiFormat::Messages] {
        let (envelope, messages) = one_after_another(api_format);
        let mut story = Story::new(api_format, 64_000);
        let mut view: Vec<Value> = Vec::new();
        let mut new = 0;
        for (at, message) in messages.iter().enumerate() {
            new += message.to_string().len();
            view.push(message.clone());
            // A request ends with what the model is to answer.
            let ends = messages.get(at + 1).is_none_or(|next| next["role"] == "assistant");
            if new < 20_000 || !ends {
                continue;
            }
            new = 0;
            let mut body = envelope.clone();
            body["messages"] = view.into();
            let (out, _) = story.send(body.to_string(), &Ledger::default());
            let mut out: Value = serde_json::from_str(&out).unwrap();
            view = std::mem::take(out["messages"].as_array_mut().unwrap());
        }
        let mut body = envelope.clone();
        body["messages"] = view.into();
        let text = checkpoint(api_format, &body.to_string()).unwrap();
        let bytes: usize = messages.iter().map(|message| message.to_string().len()).sum();
        say!("{api_format}: {} compactions of {bytes} bytes, {} blocks gone\n{text}", story.rounds, story.gone.len());
        for node in Checkpoint::parse(&text).unwrap().earlier_work().iter().take(1) {
            say!("=== {}\n{}", node.heading(), story.kept[node.recall_id().unwrap()]);
        }
        story.assert_right(10);
    }
}
