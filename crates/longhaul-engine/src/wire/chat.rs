//! Chat Completions: `messages`; calls in a field of the reply, results as messages of role `tool`.

use super::NoteKind;
use super::blocks::Reader;
use super::raw::{Element, Item, Key};
use crate::transcript::{ArrayId, BlockKind, Place, Seal};

pub(super) fn read(reader: &mut Reader<'_, '_>, list: Option<ArrayId>) {
    if let Some(root) = reader.raw.root.item {
        reader.tools(root, Key::Tools);
        reader.tools(root, Key::Functions);
    }
    for element in list.into_iter().flat_map(|id| reader.raw.elements(id)) {
        message(reader, element);
    }
}

fn message(reader: &mut Reader<'_, '_>, element: Element) {
    let Some(item) = element.item else { return reader.opaque(element, NoteKind::UnknownItem) };
    match reader.raw.string(item, Key::Role).as_deref() {
        Some("system" | "developer") => reader.system(element, item),
        Some("user") => reader.user_message(element, item),
        Some("assistant") => assistant(reader, element, item),
        Some("tool") => result(reader, element, item, Key::ToolCallId),
        Some("function") => result(reader, element, item, Key::Name),
        _ => reader.opaque(element, NoteKind::UnknownRole),
    }
}

fn assistant(reader: &mut Reader<'_, '_>, element: Element, item: Item) {
    reader.begun = true;
    reader.assembler.begin(Some(element.id));
    let mut any = false;
    for (key, seal) in [
        (Key::ReasoningContent, Seal::Unsealed),
        (Key::Reasoning, Seal::Unsealed),
        (Key::ReasoningDetails, Seal::Sealed),
    ] {
        any |= reader.reply_field(item, key, BlockKind::Reasoning(seal));
    }
    reader.message_content(item, |reader, part| {
        any = true;
        reader.reply_part(part);
    });
    any |= reader.reply_field(item, Key::Refusal, BlockKind::Refusal);
    any |= reader.reply_field(item, Key::Audio, BlockKind::Audio);
    for call in reader.raw.list(item, Key::ToolCalls).into_iter().flat_map(|id| reader.raw.elements(id)) {
        any = true;
        tool_call(reader, call);
    }
    if let Some(call) = reader.raw.object(item, Key::FunctionCall) {
        any = true;
        let place = Place::Field { of: item.at, key: Key::FunctionCall.text() };
        let block = reader.block(BlockKind::Call, place, call.at, reader.arguments(call, Key::Arguments));
        let name = reader.raw.string(call, Key::Name).unwrap_or_default();
        reader.assembler.call(Some(name.clone()), name, block);
    }
    if !any {
        let block = reader.whole(element, BlockKind::Text);
        reader.assembler.reply(block);
    }
    reader.assembler.end();
}

fn tool_call(reader: &mut Reader<'_, '_>, element: Element) {
    let Some(item) = element.item else {
        let block = reader.whole(element, BlockKind::Unknown);
        reader.assembler.note(element.at, NoteKind::UnknownBlock);
        return reader.assembler.reply(block);
    };
    let function = reader.raw.object(item, Key::Function).or_else(|| reader.raw.object(item, Key::Custom));
    let text =
        function.and_then(|f| reader.arguments(f, Key::Arguments).or_else(|| reader.text_of(f, Key::Input)));
    let tool = function.and_then(|f| reader.raw.string(f, Key::Name)).unwrap_or_default();
    let block = reader.block(BlockKind::Call, Place::Element(element.id), element.at, text);
    let id = reader.raw.string(item, Key::Id);
    reader.assembler.call(id, tool, block);
}

fn result(reader: &mut Reader<'_, '_>, element: Element, item: Item, id: Key) {
    reader.begun = true;
    reader.assembler.begin(Some(element.id));
    let answer = reader.result(element, item, Key::Content);
    let id = reader.raw.string(item, id);
    reader.assembler.answer(id.as_deref(), answer);
    reader.assembler.end();
}
