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
    spent: Vec<Spent>,
}

type Tallies = BTreeMap<&'static str, Tally>;

impl Tally {
    fn add(&mut self, (ran, spent): (Ran, Spent)) {
        self.rates.push(ran.rate());
        self.spent.push(spent);
        self.ran.add(ran);
    }

    fn cpu(&self, of: fn(&Spent) -> Duration) -> f64 {
        median(&self.spent.iter().map(|spent| micros(of(spent))).collect::<Vec<_>>())
    }
}

/// The whole section: both sizes, both courses, and the latencies of sessions that grow.
pub(crate) async fn measure(bench: &Bench) -> Outcome<()> {
    let gateway = bench.fresh_gateway().await?;
    let targets = bench.targets(gateway.as_ref());
    for (number, size) in [Size::Small, Size::Long].into_iter().enumerate() {
        let base = number as u64 * 100;
        let growing = rounds(bench, &targets, size, Course::Growing, base, Pace::Closed).await?;
        throughput(bench, size, Course::Growing, &growing)?;
        let same = rounds(bench, &targets, size, Course::Same, base + 30, Pace::Closed).await?;
        throughput(bench, size, Course::Same, &same)?;
        let slowest = growing.get(GATEWAY).or(growing.get(NGINX[0]));
        let half = slowest.map_or(0.0, |tally| median(&tally.rates)) / 2.0;
        let open = rounds(bench, &targets, size, Course::Growing, base + 60, Pace::Open(half)).await?;
        latency(bench, size, half, &open)?;
    }
    Ok(())
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
    for (target, tally) in tallies {
        let rate = median(&tally.rates);
        let (between, upstream, load) = (
            tally.cpu(|spent| spent.between),
            tally.cpu(|spent| spent.upstream),
            tally.cpu(|spent| spent.load),
        );
        let fields = json!({"what": "throughput", "bodies": size_name, "course": course_name, "target": target,
            "requests_per_second": rounded(rate), "cpu_us": {"between": rounded(between),
            "upstream": rounded(upstream), "load": rounded(load)}, "actions": tally.ran.actions});
        let words = format!(
            "{target:<17} {rate:>7.0}/s   CPU a request: {between:>6.0} µs, upstream {upstream:>4.0}, load {load:>4.0}   {}",
            actions(&tally.ran)
        );
        bench.record.row(&fields, &words)?;
    }
    let Some(gateway) = tallies.get(GATEWAY) else { return Ok(()) };
    let goal = match size {
        Size::Small => 0.5,
        Size::Long => 0.25,
    };
    let plain = NGINX.iter().filter_map(|name| tallies.get(name));
    let ratio = plain.map(|nginx| median(&ratios(gateway, nginx))).fold(f64::INFINITY, f64::min);
    let what = format!("requests a second beside nginx, {size_name} bodies, {course_name}");
    bench.record.judged(&what, ratio, Goal::AtLeast(goal))
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
    for (target, tally) in tallies {
        let [median, p99] = [0.5, 0.99].map(|share| millis(tally.ran.quantile(share)));
        let fields = json!({"what": "latency", "bodies": size_name, "target": target,
            "requests_per_second": rounded(rate), "median_ms": rounded(median), "p99_ms": rounded(p99),
            "added_median_ms": rounded(median - base_median), "added_p99_ms": rounded(p99 - base_p99)});
        let words = format!(
            "{target:<17} median {median:>6.2} ms (added {:>6.2})   P99 {p99:>6.2} ms (added {:>6.2})   {}",
            median - base_median,
            p99 - base_p99,
            actions(&tally.ran)
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

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
