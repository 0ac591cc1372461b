//! Stores hidden tool turns, so that a restarted gateway can send them again.

use longhaul_engine::keyed_hash::KeyedHash;
use longhaul_engine::redact::{Redacted, Redactor, Rules, SessionKey};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::inject::{HiddenToolTurn, HiddenToolTurns};
use crate::gateway::Gateway;
use crate::session::LiveSession;
use crate::store::{HiddenTurn, Tenant};

/// The stored JSON of a hidden turn. Its messages are kept byte for byte.
#[derive(Serialize, Deserialize)]
struct StoredTurnJson<'w> {
    shown: Vec<u8>,
    #[serde(borrow, rename = "instead")]
    replacement: Vec<&'w RawValue>,
    #[serde(borrow, rename = "beside")]
    extra_results: Vec<&'w RawValue>,
}

impl HiddenToolTurn {
    /// Returns the turn as JSON; none if it contains a secret. Redacted thinking would no longer match its
    /// signature.
    fn to_json(&self, rules: &Rules, key: &SessionKey) -> Option<Redacted> {
        let raw = |messages: &'_ [String]| -> Option<Vec<Box<RawValue>>> {
            messages.iter().map(|json| RawValue::from_string(json.clone()).ok()).collect()
        };
        let (replacement, extra_results) = (raw(&self.replacement)?, raw(&self.extra_results)?);
        let stored_json = StoredTurnJson {
            shown: self.shown_hash.0.to_vec(),
            replacement: replacement.iter().map(AsRef::as_ref).collect(),
            extra_results: extra_results.iter().map(AsRef::as_ref).collect(),
        };
        let json = serde_json::to_string(&stored_json).ok()?;
        let redacted = Redactor::keyed(rules.clone(), key.clone()).redact_json_for_storage(&json).ok()?;
        (redacted.text.as_str() == json).then_some(redacted.text)
    }

    fn from_json(answered_message: KeyedHash, json: &str) -> Option<Self> {
        let stored_json: StoredTurnJson<'_> = serde_json::from_str(json).ok()?;
        let shown = KeyedHash(stored_json.shown.try_into().ok()?);
        let text = |messages: Vec<&RawValue>| messages.iter().map(|json| json.get().to_owned()).collect();
        let (replacement, extra_results) = (text(stored_json.replacement), text(stored_json.extra_results));
        Some(Self { answered_message, shown_hash: shown, replacement, extra_results, is_stored: true })
    }
}

impl Gateway {
    /// Loads the stored turns of the session that a history continues, unless they are loaded already.
    pub(in crate::gateway) async fn load_hidden_turns(
        &self,
        tenant: &Tenant,
        chain: &[KeyedHash],
        hidden_turns: &mut HiddenToolTurns,
    ) {
        if hidden_turns.is_loaded {
            return;
        }
        match self.store.hidden_turns(tenant, chain).await {
            Ok(stored_turns) => {
                let read = |turn: HiddenTurn| HiddenToolTurn::from_json(turn.after, turn.json?.as_str());
                // The turns of this process are newer.
                let newer_turns = std::mem::take(&mut hidden_turns.turns);
                if let Some((session, turns)) = stored_turns {
                    let stored = turns.into_iter().filter_map(read);
                    hidden_turns.turns = stored
                        .filter(|old| newer_turns.iter().all(|new| new.answered_message != old.answered_message))
                        .collect();
                    hidden_turns.stored_session = Some(session);
                }
                hidden_turns.turns.extend(newer_turns);
                hidden_turns.is_loaded = true;
            }
            Err(error) => tracing::warn!("cannot load hidden tool turns from the store: {error}"),
        }
    }

    /// Stores the turns that the store lacks, and removes those that are no longer sent.
    pub(in crate::gateway) async fn store_hidden_turns(
        &self,
        tenant: &Tenant,
        session: &LiveSession,
        hidden_turns: &mut HiddenToolTurns,
    ) {
        let (Some(id), Some(key)) = (session.id(), session.key()) else { return };
        if hidden_turns.stored_session != Some(id) {
            hidden_turns.needs_save |= !hidden_turns.turns.is_empty();
            hidden_turns.turns.iter_mut().for_each(|hidden_turn| hidden_turn.is_stored = false);
            hidden_turns.stored_session = Some(id);
        }
        if !hidden_turns.needs_save {
            return;
        }
        let rules = &self.settings.session.rules;
        let turn = |hidden_turn: &HiddenToolTurn| {
            let turn = if hidden_turn.is_stored { None } else { Some(hidden_turn.to_json(rules, &key)?) };
            Some(HiddenTurn { after: hidden_turn.answered_message, json: turn })
        };
        let turns = hidden_turns.turns.iter().filter_map(turn).collect();
        match self.store.replace_hidden_turns(tenant, id, turns).await {
            Ok(()) => {
                hidden_turns.turns.iter_mut().for_each(|hidden_turn| hidden_turn.is_stored = true);
                hidden_turns.needs_save = false;
            }
            Err(error) => tracing::warn!("cannot record hidden tool turns in the store: {error}"),
        }
    }
}
