//! Facts about each model: its context window, its tokenizer, how it is cached, and what its host refuses.
//!
//! The facts are rows of `models.toml`. A name is split into runs of letters and runs of digits, so prefixes,
//! dates and different spellings of a model do not matter. The row with the longest pattern that occurs in
//! the name is used:
//!
//! ```text
//! litellm_proxy/anthropic.claude-3-5-sonnet-20241022-v2:0
//!                         └── claude-3-5-sonnet ──┘   missing facts come from `claude`, then from the default
//! ```
//!
//! A fact that nobody has confirmed is *assumed*: see [`Model::is_assumed`].

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::check::{self, Target};
use crate::tokens::images::ImageCost;
use crate::tokens::{TokenCounter, TokenFactor, Vocabulary};
use crate::{ApiFormat, Tokens};

/// The facts about one model.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Model {
    /// The name that the caller looked up.
    pub name: String,
    /// The pattern of the row that matched, or `None` for an unknown model.
    pub row: Option<String>,
    /// The facts of the matching rows, and defaults for all others.
    pub facts: ModelFacts,
    /// The field names of the facts that nobody has confirmed.
    pub assumed: BTreeSet<String>,
    /// The source of the row's confirmed facts.
    pub source: Option<String>,
    /// The month in which the source was read.
    pub checked: Option<String>,
}

/// The columns of the model table. The default value is used for models that no row describes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own, in any combination")]
pub struct ModelFacts {
    /// The family: models that share a tokenizer and similar behavior.
    pub family: String,
    /// The host whose rules a request must follow.
    pub host: String,
    /// The context window: the tokens of a request and its reply together.
    pub window: Tokens,
    /// The largest request in tokens, if the host limits it below the window.
    pub input_limit: Option<Tokens>,
    /// The longest reply, in tokens.
    pub max_output: Tokens,
    /// The vocabulary to count with: the model's own, or the nearest public one.
    pub tokenizer: Vocabulary,
    /// The factor that a count with `tokenizer` is multiplied by.
    pub factor: TokenFactor,
    /// How the tokens of an image are counted.
    pub image_rule: ImageRule,
    /// How a prefix of the prompt gets into the provider's cache.
    pub caching: Caching,
    /// The smallest prefix that is cached, in tokens (rule A31).
    pub cache_minimum: Tokens,
    /// Whether a request may end on an assistant message (rule A12).
    pub prefill: bool,
    /// Whether reasoning is valid only after the exact prefix with which it was created (rule A25).
    pub thinking_bound: bool,
    /// Whether a system message may follow other messages (rules A17, M2).
    pub system_midway: bool,
    /// Whether every assistant message must contain its reasoning (rules X6, X8).
    pub reasoning_back: bool,
    /// Whether two consecutive messages with the same role are refused (rules X7, X10).
    pub roles_alternate: bool,
    /// Whether a user message may directly follow a tool result (rule M2).
    pub user_after_tool: bool,
}

/// How the tokens of an image follow from its size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ImageRule {
    /// Width × height / 750, after scaling down to a longest side of 1,568 pixels.
    Area,
    /// A base plus an amount for each tile of 512 pixels, after scaling the shortest side to 768 pixels.
    Tiles,
    /// One token for each patch of 32 pixels, up to a maximum.
    Patches,
    /// An amount of 258 tokens for each tile of 768 pixels.
    LargeTiles,
    /// The same number of tokens for every image.
    Flat,
}

impl ImageRule {
    /// Returns the numbers of this rule.
    #[must_use]
    pub fn cost(self) -> ImageCost {
        match self {
            Self::Area => ImageCost::default(),
            Self::Tiles => ImageCost::Tiles {
                base_tokens: 85,
                tokens_per_tile: 170,
                tile_pixels: 512,
                long_edge: 2_048,
                short_edge: 768,
            },
            Self::Patches => ImageCost::Patches { patch_pixels: 32, max_patches: 1_536, millitokens_per_patch: 1_000 },
            Self::LargeTiles => ImageCost::Tiles {
                base_tokens: 0,
                tokens_per_tile: 258,
                tile_pixels: 768,
                long_edge: 3_072,
                short_edge: 3_072,
            },
            Self::Flat => ImageCost::Flat { tokens: 1_600 },
        }
    }
}

/// How a prefix of the prompt gets into the provider's cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Caching {
    /// Only up to a cache breakpoint in the request.
    #[serde(rename = "marks")]
    Breakpoints,
    /// Automatically, for any prefix that the provider has seen before.
    Automatic,
    /// Not at all, or it is not known how.
    None,
}

impl Default for ModelFacts {
    fn default() -> Self {
        ModelFacts {
            family: "unknown".to_owned(),
            host: "unknown".to_owned(),
            window: Tokens(128_000),
            input_limit: None,
            max_output: Tokens(8_192),
            tokenizer: Vocabulary::O200kBase,
            factor: TokenFactor::from_thousandths(1_100),
            image_rule: ImageRule::Flat,
            caching: Caching::None,
            cache_minimum: Tokens(1_024),
            prefill: false,
            thinking_bound: false,
            system_midway: true,
            reasoning_back: false,
            roles_alternate: false,
            user_after_tool: true,
        }
    }
}

impl ModelFacts {
    /// Returns the largest request in tokens: the window, or the host's lower limit for input.
    #[must_use]
    pub fn input_window(&self) -> Tokens {
        self.input_limit.map_or(self.window, |limit| limit.min(self.window))
    }
}

impl Model {
    /// Returns the token counter for this model.
    #[must_use]
    pub fn counter(&self) -> TokenCounter {
        TokenCounter { vocabulary: self.facts.tokenizer, factor: self.facts.factor }
    }

    /// Returns the host that receives a request for this model, with its rules. Assumed facts are left out,
    /// so the rules do not rely on them.
    #[must_use]
    pub fn target(&self, api_format: ApiFormat) -> Target {
        let confirmed = |fact: &str, value: bool| (!self.is_assumed(fact)).then_some(value);
        let facts = &self.facts;
        let host = check::Host::named(&facts.host).unwrap_or_else(|| Target::default_for(api_format).host);
        Target {
            supports_prefill: confirmed("prefill", facts.prefill),
            accepts_mid_system: confirmed("system_midway", facts.system_midway),
            binds_thinking: confirmed("thinking_bound", facts.thinking_bound),
            requires_reasoning: confirmed("reasoning_back", facts.reasoning_back),
            requires_alternation: confirmed("roles_alternate", facts.roles_alternate),
            ..Target::on_host(host)
        }
    }

    /// Returns the model as this host serves it. Some hosts have no prompt cache for older models, even if
    /// their vendor has one.
    #[must_use]
    pub fn served_by(mut self, host: &str) -> Self {
        let row = TABLE.host.iter().find(|row| row.name == host);
        if row.is_some_and(|row| self.row.as_ref().is_some_and(|pattern| row.uncached.contains(pattern))) {
            self.facts.caching = Caching::None;
            self.assumed.remove("caching");
        }
        self
    }

    /// Returns whether nobody has confirmed a fact, given by its field name in [`ModelFacts`].
    #[must_use]
    pub fn is_assumed(&self, fact: &str) -> bool {
        self.assumed.contains(fact)
    }

    /// Returns the model with facts that the user stated. Stated facts are never assumed.
    ///
    /// # Errors
    /// Fails if a name is not a fact, or if a value does not fit the fact.
    pub fn with_stated_facts(mut self, stated: &Map<String, Value>) -> Result<Model, String> {
        let mut facts = match serde_json::to_value(&self.facts) {
            Ok(Value::Object(facts)) => facts,
            _ => Map::new(),
        };
        for (fact, value) in stated {
            facts.insert(fact.clone(), value.clone());
            self.assumed.remove(fact);
        }
        self.facts = parse_facts(facts).map_err(|error| error.to_string())?;
        Ok(self)
    }
}

/// Looks up the facts about the model with this name.
#[must_use]
pub fn find(name: &str) -> Model {
    let runs = split_runs(name);
    let best = TABLE
        .model
        .iter()
        .filter_map(|row| Some((row, last_occurrence(&row.runs, &runs)?)))
        .max_by_key(|(row, at)| (row.runs.len(), *at));
    let winner = best.map(|(row, _)| row);
    let mut learned = CollectedFacts::default();
    let mut family: Vec<&ModelRow> =
        TABLE.model.iter().filter(|row| winner.is_some_and(|winner| winner.runs.starts_with(&row.runs))).collect();
    family.sort_by_key(|row| row.runs.len());
    for row in family {
        learned.add_row(row);
    }
    if best.is_some_and(|(row, at)| is_another_version(&row.runs, &runs[at + row.runs.len()..])) {
        learned.assumed = CollectedFacts::default().assumed;
    }
    let lower = name.to_lowercase();
    if let Some(host) = TABLE.host.iter().find(|host| host.spellings.iter().any(|s| lower.contains(s))) {
        learned.facts.insert("host".to_owned(), Value::from(host.name.clone()));
        learned.assumed.remove("host");
    }
    let model = Model {
        name: name.to_owned(),
        row: winner.map(|row| row.pattern.clone()),
        facts: parse_facts(learned.facts).unwrap_or_default(),
        assumed: learned.assumed,
        source: winner.map(|row| row.source.clone()),
        checked: winner.map(|row| row.checked.clone()),
    };
    let host = model.facts.host.clone();
    model.served_by(&host)
}

/// Returns the patterns that match a model's name, the most specific first. They match like the rows of the
/// table; a pattern that equals the name is the most specific one.
#[must_use]
pub fn matching_patterns<'p>(patterns: impl IntoIterator<Item = &'p str>, name: &str) -> Vec<&'p str> {
    let in_name = split_runs(name);
    let mut matching: Vec<_> = patterns
        .into_iter()
        .filter_map(|pattern| {
            let runs = split_runs(pattern);
            let exact = pattern == name;
            let at = if exact { 0 } else { last_occurrence(&runs, &in_name)? };
            Some((exact, runs.len(), at, pattern))
        })
        .collect();
    matching.sort_unstable();
    matching.into_iter().rev().map(|(.., pattern)| pattern).collect()
}

/// The facts from the rows so far, and which of them nobody has confirmed.
struct CollectedFacts {
    facts: Map<String, Value>,
    assumed: BTreeSet<String>,
}

impl Default for CollectedFacts {
    /// Before any row is added, every fact is assumed. The exception is `input_limit`: if no row states one,
    /// there is none.
    fn default() -> Self {
        let mut assumed: BTreeSet<String> = match serde_json::to_value(ModelFacts::default()) {
            Ok(Value::Object(facts)) => facts.into_iter().map(|(fact, _)| fact).collect(),
            _ => BTreeSet::new(),
        };
        assumed.remove("input_limit");
        CollectedFacts { facts: Map::new(), assumed }
    }
}

impl CollectedFacts {
    fn add_row(&mut self, row: &ModelRow) {
        for (fact, value) in &row.facts {
            self.facts.insert(fact.clone(), value.clone());
            self.assumed.remove(fact);
        }
        self.assumed.extend(row.assumed.iter().cloned());
    }
}

fn parse_facts(facts: Map<String, Value>) -> Result<ModelFacts, serde_json::Error> {
    serde_json::from_value(Value::Object(facts))
}

#[derive(Deserialize)]
struct ModelTable {
    model: Vec<ModelRow>,
    host: Vec<HostFacts>,
}

#[derive(Deserialize)]
struct ModelRow {
    #[serde(rename = "match")]
    pattern: String,
    #[serde(skip)]
    runs: Vec<String>,
    source: String,
    checked: String,
    #[serde(default)]
    assumed: BTreeSet<String>,
    #[serde(flatten)]
    facts: Map<String, Value>,
}

#[derive(Deserialize)]
struct HostFacts {
    name: String,
    spellings: Vec<String>,
    /// The patterns of the rows whose models this host serves without a prompt cache.
    #[serde(default)]
    uncached: Vec<String>,
}

table! {
    static TABLE: ModelTable = "models.toml", |mut table: ModelTable| {
        for row in &mut table.model {
            row.runs = split_runs(&row.pattern);
        }
        Ok(table)
    };
}

/// Splits a name into runs of letters and runs of digits, in lower case: both `gpt-4.1` and `GPT_4-1` become
/// `gpt 4 1`. Text after a space is not part of the name.
fn split_runs(name: &str) -> Vec<String> {
    let name = name.split_whitespace().next().unwrap_or_default().to_lowercase();
    let mut runs: Vec<String> = Vec::new();
    let mut last = None;
    for c in name.chars() {
        let kind = c.is_alphanumeric().then_some(c.is_numeric());
        match (kind, runs.last_mut()) {
            (Some(_), Some(run)) if kind == last => run.push(c),
            (Some(_), _) => runs.push(c.to_string()),
            (None, _) => {}
        }
        last = kind;
    }
    runs
}

/// Returns whether a name that contains a pattern is the name of another version than the pattern's.
pub(crate) fn is_name_of_another_version(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (split_runs(pattern), split_runs(name));
    let rest = last_occurrence(&pattern, &name).map(|at| &name[at + pattern.len()..]);
    rest.is_some_and(|rest| is_another_version(&pattern, rest))
}

/// Returns whether the runs after a pattern continue its version number: the row for `gpt 5` says little
/// about `gpt 5 9`. A zero is not another version, four or more digits are a date, and `8 b` is a size.
fn is_another_version(pattern: &[String], rest: &[String]) -> bool {
    let is_number = |run: &String| run.starts_with(char::is_numeric);
    match rest {
        [next, after @ ..] => {
            pattern.last().is_some_and(is_number)
                && is_number(next)
                && next.len() <= 2
                && next != "0"
                && after.first().is_none_or(|turn| turn != "b")
        }
        [] => false,
    }
}

/// Returns the index where the pattern occurs in the name. If there are several, it is the last one, because
/// the vendor's name is before the model's.
fn last_occurrence(pattern: &[String], name: &[String]) -> Option<usize> {
    if pattern.is_empty() {
        return None;
    }
    name.windows(pattern.len()).rposition(|window| window == pattern)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn assert_rows(cases: &[(&str, &str)]) {
        for (name, row) in cases {
            assert_eq!(find(name).row.as_deref().unwrap_or("none"), *row, "{name}");
        }
    }

    #[test]
    fn prefixes_dates_and_spellings_do_not_matter() {
        assert_rows(&[
            ("anthropic/claude-sonnet-4.6", "claude-sonnet-4-6"),
            ("litellm_proxy/anthropic.claude-3-5-sonnet-20241022-v2:0", "claude-3-5-sonnet"),
            ("litellm_proxy/claude-3-5-sonnet-20241022", "claude-3-5-sonnet"),
            ("claude-3.5-sonnet-20240620", "claude-3-5-sonnet"),
            ("us.anthropic.claude-opus-4-1-20250805-v1:0", "claude-opus-4-1"),
            ("anthropic:claude-haiku-4-5-20251001", "claude-haiku-4-5"),
            ("claude-opus-4-5", "claude-opus-4-5"),
            ("claude-opus-4-5@20251101", "claude-opus-4-5"),
            ("claude-opus-4-8@bedrock", "claude-opus-4-8"),
            ("claude-sonnet-4.5 (see environment_details)", "claude-sonnet-4-5"),
            ("claude-sonnet-4-0", "claude-sonnet-4"),
            ("claude-sonnet-4-20250514", "claude-sonnet-4"),
            ("claude-3-5-haiku-latest", "claude-3-5-haiku"),
            ("Claude Opus", "claude"),
            ("claude-fable-5-1", "claude-fable-5-1"),
            ("openai/gpt-5.5", "gpt-5-5"),
            ("gpt-5-5-2026-04-23", "gpt-5-5"),
            ("gpt-5-2025-08-07", "gpt-5"),
            ("gpt-4.1-mini-2025-04-14", "gpt-4-1-mini"),
            ("gpt-4-1106-preview", "gpt-4-1106"),
            ("gpt-4-0613", "gpt-4"),
            ("gpt-5.6-sol", "gpt-5-6"),
            ("gpt-5.3-codex", "gpt-5-3"),
            ("chatgpt-4o-latest", "chatgpt-4o"),
            ("openai-responses:o4-mini", "o4"),
            ("codex (2025-08)", "codex"),
            ("deepseek/deepseek-chat", "deepseek-chat"),
            ("deepseek/deepseek-r1-distill-llama-70b:free", "deepseek-r1"),
            ("deepseek.v3-v1:0", "deepseek-v3"),
            ("x-ai/grok-3", "grok-3"),
            ("google/gemini-2.5-flash", "gemini-2-5"),
            ("qwen2.5-coder:32b", "qwen-2-5"),
            ("Qwen/Qwen3-Coder-480B-A35B-Instruct", "qwen-3-coder"),
            ("moonshotai/Kimi-K2-Thinking", "kimi-k-2-thinking"),
            ("MiniMax-M2", "minimax-m-2"),
            ("z-ai/glm-4.6:exacto", "glm-4-6"),
            ("groq/llama-3.3-70b-versatile", "llama-3-3"),
            ("mistral/codestral-2508", "codestral"),
            ("open-mixtral-8x22b-2404", "mixtral-8x22b"),
            ("mistralai/devstral-2512", "devstral-2512"),
            ("deepseek-v3.2-exp", "deepseek-v3-2"),
            ("kimi-k2.7-code", "kimi-k-2-7"),
            ("x-ai/grok-4.7", "grok-4-7"),
            ("zai/glm-5.3", "glm-5-3"),
        ]);
    }

    #[test]
    fn an_unknown_model_is_assumed_in_every_fact() {
        assert_rows(&[
            ("unknown", "none"),
            ("", "none"),
            ("my-finetune", "none"),
            ("日本語", "none"),
            ("claudette", "none"),
        ]);
        let model = find("unknown");
        assert_eq!(model.facts, ModelFacts::default());
        let facts = serde_json::to_value(&model.facts).unwrap();
        let mut facts = facts.as_object().unwrap().keys().filter(|fact| *fact != "input_limit");
        assert!(facts.all(|fact| model.is_assumed(fact)));
    }

    #[test]
    fn a_row_inherits_what_it_does_not_state_and_a_new_member_of_a_family_is_assumed() {
        let model = find("claude-opus-4-5");
        assert_eq!((model.facts.window, model.facts.cache_minimum), (Tokens(200_000), Tokens(4_096)));
        assert_eq!(model.facts.family, "claude");
        assert!(!model.is_assumed("window") && model.is_assumed("factor"));
        let new = find("claude-opus-9");
        assert_eq!(new.facts.caching, Caching::Breakpoints);
        assert!(new.is_assumed("window") && !new.is_assumed("caching"));
    }

    #[test]
    fn a_row_vouches_for_its_own_version_only() {
        for name in ["claude-sonnet-4-0", "gpt-5-2025-08-07", "gpt-4-0613", "llama-3.3-70b", "grok-4-0709", "o3-mini"] {
            assert!(!find(name).is_assumed("window"), "{name}");
        }
        for (name, row) in
            [("claude-opus-4-9", "claude-opus-4"), ("gpt-5.12", "gpt-5"), ("minimax-m2.5", "minimax-m-2")]
        {
            let model = find(name);
            assert_eq!(model.row.as_deref(), Some(row));
            assert!(model.is_assumed("window") && model.is_assumed("family"), "{name}");
        }
        assert!(find("claude-sonnet-6").facts.thinking_bound && find("claude-sonnet-6").is_assumed("thinking_bound"));
    }

    #[test]
    fn the_rules_of_the_newest_models_are_there() {
        let facts = |name| find(name).facts;
        assert!(facts("claude-opus-4-5").prefill && !facts("claude-opus-4-6").prefill);
        assert!(!facts("claude-opus-5").thinking_bound && facts("claude-opus-5-5").thinking_bound);
        assert!(facts("claude-opus-4-8").system_midway && !facts("claude-opus-4-7").system_midway);
        assert!(facts("deepseek-reasoner").reasoning_back && !facts("deepseek-chat").reasoning_back);
        assert_eq!(facts("gpt-5").input_window(), Tokens(272_000));
        assert_eq!(facts("gpt-4o").input_window(), Tokens(128_000));
    }

    #[test]
    fn a_host_may_cache_less_than_the_vendor() {
        let caching = |name: &str| find(name).facts.caching;
        for old in [
            "anthropic.claude-v2:1",
            "anthropic.claude-3-haiku-20240307-v1:0",
            "us.anthropic.claude-3-opus-20240229-v1:0",
            "bedrock/anthropic.claude-3-5-sonnet-20241022-v2:0",
        ] {
            assert_eq!(caching(old), Caching::None, "{old}");
        }
        for cached in [
            "claude-3-haiku-20240307",
            "anthropic.claude-3-5-haiku-20241022-v1:0",
            "us.anthropic.claude-3-7-sonnet-20250219-v1:0",
            "us.anthropic.claude-opus-4-1-20250805-v1:0",
        ] {
            assert_eq!(caching(cached), Caching::Breakpoints, "{cached}");
        }
        assert_eq!(find("claude-3-haiku").served_by("bedrock").facts.caching, Caching::None);
    }

    #[test]
    fn a_name_can_give_its_host_away() {
        let host = |name| find(name).facts.host;
        assert_eq!(host("claude-opus-5"), "anthropic");
        assert_eq!(host("us.anthropic.claude-opus-5"), "bedrock");
        assert_eq!(host("claude-opus-4-8@bedrock"), "bedrock");
        assert_eq!(host("openrouter/anthropic/claude-opus-5"), "openrouter");
        assert_eq!(host("groq/llama-3.3-70b-versatile"), "groq");
    }

    #[test]
    fn what_the_user_states_is_never_assumed_and_must_be_a_fact() {
        let stated = |json: &str| serde_json::from_str(json).unwrap();
        let model = find("my-finetune").with_stated_facts(&stated(r#"{"window": 32000, "prefill": true}"#)).unwrap();
        assert_eq!((model.facts.window, model.facts.prefill), (Tokens(32_000), true));
        assert!(!model.is_assumed("window") && model.is_assumed("factor"));
        assert!(find("gpt-5").with_stated_facts(&stated(r#"{"windw": 1}"#)).unwrap_err().contains("windw"));
        assert!(find("gpt-5").with_stated_facts(&stated(r#"{"window": "big"}"#)).unwrap_err().contains("big"));
    }

    #[test]
    fn every_row_reads_and_is_found_by_its_own_pattern() {
        let facts = serde_json::to_value(ModelFacts::default()).unwrap();
        for row in &TABLE.model {
            parse_facts(row.facts.clone()).unwrap_or_else(|error| panic!("{}: {error}", row.pattern));
            assert_eq!(find(&row.pattern).row.as_deref(), Some(row.pattern.as_str()));
            for fact in &row.assumed {
                assert!(facts.get(fact).is_some(), "{} assumes {fact}, which is no fact", row.pattern);
            }
            let found = find(&row.pattern).facts;
            assert!(found.max_output <= found.window && found.input_window() >= Tokens(4_000), "{}", row.pattern);
        }
    }
}
