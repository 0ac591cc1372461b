//! `GET /sessions/{name}/epochs/{number}`: one compaction, before and after.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Path, RawQuery, State};
use axum::response::Response;
use maud::html;

use super::compaction_diff::{self, CompactionSource};
use super::form_fields::FormFields;
use super::layout::{Page, Refresh, session_url, timestamp, untrusted};
use super::middleware::{DashboardError, PageContext};
use super::model::{CompactionDetails, DiffBase};
use crate::gateway::Gateway;
use crate::store::TenantScope;

pub(super) async fn show(
    State(gateway): State<Arc<Gateway>>,
    Extension(context): Extension<PageContext>,
    Extension(scope): Extension<TenantScope>,
    Path((name, number)): Path<(String, usize)>,
    RawQuery(query): RawQuery,
) -> Result<Response, DashboardError> {
    let against = DiffBase::from_name(FormFields::parse(&query.unwrap_or_default()).get("against").unwrap_or_default());
    let view = gateway.load_compaction(&scope, (&name, number), against).await?;
    let CompactionDetails {
        session, compaction, dialect, model, token_model, report, before, after, has_before, ..
    } = view;
    let sides = CompactionSource { api_format: dialect, model, token_model, report, before, after };
    let diff = compaction_diff::render_diff(&gateway, &session, &sides)?;
    let page = session_url(&session, &format!("/epochs/{number}"));
    let body = html! {
        p.crumbs { a href="/" { "Overview" } " › " a href=(session_url(&session, "")) { "Session " (untrusted(&session)) } }
        h1 { "Compaction " (compaction.number) @if compaction.is_active { " " span.badge.summarized { "active" } } }
        p.soft {
            (timestamp(compaction.at))
            @if let Some(trigger) = &compaction.trigger { ", triggered by: " (untrusted(trigger)) }
            @if let Some(by) = &compaction.written_by { ", checkpoint written by " (untrusted(by)) }
            @if let Some(focus) = &compaction.focus { ", focus: " (untrusted(focus)) }
        }
        @if has_before {
            nav.ranges aria-label="Compare with" {
                a href=(page) aria-current=[(against == DiffBase::Original).then_some("true")] { "compared with the client's request" }
                a href={ (page) "?against=shown" } aria-current=[(against == DiffBase::Shown).then_some("true")] { "compared with the previous compaction" }
            }
        }
        (diff)
    };
    let title = format!("Compaction {number}");
    Ok(Page { title: &title, context: &context, refresh: Refresh::Never, body }.respond())
}
