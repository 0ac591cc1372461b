//! Derives the numbers that apply to one model from the configuration.
//!
//! The user's settings are in [`Config`]. The rest of the engine reads [`Policy`]: token counts instead of
//! shares, with all defaults and special values resolved. Each value has a sentence about its origin, which
//! `explain` shows.

use serde_json::Value;

mod derivation;
#[cfg(test)]
mod tests;
mod validate;

pub use crate::config::{self, CacheStrategy, CacheTtl, Config, EngineName, RedactionConfig, RedactionRule};
pub use derivation::DerivedValue;
pub use validate::{ConfigWarning, InvalidValue};

use derivation::Derivation;
use validate::{check_range, invalid_value};

use crate::Tokens;
use crate::models::{self, Caching, Model};
use crate::prices::{self, ModelPrices};

/// The smallest context window that Longhaul supports. Chosen by hand: the budgets of a smaller one would be
/// too small to be useful.
pub const MIN_WINDOW: Tokens = Tokens(4_000);

/// The safety threshold as a share of the window, unless the gateway's configuration sets another one.
const SAFETY_SHARE: f64 = 0.85;

/// The window from which budgets are used in full. In smaller windows they are scaled down. Chosen by hand.
const FULL_BUDGET_WINDOW: Tokens = Tokens(40_000);

/// The values that apply to one model.
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    /// The model, with the facts that the user stated.
    pub model: Model,
    /// The engine that compacts.
    pub engine: EngineName,
    /// The largest request in tokens.
    pub window: Tokens,
    /// The context window that the provider enforces, in tokens. It is larger than `window` if the user sets
    /// a smaller window for a known model. Then the reply needs less room in `window`, or none.
    pub provider_window: Tokens,
    /// The number of tokens at which a compaction is triggered.
    pub threshold: Tokens,
    /// Whether the user set the threshold in tokens. Then it is never raised.
    pub is_threshold_fixed: bool,
    /// The safety threshold in tokens. From this size on, a request is always compacted.
    pub safety_threshold: Tokens,
    /// The size in tokens at which pruning alone is enough and no turn is summarized.
    pub prune_goal: Tokens,
    /// The tail's budget in tokens.
    pub tail: Tokens,
    /// The largest size of the tail in tokens, if a large message or `protect_last` extends it.
    pub tail_ceiling: Tokens,
    /// The number of messages that are kept at the start, after the system prompt.
    pub protect_first: usize,
    /// The number of recent messages that are kept, up to the tail's ceiling.
    pub protect_last: usize,
    /// The number of recent messages that are kept whatever their size is.
    pub protect_min: usize,
    /// Other things that the user wants to keep.
    pub user_protections: UserProtections,
    /// The user's instructions for every checkpoint.
    pub instructions: Option<String>,
    /// The budget of a checkpoint.
    pub checkpoint: CheckpointBudget,
    /// The size in tokens above which everything outside the protected zone is shortened as much as possible.
    pub digest_all_above: Tokens,
    /// The size in tokens above which, after that, the oldest turns outside the protected zone are removed.
    pub drop_oldest_above: Tokens,
    /// The number of characters up to which results and arguments are not pruned.
    pub prune_above_chars: usize,
    /// The budgets of the `sacred-zone` engine.
    pub sacred: SacredBudget,
    /// How the prefix of a request is cached.
    pub caching: CachePolicy,
    /// The prices of the model's tokens, if they are known.
    pub prices: Option<ModelPrices>,
    reasons: Vec<DerivedValue>,
}

/// Tool results and messages that are kept because the user wants it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UserProtections {
    tool_patterns: Vec<String>,
    /// The number of newest user messages that stay unchanged.
    pub last_user_messages: usize,
}

impl UserProtections {
    /// Returns whether the results of a tool are never shortened.
    #[must_use]
    pub fn protects_tool(&self, name: &str) -> bool {
        self.tool_patterns.iter().any(|pattern| matches_pattern(name.as_bytes(), pattern.as_bytes()))
    }

    /// Returns whether there is any protected tool.
    #[must_use]
    pub fn has_tools(&self) -> bool {
        !self.tool_patterns.is_empty()
    }
}

/// Returns whether a name matches a pattern, in which `*` matches any characters and `?` matches one byte.
/// Only the last star is tried again after a mismatch, so the time is at most the product of both lengths.
fn matches_pattern(name: &[u8], pattern: &[u8]) -> bool {
    let (mut at, mut of, mut star) = (0, 0, None);
    while at < name.len() {
        match pattern.get(of) {
            Some(b'*') => {
                star = Some((of, at));
                of += 1;
            }
            Some(own) if *own == b'?' || *own == name[at] => {
                at += 1;
                of += 1;
            }
            _ => match star {
                Some((place, from)) => {
                    star = Some((place, from + 1));
                    at = from + 1;
                    of = place + 1;
                }
                None => return false,
            },
        }
    }
    pattern[of..].iter().all(|rest| *rest == b'*')
}

/// The size of a checkpoint in tokens: a share of the tokens that it replaces, within limits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CheckpointBudget {
    /// The share of the replaced tokens that a checkpoint should have.
    pub target_share: f64,
    /// The lower limit in tokens.
    pub min: Tokens,
    /// The upper limit in tokens.
    pub max: Tokens,
    /// The largest share of the replaced tokens. It takes precedence over the lower limit.
    pub max_share: f64,
}

impl CheckpointBudget {
    /// Returns the number of tokens that a checkpoint may have if it replaces this many tokens.
    #[must_use]
    pub fn for_replaced(&self, replaced: Tokens) -> Tokens {
        let aim = replaced.share(self.target_share).clamp(self.min, self.max);
        aim.min(replaced.share(self.max_share))
    }

    /// Returns the number of tokens that a checkpoint may have if it replaces turns and an earlier checkpoint. The earlier
    /// one stands for what it replaced: if it counted like a turn, each compaction would shrink it to a fraction.
    #[must_use]
    pub fn for_update(&self, turns: Tokens, earlier: Tokens) -> Tokens {
        (self.for_replaced(turns) + earlier).min(self.max)
    }
}

/// The budgets of the `sacred-zone` engine, in tokens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SacredBudget {
    /// The size of a request at which the engine starts.
    pub trigger: Tokens,
    /// The size of a request at which the engine stops.
    pub target: Tokens,
    /// The newest tokens that are never changed.
    pub recent: Tokens,
    /// The lower limit of `recent` when it is adapted to the session.
    pub recent_min: Tokens,
    /// The upper limit of `recent` when it is adapted to the session.
    pub recent_max: Tokens,
    /// The minimum size of an output that is shortened.
    pub min_output: Tokens,
    /// The size of the short form of an output.
    pub digest_tokens: Tokens,
    /// The size of the short form as a share of the output; the larger of the two sizes applies.
    pub digest_share: f64,
}

/// How the prefix of a request is cached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CachePolicy {
    /// By cache breakpoints in the request.
    Breakpoints {
        /// How long a cached prefix should be kept.
        ttl: CacheTtl,
        /// Where the breakpoints are set.
        strategy: CacheStrategy,
        /// The smallest prefix that gets a breakpoint, in tokens.
        minimum: Tokens,
    },
    /// Automatically by the provider.
    Automatic,
    /// Not at all, for this reason.
    Off(&'static str),
}

impl Policy {
    /// Derives the policy for a model, with warnings about unusual values.
    ///
    /// # Errors
    /// Fails with the first value of the configuration that cannot be used.
    pub fn new(config: &Config, model: &Model) -> Result<(Policy, Vec<ConfigWarning>), InvalidValue> {
        validate::check_ranges(config)?;
        let stated = ModelOverrides::find(config, &model.name);
        let known_window = (!model.is_assumed("window")).then_some(model.facts.window);
        let model = stated.apply(model)?;
        let threshold = stated.threshold(config)?;
        let warnings = validate::find_warnings(config, &threshold);
        let mut why = Derivation { model: &model, rows: Vec::new() };

        let window = derive_window(&mut why, &stated)?;
        let ladder = OverflowLimits::new(&mut why, window);
        let is_threshold_fixed = threshold.cap.is_some();
        let threshold = threshold.tokens(&mut why, config, window, ladder.digest_all_above);
        let safety = "85 % of the window, unless the gateway sets another safety threshold";
        let safety = why.record_tokens("safety", window.share(SAFETY_SHARE), &["window"], safety);
        let budgets = Budgets::new(&mut why, config, window, threshold);
        let sacred = derive_sacred_budget(&mut why, config, window);
        let caching = derive_cache_policy(&mut why, config);
        let reasons = why.rows;

        let compression = &config.compression;
        let policy = Policy {
            engine: config.context.engine.clone(),
            window,
            provider_window: known_window.unwrap_or(window).max(window),
            threshold,
            is_threshold_fixed,
            safety_threshold: safety,
            prune_goal: budgets.prune_goal,
            tail: budgets.tail,
            tail_ceiling: budgets.tail_ceiling,
            protect_first: compression.protect_first_n,
            protect_last: compression.protect_last_n,
            protect_min: 3,
            user_protections: UserProtections {
                tool_patterns: compression.keep_tools.clone(),
                last_user_messages: compression.keep_last_users,
            },
            instructions: compression.instructions.clone().filter(|wishes| !wishes.trim().is_empty()),
            checkpoint: budgets.checkpoint,
            digest_all_above: ladder.digest_all_above,
            drop_oldest_above: ladder.drop_oldest_above,
            prune_above_chars: 200,
            sacred,
            caching,
            prices: prices::find_with_config(config, &model.name),
            reasons,
            model,
        };
        Ok((policy, warnings))
    }

    /// Returns the policy for a compaction that runs early, at fewer tokens than the threshold. Its budgets
    /// are smaller in proportion, because otherwise the compaction would gain little.
    #[must_use]
    pub fn for_early_compaction(&self, tokens: Tokens) -> Self {
        let early = u128::from(tokens.min(self.threshold).number());
        let threshold = u128::from(self.threshold.number().max(1));
        let in_proportion = |budget: Tokens| Tokens((u128::from(budget.number()) * early / threshold) as u64);
        Self {
            prune_goal: in_proportion(self.prune_goal),
            tail: in_proportion(self.tail),
            tail_ceiling: in_proportion(self.tail_ceiling),
            ..self.clone()
        }
    }

    /// Returns the prices, unless they are those of a similar model. Such prices are good enough to compare
    /// two options, but not to report what was paid.
    #[must_use]
    pub fn known_prices(&self) -> Option<&ModelPrices> {
        self.prices.as_ref().filter(|prices| !prices.nearest)
    }

    /// Returns the tokens of `window` that must stay free for a reply of the requested length. This is the
    /// requested length, limited by the model's maximum, minus the tokens by which the provider's window
    /// exceeds `window`. It is zero if the provider counts the reply separately, or if the reply alone would
    /// fill the window, which no compaction can change.
    #[must_use]
    pub fn reply_reserve(&self, asked: Option<u64>) -> Tokens {
        let facts = &self.model.facts;
        let asked = asked.map_or(Tokens::ZERO, Tokens);
        let reply = if self.model.is_assumed("max_output") { asked } else { asked.min(facts.max_output) };
        let room = reply - (self.provider_window - self.window);
        if facts.input_limit.is_none() && room < self.window { room } else { Tokens::ZERO }
    }

    /// Returns the threshold for a request of which `minimum` tokens cannot be removed by any compaction. A
    /// large minimum size raises the threshold, so that a session is not compacted on every turn. The
    /// threshold is then at least the minimum size plus a third of the rest of the window, but it is never
    /// raised above the safety threshold minus the reply. A threshold that the user set in tokens is not
    /// raised.
    #[must_use]
    pub fn threshold_for(&self, threshold: Tokens, minimum: Tokens, reply: Tokens) -> Tokens {
        if self.is_threshold_fixed { threshold } else { self.min_threshold(minimum, reply).max(threshold) }
    }

    /// Returns the lowest threshold that leaves a session with this minimum size room to grow between two
    /// compactions.
    #[must_use]
    pub fn min_threshold(&self, minimum: Tokens, reply: Tokens) -> Tokens {
        (minimum + (self.window - minimum) / 3).min(self.safety_threshold - reply)
    }

    /// Returns every derived value with its reason, in the order of derivation.
    #[must_use]
    pub fn explain(&self) -> &[DerivedValue] {
        &self.reasons
    }
}

/// The user's settings for one model, from every pattern that matches its name; the most specific pattern is
/// first.
struct ModelOverrides<'c>(Vec<(&'c str, &'c config::ModelOverride)>);

impl<'c> ModelOverrides<'c> {
    fn find(config: &'c Config, name: &str) -> Self {
        let patterns = models::matching_patterns(config.models.keys().map(String::as_str), name);
        ModelOverrides(
            patterns.into_iter().filter_map(|pattern| Some((pattern, config.models.get(pattern)?))).collect(),
        )
    }

    /// Returns a value from the most specific pattern that sets it, with its configuration key.
    fn get<T>(&self, key: &str, field: impl Fn(&config::ModelOverride) -> Option<T>) -> Option<(T, String)> {
        self.0.iter().find_map(|(pattern, row)| Some((field(row)?, format!("models.{pattern}.{key}"))))
    }

    fn apply(&self, model: &Model) -> Result<Model, InvalidValue> {
        let mut model = model.clone();
        for (pattern, row) in self.0.iter().rev() {
            let mut facts = row.capabilities.clone();
            if let Some(length) = row.context_length {
                facts.insert("window".to_owned(), length.number().into());
                facts.insert("input_limit".to_owned(), Value::Null);
            }
            let refused = |problem| invalid_value(&format!("models.{pattern}.capabilities"), problem);
            model = model.with_stated_facts(&facts).map_err(refused)?;
        }
        Ok(model)
    }

    /// Returns the checked threshold settings for the model.
    fn threshold(&self, config: &Config) -> Result<ThresholdSetting, InvalidValue> {
        let general = &config.compression;
        let (share, key) = self
            .get("threshold", |row| row.threshold)
            .unwrap_or_else(|| (general.threshold, "compression.threshold".to_owned()));
        let (cap, cap_key) = self
            .get("threshold_tokens", |row| row.threshold_tokens.map(Some))
            .unwrap_or_else(|| (general.threshold_tokens, "compression.threshold_tokens".to_owned()));
        check_range(&key, share, 0.0, 1.0)?;
        if cap == Some(Tokens::ZERO) {
            return Err(invalid_value(&cap_key, "0 must be at least 1, or left out".to_owned()));
        }
        Ok(ThresholdSetting { share, key, cap, cap_key })
    }
}

/// The threshold settings for a model, before its window is known.
struct ThresholdSetting {
    share: f64,
    key: String,
    cap: Option<Tokens>,
    cap_key: String,
}

impl ThresholdSetting {
    fn tokens(&self, why: &mut Derivation, config: &Config, window: Tokens, most: Tokens) -> Tokens {
        let by_share = window.share(self.share);
        let capped = by_share.min(self.cap.unwrap_or(by_share));
        let floor = config.compression.threshold_floor.unwrap_or_default().min(most);
        let mut text = format!("{} of the window ({})", format_percent(self.share), self.key);
        if capped < by_share {
            text.push_str(", capped by ");
            text.push_str(&self.cap_key);
        }
        if capped < floor {
            text.push_str(", raised by compression.threshold_floor");
        }
        why.record_tokens("threshold", capped.max(floor), &["window"], text)
    }
}

/// The sizes from which stronger measures apply, because the window is about to overflow.
struct OverflowLimits {
    digest_all_above: Tokens,
    drop_oldest_above: Tokens,
}

impl OverflowLimits {
    fn new(why: &mut Derivation, window: Tokens) -> Self {
        let window_only: &[&str] = &["window"];
        let longest = why.model.facts.max_output;
        let (room, reason) = if why.model.facts.input_limit.is_some() {
            (Tokens::ZERO, "zero: the host counts the reply separately from the input")
        } else {
            (longest.min(window / 10), "the model's longest reply, at most a tenth of the window")
        };
        let room = why.record_tokens("reply_room", room, &["window", "max_output"], reason);
        let digest_all = "90 % of the window minus the reply's share; above it everything unprotected is shortened";
        let digest_all = why.record_tokens("digest_all", (window - room).share(0.90), window_only, digest_all);
        let drop_oldest = "95 % of the window minus the reply's share; above it the oldest turns are removed";
        let drop_oldest = why.record_tokens("drop_oldest", (window - room).share(0.95), window_only, drop_oldest);
        Self { digest_all_above: digest_all, drop_oldest_above: drop_oldest }
    }
}

/// The budgets that follow from the window and the threshold.
struct Budgets {
    prune_goal: Tokens,
    tail: Tokens,
    tail_ceiling: Tokens,
    checkpoint: CheckpointBudget,
}

impl Budgets {
    fn new(why: &mut Derivation, config: &Config, window: Tokens, threshold: Tokens) -> Self {
        let window_only: &[&str] = &["window"];
        let ratio = config.compression.target_ratio;
        let goal = why.record_tokens(
            "goal",
            threshold / 2,
            window_only,
            "half the threshold; if shortening reaches it, \
                 nothing is summarized",
        );
        let tail = threshold.share(ratio);
        let tail =
            why.record_tokens("tail", tail, window_only, format!("threshold × {ratio} (compression.target_ratio)"));
        let ceiling = "1.5 × the tail, so that one large message stays whole";
        let tail_ceiling = why.record_tokens("tail_ceiling", tail.share(1.5), window_only, ceiling);

        // A useful checkpoint needs 1,000 to 3,000 tokens in any window, if there is room for them.
        let most = window.share(0.05).max(window.share(0.125).min(Tokens(3_000))).clamp(Tokens(400), Tokens(12_000));
        let bounds = "5 % of the window, or up to 3,000 tokens in an eighth of it; at least 400 and at most 12,000";
        let most = why.record_tokens("checkpoint_most", most, window_only, bounds);
        let least = "2,000, or the maximum if that is less";
        let least = why.record_tokens("checkpoint_least", most.min(Tokens(2_000)), window_only, least);
        let checkpoint = CheckpointBudget { target_share: 0.20, min: least, max: most, max_share: 0.25 };
        Budgets { prune_goal: goal, tail, tail_ceiling, checkpoint }
    }
}

fn derive_window(why: &mut Derivation, stated: &ModelOverrides) -> Result<Tokens, InvalidValue> {
    let Model { row, facts, .. } = why.model;
    let window = facts.input_window();
    let typed = stated.get("context_length", |row| row.context_length).map(|(_, key)| key);
    if window < MIN_WINDOW {
        let key = typed.unwrap_or_else(|| "models".to_owned());
        let problem =
            format!("a window of {} tokens is too small; the smallest is {}", window.number(), MIN_WINDOW.number());
        return Err(invalid_value(&key, problem));
    }
    let reason = match (typed, row, facts.input_limit) {
        (Some(key), ..) => key,
        (None, Some(row), Some(_)) => {
            format!("model table, row {row}: the host's cap on input, below the window")
        }
        (None, Some(row), None) => format!("model table, row {row}"),
        (None, None, _) => "no row of the model table matches the name".to_owned(),
    };
    Ok(why.record_tokens("window", window, &["window"], reason))
}

fn derive_sacred_budget(why: &mut Derivation, config: &Config, window: Tokens) -> SacredBudget {
    let window_only: &[&str] = &["window"];
    let zone = &config.sacred_zone;
    let trigger = format!("{} of the window (sacred_zone.trigger)", format_percent(zone.trigger));
    let trigger = why.record_tokens("sacred_trigger", window.share(zone.trigger), window_only, trigger);
    let target = format!("{} of the window (sacred_zone.target)", format_percent(zone.target));
    let target = why.record_tokens("sacred_target", window.share(zone.target), window_only, target);

    let recent = zone.recent_tokens.min(target / 2);
    let (recent_least, recent_most) =
        if zone.adaptive { (recent / 2, (recent + recent).min(target / 2)) } else { (recent, recent) };
    let reason = "sacred_zone.recent_tokens, at most half the target";
    let recent = why.record_tokens("sacred_recent", recent, window_only, reason);
    let reason = if zone.adaptive { "half of that, if turns are independent" } else { "not adaptive" };
    let recent_least = why.record_tokens("sacred_recent_least", recent_least, window_only, reason);
    let reason = if zone.adaptive {
        "twice that, if turns refer to earlier ones, at most half the target"
    } else {
        "not adaptive"
    };
    let recent_most = why.record_tokens("sacred_recent_most", recent_most, window_only, reason);

    let reason = "sacred_zone.min_tokens, scaled down in windows under 40,000";
    let min =
        why.record_tokens("sacred_min", scale_to_window(zone.min_tokens, window, Tokens(100)), window_only, reason);
    let reason = "sacred_zone.digest_tokens, scaled down in windows under 40,000";
    let digest = why.record_tokens(
        "sacred_digest",
        scale_to_window(zone.digest_tokens, window, Tokens(40)),
        window_only,
        reason,
    );
    SacredBudget {
        trigger,
        target,
        recent,
        recent_min: recent_least,
        recent_max: recent_most,
        min_output: min,
        digest_tokens: digest,
        digest_share: 0.05,
    }
}

fn derive_cache_policy(why: &mut Derivation, config: &Config) -> CachePolicy {
    let caching = &config.prompt_caching;
    let facts = &why.model.facts;
    let policy = match (caching.enabled, facts.caching) {
        (false, _) => CachePolicy::Off("prompt_caching.enabled is false"),
        (true, Caching::None) => CachePolicy::Off("no cache is known for this model"),
        (true, Caching::Automatic) => CachePolicy::Automatic,
        (true, Caching::Breakpoints) => CachePolicy::Breakpoints {
            ttl: caching.cache_ttl,
            strategy: caching.strategy,
            minimum: facts.cache_minimum,
        },
    };
    let (value, reason) = match &policy {
        CachePolicy::Off(reason) => ("off", *reason),
        CachePolicy::Automatic => ("automatic", "the provider caches prefixes automatically"),
        CachePolicy::Breakpoints { .. } => ("marks", "the provider caches up to the cache breakpoints in a request"),
    };
    why.record("caching", value.into(), &["caching"], reason);
    if let CachePolicy::Breakpoints { ttl, minimum, .. } = policy {
        why.record("cache_ttl", serde_json::json!(ttl), &[], "prompt_caching.cache_ttl");
        let reason = "shorter prefixes are not cached, so they get no cache breakpoint";
        why.record_tokens("cache_minimum", minimum, &["cache_minimum"], reason);
    }
    policy
}

/// Scales a budget down if the window is smaller than [`FULL_BUDGET_WINDOW`], but not below `least`.
fn scale_to_window(budget: Tokens, window: Tokens, least: Tokens) -> Tokens {
    if window >= FULL_BUDGET_WINDOW {
        return budget;
    }
    budget.share(window.number() as f64 / FULL_BUDGET_WINDOW.number() as f64).max(least).min(budget)
}

fn format_percent(share: f64) -> String {
    let percent = (share * 1000.0).round() / 10.0;
    format!("{percent} %")
}
