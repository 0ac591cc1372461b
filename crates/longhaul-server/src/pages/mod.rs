//! Pages for people, as HTML: what the dashboard, `longhaul report` and `longhaul cost --html` share.
//!
//! ```text
//! style.css   one sheet, light and dark
//! chart/      lines over the requests of a session, or over time, as SVG
//! bar.rs      one bar of several parts
//! compaction/ one compaction, before and after side by side
//! report.rs   a page of one that stands alone
//! words.rs    money and times as people read them, and text that is somebody else's
//! ```
//!
//! Markup is written with `maud`, which escapes whatever is put into it: text out of a transcript cannot become an element, an
//! attribute or a script. No page has a `style` attribute, so that a strict content-security policy can be in force, and none
//! asks for anything of another host.

mod bar;
pub mod chart;
pub mod compaction;
pub mod report;
mod words;

pub use bar::{Part, bar};
pub use longhaul_engine::tokens::grouped;
pub use maud::{Markup, PreEscaped};
pub use words::{ago, clock, dollar_tick, dollars, lasted, short, shown, stamp};

use maud::{DOCTYPE, html};

/// The sheet that every page has.
pub const STYLE: &str = include_str!("style.css");

/// Whose choice of light or dark a page follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Theme {
    /// What the reader's system prefers.
    #[default]
    System,
    /// Light, whatever the system prefers.
    Light,
    /// Dark, likewise.
    Dark,
}

impl Theme {
    /// The name that `data-theme` has for it; none where the system decides.
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        match self {
            Self::System => None,
            Self::Light => Some("light"),
            Self::Dark => Some("dark"),
        }
    }

    /// The theme of a name, as a form or a cookie has it. Whatever is no theme is the system's.
    #[must_use]
    pub fn of(name: &str) -> Self {
        match name {
            "light" => Self::Light,
            "dark" => Self::Dark,
            _ => Self::System,
        }
    }
}

/// A whole document. `head` says how the sheet comes in: as a link where the page is served, as text in a page that stands
/// alone (`inline_style`).
#[must_use]
pub fn document(title: &str, theme: Theme, head: &Markup, body: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" data-theme=[theme.name()] {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width,initial-scale=1";
                title { (shown(title)) }
                (head)
            }
            body { (body) }
        }
    };
    page.into_string()
}

/// The sheet as part of a page that stands alone.
#[must_use]
pub fn inline_style() -> Markup {
    html! { style { (PreEscaped(STYLE)) } }
}

/// What became of a piece of a transcript.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fate {
    /// It stands as it stood.
    Kept,
    /// A shorter text stands in its place.
    Digested,
    /// It is gone from its place, and the checkpoint speaks for it.
    Folded,
    /// It is gone, and nothing speaks for it.
    Removed,
}

impl Fate {
    /// All, in the order in which they are listed.
    pub const ALL: [Self; 4] = [Self::Kept, Self::Digested, Self::Folded, Self::Removed];

    /// Its name, which is its class in the sheet too.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Kept => "kept",
            Self::Digested => "digested",
            Self::Folded => "folded",
            Self::Removed => "removed",
        }
    }
}

/// The mark that says a fate in a list.
#[must_use]
pub fn badge(fate: Fate) -> Markup {
    html! { span class={ "badge " (fate.name()) } { (fate.name()) } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_into_a_document_cannot_leave_its_place() {
        let hostile = "</title><script>alert(1)</script>\u{202e}\u{7}";
        let page =
            document(hostile, Theme::Dark, &inline_style(), &html! { p title=(hostile) { (hostile) } });
        assert!(page.starts_with("<!DOCTYPE html><html lang=\"en\" data-theme=\"dark\">"), "{page}");
        assert!(!page.contains("<script"), "{page}");
        assert!(!document("t", Theme::System, &html! {}, &html! {}).contains("data-theme"));
    }

    #[test]
    fn the_sheet_asks_for_nothing_and_stays_within_its_element() {
        for outside in ["url(", "@import", "</", "http"] {
            assert!(!STYLE.contains(outside), "{outside}");
        }
    }

    #[test]
    fn themes_have_names_that_read_back() {
        for theme in [Theme::Light, Theme::Dark] {
            assert_eq!(theme.name().map(Theme::of), Some(theme));
        }
        assert_eq!(Theme::of("\"><script>"), Theme::System);
    }
}
