//! Which values are refused, and which are only strange.

use std::fmt::{self, Display};

use serde::Serialize;

use super::{Config, Threshold};

/// A value that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invalid {
    /// The key, with dots.
    pub key: String,
    /// What is wrong and what to do.
    pub problem: String,
}

impl Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.problem)
    }
}

impl std::error::Error for Invalid {}

/// A value that can be used but may not be what was meant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Warning {
    /// The key, with dots.
    pub key: String,
    /// What may be wrong with it.
    pub message: String,
}

impl Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.message)
    }
}

/// Refuses the first value that is out of range whatever the model.
pub(super) fn ranges(config: &Config) -> Result<(), Invalid> {
    let Config { compression, sacred_zone, .. } = config;
    in_range("sacred_zone.trigger", sacred_zone.trigger, 0.0, 1.0)?;
    in_range("sacred_zone.target", sacred_zone.target, 0.0, 1.0)?;
    if !(0.10..=0.80).contains(&compression.target_ratio) {
        let ratio = compression.target_ratio;
        return Err(invalid("compression.target_ratio", format!("{ratio} must be from 0.1 to 0.8")));
    }
    if sacred_zone.target >= sacred_zone.trigger {
        let (target, trigger) = (sacred_zone.target, sacred_zone.trigger);
        return Err(invalid(
            "sacred_zone.target",
            format!("{target} must be under sacred_zone.trigger ({trigger})"),
        ));
    }
    if sacred_zone.digest_tokens >= sacred_zone.min_tokens {
        let problem = format!("must be under sacred_zone.min_tokens ({})", sacred_zone.min_tokens.number());
        return Err(invalid(
            "sacred_zone.digest_tokens",
            format!("{} {problem}", sacred_zone.digest_tokens.number()),
        ));
    }
    prices(config)?;
    for (key, value) in [
        ("compression.protect_last_n", compression.protect_last_n as u64),
        ("sacred_zone.digest_tokens", sacred_zone.digest_tokens.number()),
    ] {
        if value == 0 {
            return Err(invalid(key, "must be at least 1".to_owned()));
        }
    }
    Ok(())
}

/// A dollar a token is more than anybody asks; beyond it sums would end in infinity.
const HIGHEST_PRICE: f64 = 1e6;

fn prices(config: &Config) -> Result<(), Invalid> {
    for (model, stated) in &config.models {
        let stated = &stated.prices;
        for (name, price) in [
            ("input", stated.input),
            ("output", stated.output),
            ("cache_read", stated.cache_read),
            ("cache_write", stated.cache_write),
            ("cache_write_1h", stated.cache_write_1h),
        ] {
            if let Some(price) = price.filter(|price| !(0.0..=HIGHEST_PRICE).contains(price)) {
                let problem = format!("{price} must be from 0 to 1000000 dollars a million tokens");
                return Err(invalid(&format!("models.{model}.prices.{name}"), problem));
            }
        }
    }
    Ok(())
}

/// What is worth a second look.
pub(super) fn warnings(config: &Config, threshold: &Threshold) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let share = threshold.share;
    let advice = match share {
        share if share < 0.3 => Some("under 0.3 compaction comes often, and each one costs the cache"),
        share if share > 0.8 => Some("over 0.8 little room is left for a summarizer to work in"),
        _ => None,
    };
    if let Some(advice) = advice {
        warnings.push(Warning { key: threshold.key.clone(), message: format!("{share}: {advice}") });
    }
    if let (Some(floor), Some(cap)) = (config.compression.threshold_floor, threshold.cap)
        && floor > cap
    {
        let message = format!("{floor} is over {} ({cap}), and wins", threshold.cap_key);
        warnings.push(Warning { key: "compression.threshold_floor".to_owned(), message });
    }
    warnings
}

pub(super) fn in_range(key: &str, value: f64, over: f64, most: f64) -> Result<(), Invalid> {
    if value > over && value <= most {
        return Ok(());
    }
    Err(invalid(key, format!("{value} must be over {over} and at most {most}")))
}

pub(super) fn invalid(key: &str, problem: String) -> Invalid {
    Invalid { key: key.to_owned(), problem }
}
