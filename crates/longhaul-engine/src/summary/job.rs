//! The job of a summary: prompts of our own around the turns that will be removed.

use super::SummaryScope;
use crate::Tokens;
use crate::redact::Redacted;
use crate::tokens::TokenCounter;

const SYSTEM_PROMPT: &str = include_str!("prompts/role.md");
const FIRST_PROMPT: &str = include_str!("prompts/first.md");
const UPDATE_PROMPT: &str = include_str!("prompts/update.md");
const APPENDED_PROMPT: &str = include_str!("prompts/appended.md");
const SUMMARY_TEMPLATE: &str = include_str!("prompts/template.md");
const FOCUS_PROMPT: &str = include_str!("prompts/focus.md");

/// The factor by which a reply may exceed the length that the prompt asks for. Chosen by hand.
const REPLY_MARGIN: f64 = 1.3;
/// The maximum number of tokens of a prompt without its turns and the previous checkpoint, whichever model
/// counts them. A test checks it.
pub const MAX_PROMPT_FRAME: Tokens = Tokens(1_200);
/// The minimum number of tokens that a window must have for turns. With less, no call is worth its price.
/// Chosen by hand.
const MIN_PART_TOKENS: Tokens = Tokens(300);

/// Returns the window that a summary of `turn_tokens` tokens needs, if the summary may have `budget` tokens.
/// The prompt around the turns and the longest reply are part of the window; a previous checkpoint is not
/// counted.
#[must_use]
pub fn required_window(turn_tokens: Tokens, budget: Tokens) -> Tokens {
    turn_tokens + MAX_PROMPT_FRAME + budget.share(REPLY_MARGIN)
}

/// The job of summarizing certain turns. All of its texts are redacted.
#[derive(Debug, Clone)]
pub struct SummaryJob {
    /// The turns that the summary is about.
    pub scope: SummaryScope,
    /// The approximate number of tokens that the summary should have.
    pub budget: Tokens,
    material: Material,
    counter: TokenCounter,
}

/// The texts that a model summarizes.
#[derive(Debug, Clone)]
pub struct Material {
    /// The turns, oldest first.
    pub turns: Vec<Redacted>,
    /// The checkpoint that replaced the turns before them.
    pub previous: Option<Redacted>,
    /// The topic that the user asked to keep above all else.
    pub focus: Option<Redacted>,
}

/// One prompt for a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SummaryPrompt {
    /// The system prompt.
    pub system: Redacted,
    /// The user message.
    pub user: Redacted,
    /// The maximum number of tokens of the reply.
    pub max_reply_tokens: Tokens,
}

impl SummaryJob {
    /// Builds a job for a summary of about `budget` tokens.
    #[must_use]
    pub(crate) fn new(scope: SummaryScope, material: Material, budget: Tokens, counter: TokenCounter) -> Self {
        Self { scope, budget, material, counter }
    }

    /// Returns the job with the token counter of another model.
    #[must_use]
    pub fn with_counter(self, counter: TokenCounter) -> Self {
        Self { counter, ..self }
    }

    /// Returns the job with another length of the summary.
    #[must_use]
    pub fn with_budget(self, budget: Tokens) -> Self {
        Self { budget, ..self }
    }

    /// Counts the tokens of the turns.
    #[must_use]
    pub fn tokens(&self) -> Tokens {
        self.material.turns.iter().map(|turn| self.counter.count(turn.as_str())).sum()
    }

    /// Returns the maximum number of tokens of the reply.
    #[must_use]
    pub fn max_reply_tokens(&self) -> Tokens {
        self.budget.share(REPLY_MARGIN)
    }

    /// Splits the turns into as many parts as a window requires, in order. The reply to each part goes into the
    /// prompt of the next one. Nothing is dropped: a turn that is larger than the room for turns is split, between
    /// lines if possible. Returns no parts if the window is too small for any.
    #[must_use]
    pub fn split_for_window(&self, window: Tokens) -> Vec<Redacted> {
        // The prompt of every part but the first contains the summary so far.
        let room = window - self.frame_tokens() - self.max_reply_tokens_in(window) - self.max_reply_tokens_in(window);
        if room < MIN_PART_TOKENS {
            return Vec::new();
        }
        let mut parts: Vec<(Redacted, Tokens)> = Vec::new();
        for piece in self.material.turns.iter().flat_map(|turn| self.split_turn(turn, room)) {
            let tokens = self.counter.count(piece.as_str());
            match parts.pop_if(|(_, used)| *used + tokens <= room) {
                Some((part, used)) => parts.push((part.append_literal("\n").append(&piece), used + tokens)),
                None => parts.push((piece, tokens)),
            }
        }
        parts.into_iter().map(|(part, _)| part).collect()
    }

    /// Returns the prompt for one part. `so_far` is the summary of the earlier parts. `fence` marks the
    /// beginning and the end of the material. Nobody who wrote the turns may be able to guess it: it must be
    /// random, or a hash of the whole body.
    #[must_use]
    pub fn prompt(&self, part: &Redacted, so_far: Option<&Redacted>, fence: &str, window: Tokens) -> SummaryPrompt {
        let before = so_far.or(self.material.previous.as_ref());
        let most = self.max_reply_tokens_in(window);
        let fence = Redacted::assume_redacted(fence.to_owned());
        let fenced = |user: Redacted, name: &'static str, text: &Redacted| {
            let user =
                user.append_literal("<").append_literal(name).append_literal(" ").append(&fence).append_literal(">\n");
            user.append(text)
                .append_literal("\n</")
                .append_literal(name)
                .append_literal(" ")
                .append(&fence)
                .append_literal(">\n\n")
        };
        let mut user = Redacted::literal(if before.is_some() { UPDATE_PROMPT } else { FIRST_PROMPT });
        user = user
            .append_literal("The material stands between two lines with the tag ")
            .append(&fence)
            .append_literal(".\n\n");
        if let Some(before) = before {
            user = fenced(user, "summary", before);
        }
        user = fenced(user, "turns", part);
        SummaryPrompt {
            system: Redacted::literal(SYSTEM_PROMPT),
            user: self.with_instructions(user, most),
            max_reply_tokens: most,
        }
    }

    /// Returns the instructions as a message at the end of the session's own request, so that the provider
    /// reads everything before it from its cache.
    #[must_use]
    pub fn appended_prompt(&self) -> Redacted {
        self.with_instructions(Redacted::literal(APPENDED_PROMPT).append_literal("\n"), self.max_reply_tokens())
    }

    /// Appends the template, the topic and the length to a prompt.
    fn with_instructions(&self, prompt: Redacted, most: Tokens) -> Redacted {
        let mut prompt = prompt.append_literal(SUMMARY_TEMPLATE);
        if let Some(focus) = &self.material.focus {
            prompt = prompt.append_literal("\n").append_literal(FOCUS_PROMPT).append(focus).append_literal("\n");
        }
        let words = most.share(0.75 / REPLY_MARGIN).number() as usize;
        prompt.append_literal("\nAbout ").append_number(words).append_literal(" words. Begin with the first heading.\n")
    }

    /// Returns the maximum number of tokens of a reply in a small window: at most a fifth of it.
    fn max_reply_tokens_in(&self, window: Tokens) -> Tokens {
        self.max_reply_tokens().min(window / 5)
    }

    /// Counts the tokens of a prompt without its turns and without the summary so far, but with the previous
    /// checkpoint.
    fn frame_tokens(&self) -> Tokens {
        let empty = Redacted::literal("");
        let question = self.prompt(&empty, Some(&empty), "0123456789abcdef", Tokens(u64::MAX));
        let before = self.material.previous.as_ref().map_or("", Redacted::as_str);
        [question.system.as_str(), question.user.as_str(), before].iter().map(|text| self.counter.count(text)).sum()
    }

    /// Splits a turn into pieces of at most `room` tokens, between lines if possible.
    fn split_turn(&self, turn: &Redacted, room: Tokens) -> Vec<Redacted> {
        if self.counter.count(turn.as_str()) <= room {
            return vec![turn.clone()];
        }
        let text = turn.as_str();
        // A byte never takes more than one token, so a piece of `room` bytes always fits.
        let longest = (room.number() as usize).max(1);
        let mut pieces: Vec<std::ops::Range<usize>> = Vec::new();
        let (mut start, mut used) = (0, Tokens::ZERO);
        let mut at = 0;
        for line in text.split_inclusive('\n').flat_map(|line| split_line(line, longest)) {
            let tokens = self.counter.count(line);
            if used + tokens > room && at > start {
                pieces.push(start..at);
                (start, used) = (at, Tokens::ZERO);
            }
            at += line.len();
            used += tokens;
        }
        pieces.push(start..text.len());
        pieces.into_iter().map(|piece| turn.join_ranges(&[piece], "", "")).collect()
    }
}

/// Splits a line into pieces of at most `longest` bytes, between characters.
fn split_line(line: &str, longest: usize) -> Vec<&str> {
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

    fn job(turns: &[String]) -> SummaryJob {
        let turns = turns.iter().map(|turn| Redacted::assume_redacted(turn.clone())).collect();
        let material = Material { turns, previous: None, focus: None };
        let counter = crate::meter::Meter::for_model(&crate::models::find("gpt-5")).counter;
        SummaryJob::new(SummaryScope::AllRemoved, material, Tokens(1_000), counter)
    }

    #[test]
    fn every_line_is_in_one_part_and_every_part_fits_the_window() {
        let long = "a line of a long output\n".repeat(3_000);
        let ask = job(&["[the user]\nBuild it.\n".to_owned(), long, "x".repeat(40_000)]);
        assert!(ask.frame_tokens() <= MAX_PROMPT_FRAME, "{} around the turns", ask.frame_tokens());
        for window in [4_000, 8_000, 32_000, 400_000] {
            let window = Tokens(window);
            let parts = ask.split_for_window(window);
            assert!(!parts.is_empty());
            let all: String = parts.iter().map(Redacted::as_str).collect();
            assert_eq!(
                all.replace('\n', ""),
                ask.material.turns.iter().map(Redacted::as_str).collect::<String>().replace('\n', "")
            );
            let so_far = Redacted::assume_redacted("word ".repeat((window.number() / 5) as usize / 2));
            for part in &parts {
                let question = ask.prompt(part, Some(&so_far), "4f1c0a", window);
                let asked = ask.counter.count(question.system.as_str()) + ask.counter.count(question.user.as_str());
                assert!(
                    asked + question.max_reply_tokens <= window,
                    "{asked} and {} in {window}",
                    question.max_reply_tokens
                );
            }
        }
        assert!(ask.split_for_window(Tokens(800)).is_empty(), "there is no room for anything");
    }

    #[test]
    fn the_prompts_forbid_what_misleads_a_later_reader() {
        let ask = job(&["[the user]\nBuild it.\n".to_owned()]);
        let appended = ask.appended_prompt();
        let part = &ask.split_for_window(Tokens(100_000))[0];
        let prompt = |so_far| ask.prompt(part, so_far, "4f1c0a", Tokens(100_000)).user;
        let earlier = Redacted::literal("## Goal\n- All.");
        let update = prompt(Some(&earlier));
        for text in [&appended, &prompt(None), &update] {
            for words in
                ["\"latest\" or \"current\"", "no message numbers", "Do not repeat their rules", "without \"None.\""]
            {
                assert!(text.as_str().contains(words), "{words}: {text}");
            }
        }
        for words in ["numbers of the actions go on", "one entry, with its last outcome", "each file is listed once"] {
            assert!(update.as_str().contains(words), "{words}");
        }
    }

    #[test]
    fn turns_are_fenced_and_the_topic_is_named() {
        let mut ask = job(&["[the user]\nBuild it.\n".to_owned()]);
        ask.material.focus = Some(Redacted::literal("the schema"));
        let parts = ask.split_for_window(Tokens(100_000));
        let first = ask.prompt(&parts[0], None, "4f1c0a", Tokens(100_000));
        assert!(first.user.as_str().contains("<turns 4f1c0a>\n[the user]\nBuild it.\n\n</turns 4f1c0a>"));
        assert!(first.user.as_str().contains("the schema") && !first.user.as_str().contains("<summary"));
        let next = ask.prompt(&parts[0], Some(&Redacted::literal("## Goal\n- All.")), "4f1c0a", Tokens(100_000));
        assert!(next.user.as_str().contains("<summary 4f1c0a>\n## Goal"));
        assert!(ask.appended_prompt().as_str().contains("## Active Task"));
    }
}
