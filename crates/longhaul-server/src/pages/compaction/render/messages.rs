//! Renders a compaction message by message: before on the left, after on the right. Links and filters work
//! without JavaScript.

use std::collections::BTreeMap;

use longhaul_engine::Tokens;
use longhaul_engine::truncate::to_one_line;
use maud::{Markup, html};

use super::overview::fate_legend;
use super::{RenderOptions, collapsible_text, text_block};
use crate::pages::compaction::checkpoint::{CheckpointView, ItemKind};
use crate::pages::compaction::model::{AddedContent, CompactionView, ComparedBlock, ComparedMessage, MessageRole};
use crate::pages::{Fate, badge, group_digits, pluralize, sanitize_line};

/// Renders all messages.
#[must_use]
pub fn message_list(compaction: &CompactionView, reader: RenderOptions<'_>) -> Markup {
    let starts = find_change_starts(&compaction.messages);
    let sources = sources_by_item(compaction);
    html! {
        section.messages {
            h2 #messages { "Messages, before and after" }
            (fate_legend(compaction))
            (fate_filters(compaction))
            @if let Some(first) = starts.first() {
                p.small { a href={ "#" (row_id(&compaction.messages[*first])) } { "First change ↓" }
                    @if compaction.checkpoint.is_some() { " · " a href="#checkpoint" { "The checkpoint ↓" } }
                }
            }
            (preamble_rows(compaction))
            div.chunks {
                @for (chunk, messages) in compaction.messages.chunks(CHUNK_MESSAGES).enumerate() {
                    div class={ "chunk" @for fate in distinct_fates(messages) { " has-" (fate.name()) } } {
                        @for (at, message) in (chunk * CHUNK_MESSAGES..).zip(messages) {
                            @if compaction.caching.first_uncached_message.is_some() && message.after == compaction.caching.first_uncached_message {
                                p.cold { "Everything above stays cached. From here on it is uncached." }
                            }
                            (message_row(compaction, message, &RowContext { change_starts: &starts, row: at, sources: &sources, reader }))
                        }
                    }
                }
            }
        }
    }
}

/// The number of messages in one group of the list. A browser skips the layout of a group that is far away,
/// which is faster than thousands of single rows. Chosen by hand.
const CHUNK_MESSAGES: usize = 24;

/// Returns the fates of some messages, each once. The checkpoint counts as summarized, so that the filter
/// shows it too.
fn distinct_fates(messages: &[ComparedMessage]) -> impl Iterator<Item = Fate> {
    let is_there = |fate: Fate, message: &ComparedMessage| {
        message.fate == fate || fate == Fate::Summarized && has_checkpoint(message)
    };
    Fate::ALL.into_iter().filter(move |fate| messages.iter().any(|message| is_there(*fate, message)))
}

fn has_checkpoint(message: &ComparedMessage) -> bool {
    message.added.iter().any(|added| matches!(added, AddedContent::Checkpoint))
}

/// The facts that a row needs about the rows around it.
struct RowContext<'r> {
    /// The rows at which a run of changes with the same fate begins.
    change_starts: &'r [usize],
    row: usize,
    /// The messages that each checkpoint item covers.
    sources: &'r BTreeMap<usize, Vec<usize>>,
    reader: RenderOptions<'r>,
}

/// Returns the first row of each run of changed messages with the same fate.
fn find_change_starts(messages: &[ComparedMessage]) -> Vec<usize> {
    let fate = |at: usize| if messages[at].added.is_empty() { Some(messages[at].fate) } else { None };
    let begins = |at: &usize| fate(*at) != Some(Fate::Kept) && (*at == 0 || fate(*at) != fate(*at - 1));
    (0..messages.len()).filter(begins).collect()
}

fn sources_by_item(compaction: &CompactionView) -> BTreeMap<usize, Vec<usize>> {
    let mut sources: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for message in &compaction.messages {
        let Some(before) = message.before else { continue };
        for item in message.blocks.iter().filter_map(|piece| piece.checkpoint_item) {
            let from = sources.entry(item).or_default();
            if from.last() != Some(&before) {
                from.push(before);
            }
        }
    }
    sources
}

/// Returns the ID of a row: its index before, or if it is new, its index after.
fn row_id(message: &ComparedMessage) -> String {
    match (message.before, message.after) {
        (Some(before), _) => format!("m{before}"),
        (None, Some(after)) => format!("n{after}"),
        (None, None) => "n".to_owned(),
    }
}

/// Renders the radio buttons that filter the rows; the style sheet hides rows, without a script. The buttons
/// are siblings of the list, because a rule about following siblings is cheap; a rule about the whole page
/// would be evaluated again while somebody scrolls.
fn fate_filters(compaction: &CompactionView) -> Markup {
    let count = |fate: Fate| compaction.count_messages(fate);
    html! {
        input.show #show-all type="radio" name="show" checked;
        label for="show-all" { "all " span.soft { (group_digits(compaction.report.messages.before)) } }
        @for fate in Fate::ALL {
            input.show id={ "show-" (fate.name()) } type="radio" name="show" disabled[count(fate) == 0];
            label for={ "show-" (fate.name()) } { (badge(fate)) " " span.soft { (group_digits(count(fate) as u64)) } }
        }
    }
}

/// Renders the system prompt and the tool definitions, which no compaction changes.
fn preamble_rows(compaction: &CompactionView) -> Markup {
    let (preamble, parts) = (&compaction.preamble, &compaction.token_breakdowns[0]);
    html! {
        @if !preamble.system.is_empty() {
            article.message.kept {
                header { b { "system prompt" } (badge(Fate::Kept)) span.soft.number { (group_digits(parts.system.number())) " tokens" } }
                @for system in &preamble.system { (collapsible_text(system)) }
            }
        }
        @if preamble.tools > 0 {
            article.message.kept {
                header {
                    b { (pluralize(preamble.tools, "tool definition")) } (badge(Fate::Kept))
                    span.soft.number { (group_digits(parts.tools.number())) " tokens" }
                }
            }
        }
    }
}

fn message_row(compaction: &CompactionView, message: &ComparedMessage, around: &RowContext<'_>) -> Markup {
    let is_new = message.before.is_none();
    let has_checkpoint = has_checkpoint(message);
    let class = if has_checkpoint { "checkpoint" } else { message.fate.name() };
    let is_breakpoint =
        |after: usize| compaction.caching.after.iter().any(|breakpoint| breakpoint.message == Some(after));
    html! {
        article id=(row_id(message)) class={ "message " (class) @if is_new { " new" } } {
            header {
                span.number.soft { (position_label(message)) }
                b { (role_name(message)) }
                @if is_new { span.badge.summarized { "new" } } @else { (badge(message.fate)) (token_change(&message.blocks)) }
                @if has_checkpoint && !is_new { span.badge.summarized { "checkpoint" } }
                @if message.after.is_some_and(is_breakpoint) { span.flag title="The provider caches everything before this point." { "⚑ breakpoint" } }
                (change_links(compaction, around))
            }
            @for piece in &message.blocks { (compared_block(compaction, piece, around.reader)) }
            @for added in &message.added {
                div.columns {
                    div.before { @if is_new { p.small.soft { (added_caption(compaction, added)) } } }
                    div.after {
                        @match (added, &compaction.checkpoint) {
                            (AddedContent::Checkpoint, Some(checkpoint)) => (checkpoint_block(checkpoint, around.sources)),
                            (AddedContent::Checkpoint, None) => {},
                            (AddedContent::Text(added), _) => (collapsible_text(added)),
                        }
                    }
                }
            }
        }
    }
}

/// Formats the position of a message: `#12 → #5`, `#12`, or `→ #5`.
fn position_label(message: &ComparedMessage) -> String {
    match (message.before, message.after) {
        (Some(before), Some(after)) if before == after => format!("#{before}"),
        (Some(before), Some(after)) => format!("#{before} → #{after}"),
        (Some(before), None) => format!("#{before}"),
        (None, Some(after)) => format!("→ #{after}"),
        (None, None) => String::new(),
    }
}

fn role_name(message: &ComparedMessage) -> &'static str {
    match message.role {
        MessageRole::System => "system",
        MessageRole::User => "user",
        MessageRole::Assistant => "assistant",
        MessageRole::Tool => "tool",
        MessageRole::Unknown => "item",
    }
}

fn token_change(pieces: &[ComparedBlock]) -> Markup {
    let sum = |side: usize| pieces.iter().map(|piece| piece.tokens[side]).sum::<Tokens>().number();
    let (before, after) = (sum(0), sum(1));
    html! {
        span.soft.number {
            (group_digits(before)) @if before != after { " → " (group_digits(after)) } " tokens"
        }
    }
}

/// Renders the links to the previous and the next change, on the first message of a run.
fn change_links(compaction: &CompactionView, around: &RowContext<'_>) -> Markup {
    let Ok(place) = around.change_starts.binary_search(&around.row) else { return html! {} };
    let to = |at: Option<&usize>| at.map(|at| row_id(&compaction.messages[*at]));
    let previous = to(place.checked_sub(1).and_then(|place| around.change_starts.get(place)));
    let next = to(around.change_starts.get(place + 1));
    html! {
        nav.steps {
            @if let Some(previous) = previous { a href={ "#" (previous) } { "↑ previous" } " " }
            @if let Some(next) = next { a href={ "#" (next) } { "next change ↓" } }
        }
    }
}

fn compared_block(compaction: &CompactionView, piece: &ComparedBlock, reader: RenderOptions<'_>) -> Markup {
    if piece.fate == Fate::Kept {
        return html! { (block_label(piece)) (collapsible_text(&piece.before)) };
    }
    html! {
        div.columns {
            div.before { (block_label(piece)) (collapsible_text(&piece.before)) }
            div.after {
                @match (piece.fate, &piece.after) {
                    (Fate::Shortened, Some(after)) => {
                        (reason_label(piece, "shortened")) (collapsible_text(after))
                    },
                    (Fate::Summarized, _) => (checkpoint_link(compaction, piece)),
                    _ => (reason_label(piece, "removed")),
                }
                (recall_link(piece, reader))
            }
        }
    }
}

/// Renders the label of a block: `result of read_file · 3,400 → 40 tokens`.
fn block_label(piece: &ComparedBlock) -> Markup {
    let [before, after] = piece.tokens.map(Tokens::number);
    html! {
        p.label {
            (piece.kind.name())
            @if let Some(tool) = &piece.tool { " of " b { bdi { (sanitize_line(tool)) } } }
            " · " span.number { (group_digits(before)) @if before != after { " → " (group_digits(after)) } " tokens" }
        }
    }
}

fn reason_label(piece: &ComparedBlock, otherwise: &str) -> Markup {
    html! { p.label { (badge(piece.fate)) " " (sanitize_line(piece.reason.as_deref().unwrap_or(otherwise))) } }
}

/// The most characters of a checkpoint item that are quoted beside a block that it covers. Chosen by hand.
const MAX_QUOTE_CHARS: usize = 220;

fn checkpoint_link(compaction: &CompactionView, piece: &ComparedBlock) -> Markup {
    let found = compaction.checkpoint.as_ref().zip(piece.checkpoint_item);
    let item = found.and_then(|(checkpoint, at)| Some((at, checkpoint.items.get(at)?)));
    html! {
        @match item {
            Some((at, item)) if item.kind == ItemKind::Heading => {
                p.label { (badge(piece.fate)) " no single line covers it; see "
                    a href={ "#line" (at) } { (sanitize_line(item.text.trim_start_matches('#').trim())) } }
            },
            Some((at, item)) => {
                p.label { (badge(piece.fate)) " " a href={ "#line" (at) } { "summarized in this line ↑" } }
                p.quote { bdi { (sanitize_line(&to_one_line(&item.text, MAX_QUOTE_CHARS))) } }
            },
            None => p.label { (badge(piece.fate)) " " a href="#checkpoint" { "into the checkpoint" } },
        }
    }
}

/// Renders the link to the original of a changed block, or the command that prints it.
fn recall_link(piece: &ComparedBlock, reader: RenderOptions<'_>) -> Markup {
    let Some(recall_id) = &piece.recall_id else { return html! {} };
    html! {
        p.label {
            @match reader.recall_url {
                Some(address) => a href=(address(recall_id)) { "original " (sanitize_line(recall_id)) },
                None => code { "longhaul recall " (sanitize_line(recall_id)) },
            }
        }
    }
}

/// Returns the caption of an added text, which says what it replaces.
fn added_caption(compaction: &CompactionView, added: &AddedContent) -> String {
    match (added, &compaction.checkpoint) {
        (AddedContent::Checkpoint, Some(checkpoint)) if checkpoint.replaced_messages > 0 => {
            format!("It replaces the {} messages that follow.", group_digits(checkpoint.replaced_messages as u64))
        }
        _ => "It is new.".to_owned(),
    }
}

/// The most messages that a checkpoint item links to. Chosen by hand.
const MAX_SOURCE_LINKS: usize = 6;

fn checkpoint_block(checkpoint: &CheckpointView, sources: &BTreeMap<usize, Vec<usize>>) -> Markup {
    html! {
        div.handover id="checkpoint" {
            p.label { b { "The checkpoint" } " · " span.number { (group_digits(checkpoint.tokens)) " tokens" } }
            @for (at, item) in checkpoint.items.iter().enumerate() {
                div.item id={ "line" (at) } {
                    @match item.kind {
                        ItemKind::Heading => h3 { (sanitize_line(item.text.trim_start_matches('#').trim())) },
                        ItemKind::ListItem => (collapsible_text(&item.text)),
                        ItemKind::Other => div.soft { (text_block(&item.text)) },
                    }
                    @if let (ItemKind::ListItem, Some(from)) = (item.kind, sources.get(&at)) {
                        p.label { "from "
                            @for message in from.iter().take(MAX_SOURCE_LINKS) { a href={ "#m" (message) } { "#" (message) } " " }
                            @if from.len() > MAX_SOURCE_LINKS { "and " (group_digits((from.len() - MAX_SOURCE_LINKS) as u64)) " more" }
                        }
                    }
                }
            }
        }
    }
}
