//! Runs a case: writes its session in each dialect, compacts it round by round, and looks at what comes out.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use longhaul_engine::block_cache::BlockCache;
use longhaul_engine::check::{Severity, check, compare};
use longhaul_engine::ledger::Ledger;
use longhaul_engine::plan::{CompactionReport, EngineRegistry, Plan, PlanInput};
use longhaul_engine::{ApiFormat, wire};

use crate::case::{Case, Client, Golden};
use crate::holds::Held;
use crate::policy::{Setting, setting};
use crate::render::View;
use crate::support::notation::Session;
use crate::support::write;

/// What running a case gave.
pub struct Made {
    pub failures: Vec<String>,
    /// For each round.
    pub goldens: Vec<Vec<Golden>>,
}

pub fn run(case: &Case) -> Made {
    let mut all = Session::default();
    let mut ends = Vec::new();
    for round in &case.rounds {
        all.extend(round.lines.iter().map(String::as_str));
        ends.push(all.units.len());
    }
    let mut failures = Vec::new();
    let mut rendered: Vec<Vec<(ApiFormat, Rendered)>> = case.rounds.iter().map(|_| Vec::new()).collect();
    for api_format in case.dialects() {
        let mut body = String::new();
        let mut ledger = Ledger::default();
        let mut first = 0;
        for (at, round) in case.rounds.iter().enumerate() {
            let setting = setting(api_format, &[case.policy(), round.policy()]);
            let so_far = Session { units: all.units[..ends[at]].to_vec(), ..all.clone() };
            let original = write::body(api_format, &setting.model, &so_far, &all);
            let previous = std::mem::take(&mut body);
            body = match case.client() {
                _ if at == 0 => original.clone(),
                Client::SendsTheResult => write::grown(api_format, &previous, &all.units[first..ends[at]], first),
                Client::SendsTheOriginal => original.clone(),
            };
            first = ends[at];
            failures.extend(unexpected(case, api_format, &setting, &original));
            let round = Run {
                dialect: api_format,
                setting: &setting,
                original: &original,
                body: &body,
                ledger: &ledger,
                case,
                holds: &round.holds,
            };
            let (output, later, lines, mut wrong) = round.finish(so_far.units.len());
            if at > 0 && case.client() == Client::SendsTheOriginal && later.epoch == ledger.epoch {
                wrong.extend(not_extended(api_format, &previous, &output));
            }
            let place =
                if case.rounds.len() > 1 { format!("{api_format}, round {}", at + 1) } else { api_format.to_string() };
            failures.extend(wrong.into_iter().map(|wrong| format!("{place}: {wrong}")));
            rendered[at].push((api_format, lines));
            body = output;
            ledger = match case.client() {
                Client::SendsTheResult => Ledger::default(),
                Client::SendsTheOriginal => later,
            };
        }
    }
    Made { failures, goldens: rendered.into_iter().map(grouped).collect() }
}

/// What is wrong with an input, beyond what its case says.
fn unexpected(case: &Case, api_format: ApiFormat, setting: &Setting, body: &str) -> Vec<String> {
    let target = setting.policy.model.target(api_format);
    let errors = check(body, api_format, &target).into_iter().filter(|v| v.severity == Severity::Error);
    let unexpected = errors.filter(|v| !case.breaks().any(|rule| rule == v.rule));
    unexpected.map(|v| format!("{api_format}: the input breaks {} at {}: {}", v.rule, v.at, v.message)).collect()
}

/// How an output does not go on from the one before, which it must do block for block until the next compaction.
fn not_extended(api_format: ApiFormat, previous: &str, output: &str) -> Option<String> {
    let sketch = |body: &str| crate::support::sketch(&wire::parse(api_format, body).unwrap().0);
    let (previous, now) = (sketch(previous), sketch(output));
    if now.starts_with(&previous) {
        return None;
    }
    let at = previous.iter().zip(&now).position(|(a, b)| a != b);
    let was = at.map_or("less than before", |at| &previous[at]);
    Some(format!("no compaction, and yet it does not go on from what was sent before: {was}"))
}

/// What a round looks like.
pub struct Rendered {
    pub after: String,
    pub report: String,
}

/// The same lines once, under the dialects that have them; without names where all have.
pub fn grouped(round: Vec<(ApiFormat, Rendered)>) -> Vec<Golden> {
    let count = round.len();
    let mut goldens: Vec<Golden> = Vec::new();
    for name in ["after", "report"] {
        for (api_format, rendered) in &round {
            let text = if name == "after" { &rendered.after } else { &rendered.report };
            let lines: Vec<String> = text.lines().map(|line| line.trim_end().to_owned()).collect();
            let same = goldens.iter_mut().find(|golden| golden.name == name && golden.lines == lines);
            match same {
                Some(golden) => golden.dialects.push(*api_format),
                None => goldens.push(Golden { name, dialects: vec![*api_format], lines }),
            }
        }
    }
    for golden in goldens.iter_mut().filter(|golden| golden.dialects.len() == count) {
        golden.dialects.clear();
    }
    goldens
}

/// One compaction.
struct Run<'r> {
    dialect: ApiFormat,
    setting: &'r Setting,
    /// The session as nobody compacted it.
    original: &'r str,
    body: &'r str,
    /// What was decided in the rounds before.
    ledger: &'r Ledger,
    case: &'r Case,
    holds: &'r [String],
}

impl Run<'_> {
    /// The body that comes out, with what was decided; how it looks, what is wrong with it.
    fn finish(&self, turns: usize) -> (String, Ledger, Rendered, Vec<String>) {
        let mut wrong = Vec::new();
        let (output, ledger, report) = self.compact(self.body, self.ledger, &mut BlockCache::default());
        let (original, _) = wire::parse(self.dialect, self.original).unwrap();
        if original.turns.len() != turns {
            let sketch = crate::support::sketch(&original).join("\n");
            let wrong = format!(
                "{turns} units are written and {} are read; a reply goes on in the call behind it\n{sketch}",
                original.turns.len()
            );
            return (output, ledger, Rendered { after: String::new(), report: String::new() }, vec![wrong]);
        }
        let (after, _) = wire::parse(self.dialect, &output).unwrap();
        let view = View::new(&original, &after);
        self.judge(&output, &report, &mut wrong);
        let flags = view.changed_flags().into_iter();
        wrong.extend(flags.map(|number| format!("whether {number} failed is said otherwise")));
        let counter = self.setting.policy.model.counter();
        let held = Held {
            dialect: self.dialect,
            view: &view,
            output: &after,
            report: &report,
            count: &|text| counter.count(text),
        };
        for line in self.holds.iter().filter(|line| !line.trim().is_empty()) {
            wrong.extend(held.refutes(line).map(|why| format!("`{}` does not hold: {why}", line.trim())));
        }
        let after = if report.changed { view.lines() } else { "the same\n".to_owned() };
        let rendered = Rendered { after, report: said(&report) };
        (output, ledger, rendered, wrong)
    }

    fn compact(&self, body: &str, ledger: &Ledger, cache: &mut BlockCache) -> (String, Ledger, CompactionReport) {
        let Setting { policy, wish, .. } = self.setting;
        let (transcript, _) = wire::parse(self.dialect, body).unwrap();
        let plan = EngineRegistry::default()
            .find_or_compressor(&policy.engine)
            .plan(ledger, PlanInput { policy, options: wish, cache, transcript: &transcript });
        match plan.unwrap() {
            Plan::Unchanged(report) => (body.to_owned(), ledger.clone(), report),
            Plan::Ready(outcome) => {
                assert_eq!(outcome.rewrite.apply(body), outcome.body);
                assert_eq!(outcome.rewrite.inverse(body).apply(&outcome.body), body, "undo gives back the bytes");
                (outcome.body, outcome.ledger, outcome.report)
            }
        }
    }

    /// What must hold whatever the case is about.
    fn judge(&self, output: &str, report: &CompactionReport, wrong: &mut Vec<String>) {
        let target = self.setting.policy.model.target(self.dialect);
        let broken = |body: &str| {
            let found = check(body, self.dialect, &target).into_iter();
            found.map(|v| (v.rule, v.severity, v.message)).collect::<Vec<_>>()
        };
        let before: BTreeSet<_> = broken(self.body).into_iter().map(|(rule, severity, _)| (rule, severity)).collect();
        let new = broken(output).into_iter().filter(|(rule, severity, _)| !before.contains(&(rule, *severity)));
        wrong.extend(new.map(|(rule, _, message)| format!("breaks {rule}: {message}")));
        let compared = compare(self.body, output, self.dialect, &target).into_iter();
        let may = |rule: &str| self.case.may_break().any(|allowed| allowed == rule);
        let errors = compared.filter(|v| v.severity == Severity::Error && !may(v.rule));
        wrong.extend(errors.map(|v| format!("breaks {} at {}: {}", v.rule, v.at, v.message)));
        if report.tokens.after > report.tokens.before {
            wrong.push(format!("grew: {} → {} tokens", report.tokens.before, report.tokens.after));
        }
        let mut cache = BlockCache::default();
        for _ in 0..2 {
            if self.compact(self.body, self.ledger, &mut cache).0 != output {
                wrong.push("another run gives other bytes".to_owned());
            }
        }
        let (again, _, report) = self.compact(output, &Ledger::default(), &mut cache);
        if again != output {
            wrong.push(format!("compacted again, it changes: {}", report.reason));
        }
    }
}

/// The report in one line, and a line for each note; numbers of tokens would be other ones in each dialect.
fn said(report: &CompactionReport) -> String {
    if !report.changed {
        return format!("left · {}\n", words_only(&report.reason));
    }
    let mut line = "smaller".to_owned();
    let turns = report.units;
    for (count, what) in [(turns.summarized, "folded"), (turns.digested, "digested"), (turns.dropped, "dropped")] {
        if count > 0 {
            let _ = write!(line, " · {count} {what}");
        }
    }
    let notes = report.notes.iter().map(|note| format!("note: {}\n", words_only(note)));
    line + "\n" + &notes.collect::<String>()
}

/// The text with every number as `N`.
fn words_only(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
        out.push_str(&rest[..at]);
        out.push('N');
        let number = rest[at..].trim_start_matches(|c: char| c.is_ascii_digit() || c == ',' || c == '.');
        // A comma or a full stop behind the last digit is not the number's.
        let end = rest.len() - number.len();
        rest = &rest[rest[..end].trim_end_matches([',', '.']).len()..];
    }
    out + rest
}
