//! `GET /sessions/{name}/epochs/{number}`: one compaction, before and after.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Path, RawQuery, State};
use axum::response::Response;
use maud::html;

use super::compaction::{self, Sides};
use super::fields::Fields;
use super::frame::{Look, Problem};
use super::layout::{Page, Refresh, address, clock, theirs};
use super::model::{Against, EpochView};
use crate::gateway::Gateway;
use crate::store::Whose;

pub(super) async fn show(
    State(gateway): State<Arc<Gateway>>,
    Extension(look): Extension<Look>,
    Extension(whose): Extension<Whose>,
    Path((name, number)): Path<(String, usize)>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let against = Against::of(Fields::of(&query.unwrap_or_default()).get("against").unwrap_or_default());
    let view = gateway.epoch(&whose, (&name, number), against).await?;
    let EpochView { session, epoch, dialect, model, counted, report, before, after, has_before, .. } = view;
    let sides = Sides { dialect, model, counted, report, before, after };
    let beside = compaction::beside(&gateway, &session, &sides)?;
    let page = address(&session, &format!("/epochs/{number}"));
    let body = html! {
        p.crumbs { a href="/" { "Overview" } " › " a href=(address(&session, "")) { "Session " (theirs(&session)) } }
        h1 { "Compaction " (epoch.number) @if epoch.head { " " span.badge.folded { "in force" } } }
        p.soft {
            (clock(epoch.at))
            @if let Some(trigger) = &epoch.trigger { ", set off by: " (theirs(trigger)) }
            @if let Some(by) = &epoch.written_by { ", checkpoint by " (theirs(by)) }
            @if let Some(focus) = &epoch.focus { ", focus: " (theirs(focus)) }
        }
        @if has_before {
            nav.ranges aria-label="What it is held against" {
                a href=(page) aria-current=[(against == Against::Original).then_some("true")] { "against what the client sent" }
                a href={ (page) "?against=shown" } aria-current=[(against == Against::Shown).then_some("true")] { "against what was sent until then" }
            }
        }
        (beside)
    };
    let title = format!("Compaction {number}");
    Ok(Page { title: &title, look: &look, refresh: Refresh::Never, body }.respond())
}
