//! The retries of a request that its provider refused, as a pure state machine: which change is tried next, each of them once.
//!
//! ```text
//! full ──▶ without recall tools ──▶ without breakpoints ──▶ smaller ──▶ original
//! ```
//!
//! A request that is malformed in the provider's eyes goes down by what Longhaul added to it; one that is too long is made smaller. The
//! original is tried only in place of a compaction that no provider has accepted yet: one that was accepted before is not at fault.

use crate::upstream::{Response, Trouble};

/// The most times that one request is made smaller; a session stops sooner when a compaction gains less than 5 %.
const MAX_SMALLER: u8 = 4;

/// One change to a refused request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rung {
    /// The recall tools are left out.
    WithoutTools,
    /// The cache breakpoints that Longhaul added are left out.
    WithoutBreakpoints,
    /// The session is compacted further.
    Smaller,
    /// The client's own history takes the place of the compacted one.
    Original,
}

impl Rung {
    /// The label of the retry in the metrics.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::WithoutTools => "tools",
            Self::WithoutBreakpoints => "marks",
            Self::Smaller => "too_long",
            Self::Original => "refused",
        }
    }
}

/// The kinds of refusal that a change of the request can cure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The provider does not accept the request as it is written.
    Malformed,
    /// The request exceeds the context window, or the provider's limit of bytes.
    TooLong,
    /// The answer is compressed although plain text was asked for, so recall calls in it could not be read.
    Packed,
}

impl Refusal {
    /// The refusal in an answer; none if it was accepted or failed for another reason.
    pub(super) fn in_answer(answer: &Response, is_packed: bool) -> Option<Self> {
        match &answer.trouble {
            None => is_packed.then_some(Self::Packed),
            Some(Trouble::BadRequest(_)) => Some(Self::Malformed),
            Some(Trouble::TooLong { .. } | Trouble::TooLarge(_)) => Some(Self::TooLong),
            Some(_) => None,
        }
    }
}

/// The parts of the refused request that are Longhaul's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Facts {
    /// It offers recall tools.
    pub(super) has_tools: bool,
    /// It carries cache breakpoints of ours.
    pub(super) has_breakpoints: bool,
    /// It carries a compaction that no provider has accepted yet.
    pub(super) has_new_compaction: bool,
}

/// The rungs that one request has used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Ladder {
    without_tools: bool,
    without_breakpoints: bool,
    smaller: u8,
    original: bool,
    newest: Option<Rung>,
}

impl Ladder {
    /// Chooses the next rung after a refusal; none if nothing is left to try.
    pub(super) fn next(&mut self, refusal: Refusal, facts: Facts) -> Option<Rung> {
        let rung = match refusal {
            _ if self.original => None,
            Refusal::Packed => (facts.has_tools && !self.without_tools).then_some(Rung::WithoutTools),
            Refusal::TooLong => (self.smaller < MAX_SMALLER).then_some(Rung::Smaller),
            Refusal::Malformed if facts.has_tools && !self.without_tools => Some(Rung::WithoutTools),
            Refusal::Malformed if facts.has_breakpoints && !self.without_breakpoints => {
                Some(Rung::WithoutBreakpoints)
            }
            // The original of what was too long is longer.
            Refusal::Malformed => (facts.has_new_compaction && self.smaller == 0).then_some(Rung::Original),
        };
        match rung? {
            Rung::WithoutTools => self.without_tools = true,
            Rung::WithoutBreakpoints => self.without_breakpoints = true,
            Rung::Smaller => self.smaller += 1,
            Rung::Original => self.original = true,
        }
        self.newest = rung;
        rung
    }

    /// The rung that the newest try stood on; none for the full request.
    pub(super) fn newest(self) -> Option<Rung> {
        self.newest
    }
}

#[cfg(test)]
mod tests {
    use super::Refusal::{Malformed, Packed, TooLong};
    use super::Rung::{Original, Smaller, WithoutBreakpoints, WithoutTools};
    use super::*;

    /// The rungs that a request takes when it is refused like this, one refusal after the other.
    fn taken(refusals: &[Refusal], facts: Facts) -> Vec<Rung> {
        let mut ladder = Ladder::default();
        refusals.iter().map_while(|refusal| ladder.next(*refusal, facts)).collect()
    }

    const ALL: Facts = Facts { has_tools: true, has_breakpoints: true, has_new_compaction: true };
    const NONE: Facts = Facts { has_tools: false, has_breakpoints: false, has_new_compaction: false };

    #[test]
    fn every_rung_is_tried_once_in_its_order() {
        let accepted = Facts { has_new_compaction: false, ..ALL };
        let table: [(&[Refusal], Facts, &[Rung]); 9] = [
            (&[Malformed; 9], ALL, &[WithoutTools, WithoutBreakpoints, Original]),
            (&[Malformed; 9], accepted, &[WithoutTools, WithoutBreakpoints]),
            (&[Malformed; 9], NONE, &[]),
            (&[Malformed; 9], Facts { has_new_compaction: true, ..NONE }, &[Original]),
            (&[TooLong; 9], NONE, &[Smaller; MAX_SMALLER as usize]),
            (&[Packed; 9], ALL, &[WithoutTools]),
            (&[Packed; 9], NONE, &[]),
            (&[TooLong, Malformed, Malformed, Malformed], ALL, &[Smaller, WithoutTools, WithoutBreakpoints]),
            (&[Malformed, TooLong, Malformed, Malformed], ALL, &[WithoutTools, Smaller, WithoutBreakpoints]),
        ];
        for (refusals, facts, rungs) in table {
            assert_eq!(taken(refusals, facts), rungs, "{refusals:?} {facts:?}");
        }
    }

    #[test]
    fn no_order_of_refusals_goes_on_for_ever_or_repeats_a_rung() {
        for mut order in 0..3_usize.pow(9) {
            let mut refusals = [Malformed; 9];
            for refusal in &mut refusals {
                *refusal = [Malformed, TooLong, Packed][order % 3];
                order /= 3;
            }
            let rungs = taken(&refusals, ALL);
            for once in [WithoutTools, WithoutBreakpoints, Original] {
                assert!(rungs.iter().filter(|rung| **rung == once).count() <= 1, "{refusals:?}: {rungs:?}");
            }
            assert!(rungs.iter().rev().skip(1).all(|rung| *rung != Original), "nothing follows the original");
        }
    }
}
