//! What is kept without marks: every prompt, in steps, for a while.

use std::time::Duration;

use longhaul_engine::ApiFormat;
use serde_json::{Value, json};

use crate::client::{ask, words};
use crate::simulator::{Settings, Simulator, Traffic};

async fn tokens(simulator: &Simulator, api_format: ApiFormat, said: &[String]) -> Traffic {
    let list: Vec<Value> = said.iter().map(|text| json!({ "role": "user", "content": text })).collect();
    let came = ask(simulator, api_format, &json!({ "model": "gpt-4.1", api_format.messages_field(): list })).await;
    assert_eq!(came.status, 200, "{}", came.body());
    let tokens = simulator.last().unwrap().tokens.unwrap();
    let usage = &came.json()["usage"];
    let (whole, cached) = match api_format {
        ApiFormat::Chat => (&usage["prompt_tokens"], &usage["prompt_tokens_details"]["cached_tokens"]),
        _ => (&usage["input_tokens"], &usage["input_tokens_details"]["cached_tokens"]),
    };
    assert_eq!((whole, cached), (&json!(tokens.total), &json!(tokens.read)), "what is reported is what happened");
    tokens
}

const BOTH: [ApiFormat; 2] = [ApiFormat::Chat, ApiFormat::Responses];

#[tokio::test]
async fn a_prompt_that_goes_on_reads_in_steps_what_was_sent_before() {
    for api_format in BOTH {
        let simulator = Simulator::start(Settings::default()).await;
        let first = tokens(&simulator, api_format, &[words(1_500)]).await;
        assert_eq!((first.read, first.written, first.fresh), (0, 0, first.total));
        let second = tokens(&simulator, api_format, &[words(1_500), words(40)]).await;
        assert_eq!(second.unlimited, first.total);
        assert_eq!(second.read, first.total / 128 * 128);
    }
}

#[tokio::test]
async fn short_prompts_are_not_kept() {
    for api_format in BOTH {
        let simulator = Simulator::start(Settings::default()).await;
        for (size, read) in [(1_000, 0), (1_019, 0), (1_020, 1_024), (1_100, 1_024), (1_150, 1_152)] {
            let prompt = [words(size)];
            let total = tokens(&simulator, api_format, &prompt).await.total;
            assert_eq!(total, size as u64 + 4, "a message has a frame of four tokens");
            assert_eq!(tokens(&simulator, api_format, &prompt).await.read, read, "{size} words");
        }
    }
}

#[tokio::test]
async fn a_change_leaves_what_stands_before_it() {
    for api_format in BOTH {
        let simulator = Simulator::start(Settings::default()).await;
        tokens(&simulator, api_format, &[words(1_500), words(600), words(700)]).await;
        let changed = tokens(&simulator, api_format, &[words(1_500), words(601), words(700)]).await;
        assert_eq!((changed.unlimited, changed.read), (1_504, 1_408));
    }
}

#[tokio::test]
async fn what_is_used_lives_on_and_what_is_not_lapses() {
    for api_format in BOTH {
        let simulator = Simulator::start(Settings::default()).await;
        let prompt = [words(2_000)];
        tokens(&simulator, api_format, &prompt).await;
        for (minutes, is_kept) in [(9, true), (9, true), (10, false), (1, true)] {
            simulator.pass(Duration::from_mins(minutes));
            let read = tokens(&simulator, api_format, &prompt).await.read;
            assert_eq!(read > 0, is_kept, "after {minutes} minutes");
        }
    }
}

#[tokio::test]
async fn a_response_goes_on_from_the_one_before() {
    let simulator = Simulator::start(Settings::default()).await;
    let first = json!({ "model": "gpt-4.1", "input": words(2_000) });
    let id = ask(&simulator, ApiFormat::Responses, &first).await.json()["id"].clone();
    let next = json!({ "model": "gpt-4.1", "input": "and now?", "previous_response_id": id });
    assert_eq!(ask(&simulator, ApiFormat::Responses, &next).await.status, 200);
    let tokens = simulator.last().unwrap().tokens.unwrap();
    assert!(tokens.total > 2_000 && tokens.unlimited == 2_004, "{tokens:?}");

    let unknown = json!({ "model": "gpt-4.1", "input": "and now?", "previous_response_id": "resp_unknown" });
    let came = ask(&simulator, ApiFormat::Responses, &unknown).await;
    assert_eq!((came.status, &came.json()["error"]["code"]), (400, &json!("previous_response_not_found")));
}

#[tokio::test]
async fn who_says_it_is_a_part_of_what_is_said() {
    let simulator = Simulator::start(Settings::default()).await;
    for role in ["user", "developer", "system"] {
        let body = json!({ "model": "gpt-4.1", "messages": [{ "role": role, "content": words(2_000) }] });
        ask(&simulator, ApiFormat::Chat, &body).await;
        assert_eq!(simulator.last().unwrap().tokens.unwrap().unlimited, 0, "{role}");
    }
}
