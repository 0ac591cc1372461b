//! The hidden tool turns of a session: what its model recalled and said meanwhile, of which the client has nothing. They are sent
//! again with every request, so a gateway that was restarted needs them, too.

use longhaul_engine::identity::Identity;
use longhaul_engine::redact::Redacted;

use super::error::Result;
use super::log;
use super::session::SessionId;
use super::sql::Sql;
use super::tenant::Tenant;
use super::{Store, work};

/// One hidden turn, as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HiddenTurn {
    /// The message that the turn answered.
    pub after: Identity,
    /// The turn as JSON, or nothing where the store has it already.
    pub turn: Option<Redacted>,
}

/// A session with its turns.
type Found = Option<(SessionId, Vec<HiddenTurn>)>;

/// Brings the rows of a session up to date with `turns`, which are all of its turns in order. Nothing is kept of a session that is
/// gone.
async fn keep(sql: &mut dyn Sql, tenant: &Tenant, session: SessionId, turns: &[HiddenTurn]) -> Result<()> {
    let known = "SELECT after FROM hidden_turns WHERE session = $1 AND tenant = $2";
    for row in sql.rows(known, &[session.0.into(), tenant.id.into()]).await? {
        let after = Identity(row.key(0)?);
        let stays = turns.iter().any(|turn| turn.after == after && turn.turn.is_none());
        if !stays {
            let forget = "DELETE FROM hidden_turns WHERE session = $1 AND tenant = $2 AND after = $3";
            let values = [session.0.into(), tenant.id.into(), after.0.as_slice().into()];
            sql.run(forget, &values).await?;
        }
    }
    for HiddenTurn { after, turn } in turns {
        let Some(turn) = turn else { continue };
        let enter = "INSERT INTO hidden_turns (session, tenant, after, turn) \
                     SELECT id, tenant, $3, $4 FROM sessions WHERE id = $1 AND tenant = $2 AND state <> 'deleted'";
        let values = [session.0.into(), tenant.id.into(), after.0.as_slice().into(), turn.as_str().into()];
        sql.run(enter, &values).await?;
    }
    Ok(())
}

/// The session that a history goes on from, and its turns, oldest first.
async fn turns(sql: &mut dyn Sql, tenant: &Tenant, chain: &[Identity]) -> Result<Found> {
    let Some(located) = log::locate(sql, tenant, chain).await? else { return Ok(None) };
    let list = "SELECT after, turn FROM hidden_turns WHERE session = $1 AND tenant = $2 ORDER BY id";
    let rows = sql.rows(list, &[located.session.id.0.into(), tenant.id.into()]).await?;
    let turn = |row: &super::sql::Row| -> Result<HiddenTurn> {
        Ok(HiddenTurn { after: Identity(row.key(0)?), turn: Some(Redacted::from_store(row.text(1)?)) })
    };
    Ok(Some((located.session.id, rows.iter().map(turn).collect::<Result<_>>()?)))
}

impl Store {
    /// Keeps the hidden turns of a session: those in `turns`, and no others.
    pub async fn keep_hidden_turns(
        &self,
        tenant: &Tenant,
        session: SessionId,
        turns: Vec<HiddenTurn>,
    ) -> Result<()> {
        let with = (tenant.clone(), session, turns);
        self.write(work(with, |sql, (tenant, session, turns)| Box::pin(keep(sql, tenant, *session, turns))))
            .await
    }

    /// The session that a history goes on from and its hidden turns, oldest first; nothing where there is no such session.
    pub async fn hidden_turns(&self, tenant: &Tenant, chain: &[Identity]) -> Result<Found> {
        let with = (tenant.clone(), chain.to_owned());
        self.read(work(with, |sql, (tenant, chain)| Box::pin(turns(sql, tenant, chain)))).await
    }
}
