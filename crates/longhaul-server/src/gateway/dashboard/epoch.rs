//! `GET /sessions/{name}/epochs/{number}`: one compaction, before and after.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Path, State};
use axum::response::Response;
use maud::html;

use super::compaction;
use super::frame::{Look, Problem};
use super::layout::{Page, Refresh, address, clock, theirs};
use crate::gateway::Gateway;
use crate::store::Whose;

pub(super) async fn show(
    State(gateway): State<Arc<Gateway>>,
    Extension(look): Extension<Look>,
    Extension(whose): Extension<Whose>,
    Path((name, number)): Path<(String, usize)>,
) -> Result<Response, Problem> {
    let view = gateway.epoch(&whose, &name, number).await?;
    let (session, epoch) = (view.session.clone(), view.epoch.clone());
    let beside = compaction::beside(view.before, view.after, view.report).await?;
    let body = html! {
        p.crumbs { a href="/" { "Overview" } " › " a href=(address(&session, "")) { "Session " (theirs(&session)) } }
        h1 { "Compaction " (epoch.number) @if epoch.head { " " span.badge.folded { "in force" } } }
        p.soft {
            (clock(epoch.at))
            @if let Some(trigger) = &epoch.trigger { ", set off by: " (theirs(trigger)) }
            @if let Some(by) = &epoch.written_by { ", checkpoint by " (theirs(by)) }
            @if let Some(focus) = &epoch.focus { ", focus: " (theirs(focus)) }
        }
        (beside)
    };
    let title = format!("Compaction {number}");
    Ok(Page { title: &title, look: &look, refresh: Refresh::Never, body }.respond())
}
