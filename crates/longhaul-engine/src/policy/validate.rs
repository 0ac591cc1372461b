//! Checks the values of a configuration: some are refused, others only cause a warning.

use std::fmt::{self, Display};

use serde::Serialize;

use super::{Config, ThresholdSetting};

/// A value of the configuration that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidValue {
    /// The key, with dots between its parts.
    pub key: String,
    /// The problem, and how to fix it.
    pub problem: String,
}

impl Display for InvalidValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.problem)
    }
}

impl std::error::Error for InvalidValue {}

/// A value of the configuration that can be used but may be a mistake.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ConfigWarning {
    /// The key, with dots between its parts.
    pub key: String,
    /// The possible problem.
    pub message: String,
}

impl Display for ConfigWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.message)
    }
}

/// Refuses the first value that is out of range for every model.
pub(super) fn check_ranges(config: &Config) -> Result<(), InvalidValue> {
    let Config { compression, sacred_zone, .. } = config;
    check_range("sacred_zone.trigger", sacred_zone.trigger, 0.0, 1.0)?;
    check_range("sacred_zone.target", sacred_zone.target, 0.0, 1.0)?;
    if !(0.10..=0.80).contains(&compression.target_ratio) {
        let ratio = compression.target_ratio;
        return Err(invalid_value("compression.target_ratio", format!("{ratio} must be from 0.1 to 0.8")));
    }
    if sacred_zone.target >= sacred_zone.trigger {
        let (target, trigger) = (sacred_zone.target, sacred_zone.trigger);
        return Err(invalid_value(
            "sacred_zone.target",
            format!("{target} must be under sacred_zone.trigger ({trigger})"),
        ));
    }
    if sacred_zone.digest_tokens >= sacred_zone.min_tokens {
        let problem = format!("must be under sacred_zone.min_tokens ({})", sacred_zone.min_tokens.number());
        return Err(invalid_value(
            "sacred_zone.digest_tokens",
            format!("{} {problem}", sacred_zone.digest_tokens.number()),
        ));
    }
    check_prices(config)?;
    for (key, value) in [
        ("compression.protect_last_n", compression.protect_last_n as u64),
        ("sacred_zone.digest_tokens", sacred_zone.digest_tokens.number()),
    ] {
        if value == 0 {
            return Err(invalid_value(key, "must be at least 1".to_owned()));
        }
    }
    Ok(())
}

/// The highest price that is accepted, in dollars per million tokens: one dollar per token is more than any
/// provider charges, and sums of higher prices could become infinite.
const MAX_PRICE_PER_MILLION: f64 = 1e6;

fn check_prices(config: &Config) -> Result<(), InvalidValue> {
    for (model, stated) in &config.models {
        let stated = &stated.prices;
        for (name, price) in [
            ("input", stated.input),
            ("output", stated.output),
            ("cache_read", stated.cache_read),
            ("cache_write", stated.cache_write),
            ("cache_write_1h", stated.cache_write_1h),
        ] {
            if let Some(price) = price.filter(|price| !(0.0..=MAX_PRICE_PER_MILLION).contains(price)) {
                let problem = format!("{price} must be from 0 to 1000000 dollars a million tokens");
                return Err(invalid_value(&format!("models.{model}.prices.{name}"), problem));
            }
        }
    }
    Ok(())
}

/// Returns warnings about values that are valid but unusual.
pub(super) fn find_warnings(config: &Config, threshold: &ThresholdSetting) -> Vec<ConfigWarning> {
    let mut warnings = Vec::new();
    let share = threshold.share;
    let advice = match share {
        share if share < 0.3 => Some("below 0.3, compactions come often, and each one invalidates the cache"),
        share if share > 0.8 => Some("above 0.8, little room is left for the summarizer"),
        _ => None,
    };
    if let Some(advice) = advice {
        warnings.push(ConfigWarning { key: threshold.key.clone(), message: format!("{share}: {advice}") });
    }
    if let (Some(floor), Some(cap)) = (config.compression.threshold_floor, threshold.cap)
        && floor > cap
    {
        let message = format!("{floor} is over {} ({cap}), and wins", threshold.cap_key);
        warnings.push(ConfigWarning { key: "compression.threshold_floor".to_owned(), message });
    }
    warnings
}

pub(super) fn check_range(key: &str, value: f64, over: f64, most: f64) -> Result<(), InvalidValue> {
    if value > over && value <= most {
        return Ok(());
    }
    Err(invalid_value(key, format!("{value} must be over {over} and at most {most}")))
}

pub(super) fn invalid_value(key: &str, problem: String) -> InvalidValue {
    InvalidValue { key: key.to_owned(), problem }
}
