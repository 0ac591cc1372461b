//! The interface between the store and its database: statements with numbered parameters, inside one
//! transaction.
//!
//! All queries use the trait [`Sql`], so that both databases run the same statements. Parameters are written
//! `$1`, `$2`; the few statements that differ are in [`SqlDialect`].

use async_trait::async_trait;
use longhaul_engine::Tokens;

use super::error::{Result, StoreError};

/// The largest token count that is stored. No request has as many; the limit keeps sums within 64 bits,
/// whatever a provider reports.
pub(super) const MAX_TOKENS: u64 = 1 << 40;

/// A parameter of a statement, or a column of a row.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    /// The SQL value `NULL`.
    Null,
    /// A 64-bit integer.
    Int(i64),
    /// A text.
    Text(String),
    /// A byte string.
    Bytes(Vec<u8>),
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Int(number)
    }
}

impl From<usize> for Value {
    fn from(number: usize) -> Self {
        Self::Int(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<Tokens> for Value {
    fn from(tokens: Tokens) -> Self {
        Self::Int(tokens.number().min(MAX_TOKENS).cast_signed())
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Self {
        Self::Int(i64::from(flag))
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&[u8]> for Value {
    fn from(bytes: &[u8]) -> Self {
        Self::Bytes(bytes.to_owned())
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// The values of one row, in the order of the selected columns.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Row(pub(super) Vec<Value>);

impl Row {
    fn type_error(&self, column: usize, expected: &str) -> StoreError {
        let found = match self.0.get(column) {
            None => "no column",
            Some(Value::Null) => "nothing",
            Some(Value::Int(_)) => "a number",
            Some(Value::Text(_)) => "text",
            Some(Value::Bytes(_)) => "bytes",
        };
        StoreError::Damaged(format!("column {column} has {found} instead of {expected}"))
    }

    /// Returns a column that has an integer.
    pub(super) fn int(&self, column: usize) -> Result<i64> {
        self.maybe_int(column)?.ok_or_else(|| self.type_error(column, "a number"))
    }

    /// Returns a column that has a count or a position.
    pub(super) fn count(&self, column: usize) -> Result<usize> {
        usize::try_from(self.int(column)?).map_err(|_| self.type_error(column, "a count"))
    }

    /// Returns a column that has an integer or `NULL`.
    pub(super) fn maybe_int(&self, column: usize) -> Result<Option<i64>> {
        match self.0.get(column) {
            Some(Value::Int(number)) => Ok(Some(*number)),
            Some(Value::Null) => Ok(None),
            _ => Err(self.type_error(column, "a number")),
        }
    }

    /// Returns a column that has a number of tokens.
    pub(super) fn tokens(&self, column: usize) -> Result<Tokens> {
        self.maybe_tokens(column)?.ok_or_else(|| self.type_error(column, "a number"))
    }

    /// Returns a column that has a number of tokens or `NULL`.
    pub(super) fn maybe_tokens(&self, column: usize) -> Result<Option<Tokens>> {
        let to_tokens = |number| u64::try_from(number).map_err(|_| self.type_error(column, "a count"));
        Ok(self.maybe_int(column)?.map(to_tokens).transpose()?.map(Tokens))
    }

    /// Returns a column that has a text.
    pub(super) fn text(&self, column: usize) -> Result<String> {
        self.maybe_text(column)?.ok_or_else(|| self.type_error(column, "text"))
    }

    /// Returns a column that has a text or `NULL`.
    pub(super) fn maybe_text(&self, column: usize) -> Result<Option<String>> {
        match self.0.get(column) {
            Some(Value::Text(text)) => Ok(Some(text.clone())),
            Some(Value::Null) => Ok(None),
            _ => Err(self.type_error(column, "text")),
        }
    }

    /// Returns a column that has the 32 bytes of a key or hash.
    pub(super) fn key_bytes(&self, column: usize) -> Result<[u8; 32]> {
        match self.0.get(column) {
            Some(Value::Bytes(bytes)) => bytes.as_slice().try_into().map_err(|_| self.type_error(column, "32 bytes")),
            _ => Err(self.type_error(column, "32 bytes")),
        }
    }
}

/// A transaction of either database.
#[async_trait]
pub(super) trait Sql: Send {
    /// Runs a query and returns its rows.
    async fn rows(&mut self, statement: &str, values: &[Value]) -> Result<Vec<Row>>;

    /// Runs a statement and returns the number of changed rows.
    async fn run(&mut self, statement: &str, values: &[Value]) -> Result<usize>;

    /// Runs a statement once for each of these rows of values, in order.
    async fn run_each(&mut self, statement: &str, rows: &[Vec<Value>]) -> Result<()> {
        for values in rows {
            self.run(statement, values).await?;
        }
        Ok(())
    }

    /// Returns the statements that differ between the databases.
    fn dialect(&self) -> &'static SqlDialect;

    /// Runs a query and returns its first row, if any.
    async fn row(&mut self, statement: &str, values: &[Value]) -> Result<Option<Row>> {
        Ok(self.rows(statement, values).await?.into_iter().next())
    }
}

/// The statements and clauses that differ between the databases.
#[derive(Debug)]
pub(super) struct SqlDialect {
    /// The clause after a `SELECT` that locks its rows until the transaction ends.
    pub(super) for_update: &'static str,
    /// The statement that takes an exclusive lock with the given ID until the transaction ends; `None` if
    /// only one transaction can write at a time anyway.
    pub(super) exclusive_lock: Option<&'static str>,
    /// The statement that takes a shared lock with the given ID, which only excludes an exclusive one.
    pub(super) shared_lock: Option<&'static str>,
    /// The statement that indexes the terms of a message. Parameters: message ID, terms separated by spaces.
    pub(super) insert_terms: &'static str,
    /// The statement that removes messages from the index. Parameters: first and last message ID.
    pub(super) delete_terms: &'static str,
    /// The query for the messages that have one of some terms, newest first. Parameters: the terms as
    /// [`quote_terms`](Self::quote_terms) writes them, first and last message ID, and the number of rows at most.
    pub(super) find_any_term: &'static str,
    /// Returns terms as [`find_any_term`](Self::find_any_term) takes them.
    pub(super) quote_terms: fn(&[String]) -> String,
}
