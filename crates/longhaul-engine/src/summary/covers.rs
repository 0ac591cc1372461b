//! For which units a summary was asked.

use std::collections::BTreeSet;

use crate::known::ContentKey;
use crate::transcript::{Part, Transcript};

/// For which units a summary is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Covers {
    /// These very units, in this order, by what tells each from any other.
    Units(Vec<ContentKey>),
    /// Whatever goes: somebody handed it in for that.
    AllThatGoes,
}

impl Covers {
    /// These units of a transcript. Cache marks, which a client moves from turn to turn, tell nothing.
    pub(crate) fn units(transcript: &Transcript<'_>, units: &BTreeSet<usize>) -> Self {
        Self::Units(units.iter().map(|unit| key(transcript, *unit)).collect())
    }

    /// The units of a transcript that are meant, where something goes; none if one of them has changed, or if none of them goes.
    pub(crate) fn find(
        &self,
        transcript: &Transcript<'_>,
        gone: &BTreeSet<usize>,
    ) -> Option<BTreeSet<usize>> {
        let Self::Units(keys) = self else { return Some(gone.clone()) };
        let mut wanted = keys.iter().peekable();
        let mut found = BTreeSet::new();
        for unit in 0..transcript.units.len() {
            if wanted.next_if(|wanted| **wanted == key(transcript, unit)).is_some() {
                found.insert(unit);
            }
        }
        (wanted.peek().is_none() && !found.is_disjoint(gone)).then_some(found)
    }
}

fn key(transcript: &Transcript<'_>, unit: usize) -> ContentKey {
    let said = |part: Part<'_, '_>| match part.block.text {
        Some(text) => text.at,
        None => part.block.at,
    };
    ContentKey::of_parts(transcript.parts_of(unit).map(|part| transcript.body[said(part).range()].as_bytes()))
}
