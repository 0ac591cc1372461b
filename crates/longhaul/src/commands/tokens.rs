//! `longhaul tokens`: what a request costs, part by part.

use longhaul_engine::known::Known;
use longhaul_engine::meter::{Meter, Parts};
use longhaul_engine::tokens::percent;
use longhaul_engine::{Dialect, Tokens};
use serde::Serialize;

use crate::body::{self, Body};
use crate::cli::TokensArgs;
use crate::failure::Failure;
use crate::output::{self, FAINT, Line, Page, STRONG};

#[derive(Serialize)]
struct Answer {
    total: Tokens,
    parts: Parts,
    counted_by: String,
    /// Whether the model's own tokenizer counted, and nothing had to be judged by its size.
    exact: bool,
    model: String,
    window: Tokens,
    window_assumed: bool,
    dialect: Dialect,
    dialect_sure: bool,
    messages: usize,
    notes: Vec<String>,
}

pub(crate) fn run(args: &TokensArgs) -> Result<(), Failure> {
    let to = args.answer.to();
    output::refuse_inputs(to, [args.body.as_path()])?;
    let body = Body::read(&args.body, &args.told)?;
    let (transcript, notes) = body.parse(&args.told)?;
    let model = body::model(&args.told, &transcript);
    let meter = Meter::of(&model);
    let parts = meter.parts(&mut Known::default(), &transcript);
    let answer = Answer {
        total: parts.total(),
        parts,
        counted_by: meter.counter.name(),
        exact: meter.is_exact(&transcript) && !model.is_assumed("tokenizer"),
        window: model.facts.input_window(),
        window_assumed: model.is_assumed("window"),
        model: model.name,
        dialect: transcript.dialect,
        dialect_sure: transcript.dialect_sure,
        messages: transcript.message_count(),
        notes: [body.session_notes(), body::note_lines(&transcript, &notes)].concat(),
    };
    if args.answer.json {
        return output::write_json(to, &answer);
    }
    answer.notes.iter().for_each(|note| output::say(&format!("{}: {note}", body.shown)));
    output::give(to, &page(&answer))
}

/// What the parts are.
const PARTS: &str = "user and assistant: what was said; calls: tool calls with their arguments; results: what tools gave back";

fn page(answer: &Answer) -> Page {
    let Parts { system, tools, user, assistant, reasoning, calls, results, images } = answer.parts;
    let total = answer.total;
    let row = |name: &str, tokens: Tokens| {
        let share = percent(tokens.number() as f64, total.number() as f64);
        let share = share.map_or_else(|| "      -".to_owned(), |share| format!("{share:>5.1} %"));
        [name.to_owned(), format!("{:>11}", output::grouped(tokens.number())), share].map(Line::from)
    };
    let parts = [
        ("system", system),
        ("tools", tools),
        ("user", user),
        ("assistant", assistant),
        ("reasoning", reasoning),
        ("calls", calls),
        ("results", results),
        ("images", images),
    ];
    let mut rows: Vec<[Line; 3]> = parts.iter().map(|(name, tokens)| row(name, *tokens)).collect();
    rows.push(row("total", total));
    let share = 100.0 * total.number() as f64 / answer.window.number().max(1) as f64;
    let window = answer.window;
    let assumed = if answer.window_assumed { ", assumed" } else { "" };
    let how = if answer.exact { "exact" } else { "estimated" };
    let mut page = Page::default();
    page.table(rows);
    page.line(Line::default().styled(FAINT, PARTS));
    page.blank();
    page.line(format!("{} messages, {} ({how}: {})", answer.messages, answer.dialect, answer.counted_by));
    let line = Line::default().styled(STRONG, format!("{share:.1} %"));
    page.line(match answer.model.as_str() {
        "unknown" => {
            line.plain(format!(" of a window of {window} (assumed: no model is named; --model tells)"))
        }
        model => line.plain(format!(" of the window of {model} ({window}{assumed})")),
    });
    page
}
