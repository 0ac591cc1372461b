//! What a model would be asked: prompts in our own words around the turns that will go.

use super::Covers;
use crate::Tokens;
use crate::redact::Redacted;
use crate::tokens::Counter;

const ROLE: &str = include_str!("prompts/role.md");
const FIRST: &str = include_str!("prompts/first.md");
const UPDATE: &str = include_str!("prompts/update.md");
const APPENDED: &str = include_str!("prompts/appended.md");
const TEMPLATE: &str = include_str!("prompts/template.md");
const FOCUS: &str = include_str!("prompts/focus.md");

/// What a model may write beyond the length that it is asked for.
const SPARE: f64 = 1.3;
/// What the words around the turns of a question come to at most, whoever counts them.
pub const FRAME: Tokens = Tokens(1_200);
/// The least of a model's window that is worth a call.
const LEAST_ROOM: Tokens = Tokens(300);

/// What a question about so many tokens takes of a window, if the summary is to be about so long: the words around it and the
/// longest answer stand in it, too.
#[must_use]
pub fn room(asked_about: Tokens, budget: Tokens) -> Tokens {
    asked_about + FRAME + budget.share(SPARE)
}

/// What a model would be asked, and for which units. Nothing in it is a secret.
#[derive(Debug, Clone)]
pub struct Ask {
    /// For which units.
    pub covers: Covers,
    /// About how long the summary is to be.
    pub budget: Tokens,
    material: Material,
    counter: Counter,
}

/// What is to be summed up.
#[derive(Debug, Clone)]
pub struct Material {
    /// The turns, oldest first.
    pub turns: Vec<Redacted>,
    /// The handover that stands in place of what was before them.
    pub previous: Option<Redacted>,
    /// A topic that is wanted before all else.
    pub focus: Option<Redacted>,
}

/// One question to a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// Its role.
    pub system: Redacted,
    /// What is asked.
    pub user: Redacted,
    /// How long the answer may be.
    pub most: Tokens,
}

impl Ask {
    /// An ask for a summary of about so many tokens.
    #[must_use]
    pub(crate) fn new(covers: Covers, material: Material, budget: Tokens, counter: Counter) -> Self {
        Self { covers, budget, material, counter }
    }

    /// The same as another model counts it.
    #[must_use]
    pub fn counted_by(self, counter: Counter) -> Self {
        Self { counter, ..self }
    }

    /// What the turns come to.
    #[must_use]
    pub fn tokens(&self) -> Tokens {
        self.material.turns.iter().map(|turn| self.counter.count(turn.as_str())).sum()
    }

    /// How long an answer may be at most.
    #[must_use]
    pub fn most(&self) -> Tokens {
        self.budget.share(SPARE)
    }

    /// The turns in as many parts as a window needs, in order; nothing is dropped for being too long. A turn that is larger than the
    /// window is parted between lines. Where the window has no room for anything, there are none.
    #[must_use]
    pub fn parts(&self, window: Tokens) -> Vec<Redacted> {
        // Each part but the first is asked with the handover so far.
        let room = window - self.frame() - self.most_in(window) - self.most_in(window);
        if room < LEAST_ROOM {
            return Vec::new();
        }
        let mut parts: Vec<(Redacted, Tokens)> = Vec::new();
        for piece in self.material.turns.iter().flat_map(|turn| self.pieces(turn, room)) {
            let tokens = self.counter.count(piece.as_str());
            match parts.pop_if(|(_, used)| *used + tokens <= room) {
                Some((part, used)) => parts.push((part.and_own("\n").and(&piece), used + tokens)),
                None => parts.push((piece, tokens)),
            }
        }
        parts.into_iter().map(|(part, _)| part).collect()
    }

    /// The question for one part. `so_far` is the handover that the parts before it gave; `mark` must be one that nobody who wrote
    /// the turns could know.
    #[must_use]
    pub fn question(
        &self,
        part: &Redacted,
        so_far: Option<&Redacted>,
        mark: &str,
        window: Tokens,
    ) -> Question {
        let before = so_far.or(self.material.previous.as_ref());
        let most = self.most_in(window);
        let mark = Redacted::from_store(mark.to_owned());
        let fenced = |user: Redacted, name: &'static str, text: &Redacted| {
            let user = user.and_own("<").and_own(name).and_own(" ").and(&mark).and_own(">\n");
            user.and(text).and_own("\n</").and_own(name).and_own(" ").and(&mark).and_own(">\n\n")
        };
        let mut user = Redacted::own(if before.is_some() { UPDATE } else { FIRST });
        user =
            user.and_own("The material stands between two lines with the mark ").and(&mark).and_own(".\n\n");
        if let Some(before) = before {
            user = fenced(user, "handover", before);
        }
        user = fenced(user, "turns", part);
        Question { system: Redacted::own(ROLE), user: self.wishes(user, most), most }
    }

    /// The same asked at the end of the session's own request, so that a provider reads all before it from its cache.
    #[must_use]
    pub fn appended(&self) -> Redacted {
        self.wishes(Redacted::own(APPENDED).and_own("\n"), self.most())
    }

    /// How it is to be written, and how long.
    fn wishes(&self, question: Redacted, most: Tokens) -> Redacted {
        let mut question = question.and_own(TEMPLATE);
        if let Some(focus) = &self.material.focus {
            question = question.and_own("\n").and_own(FOCUS).and(focus).and_own("\n");
        }
        let words = most.share(0.75 / SPARE).number() as usize;
        question.and_own("\nAbout ").and_number(words).and_own(" words. Begin with the first heading.\n")
    }

    /// What an answer may have of a small window.
    fn most_in(&self, window: Tokens) -> Tokens {
        self.most().min(window / 5)
    }

    /// What a question costs without its turns and the handover so far.
    fn frame(&self) -> Tokens {
        let empty = Redacted::own("");
        let question = self.question(&empty, Some(&empty), "0123456789abcdef", Tokens(u64::MAX));
        let before = self.material.previous.as_ref().map_or("", Redacted::as_str);
        [question.system.as_str(), question.user.as_str(), before]
            .iter()
            .map(|text| self.counter.count(text))
            .sum()
    }

    /// A turn in pieces of at most so many tokens, parted between lines where it has any.
    fn pieces(&self, turn: &Redacted, room: Tokens) -> Vec<Redacted> {
        if self.counter.count(turn.as_str()) <= room {
            return vec![turn.clone()];
        }
        let text = turn.as_str();
        // No tokenizer needs more than a token for a byte; what is cut by characters is cut small enough for any.
        let longest = (room.number() as usize).max(1);
        let mut pieces: Vec<std::ops::Range<usize>> = Vec::new();
        let (mut start, mut used) = (0, Tokens::ZERO);
        let mut at = 0;
        for line in text.split_inclusive('\n').flat_map(|line| shorter(line, longest)) {
            let tokens = self.counter.count(line);
            if used + tokens > room && at > start {
                pieces.push(start..at);
                (start, used) = (at, Tokens::ZERO);
            }
            at += line.len();
            used += tokens;
        }
        pieces.push(start..text.len());
        pieces.into_iter().map(|piece| turn.parts(&[piece], "", "")).collect()
    }
}

/// A line in pieces of at most so many bytes, at whole characters.
fn shorter(line: &str, longest: usize) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = line;
    while rest.len() > longest {
        let cut = (1..=longest).rev().find(|at| rest.is_char_boundary(*at));
        let cut = cut.unwrap_or_else(|| rest.chars().next().map_or(rest.len(), char::len_utf8));
        let (piece, behind) = rest.split_at(cut);
        pieces.push(piece);
        rest = behind;
    }
    pieces.push(rest);
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(turns: &[String]) -> Ask {
        let turns = turns.iter().map(|turn| Redacted::from_store(turn.clone())).collect();
        let material = Material { turns, previous: None, focus: None };
        let counter = crate::meter::Meter::of(&crate::models::find("gpt-5")).counter;
        Ask::new(Covers::AllThatGoes, material, Tokens(1_000), counter)
    }

    #[test]
    fn whatever_the_window_every_line_is_in_one_part_and_every_part_fits() {
        let long = "a line of a long output\n".repeat(3_000);
        let ask = ask(&["[the user]\nBuild it.\n".to_owned(), long, "x".repeat(40_000)]);
        assert!(ask.frame() <= FRAME, "{} around the turns", ask.frame());
        for window in [4_000, 8_000, 32_000, 400_000] {
            let window = Tokens(window);
            let parts = ask.parts(window);
            assert!(!parts.is_empty());
            let all: String = parts.iter().map(Redacted::as_str).collect();
            assert_eq!(
                all.replace('\n', ""),
                ask.material.turns.iter().map(Redacted::as_str).collect::<String>().replace('\n', "")
            );
            let so_far = Redacted::from_store("word ".repeat((window.number() / 5) as usize / 2));
            for part in &parts {
                let question = ask.question(part, Some(&so_far), "4f1c0a", window);
                let asked =
                    ask.counter.count(question.system.as_str()) + ask.counter.count(question.user.as_str());
                assert!(asked + question.most <= window, "{asked} and {} in {window}", question.most);
            }
        }
        assert!(ask.parts(Tokens(800)).is_empty(), "there is no room for anything");
    }

    #[test]
    fn the_turns_stand_between_marks_and_a_topic_is_named() {
        let mut ask = ask(&["[the user]\nBuild it.\n".to_owned()]);
        ask.material.focus = Some(Redacted::own("the schema"));
        let parts = ask.parts(Tokens(100_000));
        let first = ask.question(&parts[0], None, "4f1c0a", Tokens(100_000));
        assert!(first.user.as_str().contains("<turns 4f1c0a>\n[the user]\nBuild it.\n\n</turns 4f1c0a>"));
        assert!(first.user.as_str().contains("the schema") && !first.user.as_str().contains("<handover"));
        let next =
            ask.question(&parts[0], Some(&Redacted::own("## Goal\n- All.")), "4f1c0a", Tokens(100_000));
        assert!(next.user.as_str().contains("<handover 4f1c0a>\n## Goal"));
        assert!(ask.appended().as_str().contains("## Active Task"));
    }
}
