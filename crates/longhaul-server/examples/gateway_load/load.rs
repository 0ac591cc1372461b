//! Load on one address: every connection plays its own list of requests, as fast as replies come or at a fixed rate.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::Outcome;
use crate::client::Connection;
use crate::story::Body;

/// What one connection sends, in order.
pub(crate) type Script = Vec<Body>;

/// When requests are sent.
#[derive(Clone, Copy)]
pub(crate) enum Pace {
    /// The next one when the reply is there.
    Closed,
    /// So many a second, over all connections, evenly.
    Open(f64),
}

/// What a run came to.
#[derive(Default)]
pub(crate) struct Ran {
    pub(crate) times: Vec<Duration>,
    pub(crate) actions: BTreeMap<String, usize>,
    pub(crate) took: Duration,
}

impl Ran {
    pub(crate) fn rate(&self) -> f64 {
        self.times.len() as f64 / self.took.as_secs_f64()
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.times.extend(other.times);
        for (action, count) in other.actions {
            *self.actions.entry(action).or_default() += count;
        }
        self.took += other.took;
    }

    /// The time that this share of the requests did not exceed.
    pub(crate) fn quantile(&self, share: f64) -> Duration {
        let mut sorted = self.times.clone();
        sorted.sort_unstable();
        let at = (sorted.len() as f64 * share).ceil() as usize;
        sorted.get(at.saturating_sub(1)).copied().unwrap_or_default()
    }
}

/// The longest that a run at a fixed rate lasts: scripts that would take longer are cut short.
const LONGEST: f64 = 5.0;

/// Plays all scripts at once, one connection each.
pub(crate) async fn play(address: SocketAddr, scripts: &[Script], pace: Pace) -> Outcome<Ran> {
    let mut lines = Vec::new();
    for script in scripts {
        let most = match pace {
            Pace::Closed => script.len(),
            Pace::Open(rate) => (rate * LONGEST / scripts.len() as f64).ceil() as usize,
        };
        let script: Script = script.iter().take(most).cloned().collect();
        lines.push((Connection::open(address).await?, script));
    }
    let (begin, count) = (Instant::now(), lines.len());
    let mut playing = JoinSet::new();
    for (number, (connection, script)) in lines.into_iter().enumerate() {
        let every = match pace {
            Pace::Closed => None,
            Pace::Open(rate) => Some(Schedule {
                first: begin + Duration::from_secs_f64(number as f64 / rate),
                gap: Duration::from_secs_f64(count as f64 / rate),
            }),
        };
        playing.spawn(one(connection, script, every));
    }
    let mut ran = Ran::default();
    while let Some(part) = playing.join_next().await {
        ran.add(part??);
    }
    ran.took = begin.elapsed();
    Ok(ran)
}

/// When the requests of one connection are due.
struct Schedule {
    first: Instant,
    gap: Duration,
}

async fn one(mut connection: Connection, script: Script, schedule: Option<Schedule>) -> Outcome<Ran> {
    let mut ran = Ran::default();
    for (number, body) in script.iter().enumerate() {
        let due = schedule.as_ref().map(|schedule| schedule.first + schedule.gap * number as u32);
        let from = match due {
            // The reply before came late: what this request had to wait for it is its own time, too.
            Some(due) if due <= Instant::now() => due,
            // A timer is exact to the millisecond only, which is nobody's time but ours.
            Some(due) => {
                sleep_until(due).await;
                Instant::now()
            }
            None => Instant::now(),
        };
        let action = connection.exchange(body).await?;
        ran.times.push(from.elapsed());
        if let Some(action) = action {
            *ran.actions.entry(action).or_default() += 1;
        }
    }
    Ok(ran)
}
