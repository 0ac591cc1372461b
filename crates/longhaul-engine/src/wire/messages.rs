//! Messages: `messages` and `system`; calls and results are content blocks, and one user turn can hold both the results
//! of a step and the next prompt.

use super::NoteKind;
use super::blocks::{Content, Reader};
use super::raw::{Element, Key};
use crate::transcript::{ArrayId, Block, BlockKind};

pub(super) fn read(reader: &mut Reader<'_, '_>, list: Option<ArrayId>) {
    if let Some(root) = reader.raw.root.item {
        reader.tools(root, Key::Tools);
        reader.content(root, Key::System, |reader, part| {
            if let Content::Block(block) = part {
                reader.preamble.push(Block { kind: BlockKind::System, ..block });
            }
        });
    }
    for element in list.into_iter().flat_map(|id| reader.raw.elements(id)) {
        message(reader, element);
    }
}

fn message(reader: &mut Reader<'_, '_>, element: Element) {
    let Some(item) = element.item else { return reader.opaque(element, NoteKind::UnknownItem) };
    match reader.raw.string(item, Key::Role).as_deref() {
        Some("user") => reader.user_message(element, item),
        Some("assistant") => reader.reply_message(element, item),
        Some("system" | "developer") => reader.system(element, item),
        _ => reader.opaque(element, NoteKind::UnknownRole),
    }
}
