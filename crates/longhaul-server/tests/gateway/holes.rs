//! The holes that other gateways are known for, each tried here: a request that chooses where it goes, statements made of keys,
//! programs that a configuration names.

use std::path::Path;

use longhaul_server::store::KeyLimits;
use reqwest::Method;
use serde_json::{Value, json};

use crate::ground::{Agent, Ground, settings};
use crate::postgres::ground::{Database, Ground as Place};
use crate::simulator::{Next, Settings, Simulator};
use crate::street::{Elsewhere, MODELS, closed, holding, post, raw, send, status};
use crate::worker::{Task, Worker};

/// Keys as an attacker writes them.
const HOSTILE: [&str; 9] = [
    "' OR '1'='1",
    "lh-' OR 1=1 --",
    "'; DROP TABLE keys; --",
    "lh-AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA'",
    "lh-%00%00%00",
    "$1",
    "\\x27; SELECT pg_sleep(10)",
    "../../etc/passwd",
    "lh-\u{e9}",
];

#[tokio::test(flavor = "multi_thread")]
async fn no_key_becomes_part_of_a_statement() {
    let simulator = Simulator::start(Settings::default()).await;
    let place = Place::new(Database::Sqlite);
    for access in [settings(&simulator.origin()), closed(holding(&simulator.origin(), "sk-held"))] {
        let is_closed = access.access == longhaul_server::gateway::ClientAccess::Keys;
        let ground = Ground::with_store(access, place.open().await, simulator.clock()).await;
        let long = "a".repeat(100_000);
        for hostile in HOSTILE.into_iter().chain([long.as_str()]) {
            for name in ["x-longhaul-key", "x-api-key", "authorization"] {
                let (path, body) = MODELS[0];
                let answered = post(&ground, path, &[(name, hostile)], body).await.status().as_u16();
                // What is no text the provider itself does not take for a key.
                let is_refused = is_closed || name == "x-longhaul-key" || !hostile.is_ascii();
                let wanted = if is_refused { 401 } else { 200 };
                assert_eq!(answered, wanted, "{name}: {}", &hostile[..hostile.len().min(40)]);
            }
        }
        // What is no header at all is not even read as one.
        for value in ["a\0b".to_owned(), "a".repeat(1024 * 1024)] {
            let head = format!(
                "POST /v1/messages HTTP/1.1\r\nhost: localhost\r\nx-longhaul-key: {value}\r\ncontent-length: 2\r\n\r\n{{}}"
            );
            let said = raw(&ground, head.as_bytes()).await;
            assert!(matches!(status(&said), 0 | 400 | 431), "{said}");
        }
        ground
            .store
            .add_key("t", if is_closed { "one" } else { "two" }, KeyLimits::default(), longhaul_engine::Timestamp(0))
            .await
            .unwrap();
        assert_eq!(ground.store.check_integrity().await.unwrap(), Vec::<String>::new());
    }
    let names = place.ask("SELECT name FROM tenants").await;
    let is_plain = |name: &String| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    assert!(names.len() == 2 && names.iter().all(is_plain), "{names:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_field_of_a_request_chooses_where_it_goes() {
    let simulator = Simulator::start(Settings::default()).await;
    let (elsewhere, ground) = (Elsewhere::open().await, Ground::start(settings(&simulator.origin()), &simulator).await);
    let (url, host) = (elsewhere.url(), elsewhere.host());
    let fields = [
        "api_base",
        "base_url",
        "api_key",
        "api_version",
        "custom_llm_provider",
        "endpoint",
        "url",
        "host",
        "proxy",
        "proxies",
        "litellm_params",
        "user_config",
        "fallbacks",
        "model_list",
        "metadata",
        "extra_headers",
        "extra_body",
        "webhook",
        "callback_url",
    ];
    let mut sent = 0;
    for (path, body) in MODELS {
        let mut fields: Vec<(&str, Value)> = fields.iter().map(|name| (*name, json!(url))).collect();
        fields.push(("litellm_params", json!({"api_base": url, "api_key": "sk-other"})));
        fields.push(("fallbacks", json!([{"model": "gpt-5", "api_base": url}])));
        fields.push(("model", json!(format!("{url}/v1"))));
        fields.push(("model", json!(format!("openai/{url}"))));
        for (name, value) in fields {
            let mut body: Value = serde_json::from_str(body).unwrap();
            body[name] = value;
            post(&ground, path, &[("authorization", "Bearer sk-own")], body.to_string()).await;
            sent += 1;
            let seen = simulator.last().unwrap();
            assert_eq!((seen.path.as_str(), seen.header("authorization")), (path, Some("Bearer sk-own")));
            assert_eq!(seen.value()[name], body[name], "it went on as it came");
        }
        for name in [
            "x-litellm-api-base",
            "x-api-base",
            "x-base-url",
            "x-openai-base-url",
            "x-anthropic-base-url",
            "x-upstream",
            "x-target-url",
            "x-forwarded-host",
            "x-original-url",
            "x-rewrite-url",
            "forwarded",
            "x-longhaul-upstream",
            "x-longhaul-base-url",
            "referer",
            "location",
            "x-host",
        ] {
            for value in [url.as_str(), host.as_str()] {
                post(&ground, path, &[(name, value), ("authorization", "Bearer sk-own")], body).await;
                sent += 1;
                assert_eq!(simulator.last().unwrap().path, path, "{name}");
            }
        }
    }
    assert_eq!((elsewhere.came(), simulator.seen().len()), (0, sent));
}

#[tokio::test(flavor = "multi_thread")]
async fn no_request_target_chooses_where_it_goes() {
    let simulator = Simulator::start(Settings::default()).await;
    let base = format!("{}/proxy/v1", simulator.origin());
    let (elsewhere, ground) = (Elsewhere::open().await, Ground::start(settings(&base), &simulator).await);
    let (url, host) = (elsewhere.url(), elsewhere.host());
    let (_, body) = MODELS[0];
    let cases = [
        (format!("POST {url}/v1/messages"), 404),
        (format!("GET {url}/v1/models"), 404),
        ("POST http://evil.example/v1/messages".to_owned(), 403),
        (format!("CONNECT {host}"), 405),
        ("TRACE /v1/messages".to_owned(), 405),
        (format!("POST //{host}/v1/messages"), 404),
        (format!("POST /v1/@{host}/messages"), 404),
        (format!("POST /@{host}"), 404),
        (format!("POST /\\{host}/v1/messages"), 404),
        (format!("POST /\\\\{host}\\v1"), 404),
        (format!("POST /v1/messages?base={url}"), 404),
        (format!("POST /{url}"), 404),
        ("POST /v1/../../admin".to_owned(), 400),
        ("POST /v1/%2e%2e/%2e%2e/admin".to_owned(), 400),
        ("POST /v1/..%2f..%2fadmin".to_owned(), 400),
        ("POST /v1/..\\..\\admin".to_owned(), 400),
        ("OPTIONS *".to_owned(), 404),
    ];
    for (target, wanted) in cases {
        let length = body.len();
        let request = format!(
            "{target} HTTP/1.1\r\nhost: 127.0.0.1\r\nx-api-key: sk-own\r\nanthropic-version: 2023-06-01\r\n\
             content-length: {length}\r\nconnection: close\r\n\r\n{body}"
        );
        let said = raw(&ground, request.as_bytes()).await;
        // A server may find a target too odd to be read at all.
        assert!([wanted, 400].contains(&status(&said)), "{target}: {said}");
    }
    for seen in simulator.seen() {
        assert!(seen.path.starts_with("/proxy/v1/") || seen.path.starts_with("/proxy/v1?"), "{}", seen.path);
        assert_eq!(seen.header("host").map(|host| format!("http://{host}")), Some(simulator.origin()));
    }
    assert_eq!(elsewhere.came(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_followed_elsewhere() {
    let simulator = Simulator::start(Settings::default()).await;
    let (elsewhere, ground) =
        (Elsewhere::open().await, Ground::start(holding(&simulator.origin(), "sk-held"), &simulator).await);
    let http = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).build().unwrap();
    let place = format!("{}/v1/messages", elsewhere.url());
    for status in [301, 302, 303, 307, 308] {
        for (path, body) in MODELS.into_iter().chain([("/v1/files", "{}"), ("/v1/messages/count_tokens", "{}")]) {
            simulator.next(Next::Fails { status, headers: vec![("location", place.clone())] });
            let request = http.post(format!("{}{path}", ground.url)).header("anthropic-version", "2023-06-01");
            let response = request.body(body).send().await.unwrap();
            assert_eq!(response.status(), status, "{path}");
            assert_eq!(response.headers()["location"], place.as_str(), "the provider's own word");
        }
    }
    assert_eq!(elsewhere.came(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_for_one_provider_is_not_sent_to_another() {
    let (messages, other) = (Simulator::start(Settings::default()).await, Simulator::start(Settings::default()).await);
    let mut apart = settings(&other.origin());
    apart.upstreams.messages = settings(&messages.origin()).upstreams.messages;
    let ground = Ground::start(apart, &messages).await;
    for (path, key) in [("/v1/models", "x-api-key"), ("/v1/files", "x-api-key"), ("/v1/models", "authorization")] {
        let request = ground.http.get(format!("{}{path}", ground.url)).header(key, "Bearer sk-own");
        request.send().await.unwrap();
    }
    let with =
        |simulator: &Simulator, key: &str| simulator.seen().iter().filter(|seen| seen.header(key).is_some()).count();
    assert_eq!((with(&messages, "x-api-key"), with(&other, "x-api-key")), (2, 0));
    assert_eq!((with(&messages, "authorization"), with(&other, "authorization")), (0, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_starts_no_program() {
    let simulator = Simulator::start(Settings::window(16_000)).await;
    let place = Place::new(Database::Sqlite);
    let worker = Worker::start(Task::Serve, &place.place.to_string(), &simulator).await;
    let mut agent = Agent::new("claude-sonnet-4-5");
    let mut actions = Vec::new();
    for _ in 0..14 {
        agent.step(60);
        let response = worker.post(&agent).await.unwrap();
        assert_eq!(response.status(), 200);
        actions.push(crate::ground::header(&response, "x-longhaul-action"));
    }
    agent.says("/compress");
    assert_eq!(worker.post(&agent).await.unwrap().status(), 200);
    assert!(actions.iter().any(|action| action == "compacted"), "{actions:?}");
    assert_eq!(worker.children(), 0, "with no folder to look for programs in it works all the same");
}

/// One folder is named whose programs can be engines: not by a configuration that merely lay in a folder (the command line's tests
/// hold that), and one file starts them.
#[test]
fn no_key_of_the_configuration_names_a_program_but_the_folder_of_plug_ins() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let example = std::fs::read_to_string(root.join("../../examples/longhaul.yaml")).unwrap();
    let named = example.lines().filter_map(|line| line.trim_start_matches(['#', ' ', '-']).split_once(':'));
    let keys: Vec<&str> = named
        .map(|(key, _)| key)
        .filter(|key| key.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'))
        // What people type to the gateway, which is switched on or off.
        .filter(|key| !["commands", "plugins"].contains(key))
        .collect();
    assert!(keys.len() > 20, "{keys:?}");
    for word in [
        "command", "cmd", "exec", "program", "binary", "script", "shell", "hook", "plugin", "module", "import",
        "callback",
    ] {
        let found = keys.iter().find(|key| key.split('_').any(|part| part.trim_end_matches('s') == word));
        assert!(found.is_none(), "{found:?} sounds as if it named something that is run");
    }
    let mut folders = vec![root.join("src")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                folders.push(entry);
            } else if entry.extension().is_some_and(|ending| ending == "rs") && !entry.ends_with("plugins/process.rs") {
                let source = std::fs::read_to_string(&entry).unwrap();
                let starts = ["process::Command", "tokio::process", "libc::exec", "posix_spawn"];
                assert!(!starts.iter().any(|start| source.contains(start)), "{}", entry.display());
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_want_a_key_as_requests_do() {
    let simulator = Simulator::start(Settings::default()).await;
    let ground = Ground::start(closed(settings(&simulator.origin())), &simulator).await;
    for command in ["/undo", "/recall everything", "/context", "/compress"] {
        let mut agent = Agent::new("claude-sonnet-4-5");
        agent.says(command);
        let said =
            send(&ground, (Method::POST, "/v1/messages"), &[("x-api-key", "sk-own")], agent.body().to_string()).await;
        assert_eq!(said.status(), 401, "{command}");
    }
}
