use serde_json::json;

use super::*;
use crate::models;

/// Converts token counts to plain numbers, which are easier to compare in a list.
fn numbers<const N: usize>(tokens: [Tokens; N]) -> [u64; N] {
    tokens.map(Tokens::number)
}

/// Returns the policy for a configuration in JSON and a model.
fn policy(typed: Value, model: &str) -> Policy {
    derive(typed, model).unwrap().0
}

fn derive(typed: Value, model: &str) -> Result<(Policy, Vec<ConfigWarning>), InvalidValue> {
    Policy::new(&serde_json::from_value(typed).unwrap(), &models::find(model))
}

fn with_window(window: u64) -> Policy {
    policy(json!({"models": {"m": {"context_length": window}}}), "m")
}

#[test]
fn a_window_of_200_000_gives_the_promised_numbers() {
    let p = policy(json!({}), "claude-opus-4-5");
    assert_eq!(numbers([p.window, p.threshold, p.tail, p.checkpoint.max]), [200_000, 100_000, 20_000, 10_000]);
    assert_eq!(numbers([p.tail_ceiling, p.prune_goal]), [30_000, 50_000]);
    assert_eq!((p.protect_first, p.protect_last, p.protect_min), (3, 20, 3));
    assert_eq!(numbers([p.sacred.trigger, p.sacred.target, p.sacred.recent]), [150_000, 100_000, 20_000]);
    assert_eq!(numbers([p.sacred.recent_min, p.sacred.recent_max]), [10_000, 40_000]);
    assert_eq!(numbers([p.sacred.min_output, p.sacred.digest_tokens]), [500, 150]);
    assert_eq!(p.engine, EngineName::COMPRESSOR);
}

#[test]
fn every_budget_of_a_small_window_is_in_proportion_and_none_is_refused() {
    let p = with_window(4_000);
    assert_eq!(numbers([p.threshold, p.tail, p.tail_ceiling, p.prune_goal]), [2_000, 400, 600, 1_000]);
    assert_eq!(numbers([p.checkpoint.min, p.checkpoint.max]), [500, 500]);
    assert_eq!(numbers([p.sacred.recent, p.sacred.min_output, p.sacred.digest_tokens]), [1_000, 100, 40]);
    for window in (4_000..400_000).step_by(997) {
        let p = with_window(window);
        let ordered = [p.tail, p.tail_ceiling, p.threshold, p.window];
        assert!(ordered.is_sorted(), "{ordered:?}");
        assert!(p.checkpoint.min <= p.checkpoint.max && p.checkpoint.max + p.tail < p.threshold);
        assert!(p.sacred.recent_min <= p.sacred.recent && p.sacred.recent <= p.sacred.recent_max);
        assert!(p.sacred.recent_max < p.sacred.target && p.sacred.digest_tokens < p.sacred.min_output);
        assert!(p.digest_all_above < p.drop_oldest_above && p.drop_oldest_above < p.window);
    }
}

#[test]
fn a_checkpoint_is_a_fifth_of_what_it_replaces_within_its_bounds() {
    let budget = with_window(200_000).checkpoint;
    let cases = [(100_000, 10_000), (40_000, 8_000), (9_000, 2_000), (4_000, 1_000), (0, 0)];
    for (replaced, tokens) in cases {
        assert_eq!(budget.for_replaced(Tokens(replaced)), Tokens(tokens), "{replaced} replaced");
    }
    for (turns, earlier, tokens) in
        [(9_000, 3_000, 5_000), (9_000, 0, 2_000), (100_000, 3_000, 10_000), (0, 3_000, 3_000)]
    {
        assert_eq!(budget.for_update(Tokens(turns), Tokens(earlier)), Tokens(tokens), "{turns} after {earlier}");
    }
    assert_eq!(with_window(4_000).checkpoint.for_replaced(Tokens(3_000)), Tokens(500));
    assert_eq!(with_window(32_000).checkpoint.max, Tokens(3_000));
    assert_eq!(with_window(1_000_000).checkpoint.max, Tokens(12_000));
}

#[test]
fn a_threshold_is_capped_then_lifted() {
    let threshold = |compression| policy(json!({ "compression": compression }), "claude-opus-4-5").threshold.number();
    assert_eq!(threshold(json!({"threshold": 0.6})), 120_000);
    assert_eq!(threshold(json!({"threshold_tokens": 64_000})), 64_000);
    assert_eq!(threshold(json!({"threshold_tokens": 640_000})), 100_000);
    assert_eq!(threshold(json!({"threshold_floor": 120_000})), 120_000);
    assert_eq!(threshold(json!({"threshold_floor": 500_000})), 162_000);
}

#[test]
fn settings_of_a_model_override_general_settings() {
    let typed = json!({
        "compression": {"threshold": 0.4, "threshold_tokens": 50_000},
        "models": {
            "claude": {"threshold": 0.6, "threshold_tokens": 90_000},
            "claude-opus-4-5": {"context_length": 100_000, "threshold": 0.7, "capabilities": {"cache_minimum": 99}},
        },
    });
    let p = policy(typed.clone(), "anthropic/claude-opus-4.5");
    assert_eq!(numbers([p.window, p.threshold]), [100_000, 70_000]);
    assert!(matches!(p.caching, CachePolicy::Breakpoints { minimum: Tokens(99), .. }));
    assert_eq!(policy(typed.clone(), "claude-sonnet-4-5").threshold, Tokens(90_000));
    assert_eq!(policy(typed, "gpt-4o").threshold, Tokens(50_000));
}

#[test]
fn a_cap_on_input_is_the_window() {
    let p = policy(json!({}), "gpt-5");
    assert_eq!(numbers([p.window, p.threshold]), [272_000, 136_000]);
    let p = policy(json!({"models": {"gpt-5": {"context_length": 400_000}}}), "gpt-5");
    assert_eq!(p.window, Tokens(400_000));
}

#[test]
fn breakpoints_are_set_only_if_the_provider_accepts_them() {
    let caching = |typed, model| policy(typed, model).caching;
    let marks = CachePolicy::Breakpoints {
        ttl: CacheTtl::OneHour,
        strategy: CacheStrategy::SystemAndThree,
        minimum: Tokens(4_096),
    };
    assert_eq!(caching(json!({"prompt_caching": {"cache_ttl": "1h"}}), "claude-opus-4-5"), marks);
    assert_eq!(caching(json!({}), "gpt-5"), CachePolicy::Automatic);
    assert!(matches!(caching(json!({}), "unknown"), CachePolicy::Off(_)));
    assert!(matches!(caching(json!({"prompt_caching": {"enabled": false}}), "claude-opus-5"), CachePolicy::Off(_)));
}

#[test]
fn a_value_out_of_range_is_refused_by_its_key() {
    let cases = [
        (json!({"compression": {"threshold": 0.0}}), "compression.threshold"),
        (json!({"compression": {"threshold": 1.5}}), "compression.threshold"),
        (json!({"compression": {"threshold": -0.5}}), "compression.threshold"),
        (json!({"compression": {"threshold_tokens": 0}}), "compression.threshold_tokens"),
        (json!({"compression": {"target_ratio": 0.05}}), "compression.target_ratio"),
        (json!({"models": {"gpt-5": {"prices": {"input": -1}}}}), "models.gpt-5.prices.input"),
        (json!({"models": {"gpt-5": {"prices": {"cache_read": 1e300}}}}), "models.gpt-5.prices.cache_read"),
        (json!({"compression": {"target_ratio": 0.9}}), "compression.target_ratio"),
        (json!({"compression": {"protect_last_n": 0}}), "compression.protect_last_n"),
        (json!({"sacred_zone": {"trigger": 0.0}}), "sacred_zone.trigger"),
        (json!({"sacred_zone": {"target": 0.8}}), "sacred_zone.target"),
        (json!({"sacred_zone": {"target": -1.0}}), "sacred_zone.target"),
        (json!({"sacred_zone": {"digest_tokens": 0}}), "sacred_zone.digest_tokens"),
        (json!({"sacred_zone": {"digest_tokens": 500}}), "sacred_zone.digest_tokens"),
        (json!({"models": {"m": {"threshold": 2.0}}}), "models.m.threshold"),
        (json!({"models": {"m": {"threshold_tokens": 0}}}), "models.m.threshold_tokens"),
        (json!({"models": {"m": {"context_length": 3_999}}}), "models.m.context_length"),
        (json!({"models": {"m": {"capabilities": {"windw": 1}}}}), "models.m.capabilities"),
    ];
    for (typed, key) in cases {
        let refused = derive(typed.clone(), "m").expect_err(&typed.to_string());
        assert_eq!(refused.key, key, "{typed}");
        assert!(!refused.problem.is_empty());
    }
    let fine = json!({"compression": {"threshold": 1.0, "target_ratio": 0.8, "protect_last_n": 1}});
    assert!(derive(fine, "m").is_ok());
}

#[test]
fn a_strange_threshold_is_warned_of_with_the_reason() {
    let warnings = |typed| derive(typed, "m").unwrap().1;
    assert_eq!(warnings(json!({})), []);
    assert_eq!(warnings(json!({"compression": {"threshold": 0.3}})), []);
    let early = warnings(json!({"compression": {"threshold": 0.2}}));
    assert_eq!((early.len(), early[0].key.as_str()), (1, "compression.threshold"));
    assert!(early[0].message.contains("often"));
    let late = warnings(json!({"models": {"m": {"threshold": 0.82}}}));
    assert_eq!((late.len(), late[0].key.as_str()), (1, "models.m.threshold"));
    assert!(late[0].message.contains("summarizer"));
    assert_eq!(warnings(json!({"compression": {"threshold_tokens": 1, "threshold_floor": 2}})).len(), 1);
}

#[test]
fn every_value_has_a_reason_and_reports_assumptions() {
    let p = policy(json!({}), "claude-opus-4-5");
    assert!(p.explain().iter().all(|row| !row.why.is_empty()));
    let find = |p: &Policy, name| p.explain().iter().find(|row| row.name == name).unwrap().clone();
    let tail = find(&p, "tail");
    assert_eq!((tail.value, tail.assumed), (json!(20_000), false));
    assert_eq!(tail.why, "threshold × 0.2 (compression.target_ratio)");
    let unknown = policy(json!({}), "unknown");
    assert!(find(&unknown, "window").assumed && find(&unknown, "tail").assumed);
    let stated = with_window(50_000);
    assert!(!find(&stated, "window").assumed);
    assert_eq!(find(&stated, "window").why, "models.m.context_length");
}

#[test]
fn names_are_what_the_configuration_takes() {
    for (taken, name) in [
        (json!(CacheTtl::ALL), json!(CacheTtl::ALL.map(CacheTtl::name))),
        (json!(CacheStrategy::ALL), json!(CacheStrategy::ALL.map(CacheStrategy::name))),
    ] {
        assert_eq!(taken, name);
    }
}

#[test]
fn the_keys_of_the_configuration_are_its_fields() {
    let keys = Config::key_tree();
    assert_eq!(keys["compression"]["threshold"], json!(0.5));
    assert!(keys["models"]["*"]["capabilities"]["window"].is_number());
}

#[test]
fn tools_are_kept_by_name_or_pattern() {
    let originals =
        policy(json!({"compression": {"keep_tools": ["skill", "mcp__*__read", "todo?"]}}), "m").user_protections;
    for (name, kept) in [
        ("skill", true),
        ("skills", false),
        ("mcp__files__read", true),
        ("mcp__a__b__read", true),
        ("mcp__files__write", false),
        ("todos", true),
        ("todo", false),
        ("", false),
    ] {
        assert_eq!(originals.protects_tool(name), kept, "{name}");
    }
    assert!(policy(json!({"compression": {"keep_tools": ["*"]}}), "m").user_protections.protects_tool("anything"));
}

#[test]
fn a_threshold_over_the_hygiene_of_a_gateway_is_allowed() {
    let p = policy(json!({"compression": {"threshold": 0.85}}), "claude-opus-4-5");
    assert_eq!(p.threshold, Tokens(170_000));
}
