//! Real bodies: what the engine's check finds nothing wrong with is taken, and a session that grows is counted fast.

use std::path::PathBuf;
use std::time::Instant;

use longhaul_engine::check::{Severity, check};
use longhaul_engine::{ApiFormat, wire};

use crate::client::{path, send};
use crate::simulator::{Settings, Simulator, target};

const HEAD: &str = "x-api-key: somebody\r\nanthropic-version: 2023-06-01\r\n";

/// The bodies of the corpus, each with its name and dialect; nothing where there is no corpus, which is said.
fn corpus() -> Vec<(String, ApiFormat, String)> {
    let Some(shared) = std::env::var_os("LONGHAUL_SHARED") else {
        println!("LONGHAUL_SHARED is not set, so no real body was sent");
        return Vec::new();
    };
    let folder = std::fs::read_dir(PathBuf::from(shared).join("corpus")).unwrap();
    let mut files: Vec<PathBuf> = folder.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|end| end == "json"));
    files.sort();
    let read = |file: &PathBuf| {
        let body = std::fs::read_to_string(file).unwrap();
        let api_format = wire::parse(None, &body).unwrap().0.api_format;
        (file.file_name().unwrap().to_string_lossy().into_owned(), api_format, body)
    };
    files.iter().map(read).collect()
}

fn model(body: &str) -> String {
    let body: serde_json::Value = body.parse().unwrap();
    body["model"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn every_valid_body_is_taken() {
    let bodies = corpus();
    let simulator = Simulator::start(Settings::window(2_000_000)).await;
    let (mut taken, mut refused) = (0, 0);
    for (name, api_format, body) in &bodies {
        let found = check(body, *api_format, &target(*api_format, &model(body)));
        let valid = found.iter().all(|found| found.severity != Severity::Error);
        let came = send(&simulator, path(*api_format), HEAD, body).await;
        assert_eq!(came.status == 200, valid, "{name}: {} {found:?}", came.body());
        taken += usize::from(valid);
        refused += usize::from(!valid);
        if !valid {
            println!("{name} is refused: {}", came.error());
        }
    }
    println!("{taken} bodies taken, {refused} refused, {:?}", simulator.tokens());
    assert!(bodies.is_empty() || taken > 50);
}

#[tokio::test]
async fn a_session_that_grows_reads_what_it_sent_before() {
    let simulator = Simulator::start(Settings::window(2_000_000)).await;
    for (name, _, body) in corpus().iter().filter(|(name, _, _)| name.contains("202k")) {
        let (whole, _) = wire::parse(None, body).unwrap();
        let count = whole.message_count();
        let start = Instant::now();
        let mut sent = 0;
        for messages in (1..=count).step_by(2) {
            let came = send(&simulator, path(whole.api_format), HEAD, &whole.body_with_first_messages(messages)).await;
            sent += usize::from(came.status == 200);
        }
        let tokens = simulator.tokens();
        println!("{name}: {sent} requests in {:?}, {tokens:?}", start.elapsed());
        assert!(tokens.read_share() > 0.9 && tokens.share_of_unlimited() > 0.97);
    }
}
