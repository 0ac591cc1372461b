//! Reads the Responses format: `input` and `instructions`. Messages, reasoning, calls and results are items
//! of one flat list.

use super::ParseNoteKind;
use super::reader::{BodyReader, ContentPart};
use super::scan::{Key, ScannedElement, ScannedObject};
use crate::transcript::{ArrayId, Block, BlockKind, JsonSlot, Seal, TextEncoding, TextSpan};

pub(super) fn read(reader: &mut BodyReader<'_, '_>, list: Option<ArrayId>) {
    if let Some(root) = reader.raw.root.object {
        reader.read_tools(root, Key::Tools);
        reader.for_each_part(root, Key::Instructions, |reader, part| {
            if let ContentPart::Block(block) = part {
                reader.preamble.push(Block { kind: BlockKind::System, ..block });
            }
        });
        if let Some(block) = reader.field_block(root, Key::Input, BlockKind::Text).filter(|_| list.is_none()) {
            reader.assembler.begin_message(None);
            reader.assembler.add_user_block(block);
            reader.assembler.end_message();
        }
    }
    for element in list.into_iter().flat_map(|id| reader.raw.elements(id)) {
        read_item(reader, element);
    }
}

fn read_item(reader: &mut BodyReader<'_, '_>, element: ScannedElement) {
    let Some(item) = element.object else { return reader.read_opaque(element, ParseNoteKind::UnknownItem) };
    let name = reader.raw.string(item, Key::Type).unwrap_or_default();
    let has_call_id = reader.raw.has_value(item, Key::CallId);
    match &*name {
        "" | "message" => read_message(reader, element, item),
        "reasoning" => read_reply_item(reader, element, |reader| reasoning_block(reader, element, item)),
        "additional_tools" => read_tools_item(reader, element),
        "mcp_approval_request" => read_call(reader, element, item, Key::Id),
        "mcp_approval_response" => read_result(reader, element, item, Key::ApprovalRequestId),
        name if name.ends_with("_output") && has_call_id => read_result(reader, element, item, Key::CallId),
        name if name.ends_with("_call") && has_call_id => read_call(reader, element, item, Key::CallId),
        name if name.ends_with("_call") || name == "mcp_list_tools" => {
            read_reply_item(reader, element, |reader| reader.whole_element_block(element, BlockKind::ServerTool));
        }
        _ => reader.read_opaque(element, ParseNoteKind::UnknownItem),
    }
}

/// Reads tool definitions that are an item of the list. The host set them up, so they belong to the preamble
/// and to no turn.
fn read_tools_item(reader: &mut BodyReader<'_, '_>, element: ScannedElement) {
    reader.assembler.begin_message(Some(element.id));
    let block = reader.whole_element_block(element, BlockKind::Tool);
    reader.preamble.push(block);
    reader.assembler.end_message();
}

fn read_message(reader: &mut BodyReader<'_, '_>, element: ScannedElement, item: ScannedObject) {
    match reader.raw.string(item, Key::Role).as_deref() {
        Some("system" | "developer") => reader.read_system_message(element, item),
        Some("user") => reader.read_user_message(element, item),
        Some("assistant") => reader.read_reply_message(element, item),
        _ => reader.read_opaque(element, ParseNoteKind::UnknownRole),
    }
}

/// Reads an item that is one block of a reply.
fn read_reply_item<'b>(
    reader: &mut BodyReader<'_, 'b>,
    element: ScannedElement,
    block: impl Fn(&BodyReader<'_, 'b>) -> Block<'b>,
) {
    reader.has_conversation_begun = true;
    reader.assembler.begin_message(Some(element.id));
    let block = block(reader);
    reader.assembler.add_reply(block);
    reader.assembler.end_message();
}

/// Returns the block of a reasoning item. Its visible text is a list of summaries, usually with one entry.
fn reasoning_block<'b>(reader: &BodyReader<'_, 'b>, element: ScannedElement, item: ScannedObject) -> Block<'b> {
    let sealed = reader.raw.has_value(item, Key::EncryptedContent) || reader.raw.has_value(item, Key::Id);
    let seal = if sealed { Seal::Sealed } else { Seal::Unsealed };
    let summary = reader.raw.field_of(item, Key::Summary);
    let text = summary.filter(|_| reader.raw.has_value(item, Key::Summary));
    let text = text.map(|field| TextSpan { at: field.at, encoding: TextEncoding::Json });
    Block { text, ..reader.whole_element_block(element, BlockKind::Reasoning(seal)) }
}

fn read_call(reader: &mut BodyReader<'_, '_>, element: ScannedElement, item: ScannedObject, id: Key) {
    reader.has_conversation_begun = true;
    reader.assembler.begin_message(Some(element.id));
    let text = reader.arguments_span(item, Key::Arguments).or_else(|| reader.text_field(item, Key::Input));
    let block = reader.new_block(BlockKind::Call, JsonSlot::Element(element.id), element.at, text);
    let name = reader.raw.string(item, Key::Name).or_else(|| reader.raw.string(item, Key::Type));
    let id = reader.raw.string(item, id);
    reader.assembler.add_call(id, name.unwrap_or_default(), block);
    reader.assembler.end_message();
}

fn read_result(reader: &mut BodyReader<'_, '_>, element: ScannedElement, item: ScannedObject, id: Key) {
    reader.has_conversation_begun = true;
    reader.assembler.begin_message(Some(element.id));
    let answer = reader.read_tool_result(element, item, Key::Output);
    let id = reader.raw.string(item, id);
    reader.assembler.add_result(id.as_deref(), answer);
    reader.assembler.end_message();
}
