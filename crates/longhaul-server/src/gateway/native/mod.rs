//! What one provider has and others lack, served for those: `POST /v1/responses/compact` with its items, and `context_management` of a
//! Messages request with its blocks.
//!
//! ```text
//! request ──unfold──▶ what compactions stand for, in their place ──clear──▶ what the client wants gone ──▶ the session, as ever
//!                                                                            └─ compact: by the session ──seal──▶ item or block
//! answer ◀──told── what was done, in the provider's own shape ◀── upstream
//! ```
//!
//! - `wanted` reads what a request asks for; what it asks for and we cannot do is refused in the provider's words.
//! - `seal` makes what a client is handed of a compaction: all of it, signed with the tenant's key. Nothing of it is looked up, so that
//!   it lasts as long as the client keeps it, and says the same each time.
//! - `unfold` puts that back where it comes again, before anybody else looks. `clear` takes out what the client wants gone.
//! - `compact` lets the session make a compaction, and answers `/v1/responses/compact`; `told` adds to answers.
//!
//! What must hold: an upstream that has a feature gets every byte. What is done to a history is a function of it alone, so that what was
//! sent once is sent again. A call and its result stay together.

mod clear;
mod compact;
mod count;
mod seal;
mod told;
mod unfold;
mod wanted;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use longhaul_engine::{Dialect, Edit, Rewrite, Tokens, models, wire};
use memchr::memmem;

pub(super) use compact::{fold, paused};
pub(super) use count::Count;
pub(super) use seal::Seal;
pub(super) use told::{Says, Told};

use super::Gateway;
use super::body::MAX_INLINE_BYTES;
use crate::pool::Owner;
use crate::upstream::Feature;

/// The head that switches features on that are not everybody's yet, and the names of ours.
const BETA: HeaderName = HeaderName::from_static("anthropic-beta");
const BETAS: [&str; 2] = ["context-management-2025-06-27", "compact-2026-01-12"];
/// The field of a request that asks for edits, and of an answer that says what was done.
const MANAGED: &str = "context_management";
/// What is handed out of a compaction calls itself so.
const COMPACTION: &str = "compaction";

/// A request of which something was for us.
pub(super) struct Taken {
    /// What goes on.
    pub(super) body: Bytes,
    /// What its answer is to say.
    pub(super) says: Option<Says>,
    /// The compaction that is due by what it asks for.
    pub(super) due: Option<Due>,
    /// Whether it goes on from a compaction that the client was handed.
    pub(super) is_continued: bool,
    /// The tokens that were cleared.
    pub(super) saved: Tokens,
    /// What was done, for a header.
    pub(super) served: Vec<&'static str>,
}

/// A compaction that a request asks for.
pub(super) struct Due {
    pub(super) focus: Option<String>,
    /// The size wanted.
    pub(super) to_tokens: Tokens,
    /// Whether the client wants to see it before anything is asked.
    pub(super) pauses: bool,
}

/// Takes out of a request what its upstream lacks, in the pool. Nothing where nothing is for us, or something went wrong with us; an
/// error where the client could be misled.
pub(super) async fn take(
    gateway: &Gateway,
    owner: Owner,
    seal: &Seal,
    dialect: Dialect,
    text: &Bytes,
) -> Result<Option<Taken>, String> {
    let upstream = gateway.settings.upstreams.of(dialect);
    let is_lacking = Feature::ALL.into_iter().any(|own| own.dialect() == dialect && !upstream.has(own));
    if !is_lacking || (text.len() <= MAX_INLINE_BYTES && !may_be_for_us(text)) {
        return Ok(None);
    }
    let (seal, text) = (seal.clone(), text.clone());
    let read = move || {
        if !may_be_for_us(&text) {
            return Ok(None);
        }
        taken(&seal, dialect, std::str::from_utf8(&text).unwrap_or_default())
    };
    gateway.pool.compute(owner, read).await.unwrap_or(Ok(None))
}

/// Whether a request names anything that only one provider has.
fn may_be_for_us(text: &[u8]) -> bool {
    let has = |word: &str| memmem::find(text, format!("\"{word}\"").as_bytes()).is_some();
    has(COMPACTION) || has(MANAGED)
}

fn taken(seal: &Seal, dialect: Dialect, text: &str) -> Result<Option<Taken>, String> {
    let unfolded = unfold::unfold(dialect, text, seal);
    if unfolded.foreign > 0 {
        tracing::warn!("{} compactions are not ours to read, and go as they came", unfolded.foreign);
    }
    let mut served = Vec::new();
    if unfolded.body.is_some() {
        served.push(COMPACTION);
    }
    let is_continued = unfolded.body.is_some() && unfolded.is_ours;
    let text = unfolded.body.as_deref().unwrap_or(text);
    let wanted = if dialect == Dialect::Messages { wanted::Wanted::of(text)? } else { None };
    let Some(wanted) = wanted else {
        let whole = |body: &String| Taken {
            body: Bytes::from(body.clone()),
            says: None,
            due: None,
            is_continued,
            saved: Tokens::ZERO,
            served: served.clone(),
        };
        return Ok(unfolded.body.as_ref().map(whole));
    };
    let Ok((transcript, _)) = wire::parse(dialect, text) else { return Ok(None) };
    let model = models::find(transcript.model.as_deref().unwrap_or_default());
    let mut cleared = clear::clear(&wanted, &transcript, &model);
    cleared.edits.push(Edit::Unset { object: transcript.root(), key: MANAGED });
    let Ok(rewrite) = Rewrite::new(&transcript, cleared.edits) else { return Ok(None) };
    served.push(MANAGED);
    let due = wanted.compact.filter(|compact| cleared.left >= compact.trigger).map(|compact| Due {
        focus: compact.instructions,
        to_tokens: share(cleared.left),
        pauses: compact.pauses,
    });
    Ok(Some(Taken {
        body: Bytes::from(rewrite.apply(text)),
        says: Some(Says { edits: cleared.applied, block: None }),
        due,
        is_continued,
        saved: cleared.saved,
        served,
    }))
}

/// What a client that asks for a compaction is left of so many tokens: as much as the policy leaves of what reaches its threshold.
fn share(whole: Tokens) -> Tokens {
    Tokens(whole.number() / 4)
}

/// Takes the names of what was served out of a head: an upstream that lacks it may not know them.
pub(super) fn without_betas(headers: &mut HeaderMap) {
    let values = headers.get_all(BETA).iter().filter_map(|names| names.to_str().ok());
    let names = values.flat_map(|names| names.split(',')).map(str::trim);
    let others: Vec<&str> = names.filter(|name| !name.is_empty() && !BETAS.contains(name)).collect();
    match HeaderValue::from_str(&others.join(",")) {
        Ok(others) if !others.is_empty() => drop(headers.insert(BETA, others)),
        _ => drop(headers.remove(BETA)),
    }
}
