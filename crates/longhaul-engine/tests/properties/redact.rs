//! Real data, where it is: recall and false alarms on the labelled rows that are not contested, and bodies without secrets.

use std::process::Command;

use longhaul_engine::redact::{FoundSecret, RedactionMode, Redactor, Rules};

use crate::support::{corpus, shared};

tests! {
    always: [],
    real: [
        the_labelled_set_is_found_and_its_look_alikes_are_not,
        real_bodies_keep_every_byte,
    ],
}

fn the_labelled_set_is_found_and_its_look_alikes_are_not() {
    let unpacked = Command::new("gzip").arg("-dc").arg(shared("secrets/labelled.jsonl.gz")).output().unwrap();
    let contested: Vec<usize> = include_str!("../../../../bench/redact/contested.csv")
        .lines()
        .skip(1)
        .map(|line| line.split(',').next().unwrap().parse().unwrap())
        .collect();
    let (mut positives, mut missed, mut negatives, mut alarms) = (0, 0, 0, 0);
    for (at, line) in String::from_utf8(unpacked.stdout).unwrap().lines().enumerate() {
        if contested.contains(&at) {
            continue;
        }
        let row: serde_json::Value = serde_json::from_str(line).unwrap();
        let text = row["text"].as_str().unwrap();
        let found = Redactor::numbered(Rules::default()).redact(text, RedactionMode::Text).found;
        if row["label"] == true {
            positives += 1;
            let value = row["secret"].as_str().unwrap_or_default().trim();
            missed += usize::from(found.is_empty() || is_left(value, text, &found));
        } else {
            negatives += 1;
            alarms += usize::from(!found.is_empty());
        }
    }
    say!("missed {missed} of {positives}, false alarms {alarms} of {negatives}");
    assert!(missed * 100 <= positives * 3, "missed {missed} of {positives}");
    assert!(alarms * 100 <= negatives * 5, "false alarms {alarms} of {negatives}");
}

fn real_bodies_keep_every_byte() {
    for (name, body) in corpus() {
        let done = Redactor::numbered(Rules::default()).redact_json(&body).unwrap();
        assert_eq!((done.found, done.sealed), (vec![], vec![]), "{name}");
        assert_eq!(done.text.as_str(), body);
    }
}

/// Whether more than 8 characters in a row of the value itself, or all of a shorter one, are in no finding.
fn is_left(value: &str, text: &str, found: &[FoundSecret]) -> bool {
    let covered = |at: usize| found.iter().any(|found| (found.start..found.end).contains(&at));
    let longest = |start: usize| {
        let bytes: Vec<bool> = (start..start + value.len()).map(covered).collect();
        bytes.split(|&covered| covered).map(<[bool]>::len).max().unwrap_or(0)
    };
    !value.is_empty() && text.match_indices(value).any(|(start, _)| longest(start) > value.len().min(9) - 1)
}
