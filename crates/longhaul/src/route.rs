//! Who takes a body, and for which model it is.

use longhaul_engine::cache::Provider;
use longhaul_engine::check::Target;
use longhaul_engine::models::{self, Model};
use longhaul_engine::{Dialect, Transcript};

use crate::body;
use crate::cli::Told;

/// The provider that was told; for a body in a vendor's own dialect whose model says nothing, that vendor.
pub(crate) fn provider(
    named: Option<Provider>,
    told: &Told,
    transcript: &Transcript<'_>,
) -> Option<Provider> {
    let is_known = body::model(told, transcript).row.is_some();
    let own = || vendor(transcript.dialect).filter(|_| !is_known && transcript.dialect == Dialect::Messages);
    named.or_else(own)
}

/// Whose dialect it is.
pub(crate) fn vendor(dialect: Dialect) -> Option<Provider> {
    Provider::named(Target::of(dialect).host.name())
}

/// The model of the body; where it is none that is known, the usual one of the provider.
pub(crate) fn model(
    told: &Told,
    transcript: &Transcript<'_>,
    provider: Option<Provider>,
    notes: &mut Vec<String>,
) -> Model {
    let as_served = |model: Model| match provider {
        Some(provider) => model.served_by(provider.name()),
        None => model,
    };
    let model = body::model(told, transcript);
    as_served(match provider.and_then(Provider::usual_model).filter(|_| model.row.is_none()) {
        Some(usual) => {
            notes.push(format!("the model {} is not known; taken to be a {usual} model", model.name));
            models::find(usual)
        }
        None => model,
    })
}
