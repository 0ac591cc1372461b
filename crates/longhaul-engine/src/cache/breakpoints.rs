//! Chooses where cache breakpoints are set, and makes the edits that set them.
//!
//! The client's own breakpoints come first: they count against the provider's limit, stay as far as it
//! allows, and never become too many or invalid because of ours. With every strategy, a breakpoint is set
//! only where the provider accepts one, and only after a prefix that is long enough to be cached.

use super::caching_mode::BreakpointCarrier;
use super::prefix_chain::{PrefixChain, PrefixLink};
use super::volatile::{ChangeFrequency, find_volatile_text};
use crate::policy::CacheStrategy;
use crate::rewrite::Edit;
use crate::transcript::{TextEncoding, TextSpan, Transcript, TurnKind};
use crate::wire::{
    BreakpointTarget, CACHE_CONTROL_FIELD, CacheLifetime, ClientBreakpoint, PromptOrder, PromptPart, PromptPiece, Role,
};

/// The largest number of breakpoints in a request that providers accept (rule A27).
pub const MAX_BREAKPOINTS: usize = 4;

/// How many pieces back, counting its own, a provider searches from a breakpoint for a cached prefix (rule
/// A32).
pub const LOOKBACK_PIECES: usize = 20;

/// A cache breakpoint on a piece of the prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Breakpoint {
    /// The index of the piece; `None` for a `cache_control` at the top level of the client's request, which
    /// applies to the last piece.
    pub piece: Option<usize>,
    /// How long the prefix up to it stays cached.
    pub lifetime: CacheLifetime,
    /// Who set it.
    pub owner: BreakpointOwner,
}

impl From<&ClientBreakpoint> for Breakpoint {
    fn from(breakpoint: &ClientBreakpoint) -> Self {
        Self { piece: breakpoint.piece, lifetime: breakpoint.lifetime, owner: BreakpointOwner::Client }
    }
}

/// Who set a breakpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum BreakpointOwner {
    /// The client: it was in the request.
    Client,
    /// Longhaul: it is new.
    Longhaul,
}

/// How breakpoints are set in a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BreakpointOptions {
    /// The strategy that chooses their positions.
    pub strategy: CacheStrategy,
    /// How long the prefixes stay cached.
    pub lifetime: CacheLifetime,
    /// The part of a Chat Completions request that carries a breakpoint.
    pub carrier: BreakpointCarrier,
    /// The first piece at which the prefix is long enough to be cached; `None` if the whole prompt is too
    /// short.
    pub first_cacheable: Option<usize>,
}

/// Pieces that stay in place while a request grows, so that they have to be found only once in a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StablePieces {
    /// The end of the part of the prompt that is the same in every request; at most the start of the
    /// messages.
    stable_end: usize,
    /// The piece with the checkpoint of an earlier compaction.
    checkpoint: Option<usize>,
}

impl StablePieces {
    /// Finds the stable pieces of a request.
    #[must_use]
    pub fn find(transcript: &Transcript<'_>, prompt_order: &PromptOrder) -> Self {
        let changes = find_volatile_text(transcript.body, prompt_order)
            .into_iter()
            .find(|v| v.frequency == ChangeFrequency::Request);
        let system = prompt_order.pieces.partition_point(|piece| piece.part <= PromptPart::System);
        let newest = transcript.turns.iter().rev().find_map(|turn| match &turn.kind {
            TurnKind::Checkpoint(block) => Some(block.at),
            _ => None,
        });
        let holds = |at| prompt_order.pieces.iter().position(|piece| piece.at.contains(at));
        Self { stable_end: changes.map_or(system, |v| v.piece), checkpoint: newest.and_then(holds) }
    }

    /// Returns the last piece that they depend on: they stay valid as long as everything up to it is
    /// unchanged.
    #[must_use]
    pub fn last_piece(&self) -> usize {
        self.checkpoint.map_or(self.stable_end, |at| at.max(self.stable_end))
    }
}

/// Returns the client's breakpoints that exceed the provider's limit. Those before the messages stay, because
/// every request of the session reads that part, and so does the newest one in the messages.
#[must_use]
pub fn surplus_breakpoints(prompt_order: &PromptOrder) -> Vec<ClientBreakpoint> {
    split_surplus(prompt_order, prompt_order.breakpoints.clone()).1
}

/// Splits breakpoints into those that stay and those that are too many, both in the provider's order.
pub(crate) fn split_surplus(
    prompt_order: &PromptOrder,
    breakpoints: Vec<ClientBreakpoint>,
) -> (Vec<ClientBreakpoint>, Vec<ClientBreakpoint>) {
    let is_before = |breakpoint: &ClientBreakpoint| {
        breakpoint.piece.is_some_and(|at| prompt_order.pieces[at].part < PromptPart::Messages)
    };
    let (mut before, mut in_messages): (Vec<_>, Vec<_>) = breakpoints.into_iter().partition(is_before);
    let for_the_newest = in_messages.len().min(1);
    let kept_before = before.split_off(before.len().saturating_sub(MAX_BREAKPOINTS - for_the_newest));
    let kept_in_messages = in_messages.split_off(in_messages.len().saturating_sub(MAX_BREAKPOINTS - kept_before.len()));
    ([kept_before, kept_in_messages].concat(), [before, in_messages].concat())
}

/// Returns all breakpoints of the request, including the client's, in the provider's order.
#[must_use]
pub fn place_breakpoints(
    stable_pieces: &StablePieces,
    prompt_order: &PromptOrder,
    options: &BreakpointOptions,
) -> Vec<Breakpoint> {
    let (client, _) = split_surplus(prompt_order, prompt_order.breakpoints.clone());
    let mut breakpoints: Vec<Breakpoint> = client.iter().map(Breakpoint::from).collect();
    let Some(first) = options.first_cacheable else { return breakpoints };
    let places = BreakpointPlacer { stable_pieces, prompt_order, options };
    let wanted = match options.strategy {
        CacheStrategy::SystemAndThree => places.system_and_three_targets(),
        CacheStrategy::Prefix => places.prefix_targets(),
    };
    let room = MAX_BREAKPOINTS.saturating_sub(breakpoints.len());
    let mut ours: Vec<usize> = Vec::new();
    for piece in wanted.into_iter().filter(|&piece| piece >= first && !places.has_client_breakpoint(piece)) {
        if ours.len() < room && !ours.contains(&piece) {
            ours.push(piece);
        }
    }
    let client = breakpoints.clone();
    breakpoints.extend(ours.into_iter().map(|piece| {
        let lifetime = allowed_lifetime(&client, piece, options.lifetime);
        Breakpoint { piece: Some(piece), lifetime, owner: BreakpointOwner::Longhaul }
    }));
    breakpoints.sort_by_key(|breakpoint| breakpoint.piece.unwrap_or(usize::MAX));
    breakpoints
}

/// Returns the edits that set our breakpoints and remove the client's surplus ones.
#[must_use]
pub fn breakpoint_edits(body: &str, prompt_order: &PromptOrder, breakpoints: &[Breakpoint]) -> Vec<Edit> {
    let new = breakpoints.iter().filter(|breakpoint| breakpoint.owner == BreakpointOwner::Longhaul);
    let set = new.filter_map(|breakpoint| {
        set_breakpoint_edit(body, prompt_order.pieces[breakpoint.piece?].breakpoint_target, breakpoint.lifetime)
    });
    set.chain(surplus_breakpoints(prompt_order).iter().map(remove_breakpoint_edit)).collect()
}

/// Returns the edit that removes a breakpoint of the client.
#[must_use]
pub fn remove_breakpoint_edit(breakpoint: &ClientBreakpoint) -> Edit {
    Edit::Unset { object: breakpoint.object, key: CACHE_CONTROL_FIELD }
}

fn set_breakpoint_edit(body: &str, target: BreakpointTarget, lifetime: CacheLifetime) -> Option<Edit> {
    let cache_control = match lifetime {
        CacheLifetime::FiveMinutes => r#"{"type":"ephemeral"}"#,
        CacheLifetime::OneHour => r#"{"type":"ephemeral","ttl":"1h"}"#,
    };
    match target {
        BreakpointTarget::Block(object) | BreakpointTarget::Message(object) => {
            Some(Edit::Set { object, key: CACHE_CONTROL_FIELD, json: cache_control.to_owned() })
        }
        // Keep the bytes of the string and wrap them in a block.
        BreakpointTarget::String(at) => Some(Edit::Text {
            text: TextSpan { at, encoding: TextEncoding::Json },
            with: format!(
                r#"[{{"type":"text","text":{},"{CACHE_CONTROL_FIELD}":{cache_control}}}]"#,
                &body[at.range()]
            ),
        }),
        BreakpointTarget::None => None,
    }
}

/// Returns the edit that sets `prompt_cache_key`, unless the client has set one or the request has no place
/// for it.
#[must_use]
pub fn set_cache_key_edit(prompt_order: &PromptOrder, key: &str) -> Option<Edit> {
    let json = format!("\"{}\"", crate::json::escape(key));
    let object = prompt_order.root.filter(|_| !prompt_order.has_cache_key)?;
    Some(Edit::Set { object, key: "prompt_cache_key", json })
}

/// Returns a cache key for all requests of one session, from the first message. Returns `None` for an empty
/// request.
#[must_use]
pub fn session_cache_key(chain: &PrefixChain) -> Option<String> {
    let begins = |link: &&PrefixLink| link.part == PromptPart::Messages;
    let first = chain.links.iter().find(begins).or(chain.links.last())?;
    Some(format!("longhaul-{}", first.prefix))
}

/// Returns the wanted lifetime, or the one that the client's breakpoints allow: an hour must never follow
/// five minutes (rule A28).
fn allowed_lifetime(client: &[Breakpoint], piece: usize, wanted: CacheLifetime) -> CacheLifetime {
    let at = |breakpoint: &Breakpoint| breakpoint.piece.unwrap_or(usize::MAX);
    if client.iter().any(|breakpoint| at(breakpoint) > piece && breakpoint.lifetime == CacheLifetime::OneHour) {
        return CacheLifetime::OneHour;
    }
    let after_short =
        client.iter().any(|breakpoint| at(breakpoint) < piece && breakpoint.lifetime == CacheLifetime::FiveMinutes);
    if after_short { CacheLifetime::FiveMinutes } else { wanted }
}

/// Chooses the pieces of a request that get breakpoints.
struct BreakpointPlacer<'t> {
    stable_pieces: &'t StablePieces,
    prompt_order: &'t PromptOrder,
    options: &'t BreakpointOptions,
}

impl BreakpointPlacer<'_> {
    /// Returns the pieces for the strategy `system_and_3`, best first: the end of the system prompt and the
    /// three newest messages.
    fn system_and_three_targets(&self) -> Vec<usize> {
        let mut wanted: Vec<usize> =
            self.last_target(0..self.end_of_part(PromptPart::System), PromptPart::System).into_iter().collect();
        wanted.extend(self.message_targets().take(3));
        wanted
    }

    /// Returns the pieces for the strategy `prefix`, best first: the newest message, the stable part of the
    /// system prompt, the end of the previous request if that is too far back to be found from the newest
    /// message, the newest checkpoint, and the tools.
    fn prefix_targets(&self) -> Vec<usize> {
        let stable = self.stable_pieces.stable_end;
        let newest = self.message_targets().next();
        [
            newest,
            self.last_target(0..stable, PromptPart::System),
            newest.and_then(|newest| self.end_of_previous_request(newest)),
            self.stable_pieces.checkpoint.filter(|at| self.can_carry_breakpoint(&self.pieces()[*at])),
            self.last_target(0..stable, PromptPart::Tools),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    fn pieces(&self) -> &[PromptPiece] {
        &self.prompt_order.pieces
    }

    fn can_carry_breakpoint(&self, piece: &PromptPiece) -> bool {
        match piece.breakpoint_target {
            BreakpointTarget::Block(_) | BreakpointTarget::String(_) => true,
            BreakpointTarget::Message(_) => self.options.carrier == BreakpointCarrier::Message,
            BreakpointTarget::None => false,
        }
    }

    /// Returns the first piece after a part of the prompt.
    fn end_of_part(&self, part: PromptPart) -> usize {
        self.pieces().partition_point(|piece| piece.part <= part)
    }

    fn last_target(&self, among: std::ops::Range<usize>, part: PromptPart) -> Option<usize> {
        among.rev().find(|&at| self.pieces()[at].part == part && self.can_carry_breakpoint(&self.pieces()[at]))
    }

    /// Returns for each message the last piece that can carry a breakpoint, newest message first.
    fn message_targets(&self) -> impl Iterator<Item = usize> {
        let mut before = None;
        let targets = match self.options.carrier {
            BreakpointCarrier::Message => self.prompt_order.targets(),
            BreakpointCarrier::Content => self.prompt_order.block_targets(),
        };
        targets.iter().rev().copied().filter(move |&at| {
            let message = self.pieces()[at].message;
            before.replace(message) != Some(message)
        })
    }

    /// Whether the client has set a breakpoint in the same message; for the system prompt and the tools, in
    /// the same part.
    fn has_client_breakpoint(&self, at: usize) -> bool {
        let place = |at: usize| {
            let piece = &self.pieces()[at];
            (piece.part, piece.message.filter(|_| piece.part == PromptPart::Messages))
        };
        let last = || self.message_targets().next();
        let marked = self.prompt_order.breakpoints.iter().filter_map(|breakpoint| breakpoint.piece.or_else(last));
        marked.into_iter().any(|marked| place(marked) == place(at))
    }

    /// Returns the end of the previous request, if it is too far back to be found from the newest breakpoint.
    fn end_of_previous_request(&self, newest: usize) -> Option<usize> {
        let is_reply = |at: &usize| self.pieces()[*at].role == Some(Role::Assistant);
        let start = self.end_of_part(PromptPart::System);
        let reply = (start..=newest).rev().find(is_reply)?;
        let begins = (start..reply).rev().find(|at| !is_reply(at))?;
        let before = (start..=begins).rev().find(|&at| self.can_carry_breakpoint(&self.pieces()[at]))?;
        (newest - before >= LOOKBACK_PIECES).then_some(before)
    }
}
