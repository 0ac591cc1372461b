//! The store that several gateways share: a PostgreSQL server.
//!
//! A transaction holds a connection of the pool and lasts as long as its statements: nobody waits for a model inside one. Who
//! loses a race (a deadlock, a serialization failure, a row that was there first) is done again from the start.

use std::net::IpAddr;
use std::time::Duration;

use async_trait::async_trait;
use deadpool_postgres::{Manager, ManagerConfig, Pool, PoolError, RecyclingMethod, Runtime};
use futures_util::future::try_join_all;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{Config, IsolationLevel, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::Work;
use super::error::{Result, StoreError};
use super::schema::{MIGRATIONS, TABLES, VERSION};
use super::sql::{Flavour, Row, Sql, Value};
use super::sqlite::Sync;

/// How long to wait for a connection.
const PATIENCE: Duration = Duration::from_secs(5);

/// A statement that takes longer is ended by the server, so that a connection is not held for ever by one that nobody waits for.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(30);

/// A server that acknowledges nothing for so long is gone.
const SILENCE: Duration = Duration::from_secs(10);

/// How often a race is run again before it is given up.
const TRIES: usize = 20;

/// How many connections one program holds at most.
const CONNECTIONS: usize = 8;

/// How many statements are on their way at once. `try_join_all` starts up to 30 futures strictly in their order.
const PIPELINED: usize = 30;

/// The number under which programs agree who brings the tables up to date.
const MIGRATION_LOCK: i64 = 0x4c48_7374;

#[derive(Clone)]
pub(super) struct Postgres {
    pool: Pool,
    shown: String,
}

/// A server on this machine is spoken to as it is; any other in cipher, and its certificate has to be one that the system trusts,
/// unless the address says `sslmode=disable`.
fn manager(mut config: Config, shown: &str) -> Result<Manager> {
    let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    let is_here = |host: &Host| match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => {
            name == "localhost" || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
        }
    };
    let asked = config.get_ssl_mode();
    if asked == SslMode::Disable || (asked == SslMode::Prefer && config.get_hosts().iter().all(is_here)) {
        config.ssl_mode(SslMode::Disable);
        return Ok(Manager::from_config(config, NoTls, recycling));
    }
    config.ssl_mode(SslMode::Require);
    let (tls, _) = MakeRustlsConnect::with_native_certs().map_err(|_| {
        StoreError::Forbidden(format!(
            "the system names no certificates to trust {shown} by; install them (ca-certificates)"
        ))
    })?;
    Ok(Manager::from_config(config, tls, recycling))
}

/// A URL without its password.
pub(super) fn shown(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return "postgres://…".to_owned() };
    match rest.split_once('@') {
        Some((user, host)) if !user.contains('/') => {
            let user = user.split(':').next().unwrap_or_default();
            format!("{scheme}://{user}@{}", host.split('?').next().unwrap_or_default())
        }
        _ => format!("{scheme}://{}", rest.split('?').next().unwrap_or_default()),
    }
}

impl Postgres {
    pub(super) async fn connect(url: &str, sync: Sync) -> Result<Self> {
        let shown = shown(url);
        let mut config: Config = url.parse().map_err(|error| {
            StoreError::Wrong(format!("{shown} is no address of a PostgreSQL server: {error}"))
        })?;
        config.connect_timeout(PATIENCE).application_name("longhaul");
        config.keepalives_idle(SILENCE).tcp_user_timeout(SILENCE);
        let options = config.get_options().map(|options| format!("{options} ")).unwrap_or_default();
        let mut options = format!("{options}-c statement_timeout={}", STATEMENT_TIMEOUT.as_millis());
        if sync == Sync::Normal {
            // Survives a killed client; a server that loses its power may lose the last moments, never the order.
            options.push_str(" -c synchronous_commit=off");
        }
        config.options(options);
        let manager = manager(config, &shown)?;
        let pool = Pool::builder(manager)
            .max_size(CONNECTIONS)
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(PATIENCE))
            .create_timeout(Some(PATIENCE))
            .build()
            .map_err(|error| StoreError::Failed(format!("{shown}: {error}")))?;
        let store = Self { pool, shown };
        store.migrate().await?;
        Ok(store)
    }

    /// Brings the tables up to date, one step a transaction.
    async fn migrate(&self) -> Result<()> {
        loop {
            let mut client = self.client().await?;
            let failed = |error: tokio_postgres::Error| self.failed(&error);
            let transaction = client.transaction().await.map_err(failed)?;
            transaction
                .execute("SELECT pg_advisory_xact_lock($1)", &[&MIGRATION_LOCK])
                .await
                .map_err(failed)?;
            transaction
                .batch_execute("CREATE TABLE IF NOT EXISTS longhaul_version (version BIGINT NOT NULL)")
                .await
                .map_err(failed)?;
            let row =
                transaction.query_opt("SELECT version FROM longhaul_version", &[]).await.map_err(failed)?;
            let version: i64 = row.as_ref().map_or(0, |row| row.get(0));
            if version > VERSION {
                let shown = &self.shown;
                return Err(StoreError::Newer(format!(
                    "{shown} was written by a newer longhaul (its tables are of version {version}, this one knows {VERSION}); update longhaul"
                )));
            }
            let Some(migration) = usize::try_from(version).ok().and_then(|done| MIGRATIONS.get(done)) else {
                return Ok(());
            };
            transaction.batch_execute(migration.postgres).await.map_err(failed)?;
            let next = version + 1;
            let stamp = if row.is_some() {
                format!("UPDATE longhaul_version SET version = {next}")
            } else {
                format!("INSERT INTO longhaul_version VALUES ({next})")
            };
            transaction.batch_execute(&stamp).await.map_err(failed)?;
            transaction.commit().await.map_err(failed)?;
        }
    }

    /// Does work that changes something, all of it or none.
    pub(super) async fn write<T: Send + 'static>(&self, work: Work<T>) -> Result<T> {
        self.transact(work, IsolationLevel::ReadCommitted).await
    }

    /// Does work that changes nothing, on the state of one moment.
    pub(super) async fn read<T: Send + 'static>(&self, work: Work<T>) -> Result<T> {
        self.transact(work, IsolationLevel::RepeatableRead).await
    }

    async fn transact<T: Send + 'static>(&self, work: Work<T>, level: IsolationLevel) -> Result<T> {
        let mut tries = 0;
        loop {
            tries += 1;
            match self.once(&work, level).await {
                Err(Ended::Race(_)) if tries < TRIES => {}
                Err(Ended::Race(error) | Ended::For(error)) => return Err(error),
                Ok(done) => return Ok(done),
            }
        }
    }

    async fn once<T>(&self, work: &Work<T>, level: IsolationLevel) -> std::result::Result<T, Ended> {
        let mut client = self.client().await.map_err(Ended::For)?;
        let transaction = client.build_transaction().isolation_level(level).start().await;
        let transaction = transaction.map_err(|error| self.ended(&error))?;
        let mut sql = Transaction { open: &transaction, store: self, race: false };
        let done = work(&mut sql).await;
        let race = sql.race;
        match done {
            Ok(done) => {
                transaction.commit().await.map_err(|error| self.ended(&error))?;
                Ok(done)
            }
            Err(error) if race => Err(Ended::Race(error)),
            Err(error) => Err(Ended::For(error)),
        }
    }

    pub(super) async fn vacuum(&self) -> Result<()> {
        let client = self.client().await?;
        // Each a statement of its own: a vacuum runs in no transaction, and takes as long as it takes.
        let ours = format!("VACUUM (FULL, ANALYZE) {}", TABLES.join(", "));
        let limit = format!("SET statement_timeout = {}", STATEMENT_TIMEOUT.as_millis());
        client.batch_execute("SET statement_timeout = 0").await.map_err(|error| self.failed(&error))?;
        let done = client.batch_execute(&ours).await.map_err(|error| self.failed(&error));
        client.batch_execute(&limit).await.map_err(|error| self.failed(&error))?;
        done
    }

    pub(super) async fn size(&self) -> Result<u64> {
        let client = self.client().await?;
        let ours = "SELECT coalesce(sum(pg_total_relation_size(name::regclass)), 0)::bigint FROM unnest($1::text[]) AS t (name)";
        let row = client.query_one(ours, &[&TABLES.as_slice()]).await.map_err(|error| self.failed(&error))?;
        Ok(row.get::<_, i64>(0).unsigned_abs())
    }

    async fn client(&self) -> Result<deadpool_postgres::Client> {
        self.pool.get().await.map_err(|error| match error {
            PoolError::Backend(error) => self.failed(&error),
            PoolError::Timeout(_) => {
                StoreError::Busy(format!("{} has no connection free; try again", self.shown))
            }
            other => StoreError::Unreachable(format!("{}: {other}", self.shown)),
        })
    }

    fn ended(&self, error: &tokio_postgres::Error) -> Ended {
        let failed = self.failed(error);
        if is_race(error) { Ended::Race(failed) } else { Ended::For(failed) }
    }

    /// What a failure of the server means for the caller, in one line.
    fn failed(&self, error: &tokio_postgres::Error) -> StoreError {
        let shown = &self.shown;
        let Some(told) = error.as_db_error() else {
            let cause =
                std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string);
            return StoreError::Unreachable(format!("{shown} cannot be reached: {cause}"));
        };
        let message = told.message();
        let state = told.code();
        match state.code().get(..2) {
            Some("28" | "42")
                if *state == SqlState::INSUFFICIENT_PRIVILEGE || state.code().starts_with("28") =>
            {
                StoreError::Forbidden(format!("{shown} refuses: {message}"))
            }
            Some("53") if *state == SqlState::TOO_MANY_CONNECTIONS => {
                StoreError::Busy(format!("{shown} has no connection free: {message}; try again"))
            }
            Some("53") => StoreError::Full(format!("{shown} has no room: {message}")),
            Some("25") => StoreError::Forbidden(format!("{shown} cannot be written: {message}")),
            Some("08" | "57" | "3D") => StoreError::Unreachable(format!("{shown}: {message}")),
            Some("XX") => StoreError::Damaged(format!("{shown} is damaged: {message}")),
            Some("40" | "55") => StoreError::Busy(format!("{shown} is busy: {message}; try again")),
            _ => StoreError::Failed(format!("{shown}: {message}")),
        }
    }
}

/// Why a transaction did not come to its end.
enum Ended {
    /// Another was faster: the next try may win.
    Race(StoreError),
    /// Anything else.
    For(StoreError),
}

fn is_race(error: &tokio_postgres::Error) -> bool {
    const RACES: [&SqlState; 3] =
        [&SqlState::T_R_SERIALIZATION_FAILURE, &SqlState::T_R_DEADLOCK_DETECTED, &SqlState::UNIQUE_VIOLATION];
    error.code().is_some_and(|code| RACES.contains(&code))
}

struct Transaction<'t> {
    open: &'t deadpool_postgres::Transaction<'t>,
    store: &'t Postgres,
    /// Whether it ended because another was faster.
    race: bool,
}

impl Transaction<'_> {
    fn failed(&mut self, error: &tokio_postgres::Error) -> StoreError {
        self.race |= is_race(error);
        self.store.failed(error)
    }
}

#[async_trait]
impl Sql for Transaction<'_> {
    async fn rows(&mut self, statement: &str, values: &[Value]) -> Result<Vec<Row>> {
        let values: Vec<&(dyn ToSql + std::marker::Sync)> = values.iter().map(|value| value as _).collect();
        let statement = self.open.prepare_cached(statement).await;
        let statement = statement.map_err(|error| self.failed(&error))?;
        let rows = self.open.query(&statement, &values).await.map_err(|error| self.failed(&error))?;
        rows.iter().map(read).collect()
    }

    async fn run(&mut self, statement: &str, values: &[Value]) -> Result<usize> {
        let values: Vec<&(dyn ToSql + std::marker::Sync)> = values.iter().map(|value| value as _).collect();
        let statement = self.open.prepare_cached(statement).await;
        let statement = statement.map_err(|error| self.failed(&error))?;
        let changed = self.open.execute(&statement, &values).await.map_err(|error| self.failed(&error))?;
        Ok(usize::try_from(changed).unwrap_or(usize::MAX))
    }

    /// Sends many rows before it waits for the first answer: a long history is some hundred statements, and as many round trips
    /// would hold the connection for seconds on a busy machine.
    async fn run_each(&mut self, statement: &str, rows: &[Vec<Value>]) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let statement = self.open.prepare_cached(statement).await;
        let statement = &statement.map_err(|error| self.failed(&error))?;
        let open = self.open;
        for rows in rows.chunks(PIPELINED) {
            let sent = rows.iter().map(|values| async move {
                let values: Vec<&(dyn ToSql + std::marker::Sync)> =
                    values.iter().map(|value| value as _).collect();
                open.execute(statement, &values).await
            });
            try_join_all(sent).await.map_err(|error| self.failed(&error))?;
        }
        Ok(())
    }

    fn flavour(&self) -> &'static Flavour {
        &FLAVOUR
    }
}

fn read(row: &tokio_postgres::Row) -> Result<Row> {
    let value = |column: usize| {
        let kind = row.columns()[column].type_();
        let read = match *kind {
            Type::INT8 => {
                row.try_get::<_, Option<i64>>(column).map(|value| value.map_or(Value::Null, Value::Int))
            }
            Type::INT4 => row
                .try_get::<_, Option<i32>>(column)
                .map(|value| value.map_or(Value::Null, |n| Value::Int(n.into()))),
            Type::BYTEA => {
                row.try_get::<_, Option<Vec<u8>>>(column).map(|value| value.map_or(Value::Null, Value::Bytes))
            }
            _ => row.try_get::<_, Option<String>>(column).map(|value| value.map_or(Value::Null, Value::Text)),
        };
        read.map_err(|error| StoreError::Damaged(format!("column {column}: {error}")))
    };
    (0..row.len()).map(value).collect::<Result<_>>().map(Row)
}

impl ToSql for Value {
    fn to_sql(
        &self,
        kind: &Type,
        out: &mut BytesMut,
    ) -> std::result::Result<IsNull, Box<dyn std::error::Error + std::marker::Sync + Send>> {
        match self {
            Self::Null => Ok(IsNull::Yes),
            Self::Int(number) => number.to_sql(kind, out),
            // The one character that the server takes in no text; JSON has it only escaped, so messages are never changed.
            Self::Text(text) if text.contains('\0') => text.replace('\0', "\u{fffd}").to_sql(kind, out),
            Self::Text(text) => text.to_sql(kind, out),
            Self::Bytes(bytes) => bytes.to_sql(kind, out),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

const FLAVOUR: Flavour = Flavour {
    for_update: " FOR UPDATE",
    lock: Some("SELECT pg_advisory_xact_lock($1)"),
    share: Some("SELECT pg_advisory_xact_lock_shared($1)"),
    enter_terms: "INSERT INTO terms (message, terms) VALUES ($1, array_to_tsvector(string_to_array($2, ' ')))",
    leave_terms: "DELETE FROM terms WHERE message BETWEEN $1 AND $2",
    having_term: "SELECT message FROM terms WHERE terms @@ quote_literal($1)::tsquery AND message BETWEEN $2 AND $3 \
                  ORDER BY message DESC LIMIT $4",
    term: str::to_owned,
};

#[cfg(test)]
mod tests {
    #[test]
    fn a_password_is_never_shown() {
        for (url, shown) in [
            ("postgres://me:secret@db:5432/x?sslmode=disable", "postgres://me@db:5432/x"),
            ("postgres://db/x?password=secret", "postgres://db/x"),
            ("postgresql://me@db/x", "postgresql://me@db/x"),
        ] {
            assert_eq!(super::shown(url), shown);
        }
    }
}
