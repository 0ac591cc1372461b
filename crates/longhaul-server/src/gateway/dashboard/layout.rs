//! What all pages of the dashboard look alike in.

use axum::response::{IntoResponse, Response};
use http::header::CONTENT_TYPE;
use longhaul_engine::Tokens;
use longhaul_engine::prices::Dollars;
use maud::{Markup, Render, html};
use serde::Serialize;
use serde_json::json;

use super::frame::Look;
use crate::agents::Moment;
use crate::pages::{self, Part, Theme, ago, bar, dollars, grouped, shown, stamp};

/// Whether a page asks for itself again when there is something new.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refresh {
    Live,
    Never,
}

/// A page.
pub(super) struct Page<'p> {
    pub(super) title: &'p str,
    pub(super) look: &'p Look,
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
            a.skip href="#main" { "To the content" }
            (top(self.look))
            main.broad id="main" tabindex="-1" { (self.body) }
        };
        let title = format!("{} · Longhaul", self.title);
        let text = pages::document(&title, self.look.theme, &head, &body);
        ([(CONTENT_TYPE, "text/html; charset=utf-8")], text).into_response()
    }
}

fn top(look: &Look) -> Markup {
    let themes =
        [(Theme::System, "system", "Auto"), (Theme::Light, "light", "Light"), (Theme::Dark, "dark", "Dark")];
    html! {
        nav.top aria-label="Longhaul" {
            b { a href="/" aria-current=[(look.path == "/").then_some("page")] { "Longhaul" } }
            form.themes method="post" action="/theme" {
                input type="hidden" name="to" value=(look.path);
                fieldset {
                    legend.hidden { "Colours" }
                    @for (theme, name, label) in themes {
                        button name="theme" value=(name) aria-pressed=(if look.theme == theme { "true" } else { "false" }) { (label) }
                    }
                }
            }
            @if look.has_pass {
                form method="post" action="/logout" { button type="submit" { "Leave" } }
            }
        }
    }
}

/// Somebody else's text on one line, which turns nothing around it.
pub(super) fn theirs(text: &str) -> Markup {
    html! { bdi { (shown(text)) } }
}

/// Somebody else's text, line by line.
pub(super) fn lines(text: &str) -> Markup {
    html! { @for (at, line) in text.split('\n').enumerate() { @if at > 0 { "\n" } (shown(line)) } }
}

/// A number that programs can find: where it is among the values of `/api`, and what it is there.
pub(super) fn value(field: &str, raw: &impl Serialize, text: &str) -> Markup {
    toned("number", field, raw, text)
}

fn toned(class: &str, field: &str, raw: &impl Serialize, text: &str) -> Markup {
    html! { data class=(class) data-field=[(!field.is_empty()).then_some(field)] value=(json!(raw).to_string()) { (text) } }
}

pub(super) fn count(field: &str, number: usize) -> Markup {
    value(field, &number, &grouped(number as u64))
}

pub(super) fn tokens(field: &str, tokens: Tokens) -> Markup {
    value(field, &tokens.number(), &grouped(tokens.number()))
}

/// Tokens, where they are known.
pub(super) fn maybe_tokens(tokens: Option<Tokens>) -> String {
    tokens.map_or_else(|| "–".to_owned(), |tokens| grouped(tokens.number()))
}

/// In the place of what nobody said.
pub(super) fn unknown() -> Markup {
    html! { span.soft { "–" } }
}

/// A share from 0 to 1, as a percentage.
pub(super) fn share(field: &str, share: Option<f64>) -> Markup {
    share.map_or_else(unknown, |share| value(field, &share, &format!("{:.1} %", 100.0 * share)))
}

/// Money that was spent.
pub(super) fn spent(field: &str, amount: Option<Dollars>) -> Markup {
    amount.map_or_else(unknown, |Dollars(amount)| value(field, &amount, &dollars(amount)))
}

/// Money that was saved; a loss is seen at once.
pub(super) fn saved(field: &str, amount: Option<Dollars>) -> Markup {
    amount.map_or_else(unknown, |Dollars(amount)| {
        let class = if amount < 0.0 { "number bad" } else { "number good" };
        toned(class, field, &amount, &dollars(amount))
    })
}

/// A moment, exactly for programs and by how long ago for people.
pub(super) fn since(at: Moment, now: Moment) -> Markup {
    let seconds = now.seconds_since(at) as u64;
    html! { time datetime=(at.to_string()) title=(stamp(at.0.div_euclid(1000))) { (ago(seconds)) } }
}

/// A moment by the clock.
pub(super) fn clock(at: Moment) -> Markup {
    html! { time datetime=(at.to_string()) { (stamp(at.0.div_euclid(1000))) } }
}

/// How full a window is.
pub(super) fn filled(tokens: Option<Tokens>, window: Option<Tokens>) -> Markup {
    let Some((tokens, window)) = tokens.zip(window) else { return html! {} };
    let of = format!("{} of {} tokens", grouped(tokens.number()), grouped(window.number()));
    bar(&[Part { color: 1, amount: tokens.number() as f64 }], window.number() as f64, &of)
}

/// A card: what it is, and what it says.
pub(super) fn tile(name: &str, says: &impl Render, more: &impl Render) -> Markup {
    html! { li.tile { span { (name) } b { (says) } span { (more) } } }
}

/// `950`, `12k`, `1.2M`: tokens along an axis.
pub(super) fn short(value: f64) -> String {
    let digits = |value: f64| usize::from(value.fract().abs() >= 0.05);
    match value {
        value if value >= 1e6 => format!("{:.*}M", digits(value / 1e6), value / 1e6),
        value if value >= 1e3 => format!("{:.*}k", digits(value / 1e3), value / 1e3),
        value => format!("{value:.0}"),
    }
}

/// The beginning of a text.
pub(super) fn clipped(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// The address of a session's page, or of one below it.
pub(super) fn address(session: &str, below: &str) -> String {
    let name: String = form_urlencoded::byte_serialize(session.as_bytes()).collect();
    // What forms write as a plus is one in a path.
    format!("/sessions/{}{below}", name.replace('+', "%20"))
}

/// The address at which a handle of a session's family opens.
pub(super) fn handle(session: &str, handle: &str) -> String {
    let handle: String = form_urlencoded::byte_serialize(handle.as_bytes()).collect();
    address(session, &format!("/recall/{handle}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_along_an_axis_are_short() {
        assert_eq!(
            [0.0, 950.0, 12_000.0, 12_500.0, 1_200_000.0].map(short),
            ["0", "950", "12k", "12.5k", "1.2M"]
        );
    }

    #[test]
    fn names_stay_within_their_part_of_an_address() {
        assert_eq!(address("ab/../c d?#", "/undo"), "/sessions/ab%2F..%2Fc%20d%3F%23/undo");
        assert_eq!(clipped("äöü", 2), "äö…");
    }
}
