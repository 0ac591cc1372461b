//! How a session stands, beside its messages and views: when its automatic compaction pauses, which models rest. And what was learned
//! of a model from those who serve it: its window, how far our counts are off. Both outlive the program.

use longhaul_engine::redact::{Content, Redacted, Redactor, Rules};

use super::error::Result;
use super::session::SessionId;
use super::sql::Sql;
use super::tenant::Tenant;
use super::{Store, work};

async fn state(sql: &mut dyn Sql, tenant: &Tenant, session: SessionId) -> Result<Option<String>> {
    let find = "SELECT state FROM states WHERE session = $1 AND tenant = $2";
    sql.row(find, &[session.0.into(), tenant.id.into()]).await?.map(|row| row.text(0)).transpose()
}

/// Nothing is kept of a session that is gone.
async fn keep_state(
    sql: &mut dyn Sql,
    tenant: &Tenant,
    session: SessionId,
    state: &Redacted,
) -> Result<bool> {
    let keep = "INSERT INTO states (session, tenant, state) \
                SELECT id, tenant, $3 FROM sessions WHERE id = $1 AND tenant = $2 AND state <> 'deleted' \
                ON CONFLICT (session) DO UPDATE SET state = excluded.state";
    let values = [session.0.into(), tenant.id.into(), state.as_str().into()];
    Ok(sql.run(keep, &values).await? > 0)
}

async fn learned(sql: &mut dyn Sql, tenant: &Tenant, model: &Redacted) -> Result<Option<String>> {
    let find = "SELECT learned FROM models WHERE tenant = $1 AND name = $2";
    sql.row(find, &[tenant.id.into(), model.as_str().into()]).await?.map(|row| row.text(0)).transpose()
}

async fn keep_learned(
    sql: &mut dyn Sql,
    tenant: &Tenant,
    model: &Redacted,
    learned: &Redacted,
) -> Result<()> {
    let keep = "INSERT INTO models (tenant, name, learned) VALUES ($1, $2, $3) \
                ON CONFLICT (tenant, name) DO UPDATE SET learned = excluded.learned";
    sql.run(keep, &[tenant.id.into(), model.as_str().into(), learned.as_str().into()]).await?;
    Ok(())
}

/// A model's name as it is kept: a client can write anything there.
fn name(tenant: &Tenant, model: &str) -> Redacted {
    Redactor::keyed(Rules::default(), tenant.shared_key()).redact(model, Content::Text).text.on_one_line(200)
}

impl Store {
    /// How a session stood when that was kept last.
    pub async fn state(&self, tenant: &Tenant, session: SessionId) -> Result<Option<String>> {
        let with = (tenant.clone(), session);
        self.read(work(with, |sql, (tenant, session)| Box::pin(state(sql, tenant, *session)))).await
    }

    /// Keeps how a session stands; false if it is gone.
    pub async fn keep_state(&self, tenant: &Tenant, session: SessionId, state: Redacted) -> Result<bool> {
        let with = (tenant.clone(), session, state);
        self.write(work(with, |sql, (tenant, session, state)| {
            Box::pin(keep_state(sql, tenant, *session, state))
        }))
        .await
    }

    /// What was learned of a model.
    pub async fn learned(&self, tenant: &Tenant, model: &str) -> Result<Option<String>> {
        let with = (tenant.clone(), name(tenant, model));
        self.read(work(with, |sql, (tenant, model)| Box::pin(learned(sql, tenant, model)))).await
    }

    /// Keeps it.
    pub async fn keep_learned(&self, tenant: &Tenant, model: &str, learned: Redacted) -> Result<()> {
        let with = (tenant.clone(), name(tenant, model), learned);
        self.write(work(with, |sql, (tenant, model, learned)| {
            Box::pin(keep_learned(sql, tenant, model, learned))
        }))
        .await
    }
}
