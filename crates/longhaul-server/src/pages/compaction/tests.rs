//! Properties of the view that must be true for every compaction, in each API format.

use longhaul_engine::block_cache::BlockCache;
use longhaul_engine::cache::CachingMode;
use longhaul_engine::ledger::Ledger;
use longhaul_engine::plan::{
    CompactOptions, CompactedRequest, ContentKind, Engine, EngineRegistry, Originals, Plan, PlanInput, RecallIds,
};
use longhaul_engine::policy::{Config, EngineName, Policy};
use longhaul_engine::redact::{Redactor, Rules};
use longhaul_engine::{ApiFormat, models, wire};
use serde_json::{Value, json};

use super::*;
use crate::pages::Fate;

const API_FORMATS: [ApiFormat; 3] = [ApiFormat::Chat, ApiFormat::Messages, ApiFormat::Responses];

/// A text that tries to inject markup into the page.
const HOSTILE: &str =
    "</div><script>alert(1)</script><img src=x onerror=alert(2)>\u{202e}{{7*7}}<style>*{display:none}</style>";

/// Returns a session of `steps` turns, each with a tool call and its output.
fn session(api_format: ApiFormat, steps: usize) -> String {
    let output = |step: usize| format!("{}{HOSTILE}", format!("line of step {step} in src/file{step}.rs\n").repeat(60));
    // Every other turn changes a file, and the checkpoint has a line for each change.
    let tool = |step: usize| if step.is_multiple_of(2) { "bash" } else { "Edit" };
    let command = |step: usize| match tool(step) {
        "bash" => json!({"command": format!("cargo test --package part{step} {HOSTILE}")}),
        _ => {
            json!({"file_path": format!("src/file{step}.rs"), "old_string": format!("let old = {step};"), "new_string": format!("let new = {step};")})
        }
    };
    let ask = format!("Build the parser of the configuration. {HOSTILE}");
    match api_format {
        ApiFormat::Chat => {
            let mut messages =
                vec![json!({"role": "system", "content": "Be brief."}), json!({"role": "user", "content": ask})];
            for step in 0..steps {
                let call = json!({"id": format!("c{step}"), "type": "function", "function": {"name": tool(step), "arguments": command(step).to_string()}});
                messages.push(json!({"role": "assistant", "content": format!("Now step {step} of the work."), "tool_calls": [call]}));
                messages.push(json!({"role": "tool", "tool_call_id": format!("c{step}"), "content": output(step)}));
            }
            json!({"model": "gpt-5", "messages": messages}).to_string()
        }
        ApiFormat::Messages => {
            let mut messages = vec![json!({"role": "user", "content": ask})];
            for step in 0..steps {
                let call =
                    json!({"type": "tool_use", "id": format!("c{step}"), "name": tool(step), "input": command(step)});
                let said = json!({"type": "text", "text": format!("Now step {step} of the work.")});
                messages.push(json!({"role": "assistant", "content": [said, call]}));
                let result = json!({"type": "tool_result", "tool_use_id": format!("c{step}"), "content": output(step)});
                messages.push(json!({"role": "user", "content": [result]}));
            }
            json!({"model": "claude-sonnet-4-5", "max_tokens": 100, "system": "Be brief.", "messages": messages})
                .to_string()
        }
        ApiFormat::Responses => {
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

/// Compacts a request, and returns the result with its view.
fn compact(
    body: &str,
    api_format: ApiFormat,
    engine: &EngineName,
    options: &CompactOptions,
) -> (CompactedRequest, CompactionView) {
    let mut config = Config::default();
    config.context.engine = engine.clone();
    let (transcript, _) = wire::parse(api_format, body).unwrap();
    let model = models::find("claude-sonnet-4-5");
    let (policy, _) = Policy::new(&config, &model).unwrap();
    let cache = &mut BlockCache::default();
    let engine = EngineRegistry::default().find_or_compressor(engine);
    let planned = engine
        .plan(&Ledger::default(), PlanInput { policy: &policy, options, cache, transcript: &transcript })
        .unwrap();
    let Plan::Ready(outcome) = planned else { panic!("nothing was compacted") };
    let sides = CompactionInput {
        before: body,
        after: &outcome.body,
        api_format: Some(api_format),
        report: ParsedReport::from_report(&outcome.report).unwrap(),
        model: &policy.model,
        caching_mode: CachingMode::Automatic,
        caching_status: String::new(),
    };
    let mut secrets = SecretHandling::Redact(Box::new(Redactor::numbered(Rules::default())));
    let compaction = CompactionView::new(sides, &mut secrets, cache).unwrap();
    (outcome, compaction)
}

fn options_for_size(tokens: u64) -> CompactOptions {
    CompactOptions { force: true, to_tokens: Some(longhaul_engine::Tokens(tokens)), ..CompactOptions::default() }
}

#[test]
fn blocks_summarized_by_an_earlier_compaction_stay_summarized() {
    let body = session(ApiFormat::Chat, 60);
    let (outcome, seen) = compact(&body, ApiFormat::Chat, &EngineName::COMPRESSOR, &options_for_size(9_000));
    assert!(seen.count_blocks(Fate::Summarized) > 0);
    // A later compaction only shortens something, so its report has no checkpoint.
    let account = ParsedReport { checkpoint: None, ..ParsedReport::from_report(&outcome.report).unwrap() };
    let model = models::find("claude-sonnet-4-5");
    let sides = CompactionInput {
        before: &body,
        after: &outcome.body,
        api_format: Some(ApiFormat::Chat),
        report: account,
        model: &model,
        caching_mode: CachingMode::Automatic,
        caching_status: String::new(),
    };
    let mut secrets = SecretHandling::Redact(Box::new(Redactor::numbered(Rules::default())));
    let later = CompactionView::new(sides, &mut secrets, &mut BlockCache::default()).unwrap();
    assert_eq!(later.count_blocks(Fate::Summarized), seen.count_blocks(Fate::Summarized));
    assert!(later.checkpoint.unwrap().tokens > 0);
    assert_eq!(later.token_breakdowns[0].system, later.token_breakdowns[1].system, "nobody touched the system prompt");
}

#[test]
fn the_view_agrees_with_the_report() {
    for api_format in API_FORMATS {
        for engine in EngineRegistry::default().all().map(Engine::name) {
            let body = session(api_format, 60);
            let (outcome, seen) = compact(&body, api_format, &engine, &options_for_size(9_000));
            let digested = seen.report.blocks.iter().filter(|block| block.fate == "digested").count();
            assert_eq!(seen.count_blocks(Fate::Shortened), digested, "{api_format} {engine:?}");
            let gone = seen.report.blocks.len() - digested;
            assert_eq!(
                seen.count_blocks(Fate::Summarized) + seen.count_blocks(Fate::Removed),
                gone,
                "{api_format} {engine:?}"
            );
            let pieces = seen.messages.iter().flat_map(|message| &message.blocks);
            for piece in pieces.filter(|piece| piece.fate != Fate::Kept) {
                assert!(piece.reason.is_some(), "{api_format} {engine:?}: {piece:?}");
                assert_eq!(
                    piece.fate == Fate::Summarized,
                    piece.checkpoint_item.is_some(),
                    "{api_format} {engine:?}: {piece:?}"
                );
            }
            let after = seen.messages.iter().filter_map(|message| message.after);
            assert!(after.is_sorted(), "{api_format} {engine:?}");
            assert_eq!(seen.token_breakdowns[1].total(), outcome.report.tokens.after, "{api_format} {engine:?}");
        }
    }
}

#[test]
fn text_of_a_transcript_never_becomes_markup() {
    for api_format in API_FORMATS {
        let (_, seen) =
            compact(&session(api_format, 60), api_format, &EngineName::COMPRESSOR, &options_for_size(9_000));
        let page = compaction_view(&seen, RenderOptions::default()).into_string();
        for markup in ["<script", "<img", "<style", " style=", "\u{202e}"] {
            assert!(!page.contains(markup), "{api_format}: {markup}");
        }
        assert!(page.contains("&lt;script&gt;alert(1)"), "{api_format}: the text is shown");
    }
}

#[test]
fn a_summarized_turn_links_to_its_checkpoint_line() {
    for api_format in API_FORMATS {
        let (_, seen) =
            compact(&session(api_format, 60), api_format, &EngineName::COMPRESSOR, &options_for_size(9_000));
        let made = seen.checkpoint.as_ref().unwrap_or_else(|| panic!("{api_format}: no checkpoint"));
        let pieces = || seen.messages.iter().flat_map(|message| &message.blocks);
        let mut lines = 0;
        let calls = pieces().filter(|piece| piece.fate == Fate::Summarized && piece.kind == ContentKind::Call);
        for piece in calls.filter(|piece| piece.tool.as_deref() == Some("Edit")) {
            let item = &made.items[piece.checkpoint_item.unwrap()];
            if let Some((_, path)) = item.text.split_once("EDIT ") {
                let path = path.split(' ').next().unwrap();
                assert!(piece.before.contains(path), "{api_format}: {} for {}", item.text, piece.before);
                lines += 1;
            }
        }
        assert!(lines > 4, "{api_format}: {lines}, {made:?}");
        let page = compaction_view(&seen, RenderOptions::default()).into_string();
        for target in page.split("href=\"#").skip(1).filter_map(|rest| rest.split('"').next()) {
            assert!(page.contains(&format!("id=\"{target}\"")), "{api_format}: nothing has the id {target}");
        }
    }
}

#[test]
fn a_recall_id_links_to_its_line_and_its_original() {
    let body = session(ApiFormat::Messages, 60);
    let key = longhaul_engine::redact::SessionKey::new([7; 32]);
    let keep = Originals::Stored(RecallIds::new(key));
    let (_, seen) = compact(
        &body,
        ApiFormat::Messages,
        &EngineName::COMPRESSOR,
        &CompactOptions { originals: keep, ..options_for_size(9_000) },
    );
    let made = seen.checkpoint.as_ref().unwrap();
    let mut named = 0;
    for piece in seen.messages.iter().flat_map(|message| &message.blocks).filter(|piece| piece.fate == Fate::Summarized)
    {
        let recall_id = piece.recall_id.as_deref().unwrap();
        if let Some(at) = made.items.iter().position(|item| item.text.contains(&format!("recall {recall_id}"))) {
            assert_eq!(piece.checkpoint_item, Some(at));
            named += 1;
        }
    }
    assert!(named > 0);
    let address = |recall_id: &str| format!("/recall/{recall_id}");
    let page = compaction_view(&seen, RenderOptions { recall_url: Some(&address) }).into_string();
    assert!(page.contains("href=\"/recall/"), "originals are linked");
}

#[test]
fn secrets_are_not_shown() {
    let secret = ["sk-ant-api03-", &"Ab3dEf6hIj9kLm2n".repeat(5), "AA"].concat();
    let body = session(ApiFormat::Chat, 60).replace("line of step 50 ", &format!("ANTHROPIC_API_KEY={secret} "));
    let (_, seen) = compact(&body, ApiFormat::Chat, &EngineName::COMPRESSOR, &options_for_size(9_000));
    assert!(
        body.contains(&secret) && !compaction_view(&seen, RenderOptions::default()).into_string().contains(&secret)
    );
}

#[test]
fn a_report_of_another_request_adds_nothing_false() {
    let body = session(ApiFormat::Chat, 60);
    let (outcome, seen) = compact(&body, ApiFormat::Chat, &EngineName::COMPRESSOR, &options_for_size(9_000));
    let mut report: Value = serde_json::to_value(&outcome.report).unwrap();
    report["blocks"] = json!([]);
    let sides = CompactionInput {
        before: &body,
        after: &outcome.body,
        api_format: None,
        report: ParsedReport::from_json(&report).unwrap(),
        model: &models::find("gpt-5"),
        caching_mode: CachingMode::Automatic,
        caching_status: String::new(),
    };
    let blank = CompactionView::new(sides, &mut SecretHandling::Keep, &mut BlockCache::default()).unwrap();
    for fate in Fate::ALL {
        assert_eq!(
            (blank.count_blocks(fate), blank.count_messages(fate)),
            (seen.count_blocks(fate), seen.count_messages(fate)),
            "{}",
            fate.name()
        );
    }
    let unreadable = CompactionInput {
        before: "{",
        after: "{",
        api_format: None,
        report: blank.report,
        model: &models::find("gpt-5"),
        caching_mode: CachingMode::Automatic,
        caching_status: String::new(),
    };
    assert!(CompactionView::new(unreadable, &mut SecretHandling::Keep, &mut BlockCache::default()).is_none());
}
