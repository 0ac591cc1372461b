//! The `policy:` line of a case, its items parted by commas.
//!
//! `window`, `threshold`, `ratio`, `first`, `last`, `keep_tools`, `keep_last_users` and `instructions` are the configuration's; `to`, `focus`, `force`, `keep_from`, `key` (the session's) and `keep`
//! (the originals) are what a caller wishes; `model` and `engine` name one; anything else is a fact of the model table: `thinking_bound
//! true`. The models of the three dialects are made to count alike, so that they cut alike.

use longhaul_engine::models::{self, Model};
use longhaul_engine::plan::{CompactOptions, Originals, RecallIds};
use longhaul_engine::policy::{Config, Policy};
use longhaul_engine::redact::SessionKey;
use longhaul_engine::{ApiFormat, Tokens};
use serde_json::{Map, Value, json};

/// Under which circumstances a round is compacted.
pub struct Setting {
    pub policy: Policy,
    pub wish: CompactOptions,
    pub model: String,
}

pub fn setting(api_format: ApiFormat, lines: &[&str]) -> Setting {
    let mut config = Config::default();
    let originals = Originals::Discarded;
    let mut options = CompactOptions { originals, ..CompactOptions::default() };
    let mut name = match api_format {
        ApiFormat::Chat | ApiFormat::Responses => "gpt-5".to_owned(),
        ApiFormat::Messages => "claude-sonnet-4-5".to_owned(),
    };
    let mut facts = Map::new();
    for (key, value) in [("tokenizer", json!("o200k_base")), ("factor", json!(1.0)), ("input_limit", Value::Null)] {
        facts.insert(key.into(), value);
    }
    facts.insert("window".into(), json!(40_000));
    for item in lines.iter().flat_map(|line| line.split(',')).map(str::trim).filter(|item| !item.is_empty()) {
        let (key, value) = item.split_once(' ').unwrap_or((item, ""));
        let number = || value.parse::<usize>().unwrap_or_else(|e| panic!("{item}: {e}"));
        let share = || value.parse::<f64>().unwrap_or_else(|e| panic!("{item}: {e}"));
        match key {
            "threshold" => config.compression.threshold = share(),
            "ratio" => config.compression.target_ratio = share(),
            "first" => config.compression.protect_first_n = number(),
            "last" => config.compression.protect_last_n = number(),
            "keep_tools" => config.compression.keep_tools.push(value.to_owned()),
            "keep_last_users" => config.compression.keep_last_users = number(),
            "instructions" => config.compression.instructions = Some(value.to_owned()),
            "keep_from" => options.keep_from = Some(number()),
            "to" => options.to_tokens = Some(Tokens(number() as u64)),
            "force" => options.force = true,
            "key" => options.session_key = Some(SessionKey::new([9; 32])),
            "keep" => options.originals = Originals::Stored(RecallIds::new(SessionKey::new([7; 32]))),
            "model" => value.clone_into(&mut name),
            "focus" => options.focus = Some(value.to_owned()),
            "engine" => {
                config.context.engine = serde_json::from_value(json!(value)).unwrap_or_else(|e| panic!("{item}: {e}"));
            }
            fact => {
                let value = serde_json::from_str(value).unwrap_or_else(|_| json!(value));
                facts.insert(fact.into(), value);
            }
        }
    }
    let model: Model = models::find(&name).with_stated_facts(&facts).unwrap_or_else(|e| panic!("{lines:?}: {e:?}"));
    let policy = Policy::new(&config, &model).unwrap_or_else(|e| panic!("{lines:?}: {e:?}")).0;
    Setting { policy, wish: options, model: name }
}
