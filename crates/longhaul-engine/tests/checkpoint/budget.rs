//! A checkpoint is never over its budget, keeps what must be there, and is made in little time.

use std::fmt::Write as _;
use std::time::Instant;

use longhaul_engine::checkpoint::{Checkpoint, Closing, Draft, Quote, Section, Voice, audit};
use longhaul_engine::redact::{Redactor, Rules};
use longhaul_engine::tokens::{Counter, Factor, Tokens, Vocabulary};
use proptest::prelude::*;

use crate::notation::{self, Told};

pub(crate) const COUNTER: Counter = Counter::exact(Vocabulary::O200kBase);

pub(crate) fn draft(told: &Told, budget: u64) -> Draft<'_> {
    Draft {
        evidence: &told.evidence,
        folded: &|_| true,
        previous: None,
        quotes: &told.quotes,
        budget: Tokens(budget),
        sections: Tokens(budget),
        terse_below: Tokens(600),
        counter: COUNTER,
        focus: None,
        closing: Closing::RequestFollows,
        voice: Voice::User,
    }
}

pub(crate) fn redactor() -> Redactor {
    Redactor::numbered(Rules::default())
}

pub(crate) fn render(checkpoint: &Checkpoint, draft: &Draft<'_>) -> String {
    checkpoint.render(draft.closing, draft.voice)
}

/// A session of so many steps, some of which fail.
pub(crate) fn session(steps: usize) -> String {
    let mut text = String::from(
        "0 ask open: Port the parser to the new grammar and keep the error messages.\n0 rule: Never change the public API.\n",
    );
    for n in 1..=steps {
        let line = match n % 7 {
            0 => format!(
                "{n} run cargo test parser_{n} -> failed 101, 3/4 tests [bash]\n{n} problem bash: error[E0{n:03}]: mismatched types in rule_{n}"
            ),
            1 | 2 => format!("{n} read src/part{}/rule_{n}.rs [read_file]", n % 5),
            3 => format!("{n} search rule_{n} [grep]"),
            4 => format!("{n} edit src/part{}/rule_{n}.rs [edit_file]", n % 5),
            5 => format!("{n} decision: Keep rule_{n} as a function => it is called from two places"),
            _ => format!(
                "{n} quote {}.5 read src/part{}/rule_{n}.rs: fn rule_{n}(input: &str) -> Result<Node, Error>",
                n % 9,
                n % 5
            ),
        };
        writeln!(text, "{line}").unwrap();
    }
    text + "state directory: /home/ana/parser\nstate tests: 3/4\n"
}

#[test]
fn no_budget_is_exceeded_and_none_is_wasted() {
    for steps in [0, 5, 60, 400] {
        let told = notation::read(&session(steps));
        let all = render(&Checkpoint::build(&draft(&told, 1_000_000), &mut redactor()), &draft(&told, 0));
        for budget in [130, 200, 300, 400, 599, 600, 1_000, 2_000, 5_000, 12_000] {
            let draft = draft(&told, budget);
            let text = render(&Checkpoint::build(&draft, &mut redactor()), &draft);
            let tokens = COUNTER.count(&text).number();
            assert!(tokens <= budget, "{tokens} of {budget} for {steps} steps\n{text}");
            let enough = COUNTER.count(&all).number().min(budget) * 8 / 10;
            assert!(tokens >= enough || budget < 600, "{tokens} of {budget} for {steps} steps\n{text}");
            assert!(text.contains("Port the parser"), "{text}");
            assert!(budget < 200 || text.contains("Never change the public API."), "{text}");
        }
    }
}

#[test]
fn the_smallest_is_the_marker_and_the_task() {
    let told = notation::read(&session(50));
    let draft = draft(&told, 10);
    let smallest = Checkpoint::smallest(&draft, &mut redactor());
    let text = render(&smallest, &draft);
    assert!(COUNTER.count(&text) <= Tokens(140), "{text}");
    assert!(text.contains("Port the parser"), "{text}");
    assert_eq!(Checkpoint::build(&draft, &mut redactor()), smallest);
    assert_eq!(Checkpoint::parse(&text), Some(smallest));
}

#[test]
fn a_long_task_is_clipped_so_that_it_shows_and_only_where_it_must_be() {
    let words: String = (0..600).map(|n| format!("word{n}")).collect::<Vec<_>>().join(" ");
    let told = notation::read(&format!("0 ask open: Start {words} finish.\n0 rule: Be brief.\n"));
    let long = draft(&told, 5_000);
    assert!(render(&Checkpoint::build(&long, &mut redactor()), &long).contains(&words));
    let short = draft(&told, 500);
    let text = render(&Checkpoint::build(&short, &mut redactor()), &short);
    assert!(text.contains("characters left out"), "{text}");
    assert!(
        text.contains("Start word0") && text.contains("finish.") && text.contains("- Be brief."),
        "{text}"
    );
}

#[test]
fn secrets_do_not_get_in() {
    let secret = "ghp_Zk3vQ8xW1nT7bY5mR2pL9cD4fH6jK0aS3dEq";
    let text = format!(
        "0 ask open: push with {secret}\n0 rule: token {secret} is mine\n1 run git push https://{secret}@github.com/a/b -> failed 128 [bash]\n\
         1 problem bash: fatal: bad token {secret}\n2 quote 5.0 read .env: GITHUB_TOKEN={secret}\n3 decision: use {secret} => it works\n\
         4 question: which token? => {secret}\n5 next: push {secret}\nstate environment: GITHUB_TOKEN={secret}\n"
    );
    let told = notation::read(&text);
    let draft = draft(&told, 3_000);
    let mut redactor = redactor();
    let text = render(&Checkpoint::build(&draft, &mut redactor), &draft);
    assert!(!text.contains(&secret[4..20]), "{text}");
    assert!(text.matches("[REDACTED:").count() >= 8, "{text}");
    let audit = audit(&text, &told.evidence, &mut redactor);
    assert!(audit.kept() + 2 >= audit.found(), "{audit:?}\n{text}");
}

#[test]
fn the_audit_finds_what_stands_there_and_nothing_else() {
    let told = notation::read(&session(60));
    let mut redactor = redactor();
    let whole = draft(&told, 50_000);
    let text = render(&Checkpoint::build(&whole, &mut redactor), &whole);
    let all = audit(&text, &told.evidence, &mut redactor);
    assert_eq!(all.found(), all.pieces.len());
    let small = draft(&told, 500);
    let part =
        audit(&render(&Checkpoint::build(&small, &mut redactor), &small), &told.evidence, &mut redactor);
    assert!(all.kept() > part.kept() && part.kept() > 3, "{} {}", all.kept(), part.kept());
    assert_eq!(audit("", &told.evidence, &mut redactor).kept(), 0);
}

#[test]
fn time_is_in_proportion_to_the_number_of_quotes() {
    let quotes = |count: usize| {
        let quote = |n: usize| Quote {
            unit: n / 20,
            source: format!("read src/part{}/file_{}.rs", n % 7, n / 20),
            lines: vec![format!("    let value_{n} = compute(&config.field_{n}, {n}, \"name_{n}\")?;")],
            weight: (n * 7_919 % 1_000) as f64 / 100.0,
        };
        (0..count).map(quote).collect::<Vec<_>>()
    };
    let mut redactor = redactor();
    // The least of several runs: other work on the machine can only make one longer.
    let mut least = |count: usize, budget: u64| {
        let told = Told { quotes: quotes(count), ..notation::read(&session(20)) };
        let draft = draft(&told, budget);
        let runs = (0..5).map(|_| {
            let start = Instant::now();
            let checkpoint = Checkpoint::build(&draft, &mut redactor);
            let took = start.elapsed();
            let tokens = checkpoint.tokens(COUNTER, draft.closing, draft.voice).number();
            assert!(tokens <= budget && tokens >= budget * 97 / 100, "{tokens} of {budget}");
            assert!(!checkpoint.is_empty(Section::CriticalContext));
            took
        });
        runs.min().unwrap()
    };
    let (few, many) = (least(1_000, 10_000), least(10_000, 100_000));
    assert!(many < few * 40, "ten times the quotes took {many:?} after {few:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]
    /// Whatever the evidence says, the text is within the budget or the smallest there is, and parses back.
    #[test]
    fn any_evidence_makes_a_checkpoint_within_its_budget(
        texts in prop::collection::vec("[ -~äß漢Ж\n#>`-]{0,200}", 1..40),
        budget in 100u64..3_000,
        thousandths in 900u32..1_500,
        kinds in prop::collection::vec(0usize..9, 40),
    ) {
        let kinds = kinds.iter().map(|kind| {
            ["ask open", "ask done", "ask cancelled", "rule", "question", "decision", "next", "doing", "quote 1.5 a"][*kind]
        });
        let lines: Vec<String> = texts.iter().zip(kinds).enumerate()
            .map(|(unit, (text, kind))| format!("{unit} {kind}: {}", text.replace('\n', "\\n")))
            .collect();
        let told = notation::read(&lines.join("\n"));
        let counter = Counter { factor: Factor::from_thousandths(thousandths), ..COUNTER };
        let draft = Draft { counter, ..draft(&told, budget) };
        let checkpoint = Checkpoint::build(&draft, &mut redactor());
        let text = render(&checkpoint, &draft);
        prop_assert_eq!(Checkpoint::parse(&text), Some(checkpoint.clone()));
        let fits = counter.count(&text) <= draft.budget;
        prop_assert!(fits || checkpoint == Checkpoint::smallest(&draft, &mut redactor()), "{}", text);
    }
}
