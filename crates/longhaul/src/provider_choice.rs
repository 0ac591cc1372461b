//! Chooses the provider and the model for a body.

use longhaul_engine::cache::CacheProvider;
use longhaul_engine::check::Target;
use longhaul_engine::models::{self, Model};
use longhaul_engine::{ApiFormat, Transcript};

use crate::cli::InputFlags;
use crate::request_body;

/// Returns the provider that the user named. For a body in the Messages format with an unknown model, it is
/// the provider that defined the format.
pub(crate) fn choose_provider(
    named: Option<CacheProvider>,
    flags: &InputFlags,
    transcript: &Transcript<'_>,
) -> Option<CacheProvider> {
    let is_known = request_body::stated_model(flags, transcript).row.is_some();
    let own = || {
        default_provider(transcript.api_format).filter(|_| !is_known && transcript.api_format == ApiFormat::Messages)
    };
    named.or_else(own)
}

/// Returns the provider that defined an API format.
pub(crate) fn default_provider(api_format: ApiFormat) -> Option<CacheProvider> {
    CacheProvider::find(Target::default_for(api_format).host.name())
}

/// Returns the model of the body. If it is unknown, the default model of the provider is used and a note says
/// so.
pub(crate) fn choose_model(
    flags: &InputFlags,
    transcript: &Transcript<'_>,
    provider: Option<CacheProvider>,
    notes: &mut Vec<String>,
) -> Model {
    let as_served = |model: Model| match provider {
        Some(provider) => model.served_by(provider.name()),
        None => model,
    };
    let model = request_body::stated_model(flags, transcript);
    as_served(match provider.and_then(CacheProvider::default_model).filter(|_| model.row.is_none()) {
        Some(usual) => {
            notes.push(format!("the model {} is unknown; it is treated as a {usual} model", model.name));
            models::find(usual)
        }
        None => model,
    })
}
