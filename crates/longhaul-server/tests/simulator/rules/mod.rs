//! What is refused. The essential rules are written here once more, with the providers' own words; then the engine's own check
//! has its say, so that the judge rests on neither alone.

mod chat;
mod messages;
mod responses;

use longhaul_engine::check::{Severity, Target, check};
use longhaul_engine::{ApiFormat, models};
use serde_json::Value;

use super::refusal::Refusal;

/// Whom the engine's check judges for: the provider that is simulated, with what is known about the model.
pub(crate) fn target(api_format: ApiFormat, model: &str) -> Target {
    Target { host: Target::default_for(api_format).host, ..models::find(model).target(api_format) }
}

/// Whether the provider takes a request. `whole` is the request with what the provider remembers of the one before it.
pub(super) fn judge(api_format: ApiFormat, body: &str, request: &Value, whole: &Value) -> Result<(), Refusal> {
    match api_format {
        ApiFormat::Messages => messages::judge(request)?,
        ApiFormat::Chat => chat::judge(request)?,
        ApiFormat::Responses => responses::judge(whole)?,
    }
    let model = request["model"].as_str().unwrap_or_default();
    let found = check(body, api_format, &target(api_format, model));
    match found.into_iter().find(|found| found.severity == Severity::Error) {
        Some(broken) => {
            let at = broken.at.trim_start_matches('/').replace('/', ".");
            Err(Refusal::invalid(format!("{at}: {} ({})", broken.message, broken.rule)).param(at))
        }
        None => Ok(()),
    }
}

fn refuse<T>(message: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal::invalid(message))
}
