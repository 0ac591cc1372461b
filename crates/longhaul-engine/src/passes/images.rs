//! Replaces old images by a placeholder that describes them. The images of the newest message that has any
//! stay.

use super::{NewText, Pass, PassScope, ProposedChange, Remainder};
use crate::digest::format_count;
use crate::json::{StringScanner, unescape};
use crate::texts::ImagePlaceholder;
use crate::tokens::images::read_size;
use crate::transcript::{Block, BlockKind, BlockPosition, JsonSlot};
use crate::truncate::to_one_line;

pub(super) const PASS: Pass =
    Pass { name: "images", reason: "old image, followed by newer ones", remainder: Remainder::Minimal, run };

/// The file formats by the first characters of their base64.
const BASE64_FORMATS: [(&str, &str); 5] =
    [("iVBOR", "PNG"), ("/9j/", "JPEG"), ("R0lGOD", "GIF"), ("UklGR", "WebP"), ("JVBER", "PDF")];

/// The maximum number of characters of an image URL that a placeholder shows. Chosen by hand.
const MAX_URL_CHARS: usize = 200;

fn run(scope: &PassScope<'_, '_>) -> Vec<ProposedChange> {
    let images: Vec<(BlockPosition, &Block<'_>, Option<usize>)> = replaceable_images(scope).collect();
    let newest = images.iter().map(|(.., message)| *message).max().flatten();
    let old = images.iter().filter(|(at, _, message)| *message != newest && (scope.may_change)(at.unit));
    old.map(|(at, block, _)| ProposedChange { at: *at, pass: PASS.name, new_text: image_placeholder(scope, block) })
        .collect()
}

/// Returns every image that can be replaced, with its position and the index of its message.
pub(super) fn replaceable_images<'s, 'b>(
    scope: &PassScope<'s, 'b>,
) -> impl Iterator<Item = (BlockPosition, &'s Block<'b>, Option<usize>)> + use<'s, 'b> {
    let transcript = scope.transcript;
    let images = transcript.turn_blocks().filter(|part| matches!(part.block.kind, BlockKind::Image(_)));
    images.filter_map(move |part| match part.block.slot {
        JsonSlot::Element(id) => Some((part.position, part.block, transcript.message_of(id))),
        JsonSlot::Field { .. } => None,
    })
}

/// Makes the placeholder of an image or document: its format, dimensions and size, or its URL.
pub(super) fn image_placeholder(scope: &PassScope<'_, '_>, block: &Block<'_>) -> NewText {
    let (what, data) = match block.kind {
        BlockKind::Document(data) => ("document", data),
        BlockKind::Image(data) => ("image", data),
        _ => ("block", None),
    };
    // Inside a nested result the position of the data is unknown. The data is the longest string then.
    let strings = || StringScanner::values(block.raw()).map(|string| &block.raw()[string.text]);
    let deep = || strings().max_by_key(|text| text.len()).filter(|text| text.len() > 32);
    let data = data.map(|span| &scope.transcript.body[span.range()]).or_else(deep).unwrap_or_default();
    let mut says = Vec::new();
    let start = data.get(..64).unwrap_or(data);
    if start.starts_with("http") {
        says.push(to_one_line(&unescape(data), MAX_URL_CHARS));
    } else if !data.is_empty() {
        let encoded = data.split_once(";base64,").map_or(data, |(_, encoded)| encoded);
        says.extend(
            BASE64_FORMATS.iter().find(|(start, _)| encoded.starts_with(start)).map(|(_, name)| (*name).to_owned()),
        );
        says.extend(read_size(data).map(|size| format!("{}×{}", size.width, size.height)));
        says.push(format!("{} bytes", format_count(encoded.len() * 3 / 4)));
    }
    let mark = ImagePlaceholder { kind: what.to_owned(), details: says, recall_id: (scope.recall_id)(block.raw()) };
    NewText::Mark(mark.to_string())
}
