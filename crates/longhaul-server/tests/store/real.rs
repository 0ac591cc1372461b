//! Real bodies, all of them in one store: whatever a compaction removed is given back, and so is what the client sent.

use std::path::PathBuf;

use longhaul_engine::block_cache::BlockCache;
use longhaul_engine::meter::Meter;
use longhaul_engine::plan::{Plan, RecallIds};
use longhaul_engine::redact::{RedactionMode, Redactor, Rules};
use longhaul_engine::wire;
use longhaul_server::store::{CommitOutcome, HeadMove, HistoryPoint};

use super::ground::Ground;
use super::speech::{keep, parsed, planned, policy, record};

tests! {
    Real: [
        every_removed_block_of_every_real_body_is_recalled,
    ],
}

fn bodies() -> Vec<PathBuf> {
    let shared = PathBuf::from(std::env::var_os("LONGHAUL_SHARED").unwrap());
    let files = std::fs::read_dir(shared.join("corpus")).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|ending| ending == "json")).collect();
    files.sort_by_key(|path| std::fs::metadata(path).unwrap().len());
    files
}

async fn every_removed_block_of_every_real_body_is_recalled(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    let all = bodies();
    let (mut recalled, mut equal, mut whole, mut compacted, mut secret) = (0, 0, 0, 0, 0);
    for path in &all {
        let name = path.file_name().unwrap().to_string_lossy();
        let sent = std::fs::read_to_string(path).unwrap();
        let Ok((transcript, _)) = wire::parse(None, &sent) else { continue };
        if transcript.message_count() == 0 {
            continue;
        }
        let recorded = record(&store, &tenant, &sent).await;
        let key = recorded.session.key.clone();
        let rules = Rules::default();
        let mut redactor = Redactor::keyed(rules.clone(), key.clone());
        let redacted = redactor.redact_json_for_storage(&sent).map_or(1, |json| json.found.len());
        secret += usize::from(redacted > 0);
        let given = store.body_at(&tenant, &recorded.session, HistoryPoint::Original).await.unwrap();
        // A history that shares its beginning with another is given back with that one's spelling of it.
        if redacted == 0
            && recorded.session.first_own_message == 0
            && recorded.new_messages == recorded.session.path_length
        {
            let surplus = !longhaul_engine::cache::surplus_breakpoints(&wire::prompt_order(&transcript)).is_empty();
            assert!(given == sent || surplus, "{name}: another body is given back");
            whole += usize::from(given == sent);
        }
        let policy = policy(&transcript, 400_000);
        let total = Meter::for_model(&policy.model).breakdown(&mut BlockCache::default(), &transcript).total();
        let Plan::Ready(outcome) = planned(&recorded, &sent, total.0 / 4) else { continue };
        let committed = keep(&store, &tenant, &recorded, &sent, &outcome).await.unwrap();
        let CommitOutcome::Done { session, .. } = committed else { panic!("{name}: {committed:?}") };
        compacted += 1;
        let recall_ids = RecallIds::new(key.clone());
        for original in &outcome.originals {
            let found = store.recall(&tenant, Some(&session), &original.recall_id).await;
            let found = found.unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(recall_ids.for_text(&original.text), original.recall_id, "{name}");
            recalled += 1;
            if found.text.as_str() == original.text {
                equal += 1;
                continue;
            }
            assert!(found.is_redacted, "{name}: {:?} {} is another text", original.kind, original.recall_id);
            let at = found.message.unwrap();
            let expected = as_kept(&sent, at, &mut redactor, &found.recall_id, &recall_ids);
            assert_eq!(Some(found.text.as_str()), expected.as_deref(), "{name}: {:?}", original.kind);
        }
        if redacted == 0 {
            assert_eq!(store.body_at(&tenant, &session, HistoryPoint::Now).await.unwrap(), outcome.body, "{name}");
        }
        let undone = store.undo(&tenant, session.id).await.unwrap();
        assert!(matches!(undone, HeadMove::To(None)), "{name}: {undone:?}");
        let session = store.session_by_name(&tenant, &session.name).await.unwrap();
        assert_eq!(store.body_at(&tenant, &session, HistoryPoint::Now).await.unwrap(), given, "{name}");
    }
    println!(
        "{} bodies, {secret} with secrets, {compacted} compacted, {recalled} blocks recalled, {equal} of them letter for letter; {whole} bodies given back byte for byte",
        all.len()
    );
    assert!(
        compacted > 0 && recalled > 0 && equal * 10 > recalled * 8 && whole > 0,
        "{compacted} {recalled} {equal} {whole}"
    );
    assert!(store.check_integrity().await.unwrap().is_empty());
}

/// The text of a block as the store has it: its message without secrets, read again.
fn as_kept(
    sent: &str,
    message: usize,
    redactor: &mut Redactor,
    recall_id: &str,
    recall_ids: &RecallIds,
) -> Option<String> {
    let transcript = parsed(sent);
    let parts = transcript.blocks_by_message(message..message + 1).pop()?;
    let place = parts.iter().position(|part| recall_ids.for_block(part.block) == recall_id)?;
    let text = transcript.message_json(message)?;
    let clean = match redactor.redact_json_for_storage(text) {
        Ok(json) => json.text,
        Err(_) => redactor.redact(text, RedactionMode::Text).text,
    };
    let list = format!("[{clean}]");
    let (alone, _) = wire::parse(transcript.api_format, &list).ok()?;
    let again = alone.blocks_by_message(0..1).pop()?;
    if again.len() != parts.len() {
        return Some(clean.into_string());
    }
    let block = again[place].block;
    Some(if block.text.is_some() { block.text().into_owned() } else { block.raw().to_owned() })
}
