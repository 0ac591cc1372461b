//! Texts and their expected redaction. Keys are generated, so that none is in the repository.

use super::generate::generate_key;
use super::{redact, redaction, survives};
use crate::policy::{RedactionConfig, RedactionRule};
use crate::redact::{RedactionMode, Redactor, Rules, SessionKey};

#[track_caller]
fn check(text: &str, expected: &str) {
    assert_eq!(redact(text), expected);
}

#[track_caller]
fn check_unchanged(text: &str) {
    assert_eq!(redact(text), text);
}

#[test]
fn names_give_values_away_in_every_notation() {
    let cases = [
        ("DB_PASSWORD=hunter2", "DB_PASSWORD=[REDACTED:password:1]"),
        ("export API_KEY='s3cr3t-value'", "export API_KEY='[REDACTED:secret:1]'"),
        (r#"{"password": "hunter2"}"#, r#"{"password": "[REDACTED:password:1]"}"#),
        (r#"{\"password\": \"hunter2\"}"#, r#"{\"password\": \"[REDACTED:password:1]\"}"#),
        ("db:\n  password: hunter2\n", "db:\n  password: [REDACTED:password:1]\n"),
        ("client_secret = \"a1b2c3d4e5\"", "client_secret = \"[REDACTED:secret:1]\""),
        ("<password>hunter2</password>", "<password>[REDACTED:password:1]</password>"),
        ("x-api-key: a1b2c3d4e5f6", "x-api-key: [REDACTED:secret:1]"),
        ("X-Auth-Token: a1b2c3d4e5f6g7h8", "X-Auth-Token: [REDACTED:secret:1]"),
        ("Authorization: Bearer abcdefgh12345678", "Authorization: Bearer [REDACTED:authorization:1]"),
        ("authorization: Basic dXNlcjpwYXNzd29yZA==", "authorization: Basic [REDACTED:authorization:1]"),
        ("'Authorization': 'token abcdef1234567890'", "'Authorization': 'token [REDACTED:authorization:1]'"),
        ("Cookie: theme=dark; sid=a1b2c3d4e5f6g7", "Cookie: theme=dark; sid=[REDACTED:cookie:1]"),
        ("user=me&password=hunter2&x=1", "user=me&password=[REDACTED:password:1]&x=1"),
        ("?a=1&access_token=abc123def456ghi7", "?a=1&access_token=[REDACTED:secret:1]"),
        ("%26password%3Dhunter2%26x", "%26password%3D[REDACTED:password:1]%26x"),
        ("mysqldump --password=hunter2 db", "mysqldump --password=[REDACTED:password:1] db"),
        ("my password is hunter2.", "my password is [REDACTED:password:1]."),
    ];
    for (text, expected) in cases {
        check(text, expected);
    }
}

#[test]
fn a_name_gives_away_what_ends_like_an_example() {
    let names = [
        "AWS_SECRET_ACCESS_KEY=",
        "export AWS_SECRET_ACCESS_KEY=",
        "aws_secret_access_key = ",
        "secret_key: ",
        r#"{"secret_access_key": ""#,
    ];
    for (name, ending) in names.into_iter().flat_map(|name| [(name, "EXAMPLEKEY"), (name, "EXAMPLE")]) {
        let value = generate_key("{base64:28}", 1) + ending;
        let close = if name.starts_with('{') { "\"}" } else { "\n" };
        let clean = redact(&format!("{name}{value}{close}"));
        assert!(clean.starts_with(&format!("{name}[REDACTED:secret:")), "{clean}");
        assert!(!clean.contains(&value[5..]), "{clean}");
    }
    check_unchanged("AWS_SECRET_ACCESS_KEY=<your-key>");
    check_unchanged("AWS_SECRET_ACCESS_KEY=YOUR-EXAMPLE-KEY");
    check_unchanged("aws_access_key: AKIAIOSFODNN7EXAMPLE");
}

#[test]
fn addresses_lose_their_credentials() {
    let cases = [
        ("https://me:hunter2@example.com/x", "https://[REDACTED:url-credentials:1]@example.com/x"),
        (
            "/login?next=https%3A%2F%2Fme%3Ahunter2%40example.com%2Fx",
            "/login?next=https%3A%2F%2F[REDACTED:url-credentials:1]%40example.com%2Fx",
        ),
        ("https://me%3Ahunter2@example.com/x", "https://[REDACTED:url-credentials:1]@example.com/x"),
        ("DATABASE_URL=postgres://app:hunt@er2@db.example.com/app", "DATABASE_URL=[REDACTED:database-url:1]"),
        ("redis://:hunter2@cache.example.com:6379/0 up", "[REDACTED:database-url:1] up"),
        ("curl -u me:hunter2 https://example.com", "curl -u [REDACTED:url-credentials:1] https://example.com"),
        ("\"Server=db;User Id=app;Password=hunter2;\"", "\"[REDACTED:connection-string:1]\""),
        ("call +14155552671 now", "call [REDACTED:phone-number:1] now"),
        ("thanks <@123456789012345678>!", "thanks <@[REDACTED:discord-mention:1]>!"),
    ];
    for (text, expected) in cases {
        check(text, expected);
    }
}

#[test]
fn a_private_key_block_becomes_one_tag() {
    let body = generate_key("{base64:64}\n{base64:64}\n{base64:20}", 1);
    let block = format!("-----BEGIN RSA PRIVATE KEY-----\n{body}\n-----END RSA PRIVATE KEY-----");
    check(&format!("key:\n{block}\nend"), "key:\n[REDACTED:private-key:1]\nend");
    check(&block.replace('\n', "\\n"), "[REDACTED:private-key:1]");
    check(
        &format!("{{\"private_key\": \"{}\"}}", block.replace('\n', "\\n")),
        "{\"private_key\": \"[REDACTED:private-key:1]\"}",
    );
    check_unchanged(&block.replace("RSA PRIVATE", "PUBLIC"));
    check_unchanged(&block.replace("RSA PRIVATE KEY", "CERTIFICATE"));
    check_unchanged("-----BEGIN OPENSSH PRIVATE KEY-----");
}

#[test]
fn placeholders_are_left_alone() {
    let texts = [
        "password=$PASSWORD",
        "password: ${DB_PASSWORD}",
        "api_key = \"<your key>\"",
        "API_KEY=your-api-key-here",
        "token: xxxxxxxxxxxxxxxx",
        "password=********",
        "PASSWORD=changeme",
        "api_key = os.environ[\"API_KEY\"]",
        "const key = process.env.API_KEY;",
        "let token = std::env::var(\"TOKEN\")?;",
        "password: str",
        "def login(user, password=None):",
        "self.password = password",
        "password = getpass.getpass()",
        "{{ .Values.password }}",
        "secret: \"{{ vault.secret }}\"",
        "https://user:$TOKEN@example.com/",
        "Authorization: Bearer $TOKEN",
        "Authorization: Bearer <token>",
        "curl -u \"$USER:$PASS\" x",
        "AKIAIOSFODNN7EXAMPLE",
    ];
    for text in texts {
        check_unchanged(text);
    }
}

#[test]
fn harmless_values_are_left_alone() {
    let texts = [
        "max_tokens: 4096",
        "\"input_tokens\": 123456789012345678",
        "total_tokens=1234567890123456",
        "\"tool_call_id\": \"call_abc123DEF456ghi789\"",
        "\"id\": \"toolu_01A09q90qw90lq917835lq9\"",
        "commit 5d41402abc4b2a76b9719d911017c592aaaaaaaa",
        "sha256:9f86d081884c7d659a2feaa0c55ad015",
        "123e4567-e89b-12d3-a456-426614174000",
        "cache_key: 5d41402abc4b2a76b9719d911017c592",
        "primary_key = user_id_12345678",
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHUfYl8a8a8a8a8a8a8a8a8a8a8a8a8a8a8a me@host",
        "next_page_token: CAoQAA1234567890abcd",
        "\"signature\": \"ErUBCkYIBxgCIkDaBcDeFgHiJkLmNoP1234567890\"",
        "keyboard=qwerty123456",
        "PASS: test-12 ok",
        "token_count = 1234567890123456",
        "+12345678901\n+line\n",
        "let x = a +14155552671b",
        "version 1.2.3+14155552671",
        "press any key 12345678",
        "the key 5d41402abc4b2a76b9719d911017c592",
    ];
    for text in texts {
        check_unchanged(text);
    }
}

#[test]
fn source_code_is_spared_assignments_and_fields_only() {
    let code = "password = \"hunter2\"\nconfig = {\"api_key\": \"a1b2c3d4e5f6\"}\n";
    assert_eq!(redaction(code, RedactionMode::Code).text.as_str(), code);
    assert_ne!(redaction(code, RedactionMode::Text).text.as_str(), code);
    let key = generate_key("ghp_{base62:36}", 2);
    let line = format!(
        "t = \"{key}\"; h = \"Authorization: Bearer abcdefgh12345678\"; u = \"https://a:hunter2@b.example/?token=abc123def456ghi7\""
    );
    let clean = redaction(&line, RedactionMode::Code);
    assert_eq!(clean.found.len(), 4, "{}", clean.text);
    assert_eq!(RedactionMode::from_path("src/main.rs"), RedactionMode::Code);
    assert_eq!(RedactionMode::from_path("config.yaml"), RedactionMode::Text);
}

#[test]
fn keys_split_by_hidden_characters_are_found() {
    let filler = "a line of a log that says nothing\n".repeat(500);
    let key = generate_key("ghp_{base62:36}", 8);
    let (before, behind) = key.split_at(20);
    let parted = format!("token {before}\u{200b}{behind}\n");
    let text = format!("{parted}{filler}\u{1b}[31mred\u{1b}[0m\n{filler}{parted}{filler}");
    let redacted = redact(&text);
    assert_eq!(redacted.matches("[REDACTED:").count(), 2, "{}", &redacted[..200]);
    assert_eq!(redacted.matches(&filler).count(), 3);
    assert!(!redacted.contains(before) && !redacted.contains(behind));
}

#[test]
fn the_same_secret_gets_the_same_tag() {
    let text = "password=hunter2 other_password=hunter3 \"password\": \"hunter2\"";
    check(
        text,
        "password=[REDACTED:password:1] other_password=[REDACTED:password:2] \"password\": \"[REDACTED:password:1]\"",
    );
    let keyed = |byte| Redactor::keyed(Rules::default(), SessionKey::new([byte; 32]));
    let first = keyed(1).redact(text, RedactionMode::Text).text;
    assert_eq!(first, keyed(1).redact(text, RedactionMode::Text).text);
    assert_ne!(first, keyed(2).redact(text, RedactionMode::Text).text);
    assert_eq!(redact(first.as_str()), first.as_str());
}

#[test]
fn long_keys_keep_their_ends_and_short_ones_nothing() {
    let key = generate_key("ghp_{base62:36}", 4);
    let (first, last) = (&key[..4], &key[38..]);
    check(&key, &format!("[REDACTED:github-token:{first}..{last}:1]"));
    assert!(!survives(&key, &redact(&key)));
    check("token=abc123def456ghi7", "token=[REDACTED:token:1]");
}

#[test]
fn json_is_spliced_and_sealed_fields_are_reported() {
    let key = generate_key("ghp_{base62:36}", 6);
    let body = format!(
        r#" {{"messages" : [{{"role":"assistant","content":[{{"type":"thinking","thinking":"use {key}","signature":"s"}}]}},
        {{"role":"user","content":"pass\u0077ord=hun\/ter2\nnext"}}], "api_key":"a1b2\"c3d4e5", "n": 1.0 }}"#
    );
    let done = Redactor::numbered(Rules::default()).redact_json(&body).unwrap();
    let expected =
        body.replace(r"hun\/ter2", "[REDACTED:password:1]").replace(r#"a1b2\"c3d4e5"#, "[REDACTED:secret:2]");
    assert_eq!(done.text.as_str(), expected);
    assert_eq!(done.sealed.len(), 1);
    assert_eq!(&body[done.sealed[0].start..done.sealed[0].end], key);
    let error = Redactor::numbered(Rules::default()).redact_json("{\"a\": }").unwrap_err();
    assert_eq!((error.line, error.column), (1, 7));
}

#[test]
fn images_and_ids_keep_their_bytes() {
    let image = generate_key("{base64:200}", 8);
    for body in [
        format!(r#"{{"source":{{"type":"base64","media_type":"image/png","data":"{image}"}}}}"#),
        format!(r#"{{"image_url":{{"url":"data:image/png;base64,{image}"}}}}"#),
        r#"{"tool_call_id":"call_9sk_live_abcdefghijklmnopqrstuvwx"}"#.to_owned(),
    ] {
        let done = Redactor::numbered(Rules::default()).redact_json(&body).unwrap();
        assert_eq!(done.text.as_str(), body);
    }
}

#[test]
fn users_add_rules_and_allow_values() {
    let rule = |name: &str, pattern: &str| RedactionRule { name: name.to_owned(), pattern: pattern.to_owned() };
    let added = RedactionConfig {
        rules: vec![rule("badge", "B-[0-9]{6}"), rule("room", "room ([0-9]+)")],
        allow: vec!["hunter[0-9]".to_owned()],
    };
    let clean = Redactor::numbered(Rules::with_user_rules(&added).unwrap())
        .redact("B-123456 in room 17, password=hunter2, password=hunter22", RedactionMode::Text);
    assert_eq!(
        clean.text.as_str(),
        "[REDACTED:badge:1] in room [REDACTED:room:2], password=hunter2, password=[REDACTED:password:3]"
    );
}

#[test]
fn a_bad_rule_is_refused_with_its_place() {
    let refused = |name: &str, pattern: &str| {
        let good = RedactionRule { name: "good".to_owned(), pattern: "x".to_owned() };
        let bad = RedactionRule { name: name.to_owned(), pattern: pattern.to_owned() };
        Rules::with_user_rules(&RedactionConfig { rules: vec![good, bad], ..RedactionConfig::default() })
            .err()
            .unwrap()
            .to_string()
    };
    assert_eq!(refused("a", "ab(c"), "redaction.rules[1], byte 2: unclosed group");
    assert_eq!(
        refused("a b", "x"),
        "redaction.rules[1], byte 1: a name has 1 to 40 lower case letters, digits and dashes"
    );
    assert!(refused("a", "x*").contains("matches the empty text"));
    let allow = RedactionConfig { allow: vec!["a{2,1}".to_owned()], ..RedactionConfig::default() };
    assert!(Rules::with_user_rules(&allow).err().unwrap().to_string().starts_with("redaction.allow[0], byte 1"));
}

#[test]
fn a_match_cut_at_its_limit_ends_between_characters() {
    let long = "é".repeat(2_000);
    for (before, after) in [
        ("postgres://me:hunter2@example.com/", ""),
        ("curl -u me:hunter2", ""),
        ("Server=a;Password=hunter2;x=", ""),
        ("", ";Server=a;Password=hunter2;"),
    ] {
        for shift in ["", "x"] {
            let text = format!("{before}{shift}{long}{shift}{after}");
            assert!(!survives("hunter2", &redact(&text)), "{before} {after}");
        }
    }
}

#[test]
fn every_rule_is_listed() {
    let kinds: Vec<String> = Rules::default().summary().into_iter().map(|rule| rule.kind).collect();
    for kind in ["github-token", "password", "authorization", "private-key", "phone-number"] {
        assert!(kinds.iter().any(|listed| listed == kind), "{kind}");
    }
}
