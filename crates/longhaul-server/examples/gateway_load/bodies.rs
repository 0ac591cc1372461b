//! What is sent: small conversations, and sessions of 100,000 tokens that the gateway has compacted before they are measured.

use std::ops::Range;

use crate::load::Script;
use crate::story::{Draft, Story, Wanted};

/// Where the gateway compacts a session of this model, and what the long bodies come to.
pub(crate) const LONG: f64 = 106_000.0;
/// Of the requests on the way there, one in so many is really sent.
const STRIDE: usize = 10;
const SHORT_STEP: usize = 4;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Size {
    Small,
    Long,
}

/// How a session goes on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Course {
    /// Each request is the one before and a little more.
    Growing,
    /// The same body again and again.
    Same,
}

/// The scripts of all connections: what leads up to the measurement, and what is measured.
pub(crate) struct Scripts {
    pub(crate) before: Vec<Script>,
    pub(crate) measured: Vec<Script>,
}

impl Size {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Small => "small",
            Self::Long => "100K",
        }
    }

    fn connections(self) -> u64 {
        match self {
            Self::Small => 16,
            Self::Long => 8,
        }
    }

    /// Requests a connection.
    fn requests(self) -> usize {
        match self {
            Self::Small => 600,
            Self::Long => 100,
        }
    }
}

impl Course {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Growing => "growing",
            Self::Same => "same",
        }
    }
}

/// The scripts of one round; no two rounds share a session.
pub(crate) fn scripts(size: Size, course: Course, round: u64) -> Scripts {
    let seeds = (0..size.connections()).map(|connection| 1 + round * 1_000_000 + connection * 10_000);
    let both = seeds.map(|seed| match size {
        Size::Small => (Script::new(), small(seed, course)),
        Size::Long => long(seed, course),
    });
    let (before, measured) = both.unzip();
    Scripts { before, measured }
}

/// Conversations of six requests, 0.5 to 1.7 KB, one after another.
fn small(seed: u64, course: Course) -> Script {
    let requests = Size::Small.requests();
    let story = |seed| {
        let mut draft = Draft::chat(seed);
        (1..6).for_each(|_| draft.talk());
        draft.told()
    };
    match course {
        Course::Growing => {
            let stories = (0..requests / 6).map(|number| story(seed + number as u64));
            stories.flat_map(|story| whole(&story, 0..story.requests())).collect()
        }
        Course::Same => vec![story(seed).body(3, Wanted::Whole); requests],
    }
}

fn long(seed: u64, course: Course) -> (Script, Script) {
    let mut draft = Draft::agent(seed);
    draft.work_until(LONG);
    let lead = draft.requests();
    (0..Size::Long.requests()).for_each(|_| draft.step(SHORT_STEP));
    let story = draft.told();
    let before = leading(&story, lead);
    let measured = match course {
        Course::Growing => whole(&story, lead..story.requests()),
        Course::Same => vec![story.body(lead - 1, Wanted::Whole); Size::Long.requests()],
    };
    (before, measured)
}

/// A session up to its size, and its last request as one that asks for a stream.
pub(crate) fn streamed(size: Size, seed: u64) -> (Script, crate::story::Body) {
    let mut draft = match size {
        Size::Small => Draft::chat(seed),
        Size::Long => Draft::agent(seed),
    };
    match size {
        Size::Small => (0..3).for_each(|_| draft.talk()),
        Size::Long => draft.work_until(LONG),
    }
    let story = draft.told();
    let last = story.requests() - 1;
    (leading(&story, last), story.body(last, Wanted::Streamed))
}

fn leading(story: &Story, before: usize) -> Script {
    let mut numbers: Vec<_> = (0..before).step_by(STRIDE).collect();
    numbers.extend(before.checked_sub(1).filter(|last| last % STRIDE != 0));
    numbers.into_iter().map(|number| story.body(number, Wanted::Whole)).collect()
}

fn whole(story: &Story, numbers: Range<usize>) -> Script {
    numbers.map(|number| story.body(number, Wanted::Whole)).collect()
}
