//! The parts that all pages of the dashboard share: the frame of a page, numbers, times and addresses.

use axum::response::{IntoResponse, Response};
use http::header::CONTENT_TYPE;
use longhaul_engine::Tokens;
use longhaul_engine::prices::Dollars;
use maud::{Markup, Render, html};
use serde::Serialize;
use serde_json::json;

use super::middleware::PageContext;
use crate::pages::{self, BarPart, Theme, bar, dollars, group_digits, sanitize_line, time_ago, utc_timestamp};
use longhaul_engine::Timestamp;

/// Whether a page loads `live.js`, which reloads it after a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refresh {
    Live,
    Never,
}

/// One page of the dashboard, ready to be rendered.
pub(super) struct Page<'p> {
    pub(super) title: &'p str,
    pub(super) context: &'p PageContext,
    pub(super) refresh: Refresh,
    pub(super) body: Markup,
}

impl Page<'_> {
    pub(super) fn respond(self) -> Response {
        let head = html! {
            link rel="stylesheet" href="/assets/style.css";
            link rel="icon" href="/assets/icon.svg" type="image/svg+xml";
            @if self.refresh == Refresh::Live { script src="/assets/live.js" defer {} }
        };
        let body = html! {
            a.skip href="#main" { "Skip to content" }
            (nav_bar(self.context))
            main.broad id="main" tabindex="-1" { (self.body) }
        };
        let title = format!("{} · Longhaul", self.title);
        let text = pages::document(&title, self.context.theme, &head, &body);
        ([(CONTENT_TYPE, "text/html; charset=utf-8")], text).into_response()
    }
}

fn nav_bar(context: &PageContext) -> Markup {
    let themes = [(Theme::System, "system", "Auto"), (Theme::Light, "light", "Light"), (Theme::Dark, "dark", "Dark")];
    html! {
        nav.top aria-label="Longhaul" {
            b { a href="/" aria-current=[(context.path == "/").then_some("page")] { "Longhaul" } }
            form.themes method="post" action="/theme" {
                input type="hidden" name="to" value=(context.path);
                fieldset {
                    legend.hidden { "Colours" }
                    @for (theme, name, label) in themes {
                        button name="theme" value=(name) aria-pressed=(if context.theme == theme { "true" } else { "false" }) { (label) }
                    }
                }
            }
            @if context.is_signed_in {
                form method="post" action="/logout" { button type="submit" { "Sign out" } }
            }
        }
    }
}

/// Renders untrusted text on one line, isolated so that it cannot change the direction of the text around it.
pub(super) fn untrusted(text: &str) -> Markup {
    html! { bdi { (sanitize_line(text)) } }
}

/// Renders untrusted text with its line breaks.
pub(super) fn untrusted_lines(text: &str) -> Markup {
    html! { @for (at, line) in text.split('\n').enumerate() { @if at > 0 { "\n" } (sanitize_line(line)) } }
}

/// Renders a value that a program can find in the page: `data-field` is its path in the JSON of `/api`, and
/// `value` is its value there.
pub(super) fn api_value(field: &str, raw: &impl Serialize, text: &str) -> Markup {
    styled_value("number", field, raw, text)
}

fn styled_value(class: &str, field: &str, raw: &impl Serialize, text: &str) -> Markup {
    html! { data class=(class) data-field=[(!field.is_empty()).then_some(field)] value=(json!(raw).to_string()) { (text) } }
}

pub(super) fn count(field: &str, number: usize) -> Markup {
    api_value(field, &number, &group_digits(number as u64))
}

pub(super) fn tokens(field: &str, tokens: Tokens) -> Markup {
    api_value(field, &tokens.number(), &group_digits(tokens.number()))
}

/// Formats a number of tokens, or a dash if it is unknown.
pub(super) fn tokens_or_dash(tokens: Option<Tokens>) -> String {
    tokens.map_or_else(|| "–".to_owned(), |tokens| group_digits(tokens.number()))
}

/// Renders the dash that stands for an unknown value.
pub(super) fn dash() -> Markup {
    html! { span.soft { "–" } }
}

/// Renders a share from 0 to 1 as a percentage.
pub(super) fn share(field: &str, share: Option<f64>) -> Markup {
    share.map_or_else(dash, |share| api_value(field, &share, &format!("{:.1} %", 100.0 * share)))
}

/// Renders an amount of money that was spent.
pub(super) fn spent(field: &str, amount: Option<Dollars>) -> Markup {
    amount.map_or_else(dash, |Dollars(amount)| api_value(field, &amount, &dollars(amount)))
}

/// Renders an amount of money that was saved; a loss gets another colour.
pub(super) fn saved(field: &str, amount: Option<Dollars>) -> Markup {
    amount.map_or_else(dash, |Dollars(amount)| {
        let class = if amount < 0.0 { "number bad" } else { "number good" };
        styled_value(class, field, &amount, &dollars(amount))
    })
}

/// Renders a time as its distance from now (`5 min ago`), with the exact time as an attribute.
pub(super) fn time_since(at: Timestamp, now: Timestamp) -> Markup {
    let seconds = now.seconds_since(at) as u64;
    html! { time datetime=(at.to_string()) title=(utc_timestamp(at.0.div_euclid(1000))) { (time_ago(seconds)) } }
}

/// Renders a time as date and hour in UTC.
pub(super) fn timestamp(at: Timestamp) -> Markup {
    html! { time datetime=(at.to_string()) { (utc_timestamp(at.0.div_euclid(1000))) } }
}

/// Draws the share of the context window that is in use; nothing if one of the numbers is unknown.
pub(super) fn window_bar(tokens: Option<Tokens>, window: Option<Tokens>) -> Markup {
    let Some((tokens, window)) = tokens.zip(window) else { return html! {} };
    let of = format!("{} of {} tokens", group_digits(tokens.number()), group_digits(window.number()));
    bar(&[BarPart { color: 1, amount: tokens.number() as f64 }], window.number() as f64, &of)
}

/// Renders a tile: a name, a large value, and a line below it.
pub(super) fn tile(name: &str, value: &impl Render, more: &impl Render) -> Markup {
    html! { li.tile { span { (name) } b { (value) } span { (more) } } }
}

/// Formats tokens along an axis: `950`, `12k`, `1.2M`.
pub(super) fn axis_tokens(value: f64) -> String {
    let digits = |value: f64| usize::from(value.fract().abs() >= 0.05);
    match value {
        value if value >= 1e6 => format!("{:.*}M", digits(value / 1e6), value / 1e6),
        value if value >= 1e3 => format!("{:.*}k", digits(value / 1e3), value / 1e3),
        value => format!("{value:.0}"),
    }
}

/// Cuts a text after `most` characters, with an ellipsis.
pub(super) fn truncate_chars(text: &str, max_chars: usize) -> String {
    match text.char_indices().nth(max_chars) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Returns the path of a session's page; `below` is appended to it.
pub(super) fn session_url(session: &str, below: &str) -> String {
    let name: String = form_urlencoded::byte_serialize(session.as_bytes()).collect();
    // The form encoding writes a space as a plus sign, which means a plus sign in a path.
    format!("/sessions/{}{below}", name.replace('+', "%20"))
}

/// Returns the path of the page that shows the original of a recall ID.
pub(super) fn recall_url(session: &str, recall_id: &str) -> String {
    let recall_id: String = form_urlencoded::byte_serialize(recall_id.as_bytes()).collect();
    session_url(session, &format!("/recall/{recall_id}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_along_an_axis_are_short() {
        assert_eq!(
            [0.0, 950.0, 12_000.0, 12_500.0, 1_200_000.0].map(axis_tokens),
            ["0", "950", "12k", "12.5k", "1.2M"]
        );
    }

    #[test]
    fn names_are_escaped_in_urls() {
        assert_eq!(session_url("ab/../c d?#", "/undo"), "/sessions/ab%2F..%2Fc%20d%3F%23/undo");
        assert_eq!(truncate_chars("äöü", 2), "äö…");
    }
}
