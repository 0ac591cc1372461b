//! What a model told about the units that go.

use std::collections::BTreeSet;

use super::Section;
use crate::redact::Redacted;
use crate::transcript::BlockAt;

/// Something that a model told, under one of the headings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statement {
    /// Which.
    pub section: Section,
    /// Its words.
    pub text: Redacted,
    /// Of what they tell.
    pub tells: Tells,
}

/// Of what a statement tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tells {
    /// Of something that did not work.
    Trouble,
    /// Of anything else.
    Other,
}

/// What a model told, and about which units.
#[derive(Clone, Copy)]
pub struct Told<'d> {
    /// What it told.
    pub statements: &'d [Statement],
    /// Which units that is about.
    pub covers: &'d BTreeSet<usize>,
    /// What it told otherwise than it was, which has to be said.
    pub wrong: &'d BTreeSet<BlockAt>,
}
