//! Bytes nobody thought of. Under `cargo test` each target runs a bounded number of random inputs; under
//! `cargo bolero test` the same targets run for as long as they are given, led by coverage.

#![allow(clippy::unwrap_used, reason = "all of it is test code, in functions too")]

use bolero::check;
use longhaul_engine::{ApiFormat, Edit, Rewrite, wire};

/// Reading agrees with a strict JSON reader on what is JSON, and an empty rewrite is the identity.
fn read_and_write(body: &str) {
    let theirs = serde_json::from_str::<serde::de::IgnoredAny>(body);
    for api_format in [None, Some(ApiFormat::Chat), Some(ApiFormat::Messages), Some(ApiFormat::Responses)] {
        let Ok((transcript, _)) = wire::parse(api_format, body) else {
            assert!(theirs.is_err(), "refused what is JSON: {body:?}");
            continue;
        };
        assert_eq!(Rewrite::new(&transcript, Vec::new()).unwrap().apply(body), body);
        let removals = transcript.turns.iter().flat_map(|u| u.owned_elements.iter().map(|id| Edit::Remove(*id)));
        let rewrite = Rewrite::new(&transcript, removals.collect()).unwrap();
        let smaller = rewrite.apply(body);
        assert!(wire::parse(api_format, &smaller).is_ok(), "{body:?} → {smaller:?}");
        assert_eq!(rewrite.inverse(body).apply(&smaller), body);
    }
}

#[test]
fn any_text() {
    check!().with_iterations(20_000).for_each(|input: &[u8]| {
        if let Ok(body) = std::str::from_utf8(input) {
            read_and_write(body);
        }
    });
}

/// Text that is nearly a body: pieces of bodies in any order find what random bytes never reach.
#[test]
fn text_that_is_nearly_a_body() {
    const PIECES: &[&str] = &[
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"",
        "\\",
        "\\u",
        "\\ud83d",
        "\"messages\":",
        "\"input\":",
        "\"role\":",
        "\"user\"",
        "null",
        "\"assistant\"",
        "\"tool\"",
        "\"content\":",
        "\"type\":",
        "\"tool_use\"",
        "\"tool_result\"",
        "\"tool_use_id\":",
        "\"id\":",
        "\"tool_calls\":",
        "\"function\":",
        "\"arguments\":",
        "\"call_id\":",
        "\"function_call\"",
        "\"reasoning\"",
        "\"text\"",
        "\"text\":",
        "1",
        "-",
        "0.5",
        "true",
        " ",
        "\n",
        "é",
        "\u{feff}",
        "{\"role\":\"user\",\"content\":\"x\"}",
        "[{",
        "}]",
        "\"x\"",
        "{\"messages\":[",
        "]}",
        "\"system\":",
        "\"tools\":",
    ];
    check!().with_iterations(20_000).for_each(|input: &[u8]| {
        let body: String = input.iter().map(|byte| PIECES[*byte as usize % PIECES.len()]).collect();
        read_and_write(&body);
    });
}

/// Bodies that are whole but for one byte.
#[test]
fn a_body_with_one_byte_changed() {
    const BODY: &str = r#"{"system":[{"type":"text","text":"a"}],"messages":[{"role":"user","content":"b"},{"role":"assistant",
        "content":[{"type":"thinking","thinking":"c","signature":"d"},{"type":"tool_use","id":"e","name":"f","input":{"g":[1]}}]},
        {"role":"user","content":[{"type":"tool_result","tool_use_id":"e","content":[{"type":"text","text":"h\u00e9\n"}]},
        {"type":"image","source":{"type":"base64","data":"AAAA"}}]}]}"#;
    check!().with_iterations(20_000).with_type::<(usize, u8)>().for_each(|(at, byte)| {
        let mut bytes = BODY.as_bytes().to_vec();
        let at = at % bytes.len();
        bytes[at] = *byte;
        if let Ok(body) = std::str::from_utf8(&bytes) {
            read_and_write(body);
        }
    });
}
