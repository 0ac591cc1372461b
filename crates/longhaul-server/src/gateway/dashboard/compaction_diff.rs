//! Renders one compaction before and after, for the page of a compaction and for a preview.

use http::StatusCode;
use longhaul_engine::ApiFormat;
use longhaul_engine::block_cache::BlockCache;
use longhaul_engine::cache::CacheProvider;
use longhaul_engine::models::Model;
use maud::Markup;
use serde_json::Value as Json;
use serde_json::value::RawValue;

use super::layout::recall_url;
use super::middleware::DashboardError;
use crate::gateway::Gateway;
use crate::gateway::breakpoints::UpstreamCaching;
use crate::pages::compaction::{self, CompactionView, ParsedReport, RenderOptions, SecretHandling};

/// The two requests of a compaction with its report, which [`render_diff`] shows.
pub(super) struct CompactionSource {
    pub(super) api_format: ApiFormat,
    pub(super) model: Option<String>,
    /// The model whose tokens are counted, with the corrections learned for it; if it is unknown, the plain
    /// facts about `model` are used.
    pub(super) token_model: Option<Model>,
    pub(super) report: Json,
    pub(super) before: Box<RawValue>,
    pub(super) after: Box<RawValue>,
}

/// Renders both requests side by side, with the reasons from the report. Fails if one of them cannot be
/// parsed.
pub(super) fn render_diff(
    gateway: &Gateway,
    session: &str,
    sides: &CompactionSource,
) -> Result<Markup, DashboardError> {
    let unparsable = || DashboardError::new(StatusCode::UNPROCESSABLE_ENTITY, "this compaction cannot be parsed");
    try_render(gateway, session, sides).ok_or_else(unparsable)
}

fn try_render(gateway: &Gateway, session: &str, sides: &CompactionSource) -> Option<Markup> {
    let settings = &gateway.settings;
    let upstream = settings.upstreams.for_api_format(sides.api_format).provider().name();
    let requested_model = sides.model.as_deref().unwrap_or_default();
    let UpstreamCaching { mode: caching_mode, model } =
        UpstreamCaching::new(&settings.session.config, requested_model, upstream, sides.api_format)?;
    let sides = compaction::CompactionInput {
        before: sides.before.get(),
        after: sides.after.get(),
        api_format: Some(sides.api_format),
        report: ParsedReport::from_json(&sides.report).ok()?,
        model: sides.token_model.as_ref().unwrap_or(&model),
        caching_status: caching_mode.status_line(&model, CacheProvider::find(upstream)),
        caching_mode,
    };
    // The store has already redacted the texts.
    let view = CompactionView::new(sides, &mut SecretHandling::Keep, &mut BlockCache::default())?;
    let open = |recall_id: &str| recall_url(session, recall_id);
    Some(compaction::compaction_view(&view, RenderOptions { recall_url: Some(&open) }))
}
