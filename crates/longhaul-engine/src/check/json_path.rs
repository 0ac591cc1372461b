//! The place of a value in a body: a JSON pointer that is only built when it is printed.

use std::ops::Div;

/// A path of keys and indices, written `at / "content" / 3`. It is cheap to copy, because most paths are
/// never reported.
#[derive(Debug, Clone, Copy)]
pub(super) struct JsonPath {
    steps: [PathStep; MAX_PATH_STEPS],
    depth: usize,
}

/// The maximum number of steps. No rule reads deeper, and further steps would be left out of the pointer.
const MAX_PATH_STEPS: usize = 8;

#[derive(Debug, Clone, Copy)]
enum PathStep {
    Key(&'static str),
    Index(usize),
}

impl JsonPath {
    /// The path of the body itself.
    pub(super) const ROOT: Self = Self { steps: [PathStep::Index(0); MAX_PATH_STEPS], depth: 0 };

    fn push(mut self, step: PathStep) -> Self {
        if let Some(next) = self.steps.get_mut(self.depth) {
            *next = step;
            self.depth += 1;
        }
        self
    }
}

impl Div<&'static str> for JsonPath {
    type Output = Self;
    fn div(self, key: &'static str) -> Self {
        self.push(PathStep::Key(key))
    }
}

impl Div<usize> for JsonPath {
    type Output = Self;
    fn div(self, index: usize) -> Self {
        self.push(PathStep::Index(index))
    }
}

impl From<JsonPath> for String {
    fn from(at: JsonPath) -> Self {
        at.steps[..at.depth].iter().fold(Self::new(), |pointer, step| match step {
            PathStep::Key(key) => pointer + "/" + key,
            PathStep::Index(index) => pointer + "/" + &index.to_string(),
        })
    }
}
