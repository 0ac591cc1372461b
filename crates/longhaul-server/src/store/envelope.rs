//! What stands around the messages of a body: tools, system prompt, settings.
//!
//! Agents send it with every request, mostly the same, and some change a line in the middle of it each time. So its larger pieces are
//! kept once for all sessions of a tenant, and an envelope is a template with references to them:
//!
//! ```text
//! {"model":"m","system":[{"text":"billing 17"},␁42␁],"tools":[␁7␁,␁8␁],"messages":[␂␂,␂]}
//! ```
//!
//! The signs are control characters, which stand nowhere in JSON.

use std::collections::BTreeSet;

use longhaul_engine::identity::Identity;
use longhaul_engine::redact::{Redactor, Rules};
use longhaul_engine::transcript::Envelope as Around;
use longhaul_engine::{Dialect, Transcript, wire};

use super::error::{Result, StoreError};
use super::sql::Sql;
use super::tenant::Tenant;

/// Around the number of a piece.
const PIECE: char = '\u{1}';
/// Where the messages go, around what parts them.
const HOLE: char = '\u{2}';
/// A piece of so many bytes is kept by itself.
const LARGE: usize = 256;

/// An envelope that was made ready.
#[derive(Debug, Clone)]
pub struct Envelope {
    pub(crate) identity: Identity,
    /// Nothing where the store has it.
    parts: Option<Vec<Part>>,
}

#[derive(Debug, Clone)]
enum Part {
    Literal(String),
    Piece(Identity, String),
    /// Where the messages go: what parts them from the system prompt, and from one another.
    Hole([String; 2]),
}

impl Envelope {
    /// The envelope of a body that the store has already; nothing where the body has no list of messages.
    pub(super) fn known(tenant: &Tenant, transcript: &Transcript<'_>) -> Option<Self> {
        let Around { before, first, between, behind } = transcript.envelope()?;
        let parts = ["envelope", before, first, between, behind].map(str::as_bytes);
        Some(Self { identity: tenant.identities().of(&parts), parts: None })
    }

    /// The same for one that it has not: read, secrets taken out.
    pub(super) fn read(self, tenant: &Tenant, transcript: &Transcript<'_>, rules: &Rules) -> Option<Self> {
        let Around { before, first, between, behind } = transcript.envelope()?;
        let mut redactor = Redactor::keyed(rules.clone(), tenant.shared_key());
        let clean = redactor.redact_json_to_keep(&[before, behind].concat()).ok()?.text;
        // Where messages of the system prompt stand before them, they come right behind those.
        let blank = before.len() - before.trim_end_matches([' ', '\t', '\r', '\n']).len();
        let indent = if transcript.lead() == 0 { blank } else { 0 };
        let hole = [first, between];
        let identities = tenant.identities();
        let identify = |text: &str| identities.of(&[b"piece", text.as_bytes()]);
        let parts = split(transcript.dialect, clean.as_str(), indent, hole, identify)?;
        Some(Self { parts: Some(parts), ..self })
    }
}

/// The parts of a body of which nothing was said yet. What is would stand behind all that is in the list, and the white space of the
/// indent; before and between its messages stands what is around them.
fn split(
    dialect: Dialect,
    body: &str,
    indent: usize,
    around: [&str; 2],
    identify: impl Fn(&str) -> Identity,
) -> Option<Vec<Part>> {
    let (transcript, _) = wire::parse(dialect, body).ok()?;
    let hole = transcript.envelope()?.before.len() + indent;
    let mut cuts: Vec<(usize, usize)> =
        transcript.preamble.iter().map(|block| block.at.range()).map(|at| (at.start, at.end)).collect();
    cuts.retain(|(start, end)| end - start >= LARGE);
    cuts.push((hole, hole));
    cuts.sort_unstable();
    let (mut parts, mut copied) = (Vec::new(), 0);
    for (start, end) in cuts.into_iter().filter(|(start, end)| start <= end) {
        if start < copied {
            continue;
        }
        parts.push(Part::Literal(body[copied..start].to_owned()));
        let piece = &body[start..end];
        parts.push(if start == hole {
            Part::Hole(around.map(str::to_owned))
        } else {
            Part::Piece(identify(piece), piece.to_owned())
        });
        copied = end;
    }
    parts.push(Part::Literal(body[copied..].to_owned()));
    Some(parts)
}

/// The number of an envelope, if it is kept.
pub(super) async fn number(sql: &mut dyn Sql, tenant: &Tenant, identity: &Identity) -> Result<Option<i64>> {
    let find = "SELECT id FROM envelopes WHERE identity = $1 AND tenant = $2";
    let row = sql.row(find, &[identity.0.as_slice().into(), tenant.id.into()]).await?;
    row.map(|row| row.int(0)).transpose()
}

/// Keeps an envelope, and says its number; nothing for one that was to be there and is gone.
pub(super) async fn keep(sql: &mut dyn Sql, tenant: &Tenant, envelope: &Envelope) -> Result<Option<i64>> {
    if let Some(number) = number(sql, tenant, &envelope.identity).await? {
        return Ok(Some(number));
    }
    let Some(parts) = &envelope.parts else { return Ok(None) };
    let mut template = String::new();
    for part in parts {
        match part {
            Part::Literal(text) => template.push_str(text),
            Part::Hole([first, between]) => {
                template.extend(
                    [&HOLE.to_string(), first, &HOLE.to_string(), between, &HOLE.to_string()]
                        .map(String::as_str),
                );
            }
            Part::Piece(identity, text) => {
                let number = piece(sql, tenant, identity, text).await?;
                template.extend([PIECE.to_string(), number.to_string(), PIECE.to_string()]);
            }
        }
    }
    let make = "INSERT INTO envelopes (tenant, identity, template) VALUES ($1, $2, $3) RETURNING id";
    let identity = envelope.identity.0.as_slice();
    let row = sql.row(make, &[tenant.id.into(), identity.into(), template.into()]).await?;
    row.ok_or_else(|| StoreError::Failed("an envelope was not kept".to_owned()))?.int(0).map(Some)
}

async fn piece(sql: &mut dyn Sql, tenant: &Tenant, identity: &Identity, text: &str) -> Result<i64> {
    let find = "SELECT id FROM chunks WHERE identity = $1 AND tenant = $2";
    let identity = identity.0.as_slice();
    if let Some(row) = sql.row(find, &[identity.into(), tenant.id.into()]).await? {
        return row.int(0);
    }
    let make = "INSERT INTO chunks (tenant, identity, text) VALUES ($1, $2, $3) RETURNING id";
    let row = sql.row(make, &[tenant.id.into(), identity.into(), text.into()]).await?;
    row.ok_or_else(|| StoreError::Failed("a piece of an envelope was not kept".to_owned()))?.int(0)
}

/// Takes away envelopes that no request has, and pieces that no envelope has.
pub(super) async fn sweep(sql: &mut dyn Sql, tenant: &Tenant) -> Result<()> {
    let unused = "DELETE FROM envelopes WHERE tenant = $1 AND id NOT IN (SELECT envelope FROM requests WHERE tenant = $1)";
    sql.run(unused, &[tenant.id.into()]).await?;
    let rows = sql.rows("SELECT template FROM envelopes WHERE tenant = $1", &[tenant.id.into()]).await?;
    let templates = rows.iter().map(|row| row.text(0)).collect::<Result<Vec<_>>>()?;
    let numbers = templates.iter().flat_map(|template| template.split(PIECE).skip(1).step_by(2));
    let used: BTreeSet<i64> = numbers.filter_map(|number| number.parse().ok()).collect();
    for row in sql.rows("SELECT id FROM chunks WHERE tenant = $1", &[tenant.id.into()]).await? {
        let piece = row.int(0)?;
        if !used.contains(&piece) {
            sql.run("DELETE FROM chunks WHERE id = $1 AND tenant = $2", &[piece.into(), tenant.id.into()])
                .await?;
        }
    }
    Ok(())
}

/// A body: the envelope with messages in its hole.
pub(super) async fn filled(
    sql: &mut dyn Sql,
    tenant: &Tenant,
    envelope: i64,
    messages: &[&str],
) -> Result<String> {
    let gone = |what: &str| StoreError::Damaged(format!("{what} of a request is missing"));
    let find = "SELECT template FROM envelopes WHERE id = $1 AND tenant = $2";
    let row =
        sql.row(find, &[envelope.into(), tenant.id.into()]).await?.ok_or_else(|| gone("the envelope"))?;
    let template = row.text(0)?;
    let mut body = String::new();
    for (at, part) in template.split(PIECE).enumerate() {
        if at % 2 == 0 {
            match part.split(HOLE).collect::<Vec<_>>()[..] {
                [before, first, between, behind] => {
                    body.extend([before, first, &messages.join(between), behind]);
                }
                _ => body.push_str(part),
            }
            continue;
        }
        let number: i64 = part.parse().map_err(|_| gone("a reference"))?;
        let find = "SELECT text FROM chunks WHERE id = $1 AND tenant = $2";
        let row = sql.row(find, &[number.into(), tenant.id.into()]).await?.ok_or_else(|| gone("a piece"))?;
        body.push_str(&row.text(0)?);
    }
    Ok(body)
}
