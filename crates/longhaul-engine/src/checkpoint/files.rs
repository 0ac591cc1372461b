//! Relevant Files: every file with what was done to it, over all checkpoints.

use std::collections::BTreeMap;

use super::Section;
use super::gather::{Gather, Need};
use crate::action::Touched;
use crate::evidence::Uses;

/// How much less a file is worth that nobody changed.
const ONLY_READ: f64 = 0.2;
/// Characters of a path.
const PATH: usize = 400;

impl Gather<'_> {
    /// Files with what was done to each, the newest last.
    pub(super) fn files(&mut self) {
        let mut files: Vec<Option<(String, Touches, Uses)>> = Vec::new();
        let mut places: BTreeMap<String, usize> = BTreeMap::new();
        for item in self.before.list(Section::RelevantFiles) {
            let (path, words) = item.as_str().rsplit_once(" — ").unwrap_or((item.as_str(), ""));
            places.insert(path.to_owned(), files.len());
            files.push(Some((path.to_owned(), Touches::read(words), Uses::default())));
        }
        for file in &self.evidence.files {
            let mut touches = Touches::default();
            for (_, how) in file.touched.iter().filter(|(unit, _)| self.folded(*unit)) {
                touches.count(*how, 1);
            }
            let path = self.clipped(&file.path, PATH);
            let path = self.redact(&path).into_string();
            if touches == Touches::default() || path.is_empty() {
                continue;
            }
            let old = places.insert(path.clone(), files.len()).and_then(|at| files[at].take());
            touches.add(old.map(|(_, touches, _)| touches).unwrap_or_default());
            files.push(Some((path, touches, file.uses)));
        }
        for (path, touches, uses) in files.into_iter().flatten() {
            let first = self.pieces.len();
            self.add(Section::RelevantFiles, &format!("{path} — {}", touches.words()), Need::Wanted, uses);
            if touches.only_read() {
                self.pieces[first..].iter_mut().for_each(|piece| piece.weight *= ONLY_READ);
            }
        }
    }
}

/// How often what was done to a file, in the order of [`Touches::WORDS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Touches([u32; 4]);

impl Touches {
    const WORDS: [(Touched, &'static str); 4] = [
        (Touched::Created, "created"),
        (Touched::Edited, "edited"),
        (Touched::Deleted, "deleted"),
        (Touched::Read, "read"),
    ];

    fn count(&mut self, how: Touched, times: u32) {
        for ((known, _), sum) in Self::WORDS.iter().zip(&mut self.0) {
            if *known == how {
                *sum = sum.saturating_add(times);
            }
        }
    }

    fn add(&mut self, other: Self) {
        for ((how, _), times) in Self::WORDS.iter().zip(other.0) {
            self.count(*how, times);
        }
    }

    fn only_read(self) -> bool {
        self.0[..3].iter().all(|times| *times == 0)
    }

    /// `edited 3×, read`.
    fn words(self) -> String {
        let shown = Self::WORDS.iter().zip(self.0).filter(|(_, times)| *times > 0);
        let words = shown.map(|((_, word), times)| match times {
            1 => (*word).to_owned(),
            _ => format!("{word} {times}×"),
        });
        words.collect::<Vec<_>>().join(", ")
    }

    fn read(words: &str) -> Self {
        let mut touches = Self::default();
        for part in words.split(", ") {
            let (word, times) = part.split_once(' ').unwrap_or((part, "1×"));
            if let Some((how, _)) = Self::WORDS.iter().find(|(_, known)| *known == word) {
                touches.count(*how, times.trim_end_matches('×').parse().unwrap_or(1));
            }
        }
        touches
    }
}
