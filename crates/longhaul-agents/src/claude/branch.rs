//! Finds the records of the active branch: from the newest leaf back to the root, or to the last compaction.

use std::collections::{HashMap, HashSet};

use super::super::Extent;
use super::record_index::{CompactBoundary, HashedId, IndexedRecord, RecordIndex, RecordKind};

/// Returns the positions of the active records in [`RecordIndex::records`], oldest first. The branch ends at
/// a parent that is not in the file.
pub(super) fn active_records(index: &RecordIndex, leaf: usize, extent: Extent) -> Vec<usize> {
    let compactions_by_last_record = boundaries_by_end(index);
    let mut path = Vec::new();
    let mut seen = HashSet::new();
    let mut next = Some(leaf);
    while let Some(here) = next
        && seen.insert(here)
    {
        let (id, record) = &index.records[here];
        let child_line = path.last().map(|child: &usize| index.records[*child].1.position.number);
        let boundary = compactions_by_last_record.get(id).into_iter().flatten().rev().find(|boundary| {
            // If a compaction kept some records, the first prompt after it has the last of them as its
            // parent.
            let kept = child_line.is_some_and(|line| line > boundary.line && record.position.number < boundary.line);
            record.kind == RecordKind::CompactBoundary || kept
        });
        next = match (boundary, extent) {
            (Some(boundary), Extent::NextRequest) => {
                let mut start = opening_records_after(index, boundary);
                path.reverse();
                path.retain(|at| !start.contains(at));
                start.extend(path);
                return start;
            }
            (Some(boundary), Extent::FullHistory) if record.kind == RecordKind::CompactBoundary => {
                boundary.previous.and_then(|id| index.get(id)).map(|(at, _)| at)
            }
            _ => {
                path.push(here);
                record.parent.and_then(|id| index.get(id)).map(|(at, _)| at)
            }
        };
    }
    path.reverse();
    if extent == Extent::FullHistory {
        path.retain(|at| !index.records[*at].1.is_summary);
    }
    path
}

/// Returns the records that a request begins with after a compaction: the summary, then the records that were
/// kept.
fn opening_records_after(index: &RecordIndex, boundary: &CompactBoundary) -> Vec<usize> {
    let is_summary = |(_, record): &(HashedId, IndexedRecord)| record.is_summary && record.parent == Some(boundary.id);
    let named = boundary.summary_id.and_then(|id| index.get(id)).map(|(at, _)| at);
    let summary = named.or_else(|| index.records.iter().position(is_summary));
    summary.into_iter().chain(boundary.kept_records(index)).collect()
}

/// Maps the boundary record of each compaction, and the last record that it kept, to the compaction. A branch
/// that reaches such a record has reached the compaction.
fn boundaries_by_end(index: &RecordIndex) -> HashMap<HashedId, Vec<&CompactBoundary>> {
    let mut compactions_by_last_record: HashMap<HashedId, Vec<&CompactBoundary>> = HashMap::new();
    for boundary in &index.boundaries {
        let last = boundary.kept_ids.last().copied().or(boundary.kept_segment.map(|(_, last)| last));
        for id in [Some(boundary.id), last].into_iter().flatten() {
            compactions_by_last_record.entry(id).or_default().push(boundary);
        }
    }
    compactions_by_last_record
}

impl CompactBoundary {
    /// Returns the positions of the records that were kept, in order: those that are listed, or the segment
    /// followed from its last to its first record.
    fn kept_records(&self, index: &RecordIndex) -> Vec<usize> {
        let listed: Vec<usize> = self.kept_ids.iter().filter_map(|id| index.get(*id)).map(|(at, _)| at).collect();
        let (Some((first, last)), true) = (self.kept_segment, listed.is_empty()) else { return listed };
        let mut kept = Vec::new();
        let mut next = index.get(last);
        while let Some((at, record)) = next
            && !kept.contains(&at)
        {
            kept.push(at);
            next = if index.records[at].0 == first { None } else { record.parent.and_then(|id| index.get(id)) };
        }
        kept.reverse();
        kept
    }
}
