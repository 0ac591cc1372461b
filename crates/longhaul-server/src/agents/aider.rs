//! aider: one Markdown file for all sessions of a project, each from `# aider chat started at …`.
//!
//! `#### ` begins a line of the user, `> ` one of the program, and all else is the model's; so lines of an answer that begin like
//! that are misread, by aider too. A running session sends its own turns; what `--restore-chat-history` reads back is all of the
//! file, which is what [`Extent::Whole`] gives where no session is named. A summary is never written down.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use longhaul_engine::prices::Usage;
use longhaul_engine::{Dialect, Tokens};

use super::format::{Format, Glimpse, Machine, Place};
use super::{
    Agent, Asked, Extent, Moment, Origin, Piece, Reported, Role, Session, Turn, Unread, folder, lines,
};

pub(super) const FORMAT: Format = Format { agent: Agent::Aider, shows, homes, list, read };

const FILE: &str = ".aider.chat.history.md";
const START: &str = "# aider chat started at ";

fn shows(glimpse: &Glimpse<'_>) -> bool {
    String::from_utf8_lossy(glimpse.head).trim_start().starts_with(START)
}

/// The file that is named; else those of the folder and of its parents, up to the root of the repository.
fn homes(machine: &Machine) -> Vec<PathBuf> {
    if let Some(named) = machine.named_by("AIDER_CHAT_HISTORY_FILE") {
        return vec![machine.folder.join(named)];
    }
    let parents: Vec<&Path> = machine.folder.ancestors().collect();
    // Outside of a repository only the folder itself counts.
    let root = parents.iter().position(|folder| folder.join(".git").exists()).unwrap_or(0);
    parents.iter().take(root + 1).map(|folder| folder.join(FILE)).collect()
}

/// The sessions in which a model answered; all but the newest were touched last when they began, as far as is known.
fn list(home: &Path) -> Vec<Place> {
    let Ok(text) = whole(home) else { return Vec::new() };
    let sections = sections(&text);
    let newest = sections.len().saturating_sub(1);
    let place = |(at, section): (usize, &Section<'_>)| {
        let mut place = Place::of_file(Agent::Aider, home, Some(section.id.to_owned()));
        if at != newest {
            place.touched = Moment::parse(section.id);
        }
        place
    };
    sections.iter().enumerate().filter(|(_, section)| section.has_answer()).map(place).collect()
}

fn read(place: &Place, asked: &Asked) -> Result<Session, Unread> {
    let text = whole(&place.path)?;
    let sections = sections(&text);
    let newest = sections.last().map(|section| section.id);
    let wanted: Vec<&Section<'_>> = match (&place.id, asked.extent) {
        (Some(id), _) => sections.iter().rev().find(|section| section.id == id).into_iter().collect(),
        (None, Extent::Whole) => sections.iter().collect(),
        (None, Extent::Next) => {
            let talk = sections.iter().rev().find(|section| section.has_answer());
            talk.or(sections.last()).into_iter().collect()
        }
    };
    let Some(last) = wanted.last() else {
        let which = place.id.as_ref().map_or_else(String::new, |id| format!(" that began at {id}"));
        return Err(Unread::Wrong(format!("{} has no session of aider{which}", place.path.display())));
    };
    let mut log = Log::default();
    for section in &wanted {
        log.section(section);
    }
    let started = wanted.first().and_then(|section| Moment::parse(section.id));
    let touched = Place::of_file(Agent::Aider, &place.path, None).touched;
    let folder = place.path.parent().filter(|_| folder::name(&place.path) == FILE);
    Ok(Session {
        agent: Agent::Aider,
        id: last.id.to_owned(),
        project: folder.map(|folder| folder.display().to_string()),
        title: None,
        model: asked.model.clone().or(log.model),
        dialect: asked.dialect.unwrap_or(Dialect::Chat),
        system: None,
        tools: None,
        turns: log.turns,
        compactions: 0,
        started,
        updated: if newest == Some(last.id) { touched } else { Moment::parse(last.id) },
        requests: log.requests,
        unknown: BTreeMap::new(),
        damage: Vec::new(),
    })
}

fn whole(path: &Path) -> Result<String, Unread> {
    Ok(String::from_utf8_lossy(&lines::whole(path)?).into_owned())
}

/// One session of the file.
struct Section<'t> {
    /// When it began, in the local time of whoever ran it; no zone is written down.
    id: &'t str,
    /// Its lines, with their ends, and the number of the first.
    lines: Vec<&'t str>,
    first: usize,
}

impl Section<'_> {
    /// Whether a model was asked and answered; many sessions are a command or two.
    fn has_answer(&self) -> bool {
        let mut rest = self.lines.iter().skip_while(|line| !line.starts_with("#### "));
        rest.any(|line| {
            !line.trim().is_empty() && !["#### ", "> ", "# "].iter().any(|start| line.starts_with(start))
        })
    }
}

fn sections(text: &str) -> Vec<Section<'_>> {
    let mut sections: Vec<Section<'_>> = Vec::new();
    for (at, line) in text.split_inclusive('\n').enumerate() {
        if let Some(id) = line.strip_prefix(START) {
            sections.push(Section { id: id.trim(), lines: Vec::new(), first: at + 2 });
        } else if let Some(section) = sections.last_mut() {
            section.lines.push(line);
        }
    }
    sections
}

/// What the lines come to.
#[derive(Default)]
struct Log {
    turns: Vec<Turn>,
    requests: Vec<Reported>,
    model: Option<String>,
    /// What is being said: by whom, since which line.
    open: Option<(Role, String, usize)>,
}

impl Log {
    fn section(&mut self, section: &Section<'_>) {
        let began = Moment::parse(section.id);
        for (at, line) in section.lines.iter().enumerate() {
            let number = section.first + at;
            // A headline is nobody's, even within an answer: aider reads it so.
            if line.starts_with("# ") {
                continue;
            }
            if let Some(said) = line.strip_prefix("> ") {
                self.close();
                self.program(said.trim(), began);
            } else if let Some(said) = line.strip_prefix("#### ") {
                // Two blanks at the end are Markdown's line break, which was added to what was typed.
                let said = said.trim_end_matches(['\r', '\n']);
                self.say(Role::User, said.strip_suffix("  ").unwrap_or(said), number);
                self.say(Role::User, "\n", number);
            } else {
                self.say(Role::Assistant, line, number);
            }
        }
        self.close();
    }

    fn say(&mut self, role: Role, words: &str, line: usize) {
        match &mut self.open {
            Some((speaker, said, _)) if *speaker == role => said.push_str(words),
            _ => {
                self.close();
                self.open = Some((role, words.to_owned(), line));
            }
        }
    }

    fn close(&mut self) {
        let Some((role, words, line)) = self.open.take() else { return };
        let words = words.trim_matches(['\r', '\n']);
        if !words.trim().is_empty() {
            let pieces = vec![(Piece::Text(words.to_owned()), Origin::Line(line))];
            self.turns.push(Turn { role, pieces, at: None });
        }
    }

    /// What the program says: which model it asks, and what a request took.
    fn program(&mut self, said: &str, began: Option<Moment>) {
        if let Some(model) =
            ["Model: ", "Models: ", "Main model: "].iter().find_map(|start| said.strip_prefix(start))
        {
            self.model = model.split(" with ").next().map(str::to_owned);
        } else if let Some(usage) = usage(said) {
            let reply = self.turns.iter().rposition(|turn| turn.role == Role::Assistant);
            let is_new = |reply: &usize| self.requests.last().is_none_or(|last| last.reply < Some(*reply));
            let (reply, model) = (reply.filter(is_new), self.model.clone());
            self.requests.push(Reported { at: began, model, usage, reply, dollars: dollars(said) });
        }
    }
}

/// `Tokens: 12k sent, 3.4k cache write, 2k cache hit, 604 received.` The figures are rounded: to three digits or fewer since they
/// are written with a `k`. How the cache counts within what was sent is not written down; it is taken as a part of it.
fn usage(said: &str) -> Option<Usage> {
    let report = said.strip_prefix("Tokens: ")?;
    let report = report.split(". ").next()?;
    let count = |name: &str| {
        let part = report.split(", ").find_map(|part| part.trim_end_matches('.').strip_suffix(name))?;
        number(part.trim())
    };
    Some(Usage {
        input: Some(count("sent")?),
        read: count("cache hit"),
        written: count("cache write"),
        written_1h: None,
        output: count("received"),
    })
}

fn number(text: &str) -> Option<Tokens> {
    let text = text.replace(',', "");
    let (digits, times) = match text.strip_suffix(['k', 'K']) {
        Some(digits) => (digits, 1000.0),
        None => (text.as_str(), 1.0),
    };
    let number: f64 = digits.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0)?;
    Some(Tokens((number * times).round() as u64))
}

/// `Cost: $0.02 message, $0.31 session.`, where the first is of the request.
fn dollars(said: &str) -> Option<f64> {
    let (_, cost) = said.split_once("Cost: $")?;
    cost.split([' ', ',']).next()?.parse().ok()
}
