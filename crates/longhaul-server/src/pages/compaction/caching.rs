//! What a provider's cache keeps of a body: the breakpoints, and from where on it has to be read anew.

use longhaul_engine::Tokens;
use longhaul_engine::cache::{self, By, Landmarks, Mark, Marking, Route, Weights};
use longhaul_engine::known::Known;
use longhaul_engine::models::Model;
use longhaul_engine::policy::CacheTtl;
use longhaul_engine::wire::{Lifetime, Part};

use super::side::Side;

/// The cache on both sides.
#[derive(Debug, Clone, Default)]
pub struct Caching {
    /// How a prefix gets into the cache, in words.
    pub status: String,
    /// The breakpoints before,
    pub before: Vec<Breakpoint>,
    /// and after.
    pub after: Vec<Breakpoint>,
    /// The message after, from which on the provider reads anew; none, where all is as it was.
    pub cold_from: Option<usize>,
}

/// A place at which a prefix ends that a provider keeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Breakpoint {
    /// Where it stands, in words.
    pub place: String,
    /// The message that it stands in.
    pub message: Option<usize>,
    /// The tokens up to it.
    pub tokens: Tokens,
    /// Whether the client set it; else the gateway would.
    pub by_client: bool,
    /// How long the prefix lives.
    pub lifetime: &'static str,
}

/// The breakpoints of a body: the client's, and those that would be set on this way.
pub(super) fn breakpoints(
    side: &Side<'_>,
    route: &Route,
    model: &Model,
    known: &mut Known,
) -> Vec<Breakpoint> {
    let reading = &side.reading;
    let sizes = Weights::new(&side.transcript, reading, model).prefixes(known);
    let marks: Vec<Mark> = match *route {
        Route::Marks { carrier, strategy, ttl, minimum } => {
            let lifetime = if ttl == CacheTtl::OneHour { Lifetime::OneHour } else { Lifetime::FiveMinutes };
            let first = sizes.iter().position(|size| *size >= minimum);
            let marking = Marking { strategy, lifetime, carrier, first };
            cache::marks(&Landmarks::of(&side.transcript, reading), reading, &marking)
        }
        Route::Key | Route::Automatic | Route::Off(_) => reading.marks.iter().map(Mark::from).collect(),
    };
    let breakpoint = |mark: &Mark| {
        let piece = mark.piece.and_then(|at| reading.pieces.get(at));
        let message = piece.filter(|piece| piece.part == Part::Messages).and_then(|piece| piece.message);
        let place = match (piece.map(|piece| piece.part), message) {
            (Some(Part::Tools), _) => "the tool definitions".to_owned(),
            (Some(Part::System), _) => "the system prompt".to_owned(),
            (_, Some(message)) => format!("message {message}"),
            _ => "the end of the messages".to_owned(),
        };
        let all = sizes.last().copied().unwrap_or_default();
        Breakpoint {
            place,
            message: message.map(|message| message as usize),
            tokens: mark.piece.and_then(|at| sizes.get(at)).copied().unwrap_or(all),
            by_client: mark.by == By::Client,
            lifetime: match mark.lifetime {
                Lifetime::FiveMinutes => "5 min",
                Lifetime::OneHour => "1 h",
            },
        }
    };
    marks.iter().map(breakpoint).collect()
}
