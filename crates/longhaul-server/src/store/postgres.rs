//! The store that several gateways share: a PostgreSQL server.
//!
//! A transaction holds a connection of the pool only for its statements; no transaction waits for a model. A
//! transaction that loses a race (a deadlock, a serialization failure, a row that exists already) runs again
//! from the start.

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

use super::TransactionFn;
use super::error::{Result, StoreError};
use super::schema::{MIGRATIONS, SCHEMA_VERSION, TABLE_NAMES};
use super::sql::{Row, Sql, SqlDialect, Value};
use super::sqlite::Durability;

/// The time to wait for a connection. Chosen by hand.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The time after which the server ends a statement, so that an abandoned statement does not hold its
/// connection forever. Chosen by hand.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(30);

/// The time without an acknowledgement after which a server counts as gone. Chosen by hand.
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(10);

/// The number of times that a transaction is tried if it keeps losing races. Chosen by hand.
const MAX_TRANSACTION_TRIES: usize = 20;

/// The connections that one process opens at most. Chosen by hand.
const MAX_CONNECTIONS: usize = 8;

/// The statements that are sent before the first answer is awaited. `try_join_all` starts up to 30 futures
/// strictly in their order.
const MAX_PIPELINED_STATEMENTS: usize = 30;

/// The ID of the advisory lock that a process holds while it migrates the tables.
const MIGRATION_LOCK_ID: i64 = 0x4c48_7374;

#[derive(Clone)]
pub(super) struct Postgres {
    pool: Pool,
    display_url: String,
}

/// Makes the pool's connection manager. Connections to this machine are not encrypted. All others are, and
/// the server's certificate must be one that the system trusts, unless the URL has `sslmode=disable`.
fn connection_manager(mut config: Config, shown: &str) -> Result<Manager> {
    let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    let is_here = |host: &Host| match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => name == "localhost" || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback()),
    };
    let ssl_mode = config.get_ssl_mode();
    if ssl_mode == SslMode::Disable || (ssl_mode == SslMode::Prefer && config.get_hosts().iter().all(is_here)) {
        config.ssl_mode(SslMode::Disable);
        return Ok(Manager::from_config(config, NoTls, recycling));
    }
    config.ssl_mode(SslMode::Require);
    let (tls, _) = MakeRustlsConnect::with_native_certs().map_err(|_| {
        StoreError::Forbidden(format!(
            "the system has no trusted certificates to check {shown} with; install them (ca-certificates)"
        ))
    })?;
    Ok(Manager::from_config(config, tls, recycling))
}

/// Returns a URL without its password and its parameters.
pub(super) fn url_without_password(url: &str) -> String {
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
    pub(super) async fn connect(url: &str, durability: Durability) -> Result<Self> {
        let shown = url_without_password(url);
        let mut config: Config = url.parse().map_err(|error| {
            StoreError::InvalidInput(format!("{shown} is not the URL of a PostgreSQL server: {error}"))
        })?;
        config.connect_timeout(CONNECT_TIMEOUT).application_name("longhaul");
        config.keepalives_idle(KEEPALIVE_TIMEOUT).tcp_user_timeout(KEEPALIVE_TIMEOUT);
        let options = config.get_options().map(|options| format!("{options} ")).unwrap_or_default();
        let mut options = format!("{options}-c statement_timeout={}", STATEMENT_TIMEOUT.as_millis());
        if durability == Durability::Normal {
            // A commit then survives a killed client. If the server loses power, the newest commits may be
            // lost, but never an earlier one without the later ones.
            options.push_str(" -c synchronous_commit=off");
        }
        config.options(options);
        let manager = connection_manager(config, &shown)?;
        let pool = Pool::builder(manager)
            .max_size(MAX_CONNECTIONS)
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(CONNECT_TIMEOUT))
            .create_timeout(Some(CONNECT_TIMEOUT))
            .build()
            .map_err(|error| StoreError::Failed(format!("{shown}: {error}")))?;
        let store = Self { pool, display_url: shown };
        store.migrate().await?;
        Ok(store)
    }

    /// Runs the missing migrations, each in a transaction of its own.
    async fn migrate(&self) -> Result<()> {
        loop {
            let mut client = self.client().await?;
            let failed = |error: tokio_postgres::Error| self.store_error(&error);
            let transaction = client.transaction().await.map_err(failed)?;
            transaction.execute("SELECT pg_advisory_xact_lock($1)", &[&MIGRATION_LOCK_ID]).await.map_err(failed)?;
            transaction
                .batch_execute("CREATE TABLE IF NOT EXISTS longhaul_version (version BIGINT NOT NULL)")
                .await
                .map_err(failed)?;
            let row = transaction.query_opt("SELECT version FROM longhaul_version", &[]).await.map_err(failed)?;
            let version: i64 = row.as_ref().map_or(0, |row| row.get(0));
            if version > SCHEMA_VERSION {
                let shown = &self.display_url;
                return Err(StoreError::TooNew(format!(
                    "{shown} was written by a newer longhaul (schema version {version}; this one supports \
                     {SCHEMA_VERSION}); update longhaul"
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

    /// Runs work that changes something, all of it or nothing.
    pub(super) async fn write<T: Send + 'static>(&self, work: TransactionFn<T>) -> Result<T> {
        self.transact(work, IsolationLevel::ReadCommitted).await
    }

    /// Runs work that changes nothing, on a snapshot of the database.
    pub(super) async fn read<T: Send + 'static>(&self, work: TransactionFn<T>) -> Result<T> {
        self.transact(work, IsolationLevel::RepeatableRead).await
    }

    async fn transact<T: Send + 'static>(&self, work: TransactionFn<T>, level: IsolationLevel) -> Result<T> {
        let mut tries = 0;
        loop {
            tries += 1;
            match self.try_transaction(&work, level).await {
                Err(TransactionError::Race(_)) if tries < MAX_TRANSACTION_TRIES => {}
                Err(TransactionError::Race(error) | TransactionError::Other(error)) => return Err(error),
                Ok(done) => return Ok(done),
            }
        }
    }

    async fn try_transaction<T>(
        &self,
        work: &TransactionFn<T>,
        level: IsolationLevel,
    ) -> std::result::Result<T, TransactionError> {
        let mut client = self.client().await.map_err(TransactionError::Other)?;
        let transaction = client.build_transaction().isolation_level(level).start().await;
        let transaction = transaction.map_err(|error| self.transaction_error(&error))?;
        let mut sql = Transaction { open: &transaction, store: self, lost_race: false };
        let done = work(&mut sql).await;
        let race = sql.lost_race;
        match done {
            Ok(done) => {
                transaction.commit().await.map_err(|error| self.transaction_error(&error))?;
                Ok(done)
            }
            Err(error) if race => Err(TransactionError::Race(error)),
            Err(error) => Err(TransactionError::Other(error)),
        }
    }

    pub(super) async fn vacuum(&self) -> Result<()> {
        let client = self.client().await?;
        // Each is a statement of its own: a vacuum cannot run in a transaction, and may take longer than the
        // time limit.
        let statement = format!("VACUUM (FULL, ANALYZE) {}", TABLE_NAMES.join(", "));
        let limit = format!("SET statement_timeout = {}", STATEMENT_TIMEOUT.as_millis());
        client.batch_execute("SET statement_timeout = 0").await.map_err(|error| self.store_error(&error))?;
        let done = client.batch_execute(&statement).await.map_err(|error| self.store_error(&error));
        client.batch_execute(&limit).await.map_err(|error| self.store_error(&error))?;
        done
    }

    pub(super) async fn size_bytes(&self) -> Result<u64> {
        let client = self.client().await?;
        let statement = "SELECT coalesce(sum(pg_total_relation_size(name::regclass)), 0)::bigint FROM unnest($1::text[]) AS t (name)";
        let row =
            client.query_one(statement, &[&TABLE_NAMES.as_slice()]).await.map_err(|error| self.store_error(&error))?;
        Ok(row.get::<_, i64>(0).unsigned_abs())
    }

    async fn client(&self) -> Result<deadpool_postgres::Client> {
        self.pool.get().await.map_err(|error| match error {
            PoolError::Backend(error) => self.store_error(&error),
            PoolError::Timeout(_) => {
                StoreError::Busy(format!("{} has no free connection; try again", self.display_url))
            }
            other => StoreError::Unreachable(format!("{}: {other}", self.display_url)),
        })
    }

    fn transaction_error(&self, error: &tokio_postgres::Error) -> TransactionError {
        let failed = self.store_error(error);
        if is_race(error) { TransactionError::Race(failed) } else { TransactionError::Other(failed) }
    }

    /// Converts an error of the server to an error for the caller, in one line.
    fn store_error(&self, error: &tokio_postgres::Error) -> StoreError {
        let shown = &self.display_url;
        let Some(db_error) = error.as_db_error() else {
            let cause = std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string);
            return StoreError::Unreachable(format!("{shown} cannot be reached: {cause}"));
        };
        let message = db_error.message();
        let state = db_error.code();
        match state.code().get(..2) {
            Some("28" | "42") if *state == SqlState::INSUFFICIENT_PRIVILEGE || state.code().starts_with("28") => {
                StoreError::Forbidden(format!("{shown} denied access: {message}"))
            }
            Some("53") if *state == SqlState::TOO_MANY_CONNECTIONS => {
                StoreError::Busy(format!("{shown} has no free connection: {message}; try again"))
            }
            Some("53") => StoreError::Full(format!("{shown} is out of space: {message}")),
            Some("25") => StoreError::Forbidden(format!("{shown} cannot be written: {message}")),
            Some("08" | "57" | "3D") => StoreError::Unreachable(format!("{shown}: {message}")),
            Some("XX") => StoreError::Damaged(format!("{shown} is damaged: {message}")),
            Some("40" | "55") => StoreError::Busy(format!("{shown} is busy: {message}; try again")),
            _ => StoreError::Failed(format!("{shown}: {message}")),
        }
    }
}

/// The reason why a transaction failed.
enum TransactionError {
    /// Another transaction was faster, so the next try may succeed.
    Race(StoreError),
    /// Any other error.
    Other(StoreError),
}

fn is_race(error: &tokio_postgres::Error) -> bool {
    const RACES: [&SqlState; 3] =
        [&SqlState::T_R_SERIALIZATION_FAILURE, &SqlState::T_R_DEADLOCK_DETECTED, &SqlState::UNIQUE_VIOLATION];
    error.code().is_some_and(|code| RACES.contains(&code))
}

struct Transaction<'t> {
    open: &'t deadpool_postgres::Transaction<'t>,
    store: &'t Postgres,
    /// Whether a statement failed because another transaction was faster.
    lost_race: bool,
}

impl Transaction<'_> {
    fn store_error(&mut self, error: &tokio_postgres::Error) -> StoreError {
        self.lost_race |= is_race(error);
        self.store.store_error(error)
    }
}

#[async_trait]
impl Sql for Transaction<'_> {
    async fn rows(&mut self, statement: &str, values: &[Value]) -> Result<Vec<Row>> {
        let values: Vec<&(dyn ToSql + std::marker::Sync)> = values.iter().map(|value| value as _).collect();
        let statement = self.open.prepare_cached(statement).await;
        let statement = statement.map_err(|error| self.store_error(&error))?;
        let rows = self.open.query(&statement, &values).await.map_err(|error| self.store_error(&error))?;
        rows.iter().map(read_row).collect()
    }

    async fn run(&mut self, statement: &str, values: &[Value]) -> Result<usize> {
        let values: Vec<&(dyn ToSql + std::marker::Sync)> = values.iter().map(|value| value as _).collect();
        let statement = self.open.prepare_cached(statement).await;
        let statement = statement.map_err(|error| self.store_error(&error))?;
        let changed = self.open.execute(&statement, &values).await.map_err(|error| self.store_error(&error))?;
        Ok(usize::try_from(changed).unwrap_or(usize::MAX))
    }

    /// Sends many rows before it waits for the first answer. A long history is several hundred statements,
    /// and waiting for each one would hold the connection for seconds on a busy machine.
    async fn run_each(&mut self, statement: &str, rows: &[Vec<Value>]) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let statement = self.open.prepare_cached(statement).await;
        let statement = &statement.map_err(|error| self.store_error(&error))?;
        let open = self.open;
        for rows in rows.chunks(MAX_PIPELINED_STATEMENTS) {
            let sent = rows.iter().map(|values| async move {
                let values: Vec<&(dyn ToSql + std::marker::Sync)> = values.iter().map(|value| value as _).collect();
                open.execute(statement, &values).await
            });
            try_join_all(sent).await.map_err(|error| self.store_error(&error))?;
        }
        Ok(())
    }

    fn dialect(&self) -> &'static SqlDialect {
        &POSTGRES_DIALECT
    }
}

fn read_row(row: &tokio_postgres::Row) -> Result<Row> {
    let value = |column: usize| {
        let kind = row.columns()[column].type_();
        let read = match *kind {
            Type::INT8 => row.try_get::<_, Option<i64>>(column).map(|value| value.map_or(Value::Null, Value::Int)),
            Type::INT4 => {
                row.try_get::<_, Option<i32>>(column).map(|value| value.map_or(Value::Null, |n| Value::Int(n.into())))
            }
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
            // PostgreSQL accepts no NUL character in a text. JSON has it only escaped, so this never changes
            // a message.
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

const POSTGRES_DIALECT: SqlDialect = SqlDialect {
    for_update: " FOR UPDATE",
    exclusive_lock: Some("SELECT pg_advisory_xact_lock($1)"),
    shared_lock: Some("SELECT pg_advisory_xact_lock_shared($1)"),
    insert_terms: "INSERT INTO terms (message, terms) VALUES ($1, array_to_tsvector(string_to_array($2, ' ')))",
    delete_terms: "DELETE FROM terms WHERE message BETWEEN $1 AND $2",
    find_any_term: "SELECT message FROM terms WHERE terms @@ $1::text::tsquery AND message BETWEEN $2 AND $3 \
                  ORDER BY message DESC LIMIT $4",
    quote_terms: |terms| {
        let quote = |term: &String| format!("'{}'", term.replace('\\', "\\\\").replace('\'', "''"));
        terms.iter().map(quote).collect::<Vec<_>>().join(" | ")
    },
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
            assert_eq!(super::url_without_password(url), shown);
        }
    }
}
