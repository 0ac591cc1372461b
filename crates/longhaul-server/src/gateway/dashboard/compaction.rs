//! One compaction before and after, for a page.

use http::StatusCode;
use longhaul_engine::Dialect;
use longhaul_engine::cache::Provider;
use longhaul_engine::known::Known;
use longhaul_engine::models::Model;
use maud::Markup;
use serde_json::Value as Json;
use serde_json::value::RawValue;

use super::frame::Problem;
use super::layout::handle;
use crate::gateway::Gateway;
use crate::gateway::marks::Caching;
use crate::pages::compaction::{self, Account, Compaction, Reader, Secrets};

/// What it is shown from.
pub(super) struct Sides {
    pub(super) dialect: Dialect,
    pub(super) model: Option<String>,
    /// The same, as its tokens are counted.
    pub(super) counted: Option<Model>,
    pub(super) report: Json,
    pub(super) before: Box<RawValue>,
    pub(super) after: Box<RawValue>,
}

/// Both sides, with what was said about it.
pub(super) fn beside(gateway: &Gateway, session: &str, sides: &Sides) -> Result<Markup, Problem> {
    let unread = || Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "this compaction cannot be read");
    draw(gateway, session, sides).ok_or_else(unread)
}

fn draw(gateway: &Gateway, session: &str, sides: &Sides) -> Option<Markup> {
    let settings = &gateway.settings;
    let upstream = settings.upstreams.of(sides.dialect).provider().name();
    let named = sides.model.as_deref().unwrap_or_default();
    let Caching { route, model } = Caching::of(&settings.session.config, named, upstream, sides.dialect)?;
    let sides = compaction::Sides {
        before: sides.before.get(),
        after: sides.after.get(),
        dialect: Some(sides.dialect),
        account: Account::read(&sides.report).ok()?,
        model: sides.counted.as_ref().unwrap_or(&model),
        status: route.status(&model, Provider::named(upstream)),
        route,
    };
    // The store has taken the secrets out already.
    let seen = Compaction::of(sides, &mut Secrets::AsTheyStand, &mut Known::default())?;
    let open = |wanted: &str| handle(session, wanted);
    Some(compaction::view(&seen, Reader { recall: Some(&open) }))
}
