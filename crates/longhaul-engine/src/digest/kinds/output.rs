//! What a program prints: its first and last lines, and whatever it complains about.

use super::super::draft::{Draft, Worth};
use super::super::page::{Page, Sample};

pub(in super::super) fn shows(_: &Page<'_>, _: &Sample<'_>) -> bool {
    true
}

pub(in super::super) fn draft<'a>(page: &Page<'a>, draft: &mut Draft<'a>) {
    draft.facts(page, Worth::RUN);
    draft.edges(page, 20, 10, 3.0);
}
