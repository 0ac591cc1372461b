//! What must hold of the view whatever was compacted, in each dialect.

use longhaul_engine::cache::Route;
use longhaul_engine::known::Known;
use longhaul_engine::ledger::Ledger;
use longhaul_engine::plan::{Engine, Engines, Handles, Keep, Outcome, Plan, What, Wish};
use longhaul_engine::policy::{Config, EngineName, Policy};
use longhaul_engine::redact::{Redactor, Rules};
use longhaul_engine::{Dialect, models, wire};
use serde_json::{Value, json};

use super::*;
use crate::pages::Fate;

const DIALECTS: [Dialect; 3] = [Dialect::Chat, Dialect::Messages, Dialect::Responses];

/// What a hostile transcript would like to do to the page.
const HOSTILE: &str = "</div><script>alert(1)</script><img src=x onerror=alert(2)>\u{202e}{{7*7}}<style>*{display:none}</style>";

/// A session of so many steps, each with a command and what it printed.
fn session(dialect: Dialect, steps: usize) -> String {
    let output = |step: usize| {
        format!("{}{HOSTILE}", format!("line of step {step} in src/file{step}.rs\n").repeat(60))
    };
    // Every other step changes a file, which a handover says a line about.
    let tool = |step: usize| if step.is_multiple_of(2) { "bash" } else { "Edit" };
    let command = |step: usize| match tool(step) {
        "bash" => json!({"command": format!("cargo test --package part{step} {HOSTILE}")}),
        _ => {
            json!({"file_path": format!("src/file{step}.rs"), "old_string": format!("let old = {step};"), "new_string": format!("let new = {step};")})
        }
    };
    let ask = format!("Build the parser of the configuration. {HOSTILE}");
    match dialect {
        Dialect::Chat => {
            let mut messages = vec![
                json!({"role": "system", "content": "Be brief."}),
                json!({"role": "user", "content": ask}),
            ];
            for step in 0..steps {
                let call = json!({"id": format!("c{step}"), "type": "function", "function": {"name": tool(step), "arguments": command(step).to_string()}});
                messages.push(json!({"role": "assistant", "content": format!("Now step {step} of the work."), "tool_calls": [call]}));
                messages.push(
                    json!({"role": "tool", "tool_call_id": format!("c{step}"), "content": output(step)}),
                );
            }
            json!({"model": "gpt-5", "messages": messages}).to_string()
        }
        Dialect::Messages => {
            let mut messages = vec![json!({"role": "user", "content": ask})];
            for step in 0..steps {
                let call = json!({"type": "tool_use", "id": format!("c{step}"), "name": tool(step), "input": command(step)});
                let said = json!({"type": "text", "text": format!("Now step {step} of the work.")});
                messages.push(json!({"role": "assistant", "content": [said, call]}));
                let result = json!({"type": "tool_result", "tool_use_id": format!("c{step}"), "content": output(step)});
                messages.push(json!({"role": "user", "content": [result]}));
            }
            json!({"model": "claude-sonnet-4-5", "max_tokens": 100, "system": "Be brief.", "messages": messages}).to_string()
        }
        Dialect::Responses => {
            let mut input = vec![json!({"role": "user", "content": ask})];
            for step in 0..steps {
                let id = format!("c{step}");
                input.push(json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": format!("Now step {step} of the work.")}]}));
                input.push(json!({"type": "function_call", "call_id": id, "name": tool(step), "arguments": command(step).to_string()}));
                input.push(json!({"type": "function_call_output", "call_id": id, "output": output(step)}));
            }
            json!({"model": "gpt-5", "instructions": "Be brief.", "input": input}).to_string()
        }
    }
}

/// What the engine makes of a body, and the view of it.
fn compacted(body: &str, dialect: Dialect, engine: &EngineName, wish: &Wish) -> (Outcome, Compaction) {
    let mut config = Config::default();
    config.context.engine = engine.clone();
    let (transcript, _) = wire::parse(dialect, body).unwrap();
    let model = models::find("claude-sonnet-4-5");
    let (policy, _) = Policy::new(&config, &model).unwrap();
    let known = &mut Known::default();
    let engine = Engines::default().of(engine);
    let planned = engine.plan(&policy, wish, &Ledger::default(), known, &transcript).unwrap();
    let Plan::Ready(outcome) = planned else { panic!("nothing was compacted") };
    let sides = Sides {
        before: body,
        after: &outcome.body,
        dialect: Some(dialect),
        account: Account::of(&outcome.report).unwrap(),
        model: &policy.model,
        route: Route::Automatic,
        status: String::new(),
    };
    let mut secrets = Secrets::Out(Box::new(Redactor::numbered(Rules::default())));
    let compaction = Compaction::of(sides, &mut secrets, known).unwrap();
    (outcome, compaction)
}

fn small(tokens: u64) -> Wish {
    Wish { force: true, to_tokens: Some(longhaul_engine::Tokens(tokens)), ..Wish::default() }
}

#[test]
fn what_an_earlier_compaction_folded_is_folded_still() {
    let body = session(Dialect::Chat, 60);
    let (outcome, seen) = compacted(&body, Dialect::Chat, &EngineName::COMPRESSOR, &small(9_000));
    assert!(seen.blocks(Fate::Folded) > 0);
    // A later one only digests something, and its report knows of no checkpoint.
    let account = Account { checkpoint: None, ..Account::of(&outcome.report).unwrap() };
    let model = models::find("claude-sonnet-4-5");
    let sides = Sides {
        before: &body,
        after: &outcome.body,
        dialect: Some(Dialect::Chat),
        account,
        model: &model,
        route: Route::Automatic,
        status: String::new(),
    };
    let mut secrets = Secrets::Out(Box::new(Redactor::numbered(Rules::default())));
    let later = Compaction::of(sides, &mut secrets, &mut Known::default()).unwrap();
    assert_eq!(later.blocks(Fate::Folded), seen.blocks(Fate::Folded));
    assert!(later.checkpoint.unwrap().tokens > 0);
    assert_eq!(later.parts[0].system, later.parts[1].system, "nobody touched the system prompt");
}

#[test]
fn what_the_bodies_show_is_what_the_report_says() {
    for dialect in DIALECTS {
        for engine in Engines::default().all().map(Engine::name) {
            let body = session(dialect, 60);
            let (outcome, seen) = compacted(&body, dialect, &engine, &small(9_000));
            let digested = seen.account.blocks.iter().filter(|block| block.fate == "digested").count();
            assert_eq!(seen.blocks(Fate::Digested), digested, "{dialect} {engine:?}");
            let gone = seen.account.blocks.len() - digested;
            assert_eq!(seen.blocks(Fate::Folded) + seen.blocks(Fate::Removed), gone, "{dialect} {engine:?}");
            let pieces = seen.messages.iter().flat_map(|message| &message.pieces);
            for piece in pieces.filter(|piece| piece.fate != Fate::Kept) {
                assert!(piece.why.is_some(), "{dialect} {engine:?}: {piece:?}");
                assert_eq!(
                    piece.fate == Fate::Folded,
                    piece.carried_by.is_some(),
                    "{dialect} {engine:?}: {piece:?}"
                );
            }
            let after = seen.messages.iter().filter_map(|message| message.after);
            assert!(after.is_sorted(), "{dialect} {engine:?}");
            assert_eq!(seen.parts[1].total(), outcome.report.tokens.after, "{dialect} {engine:?}");
        }
    }
}

#[test]
fn nothing_of_a_transcript_becomes_markup() {
    for dialect in DIALECTS {
        let (_, seen) = compacted(&session(dialect, 60), dialect, &EngineName::COMPRESSOR, &small(9_000));
        let page = view(&seen, Reader::default()).into_string();
        for markup in ["<script", "<img", "<style", " style=", "\u{202e}"] {
            assert!(!page.contains(markup), "{dialect}: {markup}");
        }
        assert!(page.contains("&lt;script&gt;alert(1)"), "{dialect}: the text is shown");
    }
}

#[test]
fn a_folded_step_leads_to_the_line_that_speaks_for_it() {
    for dialect in DIALECTS {
        let (_, seen) = compacted(&session(dialect, 60), dialect, &EngineName::COMPRESSOR, &small(9_000));
        let made = seen.checkpoint.as_ref().unwrap_or_else(|| panic!("{dialect}: no checkpoint"));
        let pieces = || seen.messages.iter().flat_map(|message| &message.pieces);
        let mut lines = 0;
        let calls = pieces().filter(|piece| piece.fate == Fate::Folded && piece.what == What::Call);
        for piece in calls.filter(|piece| piece.tool.as_deref() == Some("Edit")) {
            let item = &made.items[piece.carried_by.unwrap()];
            if let Some((_, path)) = item.text.split_once("EDIT ") {
                let path = path.split(' ').next().unwrap();
                assert!(piece.before.contains(path), "{dialect}: {} for {}", item.text, piece.before);
                lines += 1;
            }
        }
        assert!(lines > 4, "{dialect}: {lines}, {made:?}");
        let page = view(&seen, Reader::default()).into_string();
        for target in page.split("href=\"#").skip(1).filter_map(|rest| rest.split('"').next()) {
            assert!(page.contains(&format!("id=\"{target}\"")), "{dialect}: nothing has the id {target}");
        }
    }
}

#[test]
fn a_handle_leads_to_its_line_and_to_its_original() {
    let body = session(Dialect::Messages, 60);
    let key = longhaul_engine::redact::SessionKey::new([7; 32]);
    let keep = Keep::Originals(Handles::new(key));
    let (_, seen) =
        compacted(&body, Dialect::Messages, &EngineName::COMPRESSOR, &Wish { keep, ..small(9_000) });
    let made = seen.checkpoint.as_ref().unwrap();
    let mut named = 0;
    for piece in
        seen.messages.iter().flat_map(|message| &message.pieces).filter(|piece| piece.fate == Fate::Folded)
    {
        let handle = piece.handle.as_deref().unwrap();
        if let Some(at) = made.items.iter().position(|item| item.text.contains(&format!("recall {handle}"))) {
            assert_eq!(piece.carried_by, Some(at));
            named += 1;
        }
    }
    assert!(named > 0);
    let address = |handle: &str| format!("/recall/{handle}");
    let page = view(&seen, Reader { recall: Some(&address) }).into_string();
    assert!(page.contains("href=\"/recall/"), "originals are linked");
}

#[test]
fn secrets_are_not_shown() {
    let secret = ["sk-ant-api03-", &"Ab3dEf6hIj9kLm2n".repeat(5), "AA"].concat();
    let body =
        session(Dialect::Chat, 60).replace("line of step 50 ", &format!("ANTHROPIC_API_KEY={secret} "));
    let (_, seen) = compacted(&body, Dialect::Chat, &EngineName::COMPRESSOR, &small(9_000));
    assert!(body.contains(&secret) && !view(&seen, Reader::default()).into_string().contains(&secret));
}

#[test]
fn a_report_of_another_body_says_nothing_false() {
    let body = session(Dialect::Chat, 60);
    let (outcome, seen) = compacted(&body, Dialect::Chat, &EngineName::COMPRESSOR, &small(9_000));
    let mut report: Value = serde_json::to_value(&outcome.report).unwrap();
    report["blocks"] = json!([]);
    let sides = Sides {
        before: &body,
        after: &outcome.body,
        dialect: None,
        account: Account::read(&report).unwrap(),
        model: &models::find("gpt-5"),
        route: Route::Automatic,
        status: String::new(),
    };
    let blank = Compaction::of(sides, &mut Secrets::AsTheyStand, &mut Known::default()).unwrap();
    for fate in Fate::ALL {
        assert_eq!(
            (blank.blocks(fate), blank.count(fate)),
            (seen.blocks(fate), seen.count(fate)),
            "{}",
            fate.name()
        );
    }
    let unreadable = Sides {
        before: "{",
        after: "{",
        dialect: None,
        account: blank.account,
        model: &models::find("gpt-5"),
        route: Route::Automatic,
        status: String::new(),
    };
    assert!(Compaction::of(unreadable, &mut Secrets::AsTheyStand, &mut Known::default()).is_none());
}
