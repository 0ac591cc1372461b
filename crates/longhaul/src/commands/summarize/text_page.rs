//! The output of `longhaul summarize` for a terminal: questions, summary, corrections and checkpoint.

use longhaul_engine::plan::WrittenBy;
use longhaul_engine::summary::{AuditAction, AuditFinding};

use super::SummarizeOutput;
use crate::output::{EMPHASIS_STYLE, ERROR_STYLE, Page, SUCCESS_STYLE, StyledLine, WARNING_STYLE};

pub(super) fn page(output: &SummarizeOutput) -> Page {
    let mut page = Page::default();
    if let Some(reason) = &output.reason {
        page.add_line(format!("{}: {reason}", output.body));
    }
    if let Some(questions) = &output.questions {
        let count = questions.questions.len();
        for (at, question) in questions.questions.iter().enumerate() {
            let which = if count == 1 { String::new() } else { format!(" {} of {count}", at + 1) };
            add_heading(&mut page, &format!("question{which}, at most {} tokens back", question.max_tokens));
            add_text(&mut page, &question.system);
            page.add_blank();
            add_text(&mut page, &question.user);
        }
        if count == 0 {
            let window = questions.window;
            page.add_line(format!("a context window of {window} tokens is too small for any turn"));
        }
    }
    for failed in &output.failed {
        add_heading(&mut page, &format!("no answer by {}", failed.model));
        add_text(&mut page, &failed.reason);
    }
    if let Some(given) = &output.summary {
        let cut = if given.is_truncated { ", cut short" } else { "" };
        add_heading(&mut page, &format!("answer by {}{cut}", given.author));
        add_text(&mut page, &given.text);
        add_heading(&mut page, "audit");
        if output.findings.is_empty() {
            page.add_line("no corrections");
        }
        output.findings.iter().for_each(|finding| page.add_line(finding_line(finding)));
    }
    if let Some(checkpoint) = &output.checkpoint {
        let author_text = match checkpoint.report.by {
            WrittenBy::Model => "from the model's summary",
            WrittenBy::Code => "by our own code",
            WrittenBy::Plugin => "by the engine",
            WrittenBy::Fallback => "degraded: only a count of what is missing",
        };
        add_heading(&mut page, &format!("checkpoint, {} tokens, {author_text}", checkpoint.report.tokens));
        add_text(&mut page, &checkpoint.text);
    }
    if !output.notes.is_empty() {
        add_heading(&mut page, "notes");
        output.notes.iter().for_each(|note| page.add_line(StyledLine::default().styled(WARNING_STYLE, note)));
    }
    page
}

fn add_heading(page: &mut Page, title: &str) {
    page.add_line(StyledLine::default().styled(EMPHASIS_STYLE, format!("== {title}")));
}

fn add_text(page: &mut Page, text: &str) {
    text.trim_end().lines().for_each(|line| page.add_line(line.to_owned()));
}

fn finding_line(finding: &AuditFinding) -> StyledLine {
    let (what, style) = match finding.action {
        AuditAction::Removed => ("removed", ERROR_STYLE),
        AuditAction::Restored => ("restored", SUCCESS_STYLE),
    };
    let AuditFinding { section, text, why, .. } = finding;
    StyledLine::default().styled(style, format!("{what:<9}")).plain(format!("  {section}: {text} ({why})"))
}
