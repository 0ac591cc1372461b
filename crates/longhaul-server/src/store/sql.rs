//! What the store asks of a database: statements with numbered parameters, inside one transaction.
//!
//! Everything above speaks through [`Sql`], so both databases do the same work by the same statements. They are written `$1`, `$2`;
//! the few things that each says in its own way are named in [`Flavour`].

use async_trait::async_trait;
use longhaul_engine::Tokens;

use super::error::{Result, StoreError};

/// More tokens than any request has: whatever a provider says, sums of them stay numbers that both databases can hold.
pub(super) const MOST_TOKENS: u64 = 1 << 40;

/// A value on its way into a statement or out of a row.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    /// Nothing.
    Null,
    /// A whole number.
    Int(i64),
    /// Text.
    Text(String),
    /// Bytes.
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
        Self::Int(tokens.number().min(MOST_TOKENS).cast_signed())
    }
}

impl From<bool> for Value {
    fn from(yes: bool) -> Self {
        Self::Int(i64::from(yes))
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

/// The values of one row, in the order in which they were asked for.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Row(pub(super) Vec<Value>);

impl Row {
    fn unexpected(&self, column: usize, wanted: &str) -> StoreError {
        let found = match self.0.get(column) {
            None => "no column",
            Some(Value::Null) => "nothing",
            Some(Value::Int(_)) => "a number",
            Some(Value::Text(_)) => "text",
            Some(Value::Bytes(_)) => "bytes",
        };
        StoreError::Damaged(format!("column {column} holds {found} where {wanted} was expected"))
    }

    /// A number.
    pub(super) fn int(&self, column: usize) -> Result<i64> {
        self.maybe_int(column)?.ok_or_else(|| self.unexpected(column, "a number"))
    }

    /// A number that is a count or a place.
    pub(super) fn count(&self, column: usize) -> Result<usize> {
        usize::try_from(self.int(column)?).map_err(|_| self.unexpected(column, "a count"))
    }

    /// A number, or nothing.
    pub(super) fn maybe_int(&self, column: usize) -> Result<Option<i64>> {
        match self.0.get(column) {
            Some(Value::Int(number)) => Ok(Some(*number)),
            Some(Value::Null) => Ok(None),
            _ => Err(self.unexpected(column, "a number")),
        }
    }

    /// So many tokens.
    pub(super) fn tokens(&self, column: usize) -> Result<Tokens> {
        self.maybe_tokens(column)?.ok_or_else(|| self.unexpected(column, "a number"))
    }

    /// So many tokens, or nothing.
    pub(super) fn maybe_tokens(&self, column: usize) -> Result<Option<Tokens>> {
        let whole = |number| u64::try_from(number).map_err(|_| self.unexpected(column, "a count"));
        Ok(self.maybe_int(column)?.map(whole).transpose()?.map(Tokens))
    }

    /// Text.
    pub(super) fn text(&self, column: usize) -> Result<String> {
        self.maybe_text(column)?.ok_or_else(|| self.unexpected(column, "text"))
    }

    /// Text, or nothing.
    pub(super) fn maybe_text(&self, column: usize) -> Result<Option<String>> {
        match self.0.get(column) {
            Some(Value::Text(text)) => Ok(Some(text.clone())),
            Some(Value::Null) => Ok(None),
            _ => Err(self.unexpected(column, "text")),
        }
    }

    /// Thirty-two bytes.
    pub(super) fn key(&self, column: usize) -> Result<[u8; 32]> {
        match self.0.get(column) {
            Some(Value::Bytes(bytes)) => {
                bytes.as_slice().try_into().map_err(|_| self.unexpected(column, "32 bytes"))
            }
            _ => Err(self.unexpected(column, "32 bytes")),
        }
    }
}

/// A transaction.
#[async_trait]
pub(super) trait Sql: Send {
    /// The rows that a statement gives.
    async fn rows(&mut self, statement: &str, values: &[Value]) -> Result<Vec<Row>>;

    /// Runs a statement, and says how many rows it changed.
    async fn run(&mut self, statement: &str, values: &[Value]) -> Result<usize>;

    /// Runs a statement once for each of these rows of values, in their order.
    async fn run_each(&mut self, statement: &str, rows: &[Vec<Value>]) -> Result<()> {
        for values in rows {
            self.run(statement, values).await?;
        }
        Ok(())
    }

    /// What is said otherwise here than elsewhere.
    fn flavour(&self) -> &'static Flavour;

    /// The row that a statement gives, if it gives one.
    async fn row(&mut self, statement: &str, values: &[Value]) -> Result<Option<Row>> {
        Ok(self.rows(statement, values).await?.into_iter().next())
    }
}

/// What each database says in its own way.
#[derive(Debug)]
pub(super) struct Flavour {
    /// Behind a `SELECT`, so that nobody else changes its row before the transaction ends.
    pub(super) for_update: &'static str,
    /// Keeps others from writing to the same history at once; takes a number. Nothing where a writer is alone anyway.
    pub(super) lock: Option<&'static str>,
    /// The same, beside others who ask in the same way.
    pub(super) share: Option<&'static str>,
    /// Enters the terms of a message: its number, the terms with blanks between them.
    pub(super) enter_terms: &'static str,
    /// Takes them out again: first and last number.
    pub(super) leave_terms: &'static str,
    /// The messages that have a term: the term as [`term`](Self::term) writes it, first and last number, how many at most; newest first.
    pub(super) having_term: &'static str,
    /// How a term is written for it.
    pub(super) term: fn(&str) -> String,
}
