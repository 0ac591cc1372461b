//! Properties of a key of every rule, in many contexts, at many offsets, whole and split; and of texts that
//! must not change.

use proptest::prelude::*;

use super::generate::{commands, generate_key, rows, setting_and_pipe_rows};
use super::{redact, redaction, survives};
use crate::redact::{RedactionMode, Redactor, Rules, StreamRedactor};

fn json(body: &str) -> String {
    Redactor::numbered(Rules::default()).redact_json(body).unwrap().text.into_string()
}

fn streamed(text: &str, cut: usize) -> String {
    let mut stream = Redactor::numbered(Rules::default()).into_stream(RedactionMode::Text);
    let mut bytes = stream.push(&text.as_bytes()[..cut]).bytes;
    bytes.extend(stream.push(&text.as_bytes()[cut..]).bytes);
    bytes.extend(stream.finish().bytes);
    String::from_utf8(bytes).unwrap()
}

/// Writes every character as a JSON escape.
fn escaped(text: &str) -> String {
    text.bytes().flat_map(|byte| format!("\\u{byte:04x}").into_bytes()).map(char::from).collect()
}

/// Percent-encodes a key for a parameter of a URL: only characters that are not allowed there are encoded.
fn url_encoded(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => char::from(byte).to_string(),
            _ => format!("%{byte:02X}"),
        })
        .collect()
}

#[test]
fn a_key_of_every_shape_is_found_in_every_context() {
    for row in rows() {
        for (at, shape) in row.shapes.iter().enumerate() {
            let key = generate_key(shape, at as u64 + 7);
            let lead = row.required_prefix();
            let hosts = [
                format!("{lead}{key}"),
                format!("before {lead}{key} after"),
                format!("line\n{lead}{key}\nline"),
                format!("({lead}{key}), and"),
                format!("\\n{lead}{key}\\n"),
                format!("x=1&y%3D{lead}{key}%26z"),
                format!("\u{1b}[32m{lead}{key}\u{1b}[0m"),
            ];
            for host in hosts {
                assert!(!survives(&key, &redact(&host)), "{}: {shape}: {host}", row.kind);
            }
            let plain = format!(r#"{{"content":"say {lead}{key}."}}"#);
            let hidden = format!(r#"{{"content":"\n{lead}{}\n"}}"#, escaped(&key));
            for body in [plain, hidden] {
                let clean = json(&body);
                let value: serde_json::Value = serde_json::from_str(&clean).unwrap();
                assert!(!survives(&key, value["content"].as_str().unwrap()), "{}: {body} {clean}", row.kind);
            }
        }
    }
}

#[test]
fn a_percent_encoded_key_is_found_however_often_it_is_encoded() {
    let rows = rows();
    let alone = rows.iter().filter(|row| row.after.is_empty());
    let shapes = alone.flat_map(|row| row.shapes.iter().map(move |shape| (&row.kind, shape)));
    let mut changed = 0;
    for (at, (kind, shape)) in shapes.enumerate() {
        let key = generate_key(shape, at as u64 + 3);
        let once = url_encoded(&key);
        changed += usize::from(once != key);
        let twice = url_encoded(&once);
        let hosts = [
            format!("https://a.example/cb?x=1&y={once}&n=1"),
            format!("x=1&y={once}&n=1"),
            format!("y={once}"),
            format!("https://a.example/cb?next=https%3A%2F%2Fb.example%2F%3Fy%3D{once}%26n%3D1"),
            format!("https://a.example/cb?next=https%3A%2F%2Fb.example%2F%3Fy%3D{twice}%26n%3D1"),
        ];
        for host in hosts {
            let clean = redact(&host);
            let left = [&key, &once, &twice].iter().any(|written| survives(written, &clean));
            assert!(!left, "{kind}: {shape}: {host} {clean}");
            assert!(clean.starts_with(&host[..host.find('y').unwrap()]), "more than the key went: {clean}");
        }
    }
    assert!(changed > 20, "only {changed} keys need encoding");
}

/// Encodes a text as base64 with padding.
fn base64(text: &str) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let group = |bytes: &[u8]| {
        let bits = bytes.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - bytes.len()));
        let digit = |at: usize| char::from(DIGITS[(bits >> (18 - 6 * at)) as usize & 63]);
        (0..4).map(|at| if at <= bytes.len() { digit(at) } else { '=' }).collect::<String>()
    };
    text.as_bytes().chunks(3).map(group).collect()
}

#[test]
fn a_key_of_every_shape_is_found_however_it_is_written() {
    let rows = rows();
    let alone = rows.iter().filter(|row| row.after.is_empty());
    for (at, shape) in alone.flat_map(|row| &row.shapes).enumerate() {
        let key = generate_key(shape, at as u64 + 5);
        let parted = |sign: &str| key.chars().flat_map(|c| [String::from(c), String::from(sign)]).collect::<String>();
        let first = format!("\\u{:04x}{}", key.as_bytes()[0], &key[1..]);
        let written = [
            escaped(&key),
            first,
            escaped(&key).replace("\\u", "\\\\u"),
            parted("\0"),
            parted("\u{200b}"),
            parted("\u{fe0f}"),
            parted("\u{1b}[0m"),
            base64(&key),
            base64(&format!("{key}\n")),
        ];
        for written in written {
            // A key of fewer than 21 bytes has base64 that is shorter than the minimum.
            let is_base64 = !written.contains(['\\', '\0', '\u{200b}', '\u{fe0f}', '\u{1b}']);
            if is_base64 && key.len() < 21 {
                continue;
            }
            let clean = redact(&format!("it is {written} here"));
            assert!(clean.contains("[REDACTED:"), "{shape}: {written:?} {clean:?}");
            assert!(!survives(&written, &clean), "{shape}: {written:?} {clean:?}");
        }
        if key.len() >= 16 && !key.contains(['"', '\\']) {
            for body in [format!(r#"{{"x":{{"{key}":1}}}}"#), format!(r#"{{"id":"{key}"}}"#)] {
                assert!(!survives(&key, &json(&body)), "{shape}: {body} {}", json(&body));
            }
        }
    }
    let ids = r#"{"id":"toolu_01A09q90qw90lq917835lq9","tool_use_id":"call_8Jk2mN4pQ6rS8tU0vW2xY4zA","call_id":"fc_68a1b2c3d4e5f60718293a4b"}"#;
    assert_eq!(json(ids), ids);
}

#[test]
fn a_key_of_every_rule_is_found_at_every_offset_and_split_at_every_byte() {
    for row in rows() {
        let key = generate_key(&row.shapes[0], 11);
        let text = format!("one two {}{key} three", row.required_prefix());
        let whole = redact(&text);
        for cut in 0..=text.len() {
            assert_eq!(streamed(&text, cut), whole, "{} cut at {cut}", row.kind);
        }
        for offset in 0..40 {
            let text = format!("{}{}{key}", " ".repeat(offset), row.required_prefix());
            assert!(!survives(&key, &redact(&text)), "{} at {offset}", row.kind);
        }
    }
}

#[test]
fn commands_lose_the_secret_behind_their_flag_and_nothing_else() {
    for command in commands() {
        let clean = redact(&command.example);
        assert!(!survives("hunter2", &clean), "{clean}");
        let (_, kept) = command.example.split_once("hunter2").unwrap();
        assert!(clean.starts_with(&command.name) && clean.ends_with(kept), "{clean}");
        assert_eq!(redact(&clean), clean);
        assert_eq!(redact(&command.alike), command.alike);
    }
}

#[test]
fn settings_and_pipes_lose_their_password_and_nothing_else() {
    for lines in setting_and_pipe_rows() {
        let clean = redact(&lines.example);
        let (before, after) = lines.example.split_once("hunter2").unwrap();
        assert_eq!(clean, format!("{before}[REDACTED:password:1]{after}"));
        assert_eq!(redact(&clean), clean);
        assert_eq!(redact(&lines.alike), lines.alike);
    }
}

/// Streams the text in two chunks, split at `cut`. The window is so small that the stream emits text between
/// the two. Returns the output and the number of bytes that were emitted after the first chunk.
fn stream_with_small_window(text: &str, cut: usize) -> (String, usize) {
    let redactor = Redactor::numbered(Rules::default());
    let mut stream = StreamRedactor::with_window(redactor, RedactionMode::Text, SMALL_WINDOW_BYTES);
    let mut bytes = stream.push(&text.as_bytes()[..cut]).bytes;
    let first = bytes.len();
    bytes.extend(stream.push(&text.as_bytes()[cut..]).bytes);
    bytes.extend(stream.finish().bytes);
    (String::from_utf8(bytes).unwrap(), first)
}

/// A window that is longer than any key that is generated here.
const SMALL_WINDOW_BYTES: usize = 512;

#[test]
fn a_key_of_every_rule_is_found_wherever_the_stream_breaks_it() {
    for row in rows() {
        let key = generate_key(&row.shapes[0], 13);
        // Without white space the stream can cut only at the exact byte.
        for filler in ["some words of a log line\n", "no,blank,"] {
            // Longer than the context that the stream keeps, so that the beginning of the first chunk is
            // gone.
            let before = filler.repeat(2_500 / filler.len());
            let after = filler.repeat(2 * SMALL_WINDOW_BYTES / filler.len());
            let text = format!("{before}{}{key},{after}", row.required_prefix());
            let whole = redact(&text);
            assert!(!survives(&key, &whole), "{}", row.kind);
            let secret = before.len()..=before.len() + row.required_prefix().len() + key.len();
            for at in secret {
                for (edge, cut) in [("chunk", at), ("given out", at + SMALL_WINDOW_BYTES)] {
                    let (streamed, first) = stream_with_small_window(&text, cut);
                    assert!(first > 0, "nothing is given out before the second chunk");
                    assert_eq!(streamed, whole, "{}: {edge} at {at} of {text}", row.kind);
                }
            }
        }
    }
}

#[test]
fn a_look_alike_of_every_rule_is_left_alone() {
    for row in rows() {
        for seed in 0..5 {
            let alike = generate_key(&row.alike, seed);
            let text = format!("before {alike} after");
            assert_eq!(redact(&text), text, "{}", row.kind);
        }
    }
}

#[test]
fn secrets_of_every_rule_are_found_once_in_a_text_of_many_windows() {
    let filler = "some words of an ordinary log line, nothing more\n".repeat(60);
    let keys = rows()
        .into_iter()
        .map(|row| format!("{}{} here\n{filler}", row.required_prefix(), generate_key(&row.shapes[0], 5)));
    let text: String = keys.collect();
    let whole = redaction(&text, RedactionMode::Text);
    for chunk in [1_000, 65_536, 1 << 20] {
        let mut stream = Redactor::numbered(Rules::default()).into_stream(RedactionMode::Text);
        let (mut bytes, mut found) = (Vec::new(), Vec::new());
        for piece in text.as_bytes().chunks(chunk) {
            let piece = stream.push(piece);
            bytes.extend(piece.bytes);
            found.extend(piece.found);
        }
        let rest = stream.finish();
        bytes.extend(rest.bytes);
        found.extend(rest.found);
        assert_eq!(String::from_utf8(bytes).unwrap(), whole.text.as_str());
        assert_eq!(found, whole.found);
    }
}

/// Generates the pieces of texts with secrets.
fn piece() -> impl Strategy<Value = String> {
    let rows = rows();
    let shapes: Vec<(String, String)> =
        rows.iter().flat_map(|row| row.shapes.iter().map(|shape| (row.required_prefix(), shape.clone()))).collect();
    prop_oneof![
        (proptest::sample::select(shapes), any::<u64>())
            .prop_map(|((lead, shape), seed)| lead + &generate_key(&shape, seed)),
        proptest::sample::select(vec![
            "password=",
            "\"api_key\": \"",
            "Authorization: Bearer ",
            "token: ",
            "://user:",
            "@host.example/",
            "\n",
            " ",
            "\"",
            "'",
            "; ",
            "Cookie: sid=",
            "&",
            "?key=",
            "-----BEGIN RSA PRIVATE KEY-----\n",
            "-----END RSA PRIVATE KEY-----",
            "<@",
            ">",
            "+14155552671",
            "curl -u a:",
            "sshpass -p ",
            "mysql -p",
            "%3A%2F%2F",
            "%40",
            "%252B",
            "kind: Secret\ndata:\n  a: ",
            "Server=db;Password=",
            ";",
            "[REDACTED:token:1]",
            "é",
            "\\",
            "\\n",
            "{",
            "}",
            "=",
            ":",
        ])
        .prop_map(str::to_owned),
        "[a-zA-Z0-9_.+/ =:-]{0,40}",
    ]
}

fn text() -> impl Strategy<Value = String> {
    proptest::collection::vec(piece(), 0..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn redacting_twice_equals_redacting_once(text in text()) {
        let once = redact(&text);
        prop_assert_eq!(redact(&once), once);
    }

    #[test]
    fn findings_are_in_order_apart_and_inside_the_text(text in text()) {
        let done = redaction(&text, RedactionMode::Text);
        let mut end = 0;
        for found in &done.found {
            prop_assert!(end <= found.start && found.start < found.end && found.end <= text.len());
            end = found.end;
        }
    }

    #[test]
    fn chunks_do_not_matter(text in text(), cut in any::<proptest::sample::Index>()) {
        let mut cut = cut.index(text.len() + 1);
        while !text.is_char_boundary(cut) {
            cut -= 1;
        }
        prop_assert_eq!(streamed(&text, cut), redact(&text));
    }

    #[test]
    fn json_stays_json_and_sealed_fields_and_ids_that_are_no_keys_keep_their_bytes(text in text(), name in "[a-z_]{1,12}") {
        let string = serde_json::to_string(&text).unwrap();
        let body = format!(
            r#"{{"id":{string},"{name}":{string},"list":[{string},{{"tool_use_id":{string}}}],"thinking":{string},"signature":{string},"n":1.50}}"#
        );
        let clean = json(&body);
        let before: serde_json::Value = serde_json::from_str(&body).unwrap();
        let after: serde_json::Value = serde_json::from_str(&clean).unwrap();
        for sealed in ["/thinking", "/signature"] {
            prop_assert_eq!(before.pointer(sealed), after.pointer(sealed));
        }
        for id in ["/id", "/list/1/tool_use_id"] {
            let clean = after.pointer(id).and_then(serde_json::Value::as_str).unwrap();
            prop_assert!(clean == text || clean.starts_with("[REDACTED:"), "{}", clean);
        }
        let number_kept = clean.ends_with(r#","n":1.50}"#);
        prop_assert!(number_kept);
        prop_assert_eq!(json(&clean), clean);
    }
}
