//! What was learned about a model from its provider: the context window that a refusal reported, and how far our
//! token counts are off.

use std::fmt;

use longhaul_engine::Tokens;
use longhaul_engine::models;
use longhaul_engine::policy::{Config, InvalidValue, MIN_WINDOW, Policy};
use serde::{Deserialize, Serialize};

use super::request_size::Calibration;
use crate::store::{self, Store, Tenant};
use longhaul_engine::Timestamp;

/// The facts that were learned of one model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LearnedModel {
    /// The window that a provider reported.
    pub window: Option<LearnedWindow>,
    /// How far our token counts are off.
    #[serde(default)]
    pub calibration: Calibration,
}

/// A context window that a provider reported with a refusal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LearnedWindow {
    /// The maximum that the provider accepts.
    pub tokens: Tokens,
    /// The size that it refused, if that is known.
    pub refused: Option<Tokens>,
    /// The time of the report, in milliseconds since 1970.
    at: i64,
    /// Whether the report was made in this run. A window that the user configured has precedence over an old
    /// report, but not over one of this run.
    #[serde(skip)]
    is_from_this_run: bool,
}

impl LearnedWindow {
    /// Returns the time of the report.
    #[must_use]
    pub fn at(&self) -> Timestamp {
        Timestamp(self.at)
    }
}

/// Formats the window with its origin.
impl fmt::Display for LearnedWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} tokens, as the provider reported at {}", self.tokens, self.at())?;
        self.refused.map_or(Ok(()), |refused| write!(f, " when it refused {refused}"))
    }
}

impl LearnedModel {
    /// Loads what the store has of a model. A value that another version wrote and this one cannot parse is
    /// ignored.
    pub(crate) async fn load(store: &Store, tenant: &Tenant, model: &str) -> store::Result<Option<Self>> {
        let stored = store.learned_model(tenant, model).await?;
        Ok(stored.and_then(|stored| serde_json::from_str(&stored).ok()))
    }

    /// Learns the maximum that the provider reported.
    pub(super) fn learn_window(&mut self, maximum: Tokens, refused: Option<Tokens>, now: Timestamp) {
        let tokens = maximum.max(MIN_WINDOW);
        self.window = Some(LearnedWindow { tokens, refused, at: now.0, is_from_this_run: true });
    }
}

/// Computes the policy for a model, with what was learned about it.
pub fn policy_for_model(config: &Config, name: &str, learned: &LearnedModel) -> Result<Policy, InvalidValue> {
    let mut model = models::find(name);
    if learned.calibration.has_samples() {
        let factor = f64::from(model.facts.factor) * learned.calibration.factor();
        let facts = serde_json::Map::from_iter([("factor".to_owned(), factor.into())]);
        // A factor outside the allowed range is ignored.
        model = model.clone().with_stated_facts(&facts).unwrap_or(model);
    }
    let Some(window) = learned
        .window
        .as_ref()
        .filter(|window| window.is_from_this_run || stated_windows(config, name).next().is_none())
    else {
        return Policy::new(config, &model).map(|(policy, _)| policy);
    };
    // The configured window and the reported one cannot both be right if they differ: the smaller one is
    // safe.
    let smallest = stated_windows(config, name).fold(window.tokens, Tokens::min);
    let mut config = config.clone();
    config.models.entry(name.to_owned()).or_default().context_length = Some(smallest);
    // The provider enforces what it reported, whatever the model table contains.
    let (mut policy, _) = Policy::new(&config, &model)?;
    policy.provider_window = window.tokens;
    Ok(policy)
}

/// Returns the windows that the user configured, in all rows that match the model.
fn stated_windows(config: &Config, name: &str) -> impl Iterator<Item = Tokens> {
    let patterns = models::matching_patterns(config.models.keys().map(String::as_str), name);
    patterns.into_iter().filter_map(|pattern| config.models.get(pattern)?.context_length)
}

/// Words the notice about a window that was learned, or assumed because the model is in no table.
pub(super) fn window_notice(policy: &Policy, learned: &LearnedModel) -> Option<String> {
    let (name, window) = (&policy.model.name, policy.window);
    match &learned.window {
        Some(learned_window) if learned_window.tokens == window => {
            Some(format!("{name}: a context window of {learned_window}"))
        }
        _ => policy
            .model
            .is_assumed("window")
            .then(|| format!("{name} is not in the model table; a context window of {window} tokens is assumed")),
    }
}

#[cfg(test)]
mod tests {
    use longhaul_engine::config::ModelOverride;

    use super::*;

    #[test]
    fn what_a_provider_says_goes_before_the_table_and_behind_what_the_user_states() {
        let mut learned = LearnedModel::default();
        let mut config = Config::default();
        let assumed = policy_for_model(&config, "house-model", &learned).unwrap();
        assert!(window_notice(&assumed, &learned).unwrap().contains("is assumed"));
        learned.learn_window(Tokens(32_000), Some(Tokens(40_000)), Timestamp(0));
        let policy = policy_for_model(&config, "house-model", &learned).unwrap();
        assert_eq!((policy.window, policy.threshold), (Tokens(32_000), Tokens(16_000)));
        let notice = window_notice(&policy, &learned).unwrap();
        assert!(notice.contains("32,000") && notice.contains("when it refused 40,000"), "{notice}");

        let stated = ModelOverride { context_length: Some(Tokens(64_000)), ..ModelOverride::default() };
        config.models.insert("house-model".to_owned(), stated);
        assert_eq!(
            policy_for_model(&config, "house-model", &learned).unwrap().window,
            Tokens(32_000),
            "it says so now"
        );
        let later: LearnedModel = serde_json::from_str(&serde_json::to_string(&learned).unwrap()).unwrap();
        assert_eq!(policy_for_model(&config, "house-model", &later).unwrap().window, Tokens(64_000), "it once said so");
        assert_eq!(policy_for_model(&Config::default(), "house-model", &later).unwrap().window, Tokens(32_000));
    }

    #[test]
    fn a_calibration_changes_how_the_model_is_counted() {
        let mut learned = LearnedModel::default();
        learned.calibration.learn(Tokens(1_000), Tokens(1_500));
        let policy = policy_for_model(&Config::default(), "gpt-5", &learned).unwrap();
        assert!((f64::from(policy.model.facts.factor) - 1.5).abs() < 0.03);
    }
}
