//! Hidden tool turns in the store, so that a gateway that was restarted sends them again.

use longhaul_engine::identity::Identity;
use longhaul_engine::redact::{Redacted, Redactor, Rules, SessionKey};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::dress::{Aside, Asides};
use crate::gateway::Gateway;
use crate::session::Session;
use crate::store::{HiddenTurn, Tenant};

/// A hidden turn as JSON. Its messages are kept byte for byte.
#[derive(Serialize, Deserialize)]
struct Written<'w> {
    shown: Vec<u8>,
    #[serde(borrow)]
    instead: Vec<&'w RawValue>,
    #[serde(borrow)]
    beside: Vec<&'w RawValue>,
}

impl Aside {
    /// The JSON of it; nothing where a secret stands in it. Redacted, its thinking would not match its signature any more.
    fn write(&self, rules: &Rules, key: &SessionKey) -> Option<Redacted> {
        let raw = |messages: &'_ [String]| -> Option<Vec<Box<RawValue>>> {
            messages.iter().map(|json| RawValue::from_string(json.clone()).ok()).collect()
        };
        let (instead, beside) = (raw(&self.instead)?, raw(&self.beside)?);
        let written = Written {
            shown: self.shown.0.to_vec(),
            instead: instead.iter().map(AsRef::as_ref).collect(),
            beside: beside.iter().map(AsRef::as_ref).collect(),
        };
        let json = serde_json::to_string(&written).ok()?;
        let redacted = Redactor::keyed(rules.clone(), key.clone()).redact_json_to_keep(&json).ok()?;
        (redacted.text.as_str() == json).then_some(redacted.text)
    }

    fn read(after: Identity, json: &str) -> Option<Self> {
        let written: Written<'_> = serde_json::from_str(json).ok()?;
        let shown = Identity(written.shown.try_into().ok()?);
        let text = |messages: Vec<&RawValue>| messages.iter().map(|json| json.get().to_owned()).collect();
        let (instead, beside) = (text(written.instead), text(written.beside));
        Some(Self { after, shown, instead, beside, is_stored: true })
    }
}

impl Gateway {
    /// Takes over what the store has of the session that a history goes on from, where that was not done yet.
    pub(in crate::gateway) async fn load_hidden_turns(
        &self,
        tenant: &Tenant,
        chain: &[Identity],
        asides: &mut Asides,
    ) {
        if asides.is_loaded {
            return;
        }
        match self.store.hidden_turns(tenant, chain).await {
            Ok(found) => {
                let read = |turn: HiddenTurn| Aside::read(turn.after, turn.turn?.as_str());
                // What this process has is newer.
                let own = std::mem::take(&mut asides.all);
                if let Some((session, turns)) = found {
                    let stored = turns.into_iter().filter_map(read);
                    asides.all = stored.filter(|old| own.iter().all(|new| new.after != old.after)).collect();
                    asides.stored_as = Some(session);
                }
                asides.all.extend(own);
                asides.is_loaded = true;
            }
            Err(error) => tracing::warn!("the store does not say what a model recalled: {error}"),
        }
    }

    /// Writes what the store does not have yet, and takes out of it what is not sent any more.
    pub(in crate::gateway) async fn keep_hidden_turns(
        &self,
        tenant: &Tenant,
        session: &Session,
        asides: &mut Asides,
    ) {
        let (Some(id), Some(key)) = (session.id(), session.key()) else { return };
        if asides.stored_as != Some(id) {
            asides.is_changed |= !asides.all.is_empty();
            asides.all.iter_mut().for_each(|aside| aside.is_stored = false);
            asides.stored_as = Some(id);
        }
        if !asides.is_changed {
            return;
        }
        let rules = &self.settings.session.rules;
        let turn = |aside: &Aside| {
            let turn = if aside.is_stored { None } else { Some(aside.write(rules, &key)?) };
            Some(HiddenTurn { after: aside.after, turn })
        };
        let turns = asides.all.iter().filter_map(turn).collect();
        match self.store.keep_hidden_turns(tenant, id, turns).await {
            Ok(()) => {
                asides.all.iter_mut().for_each(|aside| aside.is_stored = true);
                asides.is_changed = false;
            }
            Err(error) => tracing::warn!("the store did not keep what a model recalled: {error}"),
        }
    }
}
