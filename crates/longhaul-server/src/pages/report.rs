//! The page of `longhaul report`: one compaction, and a replay of its session, in a single HTML file.

use longhaul_engine::Tokens;
use longhaul_engine::cost::ReplayedRequest;
use maud::{Markup, html};

use super::chart::{Chart, ChartLine, LimitLine, XAxis, legend_key};
use super::compaction::{CompactionView, RenderOptions, message_list, overview};
use super::formatting::{dollar_tick, dollars, format_minutes, sanitize_line, short_count};
use super::{Theme, document, inline_style, pluralize};

/// The content security policy of the page: only its own style sheet, no script, no image and no network,
/// whatever the transcript contains.
const CONTENT_SECURITY_POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

/// The content of the page.
pub struct ReportPage<'r> {
    /// The name of the compacted session or file.
    pub subject: &'r str,
    /// The notices at the top of the page.
    pub notices: &'r [String],
    /// The compaction.
    pub compaction: &'r CompactionView,
    /// The replay of the session, or the reason why there is none.
    pub replay: Result<SessionReplay, String>,
}

/// A session replayed request by request, with several strategies.
pub struct SessionReplay {
    /// The strategies, in the order in which they are drawn.
    pub strategies: Vec<StrategyReplay>,
    /// The context window of the model.
    pub window: Tokens,
    /// The size at which a compaction is triggered.
    pub threshold: Tokens,
    /// The assumptions of the replay, printed above the charts.
    pub caption: String,
}

/// The replay with one strategy.
pub struct StrategyReplay {
    /// The name of the strategy.
    pub name: String,
    /// The requests of the session, in order.
    pub requests: Vec<ReplayedRequest>,
}

/// Renders the page.
#[must_use]
pub fn render_page(report: &ReportPage<'_>) -> String {
    let title = format!("One compaction of {}", report.subject);
    let head = html! {
        meta http-equiv="Content-Security-Policy" content=(CONTENT_SECURITY_POLICY);
        meta name="referrer" content="no-referrer";
        (inline_style())
    };
    let body = html! {
        main.broad {
            h1 { (sanitize_line(&title)) }
            @for notice in report.notices { p.notice { (sanitize_line(notice)) } }
            (overview(report.compaction))
            @match &report.replay {
                Ok(replay) => (replay_section(replay)),
                Err(why) => section { h2 { "Tokens and money over the session" } p.soft { (sanitize_line(why)) } },
            }
            (message_list(report.compaction, RenderOptions::default()))
        }
    };
    document(&title, Theme::System, &head, &body)
}

/// Renders the charts of tokens and money over the requests of the session.
fn replay_section(replay: &SessionReplay) -> Markup {
    html! {
        section #course {
            h2 { "Tokens and money over the session" }
            p.small.soft { (sanitize_line(&replay.caption)) }
            ul.legend {
                @for (color, strategy) in replay.strategies.iter().enumerate() {
                    li { (legend_key(STRATEGY_COLORS[color % STRATEGY_COLORS.len()])) b { (sanitize_line(&strategy.name)) } ": " (strategy_totals(strategy)) }
                }
                li.soft { "○ a compaction" }
            }
            figure {
                h3 { "Tokens sent with each request" }
                (strategy_chart(replay, "tokens", |_, turn| turn.tokens.number() as f64, &short_count))
            }
            figure {
                h3 { "Dollars spent so far" }
                (strategy_chart(replay, "dollars", |before, turn| before + turn.total_cost().0, &dollar_tick))
            }
        }
    }
}

/// The colours of the strategies, as indices into the colours of the style sheet.
const STRATEGY_COLORS: [usize; 3] = [0, 5, 2];

fn strategy_totals(strategy: &StrategyReplay) -> String {
    let usd: f64 = strategy.requests.iter().map(|turn| turn.total_cost().0).sum();
    let compactions = strategy.requests.iter().filter(|turn| turn.compaction.is_some()).count();
    format!("{}, {}", dollars(usd), pluralize(compactions, "compaction"))
}

fn strategy_chart(
    replay: &SessionReplay,
    unit: &str,
    value: fn(f64, &ReplayedRequest) -> f64,
    label: &dyn Fn(f64) -> String,
) -> Markup {
    let line = |(at, strategy): (usize, &StrategyReplay)| {
        let values = strategy.requests.iter().scan(0.0, |before, turn| {
            *before = value(*before, turn);
            Some(*before)
        });
        let dots = strategy.requests.iter().enumerate().filter(|(_, turn)| turn.compaction.is_some());
        ChartLine::from_values(STRATEGY_COLORS[at % STRATEGY_COLORS.len()], values).with_dots(dots.map(|(at, _)| at))
    };
    let lines: Vec<ChartLine> = replay.strategies.iter().enumerate().map(line).collect();
    let highest = lines.iter().flat_map(|line| &line.points).map(|point| point.y).fold(0.0, f64::max);
    let limits = [
        LimitLine { value: replay.window.number() as f64, name: "window" },
        LimitLine { value: replay.threshold.number() as f64, name: "threshold" },
    ];
    let (top, limits) = if unit == "tokens" {
        let window = replay.window.number() as f64;
        // A line may rise far above the window; the chart ends at three windows, so that the rest stays
        // readable.
        (if highest > window { (1.05 * highest).min(3.0 * window) } else { 1.1 * highest }, &limits[..])
    } else {
        (1.05 * highest, &[][..])
    };
    let first = replay.strategies.first().map_or(&[][..], |strategy| &strategy.requests);
    let when = |at: usize| first.get(at).map_or(String::new(), |turn| format_minutes(turn.at.as_secs_f64() / 60.0));
    let description = "one line for each strategy, over the requests of the session";
    Chart {
        title: unit,
        description,
        unit,
        lines: &lines,
        max_value: top,
        limits,
        format_value: label,
        x_axis: XAxis::Requests(&when),
    }
    .draw()
}
