//! Reads the Chat Completions format: `messages`, with tool calls in a field of the assistant message, and
//! results as messages with the role `tool`.

use super::ParseNoteKind;
use super::reader::BodyReader;
use super::scan::{Key, ScannedElement, ScannedObject};
use crate::transcript::{ArrayId, BlockKind, JsonSlot, Seal};

pub(super) fn read(reader: &mut BodyReader<'_, '_>, list: Option<ArrayId>) {
    if let Some(root) = reader.raw.root.object {
        reader.read_tools(root, Key::Tools);
        reader.read_tools(root, Key::Functions);
    }
    for element in list.into_iter().flat_map(|id| reader.raw.elements(id)) {
        read_message(reader, element);
    }
}

fn read_message(reader: &mut BodyReader<'_, '_>, element: ScannedElement) {
    let Some(item) = element.object else { return reader.read_opaque(element, ParseNoteKind::UnknownItem) };
    match reader.raw.string(item, Key::Role).as_deref() {
        Some("system" | "developer") => reader.read_system_message(element, item),
        Some("user") => reader.read_user_message(element, item),
        Some("assistant") => read_assistant(reader, element, item),
        Some("tool") => read_result(reader, element, item, Key::ToolCallId),
        Some("function") => read_result(reader, element, item, Key::Name),
        _ => reader.read_opaque(element, ParseNoteKind::UnknownRole),
    }
}

fn read_assistant(reader: &mut BodyReader<'_, '_>, element: ScannedElement, item: ScannedObject) {
    reader.has_conversation_begun = true;
    reader.assembler.begin_message(Some(element.id));
    let mut any = false;
    for (key, seal) in [
        (Key::ReasoningContent, Seal::Unsealed),
        (Key::Reasoning, Seal::Unsealed),
        (Key::ReasoningDetails, Seal::Sealed),
    ] {
        any |= reader.add_reply_field(item, key, BlockKind::Reasoning(seal));
    }
    reader.for_each_message_part(item, |reader, part| {
        any = true;
        reader.add_reply_part(part);
    });
    any |= reader.add_reply_field(item, Key::Refusal, BlockKind::Refusal);
    any |= reader.add_reply_field(item, Key::Audio, BlockKind::Audio);
    for call in reader.raw.list(item, Key::ToolCalls).into_iter().flat_map(|id| reader.raw.elements(id)) {
        any = true;
        read_tool_call(reader, call);
    }
    if let Some(call) = reader.raw.object(item, Key::FunctionCall) {
        any = true;
        let place = JsonSlot::Field { object: item.at, key: Key::FunctionCall.text() };
        let block = reader.new_block(BlockKind::Call, place, call.at, reader.arguments_span(call, Key::Arguments));
        let name = reader.raw.string(call, Key::Name).unwrap_or_default();
        reader.assembler.add_call(Some(name.clone()), name, block);
    }
    if !any {
        let block = reader.whole_element_block(element, BlockKind::Text);
        reader.assembler.add_reply(block);
    }
    reader.assembler.end_message();
}

fn read_tool_call(reader: &mut BodyReader<'_, '_>, element: ScannedElement) {
    let Some(item) = element.object else {
        let block = reader.whole_element_block(element, BlockKind::Unknown);
        reader.assembler.add_note(element.at, ParseNoteKind::UnknownBlock);
        return reader.assembler.add_reply(block);
    };
    let function = reader.raw.object(item, Key::Function).or_else(|| reader.raw.object(item, Key::Custom));
    let text =
        function.and_then(|f| reader.arguments_span(f, Key::Arguments).or_else(|| reader.text_field(f, Key::Input)));
    let tool = function.and_then(|f| reader.raw.string(f, Key::Name)).unwrap_or_default();
    let block = reader.new_block(BlockKind::Call, JsonSlot::Element(element.id), element.at, text);
    let id = reader.raw.string(item, Key::Id);
    reader.assembler.add_call(id, tool, block);
}

fn read_result(reader: &mut BodyReader<'_, '_>, element: ScannedElement, item: ScannedObject, id: Key) {
    reader.has_conversation_begun = true;
    reader.assembler.begin_message(Some(element.id));
    let answer = reader.read_tool_result(element, item, Key::Content);
    let id = reader.raw.string(item, id);
    reader.assembler.add_result(id.as_deref(), answer);
    reader.assembler.end_message();
}
