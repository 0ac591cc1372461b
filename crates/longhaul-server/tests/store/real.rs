//! Real bodies, all of them in one store: whatever a compaction removed is given back, and so is what the client sent.

use std::path::PathBuf;

use longhaul_engine::known::Known;
use longhaul_engine::meter::Meter;
use longhaul_engine::plan::{Handles, Plan};
use longhaul_engine::redact::{Content, Redactor, Rules};
use longhaul_engine::wire;
use longhaul_server::store::{At, Committed, Moved};

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
        let redacted = redactor.redact_json_to_keep(&sent).map_or(1, |json| json.found.len());
        secret += usize::from(redacted > 0);
        let given = store.body(&tenant, &recorded.session, At::Original).await.unwrap();
        // A history that shares its beginning with another is given back with that one's spelling of it.
        if redacted == 0 && recorded.session.begins == 0 && recorded.new == recorded.session.length {
            let surplus = !longhaul_engine::cache::surplus(&wire::reading(&transcript)).is_empty();
            assert!(given == sent || surplus, "{name}: another body is given back");
            whole += usize::from(given == sent);
        }
        let policy = policy(&transcript, 400_000);
        let total = Meter::of(&policy.model).parts(&mut Known::default(), &transcript).total();
        let Plan::Ready(outcome) = planned(&recorded, &sent, total.0 / 4) else { continue };
        let committed = keep(&store, &tenant, &recorded, &sent, &outcome).await.unwrap();
        let Committed::Done { session, .. } = committed else { panic!("{name}: {committed:?}") };
        compacted += 1;
        let handles = Handles::new(key.clone());
        for original in &outcome.originals {
            let found = store.recall(&tenant, Some(&session), &original.handle).await;
            let found = found.unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(handles.of(&original.text), original.handle, "{name}");
            recalled += 1;
            if found.text.as_str() == original.text {
                equal += 1;
                continue;
            }
            assert!(found.redacted, "{name}: {:?} {} is another text", original.what, original.handle);
            let at = found.at.unwrap();
            let expected = as_kept(&sent, at, &mut redactor, &found.handle, &handles);
            assert_eq!(Some(found.text.as_str()), expected.as_deref(), "{name}: {:?}", original.what);
        }
        if redacted == 0 {
            assert_eq!(store.body(&tenant, &session, At::Now).await.unwrap(), outcome.body, "{name}");
        }
        let undone = store.undo(&tenant, session.id).await.unwrap();
        assert!(matches!(undone, Moved::To(None)), "{name}: {undone:?}");
        let session = store.session(&tenant, &session.name).await.unwrap();
        assert_eq!(store.body(&tenant, &session, At::Now).await.unwrap(), given, "{name}");
    }
    println!(
        "{} bodies, {secret} with secrets, {compacted} compacted, {recalled} blocks recalled, {equal} of them letter for letter; {whole} bodies given back byte for byte",
        all.len()
    );
    assert!(
        compacted > 0 && recalled > 0 && equal * 10 > recalled * 8 && whole > 0,
        "{compacted} {recalled} {equal} {whole}"
    );
    assert!(store.faults().await.unwrap().is_empty());
}

/// The text of a block as the store has it: its message without secrets, read again.
fn as_kept(
    sent: &str,
    message: usize,
    redactor: &mut Redactor,
    handle: &str,
    handles: &Handles,
) -> Option<String> {
    let transcript = parsed(sent);
    let parts = transcript.parts_by_message(message..message + 1).pop()?;
    let place = parts.iter().position(|part| handles.of_block(part.block) == handle)?;
    let text = transcript.message(message)?;
    let clean = match redactor.redact_json_to_keep(text) {
        Ok(json) => json.text,
        Err(_) => redactor.redact(text, Content::Text).text,
    };
    let list = format!("[{clean}]");
    let (alone, _) = wire::parse(transcript.dialect, &list).ok()?;
    let again = alone.parts_by_message(0..1).pop()?;
    if again.len() != parts.len() {
        return Some(clean.into_string());
    }
    let block = again[place].block;
    Some(if block.text.is_some() { block.text().into_owned() } else { block.raw().to_owned() })
}
