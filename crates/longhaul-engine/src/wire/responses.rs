//! Responses: `input` and `instructions`; everything is an item of one flat list.

use super::NoteKind;
use super::blocks::{Content, Reader};
use super::raw::{Element, Item, Key};
use crate::transcript::{ArrayId, Block, BlockKind, Form, Place, Seal, TextSpan};

pub(super) fn read(reader: &mut Reader<'_, '_>, list: Option<ArrayId>) {
    if let Some(root) = reader.raw.root.item {
        reader.tools(root, Key::Tools);
        reader.content(root, Key::Instructions, |reader, part| {
            if let Content::Block(block) = part {
                reader.preamble.push(Block { kind: BlockKind::System, ..block });
            }
        });
        if let Some(block) = reader.field_block(root, Key::Input, BlockKind::Text).filter(|_| list.is_none())
        {
            reader.assembler.begin(None);
            reader.assembler.user(block);
            reader.assembler.end();
        }
    }
    for element in list.into_iter().flat_map(|id| reader.raw.elements(id)) {
        one_item(reader, element);
    }
}

fn one_item(reader: &mut Reader<'_, '_>, element: Element) {
    let Some(item) = element.item else { return reader.opaque(element, NoteKind::UnknownItem) };
    let name = reader.raw.string(item, Key::Type).unwrap_or_default();
    let has_call_id = reader.raw.holds(item, Key::CallId);
    match &*name {
        "" | "message" => message(reader, element, item),
        "reasoning" => reply(reader, element, |reader| reasoning(reader, element, item)),
        "additional_tools" => tools(reader, element),
        "mcp_approval_request" => call(reader, element, item, Key::Id),
        "mcp_approval_response" => answer(reader, element, item, Key::ApprovalRequestId),
        name if name.ends_with("_output") && has_call_id => answer(reader, element, item, Key::CallId),
        name if name.ends_with("_call") && has_call_id => call(reader, element, item, Key::CallId),
        name if name.ends_with("_call") || name == "mcp_list_tools" => {
            reply(reader, element, |reader| reader.whole(element, BlockKind::ServerTool));
        }
        _ => reader.opaque(element, NoteKind::UnknownItem),
    }
}

/// Tools that come as an item of the list. They are what the host set up, wherever they stand, and so no part of any unit.
fn tools(reader: &mut Reader<'_, '_>, element: Element) {
    reader.assembler.begin(Some(element.id));
    let block = reader.whole(element, BlockKind::Tool);
    reader.preamble.push(block);
    reader.assembler.end();
}

fn message(reader: &mut Reader<'_, '_>, element: Element, item: Item) {
    match reader.raw.string(item, Key::Role).as_deref() {
        Some("system" | "developer") => reader.system(element, item),
        Some("user") => reader.user_message(element, item),
        Some("assistant") => reader.reply_message(element, item),
        _ => reader.opaque(element, NoteKind::UnknownRole),
    }
}

/// An item that is one block of a reply.
fn reply<'b>(reader: &mut Reader<'_, 'b>, element: Element, block: impl Fn(&Reader<'_, 'b>) -> Block<'b>) {
    reader.begun = true;
    reader.assembler.begin(Some(element.id));
    let block = block(reader);
    reader.assembler.reply(block);
    reader.assembler.end();
}

/// A reasoning item. Its words, where it shows some, are in a list of summaries; one of them is the usual number.
fn reasoning<'b>(reader: &Reader<'_, 'b>, element: Element, item: Item) -> Block<'b> {
    let sealed = reader.raw.holds(item, Key::EncryptedContent) || reader.raw.holds(item, Key::Id);
    let seal = if sealed { Seal::Sealed } else { Seal::Unsealed };
    let summary = reader.raw.field_of(item, Key::Summary);
    let text = summary.filter(|_| reader.raw.holds(item, Key::Summary));
    let text = text.map(|field| TextSpan { at: field.at, form: Form::Json });
    Block { text, ..reader.whole(element, BlockKind::Reasoning(seal)) }
}

fn call(reader: &mut Reader<'_, '_>, element: Element, item: Item, id: Key) {
    reader.begun = true;
    reader.assembler.begin(Some(element.id));
    let text = reader.arguments(item, Key::Arguments).or_else(|| reader.text_of(item, Key::Input));
    let block = reader.block(BlockKind::Call, Place::Element(element.id), element.at, text);
    let name = reader.raw.string(item, Key::Name).or_else(|| reader.raw.string(item, Key::Type));
    let id = reader.raw.string(item, id);
    reader.assembler.call(id, name.unwrap_or_default(), block);
    reader.assembler.end();
}

fn answer(reader: &mut Reader<'_, '_>, element: Element, item: Item, id: Key) {
    reader.begun = true;
    reader.assembler.begin(Some(element.id));
    let answer = reader.result(element, item, Key::Output);
    let id = reader.raw.string(item, id);
    reader.assembler.answer(id.as_deref(), answer);
    reader.assembler.end();
}
