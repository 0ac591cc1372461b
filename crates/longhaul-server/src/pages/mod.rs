//! HTML pages: the parts that the dashboard, `longhaul report` and `longhaul cost --html` share.
//!
//! ```text
//! style.css       one style sheet, light and dark
//! chart/          line charts over the requests of a session, or over time, as SVG
//! bar.rs          one bar of several parts
//! compaction/     one compaction, before and after side by side
//! report.rs       a page in a single file, for one compaction
//! formatting.rs   money and times for people, and untrusted text
//! ```
//!
//! Invariants: markup is written with `maud`, which escapes every value, so text from a transcript cannot
//! become an element, an attribute or a script. No page has a `style` attribute, so that a strict content
//! security policy is possible, and none loads anything from another host.

mod bar;
pub mod chart;
pub mod compaction;
mod formatting;
pub mod report;

pub use bar::{BarPart, bar};
pub use formatting::{
    dollar_tick, dollars, format_duration, format_minutes, pluralize, sanitize_line, short_count, time_ago,
    utc_timestamp,
};
pub use longhaul_engine::tokens::group_digits;
pub use maud::{Markup, PreEscaped};

use maud::{DOCTYPE, html};

/// The style sheet of every page.
pub const STYLE_SHEET: &str = include_str!("style.css");

/// The colour theme of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Theme {
    /// The theme that the reader's system prefers.
    #[default]
    System,
    /// The light theme.
    Light,
    /// The dark theme.
    Dark,
}

impl Theme {
    /// Returns the name of the theme for the attribute `data-theme`; none if the system decides.
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        match self {
            Self::System => None,
            Self::Light => Some("light"),
            Self::Dark => Some("dark"),
        }
    }

    /// Returns the theme with this name, from a form or a cookie; [`Theme::System`] for any other text.
    #[must_use]
    pub fn from_name(name: &str) -> Self {
        match name {
            "light" => Self::Light,
            "dark" => Self::Dark,
            _ => Self::System,
        }
    }
}

/// Renders a complete HTML document. `head` brings in the style sheet: as a link if a server serves the page,
/// or with [`inline_style`] for a page in a single file.
#[must_use]
pub fn document(title: &str, theme: Theme, head: &Markup, body: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" data-theme=[theme.name()] {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width,initial-scale=1";
                title { (sanitize_line(title)) }
                (head)
            }
            body { (body) }
        }
    };
    page.into_string()
}

/// Returns the style sheet as an element, for a page in a single file.
#[must_use]
pub fn inline_style() -> Markup {
    html! { style { (PreEscaped(STYLE_SHEET)) } }
}

/// The effect of a compaction on a block or message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fate {
    /// It is unchanged.
    Kept,
    /// A shorter text replaced it.
    Shortened,
    /// It was removed, and the checkpoint summarizes it.
    Summarized,
    /// It was removed, and nothing replaces it.
    Removed,
}

impl Fate {
    /// All values, in the order of the legend.
    pub const ALL: [Self; 4] = [Self::Kept, Self::Shortened, Self::Summarized, Self::Removed];

    /// Returns the name, which is also the class in the style sheet.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Kept => "kept",
            Self::Shortened => "shortened",
            Self::Summarized => "summarized",
            Self::Removed => "removed",
        }
    }
}

/// Renders the badge with the name of a fate.
#[must_use]
pub fn badge(fate: Fate) -> Markup {
    html! { span class={ "badge " (fate.name()) } { (fate.name()) } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_in_a_document_never_becomes_markup() {
        let hostile = "</title><script>alert(1)</script>\u{202e}\u{7}";
        let page = document(hostile, Theme::Dark, &inline_style(), &html! { p title=(hostile) { (hostile) } });
        assert!(page.starts_with("<!DOCTYPE html><html lang=\"en\" data-theme=\"dark\">"), "{page}");
        assert!(!page.contains("<script"), "{page}");
        assert!(!document("t", Theme::System, &html! {}, &html! {}).contains("data-theme"));
    }

    #[test]
    fn the_style_sheet_loads_nothing_and_stays_within_its_element() {
        for outside in ["url(", "@import", "</", "http"] {
            assert!(!STYLE_SHEET.contains(outside), "{outside}");
        }
    }

    #[test]
    fn themes_have_names_that_read_back() {
        for theme in [Theme::Light, Theme::Dark] {
            assert_eq!(theme.name().map(Theme::from_name), Some(theme));
        }
        assert_eq!(Theme::from_name("\"><script>"), Theme::System);
    }
}
