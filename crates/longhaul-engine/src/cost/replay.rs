//! A session, request by request: what each would have read, written and paid, had somebody compacted on the way.
//!
//! ```text
//! original   [ m0 m1 m2 m3 m4 m5 m6 m7 ]
//! view       [ m0 checkpoint m4 ] m5 m6 m7      one view from compaction to compaction: the rest is the session's own
//! ```
//!
//! Between two compactions what is sent only grows, because a ledger replays the cuts. So a compaction is planned on what was
//! last sent, and all other requests cost no more than their new messages.
//!
//! What a compaction forgot has its price. A reply that uses a value or a line which its request lacks could not have been given:
//! before it the agent fetches the step that had it, with a request more, and carries it from then on.
//!
//! ```text
//! view       [ m0 checkpoint m4 ] m5 m6 ( m2 m3 ) m7      m7 uses what stood in m3
//! ```

use std::time::Duration;

use super::course::Course;
use super::schedule::{Band, CacheState, LastCompaction, Outlook, Prospect, Verdict, decide};
use super::session::{Sent, Session};
use super::view::View;
use crate::cache::{self, Cache, Carrier, Mark, Marking, Rhythm, Rules, Traffic};
use crate::known::Known;
use crate::plan::{CountFacts, Engine, Plan, StateReport, Trigger, Wish, minimum_size};
use crate::policy::{CacheStrategy, CacheTtl, Policy};
use crate::prices::{Bill, Dollars, Price, Usage};
use crate::wire::{self, Lifetime};
use crate::{Refused, Tokens};

/// A session, when its requests were sent, and to whom.
#[derive(Debug, Clone, Copy)]
pub struct Replay<'r, 's, 'b> {
    /// The session.
    pub session: &'r Session<'s, 'b>,
    /// Its requests.
    pub requests: &'r [Sent],
    /// The pause before each.
    pub pauses: &'r [Duration],
    /// How the provider caches.
    pub rules: Rules,
    /// What it charges.
    pub price: &'r Price,
    /// How marks are set, where they are.
    pub marks: Option<Marks>,
}

/// How marks are set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Marks {
    /// Where.
    pub strategy: CacheStrategy,
    /// For how long.
    pub ttl: CacheTtl,
    /// What carries one in a Chat body.
    pub carrier: Carrier,
}

/// One request of a replay.
#[derive(Debug, Clone, PartialEq)]
pub struct Turn {
    /// When it was sent, counted from the first.
    pub at: Duration,
    /// What it held.
    pub tokens: Tokens,
    /// What became of it in the cache.
    pub traffic: Traffic,
    /// What came back.
    pub output: Tokens,
    /// What it cost.
    pub bill: Bill,
    /// The compaction before it.
    pub compacted: Option<Compacted>,
    /// What had to be fetched again before it could be answered, one step each.
    pub forgotten: Vec<Fetched>,
}

impl Turn {
    /// What it used, and what the steps before it did.
    #[must_use]
    pub fn usage(&self) -> Usage {
        let own = self.traffic.usage(self.output);
        self.forgotten.iter().fold(own, |sum, step| sum + step.traffic.usage(step.output))
    }

    /// What it cost, and what the steps before it did.
    #[must_use]
    pub fn paid(&self) -> Dollars {
        self.forgotten.iter().fold(self.bill.total(), |sum, step| sum + step.bill.total())
    }
}

/// A step that an agent has to take again, because a compaction took away what it brought.
#[derive(Debug, Clone, PartialEq)]
pub struct Fetched {
    /// The unit of the session that it is.
    pub unit: usize,
    /// The tokens that it adds to every later request.
    pub tokens: Tokens,
    /// What became of its request in the cache.
    pub traffic: Traffic,
    /// The tokens that the model writes for it.
    pub output: Tokens,
    /// What it cost.
    pub bill: Bill,
}

/// A compaction of a replay.
#[derive(Debug, Clone, PartialEq)]
pub struct Compacted {
    /// Tokens before,
    pub before: Tokens,
    /// and after.
    pub after: Tokens,
    /// Why, in words.
    pub reason: String,
    /// What it was worth, where that was weighed.
    pub verdict: Option<Verdict>,
}

/// What a replayed session used and cost.
#[must_use]
pub fn total(turns: &[Turn]) -> (Usage, Dollars) {
    turns.iter().fold((Usage::default(), Dollars::ZERO), |(used, paid), turn| {
        (used + turn.usage(), paid + turn.paid())
    })
}

impl Replay<'_, '_, '_> {
    /// Goes through the session on one course.
    ///
    /// # Errors
    /// A compaction that could not be written down, which would be a mistake of ours.
    pub fn run(&self, course: Course, policy: &Policy, known: &mut Known) -> Result<Vec<Turn>, Refused> {
        let mut run = Run {
            replay: self,
            course,
            policy,
            known,
            cache: Cache::new(self.rules),
            view: View::start(self.session),
            now: Duration::ZERO,
            in_vain: 0,
            last: None,
            not_before: Tokens::ZERO,
        };
        (0..self.requests.len()).map(|at| run.turn(at)).collect()
    }

    fn pause(&self, at: usize) -> Duration {
        self.pauses.get(at).copied().unwrap_or_default()
    }
}

/// A replay under way.
struct Run<'k, 'r, 's, 'b> {
    replay: &'k Replay<'r, 's, 'b>,
    course: Course,
    policy: &'k Policy,
    known: &'k mut Known,
    cache: Cache,
    view: View,
    now: Duration,
    /// How many compactions in a row came to little.
    in_vain: u32,
    last: Option<LastCompaction>,
    /// None is tried until this size.
    not_before: Tokens,
}

/// A plan for one request.
enum Planned {
    /// The threshold gives way to a large minimum size, so that the request is not compacted yet.
    NotDue,
    /// The request is due, and no compaction makes it smaller.
    Nothing,
    /// The request after its compaction, and the reason for it.
    Ready(Box<View>, String),
}

impl Run<'_, '_, '_, '_> {
    fn turn(&mut self, at: usize) -> Result<Turn, Refused> {
        let sent = self.replay.requests[at];
        if at > 0 {
            self.now += self.replay.pause(at);
        }
        if sent.asked {
            // What was in the way may be over: a loop with bound reasoning ends where a person speaks.
            self.not_before = Tokens::ZERO;
        }
        self.view.grow(self.replay.session, sent.pieces);
        let compacted = self.compact(at)?;
        let missing = self.view.missing(self.replay.session, at);
        let forgotten = missing.into_iter().map(|unit| self.fetch(at, unit)).collect();
        let traffic = self.send(at);
        let bill = traffic.usage(sent.output).bill(self.replay.price);
        let tokens = self.view.total();
        Ok(Turn { at: self.now, tokens, traffic, output: sent.output, bill, compacted, forgotten })
    }

    fn send(&mut self, at: usize) -> Traffic {
        let marks = self.marks(&self.view, at);
        self.cache.send(self.now, &self.view.request(&marks))
    }

    /// Takes a step again: a request as it is, a reply that calls, and what comes back.
    fn fetch(&mut self, at: usize, unit: usize) -> Fetched {
        let traffic = self.send(at);
        let before = self.view.total();
        let output = self.view.fetch(self.replay.session, unit);
        let bill = traffic.usage(output).bill(self.replay.price);
        Fetched { unit, tokens: self.view.total() - before, traffic, output, bill }
    }

    /// Compacts if the course says so.
    fn compact(&mut self, at: usize) -> Result<Option<Compacted>, Refused> {
        let before = self.view.total();
        let Some(engine) = self.course.engine() else { return Ok(None) };
        let weighed = self.course == Course::Scheduler;
        let due = if weighed { self.band(at).comfortable } else { engine.starts_at(self.policy) };
        if before < due.max(self.not_before) {
            return Ok(None);
        }
        if weighed && !self.verdict(at, self.expected()).decision.compacts() {
            return Ok(None);
        }
        let (view, reason) = match self.planned(engine)? {
            Planned::Ready(view, reason) => (view, reason),
            Planned::NotDue => return Ok(None),
            Planned::Nothing => {
                self.note(before, before);
                return Ok(None);
            }
        };
        let verdict = weighed.then(|| {
            let after = Prospect { tokens: view.total(), warm: self.warm(&view, at) };
            self.verdict(at, after)
        });
        if verdict.is_some_and(|verdict| !verdict.decision.compacts()) {
            self.wait(before);
            return Ok(None);
        }
        self.view = *view;
        let after = self.view.total();
        self.last = Some(LastCompaction { left: after, removed: before - after });
        self.note(before, after);
        Ok(Some(Compacted { before, after, reason, verdict }))
    }

    /// Two attempts in a row that came to little are enough for a while.
    fn note(&mut self, before: Tokens, after: Tokens) {
        let saved = 1.0 - after.number() as f64 / before.number().max(1) as f64;
        self.in_vain = StateReport::after(self.in_vain, saved).ineffective_in_a_row;
        if self.in_vain >= 2 {
            self.wait(after);
        }
    }

    /// Nothing is tried again until the request has grown by a twentieth of the window.
    fn wait(&mut self, size: Tokens) {
        self.not_before = size + self.policy.window / 20;
    }

    /// What a compaction of the request as it is now would leave.
    fn planned(&mut self, engine: &dyn Engine) -> Result<Planned, Refused> {
        let session = self.replay.session;
        let body = self.view.body(session)?;
        let (transcript, _) = wire::parse(session.transcript.dialect, &body)?;
        let weighed = self.course == Course::Scheduler;
        let minimum = minimum_size(self.policy, self.known, &transcript);
        let reply = self.policy.reply_room(transcript.longest_reply);
        let threshold = self.policy.threshold_over(engine.starts_at(self.policy), minimum, reply);
        if !weighed && self.view.total() < threshold {
            return Ok(Planned::NotDue);
        }
        let wish =
            Wish { trigger: Trigger::Preflight, force: weighed, facts: CountFacts::No, ..Wish::default() };
        let early = self.policy.early(self.view.total());
        let policy = if weighed { &early } else { self.policy };
        let plan = engine.compact(policy, &wish, self.known, &transcript)?;
        let Plan::Ready(outcome) = plan else { return Ok(Planned::Nothing) };
        let view = self.view.compacted(outcome.body, session, &self.policy.model, self.known)?;
        Ok(Planned::Ready(Box::new(view), outcome.report.reason))
    }

    fn band(&self, at: usize) -> Band {
        let is_cached = self.warm(&self.view, at) > Tokens::ZERO;
        let cache = if is_cached || at == 0 { CacheState::Kept } else { CacheState::Expired };
        Band::new(self.policy, self.policy.threshold, cache, self.last)
    }

    fn verdict(&self, at: usize, compact: Prospect) -> Verdict {
        let leave = Prospect { tokens: self.view.total(), warm: self.warm(&self.view, at) };
        let session = self.replay.session;
        let sent = self.replay.requests[at].pieces;
        let since = self.replay.requests[at.saturating_sub(RECENT)].pieces;
        let growth = (session.size(sent) - session.size(since)).number() / at.clamp(1, RECENT) as u64;
        let outlook = Outlook {
            leave,
            compact,
            turns: at,
            growth: Tokens(growth),
            pauses: self.replay.pauses.get(1..=at).unwrap_or_default(),
            lifetime: self.lifetime(at),
            summary: Dollars::ZERO,
        };
        decide(&self.band(at), &outlook, self.replay.price)
    }

    /// What a compaction is expected to leave, before one is planned: what must stay, the tail and a checkpoint.
    fn expected(&self) -> Prospect {
        let head = self.view.preamble();
        let rest = self.view.total() - head;
        let tail = self.policy.early(self.view.total()).tail.min(rest);
        let checkpoint = self.policy.checkpoint.tokens(rest - tail);
        let warm = if self.cache.keeps(self.now, &self.view.chain) { head } else { Tokens::ZERO };
        Prospect { tokens: head + tail + checkpoint, warm }
    }

    fn warm(&self, view: &View, at: usize) -> Tokens {
        self.cache.warm(self.now, &view.request(&self.marks(view, at)))
    }

    fn marks(&self, view: &View, at: usize) -> Vec<Mark> {
        let Some(Marks { strategy, carrier, .. }) =
            self.replay.marks.filter(|_| self.course != Course::Nothing)
        else {
            return Vec::new();
        };
        let first = view.sizes.iter().position(|size| *size >= self.replay.rules.minimum);
        let marking = Marking { strategy, lifetime: self.lifetime(at), carrier, first };
        cache::marks(&view.landmarks, &view.reading, &marking)
    }

    fn lifetime(&self, at: usize) -> Lifetime {
        match self.replay.marks.map(|marks| marks.ttl) {
            None | Some(CacheTtl::FiveMinutes) => Lifetime::FiveMinutes,
            Some(CacheTtl::OneHour) => Lifetime::OneHour,
            Some(CacheTtl::Auto) => {
                let pauses = self.replay.pauses.get(1..at).unwrap_or_default();
                let prefix = self.view.total();
                let added = Tokens(prefix.number() / (at as u64 + 1));
                cache::lifetime(&Rhythm { pauses, prefix, added }, self.replay.price).lifetime
            }
        }
    }
}

/// Over so many turns it is judged what a turn adds.
const RECENT: usize = 20;
