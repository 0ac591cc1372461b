use longhaul_engine::Tokens;
use serde_json::json;

use super::*;

fn load(file: &str, environment: &[(&str, &str)]) -> Result<Settings, Failure> {
    let environment: Environment =
        environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Settings::from_layers(&trusted_file(file), &environment, Vec::new())
}

fn trusted_file(text: &str) -> ConfigFiles {
    with_trust(text, Trust::Trusted)
}

fn with_trust(text: &str, trust: Trust) -> ConfigFiles {
    let (name, text) = ("longhaul.yaml".to_owned(), text.to_owned());
    ConfigFiles { layers: vec![files::ConfigFile { name, text, origin: FileOrigin::Folder, trust }], notes: Vec::new() }
}

/// Returns the value and the origin of a key, as `longhaul config` prints them.
#[track_caller]
fn value_and_origin(settings: &Settings, key: &str) -> (Value, String) {
    let leaf = settings.values.iter().find(|leaf| leaf.path.join(".") == key).unwrap();
    (leaf.value.clone(), leaf.origin.to_string())
}

fn flag(name: &'static str, key: &str, value: impl Into<Value>) -> Flag {
    Flag { name, path: key.split('.').map(str::to_owned).collect(), value: value.into() }
}

/// Loads a file that must be refused, and returns the error message.
#[track_caller]
fn load_error(file: &str) -> String {
    let failure = load(file, &[]).unwrap_err();
    assert_eq!(failure.exit_code(), 2);
    failure.to_string()
}

#[test]
fn nothing_typed_gives_the_defaults() {
    for file in ["", "# only a remark\n", "{}", "compression:\n", "\u{feff}compression: {}\n"] {
        let settings = load(file, &[]).unwrap();
        assert_eq!((settings.engine, settings.app), (policy::Config::default(), AppConfig::default()));
        assert!(settings.values.iter().all(|leaf| leaf.origin == Origin::Default));
        assert_eq!((settings.notes.len(), settings.warnings.len()), (0, 0));
    }
}

#[test]
fn flags_win_over_the_environment_over_the_file_over_the_defaults() {
    let file = "compression:\n  threshold: 0.4\n  target_ratio: 0.3\n  protect_last_n: 10\n";
    let environment = [
        ("LONGHAUL_COMPRESSION__TARGET_RATIO".to_owned(), "0.25".to_owned()),
        ("LONGHAUL_COMPRESSION__PROTECT_LAST_N".to_owned(), "12".to_owned()),
    ];
    let flags = vec![flag("--protect-last", "compression.protect_last_n", 14)];
    let settings = Settings::from_layers(&trusted_file(file), &environment, flags).unwrap();
    let cases = [
        ("compression.protect_first_n", json!(3), "default"),
        ("compression.threshold", json!(0.4), "longhaul.yaml:2:14"),
        ("compression.target_ratio", json!(0.25), "LONGHAUL_COMPRESSION__TARGET_RATIO"),
        ("compression.protect_last_n", json!(14), "--protect-last"),
    ];
    for (key, value, origin) in cases {
        assert_eq!(value_and_origin(&settings, key), (value, origin.to_owned()));
    }
    assert_eq!(settings.engine.compression.protect_last_n, 14);
    assert!((settings.engine.compression.target_ratio - 0.25).abs() < 1e-9);
}

#[test]
fn every_documented_key_is_accepted() {
    let file = "
compression: { enabled: true, threshold: 0.50, threshold_tokens: 90000, threshold_floor: 10, target_ratio: 0.20,
  protect_first_n: 3, keep_tools: [], keep_last_users: 0, instructions: null, protect_last_n: 20, hygiene_threshold: 0.85, max_wait_seconds: 0, system_note: false }
auxiliary:
  compression: { model: null, provider: auto, base_url: null, api_key_env: null, timeout_seconds: 120 }
context:   { engine: compressor }
prompt_caching: { enabled: true, cache_ttl: 5m, strategy: system_and_3 }
redaction: { logs: true, rules: [{ name: badge, pattern: 'B-[0-9]+' }] }
sacred_zone: { trigger: 0.75, target: 0.50, recent_tokens: 20000, adaptive: true, min_tokens: 500, digest_tokens: 150 }
models:
  claude-sonnet-4.6: { context_length: 200000, threshold: 0.6, threshold_tokens: 100000,
    prices: { input: 3, output: 15, cache_read: 0.3, cache_write: 3.75, cache_write_1h: 6 },
    capabilities: { prefill: false, cache_minimum: 1024 } }
upstreams: { messages: { base_url: 'https://example.com', api_key_env: KEY, native: [context_management] }, chat: {}, responses: {} }
store:     { path: null, url: null, sync: normal, keep_days: 30, max_bytes: 2000000000 }
gateway:   { listen: '0.0.0.0:8484', require_keys: true, hosts: [example.com], commands: true, recall: on, max_body_bytes: 1000000,
  keep_alive: { enabled: true, usd_per_day: 0.5 }, drain_seconds: 5, log: json, log_level: debug,
  otlp_endpoint: 'http://127.0.0.1:4318' }
";
    let settings = load(file, &[]).unwrap();
    assert_eq!(settings.engine.models["claude-sonnet-4.6"].context_length, Some(Tokens(200_000)));
    assert_eq!(settings.engine.redaction.rules[0].name, "badge");
    assert_eq!(
        value_and_origin(&settings, "models.claude-sonnet-4.6.prices.input"),
        (json!(3), "longhaul.yaml:12:22".into())
    );
}

#[test]
fn an_unknown_key_is_refused_with_its_place_and_the_nearest_known_one() {
    let cases = [
        ("compresion:\n  threshold: 0.5\n", "longhaul.yaml:1:1: unknown key 'compresion', did you mean 'compression'?"),
        ("compression:\n  treshold: 0.5\n", "longhaul.yaml:2:3: unknown key 'treshold', did you mean 'threshold'?"),
        ("threshold: 0.5\n", "longhaul.yaml:1:1: unknown key 'threshold', did you mean 'compression.threshold'?"),
        (
            "store: { zzz: 1 }\n",
            "longhaul.yaml:1:10: unknown key 'zzz'; known here: path, url, sync, keep_days, max_bytes",
        ),
        (
            "models:\n  gpt-5:\n    context: 1\n",
            "longhaul.yaml:3:5: unknown key 'context', did you mean 'context_length'?",
        ),
        (
            "models:\n  gpt-5:\n    capabilities:\n      windw: 1\n",
            "longhaul.yaml:4:7: unknown key 'windw', did you mean 'window'?",
        ),
    ];
    for (file, message) in cases {
        assert_eq!(load_error(file), message);
    }
}

#[test]
fn a_value_of_the_wrong_kind_is_refused_with_its_place_and_what_fits() {
    let cases = [
        (
            "compression:\n  threshold: lots\n",
            r#"longhaul.yaml:2:14: compression.threshold is "lots", expected a number"#,
        ),
        (
            "compression: { protect_last_n: -1 }\n",
            "longhaul.yaml:1:32: compression.protect_last_n is -1, expected a whole number, 0 or more",
        ),
        (
            "compression:\n  protect_last_n: 2.5\n",
            "longhaul.yaml:2:19: compression.protect_last_n is 2.5, expected a whole number, 0 or more",
        ),
        (
            "compression:\n  enabled: maybe\n",
            r#"longhaul.yaml:2:12: compression.enabled is "maybe", expected true or false"#,
        ),
        (
            "prompt_caching:\n  cache_ttl: 2h\n",
            r#"longhaul.yaml:2:14: prompt_caching.cache_ttl is "2h", expected one of `5m`, `1h`, `auto`"#,
        ),
        ("gateway:\n  listen: 8484\n", "longhaul.yaml:2:11: gateway.listen is 8484, expected text"),
        (
            "gateway:\n  listen: here\n",
            r#"longhaul.yaml:2:11: gateway.listen is "here", expected an address and a port, such as 127.0.0.1:8484"#,
        ),
        ("context:\n  engine: 7\n", "longhaul.yaml:2:11: context.engine is 7, expected text"),
        ("redaction:\n  rules: all\n", r#"longhaul.yaml:2:10: redaction.rules is "all", expected a list"#),
        ("compression: 5\n", "longhaul.yaml:1:14: 'compression' must contain keys, one per line"),
        ("- a\n", "longhaul.yaml:1:1: a configuration must contain keys, one per line"),
        (
            "models:\n  gpt-5:\n    capabilities: { prefill: 1 }\n",
            "longhaul.yaml:3:30: models.gpt-5.capabilities.prefill is 1, expected true or false",
        ),
    ];
    for (file, message) in cases {
        assert_eq!(load_error(file), message);
    }
}

#[test]
fn what_is_no_yaml_is_refused_with_its_place() {
    for file in
        ["compression: {\n", "a: b: c\n", "compression:\n\t- x\n", "store: {}\nstore: {}\n", "a: 1\n---\nb: 2\n"]
    {
        let message = load_error(file);
        assert!(message.starts_with("longhaul.yaml:") && !message.contains('\n'), "{message}");
    }
}

#[test]
fn a_value_out_of_range_is_refused_where_it_was_typed() {
    assert_eq!(
        load_error("compression:\n  threshold: 1.9\n"),
        "longhaul.yaml:2:14: compression.threshold: 1.9 must be over 0 and at most 1"
    );
    assert_eq!(
        load_error("compression:\n  hygiene_threshold: 1.2\n"),
        "longhaul.yaml:2:22: compression.hygiene_threshold: 1.2 must be over 0 and at most 1"
    );
    assert_eq!(
        load_error("auxiliary:\n  compression: { timeout_seconds: 0 }\n"),
        "longhaul.yaml:2:35: auxiliary.compression.timeout_seconds: must be at least 1"
    );
    assert_eq!(
        load_error("models:\n  gpt-4.1:\n    threshold: 3\n"),
        "longhaul.yaml:3:16: models.gpt-4.1.threshold: 3 must be over 0 and at most 1"
    );
    assert_eq!(
        load_error("gateway:\n  hosts: ['http://example.com']\n"),
        "longhaul.yaml:2:10: gateway.hosts: expected names such as gateway.example.com, without http:// and paths"
    );
    assert_eq!(
        load_error("gateway:\n  otlp_endpoint: 127.0.0.1:4318\n"),
        "longhaul.yaml:2:18: gateway.otlp_endpoint: it must begin with https:// or http://"
    );
    let failure = load("", &[("LONGHAUL_COMPRESSION__TARGET_RATIO", "0.9")]).unwrap_err();
    assert_eq!(
        failure.to_string(),
        "LONGHAUL_COMPRESSION__TARGET_RATIO: compression.target_ratio: 0.9 must be from 0.1 to 0.8"
    );
}

#[test]
fn a_default_that_disagrees_with_a_typed_value_is_refused_where_that_was_typed() {
    assert_eq!(
        load_error("sacred_zone:\n  trigger: 0.4\n"),
        "longhaul.yaml:2:12: sacred_zone.target: 0.5 must be under sacred_zone.trigger (0.4)"
    );
}

#[test]
fn the_gateway_wants_hygiene_above_every_threshold() {
    let refused = |file: &str| load(file, &[]).unwrap().check_for_gateway().unwrap_err().to_string();
    assert!(load("", &[]).unwrap().check_for_gateway().is_ok());
    assert_eq!(
        refused("compression:\n  hygiene_threshold: 0.5\n"),
        "longhaul.yaml:2:22: compression.threshold: 0.5 must be under the safety threshold, compression.hygiene_threshold (0.5), for the gateway"
    );
    assert_eq!(
        refused("models:\n  gpt-5: { threshold: 0.9 }\n"),
        "longhaul.yaml:2:23: models.gpt-5.threshold: 0.9 must be under the safety threshold, compression.hygiene_threshold (0.85), for the gateway"
    );
}

#[test]
fn a_strange_value_is_warned_of_once() {
    let settings = load("compression: { threshold: 0.1 }\nmodels: { gpt-5: {context_length: 9000} }\n", &[]).unwrap();
    let keys: Vec<&str> = settings.warnings.iter().map(|warning| warning.key.as_str()).collect();
    assert_eq!(keys, ["compression.threshold"]);
}

#[test]
fn older_spellings_are_accepted_and_reported() {
    let file = "compression:\n  summary_model: gpt-5-mini\nmodel:\n  cache_ttl: 1h\n";
    let settings = load(file, &[]).unwrap();
    assert_eq!(settings.app.auxiliary.compression.model.as_deref(), Some("gpt-5-mini"));
    assert_eq!(value_and_origin(&settings, "prompt_caching.cache_ttl"), (json!("1h"), "longhaul.yaml:4:14".to_owned()));
    assert_eq!(
        settings.notes,
        [
            "longhaul.yaml:2:18: 'compression.summary_model' is the old name, use 'auxiliary.compression.model'",
            "longhaul.yaml:4:14: 'model.cache_ttl' is the old name, use 'prompt_caching.cache_ttl'",
        ]
    );
    let both = load("model: { cache_ttl: 1h }\nprompt_caching: { cache_ttl: auto }\n", &[]).unwrap();
    assert_eq!(value_and_origin(&both, "prompt_caching.cache_ttl").0, json!("auto"));
    let from_environment = load("", &[("LONGHAUL_MODEL__CACHE_TTL", "1h")]).unwrap();
    assert_eq!(from_environment.notes.len(), 1);
}

#[test]
fn any_name_can_be_an_engines() {
    let settings = load("context: { engine: own }\n", &[]).unwrap();
    assert_eq!((settings.engine.context.engine.name(), settings.notes.len()), ("own", 0));
}

#[test]
fn variables_that_are_no_keys_are_left_to_others_and_slips_are_not() {
    let environment = [("LONGHAUL_SHARED", "/x"), ("LONGHAUL_API_KEY", "k"), ("LONGHAUL", "1"), ("HOME", "/h")];
    assert_eq!(load("", &environment).unwrap().engine, policy::Config::default());
    let cases = [
        (
            "LONGHAUL_COMPRESSION__TRESHOLD",
            "LONGHAUL_COMPRESSION__TRESHOLD: unknown key 'compression.treshold', did you mean 'threshold'?",
        ),
        (
            "LONGHAUL_COMPRESION__THRESHOLD",
            "LONGHAUL_COMPRESION__THRESHOLD: unknown key 'compresion.threshold', did you mean 'compression'?",
        ),
        (
            "LONGHAUL_COMPRESSION_THRESHOLD",
            "LONGHAUL_COMPRESSION_THRESHOLD: unknown variable, did you mean 'LONGHAUL_COMPRESSION__THRESHOLD'?",
        ),
        (
            "LONGHAUL_AUXILIARY__COMPRESSION",
            "LONGHAUL_AUXILIARY__COMPRESSION: 'auxiliary.compression' is a section; set one of its keys",
        ),
    ];
    for (name, message) in cases {
        assert_eq!(load("", &[(name, "0.5")]).unwrap_err().to_string(), message);
    }
}

#[test]
fn variables_hold_any_kind_of_value() {
    let settings = load(
        "",
        &[
            ("LONGHAUL_COMPRESSION__ENABLED", "false"),
            ("LONGHAUL_AUXILIARY__COMPRESSION__MODEL", "12"),
            ("LONGHAUL_PROMPT_CACHING__CACHE_TTL", "1h"),
            ("LONGHAUL_REDACTION__RULES", "[{name: badge, pattern: 'B-[0-9]+'}]"),
            ("LONGHAUL_STORE__URL", "postgres://u@h/db?x=a: b"),
            ("LONGHAUL_MODELS__GPT_5__CONTEXT_LENGTH", "100000"),
        ],
    )
    .unwrap();
    assert_eq!(value_and_origin(&settings, "compression.enabled").0, json!(false));
    assert_eq!(settings.app.auxiliary.compression.model.as_deref(), Some("12"));
    assert_eq!(settings.engine.redaction.rules.len(), 1);
    assert_eq!(settings.app.store.url.as_deref(), Some("postgres://u@h/db?x=a: b"));
    let (policy, _) = Policy::new(&settings.engine, &models::find("openai/gpt-5-2025-08-07")).unwrap();
    assert_eq!(policy.window, Tokens(100_000));
}

#[test]
fn a_flag_wins_over_what_the_file_says_of_one_model() {
    let file = "models:\n  gpt-5: { threshold: 0.7 }\n";
    let flags = vec![flag("--threshold", "compression.threshold", 0.4)];
    let settings = Settings::from_layers(&trusted_file(file), &[], flags).unwrap();
    let (policy, _) = Policy::new(&settings.engine, &models::find("gpt-5")).unwrap();
    assert_eq!(policy.threshold, Tokens(108_800));
}

#[test]
fn a_deeply_nested_file_is_refused_or_read_but_does_not_crash() {
    let nested = format!("redaction: {{ rules: {}{} }}\n", "[".repeat(5_000), "]".repeat(5_000));
    assert!(load(&nested, &[]).is_err());
}

#[test]
fn the_example_names_every_key_with_its_default() {
    let settings = load(include_str!("../../../../examples/longhaul.yaml"), &[]).unwrap();
    assert_eq!((&settings.engine, &settings.app), (&policy::Config::default(), &AppConfig::default()));
    let untyped: Vec<_> = settings.values.iter().filter(|leaf| leaf.origin == Origin::Default).collect();
    assert_eq!(untyped, Vec::<&ConfigValue>::new());
}

/// Loads a file that must be refused because it is untrusted, and returns the error message.
#[track_caller]
fn untrusted_error(file: &str) -> String {
    let failure = Settings::from_layers(&with_trust(file, Trust::Untrusted), &[], Vec::new()).unwrap_err();
    assert_eq!(failure.exit_code(), 2);
    let message = failure.to_string();
    assert!(!message.contains('\n') && message.ends_with("longhaul trust longhaul.yaml"), "{message}");
    message
}

#[test]
fn an_untrusted_file_sets_numbers_and_is_laid_over_the_users_own() {
    let text = "redaction:\n  rules: [{ name: badge, pattern: 'B-[0-9]+' }]\ncompression: { threshold: 0.4, target_ratio: 0.3 }\n\
               models: { gpt-5: { prices: { input: 3 } } }\ngateway: { require_keys: true }\n";
    let project = "compression: { threshold: 0.6, protect_last_n: 9 }\nmodels: { gpt-5: { context_length: 9000 } }\n";
    let mut files = trusted_file(text);
    files.layers[0].name = "own.yaml".to_owned();
    files.layers.extend(with_trust(project, Trust::Untrusted).layers);
    let settings = Settings::from_layers(&files, &[], Vec::new()).unwrap();
    assert!(settings.app.gateway.require_keys && settings.engine.redaction.rules.len() == 1);
    for (key, value, origin) in [
        ("compression.threshold", json!(0.6), "longhaul.yaml:1:27"),
        ("compression.target_ratio", json!(0.3), "own.yaml:3:46"),
        ("models.gpt-5.context_length", json!(9000), "longhaul.yaml:2:36"),
        ("models.gpt-5.prices.input", json!(3), "own.yaml:4:37"),
    ] {
        assert_eq!(value_and_origin(&settings, key), (value, origin.to_owned()));
    }
}

#[test]
fn an_untrusted_file_that_sets_anything_else_is_refused_by_name() {
    // Keys that only the user may set, each with a value of its type. Numbers out of bounds follow below.
    for (key, value) in [
        ("upstreams.messages.base_url", "http://evil.example"),
        ("upstreams.chat.api_key_env", "AWS_SECRET_ACCESS_KEY"),
        ("auxiliary.compression.base_url", "http://evil.example"),
        ("gateway.otlp_endpoint", "http://evil.example"),
        ("gateway.hosts", "[evil.example]"),
        ("gateway.listen", "0.0.0.0:1"),
        ("gateway.require_keys", "false"),
        ("store.path", "here.db"),
        ("store.url", "postgres://evil.example/db"),
        ("redaction.allow", "['sk-.*']"),
        ("redaction.rules", "[]"),
        ("redaction.logs", "false"),
        ("context.engine", "own"),
        ("context.plugins", "./plugins"),
        ("compression.enabled", "false"),
        ("compression.instructions", "obey"),
        ("compression.keep_tools", "[bash]"),
        ("models.gpt-5.prices.input", "0"),
        ("models.gpt-5.capabilities.window", "1"),
        ("prompt_caching.enabled", "false"),
    ] {
        let nested = key.split('.').rev().fold(value.to_owned(), |below, name| format!("{{ {name}: {below} }}"));
        let message = untrusted_error(&nested);
        assert!(message.starts_with("longhaul.yaml:1:") && message.contains(key), "{message}");
    }
    for key in ["compression.threshold", "compression.hygiene_threshold", "models.gpt-5.threshold"] {
        for value in ["0.29", "0.81", "1", "null", "-1"] {
            let nested = key.split('.').rev().fold(value.to_owned(), |below, name| format!("{{ {name}: {below} }}"));
            assert!(untrusted_error(&nested).contains(&format!("{key} is {value}")), "{nested}");
        }
    }
    assert!(untrusted_error("compression: { threshold_tokens: null }").contains("threshold_tokens is null"));
}

#[test]
fn no_spelling_of_a_refused_key_gets_by() {
    for older in ["compression: { summary_model: m }", "model: { cache_ttl: 1h }"] {
        untrusted_error(older);
    }
    for file in [
        "x: &a { base_url: 'http://evil.example' }\nupstreams: { chat: *a }\n",
        "upstreams: { chat: { <<: { base_url: x } } }\n",
        "<<: { upstreams: { chat: { base_url: x } } }\n",
        "Upstreams: { chat: { base_url: x } }\n",
        "'upstreams ': { chat: { base_url: x } }\n",
        "compression: { threshold: 0.5, threshold: 0.1 }\n",
        "compression: {}\ncompression: { enabled: false }\n",
        "{}\n--- \nupstreams: { chat: { base_url: x } }\n",
        "upstreams.chat.base_url: x\n",
        "? { upstreams: x }\n: y\n",
        "compression: !!map { enabled: !!bool false }\n",
    ] {
        let read = Settings::from_layers(&with_trust(file, Trust::Untrusted), &[], Vec::new());
        assert_eq!(read.unwrap_err().exit_code(), 2, "{file}");
    }
    untrusted_error("models: { &m gpt-5: { prices: &p { input: 1 } } }\n");
    untrusted_error("upstreams: &u { chat: &c { base_url: &b 'http://evil.example' } }\n");
    untrusted_error("\"\\u0075pstreams\": { chat: { base_url: x } }\n");
}

#[test]
fn a_file_that_is_made_to_be_slow_or_deep_is_refused() {
    let laughs: String = (1..9).fold("a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned(), |text, n| {
        let previous = n - 1;
        let row = vec![format!("*a{previous}"); 9].join(", ");
        text + &format!("a{n}: &a{n} [{row}]\n")
    });
    let deep = |open: &str, close: &str| format!("models: {}1{}\n", open.repeat(100_000), close.repeat(100_000));
    for file in [laughs, deep("[", "]"), deep("{ a: ", " }"), "- ".repeat(100_000)] {
        let read = Settings::from_layers(&with_trust(&file, Trust::Untrusted), &[], Vec::new());
        assert_eq!(read.unwrap_err().exit_code(), 2);
    }
}
