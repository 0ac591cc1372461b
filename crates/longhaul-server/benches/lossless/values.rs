//! What later calls needed, and whether a model would have had it: in its context, or by one search.

use std::collections::BTreeSet;
use std::path::Path;

use longhaul_server::recall::{RecallScope, RecallTool};
use serde::Deserialize;
use serde_json::json;

use crate::held;

/// A value that a call used, and that was seen before.
#[derive(Deserialize)]
pub(crate) struct Need {
    /// The message of the call.
    at: usize,
    /// The last message before it that holds the value.
    last: usize,
    /// Whether only the agent and its tools spoke in between.
    same: bool,
    value: String,
    query: String,
}

pub(crate) fn read(file: &Path) -> Vec<Need> {
    let text = std::fs::read_to_string(file).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The values that calls from a cut on needed from before it, each once, where it was needed first.
pub(crate) fn across(needs: &[Need], cut: usize, until: usize) -> Vec<&Need> {
    let mut seen = BTreeSet::new();
    let crosses = |need: &&Need| need.last < cut && (cut..until).contains(&need.at);
    needs.iter().filter(crosses).filter(|need| seen.insert(need.value.as_str())).collect()
}

/// Where a value is for who needs it.
#[derive(Clone, Copy)]
pub(crate) enum Held {
    /// In the body that is sent.
    InContext,
    /// In a block that one of the first five results names; and whether the results already show it.
    Found {
        shown: bool,
    },
    Nowhere,
}

/// An answer, by when the value was needed, and whether it was for the same task.
pub(crate) struct Answered {
    pub(crate) at: usize,
    same: bool,
    held: Held,
}

/// Looks for each value in what is sent, and asks for those that are not in it.
pub(crate) async fn ask(reach: &RecallScope, said: &str, needs: Vec<&Need>) -> Vec<Answered> {
    let mut answers = Vec::with_capacity(needs.len());
    for need in needs {
        let held = if said.contains(&need.value) { Held::InContext } else { search(reach, need).await };
        answers.push(Answered { at: need.at, same: need.same, held });
    }
    answers
}

async fn search(reach: &RecallScope, need: &Need) -> Held {
    let answer = reach.call(RecallTool::Search, &json!({"query": need.query})).await;
    let RecallScope { store, tenant, session } = reach;
    for recall_id in named(&answer.text) {
        if held::holds(store, tenant, session, recall_id, &need.value).await {
            return Held::Found { shown: answer.text.contains(&need.value) };
        }
    }
    Held::Nowhere
}

/// The handles that an answer names, of its hits and of what stands beside them.
fn named(answer: &str) -> Vec<&str> {
    let is_hit = |line: &&str| line.starts_with(|c: char| c.is_ascii_digit());
    let mut recall_ids = Vec::new();
    for line in answer.lines().filter(is_hit) {
        recall_ids.extend(line.split_once(". ").and_then(|(_, rest)| rest.split(':').next()));
        let beside = line.split_once("; same turn: ").map_or("", |(_, beside)| beside);
        let beside = beside.split(", ").map(|block| block.split(" and ").next().unwrap_or_default());
        recall_ids.extend(beside.filter_map(|block| block.rsplit(' ').next()).filter(|word| !word.is_empty()));
    }
    recall_ids
}

/// How many values there were, and where: of all, and of those of the same task.
#[derive(Default, Clone, Copy)]
pub(crate) struct Tally {
    all: Count,
    same: Count,
}

#[derive(Default, Clone, Copy)]
struct Count {
    values: usize,
    in_context: usize,
    found: usize,
    shown: usize,
}

impl Extend<Answered> for Tally {
    fn extend<T: IntoIterator<Item = Answered>>(&mut self, answers: T) {
        for answer in answers {
            self.all.add(answer.held);
            if answer.same {
                self.same.add(answer.held);
            }
        }
    }
}

impl Tally {
    pub(crate) fn line(&self) -> String {
        format!("{} | same task {}", self.all.line(), self.same.line())
    }
}

impl Count {
    fn add(&mut self, held: Held) {
        self.values += 1;
        match held {
            Held::InContext => self.in_context += 1,
            Held::Found { shown } => {
                self.found += 1;
                self.shown += usize::from(shown);
            }
            Held::Nowhere => {}
        }
    }

    fn line(&self) -> String {
        let share = |count: usize| count as f64 / self.values.max(1) as f64;
        format!(
            "{:5} values  in context {:.3}  or found {:.3}  or shown {:.3}",
            self.values,
            share(self.in_context),
            share(self.in_context + self.found),
            share(self.in_context + self.shown)
        )
    }
}
