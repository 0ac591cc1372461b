//! Old images become a text that says what was there. Those of the newest message that has any stay.

use super::{Change, Leaves, NewText, Pass, Scope};
use crate::clip::on_one_line;
use crate::digest::number;
use crate::json::{Strings, unescape};
use crate::texts::ImageMark;
use crate::tokens::images::size;
use crate::transcript::{Block, BlockAt, BlockKind, Place};

pub(super) const PASS: Pass =
    Pass { name: "images", why: "an old picture that newer ones followed", leaves: Leaves::Least, run };

/// The formats by how their base64 begins.
const FORMATS: [(&str, &str); 5] =
    [("iVBOR", "PNG"), ("/9j/", "JPEG"), ("R0lGOD", "GIF"), ("UklGR", "WebP"), ("JVBER", "PDF")];

/// How much of an address is kept.
const ADDRESS_WIDTH: usize = 200;

fn run(scope: &Scope<'_, '_>) -> Vec<Change> {
    let images: Vec<(BlockAt, &Block<'_>, Option<usize>)> = all(scope).collect();
    let newest = images.iter().map(|(.., message)| *message).max().flatten();
    let old = images.iter().filter(|(at, _, message)| *message != newest && (scope.may_change)(at.unit));
    old.map(|(at, block, _)| Change { at: *at, pass: PASS.name, to: mark(scope, block) }).collect()
}

/// Every image that can be replaced, with its message.
pub(super) fn all<'s, 'b>(
    scope: &Scope<'s, 'b>,
) -> impl Iterator<Item = (BlockAt, &'s Block<'b>, Option<usize>)> + use<'s, 'b> {
    let transcript = scope.transcript;
    let images = transcript.parts().filter(|part| matches!(part.block.kind, BlockKind::Image(_)));
    images.filter_map(move |part| match part.block.place {
        Place::Element(id) => Some((part.at, part.block, transcript.message_of(id))),
        Place::Field { .. } => None,
    })
}

/// What stands in the place of an image.
pub(super) fn mark(scope: &Scope<'_, '_>, block: &Block<'_>) -> NewText {
    let (what, data) = match block.kind {
        BlockKind::Document(data) => ("document", data),
        BlockKind::Image(data) => ("image", data),
        _ => ("block", None),
    };
    // Deep inside a result the span is not known; the data is the longest string.
    let strings = || Strings::of(block.raw()).map(|string| &block.raw()[string.text]);
    let deep = || strings().max_by_key(|text| text.len()).filter(|text| text.len() > 32);
    let data = data.map(|span| &scope.transcript.body[span.range()]).or_else(deep).unwrap_or_default();
    let mut says = Vec::new();
    let start = data.get(..64).unwrap_or(data);
    if start.starts_with("http") {
        says.push(on_one_line(&unescape(data), ADDRESS_WIDTH));
    } else if !data.is_empty() {
        let encoded = data.split_once(";base64,").map_or(data, |(_, encoded)| encoded);
        says.extend(
            FORMATS.iter().find(|(start, _)| encoded.starts_with(start)).map(|(_, name)| (*name).to_owned()),
        );
        says.extend(size(data).map(|size| format!("{}×{}", size.width, size.height)));
        says.push(format!("{} bytes", number(encoded.len() * 3 / 4)));
    }
    let mark = ImageMark { what: what.to_owned(), says, handle: (scope.handle)(block.raw()) };
    NewText::Mark(mark.to_string())
}
