//! What a run says: a table for people as it goes, and a JSON line a figure for whoever compares runs.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;

use serde_json::{Map, Value, json};

use crate::Outcome;

/// Which side of its goal a figure should be on.
#[derive(Clone, Copy)]
pub(crate) enum Goal {
    AtLeast(f64),
    Under(f64),
}

impl Goal {
    fn words(self, figure: f64) -> String {
        let (met, words) = match self {
            Self::AtLeast(goal) => (figure >= goal, format!("at least {goal}")),
            Self::Under(goal) => (figure < goal, format!("under {goal}")),
        };
        format!("{words}: {}", if met { "met" } else { "missed" })
    }
}

/// Where the run is written down, and what is said with each of its lines.
pub(crate) struct Record {
    /// The date, the commit and the machine.
    pub(crate) stamp: Map<String, Value>,
    pub(crate) file: Option<PathBuf>,
}

impl Record {
    /// One figure or several of one kind; `words` is the line for people.
    pub(crate) fn row(&self, fields: &Value, words: &str) -> Outcome<()> {
        println!("  {words}");
        let Some(path) = &self.file else { return Ok(()) };
        let mut row = self.stamp.clone();
        row.extend(fields.as_object().cloned().unwrap_or_default());
        let mut file = OpenOptions::new().create(true).append(true).open(path)?;
        writeln!(file, "{}", Value::Object(row))?;
        Ok(())
    }

    /// A figure that has a goal.
    pub(crate) fn judged(&self, what: &str, figure: f64, goal: Goal) -> Outcome<()> {
        let verdict = goal.words(figure);
        let fields = json!({"what": what, "figure": rounded(figure), "goal": verdict});
        self.row(&fields, &format!("→ {what}: {figure:.2}, {verdict}"))
    }
}

/// What the lines below are about.
pub(crate) fn heading(text: &str) {
    println!("\n{text}");
}

/// Three digits behind the point: more would be noise.
pub(crate) fn rounded(figure: f64) -> f64 {
    (figure * 1000.0).round() / 1000.0
}

/// The middle one of some figures, or between the two in the middle.
pub(crate) fn median(figures: &[f64]) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let at = |index: usize| sorted.get(index).copied().unwrap_or(f64::NAN);
    f64::midpoint(at(sorted.len().saturating_sub(1) / 2), at(sorted.len() / 2))
}
