//! How many requests a second go through, and what a request takes longer at half of that.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;

use crate::Outcome;
use crate::bench::{Bench, DIRECT, GATEWAY, NGINX, Spent, Target};
use crate::bodies::{Course, Size, scripts};
use crate::load::{Pace, Ran};
use crate::record::{Goal, heading, median, rounded};

/// All rounds of one target.
#[derive(Default)]
struct Tally {
    ran: Ran,
    rates: Vec<f64>,
    spent: Spent,
}

type Tallies = BTreeMap<&'static str, Tally>;

impl Tally {
    fn add(&mut self, (ran, spent): (Ran, Spent)) {
        self.rates.push(ran.rate());
        self.spent.between += spent.between;
        self.spent.upstream += spent.upstream;
        self.spent.load += spent.load;
        self.ran.add(ran);
    }

    /// Microseconds of CPU a request.
    fn cpu(&self, of: fn(&Spent) -> Duration) -> f64 {
        of(&self.spent).as_secs_f64() * 1e6 / self.ran.times.len() as f64
    }

    /// The same, of all that is busy while this one is measured.
    fn cpu_of_all(&self) -> f64 {
        self.cpu(|spent| spent.between + spent.upstream + spent.load)
    }
}

/// Bodies of one size: both courses, and the latencies of sessions that grow.
pub(crate) async fn measure(bench: &Bench, size: Size) -> Outcome<()> {
    let gateway = bench.fresh_gateway().await?;
    let targets = bench.targets(gateway.as_ref());
    let growing = rounds(bench, &targets, size, Course::Growing, 0, Pace::Closed).await?;
    throughput(bench, size, Course::Growing, &growing)?;
    let same = rounds(bench, &targets, size, Course::Same, 100, Pace::Closed).await?;
    throughput(bench, size, Course::Same, &same)?;
    let slowest = growing.get(GATEWAY).or(growing.get(NGINX[0]));
    let half = slowest.map_or(0.0, |metrics| median(&metrics.rates)) / 2.0;
    let open = rounds(bench, &targets, size, Course::Growing, 200, Pace::Open(half)).await?;
    latency(bench, size, half, &open)
}

/// Targets take turns within a round, each time from another one on, so that what else the machine does meets all alike.
async fn rounds(
    bench: &Bench,
    targets: &[Target],
    size: Size,
    course: Course,
    base: u64,
    pace: Pace,
) -> Outcome<Tallies> {
    let mut tallies = Tallies::new();
    for round in 0..bench.rounds {
        let scripts = scripts(size, course, base + round);
        for turn in 0..targets.len() {
            let target = &targets[(turn + round as usize) % targets.len()];
            tallies.entry(target.name).or_default().add(bench.load(target, &scripts, pace).await?);
        }
    }
    Ok(tallies)
}

fn throughput(bench: &Bench, size: Size, course: Course, tallies: &Tallies) -> Outcome<()> {
    let (size_name, course_name) = (size.name(), course.name());
    heading(&format!("requests a second, {size_name} bodies, {course_name}"));
    for (target, metrics) in tallies {
        let rate = median(&metrics.rates);
        let (between, upstream, load) =
            (metrics.cpu(|spent| spent.between), metrics.cpu(|spent| spent.upstream), metrics.cpu(|spent| spent.load));
        let fields = json!({"what": "throughput", "bodies": size_name, "course": course_name, "target": target,
            "requests_per_second": rounded(rate), "cpu_us": {"between": rounded(between),
            "upstream": rounded(upstream), "load": rounded(load)}, "actions": metrics.ran.actions});
        let words = format!(
            "{target:<17} {rate:>7.0}/s   CPU a request: {between:>6.0} µs, upstream {upstream:>4.0}, load {load:>4.0}   {}",
            actions(&metrics.ran)
        );
        bench.record.row(&fields, &words)?;
    }
    let Some(gateway) = tallies.get(GATEWAY) else { return Ok(()) };
    let goal = match size {
        Size::Small => 0.5,
        Size::Long => 0.25,
    };
    let least = |ratio: fn(&Tally, &Tally) -> f64| {
        let plain = NGINX.iter().filter_map(|name| tallies.get(name));
        plain.map(|nginx| ratio(gateway, nginx)).fold(f64::INFINITY, f64::min)
    };
    let bodies = format!("beside nginx, {size_name} bodies, {course_name}");
    let ratio = least(|gateway, nginx| median(&ratios(gateway, nginx)));
    bench.record.judged(&format!("requests a second {bodies}"), ratio, Goal::AtLeast(goal))?;
    let ratio = least(|gateway, nginx| nginx.cpu_of_all() / gateway.cpu_of_all());
    bench.record.judged(&format!("the same by CPU time {bodies}"), ratio, Goal::AtLeast(goal))?;
    let ratio = least(|gateway, nginx| nginx.cpu(|spent| spent.between) / gateway.cpu(|spent| spent.between));
    let what = format!("by its own CPU time alone {bodies}");
    bench.record.row(&json!({"what": what, "figure": rounded(ratio)}), &format!("  {what}: {ratio:.2}"))
}

/// Round by round, because a round has its own weather.
fn ratios(gateway: &Tally, nginx: &Tally) -> Vec<f64> {
    gateway.rates.iter().zip(&nginx.rates).map(|(gateway, nginx)| gateway / nginx).collect()
}

fn latency(bench: &Bench, size: Size, rate: f64, tallies: &Tallies) -> Outcome<()> {
    let size_name = size.name();
    heading(&format!("time a request at {rate:.0} requests a second, {size_name} bodies, growing"));
    let Some(direct) = tallies.get(DIRECT) else { return Ok(()) };
    let [base_median, base_p99] = [0.5, 0.99].map(|share| millis(direct.ran.quantile(share)));
    for (target, metrics) in tallies {
        let [median, p99] = [0.5, 0.99].map(|share| millis(metrics.ran.quantile(share)));
        let fields = json!({"what": "latency", "bodies": size_name, "target": target,
            "requests_per_second": rounded(rate), "median_ms": rounded(median), "p99_ms": rounded(p99),
            "added_median_ms": rounded(median - base_median), "added_p99_ms": rounded(p99 - base_p99)});
        let words = format!(
            "{target:<17} median {median:>6.2} ms (added {:>6.2})   P99 {p99:>6.2} ms (added {:>6.2})   {}",
            median - base_median,
            p99 - base_p99,
            actions(&metrics.ran)
        );
        bench.record.row(&fields, &words)?;
        if *target == GATEWAY {
            let added = format!("ms added to {size_name} bodies at half load");
            bench.record.judged(&format!("{added}, median"), median - base_median, Goal::Under(2.0))?;
            bench.record.judged(&format!("{added}, P99"), p99 - base_p99, Goal::Under(10.0))?;
        }
    }
    Ok(())
}

fn actions(ran: &Ran) -> String {
    ran.actions.iter().map(|(action, count)| format!("{action} {count}")).collect::<Vec<_>>().join(", ")
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
