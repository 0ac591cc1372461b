//! `longhaul tokens`: counts the tokens of a request, part by part.

use longhaul_engine::block_cache::BlockCache;
use longhaul_engine::meter::{Meter, TokenBreakdown};
use longhaul_engine::tokens::percent;
use longhaul_engine::{ApiFormat, Tokens};
use serde::Serialize;

use crate::cli::TokensArgs;
use crate::failure::Failure;
use crate::output::{self, EMPHASIS_STYLE, Page, SECONDARY_STYLE, StyledLine};
use crate::request_body::{self, RequestBody};

#[derive(Serialize)]
struct TokensOutput {
    total: Tokens,
    parts: TokenBreakdown,
    counted_by: String,
    /// Whether the count is exact: the model's own tokenizer counted, and nothing was estimated.
    exact: bool,
    model: String,
    window: Tokens,
    window_assumed: bool,
    dialect: ApiFormat,
    dialect_sure: bool,
    messages: usize,
    notes: Vec<String>,
}

pub(crate) fn run(args: &TokensArgs) -> Result<(), Failure> {
    let to = args.output.file();
    output::refuse_overwriting_inputs(to, [args.body.as_path()])?;
    let body = RequestBody::read(&args.body, &args.input)?;
    let (transcript, notes) = body.parse(&args.input)?;
    let model = request_body::stated_model(&args.input, &transcript);
    let meter = Meter::for_model(&model);
    let parts = meter.breakdown(&mut BlockCache::default(), &transcript);
    let output = TokensOutput {
        total: parts.total(),
        parts,
        counted_by: meter.counter.name(),
        exact: meter.is_exact(&transcript) && !model.is_assumed("tokenizer"),
        window: model.facts.input_window(),
        window_assumed: model.is_assumed("window"),
        model: model.name,
        dialect: transcript.api_format,
        dialect_sure: transcript.is_api_format_certain,
        messages: transcript.message_count(),
        notes: [body.session_notes(), request_body::parse_note_lines(&transcript, &notes)].concat(),
    };
    if args.output.json {
        return output::write_json(to, &output);
    }
    output.notes.iter().for_each(|note| output::print_message(&format!("{}: {note}", body.label)));
    output::write_page(to, &page(&output))
}

/// The explanation of the parts below the table.
const PARTS_NOTE: &str =
    "user and assistant: their texts; calls: tool calls with their arguments; results: tool outputs";

fn page(output: &TokensOutput) -> Page {
    let TokenBreakdown { system, tools, user, assistant, reasoning, calls, results, images } = output.parts;
    let total = output.total;
    let row = |name: &str, tokens: Tokens| {
        let share = percent(tokens.number() as f64, total.number() as f64);
        let share = share.map_or_else(|| "      -".to_owned(), |share| format!("{share:>5.1} %"));
        [name.to_owned(), format!("{:>11}", output::group_digits(tokens.number())), share].map(StyledLine::from)
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
    let mut rows: Vec<[StyledLine; 3]> = parts.iter().map(|(name, tokens)| row(name, *tokens)).collect();
    rows.push(row("total", total));
    let share = 100.0 * total.number() as f64 / output.window.number().max(1) as f64;
    let window = output.window;
    let assumed = if output.window_assumed { ", assumed" } else { "" };
    let how = if output.exact { "exact" } else { "estimated" };
    let mut page = Page::default();
    page.add_table(rows);
    page.add_line(StyledLine::default().styled(SECONDARY_STYLE, PARTS_NOTE));
    page.add_blank();
    page.add_line(format!(
        "{}, {} ({how}: {})",
        output::pluralize(output.messages, "message"),
        output.dialect,
        output.counted_by
    ));
    let line = StyledLine::default().styled(EMPHASIS_STYLE, format!("{share:.1} %"));
    page.add_line(match output.model.as_str() {
        "unknown" => line.plain(format!(" of a context window of {window} (assumed; name the model with --model)")),
        model => line.plain(format!(" of the window of {model} ({window}{assumed})")),
    });
    page
}
