//! The checker against real request bodies. Run with `LONGHAUL_SHARED` set to the folder that holds `corpus/`.

use std::fs;
use std::path::PathBuf;

use longhaul_engine::Dialect;
use longhaul_engine::check::{Host, Severity, Target, check, compare};

#[test]
fn survey() {
    let dir = PathBuf::from(std::env::var("LONGHAUL_SHARED").unwrap()).join("corpus");
    let mut names: Vec<_> = fs::read_dir(&dir)
        .unwrap()
        .map(|e| e.unwrap().path())
        .filter(|p| p.extension().is_some_and(|e| e == "json"))
        .collect();
    names.sort();
    for p in names {
        let body = fs::read_to_string(&p).unwrap();
        let d: Dialect = p.to_str().unwrap().rsplit('.').nth(1).unwrap().parse().unwrap();
        let v = check(&body, d, &Target::of(d));
        assert_eq!(compare(&body, &body, d, &Target::of(d)), []);
        println!("{}", p.file_name().unwrap().to_str().unwrap());
        let mut seen = std::collections::BTreeMap::new();
        for x in v {
            seen.entry((x.severity, x.rule)).or_insert((0, x.at, x.message)).0 += 1;
        }
        for ((s, r), (n, at, m)) in seen {
            println!("   {s:?} {r} x{n} {at} {m}");
        }
    }
    let _ = (Host::unknown(), Severity::Error);
}
