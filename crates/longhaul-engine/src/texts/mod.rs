//! The texts that we write ourselves, as types that render and parse back, so that nobody searches our own prose for meaning.
//!
//! It may use [`redact`](crate::redact) and what is below it.
//!
//! ```text
//! Entry       EDIT src/a.rs — −`x = 1` +`x = 2` (recall 4k2m…)              a line of Completed Actions
//! Node        Actions 1–212 in 5 stretches (recall 4k2m…)                   an item of Earlier Work
//! CutMark     … [1,234 more characters; recall 4k2m…]                       behind a string that was cut
//! FileNote    src/a.rs — edited 3 times                                     a line of Relevant Files
//! DigestHead  [tests: 213 lines; failed; 201 left out]                      what opens a digest
//! ImageMark   [image left out: PNG, 640×480, 12,345 bytes]                  in the place of a picture
//! Marker      [Longhaul checkpoint: …]                                      what opens and ends a checkpoint
//! ```

mod cut;
mod entry;
mod file_note;
mod head;
mod image;
mod keyed;
mod marker;
mod node;

pub(crate) use cut::is_cut;
pub use cut::{CutMark, NoMark};
pub use entry::{Act, Entry};
pub use file_note::FileNote;
pub use head::DigestHead;
pub use image::ImageMark;
pub(crate) use keyed::keyed;
pub use marker::{CHECKPOINT_OPENING, Closing, END_OPENING, Marker, is_framed};
pub(crate) use marker::{is_signed, signed};
pub use node::{NoNode, Node};
