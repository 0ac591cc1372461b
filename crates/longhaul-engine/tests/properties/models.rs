//! The table of models against the models that real bodies were sent to.

use longhaul_engine::models::find;

use crate::support::shared;

tests! {
    always: [],
    real: [every_model_of_the_corpus_has_a_row],
}

fn every_model_of_the_corpus_has_a_row() {
    let index = std::fs::read_to_string(shared("corpus/INDEX.csv")).unwrap();
    let mut seen = 0;
    for line in index.lines().skip(1) {
        let Some(name) = line.split(',').nth(2) else { continue };
        if name != "unknown" {
            assert!(find(name).row.is_some(), "no row for {name}");
            seen += 1;
        }
    }
    assert!(seen > 80, "only {seen} models read from the index");
}
