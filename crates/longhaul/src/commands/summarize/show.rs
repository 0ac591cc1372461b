//! A summary as people read it: the question, the answer, what was mended, and the checkpoint.

use longhaul_engine::plan::WrittenBy;
use longhaul_engine::summary::{Finding, Mended};

use super::Account;
use crate::output::{BAD, FAIR, GOOD, Line, Page, STRONG};

/// The account.
pub(super) fn page(account: &Account) -> Page {
    let mut page = Page::default();
    if let Some(reason) = &account.reason {
        page.line(format!("{}: {reason}", account.body));
    }
    if let Some(ask) = &account.ask {
        let count = ask.questions.len();
        for (at, question) in ask.questions.iter().enumerate() {
            let which = if count == 1 { String::new() } else { format!(" {} of {count}", at + 1) };
            heading(&mut page, &format!("question{which}, at most {} tokens back", question.max_tokens));
            text(&mut page, &question.system);
            page.blank();
            text(&mut page, &question.user);
        }
        if count == 0 {
            let window = ask.window;
            page.line(format!("a window of {window} tokens has no room for any of the turns"));
        }
    }
    for failed in &account.failed {
        heading(&mut page, &format!("no answer by {}", failed.model));
        text(&mut page, &failed.why);
    }
    if let Some(given) = &account.answer {
        let cut = if given.cut { ", cut short" } else { "" };
        heading(&mut page, &format!("answer by {}{cut}", given.by));
        text(&mut page, &given.text);
        heading(&mut page, "audit");
        if account.findings.is_empty() {
            page.line("nothing had to be mended");
        }
        account.findings.iter().for_each(|finding| page.line(mended(finding)));
    }
    if let Some(checkpoint) = &account.checkpoint {
        let by = match checkpoint.report.by {
            WrittenBy::Model => "from the summary",
            WrittenBy::Code => "by code",
            WrittenBy::Plugin => "by the engine",
            WrittenBy::Fallback => "degraded: only a count of what is missing",
        };
        heading(&mut page, &format!("checkpoint, {} tokens, {by}", checkpoint.report.tokens));
        text(&mut page, &checkpoint.text);
    }
    if !account.notes.is_empty() {
        heading(&mut page, "notes");
        account.notes.iter().for_each(|note| page.line(Line::default().styled(FAIR, note)));
    }
    page
}

fn heading(page: &mut Page, words: &str) {
    page.line(Line::default().styled(STRONG, format!("== {words}")));
}

fn text(page: &mut Page, text: &str) {
    text.trim_end().lines().for_each(|line| page.line(line.to_owned()));
}

fn mended(finding: &Finding) -> Line {
    let (what, style) = match finding.action {
        Mended::TakenOut => ("taken out", BAD),
        Mended::PutBack => ("put back", GOOD),
    };
    let Finding { section, text, why, .. } = finding;
    Line::default().styled(style, format!("{what:<9}")).plain(format!("  {section}: {text} ({why})"))
}
