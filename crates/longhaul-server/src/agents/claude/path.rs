//! The records of the active branch: from the newest leaf to the root, or to the last compaction.

use std::collections::{HashMap, HashSet};

use super::super::Extent;
use super::index::{Boundary, Id, Index, Kind, Record};

/// Positions of records, in the order in which they were said. The branch ends at a parent that is not in the file.
pub(super) fn active(index: &Index, leaf: usize, extent: Extent) -> Vec<usize> {
    let ends = ends(index);
    let mut path = Vec::new();
    let mut seen = HashSet::new();
    let mut next = Some(leaf);
    while let Some(here) = next
        && seen.insert(here)
    {
        let (id, record) = &index.entries[here];
        let child = path.last().map(|child: &usize| index.entries[*child].1.at.number);
        let boundary = ends.get(id).into_iter().flatten().rev().find(|boundary| {
            // The first prompt after a compaction that kept some turns hangs on the last of these.
            let kept = child.is_some_and(|line| line > boundary.line && record.at.number < boundary.line);
            record.kind == Kind::Boundary || kept
        });
        next = match (boundary, extent) {
            (Some(boundary), Extent::Next) => {
                let mut start = head(index, boundary);
                path.reverse();
                path.retain(|at| !start.contains(at));
                start.extend(path);
                return start;
            }
            (Some(boundary), Extent::Whole) if record.kind == Kind::Boundary => {
                boundary.before.and_then(|id| index.get(id)).map(|(at, _)| at)
            }
            _ => {
                path.push(here);
                record.parent.and_then(|id| index.get(id)).map(|(at, _)| at)
            }
        };
    }
    path.reverse();
    if extent == Extent::Whole {
        path.retain(|at| !index.entries[*at].1.summary);
    }
    path
}

/// What a request begins with after a compaction: the summary, then the turns that were kept.
fn head(index: &Index, boundary: &Boundary) -> Vec<usize> {
    let is_summary = |(_, record): &(Id, Record)| record.summary && record.parent == Some(boundary.id);
    let named = boundary.anchor.and_then(|id| index.get(id)).map(|(at, _)| at);
    let summary = named.or_else(|| index.entries.iter().position(is_summary));
    summary.into_iter().chain(boundary.kept(index)).collect()
}

/// The compactions by the records at which a branch comes to them: their own, and the last that each kept.
fn ends(index: &Index) -> HashMap<Id, Vec<&Boundary>> {
    let mut ends: HashMap<Id, Vec<&Boundary>> = HashMap::new();
    for boundary in &index.boundaries {
        let last = boundary.kept.last().copied().or(boundary.segment.map(|(_, last)| last));
        for id in [Some(boundary.id), last].into_iter().flatten() {
            ends.entry(id).or_default().push(boundary);
        }
    }
    ends
}

impl Boundary {
    /// The turns that were kept, in order: as they are listed, or from the last back to the first.
    fn kept(&self, index: &Index) -> Vec<usize> {
        let listed: Vec<usize> = self.kept.iter().filter_map(|id| index.get(*id)).map(|(at, _)| at).collect();
        let (Some((first, last)), true) = (self.segment, listed.is_empty()) else { return listed };
        let mut kept = Vec::new();
        let mut next = index.get(last);
        while let Some((at, record)) = next
            && !kept.contains(&at)
        {
            kept.push(at);
            next =
                if index.entries[at].0 == first { None } else { record.parent.and_then(|id| index.get(id)) };
        }
        kept.reverse();
        kept
    }
}
