//! The documented library: what a user of `Session` relies on.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "all of it is test code, in functions too")]

use longhaul_engine::report::{ContentKind, WrittenBy};
use longhaul_engine::{
    ApiFormat, Compacted, Error, Options, Proposal, Session, Severity, ShorterText, Tokens, Violation,
    digest_tool_output, redact_text,
};
use serde_json::{Value, json};

/// A conversation in which an agent builds and tests a program.
const EXAMPLE: &str = include_str!("../../../examples/session.json");
const KEY: [u8; 32] = [7; 32];
const WINDOW: Tokens = Tokens(8_000);

fn model(api_format: ApiFormat) -> &'static str {
    match api_format {
        ApiFormat::Chat | ApiFormat::Responses => "gpt-5",
        ApiFormat::Messages => "claude-sonnet-4-5",
    }
}

fn session(api_format: ApiFormat) -> Session {
    Session::new(model(api_format)).with_context_length(WINDOW).with_protected_last(4)
}

/// The output of a tool: a listing of its own for each turn.
fn output(turn: usize) -> String {
    (0..60)
        .map(|line| format!("src/module_{turn}/file_{line}.rs: fn handler_{line}() -> Result\n"))
        .collect::<Vec<_>>()
        .concat()
}

/// A request of this many turns. Its messages are the last field, so that a longer one begins with the same bytes.
fn request(api_format: ApiFormat, turns: usize) -> String {
    let question = "Rename the handlers, module by module.";
    let command = |turn: usize| json!({"command": format!("grep -rn handler src/module_{turn}")});
    let (mut messages, name) = (Vec::new(), model(api_format));
    let parameters = json!({"type": "object", "properties": {"command": {"type": "string"}}});
    match api_format {
        ApiFormat::Chat => {
            messages.push(json!({"role": "system", "content": "You are a programmer."}));
            messages.push(json!({"role": "user", "content": question}));
            for turn in 0..turns {
                let function = json!({"name": "bash", "arguments": command(turn).to_string()});
                let call = json!({"id": format!("call_{turn}"), "type": "function", "function": function});
                messages.push(json!({"role": "assistant", "content": null, "tool_calls": [call]}));
                messages.push(json!({"role": "tool", "tool_call_id": format!("call_{turn}"), "content": output(turn)}));
            }
            let tool = json!({"type": "function", "function": {"name": "bash", "parameters": parameters}});
            json!({"model": name, "tools": [tool], "messages": messages}).to_string()
        }
        ApiFormat::Messages => {
            messages.push(json!({"role": "user", "content": question}));
            for turn in 0..turns {
                let id = format!("toolu_{turn}");
                let call = json!({"type": "tool_use", "id": id, "name": "bash", "input": command(turn)});
                messages.push(json!({"role": "assistant", "content": [call]}));
                let result = json!({"type": "tool_result", "tool_use_id": id, "content": output(turn)});
                messages.push(json!({"role": "user", "content": [result]}));
            }
            let tool = json!({"name": "bash", "input_schema": parameters});
            let system = "You are a programmer.";
            json!({"model": name, "max_tokens": 500, "system": system, "tools": [tool], "messages": messages})
                .to_string()
        }
        ApiFormat::Responses => {
            messages.push(json!({"type": "message", "role": "user", "content": question}));
            for turn in 0..turns {
                let id = format!("call_{turn}");
                let arguments = command(turn).to_string();
                messages.push(json!({"type": "function_call", "call_id": id, "name": "bash", "arguments": arguments}));
                messages.push(json!({"type": "function_call_output", "call_id": id, "output": output(turn)}));
            }
            let tool = json!({"type": "function", "name": "bash", "parameters": parameters});
            json!({"model": name, "instructions": "You are a programmer.", "tools": [tool], "input": messages})
                .to_string()
        }
    }
}

fn compacted(session: &mut Session, body: &str) -> Compacted {
    session.compact(body).unwrap().expect("the request is over the threshold")
}

fn refusals(session: &Session, body: &str) -> Vec<Violation> {
    let violations = session.check(body).unwrap();
    violations.into_iter().filter(|violation| violation.severity == Severity::Error).collect()
}

#[test]
fn a_long_request_becomes_smaller_and_stays_valid_in_every_api_format() {
    for api_format in ApiFormat::ALL {
        let (mut session, body) = (session(api_format), request(api_format, 8));
        assert_eq!(refusals(&session, &body), [], "{api_format}");
        let smaller = compacted(&mut session, &body);
        assert!(smaller.body.len() < body.len() / 2, "{api_format}: {} bytes", smaller.body.len());
        assert_eq!(refusals(&session, &smaller.body), [], "{api_format}");
        assert_eq!(smaller.report.dialect, api_format);
        assert!(smaller.report.reached && !smaller.is_replay && smaller.originals.is_empty());
        assert_eq!(smaller.report.tokens.before, session.count_tokens(&body).unwrap());
        assert_eq!(smaller.report.tokens.after, session.count_tokens(&smaller.body).unwrap());
        assert!(smaller.report.tokens.warm < smaller.report.tokens.before);
    }
}

#[test]
fn a_short_request_stays_as_it_is_and_the_report_says_why() {
    let mut session = session(ApiFormat::Chat);
    assert_eq!(session.compact(&request(ApiFormat::Chat, 1)).unwrap(), None);
    let report = session.last_report().unwrap();
    assert!(!report.changed && report.reason.contains("threshold"), "{}", report.reason);
}

#[test]
fn a_longer_request_begins_with_the_bytes_of_the_one_before() {
    for api_format in ApiFormat::ALL {
        let mut session = session(api_format);
        let mut sent = compacted(&mut session, &request(api_format, 8));
        let mut compactions = 1;
        for turns in 9..30 {
            let next = compacted(&mut session, &request(api_format, turns));
            assert!(next.report.tokens.after < WINDOW, "{api_format}, {turns} turns: {}", next.report.tokens.after);
            assert_eq!(refusals(&session, &next.body), [], "{api_format}, {turns} turns");
            if next.is_replay {
                let prefix = sent.body.strip_suffix("]}").unwrap();
                assert!(next.body.starts_with(prefix), "{api_format}, {turns} turns");
            } else {
                compactions += 1;
            }
            sent = next;
        }
        assert!((2..12).contains(&compactions), "{api_format}: {compactions} compactions in 22 requests");
    }
}

#[test]
fn another_process_continues_with_the_ledger() {
    let mut session = session(ApiFormat::Chat);
    let first = compacted(&mut session, &request(ApiFormat::Chat, 8));
    let mut later = self::session(ApiFormat::Chat);
    later.load_ledger(&session.save_ledger()).unwrap();
    let again = compacted(&mut later, &request(ApiFormat::Chat, 8));
    assert!(again.is_replay);
    assert_eq!(again.body, first.body);
}

#[test]
fn undo_forgets_one_compaction() {
    let (mut session, body) = (session(ApiFormat::Chat), request(ApiFormat::Chat, 8));
    let empty = session.save_ledger();
    assert!(!session.undo(), "there is nothing to undo yet");
    let first = compacted(&mut session, &body);
    let ledger = session.save_ledger();
    let options = Options::new().target_tokens(Tokens(first.report.tokens.after.number() - 200));
    let second = session.compact_with(&body, &options).unwrap().unwrap();
    assert!(second.report.tokens.after < first.report.tokens.after);
    assert!(session.undo());
    assert_eq!(session.save_ledger(), ledger);
    assert_eq!(compacted(&mut session, &body).body, first.body);
    assert!(session.undo());
    assert_eq!(session.save_ledger(), empty);
}

#[test]
fn originals_have_the_recall_ids_of_the_report() {
    let mut session = Session::new("gpt-5").with_originals(KEY);
    let options = Options::new().target_tokens(Tokens(1_000));
    let smaller = session.compact_with(EXAMPLE, &options).unwrap().unwrap();
    let sent: Value = serde_json::from_str(EXAMPLE).unwrap();
    let results = smaller.originals.iter().filter(|original| original.kind == ContentKind::Result);
    for original in results.clone() {
        assert_eq!(sent["messages"][original.message]["content"], json!(original.text));
        assert!(smaller.report.blocks.iter().any(|block| block.handle.as_ref() == Some(&original.recall_id)));
        assert_eq!(original.tool.as_deref(), Some("bash"));
    }
    assert!(results.filter(|original| smaller.body.contains(&original.recall_id)).count() > 4, "the model can recall");
    let again = session.compact(EXAMPLE).unwrap().unwrap();
    assert!(again.is_replay && again.originals.is_empty(), "they are returned once");
}

#[test]
fn the_options_of_a_call_apply() {
    let body = request(ApiFormat::Chat, 8);
    let mut session = Session::new("gpt-5");
    assert_eq!(session.compact(&body).unwrap(), None, "gpt-5 has a large window");
    let smaller = session.compact_with(&body, &Options::new().target_tokens(Tokens(2_000))).unwrap().unwrap();
    assert!(smaller.report.reached && smaller.report.tokens.after <= Tokens(2_000));

    let impossible = Session::new("gpt-5").compact_with(&body, &Options::new().target_tokens(Tokens(10)));
    assert!(!impossible.unwrap().unwrap().report.reached);

    let last = serde_json::from_str::<Value>(&body).unwrap()["messages"].as_array().unwrap().len() - 2;
    let kept = Session::new("gpt-5").compact_with(&body, &Options::new().keep_from(last)).unwrap().unwrap();
    assert!(kept.body.contains("file_59.rs") && kept.report.tokens.after < smaller.report.tokens.before);

    let focused = Options::new().force().focus("module_3");
    let focused = Session::new("gpt-5").compact_with(&body, &focused).unwrap();
    assert!(focused.is_none_or(|focused| focused.report.focus.as_deref() == Some("module_3")));
}

#[test]
fn a_model_may_write_the_summary() {
    let mut session = Session::new("gpt-5").with_originals(KEY).with_redaction_rule("port", "port 8484");
    assert!(session.request_summary(EXAMPLE, &Options::new()).unwrap().is_none(), "nothing is compacted");
    let options = Options::new().target_tokens(Tokens(800));
    let mut request = session.request_summary(EXAMPLE, &options).unwrap().expect("turns are summarized");
    let mut prompts = 0;
    while let Some(prompt) = request.next_prompt() {
        assert!(prompt.max_reply_tokens > Tokens::ZERO && prompt.system.len() > 100);
        assert!(!prompt.user.contains("port 8484"), "secrets are redacted");
        request.add_reply(
            "## Completed Actions\n1. RUN cargo build — exit 101: mismatched types\n2. RUN cargo test — exit 101: 59 passed; 1 failed\n",
        );
        prompts += 1;
    }
    assert_eq!(prompts, 1);
    let smaller = session.compact_with(EXAMPLE, &options.summary_by_model(request)).unwrap().unwrap();
    assert_eq!(smaller.report.checkpoint.unwrap().by, WrittenBy::Model, "{:?}", smaller.report.notes);
    assert_eq!(refusals(&session, &smaller.body), []);
}

#[test]
fn a_function_of_the_caller_may_decide() {
    let body = request(ApiFormat::Chat, 8);
    let mut session = session(ApiFormat::Chat).with_engine("first-lines", |input| {
        let blocks = input.messages.iter().flat_map(|message| message.blocks.iter().map(move |block| (message, block)));
        let long = blocks.filter(|(_, block)| block.editable && block.tokens > Tokens(100));
        let shorten = long.map(|(message, block)| {
            let text = block.text.as_str().lines().next().unwrap_or_default().to_owned();
            ShorterText { message: message.index, block: block.index, text }
        });
        Ok(Proposal { shorten: shorten.collect(), ..Proposal::default() })
    });
    let smaller = compacted(&mut session, &body);
    assert_eq!(smaller.report.engine.name(), "first-lines");
    assert!(smaller.body.contains("src/module_0/file_0.rs") && !smaller.body.contains("src/module_0/file_9.rs"));
    assert_eq!(refusals(&session, &smaller.body), []);

    let mut failing = self::session(ApiFormat::Chat).with_engine("broken", |_| Err("no idea".to_owned()));
    let smaller = compacted(&mut failing, &body);
    assert!(smaller.report.notes.iter().any(|note| note.contains("no idea")), "{:?}", smaller.report.notes);
}

#[test]
fn cache_breakpoints_are_set_and_valid() {
    let mut session = Session::new("claude-sonnet-4-5");
    let body = request(ApiFormat::Messages, 8);
    let marked = session.set_cache_breakpoints(&body).unwrap();
    assert!(marked.contains("cache_control") && !body.contains("cache_control"));
    assert_eq!(refusals(&session, &marked), []);
}

#[test]
fn texts_are_redacted_and_shortened() {
    let secret = "password=hunter2-correct-horse";
    assert!(!redact_text(secret).contains("hunter2"));
    let session = Session::new("gpt-5").with_originals(KEY).with_redaction_rule("ticket", "TICKET-[0-9]+");
    assert_eq!(session.redact("see TICKET-12").unwrap(), session.redact("see TICKET-12").unwrap());
    assert!(!session.redact("see TICKET-12").unwrap().contains("TICKET-12"));
    let short = digest_tool_output(&output(1), Some("bash"), Some(r#"{"command": "ls"}"#), Some(Tokens(80)));
    assert!(short.len() < output(1).len() / 3, "{short}");
}

#[test]
fn errors_say_what_is_wrong() {
    let error = |result: Result<Option<Compacted>, Error>| result.unwrap_err();
    assert!(matches!(error(Session::new("gpt-5").compact("not JSON")), Error::InvalidBody(_)));
    let narrow = error(Session::new("gpt-5").with_context_length(Tokens(10)).compact("{}"));
    assert!(matches!(&narrow, Error::InvalidOption(text) if text.contains("context_length")), "{narrow}");
    let threshold = error(Session::new("gpt-5").with_threshold(3.0).compact("{}"));
    assert!(matches!(&threshold, Error::InvalidOption(text) if text.contains("threshold")), "{threshold}");
    let rule = Session::new("gpt-5").with_redaction_rule("x", "(").redact("").unwrap_err();
    assert!(matches!(rule, Error::InvalidOption(_)), "{rule}");
    assert!(matches!(Session::new("gpt-5").load_ledger("[]").unwrap_err(), Error::InvalidLedger(_)));
    let strange = Session::new("gpt-5").compact("[1, 2]").unwrap();
    assert_eq!(strange, None, "a body that is not a request stays as it is");
}
