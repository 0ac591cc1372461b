//! The forms that several pages show.

use maud::{Markup, html};

use super::layout::session_url;

/// The longest topic for a compaction, in characters; a longer one is cut. Chosen by hand.
pub(super) const MAX_FOCUS_CHARS: usize = 500;

/// Renders the form that compacts a session or previews that.
pub(super) fn compress_form(session: &str, focus: Option<&str>) -> Markup {
    html! {
        form.card id="compress" method="post" action=(session_url(session, "/compress")) {
            h2 { "Compress now" }
            p {
                label for="focus" { "Topic to keep (optional)" }
                input id="focus" name="focus" type="text" maxlength=(MAX_FOCUS_CHARS) value=[focus] autocomplete="off";
            }
            p.buttons {
                button.strong name="preview" value="true" { "Preview" }
                button name="preview" value="false" { "Compress now" }
            }
        }
    }
}

/// Renders the form that searches the whole session, including what compactions removed.
pub(super) fn search_form(session: &str, query: &str, heading: &Markup) -> Markup {
    html! {
        form.card method="get" action=(session_url(session, "/search")) role="search" {
            (heading)
            p {
                label for="q" { "Words, names or paths from the whole session" }
                input id="q" name="q" type="search" value=(query) required maxlength="500" autocomplete="off";
            }
            p.buttons { button type="submit" { "Search" } }
        }
    }
}
