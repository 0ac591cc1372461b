//! Message by message: before on the left, after on the right. Links and filters work without any script.

use std::collections::BTreeMap;

use longhaul_engine::Tokens;
use longhaul_engine::clip::on_one_line;
use maud::{Markup, html};

use super::top::legend;
use super::{Reader, block, text};
use crate::pages::compaction::checkpoint::{Checkpoint, ItemKind};
use crate::pages::compaction::model::{Added, Compaction, Message, Piece, Who};
use crate::pages::{Fate, badge, grouped, shown};

/// Every message.
#[must_use]
pub fn list(compaction: &Compaction, reader: Reader<'_>) -> Markup {
    let starts = starts(&compaction.messages);
    let sources = sources(compaction);
    html! {
        section.messages {
            h2 #messages { "Messages, before and after" }
            (legend(compaction))
            (filters(compaction))
            @if let Some(first) = starts.first() {
                p.small { a href={ "#" (id(&compaction.messages[*first])) } { "First change ↓" }
                    @if compaction.checkpoint.is_some() { " · " a href="#checkpoint" { "The checkpoint ↓" } }
                }
            }
            (preamble(compaction))
            div.chunks {
                @for (chunk, messages) in compaction.messages.chunks(CHUNK).enumerate() {
                    div class={ "chunk" @for fate in fates(messages) { " has-" (fate.name()) } } {
                        @for (at, message) in (chunk * CHUNK..).zip(messages) {
                            @if compaction.caching.cold_from.is_some() && message.after == compaction.caching.cold_from {
                                p.cold { "What stands above stays cached. From here on the provider reads anew." }
                            }
                            (row(compaction, message, &Around { starts: &starts, at, sources: &sources, reader }))
                        }
                    }
                }
            }
        }
    }
}

/// So many messages are one part of the list: a browser looks at parts that are far away as one, and not at thousands of rows.
const CHUNK: usize = 24;

/// What became of some messages, each fate once. The checkpoint is shown with what was folded.
fn fates(messages: &[Message]) -> impl Iterator<Item = Fate> {
    let is_there = |fate: Fate, message: &Message| {
        message.fate == fate || fate == Fate::Folded && has_checkpoint(message)
    };
    Fate::ALL.into_iter().filter(move |fate| messages.iter().any(|message| is_there(*fate, message)))
}

fn has_checkpoint(message: &Message) -> bool {
    message.added.iter().any(|added| matches!(added, Added::Checkpoint))
}

/// What a row knows of those around it.
struct Around<'r> {
    /// The rows at which a run of one fate begins.
    starts: &'r [usize],
    at: usize,
    /// The messages that each item of the checkpoint speaks for.
    sources: &'r BTreeMap<usize, Vec<usize>>,
    reader: Reader<'r>,
}

/// Where changes begin: the first of several messages in a row that met the same fate.
fn starts(messages: &[Message]) -> Vec<usize> {
    let fate = |at: usize| if messages[at].added.is_empty() { Some(messages[at].fate) } else { None };
    let begins = |at: &usize| fate(*at) != Some(Fate::Kept) && (*at == 0 || fate(*at) != fate(*at - 1));
    (0..messages.len()).filter(begins).collect()
}

fn sources(compaction: &Compaction) -> BTreeMap<usize, Vec<usize>> {
    let mut sources: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for message in &compaction.messages {
        let Some(before) = message.before else { continue };
        for item in message.pieces.iter().filter_map(|piece| piece.carried_by) {
            let from = sources.entry(item).or_default();
            if from.last() != Some(&before) {
                from.push(before);
            }
        }
    }
    sources
}

/// The id of a row: its place before, or if it is new, after.
fn id(message: &Message) -> String {
    match (message.before, message.after) {
        (Some(before), _) => format!("m{before}"),
        (None, Some(after)) => format!("n{after}"),
        (None, None) => "n".to_owned(),
    }
}

/// Radio buttons that the sheet reads: no script is needed to hide rows. They stand beside the list, where a rule about what
/// follows them is cheap; one about what is inside the page would be looked up anew in all of it whenever somebody scrolls.
fn filters(compaction: &Compaction) -> Markup {
    let count = |fate: Fate| compaction.count(fate);
    html! {
        input.show #show-all type="radio" name="show" checked;
        label for="show-all" { "all " span.soft { (grouped(compaction.account.messages.before)) } }
        @for fate in Fate::ALL {
            input.show id={ "show-" (fate.name()) } type="radio" name="show" disabled[count(fate) == 0];
            label for={ "show-" (fate.name()) } { (badge(fate)) " " span.soft { (grouped(count(fate) as u64)) } }
        }
    }
}

/// The system prompt and the tools, which stand before all messages and stay.
fn preamble(compaction: &Compaction) -> Markup {
    let (preamble, parts) = (&compaction.preamble, &compaction.parts[0]);
    html! {
        @if !preamble.system.is_empty() {
            article.message.kept {
                header { b { "system prompt" } (badge(Fate::Kept)) span.soft.number { (grouped(parts.system.number())) " tokens" } }
                @for system in &preamble.system { (text(system)) }
            }
        }
        @if preamble.tools > 0 {
            article.message.kept {
                header {
                    b { (grouped(preamble.tools as u64)) (if preamble.tools == 1 { " tool definition" } else { " tool definitions" }) } (badge(Fate::Kept))
                    span.soft.number { (grouped(parts.tools.number())) " tokens" }
                }
            }
        }
    }
}

fn row(compaction: &Compaction, message: &Message, around: &Around<'_>) -> Markup {
    let is_new = message.before.is_none();
    let has_checkpoint = has_checkpoint(message);
    let class = if has_checkpoint { "checkpoint" } else { message.fate.name() };
    let marked = |after: usize| compaction.caching.after.iter().any(|mark| mark.message == Some(after));
    html! {
        article id=(id(message)) class={ "message " (class) @if is_new { " new" } } {
            header {
                span.number.soft { (places(message)) }
                b { (name(message)) }
                @if is_new { span.badge.folded { "new" } } @else { (badge(message.fate)) (tokens(&message.pieces)) }
                @if has_checkpoint && !is_new { span.badge.folded { "checkpoint" } }
                @if message.after.is_some_and(marked) { span.flag title="The provider keeps what stands before this place." { "⚑ breakpoint" } }
                (steps(compaction, around))
            }
            @for piece in &message.pieces { (side_by_side(compaction, piece, around.reader)) }
            @for added in &message.added {
                div.columns {
                    div.before { @if is_new { p.small.soft { (stands_for(compaction, added)) } } }
                    div.after {
                        @match (added, &compaction.checkpoint) {
                            (Added::Checkpoint, Some(made)) => (checkpoint(made, around.sources)),
                            (Added::Checkpoint, None) => {},
                            (Added::Text(added), _) => (text(added)),
                        }
                    }
                }
            }
        }
    }
}

/// `12 → 5`, `12`, or `→ 5`.
fn places(message: &Message) -> String {
    match (message.before, message.after) {
        (Some(before), Some(after)) if before == after => format!("#{before}"),
        (Some(before), Some(after)) => format!("#{before} → #{after}"),
        (Some(before), None) => format!("#{before}"),
        (None, Some(after)) => format!("→ #{after}"),
        (None, None) => String::new(),
    }
}

fn name(message: &Message) -> &'static str {
    match message.who {
        Who::System => "system",
        Who::User => "user",
        Who::Assistant => "assistant",
        Who::Tool => "tool",
        Who::Unknown => "item",
    }
}

fn tokens(pieces: &[Piece]) -> Markup {
    let sum = |side: usize| pieces.iter().map(|piece| piece.tokens[side]).sum::<Tokens>().number();
    let (before, after) = (sum(0), sum(1));
    html! {
        span.soft.number {
            (grouped(before)) @if before != after { " → " (grouped(after)) } " tokens"
        }
    }
}

/// To the change before and the one behind, at the first message of each run.
fn steps(compaction: &Compaction, around: &Around<'_>) -> Markup {
    let Ok(place) = around.starts.binary_search(&around.at) else { return html! {} };
    let to = |at: Option<&usize>| at.map(|at| id(&compaction.messages[*at]));
    let before = to(place.checked_sub(1).and_then(|place| around.starts.get(place)));
    let behind = to(around.starts.get(place + 1));
    html! {
        nav.steps {
            @if let Some(before) = before { a href={ "#" (before) } { "↑ previous" } " " }
            @if let Some(behind) = behind { a href={ "#" (behind) } { "next change ↓" } }
        }
    }
}

fn side_by_side(compaction: &Compaction, piece: &Piece, reader: Reader<'_>) -> Markup {
    if piece.fate == Fate::Kept {
        return html! { (label(piece)) (text(&piece.before)) };
    }
    html! {
        div.columns {
            div.before { (label(piece)) (text(&piece.before)) }
            div.after {
                @match (piece.fate, &piece.after) {
                    (Fate::Digested, Some(after)) => {
                        (why(piece, "made shorter")) (text(after))
                    },
                    (Fate::Folded, _) => (carried(compaction, piece)),
                    _ => (why(piece, "taken out")),
                }
                (recall(piece, reader))
            }
        }
    }
}

/// `result of read_file · 3,400 → 40 tokens`.
fn label(piece: &Piece) -> Markup {
    let [before, after] = piece.tokens.map(Tokens::number);
    html! {
        p.label {
            (piece.what.name())
            @if let Some(tool) = &piece.tool { " of " b { bdi { (shown(tool)) } } }
            " · " span.number { (grouped(before)) @if before != after { " → " (grouped(after)) } " tokens" }
        }
    }
}

fn why(piece: &Piece, otherwise: &str) -> Markup {
    html! { p.label { (badge(piece.fate)) " " (shown(piece.why.as_deref().unwrap_or(otherwise))) } }
}

/// How much of a line of the checkpoint is quoted beside what it speaks for.
const QUOTED: usize = 220;

fn carried(compaction: &Compaction, piece: &Piece) -> Markup {
    let found = compaction.checkpoint.as_ref().zip(piece.carried_by);
    let item = found.and_then(|(made, at)| Some((at, made.items.get(at)?)));
    html! {
        @match item {
            Some((at, item)) if item.kind == ItemKind::Heading => {
                p.label { (badge(piece.fate)) " no line is about it alone; see "
                    a href={ "#line" (at) } { (shown(item.text.trim_start_matches('#').trim())) } }
            },
            Some((at, item)) => {
                p.label { (badge(piece.fate)) " " a href={ "#line" (at) } { "carried by this line ↑" } }
                p.quote { bdi { (shown(&on_one_line(&item.text, QUOTED))) } }
            },
            None => p.label { (badge(piece.fate)) " " a href="#checkpoint" { "into the checkpoint" } },
        }
    }
}

/// Where the original of something that changed can be had.
fn recall(piece: &Piece, reader: Reader<'_>) -> Markup {
    let Some(handle) = &piece.handle else { return html! {} };
    html! {
        p.label {
            @match reader.recall {
                Some(address) => a href=(address(handle)) { "original " (shown(handle)) },
                None => code { "longhaul recall " (shown(handle)) },
            }
        }
    }
}

/// In whose place something new stands.
fn stands_for(compaction: &Compaction, added: &Added) -> String {
    match (added, &compaction.checkpoint) {
        (Added::Checkpoint, Some(made)) if made.stands_for > 0 => {
            format!("It stands in place of {} messages, which follow.", grouped(made.stands_for as u64))
        }
        _ => "It was not there before.".to_owned(),
    }
}

/// So many of the messages that a line speaks for are linked.
const MOST_SOURCES: usize = 6;

fn checkpoint(made: &Checkpoint, sources: &BTreeMap<usize, Vec<usize>>) -> Markup {
    html! {
        div.handover id="checkpoint" {
            p.label { b { "The checkpoint" } " · " span.number { (grouped(made.tokens)) " tokens" } }
            @for (at, item) in made.items.iter().enumerate() {
                div.item id={ "line" (at) } {
                    @match item.kind {
                        ItemKind::Heading => h3 { (shown(item.text.trim_start_matches('#').trim())) },
                        ItemKind::Listed => (text(&item.text)),
                        ItemKind::Around => div.soft { (block(&item.text)) },
                    }
                    @if let (ItemKind::Listed, Some(from)) = (item.kind, sources.get(&at)) {
                        p.label { "from "
                            @for message in from.iter().take(MOST_SOURCES) { a href={ "#m" (message) } { "#" (message) } " " }
                            @if from.len() > MOST_SOURCES { "and " (grouped((from.len() - MOST_SOURCES) as u64)) " more" }
                        }
                    }
                }
            }
        }
    }
}
