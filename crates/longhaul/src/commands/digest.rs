//! `longhaul digest`: one tool output, digested.

use longhaul_engine::digest::{self, Focus, Source};
use longhaul_engine::facts::Facts;
use longhaul_engine::tokens::{Tokens, estimate};
use serde::Serialize;

use crate::cli::DigestArgs;
use crate::failure::Failure;
use crate::{input, output};

#[derive(Serialize)]
struct Answer<'a> {
    kind: &'static str,
    text: &'a str,
    tokens_before: Tokens,
    tokens_after: Tokens,
    facts_before: usize,
    facts_kept: usize,
    lines_left_out: usize,
}

pub(crate) fn run(args: &DigestArgs) -> Result<(), Failure> {
    output::refuse_inputs(args.answer.to(), [args.text.as_path()])?;
    let (text, bytes) = input::read_any(&args.text)?;
    let focus = Focus::on(args.focus.as_deref());
    let source = Source {
        text: &text,
        bytes,
        tool: args.tool.as_deref(),
        arguments: args.arguments.as_deref(),
        kind: args.kind,
        failed: None,
        focus: &focus,
        handle: None,
    };
    let budget = args.tokens.map_or_else(|| digest::default_budget(&text), Tokens);
    let digest = if args.one_line { digest::one_line(&source) } else { digest::digest(&source, budget) };
    let to = args.answer.to();
    if !args.answer.json {
        let end = if digest.text.ends_with('\n') { "" } else { "\n" };
        return output::write(to, format!("{}{end}", digest.text).as_bytes());
    }
    let facts = Facts::of(&text);
    let answer = Answer {
        kind: digest.kind.name(),
        text: &digest.text,
        tokens_before: estimate(&text),
        tokens_after: estimate(&digest.text),
        facts_before: facts.found.len(),
        facts_kept: facts.kept_in(&digest.text),
        lines_left_out: digest.left_out,
    };
    output::write_json(to, &answer)
}
