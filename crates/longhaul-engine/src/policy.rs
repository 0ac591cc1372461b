//! From what was typed to the numbers that hold for one model.
//!
//! [`Config`] is what a user typed; [`Policy`] is what the rest of the engine reads: tokens, never shares, with every
//! default and sentinel gone. Each number remembers in one sentence how it came about, so that `explain` can say it.
//!
//! It may use `prices`, `config`, `models` and what is below them.

use serde_json::Value;

mod check;
mod reasons;
#[cfg(test)]
mod tests;

pub use crate::config::{self, CacheStrategy, CacheTtl, Config, EngineName, Redaction, RedactionRule};
pub use check::{Invalid, Warning};
pub use reasons::Derived;

use check::{in_range, invalid};
use reasons::Reasons;

use crate::Tokens;
use crate::models::{self, Caching, Model};
use crate::prices::{self, Prices};

/// The smallest window that anything sensible can be done with.
pub const SMALLEST_WINDOW: Tokens = Tokens(4_000);

/// The safety threshold as a share of the window, where the gateway's configuration states no other.
const SAFETY: f64 = 0.85;

/// A window from which no budget needs to be made smaller.
const ROOMY_WINDOW: Tokens = Tokens(40_000);

/// The numbers that hold for one model.
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    /// The model, with what the user stated about it.
    pub model: Model,
    /// The engine that compacts.
    pub engine: EngineName,
    /// What a request may hold.
    pub window: Tokens,
    /// The window that the provider enforces. It is larger than `window` where the user states a smaller one for a known model, and
    /// then the reply needs no room in `window`.
    pub provider_window: Tokens,
    /// Compaction is due at this many tokens.
    pub threshold: Tokens,
    /// Whether the user set the threshold in tokens, so that it gives way to nothing.
    pub is_threshold_fixed: bool,
    /// The safety threshold: from here on a request is compacted whatever else was decided.
    pub safety: Tokens,
    /// Pruning alone is enough if the result is at most this large.
    pub goal: Tokens,
    /// The tail's budget.
    pub tail: Tokens,
    /// How far one large message or `protect_last` may stretch the tail.
    pub tail_ceiling: Tokens,
    /// Messages kept at the head, beyond the system prompt.
    pub protect_first: usize,
    /// Recent messages kept, up to the tail's ceiling.
    pub protect_last: usize,
    /// Recent messages kept whatever their size.
    pub protect_least: usize,
    /// What stays beyond that because the user wants it so.
    pub keep: Keeps,
    /// Standing wishes for every handover.
    pub instructions: Option<String>,
    /// The size of a checkpoint.
    pub checkpoint: CheckpointBudget,
    /// Above this, everything outside the protected zone is digested to its minimum.
    pub digest_all: Tokens,
    /// Above this even then, the oldest units outside it are dropped.
    pub drop_oldest: Tokens,
    /// Results and arguments of at most this many characters are left alone.
    pub prune_characters: usize,
    /// The engine that digests tool outputs only.
    pub sacred: SacredBudget,
    /// How the prefix is cached.
    pub caching: CachePolicy,
    /// What the model's tokens cost; nothing where that is not known.
    pub prices: Option<Prices>,
    reasons: Vec<Derived>,
}

/// What stays because the user wants it so.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Keeps {
    tools: Vec<String>,
    /// So many newest messages of the user stay where they are.
    pub last_users: usize,
}

impl Keeps {
    /// Whether results of a tool are never shortened.
    #[must_use]
    pub fn tool(&self, name: &str) -> bool {
        self.tools.iter().any(|pattern| is_like(name.as_bytes(), pattern.as_bytes()))
    }

    /// Whether there is any such tool.
    #[must_use]
    pub fn any_tool(&self) -> bool {
        !self.tools.is_empty()
    }
}

/// Whether a name is like a pattern: `*` is any characters, `?` one, and all else itself. Each star is tried once more with one
/// character more, so that the time is that of both lengths multiplied at most.
fn is_like(name: &[u8], pattern: &[u8]) -> bool {
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

/// The size of a checkpoint, in tokens: a share of what it replaces, between two bounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CheckpointBudget {
    /// The share of the replaced tokens that is aimed at.
    pub share: f64,
    /// At least this many tokens,
    pub least: Tokens,
    /// at most this many,
    pub most: Tokens,
    /// and never more than this share of what it replaces.
    pub largest_share: f64,
}

impl CheckpointBudget {
    /// How many tokens the checkpoint for this many replaced tokens may have.
    #[must_use]
    pub fn tokens(&self, replaced: Tokens) -> Tokens {
        let aim = replaced.share(self.share).clamp(self.least, self.most);
        aim.min(replaced.share(self.largest_share))
    }
}

/// The numbers of the sacred zone, in tokens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SacredBudget {
    /// It starts here
    pub trigger: Tokens,
    /// and is content here.
    pub target: Tokens,
    /// The newest tokens that are not touched,
    pub recent: Tokens,
    /// at least, when it follows the session,
    pub recent_least: Tokens,
    /// and at most.
    pub recent_most: Tokens,
    /// Outputs of fewer tokens are left alone.
    pub min: Tokens,
    /// An output is digested to this many tokens,
    pub digest: Tokens,
    /// or to this share of its size, whichever is more.
    pub digest_share: f64,
}

/// How the prefix is cached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CachePolicy {
    /// By marks.
    Marks {
        /// How long a marked prefix is to live.
        ttl: CacheTtl,
        /// Where the marks go.
        strategy: CacheStrategy,
        /// Shorter prefixes are not marked.
        minimum: Tokens,
    },
    /// By the provider itself.
    Automatic,
    /// Not, for this reason.
    Off(&'static str),
}

impl Policy {
    /// The numbers for this model, with what is worth a second look.
    ///
    /// # Errors
    /// The first value of the configuration that cannot be used.
    pub fn new(config: &Config, model: &Model) -> Result<(Policy, Vec<Warning>), Invalid> {
        check::ranges(config)?;
        let stated = Stated::find(config, &model.name);
        let known_window = (!model.is_assumed("window")).then_some(model.facts.window);
        let model = stated.apply(model)?;
        let threshold = stated.threshold(config)?;
        let warnings = check::warnings(config, &threshold);
        let mut why = Reasons { model: &model, rows: Vec::new() };

        let window = window(&mut why, &stated)?;
        let ladder = Ladder::new(&mut why, window);
        let is_threshold_fixed = threshold.cap.is_some();
        let threshold = threshold.tokens(&mut why, config, window, ladder.digest_all);
        let safety = "the safety threshold where the gateway states no other: 85 % of the window";
        let safety = why.tokens("safety", window.share(SAFETY), &["window"], safety);
        let budgets = Budgets::new(&mut why, config, window, threshold);
        let sacred = sacred(&mut why, config, window);
        let caching = caching(&mut why, config);
        let reasons = why.rows;

        let compression = &config.compression;
        let policy = Policy {
            engine: config.context.engine.clone(),
            window,
            provider_window: known_window.unwrap_or(window).max(window),
            threshold,
            is_threshold_fixed,
            safety,
            goal: budgets.goal,
            tail: budgets.tail,
            tail_ceiling: budgets.tail_ceiling,
            protect_first: compression.protect_first_n,
            protect_last: compression.protect_last_n,
            protect_least: 3,
            keep: Keeps { tools: compression.keep_tools.clone(), last_users: compression.keep_last_users },
            instructions: compression.instructions.clone().filter(|wishes| !wishes.trim().is_empty()),
            checkpoint: budgets.checkpoint,
            digest_all: ladder.digest_all,
            drop_oldest: ladder.drop_oldest,
            prune_characters: 200,
            sacred,
            caching,
            prices: prices::stated(config, &model.name),
            reasons,
            model,
        };
        Ok((policy, warnings))
    }

    /// The same policy for a compaction that is made early, at fewer tokens than the threshold: what it may leave is less in
    /// proportion, or there would be little to gain.
    #[must_use]
    pub fn early(&self, tokens: Tokens) -> Self {
        let early = u128::from(tokens.min(self.threshold).number());
        let threshold = u128::from(self.threshold.number().max(1));
        let in_proportion = |budget: Tokens| Tokens((u128::from(budget.number()) * early / threshold) as u64);
        Self {
            goal: in_proportion(self.goal),
            tail: in_proportion(self.tail),
            tail_ceiling: in_proportion(self.tail_ceiling),
            ..self.clone()
        }
    }

    /// The prices of the model itself. Those of another model, which is only the nearest on the list, are good enough to weigh one way
    /// against another, but not to say what was paid.
    #[must_use]
    pub fn known_prices(&self) -> Option<&Prices> {
        self.prices.as_ref().filter(|prices| !prices.nearest)
    }

    /// The tokens of `window` that have to stay free for a reply of this length: as much as is asked for and the model can give,
    /// less what the provider's own window holds beyond `window`. None where the provider counts the reply apart, or where the
    /// reply alone would fill the window, which no compaction can change.
    #[must_use]
    pub fn reply_room(&self, asked: Option<u64>) -> Tokens {
        let facts = &self.model.facts;
        let asked = asked.map_or(Tokens::ZERO, Tokens);
        let reply = if self.model.is_assumed("max_output") { asked } else { asked.min(facts.max_output) };
        let room = reply - (self.provider_window - self.window);
        if facts.input_limit.is_none() && room < self.window { room } else { Tokens::ZERO }
    }

    /// The threshold for a request of which so many tokens cannot be removed by any compaction: it gives way to a large minimum
    /// size, so that a session does not have to be compacted on every turn. It is at least the minimum size plus a third of the
    /// rest of the window, but this never raises it above the safety threshold minus the reply. A threshold that the user set in
    /// tokens does not give way.
    #[must_use]
    pub fn threshold_over(&self, threshold: Tokens, minimum: Tokens, reply: Tokens) -> Tokens {
        if self.is_threshold_fixed { threshold } else { self.least_threshold(minimum, reply).max(threshold) }
    }

    /// The lowest threshold that leaves a session of this minimum size room to grow between two compactions.
    #[must_use]
    pub fn least_threshold(&self, minimum: Tokens, reply: Tokens) -> Tokens {
        (minimum + (self.window - minimum) / 3).min(self.safety - reply)
    }

    /// Every derived number and how it came about, in the order they were derived.
    #[must_use]
    pub fn explain(&self) -> &[Derived] {
        &self.reasons
    }
}

/// What the user stated about one model, in every row that matches it: the most specific one comes first.
struct Stated<'c>(Vec<(&'c str, &'c config::ModelOverride)>);

impl<'c> Stated<'c> {
    fn find(config: &'c Config, name: &str) -> Self {
        let patterns = models::matching(config.models.keys().map(String::as_str), name);
        Stated(
            patterns.into_iter().filter_map(|pattern| Some((pattern, config.models.get(pattern)?))).collect(),
        )
    }

    /// What the most specific row that states it says, and the key where it says so.
    fn get<T>(&self, key: &str, field: impl Fn(&config::ModelOverride) -> Option<T>) -> Option<(T, String)> {
        self.0.iter().find_map(|(pattern, row)| Some((field(row)?, format!("models.{pattern}.{key}"))))
    }

    fn apply(&self, model: &Model) -> Result<Model, Invalid> {
        let mut model = model.clone();
        for (pattern, row) in self.0.iter().rev() {
            let mut facts = row.capabilities.clone();
            if let Some(length) = row.context_length {
                facts.insert("window".to_owned(), length.number().into());
                facts.insert("input_limit".to_owned(), Value::Null);
            }
            let refused = |problem| invalid(&format!("models.{pattern}.capabilities"), problem);
            model = model.with(&facts).map_err(refused)?;
        }
        Ok(model)
    }

    /// The threshold in force for the model, checked.
    fn threshold(&self, config: &Config) -> Result<Threshold, Invalid> {
        let general = &config.compression;
        let (share, key) = self
            .get("threshold", |row| row.threshold)
            .unwrap_or_else(|| (general.threshold, "compression.threshold".to_owned()));
        let (cap, cap_key) = self
            .get("threshold_tokens", |row| row.threshold_tokens.map(Some))
            .unwrap_or_else(|| (general.threshold_tokens, "compression.threshold_tokens".to_owned()));
        in_range(&key, share, 0.0, 1.0)?;
        if cap == Some(Tokens::ZERO) {
            return Err(invalid(&cap_key, "0 must be at least 1, or left out".to_owned()));
        }
        Ok(Threshold { share, key, cap, cap_key })
    }
}

/// The threshold in force for a model, before its window is known.
struct Threshold {
    share: f64,
    key: String,
    cap: Option<Tokens>,
    cap_key: String,
}

impl Threshold {
    fn tokens(&self, why: &mut Reasons, config: &Config, window: Tokens, most: Tokens) -> Tokens {
        let by_share = window.share(self.share);
        let capped = by_share.min(self.cap.unwrap_or(by_share));
        let floor = config.compression.threshold_floor.unwrap_or_default().min(most);
        let mut text = format!("{} of the window ({})", percent(self.share), self.key);
        if capped < by_share {
            text.push_str(", capped by ");
            text.push_str(&self.cap_key);
        }
        if capped < floor {
            text.push_str(", lifted by compression.threshold_floor");
        }
        why.tokens("threshold", capped.max(floor), &["window"], text)
    }
}

/// Where the window is about to overflow, and more is done than the policy would like.
struct Ladder {
    digest_all: Tokens,
    drop_oldest: Tokens,
}

impl Ladder {
    fn new(why: &mut Reasons, window: Tokens) -> Self {
        let window_only: &[&str] = &["window"];
        let longest = why.model.facts.max_output;
        let (room, reason) = if why.model.facts.input_limit.is_some() {
            (Tokens::ZERO, "none needed: the host counts the reply apart from the input")
        } else {
            (longest.min(window / 10), "the model's longest reply, at most a tenth of the window")
        };
        let room = why.tokens("reply_room", room, &["window", "max_output"], reason);
        let digest_all =
            "90 % of the window less the reply's room; above it everything unprotected is digested";
        let digest_all = why.tokens("digest_all", (window - room).share(0.90), window_only, digest_all);
        let drop_oldest = "95 % of the window less the reply's room; above it the oldest steps are removed";
        let drop_oldest = why.tokens("drop_oldest", (window - room).share(0.95), window_only, drop_oldest);
        Self { digest_all, drop_oldest }
    }
}

/// What follows from the window and the threshold.
struct Budgets {
    goal: Tokens,
    tail: Tokens,
    tail_ceiling: Tokens,
    checkpoint: CheckpointBudget,
}

impl Budgets {
    fn new(why: &mut Reasons, config: &Config, window: Tokens, threshold: Tokens) -> Self {
        let window_only: &[&str] = &["window"];
        let ratio = config.compression.target_ratio;
        let goal = why.tokens(
            "goal",
            threshold / 2,
            window_only,
            "half the threshold; pruning down to it is enough",
        );
        let tail = threshold.share(ratio);
        let tail =
            why.tokens("tail", tail, window_only, format!("threshold × {ratio} (compression.target_ratio)"));
        let ceiling = "1.5 × the tail, so that one large message stays whole";
        let tail_ceiling = why.tokens("tail_ceiling", tail.share(1.5), window_only, ceiling);

        // A handover needs 1,000 to 3,000 tokens however small the window is, as long as there is room for them.
        let most =
            window.share(0.05).max(window.share(0.125).min(Tokens(3_000))).clamp(Tokens(400), Tokens(12_000));
        let bounds =
            "5 % of the window, or up to 3,000 tokens in an eighth of it; at least 400 and at most 12,000";
        let most = why.tokens("checkpoint_most", most, window_only, bounds);
        let least = "2,000, or the most where that is less";
        let least = why.tokens("checkpoint_least", most.min(Tokens(2_000)), window_only, least);
        let checkpoint = CheckpointBudget { share: 0.20, least, most, largest_share: 0.25 };
        Budgets { goal, tail, tail_ceiling, checkpoint }
    }
}

fn window(why: &mut Reasons, stated: &Stated) -> Result<Tokens, Invalid> {
    let Model { row, facts, .. } = why.model;
    let window = facts.input_window();
    let typed = stated.get("context_length", |row| row.context_length).map(|(_, key)| key);
    if window < SMALLEST_WINDOW {
        let key = typed.unwrap_or_else(|| "models".to_owned());
        let problem = format!(
            "a window of {} tokens is too small; the smallest is {}",
            window.number(),
            SMALLEST_WINDOW.number()
        );
        return Err(invalid(&key, problem));
    }
    let reason = match (typed, row, facts.input_limit) {
        (Some(key), ..) => key,
        (None, Some(row), Some(_)) => {
            format!("model table, row {row}: the host's cap on input, below the window")
        }
        (None, Some(row), None) => format!("model table, row {row}"),
        (None, None, _) => "no row of the model table matches the name".to_owned(),
    };
    Ok(why.tokens("window", window, &["window"], reason))
}

fn sacred(why: &mut Reasons, config: &Config, window: Tokens) -> SacredBudget {
    let window_only: &[&str] = &["window"];
    let zone = &config.sacred_zone;
    let trigger = format!("{} of the window (sacred_zone.trigger)", percent(zone.trigger));
    let trigger = why.tokens("sacred_trigger", window.share(zone.trigger), window_only, trigger);
    let target = format!("{} of the window (sacred_zone.target)", percent(zone.target));
    let target = why.tokens("sacred_target", window.share(zone.target), window_only, target);

    let recent = zone.recent_tokens.min(target / 2);
    let (recent_least, recent_most) =
        if zone.adaptive { (recent / 2, (recent + recent).min(target / 2)) } else { (recent, recent) };
    let reason = "sacred_zone.recent_tokens, at most half the target";
    let recent = why.tokens("sacred_recent", recent, window_only, reason);
    let reason = if zone.adaptive { "half of that, where turns stand alone" } else { "not adaptive" };
    let recent_least = why.tokens("sacred_recent_least", recent_least, window_only, reason);
    let reason = if zone.adaptive {
        "twice that, where turns refer back, at most half the target"
    } else {
        "not adaptive"
    };
    let recent_most = why.tokens("sacred_recent_most", recent_most, window_only, reason);

    let reason = "sacred_zone.min_tokens, less in proportion in windows under 40,000";
    let min =
        why.tokens("sacred_min", in_proportion(zone.min_tokens, window, Tokens(100)), window_only, reason);
    let reason = "sacred_zone.digest_tokens, less in proportion in windows under 40,000";
    let digest = why.tokens(
        "sacred_digest",
        in_proportion(zone.digest_tokens, window, Tokens(40)),
        window_only,
        reason,
    );
    SacredBudget { trigger, target, recent, recent_least, recent_most, min, digest, digest_share: 0.05 }
}

fn caching(why: &mut Reasons, config: &Config) -> CachePolicy {
    let caching = &config.prompt_caching;
    let facts = &why.model.facts;
    let policy = match (caching.enabled, facts.caching) {
        (false, _) => CachePolicy::Off("prompt_caching.enabled is false"),
        (true, Caching::None) => CachePolicy::Off("no cache is known for this model"),
        (true, Caching::Automatic) => CachePolicy::Automatic,
        (true, Caching::Marks) => CachePolicy::Marks {
            ttl: caching.cache_ttl,
            strategy: caching.strategy,
            minimum: facts.cache_minimum,
        },
    };
    let (value, reason) = match &policy {
        CachePolicy::Off(reason) => ("off", *reason),
        CachePolicy::Automatic => ("automatic", "the provider caches prefixes by itself, without marks"),
        CachePolicy::Marks { .. } => ("marks", "the provider caches up to the marks in a request"),
    };
    why.note("caching", value.into(), &["caching"], reason);
    if let CachePolicy::Marks { ttl, minimum, .. } = policy {
        why.note("cache_ttl", serde_json::json!(ttl), &[], "prompt_caching.cache_ttl");
        let reason = "shorter prefixes are not cached, so they are not marked";
        why.tokens("cache_minimum", minimum, &["cache_minimum"], reason);
    }
    policy
}

/// A budget made for roomy windows, smaller in a small one.
fn in_proportion(budget: Tokens, window: Tokens, least: Tokens) -> Tokens {
    if window >= ROOMY_WINDOW {
        return budget;
    }
    budget.share(window.number() as f64 / ROOMY_WINDOW.number() as f64).max(least).min(budget)
}

fn percent(share: f64) -> String {
    let percent = (share * 1000.0).round() / 10.0;
    format!("{percent} %")
}
