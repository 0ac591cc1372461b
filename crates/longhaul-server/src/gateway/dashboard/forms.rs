//! The forms that more than one page has.

use maud::{Markup, html};

use super::layout::address;

/// The longest topic that a compaction takes.
pub(super) const FOCUS: usize = 500;

/// The form that asks for a compaction.
pub(super) fn compress_form(session: &str, focus: Option<&str>) -> Markup {
    html! {
        form.card id="compress" method="post" action=(address(session, "/compress")) {
            h2 { "Compress now" }
            p {
                label for="focus" { "What to keep before all else (may be empty)" }
                input id="focus" name="focus" type="text" maxlength=(FOCUS) value=[focus] autocomplete="off";
            }
            p.buttons {
                button.strong name="preview" value="true" { "Preview" }
                button name="preview" value="false" { "Compress now" }
            }
        }
    }
}

/// The form that searches what compactions removed.
pub(super) fn search_form(session: &str, query: &str, heading: &Markup) -> Markup {
    html! {
        form.card method="get" action=(address(session, "/search")) role="search" {
            (heading)
            p {
                label for="q" { "Words, names or paths out of the whole session" }
                input id="q" name="q" type="search" value=(query) required maxlength="500" autocomplete="off";
            }
            p.buttons { button type="submit" { "Search" } }
        }
    }
}
