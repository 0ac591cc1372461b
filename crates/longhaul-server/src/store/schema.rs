//! The tables, as a list of migrations. New migrations are only ever added at the end.
//!
//! ```text
//! tenants ◀── sessions ◀── messages        the log: written once, in order; a fork shares its parent's first messages
//!                │    ◀── requests ──▶ envelopes ──▶ chunks      everything around the messages, request by request
//!                │    ◀── epochs           the compactions; `sessions.head` is the active one
//!                │    ◀── states           saved state of the session; `models`: saved facts about models
//!                │    ◀── traffic          one row for each request that went through the gateway
//!                │    ◀── hidden_turns     recall calls and their results, which the client never saw
//!                └family◀── blocks, remains  recall IDs of logged blocks, and of texts that exist only in a compaction
//!         ◀── keys ◀── uses                  gateway keys of a tenant's clients, and the tokens of each by day
//! ```
//!
//! A message ID has the session's ID in its upper bits and the message's position on the path in its lower
//! ones. So the messages of a session are adjacent in the table and in the index of terms, and within a
//! session the order of IDs is the order of messages. The names of columns cannot change any more:
//!
//! | Column | Meaning |
//! | --- | --- |
//! | `messages.step` | the ID of the first message of the turn: an assistant message with the results of its tool calls, or another message alone |
//! | `identity` | the keyed hash of a message, envelope or piece of one |
//! | `handle` | a recall ID |
//! | `sessions.family` | the ID of the oldest ancestor |
//! | `sessions.begins` | the position of the first message that the parent does not share |
//! | `sessions.lead` | the number of system messages in the newest request |
//! | `sessions.held` | whether the newest change of the head was an undo |
//! | `sessions.fence`, `holder`, `beat` | always 0 or NULL; not used |
//! | `epochs.reach` | the number of messages that the decisions cover |
//! | `epochs.mark` | the keyed hash of the checkpoint |
//! | `epochs.kept` | the positions of the messages that stay unchanged |
//! | `traffic.broke` | the reason for a cache miss |

/// One migration from a schema version to the next, for both databases.
pub(super) struct Migration {
    pub(super) sqlite: &'static str,
    pub(super) postgres: &'static str,
}

/// All migrations so far. The version of a database is the number of migrations that it has run.
pub(super) const MIGRATIONS: &[Migration] = &[
    Migration { sqlite: SQLITE_1, postgres: POSTGRES_1 },
    Migration { sqlite: SQLITE_2, postgres: POSTGRES_2 },
    Migration { sqlite: SQLITE_3, postgres: POSTGRES_3 },
    Migration { sqlite: SQLITE_4, postgres: POSTGRES_4 },
];

/// The tables of the newest schema. A PostgreSQL database may have tables of other programs beside them.
pub(super) const TABLE_NAMES: [&str; 16] = [
    "tenants",
    "sessions",
    "messages",
    "chunks",
    "envelopes",
    "requests",
    "epochs",
    "blocks",
    "remains",
    "terms",
    "states",
    "models",
    "keys",
    "uses",
    "traffic",
    "hidden_turns",
];

/// The newest schema version, which this program reads and writes.
#[expect(clippy::cast_possible_wrap, reason = "there are few migrations")]
pub(super) const SCHEMA_VERSION: i64 = MIGRATIONS.len() as i64;

/// The lower bits of a message ID, which are its position.
const POSITION_BITS: u32 = 24;

/// The largest number of messages of a session.
pub(super) const MAX_SESSION_MESSAGES: usize = (1 << POSITION_BITS) - 1;

/// Returns the ID of a message.
#[expect(clippy::cast_possible_wrap, reason = "callers keep it within MAX_SESSION_MESSAGES")]
pub(super) fn message_id(session: i64, place: usize) -> i64 {
    (session << POSITION_BITS) | place as i64
}

/// Splits a message ID into the session's ID and the position on its path.
pub(super) fn split_message_id(number: i64) -> (i64, usize) {
    (number >> POSITION_BITS, (number & ((1 << POSITION_BITS) - 1)) as usize)
}

const SQLITE_1: &str = "
CREATE TABLE tenants (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, key BLOB NOT NULL);
CREATE TABLE sessions (
  id INTEGER PRIMARY KEY AUTOINCREMENT, tenant INTEGER NOT NULL REFERENCES tenants, name TEXT NOT NULL,
  family INTEGER NOT NULL, key BLOB NOT NULL, parent INTEGER REFERENCES sessions, begins INTEGER NOT NULL,
  reason TEXT NOT NULL, state TEXT NOT NULL, dialect TEXT NOT NULL, model TEXT, title TEXT, lead INTEGER NOT NULL,
  length INTEGER NOT NULL,
  head INTEGER, held INTEGER NOT NULL, fence INTEGER NOT NULL, holder TEXT, beat INTEGER NOT NULL,
  created INTEGER NOT NULL, updated INTEGER NOT NULL, UNIQUE (tenant, name));
CREATE INDEX sessions_by_time ON sessions (tenant, updated);
CREATE INDEX sessions_by_parent ON sessions (parent) WHERE parent IS NOT NULL;
CREATE TABLE messages (
  id INTEGER PRIMARY KEY, tenant INTEGER NOT NULL, step INTEGER NOT NULL, identity BLOB NOT NULL, text TEXT NOT NULL,
  blocks TEXT NOT NULL, redacted INTEGER NOT NULL);
CREATE INDEX messages_by_step ON messages (step);
CREATE UNIQUE INDEX messages_by_identity ON messages (identity);
CREATE TABLE chunks (id INTEGER PRIMARY KEY, tenant INTEGER NOT NULL, identity BLOB NOT NULL UNIQUE, text TEXT NOT NULL);
CREATE TABLE envelopes (
  id INTEGER PRIMARY KEY, tenant INTEGER NOT NULL, identity BLOB NOT NULL UNIQUE, template TEXT NOT NULL);
CREATE TABLE requests (
  session INTEGER NOT NULL, number INTEGER NOT NULL, tenant INTEGER NOT NULL, length INTEGER NOT NULL,
  envelope INTEGER NOT NULL, at INTEGER NOT NULL, PRIMARY KEY (session, number)) WITHOUT ROWID;
CREATE TABLE epochs (
  id INTEGER PRIMARY KEY AUTOINCREMENT, tenant INTEGER NOT NULL, session INTEGER NOT NULL, parent INTEGER, number INTEGER NOT NULL,
  length INTEGER NOT NULL, reach INTEGER NOT NULL, mark BLOB, kept TEXT NOT NULL, ledger TEXT NOT NULL, report TEXT NOT NULL, at INTEGER NOT NULL);
CREATE INDEX epochs_by_session ON epochs (session, number);
CREATE INDEX epochs_by_mark ON epochs (mark) WHERE mark IS NOT NULL;
CREATE TABLE blocks (
  family INTEGER NOT NULL, handle TEXT NOT NULL, message INTEGER NOT NULL, place INTEGER NOT NULL,
  PRIMARY KEY (family, handle)) WITHOUT ROWID;
CREATE TABLE remains (
  family INTEGER NOT NULL, handle TEXT NOT NULL, session INTEGER NOT NULL, what TEXT NOT NULL, text TEXT NOT NULL,
  PRIMARY KEY (family, handle)) WITHOUT ROWID;
CREATE VIRTUAL TABLE terms USING fts5(
  held, content='', contentless_delete=1, detail=none, tokenize=\"ascii tokenchars '_.'\");
";

const POSTGRES_1: &str = "
CREATE TABLE tenants (id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name TEXT NOT NULL UNIQUE, key BYTEA NOT NULL);
CREATE TABLE sessions (
  id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, tenant BIGINT NOT NULL REFERENCES tenants, name TEXT NOT NULL,
  family BIGINT NOT NULL, key BYTEA NOT NULL, parent BIGINT REFERENCES sessions, begins BIGINT NOT NULL,
  reason TEXT NOT NULL, state TEXT NOT NULL, dialect TEXT NOT NULL, model TEXT, title TEXT, lead BIGINT NOT NULL,
  length BIGINT NOT NULL,
  head BIGINT, held BIGINT NOT NULL, fence BIGINT NOT NULL, holder TEXT, beat BIGINT NOT NULL,
  created BIGINT NOT NULL, updated BIGINT NOT NULL, UNIQUE (tenant, name));
CREATE INDEX sessions_by_time ON sessions (tenant, updated);
CREATE INDEX sessions_by_parent ON sessions (parent) WHERE parent IS NOT NULL;
CREATE TABLE messages (
  id BIGINT PRIMARY KEY, tenant BIGINT NOT NULL, step BIGINT NOT NULL, identity BYTEA NOT NULL, text TEXT NOT NULL,
  blocks TEXT NOT NULL, redacted BIGINT NOT NULL);
CREATE INDEX messages_by_step ON messages (step);
CREATE UNIQUE INDEX messages_by_identity ON messages (identity);
CREATE TABLE chunks (
  id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, tenant BIGINT NOT NULL, identity BYTEA NOT NULL UNIQUE, text TEXT NOT NULL);
CREATE TABLE envelopes (
  id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, tenant BIGINT NOT NULL, identity BYTEA NOT NULL UNIQUE,
  template TEXT NOT NULL);
CREATE TABLE requests (
  session BIGINT NOT NULL, number BIGINT NOT NULL, tenant BIGINT NOT NULL, length BIGINT NOT NULL,
  envelope BIGINT NOT NULL, at BIGINT NOT NULL, PRIMARY KEY (session, number));
CREATE TABLE epochs (
  id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, tenant BIGINT NOT NULL, session BIGINT NOT NULL, parent BIGINT,
  number BIGINT NOT NULL, length BIGINT NOT NULL, reach BIGINT NOT NULL, mark BYTEA, kept TEXT NOT NULL, ledger TEXT NOT NULL, report TEXT NOT NULL, at BIGINT NOT NULL);
CREATE INDEX epochs_by_session ON epochs (session, number);
CREATE INDEX epochs_by_mark ON epochs (mark) WHERE mark IS NOT NULL;
CREATE TABLE blocks (
  family BIGINT NOT NULL, handle TEXT NOT NULL, message BIGINT NOT NULL, place BIGINT NOT NULL, PRIMARY KEY (family, handle));
CREATE TABLE remains (
  family BIGINT NOT NULL, handle TEXT NOT NULL, session BIGINT NOT NULL, what TEXT NOT NULL, text TEXT NOT NULL,
  PRIMARY KEY (family, handle));
CREATE TABLE terms (message BIGINT PRIMARY KEY, terms TSVECTOR NOT NULL);
CREATE INDEX terms_by_term ON terms USING GIN (terms) WITH (fastupdate = off);
";

const SQLITE_2: &str = "
CREATE TABLE states (session INTEGER PRIMARY KEY, tenant INTEGER NOT NULL, state TEXT NOT NULL);
CREATE TABLE models (
  tenant INTEGER NOT NULL, name TEXT NOT NULL, learned TEXT NOT NULL, PRIMARY KEY (tenant, name)) WITHOUT ROWID;
";

const POSTGRES_2: &str = "
CREATE TABLE states (session BIGINT PRIMARY KEY, tenant BIGINT NOT NULL, state TEXT NOT NULL);
CREATE TABLE models (tenant BIGINT NOT NULL, name TEXT NOT NULL, learned TEXT NOT NULL, PRIMARY KEY (tenant, name));
";

/// Costs are in billionths of a dollar, and durations in microseconds.
const SQLITE_3: &str = "
CREATE TABLE keys (
  id INTEGER PRIMARY KEY AUTOINCREMENT, tenant INTEGER NOT NULL REFERENCES tenants, hash BLOB NOT NULL UNIQUE,
  prefix TEXT NOT NULL, name TEXT NOT NULL, requests_per_minute INTEGER, tokens_per_day INTEGER,
  created INTEGER NOT NULL, revoked INTEGER);
CREATE UNIQUE INDEX keys_by_name ON keys (name) WHERE revoked IS NULL;
CREATE TABLE uses (
  key INTEGER NOT NULL REFERENCES keys, day INTEGER NOT NULL, tokens INTEGER NOT NULL, PRIMARY KEY (key, day)) WITHOUT ROWID;
CREATE TABLE traffic (
  id INTEGER PRIMARY KEY AUTOINCREMENT, tenant INTEGER NOT NULL, session INTEGER NOT NULL, at INTEGER NOT NULL, model TEXT,
  action TEXT NOT NULL, tokens_before INTEGER NOT NULL, tokens_after INTEGER NOT NULL,
  input INTEGER, cache_read INTEGER, cache_written INTEGER, cache_written_1h INTEGER, output INTEGER, broke TEXT,
  added INTEGER NOT NULL, took INTEGER NOT NULL, usd INTEGER, usd_without INTEGER);
CREATE INDEX traffic_by_session ON traffic (tenant, session);
";

const POSTGRES_3: &str = "
CREATE TABLE keys (
  id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, tenant BIGINT NOT NULL REFERENCES tenants, hash BYTEA NOT NULL UNIQUE,
  prefix TEXT NOT NULL, name TEXT NOT NULL, requests_per_minute BIGINT, tokens_per_day BIGINT,
  created BIGINT NOT NULL, revoked BIGINT);
CREATE UNIQUE INDEX keys_by_name ON keys (name) WHERE revoked IS NULL;
CREATE TABLE uses (
  key BIGINT NOT NULL REFERENCES keys, day BIGINT NOT NULL, tokens BIGINT NOT NULL, PRIMARY KEY (key, day));
CREATE TABLE traffic (
  id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, tenant BIGINT NOT NULL, session BIGINT NOT NULL, at BIGINT NOT NULL,
  model TEXT, action TEXT NOT NULL, tokens_before BIGINT NOT NULL, tokens_after BIGINT NOT NULL,
  input BIGINT, cache_read BIGINT, cache_written BIGINT, cache_written_1h BIGINT, output BIGINT, broke TEXT,
  added BIGINT NOT NULL, took BIGINT NOT NULL, usd BIGINT, usd_without BIGINT);
CREATE INDEX traffic_by_session ON traffic (tenant, session);
";

const SQLITE_4: &str = "
CREATE TABLE hidden_turns (
  id INTEGER PRIMARY KEY AUTOINCREMENT, tenant INTEGER NOT NULL, session INTEGER NOT NULL, after BLOB NOT NULL, turn TEXT NOT NULL);
CREATE UNIQUE INDEX hidden_turns_by_session ON hidden_turns (session, after);
";

const POSTGRES_4: &str = "
CREATE TABLE hidden_turns (
  id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, tenant BIGINT NOT NULL, session BIGINT NOT NULL, after BYTEA NOT NULL,
  turn TEXT NOT NULL);
CREATE UNIQUE INDEX hidden_turns_by_session ON hidden_turns (session, after);
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_messages_read_back_and_are_ordered() {
        for (session, place) in [(1, 0), (1, MAX_SESSION_MESSAGES), (2, 0), (1 << 38, 7)] {
            assert_eq!(split_message_id(message_id(session, place)), (session, place));
        }
        assert!(message_id(1, MAX_SESSION_MESSAGES) < message_id(2, 0));
    }

    #[test]
    fn the_list_of_tables_names_all_that_the_migrations_make() {
        let made = |statements: &'static str| {
            let starts = ["CREATE TABLE ", "CREATE VIRTUAL TABLE "];
            let rest = move |line: &'static str| starts.iter().find_map(|start| line.strip_prefix(start));
            statements.lines().filter_map(rest).filter_map(|rest| rest.split([' ', '(']).next())
        };
        assert!(MIGRATIONS.iter().flat_map(|step| made(step.sqlite)).eq(TABLE_NAMES));
        assert!(MIGRATIONS.iter().flat_map(|step| made(step.postgres)).eq(TABLE_NAMES));
    }
}
