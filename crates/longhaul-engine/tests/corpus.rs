//! Real bodies, read from the folder that `LONGHAUL_SHARED` names.

use std::path::PathBuf;

use longhaul_engine::{Rewrite, wire};

/// The corpus bodies, or nothing, said aloud, where the folder is not there.
fn bodies() -> Vec<(String, String)> {
    let Some(shared) = std::env::var_os("LONGHAUL_SHARED") else {
        println!("skipped: LONGHAUL_SHARED is not set, so there is no corpus to read");
        return Vec::new();
    };
    let folder = PathBuf::from(shared).join("corpus");
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    paths.retain(|p| p.extension().is_some_and(|e| e == "json"));
    paths.sort();
    paths.iter().map(|p| (p.file_name().unwrap().to_string_lossy().into(), std::fs::read_to_string(p).unwrap())).collect()
}

#[test]
fn every_body_is_read_and_an_empty_rewrite_changes_nothing() {
    for (name, body) in bodies() {
        let (transcript, notes) = wire::parse(None, &body).unwrap();
        println!("{name}: {} sure {} units {} blocks {}", transcript.dialect, transcript.dialect_sure, transcript.units.len(), transcript.blocks().count());
        for note in notes.iter().take(5) { println!("    {} {:?}", note.kind, &body[note.at.range()].chars().take(80).collect::<String>()); }
        let mut c = std::collections::BTreeMap::new();
        for u in &transcript.units {
            use longhaul_engine::transcript::UnitKind::*;
            let k = match &u.kind { Prompt{by,..} => format!("{by:?}"), Step{exchanges,..} => format!("step{}{:?}", exchanges.len().min(3), exchanges.first().map(|e|(e.status, e.call.is_some()))), Checkpoint(_) => "cp".into(), Opaque(_)=>"opaque".into() };
            *c.entry(k).or_insert(0) += 1;
        }
        println!("    {c:?}");
        let rewrite = Rewrite::new(&transcript, Vec::new()).unwrap();
        assert_eq!(rewrite.apply(&body), body, "{name}");
    }
}
