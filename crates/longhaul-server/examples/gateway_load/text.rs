//! Text that reads like what agents see: prose, code, test runs, search results. It comes from a seed, so that every run sends the same
//! bytes, and no two pieces of it are alike, so that nothing can be made shorter than a real session could.

use std::fmt::Write;

const NOUNS: [&str; 32] = [
    "parser", "session", "ledger", "router", "window", "epoch", "buffer", "cursor", "header", "stream", "record",
    "schema", "token", "branch", "bucket", "worker", "socket", "config", "digest", "tenant", "replay", "marker",
    "budget", "handle", "column", "vector", "filter", "writer", "signal", "thread", "module", "margin",
];
const VERBS: [&str; 16] = [
    "reads", "keeps", "drops", "merges", "splits", "counts", "writes", "checks", "loads", "folds", "sends", "finds",
    "opens", "closes", "moves", "names",
];
const FOLDERS: [&str; 8] = ["src", "tests", "src/store", "src/wire", "crates/core/src", "benches", "lib", "app/models"];

/// A source of numbers that depends on its seed alone (`SplitMix64`).
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d)
    }

    /// A number under `sides`.
    pub(crate) fn below(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % sides as u64) as usize
    }

    fn noun(&mut self) -> &'static str {
        NOUNS[self.below(NOUNS.len())]
    }

    fn verb(&mut self) -> &'static str {
        VERBS[self.below(VERBS.len())]
    }

    /// A name such as `parser_keeps_ledger`.
    fn name(&mut self) -> String {
        format!("{}_{}_{}", self.noun(), self.verb(), self.noun())
    }

    /// The path of a source file.
    pub(crate) fn path(&mut self) -> String {
        format!("{}/{}_{}.rs", FOLDERS[self.below(FOLDERS.len())], self.noun(), self.noun())
    }

    /// One sentence of prose.
    pub(crate) fn sentence(&mut self) -> String {
        let (one, two, three) = (self.noun(), self.verb(), self.noun());
        let (name, four, number) = (self.name(), self.noun(), self.below(5000));
        format!("The {one} {two} the {three} in `{name}` before the {four} has {number} of them.")
    }

    /// So many lines of what a tool shows, of one of four kinds.
    pub(crate) fn output(&mut self, lines: usize) -> String {
        let mut text = String::with_capacity(lines * 60);
        let kind = self.below(4);
        for line in 1..=lines {
            let _ = match kind {
                0 => self.code(&mut text, line),
                1 => writeln!(text, "test {}::{} ... ok", self.noun(), self.name()),
                2 => {
                    let (path, at) = (self.path(), self.below(900));
                    writeln!(text, "{path}:{at}: let {} = {}(&{});", self.noun(), self.name(), self.noun())
                }
                _ => {
                    let (second, took) = (self.below(60), self.below(40_000));
                    writeln!(text, "12:{:02}:{second:02} INFO {} took {took} µs", line % 60, self.name())
                }
            };
        }
        text
    }

    fn code(&mut self, text: &mut String, line: usize) -> std::fmt::Result {
        let (one, two) = (self.noun(), self.noun());
        match self.below(4) {
            0 => writeln!(text, "{line:>5}\tpub fn {}({one}: &str) -> Option<usize> {{", self.name()),
            1 => writeln!(text, "{line:>5}\t    let {one} = {two}.get({}).copied()?;", self.below(100)),
            2 => writeln!(text, "{line:>5}\t    // The {one} {} the {two} here.", self.verb()),
            _ => {
                writeln!(text, "{line:>5}\t    if {one}.len() > {} {{ return \"{two}\"; }}", self.below(4096))
            }
        }
    }
}
