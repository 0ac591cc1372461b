//! `longhaul digest`: prints the short form of one tool output.

use longhaul_engine::digest::{self, Focus, ToolOutput};
use longhaul_engine::facts::Facts;
use longhaul_engine::tokens::{Tokens, estimate};
use serde::Serialize;

use crate::cli::DigestArgs;
use crate::failure::Failure;
use crate::{input, output};

#[derive(Serialize)]
struct DigestOutput<'a> {
    kind: &'static str,
    text: &'a str,
    tokens_before: Tokens,
    tokens_after: Tokens,
    facts_before: usize,
    facts_kept: usize,
    lines_left_out: usize,
}

pub(crate) fn run(args: &DigestArgs) -> Result<(), Failure> {
    output::refuse_overwriting_inputs(args.output.file(), [args.text.as_path()])?;
    let (text, bytes) = input::read_lossy(&args.text)?;
    let focus = Focus::from_texts(args.focus.as_deref());
    let source = ToolOutput {
        text: &text,
        original_bytes: bytes,
        tool: args.tool.as_deref(),
        arguments: args.arguments.as_deref(),
        kind: args.kind,
        failed: None,
        focus: &focus,
        recall_id: None,
    };
    let budget = args.tokens.map_or_else(|| digest::default_budget(&text), Tokens);
    let digest = if args.one_line { digest::one_line_digest(&source) } else { digest::digest(&source, budget) };
    let to = args.output.file();
    if !args.output.json {
        let end = if digest.text.ends_with('\n') { "" } else { "\n" };
        return output::write(to, format!("{}{end}", digest.text).as_bytes());
    }
    let facts = Facts::scan(&text);
    let answer = DigestOutput {
        kind: digest.kind.name(),
        text: &digest.text,
        tokens_before: estimate(&text),
        tokens_after: estimate(&digest.text),
        facts_before: facts.all.len(),
        facts_kept: facts.count_kept_in(&digest.text),
        lines_left_out: digest.left_out,
    };
    output::write_json(to, &answer)
}
