//! What was learned of a model: its window, by the word of a provider that refused more, and how far our counts are off.

use std::fmt;

use longhaul_engine::Tokens;
use longhaul_engine::models;
use longhaul_engine::policy::{Config, Invalid, Policy, SMALLEST_WINDOW};
use serde::{Deserialize, Serialize};

use super::gauge::Calibration;
use crate::agents::Moment;
use crate::store::{self, Store, Tenant};

/// What was learned of one model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Learned {
    /// Its window.
    pub window: Option<Window>,
    /// How far our counts are off.
    #[serde(default)]
    pub calibration: Calibration,
}

/// A window that a provider named.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// The most that it takes.
    pub tokens: Tokens,
    /// What it refused, if that is known.
    pub refused: Option<Tokens>,
    /// When, in milliseconds since 1970.
    at: i64,
    /// Whether it was just now: what the user states goes before what a provider once said, but not before what it says.
    #[serde(skip)]
    fresh: bool,
}

impl Window {
    /// When it was said.
    #[must_use]
    pub fn at(&self) -> Moment {
        Moment(self.at)
    }
}

/// Where it comes from.
impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} tokens, as the provider said at {}", self.tokens, self.at())?;
        self.refused.map_or(Ok(()), |refused| write!(f, " when it refused {refused}"))
    }
}

impl Learned {
    /// What a store kept of a model. What another version wrote and this one cannot read is as good as nothing.
    pub(crate) async fn kept(store: &Store, tenant: &Tenant, model: &str) -> store::Result<Option<Self>> {
        let kept = store.learned(tenant, model).await?;
        Ok(kept.and_then(|kept| serde_json::from_str(&kept).ok()))
    }

    /// The provider named the most that it takes.
    pub(super) fn hear(&mut self, maximum: Tokens, refused: Option<Tokens>, now: Moment) {
        let tokens = maximum.max(SMALLEST_WINDOW);
        self.window = Some(Window { tokens, refused, at: now.0, fresh: true });
    }
}

/// The numbers that hold for a model, with what was learned of it.
pub fn policy(config: &Config, name: &str, learned: &Learned) -> Result<Policy, Invalid> {
    let mut model = models::find(name);
    if learned.calibration.is_learned() {
        let factor = f64::from(model.facts.factor) * learned.calibration.factor();
        let facts = serde_json::Map::from_iter([("factor".to_owned(), factor.into())]);
        // Out of the range of factors, it stays as it is.
        model = model.clone().with(&facts).unwrap_or(model);
    }
    let Some(window) = learned
        .window
        .as_ref()
        .filter(|window| window.fresh || stated_windows(config, name).next().is_none())
    else {
        return Policy::new(config, &model).map(|(policy, _)| policy);
    };
    // Of what the user states and what the provider takes, only the least can be right.
    let least = stated_windows(config, name).fold(window.tokens, Tokens::min);
    let mut config = config.clone();
    config.models.entry(name.to_owned()).or_default().context_length = Some(least);
    // The provider enforces what it named, whatever the table says of the model.
    let (mut policy, _) = Policy::new(&config, &model)?;
    policy.provider_window = window.tokens;
    Ok(policy)
}

/// The windows that the user states, in all rows that describe a model.
fn stated_windows(config: &Config, name: &str) -> impl Iterator<Item = Tokens> {
    let patterns = models::matching(config.models.keys().map(String::as_str), name);
    patterns.into_iter().filter_map(|pattern| config.models.get(pattern)?.context_length)
}

/// What is worth saying of a model that nobody has a row for.
pub(super) fn assumption(policy: &Policy, learned: &Learned) -> Option<String> {
    let (name, window) = (&policy.model.name, policy.window);
    match &learned.window {
        Some(known) if known.tokens == window => Some(format!("{name}: a window of {known}")),
        _ => policy.model.is_assumed("window").then(|| {
            format!("{name} is in no row of the model table; a window of {window} tokens is assumed")
        }),
    }
}

#[cfg(test)]
mod tests {
    use longhaul_engine::config::ModelOverride;

    use super::*;

    #[test]
    fn what_a_provider_says_goes_before_the_table_and_behind_what_the_user_states() {
        let mut learned = Learned::default();
        let mut config = Config::default();
        let assumed = policy(&config, "house-model", &learned).unwrap();
        assert!(assumption(&assumed, &learned).unwrap().contains("is assumed"));
        learned.hear(Tokens(32_000), Some(Tokens(40_000)), Moment(0));
        let heard = policy(&config, "house-model", &learned).unwrap();
        assert_eq!((heard.window, heard.threshold), (Tokens(32_000), Tokens(16_000)));
        let said = assumption(&heard, &learned).unwrap();
        assert!(said.contains("32,000") && said.contains("when it refused 40,000"), "{said}");

        let stated = ModelOverride { context_length: Some(Tokens(64_000)), ..ModelOverride::default() };
        config.models.insert("house-model".to_owned(), stated);
        assert_eq!(
            policy(&config, "house-model", &learned).unwrap().window,
            Tokens(32_000),
            "it says so now"
        );
        let later: Learned = serde_json::from_str(&serde_json::to_string(&learned).unwrap()).unwrap();
        assert_eq!(policy(&config, "house-model", &later).unwrap().window, Tokens(64_000), "it once said so");
        assert_eq!(policy(&Config::default(), "house-model", &later).unwrap().window, Tokens(32_000));
    }

    #[test]
    fn a_calibration_changes_how_the_model_is_counted() {
        let mut learned = Learned::default();
        learned.calibration.learn(Tokens(1_000), Tokens(1_500));
        let policy = policy(&Config::default(), "gpt-5", &learned).unwrap();
        assert!((f64::from(policy.model.facts.factor) - 1.5).abs() < 0.03);
    }
}
