//! Reads the Messages format: `messages` and `system`. Tool calls and results are content blocks, and one
//! user message can contain both the results of a turn and the next prompt.

use super::ParseNoteKind;
use super::reader::{BodyReader, ContentPart};
use super::scan::{Key, ScannedElement};
use crate::transcript::{ArrayId, Block, BlockKind};

pub(super) fn read(reader: &mut BodyReader<'_, '_>, list: Option<ArrayId>) {
    if let Some(root) = reader.raw.root.object {
        reader.read_tools(root, Key::Tools);
        reader.for_each_part(root, Key::System, |reader, part| {
            if let ContentPart::Block(block) = part {
                reader.preamble.push(Block { kind: BlockKind::System, ..block });
            }
        });
    }
    for element in list.into_iter().flat_map(|id| reader.raw.elements(id)) {
        read_message(reader, element);
    }
}

fn read_message(reader: &mut BodyReader<'_, '_>, element: ScannedElement) {
    let Some(item) = element.object else { return reader.read_opaque(element, ParseNoteKind::UnknownItem) };
    match reader.raw.string(item, Key::Role).as_deref() {
        Some("user") => reader.read_user_message(element, item),
        Some("assistant") => reader.read_reply_message(element, item),
        Some("system" | "developer") => reader.read_system_message(element, item),
        _ => reader.read_opaque(element, ParseNoteKind::UnknownRole),
    }
}
