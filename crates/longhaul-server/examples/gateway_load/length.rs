//! What a turn takes as a session grows: time, CPU and memory at 20, 100, 400 and 1,000 messages.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use crate::Outcome;
use crate::bench::Bench;
use crate::client::Connection;
use crate::process::{Family, cpu, memory};
use crate::record::{heading, median, rounded};
use crate::story::{Draft, Story, Wanted};

const MARKS: [usize; 4] = [20, 100, 400, 1000];
/// So many turns up to each mark are measured, or all there are.
const WINDOW: usize = 20;
const SESSIONS: u64 = 4;

/// One session and the two ways its requests go.
struct Played {
    story: Story,
    through: Connection,
    direct: Connection,
}

/// What one turn took.
struct Turn {
    through: f64,
    direct: f64,
}

/// What stands at one mark.
struct At {
    messages: usize,
    kilobytes: f64,
    added: f64,
    cpu: f64,
    memory: f64,
}

pub(crate) async fn measure(bench: &Bench) -> Outcome<()> {
    let Some(gateway) = bench.fresh_gateway().await? else { return Ok(()) };
    heading("a turn by the length of its session");
    let mut played = Vec::new();
    for session in 0..SESSIONS {
        let mut draft = Draft::agent(600_000_000 + session);
        (0..MARKS[MARKS.len() - 1] / 2).for_each(|_| draft.work());
        let through = Connection::open(gateway.address).await?;
        let direct = Connection::open(bench.upstream.address).await?;
        played.push(Played { story: draft.told(), through, direct });
    }
    let used = || gateway.id.map(|id| cpu(id, Family::Itself)).unwrap_or_default();
    let (mut from, mut marks) = (0, Vec::new());
    for messages in MARKS {
        let until = messages / 2;
        let (mut turns, mut spent) = (Vec::new(), Duration::ZERO);
        let window = from.max(until.saturating_sub(WINDOW));
        for one in &mut played {
            for number in from..window {
                one.through.exchange(&one.story.body(number, Wanted::Whole)).await?;
            }
            let before = used();
            for number in window..until {
                turns.push(one.turn(number).await?);
            }
            spent += used().saturating_sub(before);
        }
        from = until;
        let added = turns.iter().map(|turn| turn.through - turn.direct).collect::<Vec<_>>();
        marks.push(At {
            messages,
            kilobytes: played[0].story.body(until - 1, Wanted::Whole).len() as f64 / 1e3,
            added: median(&added),
            cpu: spent.as_secs_f64() * 1e3 / turns.len() as f64,
            memory: gateway.id.map_or(0.0, |id| memory(id).now),
        });
    }
    say(bench, &marks)
}

impl Played {
    async fn turn(&mut self, number: usize) -> Outcome<Turn> {
        let body = self.story.body(number, Wanted::Whole);
        let begin = Instant::now();
        self.through.exchange(&body).await?;
        let through = begin.elapsed().as_secs_f64() * 1e3;
        let begin = Instant::now();
        self.direct.exchange(&body).await?;
        Ok(Turn { through, direct: begin.elapsed().as_secs_f64() * 1e3 })
    }
}

fn say(bench: &Bench, marks: &[At]) -> Outcome<()> {
    for at in marks {
        let fields = json!({"what": "length", "messages": at.messages, "body_kb": rounded(at.kilobytes),
            "added_ms": rounded(at.added), "cpu_ms": rounded(at.cpu), "memory_mb": rounded(at.memory)});
        let words = format!(
            "{:>4} messages, {:>4.0} KB: {:>6.2} ms added (median), {:>6.2} ms CPU a turn, {:>4.0} MB for {SESSIONS} sessions",
            at.messages, at.kilobytes, at.added, at.cpu, at.memory
        );
        bench.record.row(&fields, &words)?;
    }
    let [first, .., last] = marks else { return Ok(()) };
    let ratios = [last.added / first.added, last.cpu / first.cpu, last.memory / first.memory];
    let fields = json!({"what": "length ratio", "added": rounded(ratios[0]), "cpu": rounded(ratios[1]),
        "memory": rounded(ratios[2]), "body": rounded(last.kilobytes / first.kilobytes)});
    let words = format!(
        "→ last beside first: time {:.1}, CPU {:.1}, memory {:.1}; the body itself {:.1}",
        ratios[0],
        ratios[1],
        ratios[2],
        last.kilobytes / first.kilobytes
    );
    bench.record.row(&fields, &words)
}
