//! One compaction before and after, for a page.

use maud::{Markup, html};
use serde_json::Value as Json;
use serde_json::value::RawValue;

use super::frame::Problem;
use super::layout::lines;

/// Both sides, with what was said about it. It can take long, and is done where nobody waits for the thread.
pub(super) async fn beside(
    before: Box<RawValue>,
    after: Box<RawValue>,
    report: Json,
) -> Result<Markup, Problem> {
    let drawn = tokio::task::spawn_blocking(move || drawn(&before, &after, &report)).await;
    drawn.map_err(|_| Problem::ours())
}

fn drawn(before: &RawValue, after: &RawValue, report: &Json) -> Markup {
    html! {
        pre.card { (lines(&report.to_string())) }
        div.columns { pre.card { (lines(before.get())) } pre.card { (lines(after.get())) } }
    }
}
