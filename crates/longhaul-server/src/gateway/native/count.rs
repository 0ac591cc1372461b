//! What a request comes to before its edits were made: a count of tokens says both.

use longhaul_engine::known::Known;
use longhaul_engine::meter::Meter;
use longhaul_engine::{Dialect, Tokens, models, wire};
use serde_json::{Value, json};

use super::told::put;
use super::{MANAGED, Taken};

/// What the tokens of a request come to, as we count.
pub(super) fn size(dialect: Dialect, text: &str) -> Tokens {
    let Ok((transcript, _)) = wire::parse(dialect, text) else { return Tokens::ZERO };
    let model = models::find(transcript.model.as_deref().unwrap_or_default());
    Meter::of(&model).parts(&mut Known::default(), &transcript).total()
}

/// What is to be said of a count: how much less it is than the client's own request.
pub(in crate::gateway) struct Count {
    less: Tokens,
}

impl Count {
    /// For a request that was taken, and what is counted in its place; nothing where it asks for no edits.
    pub(in crate::gateway) fn of(taken: &Taken, sent: Option<&str>) -> Option<Self> {
        taken.says.as_ref()?;
        let own = std::str::from_utf8(&taken.body).unwrap_or_default();
        let folded =
            sent.map_or(Tokens::ZERO, |sent| size(Dialect::Messages, own) - size(Dialect::Messages, sent));
        Some(Self { less: taken.saved + folded })
    }

    /// The provider's count with it; nothing where it is none.
    pub(in crate::gateway) fn told(&self, counted: &str) -> Option<String> {
        let value: Value = serde_json::from_str(counted).ok()?;
        let original = Tokens(value["input_tokens"].as_u64()?) + self.less;
        put(counted, MANAGED, &json!({"original_input_tokens": original.number()}).to_string())
    }
}
