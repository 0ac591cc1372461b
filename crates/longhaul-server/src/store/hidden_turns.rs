//! The hidden tool turns of a session: recall calls of its model and their results, which the client never
//! saw. The gateway sends them again with every request, so they must survive its restart.

use longhaul_engine::keyed_hash::KeyedHash;
use longhaul_engine::redact::Redacted;

use super::error::Result;
use super::message_log;
use super::session::SessionId;
use super::sql::Sql;
use super::tenant::Tenant;
use super::{Store, in_transaction};

/// One hidden tool turn as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HiddenTurn {
    /// The hash of the message that the turn answered.
    pub after: KeyedHash,
    /// The turn as JSON, or `None` if the store has it already.
    pub json: Option<Redacted>,
}

/// The session that a history continues, with its hidden turns; `None` if there is no such session.
type SessionHiddenTurns = Option<(SessionId, Vec<HiddenTurn>)>;

/// Replaces the hidden turns of a session by `turns`, which lists all of them in order. Stores nothing for a
/// deleted session.
async fn replace_turns(sql: &mut dyn Sql, tenant: &Tenant, session: SessionId, turns: &[HiddenTurn]) -> Result<()> {
    let select = "SELECT after FROM hidden_turns WHERE session = $1 AND tenant = $2";
    for row in sql.rows(select, &[session.0.into(), tenant.id.into()]).await? {
        let after = KeyedHash(row.key_bytes(0)?);
        let is_kept = turns.iter().any(|turn| turn.after == after && turn.json.is_none());
        if !is_kept {
            let delete = "DELETE FROM hidden_turns WHERE session = $1 AND tenant = $2 AND after = $3";
            let values = [session.0.into(), tenant.id.into(), after.0.as_slice().into()];
            sql.run(delete, &values).await?;
        }
    }
    for HiddenTurn { after, json: turn } in turns {
        let Some(turn) = turn else { continue };
        let insert = "INSERT INTO hidden_turns (session, tenant, after, turn) \
                     SELECT id, tenant, $3, $4 FROM sessions WHERE id = $1 AND tenant = $2 AND state <> 'deleted'";
        let values = [session.0.into(), tenant.id.into(), after.0.as_slice().into(), turn.as_str().into()];
        sql.run(insert, &values).await?;
    }
    Ok(())
}

/// Finds the session that a history continues, and its hidden turns, oldest first.
async fn find_turns(sql: &mut dyn Sql, tenant: &Tenant, chain: &[KeyedHash]) -> Result<SessionHiddenTurns> {
    let Some(prefix) = message_log::find_known_prefix(sql, tenant, chain).await? else { return Ok(None) };
    let list = "SELECT after, turn FROM hidden_turns WHERE session = $1 AND tenant = $2 ORDER BY id";
    let rows = sql.rows(list, &[prefix.session.id.0.into(), tenant.id.into()]).await?;
    let turn = |row: &super::sql::Row| -> Result<HiddenTurn> {
        Ok(HiddenTurn { after: KeyedHash(row.key_bytes(0)?), json: Some(Redacted::assume_redacted(row.text(1)?)) })
    };
    Ok(Some((prefix.session.id, rows.iter().map(turn).collect::<Result<_>>()?)))
}

impl Store {
    /// Replaces the hidden turns of a session: it then has those in `turns`, and no others.
    pub async fn replace_hidden_turns(
        &self,
        tenant: &Tenant,
        session: SessionId,
        turns: Vec<HiddenTurn>,
    ) -> Result<()> {
        let arguments = (tenant.clone(), session, turns);
        self.write(in_transaction(arguments, |sql, (tenant, session, turns)| {
            Box::pin(replace_turns(sql, tenant, *session, turns))
        }))
        .await
    }

    /// Finds the session that a history continues, and its hidden turns, oldest first; `None` if there is no
    /// such session.
    pub async fn hidden_turns(&self, tenant: &Tenant, chain: &[KeyedHash]) -> Result<SessionHiddenTurns> {
        let arguments = (tenant.clone(), chain.to_owned());
        self.read(in_transaction(arguments, |sql, (tenant, chain)| Box::pin(find_turns(sql, tenant, chain)))).await
    }
}
