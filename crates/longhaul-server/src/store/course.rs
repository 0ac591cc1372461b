//! The course of a session: its steps, which of them the view in force still shows, and the compactions between them.
//!
//! What each step is about is known without reading its messages; how they begin is read for those that somebody asks about.

use std::collections::BTreeMap;
use std::ops::Range;

use longhaul_engine::redact::Redacted;

use super::error::{Result, StoreError};
use super::message::{self, BlockRow, Stretch};
use super::recall;
use super::schema::session_and_place;
use super::search::StepBlock;
use super::session::Session;
use super::sql::Sql;
use super::tenant::Tenant;
use super::{Store, export, work};

/// How much is told of how a block begins.
const OPENING: usize = 160;

/// What happened in a session, first to last.
#[derive(Debug, Clone)]
pub struct Course {
    /// Its steps: a reply with the results of its calls, or a message by itself.
    pub steps: Vec<CourseStep>,
    /// The compactions from the first to the one in force.
    pub compactions: Vec<Compaction>,
}

/// One step of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CourseStep {
    /// The numbers of its messages, in the newest body.
    pub messages: Range<usize>,
    /// Its blocks.
    pub blocks: Vec<StepBlock>,
    /// Whether all of it still stands in the view in force.
    pub shown: bool,
}

/// A compaction, as far as it matters where it was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compaction {
    /// Its number in the session.
    pub number: usize,
    /// The number of the first message that came behind it.
    pub before: usize,
    /// The tokens of the request before and after, where the report has them.
    pub tokens: Option<(u64, u64)>,
}

async fn course(sql: &mut dyn Sql, tenant: &Tenant, session: &Session) -> Result<Course> {
    let views = export::in_force(sql, tenant, session).await?;
    let mut steps: Vec<(i64, CourseStep)> = Vec::new();
    for stretch in message::path(sql, tenant, session, session.length).await? {
        let Some((first, last)) = Stretch::numbers(&stretch) else { continue };
        let find =
            "SELECT id, step, blocks FROM messages WHERE id BETWEEN $1 AND $2 AND tenant = $3 ORDER BY id";
        for row in sql.rows(find, &[first.into(), last.into(), tenant.id.into()]).await? {
            let (_, place) = session_and_place(row.int(0)?);
            let (step, at) = (row.int(1)?, place + session.lead);
            let shown = views.last().is_none_or(|view| view.shows(place));
            let part =
                |block: BlockRow| StepBlock { handle: block.handle, at, what: block.what, tool: block.tool };
            let blocks = BlockRow::read(&row.text(2)?).into_iter().map(part);
            if let Some((_, last)) = steps.last_mut().filter(|(number, _)| *number == step) {
                last.messages.end = at + 1;
                last.blocks.extend(blocks);
                last.shown &= shown;
            } else {
                let messages = at..at + 1;
                steps.push((step, CourseStep { messages, blocks: blocks.collect(), shown }));
            }
        }
    }
    let compaction = |view: &super::Epoch| {
        let tokens = |side: &str| view.report["tokens"][side].as_u64();
        let tokens = tokens("before").zip(tokens("after"));
        Compaction { number: view.number, before: session.lead + view.length, tokens }
    };
    Ok(Course {
        steps: steps.into_iter().map(|(_, step)| step).collect(),
        compactions: views.iter().map(compaction).collect(),
    })
}

async fn openings(
    sql: &mut dyn Sql,
    tenant: &Tenant,
    session: &Session,
    messages: &[Range<usize>],
) -> Result<BTreeMap<String, Redacted>> {
    let mut openings = BTreeMap::new();
    for range in messages {
        let place = |at: usize| {
            at.checked_sub(session.lead).ok_or_else(|| StoreError::Wrong(format!("message {at} is not kept")))
        };
        for stored in message::messages(sql, tenant, session, place(range.start)?..place(range.end)?).await? {
            let texts = recall::texts(session.dialect, &stored);
            for (block, text) in stored.blocks.iter().zip(texts) {
                let opening = Redacted::from_store(text).on_one_line(OPENING);
                openings.insert(block.handle.clone(), opening);
            }
        }
    }
    Ok(openings)
}

impl Store {
    /// The course of a session.
    pub async fn course(&self, tenant: &Tenant, session: &Session) -> Result<Course> {
        let with = (tenant.clone(), session.clone());
        self.read(work(with, |sql, (tenant, session)| Box::pin(course(sql, tenant, session)))).await
    }

    /// How the blocks of some messages begin, by their handles; messages are named by their numbers in the newest body.
    pub async fn openings(
        &self,
        tenant: &Tenant,
        session: &Session,
        messages: Vec<Range<usize>>,
    ) -> Result<BTreeMap<String, Redacted>> {
        let with = (tenant.clone(), session.clone(), messages);
        self.read(work(with, |sql, (tenant, session, messages)| {
            Box::pin(openings(sql, tenant, session, messages))
        }))
        .await
    }
}
