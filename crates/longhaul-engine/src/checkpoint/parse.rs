//! Parses Markdown back into a checkpoint.
//!
//! The output of [`render`](super::render) becomes the same value again. Text that a person or a model wrote
//! in its place is accepted as far as possible: a line that is no list item becomes one, and an unknown
//! heading belongs to the section before it.

use super::render::{
    DATE_AT_MESSAGES, DATE_AT_SINCE_THEN, DATE_WITH_GAP, EMPTY_SECTION, FOLDER_PREFIX, HEADING_PREFIX,
    IN_FOLDER_PREFIX, INDENT, ITEM_PREFIX, SINCE_THEN_TITLE, SOURCE_PREFIX, SUMMARY_ESCAPE, SUMMARY_OPENING,
    ends_summary,
};
use super::{Checkpoint, CompletedAction, QuotedLines, QuotedSummary, Section};
use crate::evidence::has_rule;
use crate::redact::Redacted;
use crate::texts::{CHECKPOINT_END_OPENING, CHECKPOINT_OPENING, EarlierWorkNode, has_checkpoint_frame};

/// The prefix of a rule from a checkpoint whose signature could not be checked.
const UNVERIFIED_PREFIX: &str = "(from the checkpoint before) ";

/// Returns an item without the note that it comes from an unverified checkpoint.
pub(super) fn without_unverified_prefix(item: &str) -> &str {
    item.strip_prefix(UNVERIFIED_PREFIX).unwrap_or(item)
}

/// A piece of a rendered checkpoint, with its lines.
struct Piece<'t> {
    kind: PieceKind<'t>,
    lines: Vec<&'t str>,
}

#[derive(Clone, Copy, PartialEq)]
enum PieceKind<'t> {
    /// The lines before the first section.
    Opening,
    Section(Section),
    /// A summary by the author with this name.
    Summary(&'t str),
}

/// Splits a rendering into its pieces. Returns also whether it has an end line.
fn split_pieces(text: &str) -> (Vec<Piece<'_>>, bool) {
    let mut pieces = vec![Piece { kind: PieceKind::Opening, lines: Vec::new() }];
    for line in text.split('\n').skip(1) {
        let last = pieces.last_mut().map(|piece| (piece.kind, &mut piece.lines));
        let in_summary = matches!(last, Some((PieceKind::Summary(_), _)));
        let title = line.strip_prefix(HEADING_PREFIX).map(str::trim_end).filter(|_| !in_summary || ends_summary(line));
        let section = title.and_then(|title| match title {
            SINCE_THEN_TITLE => Some(Section::CompletedActions),
            _ => Section::ALL.into_iter().find(|section| section.title() == title),
        });
        let author = line.strip_prefix(SUMMARY_OPENING).and_then(|rest| rest.strip_suffix(']')).filter(|_| !in_summary);
        let next = section.map(PieceKind::Section).or(author.map(PieceKind::Summary));
        let ends = line.starts_with(CHECKPOINT_END_OPENING);
        match last {
            Some((_, lines)) if next.is_none() && !ends => lines.push(line),
            // The empty line before a heading or the end line is not content.
            last => {
                if let Some((_, lines)) = last {
                    lines.pop_if(|line| line.is_empty());
                }
                pieces.extend(next.map(|kind| Piece { kind, lines: Vec::new() }));
            }
        }
        if ends {
            return (pieces, true);
        }
    }
    (pieces, false)
}

impl Checkpoint {
    /// Parses the rendering of a checkpoint; `None` if the text is something else.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if !text.starts_with(CHECKPOINT_OPENING) {
            return None;
        }
        let (pieces, ended) = split_pieces(text);
        let mut checkpoint = Self::default();
        for piece in &pieces {
            match piece.kind {
                PieceKind::Opening => {}
                PieceKind::Section(section) => checkpoint.parse_section(section, &piece.lines),
                PieceKind::Summary(author) => {
                    let unescaped = |line: &&str| match line.strip_prefix(SUMMARY_ESCAPE) {
                        Some(rest) if ends_summary(rest.trim_start_matches(SUMMARY_ESCAPE)) => rest.to_owned(),
                        _ => (*line).to_owned(),
                    };
                    let lines: Vec<String> = piece.lines.iter().map(unescaped).collect();
                    let text = Redacted::assume_redacted(lines.join("\n").trim().to_owned());
                    let dates = [DATE_AT_MESSAGES, DATE_AT_SINCE_THEN, DATE_WITH_GAP];
                    let author_only = dates.iter().find_map(|date| author.strip_suffix(date)).unwrap_or(author);
                    checkpoint.summary = Some(QuotedSummary {
                        author: Redacted::assume_redacted(author_only.to_owned()),
                        text,
                        leaves_gap: author.ends_with(DATE_WITH_GAP),
                    });
                }
            }
        }
        (pieces.len() > 1 || ended).then_some(checkpoint)
    }

    /// Returns whether a text is a complete rendering: the marker, then only known sections in their order,
    /// then the end line.
    #[must_use]
    pub fn is_complete_rendering(text: &str) -> bool {
        let text = text.trim_end();
        let (pieces, ended) = split_pieces(text);
        // A summary stands behind the sections that it does not replace.
        let place = |piece: &Piece<'_>| match piece.kind {
            PieceKind::Opening => 0,
            PieceKind::Section(section) => 2 * (section as usize + 1),
            PieceKind::Summary(_) => 2 * (Section::EarlierWork as usize + 1) + 1,
        };
        let has_unknown_heading = |piece: &Piece<'_>| {
            !matches!(piece.kind, PieceKind::Summary(_))
                && piece.lines.iter().any(|line| line.starts_with(HEADING_PREFIX))
        };
        has_checkpoint_frame(text)
            && ended
            && text.lines().filter(|line| line.starts_with(CHECKPOINT_END_OPENING)).count() == 1
            && pieces[0].lines.iter().all(|line| line.is_empty())
            && pieces.is_sorted_by(|one, next| place(one) < place(next))
            && !pieces.iter().any(has_unknown_heading)
    }

    /// Prefixes every rule with a note that it comes from an unverified checkpoint, so that it is not taken
    /// for the user's own words.
    #[must_use]
    pub(crate) fn with_unverified_rules(mut self) -> Self {
        for section in [Section::ActiveTask, Section::Goal, Section::Constraints, Section::NotInSummary] {
            let is_rule = |item: &Redacted| section == Section::Constraints || has_rule(item.as_str());
            let rules = self.lists[section as usize].iter_mut().filter(|item| is_rule(item));
            for rule in rules.filter(|rule| !rule.as_str().starts_with(UNVERIFIED_PREFIX)) {
                *rule = Redacted::literal(UNVERIFIED_PREFIX).append(rule);
            }
        }
        if let Some(summary) =
            self.summary.as_mut().filter(|summary| !summary.author.as_str().starts_with(UNVERIFIED_PREFIX))
        {
            summary.author = Redacted::literal(UNVERIFIED_PREFIX).append(&summary.author);
        }
        self
    }

    fn parse_section(&mut self, section: Section, lines: &[&str]) {
        let sources = match section {
            Section::CriticalContext | Section::NotInSummary => {
                lines.iter().position(|line| line.starts_with(SOURCE_PREFIX))
            }
            _ => None,
        };
        let (mut listed, quoted) = lines.split_at(sources.unwrap_or(lines.len()));
        let folder = listed.first().and_then(|line| line.strip_prefix(FOLDER_PREFIX)?.strip_suffix(':'));
        let folder = folder.filter(|_| section == Section::RelevantFiles);
        listed = &listed[usize::from(folder.is_some())..];
        for (number, text) in parse_items(section, listed) {
            let below = folder.and_then(|folder| Some(format!("{folder}{}", text.strip_prefix(IN_FOLDER_PREFIX)?)));
            let item = (number, below.unwrap_or(text));
            match item {
                // Text in another form has no recall ID, so it is dropped.
                (_, text) if section == Section::EarlierWork => {
                    self.earlier_work.extend(text.parse::<EarlierWorkNode>());
                }
                (None, text) if section != Section::CompletedActions => {
                    self.push(section, Redacted::assume_redacted(text));
                }
                (number, text) => {
                    let next = self.completed.last().map_or(1, |last| last.number.saturating_add(1));
                    let Ok(entry) = text.parse();
                    self.completed.push(CompletedAction { number: number.unwrap_or(next), entry });
                }
            }
        }
        for line in quoted {
            if let Some(source) = line.strip_prefix(SOURCE_PREFIX) {
                let source = Redacted::assume_redacted(source.to_owned());
                self.quoted.push(QuotedLines { source, lines: Vec::new() });
            } else if let Some(last) = self.quoted.last_mut() {
                let line = line.strip_prefix('\\').unwrap_or(line);
                last.lines.push(Redacted::assume_redacted(line.to_owned()));
            }
        }
    }
}

/// Splits the lines of a section into list items, each with its number if it has one.
fn parse_items(section: Section, lines: &[&str]) -> Vec<(Option<u32>, String)> {
    if lines == [EMPTY_SECTION] {
        return Vec::new();
    }
    let mut items: Vec<(Option<u32>, String)> = Vec::new();
    for line in lines {
        let begins = match section {
            Section::CompletedActions => parse_numbered(line).map(|(number, text)| (Some(number), text)),
            _ => line.strip_prefix(ITEM_PREFIX).map(|text| (None, text)),
        };
        match (begins, line.strip_prefix(INDENT), items.last_mut()) {
            (Some((number, text)), ..) => items.push((number, text.to_owned())),
            (None, Some(more), Some((_, text))) => {
                text.push('\n');
                text.push_str(more);
            }
            _ if line.trim().is_empty() => {}
            _ => items.push((None, (*line).to_owned())),
        }
    }
    items
}

fn parse_numbered(line: &str) -> Option<(u32, &str)> {
    let (number, text) = line.split_once(". ")?;
    let canonical = number.bytes().all(|byte| byte.is_ascii_digit());
    Some((number.parse().ok().filter(|_| canonical)?, text))
}
