//! What the tools answer.

use longhaul_engine::ApiFormat;
use longhaul_server::recall::{RecallScope, RecallTool};
use serde_json::json;

use super::speech::{DIALECTS, bash, body, handles_in, long_session, record, reply, steps, user};
use super::{ask, compacted};

/// No page is longer, in characters.
const MOST: usize = 20_000;

#[test]
fn the_definitions_are_small_and_named_as_they_are_called() {
    let all: Vec<_> = RecallTool::ALL
        .into_iter()
        .map(|tool| json!({"name": tool.name(), "description": tool.description(), "input_schema": tool.schema()}))
        .collect();
    let text = serde_json::to_string(&all).unwrap();
    let tokens = tiktoken::get_encoding("o200k_base").unwrap().encode(&text).len();
    assert!(tokens < 350, "{tokens} tokens: they go with every request");
    for tool in RecallTool::ALL {
        assert_eq!(RecallTool::from_name(tool.name()), Some(tool));
        assert_eq!(tool.schema()["additionalProperties"], json!(false));
    }
    assert_eq!(RecallTool::from_name("recall"), None);
}

#[tokio::test]
async fn what_was_removed_is_found_and_opened_word_for_word() {
    for api_format in DIALECTS {
        let (reach, outcome) = compacted(api_format, &long_session(), 2_000).await;
        let sought = "error: mismatched types in step 3";
        let original = outcome.originals.iter().find(|original| original.text.contains(sought)).unwrap();
        assert!(!outcome.body.contains("compiling unit 3_7"), "{api_format:?}");

        let found = ask(&reach, RecallTool::Search, json!({"query": sought, "limit": "3"})).await;
        assert!(found.starts_with("Quoted from earlier"), "{found}");
        assert!(found.contains(&format!("1. {}: result of bash, message ", original.recall_id)), "{found}");
        assert!(found.contains("same turn: call ") && found.contains(sought), "{found}");

        let opened = ask(&reach, RecallTool::Open, json!({"recall_id": original.recall_id})).await;
        assert!(opened.starts_with("Quoted from earlier"), "{opened}");
        assert!(opened.ends_with(&format!("All that follows is the quotation:\n\n{}", original.text)), "{opened}");
        assert!(opened.contains("Before it: ") && opened.contains("After it: "), "{opened}");

        // As the texts that we write name it.
        for handle in handles_in(&outcome.body) {
            ask(&reach, RecallTool::Open, json!({"recall_id": format!("recall {handle}")})).await;
        }
    }
}

#[tokio::test]
async fn what_asks_for_it_may_stand_far_behind_the_first_words_of_a_query() {
    let (reach, outcome) = compacted(ApiFormat::Chat, &long_session(), 2_000).await;
    let sought = "error: mismatched types in step 3";
    let original = outcome.originals.iter().find(|original| original.text.contains(sought)).unwrap();
    let query = format!("{}{sought}", "Let me go on and see what is there. ".repeat(100));
    let found = ask(&reach, RecallTool::Search, json!({"query": query})).await;
    // The words in front ask for something too, and find it.
    assert!(found.contains(&format!("{}: result of bash", original.recall_id)), "{found}");
}

#[tokio::test]
async fn what_still_stands_in_view_is_said_to() {
    let (reach, _) = compacted(ApiFormat::Chat, &long_session(), 2_000).await;
    let found = ask(&reach, RecallTool::Search, json!({"query": "The build is green."})).await;
    let line = found.lines().find(|line| line.contains(": reply")).unwrap();
    assert!(line.contains("[still in your context]"), "{found}");
    let removed = ask(&reach, RecallTool::Search, json!({"query": "compiling unit 2_11"})).await;
    assert!(!removed.lines().find(|line| line.starts_with("1. ")).unwrap().contains("[still"), "{removed}");
    let nothing = ask(&reach, RecallTool::Search, json!({"query": "zzzunseen"})).await;
    assert!(nothing.starts_with("Nothing in this session matches 'zzzunseen'"), "{nothing}");
}

#[tokio::test]
async fn a_long_block_comes_in_pages_that_join_to_the_whole() {
    let mut turns = long_session();
    let long: String = (0..3_000).map(|n| format!("строка {n} — the log goes on\n")).collect();
    turns.insert(2, bash("cat log", &long));
    let (reach, outcome) = compacted(ApiFormat::Messages, &turns, 2_000).await;
    let original = outcome.originals.iter().find(|original| original.text == long).unwrap();
    let (mut joined, mut from) = (String::new(), 0);
    loop {
        let page = ask(&reach, RecallTool::Open, json!({"recall_id": original.recall_id, "from": from})).await;
        assert!(page.chars().count() < MOST);
        let (head, text) = page.split_once("All that follows is the quotation:\n\n").unwrap();
        joined.push_str(text);
        let count = long.chars().count();
        assert!(head.contains(&format!(" of {count}")), "{head}");
        let Some((_, next)) = head.split_once("open again with from: ") else { break };
        from = next.split(' ').next().unwrap().parse().unwrap();
        assert_eq!(from, joined.chars().count());
    }
    assert_eq!(joined, long);
    let past = reach.call(RecallTool::Open, &json!({"recall_id": original.recall_id, "from": 10_000_000})).await;
    assert!(past.is_error && past.text.contains("there is nothing from 10000000 on"), "{}", past.text);
}

#[tokio::test]
async fn a_short_session_is_outlined_step_by_step() {
    for api_format in DIALECTS {
        let (reach, outcome) = compacted(api_format, &long_session(), 2_000).await;
        let outline = ask(&reach, RecallTool::Outline, json!({})).await;
        assert!(outline.starts_with("This session turn by turn, quoted"), "{outline}");
        assert!(outline.contains("user: Make the build green. Never touch the tests."), "{outline}");
        assert!(outline.contains("-- compaction 1, before message "), "{outline}");
        assert!(outline.contains(&format!("tokens became {}", outcome.report.tokens.after.number())), "{outline}");
        for step in 0..12 {
            let line = outline.lines().find(|line| line.contains(&format!("make target{step}\""))).unwrap();
            assert!(line.contains("bash ") && line.contains(" -> compiling unit"), "{line}");
        }
        let last = outline.lines().find(|line| line.contains("Go on with the next one.")).unwrap();
        assert!(last.ends_with("[still in your context]"), "{last}");
        assert!(!outline.lines().find(|line| line.contains("make target0\"")).unwrap().contains("[still"));
        opens_all_of(&reach, &outline).await;
    }
}

/// Every handle of an outline leads somewhere.
async fn opens_all_of(reach: &RecallScope, outline: &str) {
    let recall_id = regex::Regex::new(r"\(([0-9a-z]{10})\)").unwrap();
    let mut count = 0;
    for found in recall_id.captures_iter(outline) {
        ask(reach, RecallTool::Open, json!({"recall_id": &found[1]})).await;
        count += 1;
    }
    assert!(count > 10, "{outline}");
}

#[tokio::test]
async fn the_first_page_of_a_long_session_is_an_overview_of_all_of_it() {
    let mut turns = vec![user("Port the parser.")];
    for part in 0..8 {
        turns.extend(steps(100 * part, 100, 3));
        turns.push(reply(&format!("Part {part} is done.")));
        turns.push(user(&format!("Now for part {}.", part + 1)));
    }
    let (reach, _) = compacted(ApiFormat::Chat, &turns, 12_000).await;
    let overview = ask(&reach, RecallTool::Outline, json!({})).await;
    assert!(overview.contains("An overview: give from: NUMBER"), "{overview}");
    assert!(overview.lines().count() < 80 && overview.chars().count() < MOST, "{overview}");
    for part in 1..=8 {
        assert!(overview.contains(&format!("user: Now for part {part}.")), "{overview}");
    }
    assert!(overview.contains(" turns (bash x"), "{overview}");
    opens_all_of(&reach, &overview).await;

    // And closer: every step is on some page, once.
    let target = regex::Regex::new(r#"make target(\d+)""#).unwrap();
    let (mut from, mut seen) = (0, Vec::new());
    loop {
        let page = ask(&reach, RecallTool::Outline, json!({"from": from.to_string()})).await;
        assert!(page.chars().count() < MOST, "{page}");
        seen.extend(target.captures_iter(&page).map(|found| found[1].parse::<usize>().unwrap()));
        let Some((_, next)) = page.split_once("Give from: ") else { break };
        from = next.split(' ').next().unwrap().parse().unwrap();
    }
    assert_eq!(seen, (0..800).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_talk_of_very_many_messages_is_outlined_in_a_page() {
    let turns: Vec<_> = (0..600)
        .flat_map(|n| [user(&format!("Question {n}? {}", "why ".repeat(200))), reply(&format!("Answer {n}."))])
        .collect();
    let (reach, _) = compacted(ApiFormat::Messages, &turns, 8_000).await;
    let overview = ask(&reach, RecallTool::Outline, json!({})).await;
    assert!(overview.chars().count() < MOST, "{}", overview.chars().count());
    assert!(overview.contains("Question 0?") && overview.contains("Question 599?"), "{overview}");
    assert!(overview.contains("user messages"), "{overview}");
}

#[tokio::test]
async fn a_session_that_was_never_compacted_is_outlined_too() {
    let (reach, _) = compacted(ApiFormat::Chat, &long_session(), 2_000).await;
    let sent = body(ApiFormat::Chat, &[user("Another matter altogether.")]);
    let session = record(&reach.store, &reach.tenant, &sent).await.session;
    let outline = ask(&RecallScope { session, ..reach }, RecallTool::Outline, json!(null)).await;
    assert!(outline.contains("0 compactions") && outline.contains("[still in your context]"), "{outline}");
}
