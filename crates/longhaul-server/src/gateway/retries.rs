//! The retries of a request that its provider refused, as a pure state machine that chooses the next change
//! to try.
//!
//! ```text
//! malformed:  full ──▶ without recall tools ──▶ without breakpoints ──▶ original
//! too long:   full ──▶ smaller, at most 4 times
//! encoded:    full ──▶ without recall tools
//! ```
//!
//! A request that the provider calls malformed is retried without what Longhaul added to it. One that is too
//! long is made smaller. The original is tried only in place of a compaction that no provider has accepted
//! yet: an accepted one cannot be the cause. After a smaller request was tried, the original is not: it is
//! longer than the request that was too long.

use super::body;
use crate::upstream::{Response, UpstreamError};

/// The largest number of times that one request is made smaller. Chosen by hand: a session stops sooner if a
/// compaction gains less than 5 %.
const MAX_SMALLER_RETRIES: u8 = 4;

/// One change to a refused request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RetryStep {
    /// Omits the recall tools.
    WithoutTools,
    /// Omits the cache breakpoints that Longhaul added.
    WithoutBreakpoints,
    /// Compacts the session further.
    Smaller,
    /// Sends the client's own history instead of the compacted one.
    Original,
}

impl RetryStep {
    /// Returns the label of the retry in the metrics.
    pub(super) fn metric_label(self) -> &'static str {
        match self {
            Self::WithoutTools => "tools",
            Self::WithoutBreakpoints => "breakpoints",
            Self::Smaller => "too_long",
            Self::Original => "original",
        }
    }
}

/// The kinds of refusal that a change of the request can cure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The provider rejects the form of the request.
    Malformed,
    /// The request exceeds the context window or the provider's byte limit.
    TooLong,
    /// The reply has a content encoding (gzip, …) although plain text was asked for, so recall calls in it
    /// could not be read.
    ContentEncoded,
}

impl Refusal {
    /// Returns the refusal in a response to a request with these changes; none if the request was accepted or
    /// failed for another reason.
    pub(super) fn from_response(reply: &Response, changes: OwnChanges) -> Option<Self> {
        match &reply.error {
            None => (changes.has_tools && body::is_content_encoded(&reply.headers)).then_some(Self::ContentEncoded),
            Some(UpstreamError::BadRequest(_)) => Some(Self::Malformed),
            Some(UpstreamError::TooLong { .. } | UpstreamError::TooLarge(_)) => Some(Self::TooLong),
            Some(_) => None,
        }
    }
}

/// The parts of the refused request that Longhaul added or changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct OwnChanges {
    /// Whether the request offers the recall tools.
    pub(super) has_tools: bool,
    /// Whether the request has cache breakpoints or a cache key of ours.
    pub(super) has_breakpoints: bool,
    /// Whether the request contains a compaction that no provider has accepted yet.
    pub(super) has_new_compaction: bool,
}

/// The retry steps that one request has used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct RetryLadder {
    tried_without_tools: bool,
    tried_without_breakpoints: bool,
    smaller_count: u8,
    tried_original: bool,
    newest: Option<RetryStep>,
}

impl RetryLadder {
    /// Chooses the next step after a refusal; none if nothing is left to try.
    pub(super) fn next_step(&mut self, refusal: Refusal, changes: OwnChanges) -> Option<RetryStep> {
        let step = match refusal {
            _ if self.tried_original => None,
            Refusal::ContentEncoded => {
                (changes.has_tools && !self.tried_without_tools).then_some(RetryStep::WithoutTools)
            }
            Refusal::TooLong => (self.smaller_count < MAX_SMALLER_RETRIES).then_some(RetryStep::Smaller),
            Refusal::Malformed if changes.has_tools && !self.tried_without_tools => Some(RetryStep::WithoutTools),
            Refusal::Malformed if changes.has_breakpoints && !self.tried_without_breakpoints => {
                Some(RetryStep::WithoutBreakpoints)
            }
            // If the request was too long before, its original is even longer.
            Refusal::Malformed => {
                (changes.has_new_compaction && self.smaller_count == 0).then_some(RetryStep::Original)
            }
        };
        match step? {
            RetryStep::WithoutTools => self.tried_without_tools = true,
            RetryStep::WithoutBreakpoints => self.tried_without_breakpoints = true,
            RetryStep::Smaller => self.smaller_count += 1,
            RetryStep::Original => self.tried_original = true,
        }
        self.newest = step;
        step
    }

    /// Returns the step of the newest try; none for the full request.
    pub(super) fn newest(self) -> Option<RetryStep> {
        self.newest
    }
}

#[cfg(test)]
mod tests {
    use super::Refusal::{ContentEncoded, Malformed, TooLong};
    use super::RetryStep::{Original, Smaller, WithoutBreakpoints, WithoutTools};
    use super::*;

    /// Returns the steps that a request takes when it gets these refusals one after another.
    fn taken(refusals: &[Refusal], changes: OwnChanges) -> Vec<RetryStep> {
        let mut ladder = RetryLadder::default();
        refusals.iter().map_while(|refusal| ladder.next_step(*refusal, changes)).collect()
    }

    const ALL: OwnChanges = OwnChanges { has_tools: true, has_breakpoints: true, has_new_compaction: true };
    const NONE: OwnChanges = OwnChanges { has_tools: false, has_breakpoints: false, has_new_compaction: false };

    #[test]
    fn every_rung_is_tried_once_in_its_order() {
        let accepted = OwnChanges { has_new_compaction: false, ..ALL };
        let table: [(&[Refusal], OwnChanges, &[RetryStep]); 9] = [
            (&[Malformed; 9], ALL, &[WithoutTools, WithoutBreakpoints, Original]),
            (&[Malformed; 9], accepted, &[WithoutTools, WithoutBreakpoints]),
            (&[Malformed; 9], NONE, &[]),
            (&[Malformed; 9], OwnChanges { has_new_compaction: true, ..NONE }, &[Original]),
            (&[TooLong; 9], NONE, &[Smaller; MAX_SMALLER_RETRIES as usize]),
            (&[ContentEncoded; 9], ALL, &[WithoutTools]),
            (&[ContentEncoded; 9], NONE, &[]),
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
                *refusal = [Malformed, TooLong, ContentEncoded][order % 3];
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
