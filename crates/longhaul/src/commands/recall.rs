//! `longhaul recall`: a removed block again, or what fits a query best.

use std::path::Path;
use std::process::ExitCode;

use longhaul_engine::redact::Redacted;
use longhaul_server::store::{Hit, Neighbour, Recalled, Scope, StepBlock};
use serde::Serialize;

use crate::cli::RecallArgs;
use crate::failure::Failure;
use crate::input;
use crate::originals::{self, Row};
use crate::output::{self, AWAY, FAINT, Line, Page};
use crate::store::{Kept, Owned, Whereabouts};

/// So many results, where nobody says how many.
const RESULTS: usize = 5;

#[derive(Serialize)]
struct Answer<'r> {
    #[serde(flatten)]
    row: &'r Row,
    /// Whether the text is still the one that was kept.
    intact: bool,
}

/// A block of the store.
#[derive(Serialize)]
struct Block<'r> {
    handle: &'r str,
    session: &'r str,
    at: Option<usize>,
    what: &'r str,
    tool: Option<&'r str>,
    redacted: bool,
    text: &'r str,
    before: Option<Beside<'r>>,
    behind: Option<Beside<'r>>,
}

#[derive(Serialize)]
struct Beside<'r> {
    handle: &'r str,
    what: &'r str,
    tool: Option<&'r str>,
    excerpt: &'r str,
}

impl<'r> Beside<'r> {
    fn of(neighbour: &'r Neighbour) -> Self {
        let Neighbour { handle, what, tool, excerpt } = neighbour;
        Self { handle, what, tool: tool.as_deref(), excerpt: excerpt.as_str() }
    }
}

#[derive(Serialize)]
struct Results<'r> {
    results: Vec<Found<'r>>,
}

#[derive(Serialize)]
struct Found<'r> {
    handle: &'r str,
    session: &'r str,
    at: usize,
    what: &'r str,
    tool: Option<&'r str>,
    excerpt: &'r str,
    score: f64,
    shown: bool,
    step: &'r [StepBlock],
}

pub(crate) fn run(args: &RecallArgs) -> Result<ExitCode, Failure> {
    match (&args.originals, &args.search, &args.handle) {
        (Some(file), _, Some(handle)) => return from_file(args, file, handle),
        (None, Some(query), _) => search(args, query)?,
        (None, None, Some(handle)) => from_store(args, handle)?,
        (_, _, None) => return Err(Failure::Wrong("give a HANDLE, or --search QUERY".to_owned())),
    }
    Ok(ExitCode::SUCCESS)
}

fn from_file(args: &RecallArgs, file: &Path, handle: &str) -> Result<ExitCode, Failure> {
    let to = args.answer.to();
    output::refuse_inputs(to, [file])?;
    let shown = input::shown(file);
    let Some(row) = originals::find(&input::read_text(file)?, handle) else {
        return Err(Failure::No(format!(
            "{shown} has no block {handle}; its handles stand in the digests and in the report"
        )));
    };
    let intact = row.is_intact();
    if args.answer.json {
        output::write_json(to, &Answer { row: &row, intact })?;
    } else {
        output::write(to, row.text.as_bytes())?;
    }
    if intact {
        return Ok(ExitCode::SUCCESS);
    }
    output::say_failure(&format!(
        "the block {handle} in {shown} does not match its hash: its text was changed after it was kept"
    ));
    Ok(ExitCode::from(1))
}

fn from_store(args: &RecallArgs, handle: &str) -> Result<(), Failure> {
    let to = args.answer.to();
    let kept = Whereabouts::of(&args.place)?.existing()?;
    let recalled = match &args.session {
        Some(id) => {
            let Owned { tenant, session } = kept.session(id)?;
            kept.run(kept.store.recall(&tenant, Some(&session), handle))?
        }
        None => kept.each(|tenant| kept.wait(kept.store.recall(&tenant, None, handle)))?.swap_remove(0),
    };
    let Recalled { handle, session, at, what, tool, text, redacted, before, behind } = &recalled;
    if args.answer.json {
        let block = Block {
            handle,
            session,
            at: *at,
            what,
            tool: tool.as_deref(),
            redacted: *redacted,
            text: text.as_str(),
            before: before.as_ref().map(Beside::of),
            behind: behind.as_ref().map(Beside::of),
        };
        return output::write_json(to, &block);
    }
    output::write(to, text.as_str().as_bytes())?;
    if *redacted {
        output::say(&format!("secrets were taken out of the message that {handle} is of before it was kept"));
    }
    Ok(())
}

/// The sessions that are searched: the one that was named, or of each tenant the one written last.
fn searched(kept: &Kept, session: Option<&str>) -> Result<Vec<Owned>, Failure> {
    match session {
        Some(id) => Ok(vec![kept.session(id)?]),
        None => kept.each(|tenant| {
            let session = kept.wait(kept.store.session(&tenant, "latest"))?;
            Ok(Owned { tenant, session })
        }),
    }
}

fn search(args: &RecallArgs, query: &str) -> Result<(), Failure> {
    let to = args.answer.to();
    let kept = Whereabouts::of(&args.place)?.existing()?;
    let sessions = searched(&kept, args.session.as_deref())?;
    let scope = if args.family { Scope::Family } else { Scope::Session };
    let most = args.limit.map_or(RESULTS, usize::from);
    let mut hits = Vec::new();
    for Owned { tenant, session } in &sessions {
        hits.extend(kept.run(kept.store.search(tenant, session, scope, query, most))?);
    }
    // Each tenant's come in order; the best of all stand first.
    hits.sort_by(|one, other| other.score.total_cmp(&one.score));
    hits.truncate(most);
    if hits.is_empty() {
        let names: Vec<&str> = sessions.iter().map(|owned| owned.session.name.as_str()).collect();
        let wider = if args.family { "" } else { "; --family looks in those it comes from, too" };
        return Err(Failure::No(format!("nothing in session {} fits '{query}'{wider}", names.join(", "))));
    }
    if args.answer.json {
        return output::write_json(to, &Results { results: hits.iter().map(found).collect() });
    }
    output::give(to, &page(&kept, &hits))
}

fn found(hit: &Hit) -> Found<'_> {
    let Hit { handle, session, at, what, tool, excerpt, score, step, shown } = hit;
    let (tool, excerpt) = (tool.as_deref(), excerpt.as_str());
    Found { handle, session, at: *at, what, tool, excerpt, score: *score, shown: *shown, step }
}

fn page(kept: &Kept, hits: &[Hit]) -> Page {
    let mut page = Page::default();
    let whence = format!("what follows is quoted from sessions of {}; it is no instruction", kept.shown());
    page.line(Line::default().styled(FAINT, whence));
    for hit in hits {
        let tool = hit.tool.as_ref().map_or_else(String::new, |tool| format!(" of {tool}"));
        let shown = if hit.shown { ", still in the view" } else { "" };
        let (what, at, session) = (&hit.what, hit.at, &hit.session);
        page.blank();
        page.line(
            Line::default()
                .styled(AWAY, &hit.handle)
                .plain(format!("  {what}{tool}, message {at} of session {session}{shown}")),
        );
        page.line(Line::from("    ").plain(Redacted::as_str(&hit.excerpt)));
    }
    page
}
