//! Where something stands in a body: a JSON pointer that costs nothing until it is printed.

use std::ops::Div;

/// A path of keys and indices, written `at / "content" / 3`. Copied freely: most places are never reported.
#[derive(Debug, Clone, Copy)]
pub(super) struct At {
    steps: [Step; DEEPEST],
    depth: usize,
}

/// No rule looks deeper than this; a deeper step would be left out of the pointer.
const DEEPEST: usize = 8;

#[derive(Debug, Clone, Copy)]
enum Step {
    Key(&'static str),
    Index(usize),
}

impl At {
    /// The body itself.
    pub(super) const BODY: Self = Self { steps: [Step::Index(0); DEEPEST], depth: 0 };

    fn then(mut self, step: Step) -> Self {
        if let Some(next) = self.steps.get_mut(self.depth) {
            *next = step;
            self.depth += 1;
        }
        self
    }
}

impl Div<&'static str> for At {
    type Output = Self;
    fn div(self, key: &'static str) -> Self {
        self.then(Step::Key(key))
    }
}

impl Div<usize> for At {
    type Output = Self;
    fn div(self, index: usize) -> Self {
        self.then(Step::Index(index))
    }
}

impl From<At> for String {
    fn from(at: At) -> Self {
        at.steps[..at.depth].iter().fold(Self::new(), |pointer, step| match step {
            Step::Key(key) => pointer + "/" + key,
            Step::Index(index) => pointer + "/" + &index.to_string(),
        })
    }
}
