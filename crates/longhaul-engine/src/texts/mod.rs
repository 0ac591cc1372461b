//! The texts that Longhaul writes into requests. Each is a type that renders and parses back, so that no
//! other code has to search our own prose.
//!
//! It may use [`redact`](crate::redact) and the modules below it.
//!
//! ```text
//! ActionEntry       EDIT src/a.rs — −`x = 1` +`x = 2` (recall 4k2m…)        a line of Completed Actions
//! EarlierWorkNode   Actions 1–212 in 5 stretches (recall 4k2m…)             an item of Earlier Work
//! CutPlaceholder    … [1,234 more characters; recall 4k2m…]                 the end of a string that was cut
//! FileNote          src/a.rs — edited 3 times                               a line of Relevant Files
//! DigestHead        [tests: 213 lines; failed; 201 left out]                the first line of a digest
//! ImagePlaceholder  [image left out: PNG, 640×480, 12,345 bytes]            replaces an image
//! CheckpointMarker  [Longhaul checkpoint: …]                                the first and last line of a checkpoint
//! ```

mod action_entry;
mod checkpoint_marker;
mod cut_placeholder;
mod digest_head;
mod earlier_work_node;
mod file_note;
mod image_placeholder;
mod keyed_id;

pub use action_entry::{ActionEntry, EntryKind};
pub use checkpoint_marker::{
    CHECKPOINT_END_OPENING, CHECKPOINT_OPENING, CheckpointMarker, RequestPosition, has_checkpoint_frame,
};
pub(crate) use checkpoint_marker::{has_valid_signature, sign_checkpoint};
pub(crate) use cut_placeholder::ends_with_cut_placeholder;
pub use cut_placeholder::{CutPlaceholder, UnrecognizedText};
pub use digest_head::DigestHead;
pub use earlier_work_node::{EarlierWorkNode, InvalidNode};
pub use file_note::FileNote;
pub use image_placeholder::ImagePlaceholder;
pub(crate) use keyed_id::keyed_id;
