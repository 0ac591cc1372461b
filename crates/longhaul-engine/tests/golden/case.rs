//! A case as it stands in its file: sections of lines, of which the goldens can be replaced.

use longhaul_engine::ApiFormat;

/// One case.
pub struct Case {
    /// The idea, and the lines up to the first section.
    head: Vec<String>,
    pub rounds: Vec<Round>,
}

/// What was said, what came out, what must hold of it.
pub struct Round {
    /// After `== `: `before`, or `then` with what differs for this round.
    pub heading: String,
    /// A transcript.
    pub lines: Vec<String>,
    /// `after` and `report`, by the dialects they are for.
    goldens: Vec<Golden>,
    pub holds: Vec<String>,
}

/// What the program around the model sends after a compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Client {
    /// What came out, with what was said since.
    SendsTheResult,
    /// Everything as it was said, and the decisions so far are replayed.
    SendsTheOriginal,
}

/// Rendered lines that several dialects have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Golden {
    pub name: &'static str,
    pub dialects: Vec<ApiFormat>,
    pub lines: Vec<String>,
}

impl Case {
    pub fn all(text: &str) -> Vec<Self> {
        let mut cases: Vec<Vec<&str>> = Vec::new();
        let mut in_idea = false;
        for line in text.lines() {
            let is_idea = line.starts_with("# ");
            if is_idea && !in_idea {
                cases.push(Vec::new());
            }
            in_idea = is_idea;
            cases.last_mut().expect("a file begins with an idea").push(line);
        }
        cases.iter().map(|lines| Self::parse(lines)).collect()
    }

    fn parse(lines: &[&str]) -> Self {
        let first = lines.iter().position(|line| line.starts_with("== ")).expect("a case has a section");
        let owned = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
        let mut case = Self { head: owned(&lines[..first]), rounds: Vec::new() };
        let mut at = first;
        while at < lines.len() {
            let heading = &lines[at][3..];
            let end =
                lines[at + 1..].iter().position(|line| line.starts_with("== ")).map_or(lines.len(), |n| at + 1 + n);
            let mut inside = owned(&lines[at + 1..end]);
            while inside.last().is_some_and(String::is_empty) {
                inside.pop();
            }
            let (word, rest) = heading.split_once([' ', ':']).unwrap_or((heading, ""));
            let round = case.rounds.last_mut();
            match (word, round) {
                ("before" | "then", _) => {
                    let heading = heading.to_owned();
                    case.rounds.push(Round { heading, lines: inside, goldens: Vec::new(), holds: Vec::new() });
                }
                ("after" | "report", Some(round)) => {
                    let name = if word == "after" { "after" } else { "report" };
                    round.goldens.push(Golden { name, dialects: dialects(rest), lines: inside });
                }
                ("holds", Some(round)) => round.holds = inside,
                _ => panic!("what is `== {heading}`?"),
            }
            at = end;
        }
        case
    }

    pub fn idea(&self) -> String {
        let lines = self.head.iter().filter_map(|line| line.strip_prefix("# "));
        lines.collect::<Vec<_>>().join(" ")
    }

    pub fn dialects(&self) -> Vec<ApiFormat> {
        self.field("dialects").map_or_else(|| ApiFormat::ALL.to_vec(), dialects)
    }

    pub fn policy(&self) -> &str {
        self.field("policy").unwrap_or_default()
    }

    pub fn client(&self) -> Client {
        match self.field("client") {
            None => Client::SendsTheResult,
            Some("sends the original") => Client::SendsTheOriginal,
            Some(other) => panic!("what is a client that {other}?"),
        }
    }

    /// The rules that the transcript is meant to break.
    pub fn breaks(&self) -> impl Iterator<Item = &str> {
        self.field("breaks").unwrap_or_default().split_whitespace()
    }

    /// The rules that a rewrite of it cannot keep.
    pub fn may_break(&self) -> impl Iterator<Item = &str> {
        self.field("may break").unwrap_or_default().split_whitespace()
    }

    fn field(&self, name: &str) -> Option<&str> {
        self.head.iter().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
    }

    /// The case as it stands in its file.
    pub fn text(&self) -> String {
        let mut lines: Vec<String> = self.head.clone();
        for round in &self.rounds {
            lines.push(format!("== {}", round.heading));
            lines.extend(round.lines.iter().cloned());
            for golden in &round.goldens {
                lines.push(golden.heading());
                lines.extend(golden.lines.iter().cloned());
            }
            if !round.holds.is_empty() {
                lines.push("== holds".to_owned());
                lines.extend(round.holds.iter().cloned());
            }
        }
        lines.join("\n") + "\n\n"
    }

    /// Puts what was made in the place of what is written, where a round asks for it.
    pub fn replace(&mut self, made: &[Vec<Golden>]) {
        for (round, made) in self.rounds.iter_mut().zip(made) {
            round.goldens = round.wanted(made);
        }
    }

    /// What was made and is not what is written.
    pub fn differences(&self, made: &[Vec<Golden>]) -> Vec<String> {
        let rounds = self.rounds.iter().zip(made);
        let stale = rounds.flat_map(|(round, made)| {
            let wanted = round.wanted(made);
            wanted.into_iter().filter(|golden| !round.goldens.contains(golden)).collect::<Vec<_>>()
        });
        stale.map(|golden| format!("{}\n{}", golden.heading(), golden.lines.join("\n"))).collect()
    }
}

impl Round {
    fn wanted(&self, made: &[Golden]) -> Vec<Golden> {
        let asks = |golden: &&Golden| self.goldens.iter().any(|written| written.name == golden.name);
        made.iter().filter(asks).cloned().collect()
    }

    /// What differs for this round.
    pub fn policy(&self) -> &str {
        self.heading.split_once(": ").map_or("", |(_, policy)| policy)
    }
}

impl Golden {
    fn heading(&self) -> String {
        let names: String = self.dialects.iter().map(|api_format| format!(" {api_format}")).collect();
        format!("== {}{names}", self.name)
    }
}

/// The dialects that are named: none where all have something in common.
fn dialects(names: &str) -> Vec<ApiFormat> {
    names.split_whitespace().map(|name| name.parse().unwrap_or_else(|e| panic!("{name}: {e}"))).collect()
}
