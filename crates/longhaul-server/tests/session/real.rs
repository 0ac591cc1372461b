//! Real sessions, request by request, in every dialect: what comes out is as valid as what went in.

use std::path::PathBuf;

use longhaul_engine::check::check;
use longhaul_engine::config::{Config, ModelOverride};
use longhaul_engine::{Tokens, models, wire};
use longhaul_server::session::{LiveSession, RequestAction, SessionLimits, SessionSettings};

use super::world::{at, usage};

/// Sessions of so many bytes at most are gone through.
const LARGEST: u64 = 600_000;
/// In so many requests each.
const REQUESTS: usize = 24;
const WINDOW: u64 = 16_000;

#[tokio::test]
async fn real_sessions_stay_as_valid_as_they_were() {
    let Some(shared) = std::env::var_os("LONGHAUL_SHARED") else {
        println!("LONGHAUL_SHARED is not set, so no real session was gone through");
        return;
    };
    let mut files: Vec<PathBuf> = std::fs::read_dir(PathBuf::from(shared).join("corpus"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "json"))
        .filter(|path| path.metadata().is_ok_and(|about| about.len() < LARGEST))
        .collect();
    files.sort();
    let (mut sessions, mut requests, mut compactions) = (0, 0, 0);
    for file in files.iter().step_by(5) {
        let body = std::fs::read_to_string(file).unwrap();
        let Ok((whole, _)) = wire::parse(None, &body) else { continue };
        let model = whole.model.as_deref().unwrap_or("house-model").to_owned();
        let target = models::find(&model).target(whole.api_format);
        let mut config = Config::default();
        let stated = ModelOverride { context_length: Some(Tokens(WINDOW)), ..ModelOverride::default() };
        config.models.insert(model.clone(), stated);
        let limits = SessionLimits { max_compactions_per_hour: 1_000, ..SessionLimits::default() };
        let mut session = LiveSession::new(SessionSettings { config, model, limits, ..SessionSettings::default() });
        sessions += 1;
        let count = whole.message_count();
        for request in 1..=REQUESTS {
            let so_far = whole.body_with_first_messages(count * request / REQUESTS);
            let turn = session.prepare_request(&so_far, at(requests)).await;
            let broken = |body: &str| -> Vec<&'static str> {
                check(body, whole.api_format, &target).into_iter().map(|violation| violation.rule).collect()
            };
            let before = broken(&so_far);
            let newly: Vec<&str> = broken(&turn.body).into_iter().filter(|rule| !before.contains(rule)).collect();
            assert!(newly.is_empty(), "{}: request {request} breaks {newly:?}: {}", file.display(), turn.reason);
            compactions += usize::from(turn.action == RequestAction::Compacted);
            session.record_reply(&usage(&turn.body)).await;
            requests += 1;
        }
    }
    println!("{sessions} sessions, {requests} requests, {compactions} compactions");
    assert!(sessions > 5 && compactions > 5);
}
