//! The envelope of a request: everything around its messages, such as tools, system prompt and settings.
//!
//! Agents send it with every request, mostly unchanged, but some change a line in the middle of it each time.
//! So its larger pieces are stored once for all sessions of a tenant, and an envelope is stored as a template
//! that refers to them:
//!
//! ```text
//! {"model":"m","system":[{"text":"billing 17"},␁42␁],"tools":[␁7␁,␁8␁],"messages":[␂␂,␂]}
//! ```
//!
//! The delimiters `␁` and `␂` are control characters, which JSON never contains unescaped.

use std::collections::BTreeSet;

use longhaul_engine::keyed_hash::KeyedHash;
use longhaul_engine::redact::{Redactor, Rules};
use longhaul_engine::transcript::Envelope as Around;
use longhaul_engine::{ApiFormat, Transcript, wire};

use super::error::{Result, StoreError};
use super::sql::Sql;
use super::tenant::Tenant;

/// The delimiter before and after the row ID of a piece.
const PIECE_DELIMITER: char = '\u{1}';
/// The delimiter of the place for the messages, which encloses the separators before and between them.
const MESSAGES_DELIMITER: char = '\u{2}';
/// The bytes from which a piece is stored in a row of its own. Chosen by hand.
const MIN_PIECE_BYTES: usize = 256;

/// An envelope that is ready to be stored.
#[derive(Debug, Clone)]
pub struct Envelope {
    pub(crate) hash: KeyedHash,
    /// The parts of the template, or `None` if the store has the envelope already.
    template: Option<Vec<TemplatePart>>,
}

#[derive(Debug, Clone)]
enum TemplatePart {
    Literal(String),
    Piece(KeyedHash, String),
    /// The place for the messages, with the separator before the first one and the separator between two.
    Messages([String; 2]),
}

impl Envelope {
    /// Hashes the envelope of a request without reading its content; `None` if the request has no list of
    /// messages.
    pub(super) fn from_transcript(tenant: &Tenant, transcript: &Transcript<'_>) -> Option<Self> {
        let Around { before, first_separator, separator, after } = transcript.envelope()?;
        let parts = ["envelope", before, first_separator, separator, after].map(str::as_bytes);
        Some(Self { hash: tenant.hasher().hash(&parts), template: None })
    }

    /// Adds the template, without secrets, for an envelope that the store does not have.
    pub(super) fn with_template(self, tenant: &Tenant, transcript: &Transcript<'_>, rules: &Rules) -> Option<Self> {
        let Around { before, first_separator, separator, after } = transcript.envelope()?;
        let mut redactor = Redactor::keyed(rules.clone(), tenant.shared_redaction_key());
        let clean = redactor.redact_json_for_storage(&[before, after].concat()).ok()?.text;
        // If the list starts with system prompt messages, the place for the others is right after them.
        let blank = before.len() - before.trim_end_matches([' ', '\t', '\r', '\n']).len();
        let indent = if transcript.system_message_count() == 0 { blank } else { 0 };
        let separators = [first_separator, separator];
        let hasher = tenant.hasher();
        let hash_piece = |text: &str| hasher.hash(&[b"piece", text.as_bytes()]);
        let parts = split_template(transcript.api_format, clean.as_str(), indent, separators, hash_piece)?;
        Some(Self { template: Some(parts), ..self })
    }
}

/// Splits a request body without messages into the parts of a template. The place for the messages is at the
/// end of the list, after `indent` bytes of white space; `around` has the separator before the first message
/// and the separator between two.
fn split_template(
    api_format: ApiFormat,
    body: &str,
    indent: usize,
    separators: [&str; 2],
    hash_piece: impl Fn(&str) -> KeyedHash,
) -> Option<Vec<TemplatePart>> {
    let (transcript, _) = wire::parse(api_format, body).ok()?;
    let messages_place = transcript.envelope()?.before.len() + indent;
    let mut cuts: Vec<(usize, usize)> =
        transcript.preamble.iter().map(|block| block.at.range()).map(|at| (at.start, at.end)).collect();
    cuts.retain(|(start, end)| end - start >= MIN_PIECE_BYTES);
    cuts.push((messages_place, messages_place));
    cuts.sort_unstable();
    let (mut parts, mut copied) = (Vec::new(), 0);
    for (start, end) in cuts.into_iter().filter(|(start, end)| start <= end) {
        if start < copied {
            continue;
        }
        parts.push(TemplatePart::Literal(body[copied..start].to_owned()));
        let piece = &body[start..end];
        parts.push(if start == messages_place {
            TemplatePart::Messages(separators.map(str::to_owned))
        } else {
            TemplatePart::Piece(hash_piece(piece), piece.to_owned())
        });
        copied = end;
    }
    parts.push(TemplatePart::Literal(body[copied..].to_owned()));
    Some(parts)
}

/// Finds the row ID of an envelope by its hash.
pub(super) async fn find_envelope(sql: &mut dyn Sql, tenant: &Tenant, hash: &KeyedHash) -> Result<Option<i64>> {
    let find = "SELECT id FROM envelopes WHERE identity = $1 AND tenant = $2";
    let row = sql.row(find, &[hash.0.as_slice().into(), tenant.id.into()]).await?;
    row.map(|row| row.int(0)).transpose()
}

/// Stores an envelope and returns its row ID. Returns `None` if the envelope has no template because the
/// store was expected to have it, but it was deleted meanwhile.
pub(super) async fn insert_envelope(sql: &mut dyn Sql, tenant: &Tenant, envelope: &Envelope) -> Result<Option<i64>> {
    if let Some(id) = find_envelope(sql, tenant, &envelope.hash).await? {
        return Ok(Some(id));
    }
    let Some(parts) = &envelope.template else { return Ok(None) };
    let mut template = String::new();
    for part in parts {
        match part {
            TemplatePart::Literal(text) => template.push_str(text),
            TemplatePart::Messages([first_separator, separator]) => {
                template.extend(
                    [
                        &MESSAGES_DELIMITER.to_string(),
                        first_separator,
                        &MESSAGES_DELIMITER.to_string(),
                        separator,
                        &MESSAGES_DELIMITER.to_string(),
                    ]
                    .map(String::as_str),
                );
            }
            TemplatePart::Piece(hash, text) => {
                let id = insert_piece(sql, tenant, hash, text).await?;
                template.extend([PIECE_DELIMITER.to_string(), id.to_string(), PIECE_DELIMITER.to_string()]);
            }
        }
    }
    let insert = "INSERT INTO envelopes (tenant, identity, template) VALUES ($1, $2, $3) RETURNING id";
    let hash = envelope.hash.0.as_slice();
    let row = sql.row(insert, &[tenant.id.into(), hash.into(), template.into()]).await?;
    row.ok_or_else(|| StoreError::Failed("internal error: an envelope was not stored".to_owned()))?.int(0).map(Some)
}

async fn insert_piece(sql: &mut dyn Sql, tenant: &Tenant, hash: &KeyedHash, text: &str) -> Result<i64> {
    let find = "SELECT id FROM chunks WHERE identity = $1 AND tenant = $2";
    let hash = hash.0.as_slice();
    if let Some(row) = sql.row(find, &[hash.into(), tenant.id.into()]).await? {
        return row.int(0);
    }
    let insert = "INSERT INTO chunks (tenant, identity, text) VALUES ($1, $2, $3) RETURNING id";
    let row = sql.row(insert, &[tenant.id.into(), hash.into(), text.into()]).await?;
    row.ok_or_else(|| StoreError::Failed("internal error: a piece of an envelope was not stored".to_owned()))?.int(0)
}

/// Deletes the envelopes that no request uses, and the pieces that no envelope uses.
pub(super) async fn delete_unused(sql: &mut dyn Sql, tenant: &Tenant) -> Result<()> {
    let unused =
        "DELETE FROM envelopes WHERE tenant = $1 AND id NOT IN (SELECT envelope FROM requests WHERE tenant = $1)";
    sql.run(unused, &[tenant.id.into()]).await?;
    let rows = sql.rows("SELECT template FROM envelopes WHERE tenant = $1", &[tenant.id.into()]).await?;
    let templates = rows.iter().map(|row| row.text(0)).collect::<Result<Vec<_>>>()?;
    let numbers = templates.iter().flat_map(|template| template.split(PIECE_DELIMITER).skip(1).step_by(2));
    let used: BTreeSet<i64> = numbers.filter_map(|number| number.parse().ok()).collect();
    for row in sql.rows("SELECT id FROM chunks WHERE tenant = $1", &[tenant.id.into()]).await? {
        let piece = row.int(0)?;
        if !used.contains(&piece) {
            sql.run("DELETE FROM chunks WHERE id = $1 AND tenant = $2", &[piece.into(), tenant.id.into()]).await?;
        }
    }
    Ok(())
}

/// Builds a request body from an envelope and messages.
pub(super) async fn fill_envelope(
    sql: &mut dyn Sql,
    tenant: &Tenant,
    envelope: i64,
    messages: &[&str],
) -> Result<String> {
    let missing = |what: &str| StoreError::Damaged(format!("{what} of a request is missing"));
    let find = "SELECT template FROM envelopes WHERE id = $1 AND tenant = $2";
    let row = sql.row(find, &[envelope.into(), tenant.id.into()]).await?.ok_or_else(|| missing("the envelope"))?;
    let template = row.text(0)?;
    let mut body = String::new();
    for (at, part) in template.split(PIECE_DELIMITER).enumerate() {
        if at % 2 == 0 {
            match part.split(MESSAGES_DELIMITER).collect::<Vec<_>>()[..] {
                [before, first_separator, separator, after] => {
                    body.extend([before, first_separator, &messages.join(separator), after]);
                }
                _ => body.push_str(part),
            }
            continue;
        }
        let id: i64 = part.parse().map_err(|_| missing("a reference"))?;
        let find = "SELECT text FROM chunks WHERE id = $1 AND tenant = $2";
        let row = sql.row(find, &[id.into(), tenant.id.into()]).await?.ok_or_else(|| missing("a piece"))?;
        body.push_str(&row.text(0)?);
    }
    Ok(body)
}
