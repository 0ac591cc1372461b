//! Saved state that must survive a restart: of a session, when its automatic compaction pauses and which
//! models have a cooldown; of a model, its context window and the error of our token counts, as learned from
//! its providers. Both are JSON that the module `session` writes and reads.

use longhaul_engine::redact::{Redacted, RedactionMode, Redactor, Rules};

use super::error::Result;
use super::session::SessionId;
use super::sql::Sql;
use super::tenant::Tenant;
use super::{Store, in_transaction};

async fn read_session_state(sql: &mut dyn Sql, tenant: &Tenant, session: SessionId) -> Result<Option<String>> {
    let find = "SELECT state FROM states WHERE session = $1 AND tenant = $2";
    sql.row(find, &[session.0.into(), tenant.id.into()]).await?.map(|row| row.text(0)).transpose()
}

/// Saves the state of a session, and returns false without saving if the session was deleted.
async fn write_session_state(sql: &mut dyn Sql, tenant: &Tenant, session: SessionId, state: &Redacted) -> Result<bool> {
    let upsert = "INSERT INTO states (session, tenant, state) \
                SELECT id, tenant, $3 FROM sessions WHERE id = $1 AND tenant = $2 AND state <> 'deleted' \
                ON CONFLICT (session) DO UPDATE SET state = excluded.state";
    let values = [session.0.into(), tenant.id.into(), state.as_str().into()];
    Ok(sql.run(upsert, &values).await? > 0)
}

async fn read_learned_model(sql: &mut dyn Sql, tenant: &Tenant, model: &Redacted) -> Result<Option<String>> {
    let find = "SELECT learned FROM models WHERE tenant = $1 AND name = $2";
    sql.row(find, &[tenant.id.into(), model.as_str().into()]).await?.map(|row| row.text(0)).transpose()
}

async fn write_learned_model(sql: &mut dyn Sql, tenant: &Tenant, model: &Redacted, learned: &Redacted) -> Result<()> {
    let upsert = "INSERT INTO models (tenant, name, learned) VALUES ($1, $2, $3) \
                ON CONFLICT (tenant, name) DO UPDATE SET learned = excluded.learned";
    sql.run(upsert, &[tenant.id.into(), model.as_str().into(), learned.as_str().into()]).await?;
    Ok(())
}

/// Returns a model's name without secrets and at most 200 characters long, since a client can send any text
/// as a name.
fn redacted_model_name(tenant: &Tenant, model: &str) -> Redacted {
    Redactor::keyed(Rules::default(), tenant.shared_redaction_key())
        .redact(model, RedactionMode::Text)
        .text
        .one_line(200)
}

impl Store {
    /// Reads the saved state of a session.
    pub async fn session_state(&self, tenant: &Tenant, session: SessionId) -> Result<Option<String>> {
        let arguments = (tenant.clone(), session);
        self.read(in_transaction(arguments, |sql, (tenant, session)| {
            Box::pin(read_session_state(sql, tenant, *session))
        }))
        .await
    }

    /// Saves the state of a session, and returns false if the session was deleted.
    pub async fn save_session_state(&self, tenant: &Tenant, session: SessionId, state: Redacted) -> Result<bool> {
        let arguments = (tenant.clone(), session, state);
        self.write(in_transaction(arguments, |sql, (tenant, session, state)| {
            Box::pin(write_session_state(sql, tenant, *session, state))
        }))
        .await
    }

    /// Reads the saved facts about a model.
    pub async fn learned_model(&self, tenant: &Tenant, model: &str) -> Result<Option<String>> {
        let arguments = (tenant.clone(), redacted_model_name(tenant, model));
        self.read(in_transaction(arguments, |sql, (tenant, model)| Box::pin(read_learned_model(sql, tenant, model))))
            .await
    }

    /// Saves the facts that were learned about a model.
    pub async fn save_learned_model(&self, tenant: &Tenant, model: &str, learned: Redacted) -> Result<()> {
        let arguments = (tenant.clone(), redacted_model_name(tenant, model), learned);
        self.write(in_transaction(arguments, |sql, (tenant, model, learned)| {
            Box::pin(write_learned_model(sql, tenant, model, learned))
        }))
        .await
    }
}
