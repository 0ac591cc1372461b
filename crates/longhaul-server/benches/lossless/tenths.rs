//! What a turn cost, by where in the session it was.

use std::time::Duration;

/// One request, and what it took.
pub(crate) struct Turned {
    /// Time to read and hash it,
    pub(crate) read: Duration,
    /// to decide what is sent,
    pub(crate) decided: Duration,
    /// and to write down what is new.
    pub(crate) written: Duration,
    pub(crate) compacted: bool,
    /// Bytes that came.
    pub(crate) came: usize,
    /// Tokens that were sent,
    pub(crate) tokens: u64,
    /// and of the checkpoint that was written.
    pub(crate) checkpoint: u64,
    /// What of that is about all earlier work, where the engine keeps it apart.
    pub(crate) tree: u64,
    /// Bytes of the heap after it, without the bodies,
    pub(crate) live: usize,
    /// and at most during it, with them.
    pub(crate) peak: usize,
    /// Bytes of memory that the process has, that of the database among them.
    pub(crate) resident: usize,
    /// Bytes of what was decided so far,
    pub(crate) ledger: usize,
    /// and of how the session stands.
    pub(crate) state: usize,
}

impl Turned {
    fn time(&self) -> Duration {
        self.read + self.decided + self.written
    }
}

/// The memory that this process has.
pub(crate) fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<usize>().ok());
    kilobytes.unwrap_or(0) * 1024
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of.get(of.len() / 2).copied().unwrap_or(0.0)
}

fn milliseconds(time: Duration) -> f64 {
    1e3 * time.as_secs_f64()
}

pub(crate) fn tell(turns: &[Turned]) {
    println!(
        "tenth  turns   came  | a turn: ms  reading  deciding  writing | compacting: n    ms  reading | checkpoint  tree   sent | heap: live  peak  resident | ledger  state"
    );
    for (tenth, turns) in turns.chunks(turns.len().div_ceil(10).max(1)).enumerate() {
        let (compacted, plain): (Vec<&Turned>, Vec<&Turned>) = turns.iter().partition(|turn| turn.compacted);
        let of = |turns: &[&Turned], part: fn(&Turned) -> Duration| {
            median(turns.iter().map(|turn| milliseconds(part(turn))).collect())
        };
        let most = |part: fn(&Turned) -> usize| turns.iter().map(part).max().unwrap_or(0) as f64;
        let (last, megabytes) = (&turns[turns.len() - 1], |bytes: f64| bytes / 1e6);
        println!(
            "{tenth:5}  {:5}  {:4.2} MB | {:10.2}  {:7.2}  {:8.2}  {:7.2} | {:13}  {:5.1}  {:6.1} | {:10.0}  {:4.0}  {:5.0} | {:7.2} MB  {:5.1}  {:8.1} | {:6}  {:5}",
            turns.len(),
            megabytes(last.came as f64),
            of(&plain, Turned::time),
            of(&plain, |turn| turn.read),
            of(&plain, |turn| turn.decided),
            of(&plain, |turn| turn.written),
            compacted.len(),
            of(&compacted, Turned::time),
            of(&compacted, |turn| turn.read),
            median(compacted.iter().map(|turn| turn.checkpoint as f64).collect()),
            median(compacted.iter().map(|turn| turn.tree as f64).collect()),
            most(|turn| turn.tokens as usize),
            megabytes(last.live as f64),
            megabytes(most(|turn| turn.peak)),
            megabytes(last.resident as f64),
            last.ledger,
            last.state,
        );
    }
}
