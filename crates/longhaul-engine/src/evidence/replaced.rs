//! A rule that another takes the place of: "use tabs instead of spaces" ends "always indent with spaces".

use super::names::{self, shared};
use super::phrases::{List, TABLE};

/// Whether a later sentence of the user's puts something else in the place of what a rule demands.
///
/// What is replaced must be what the rule speaks of, and the two must be about the same: no rule ends because a word of it is
/// named. A rule that forbids what is replaced goes on.
pub(crate) fn replaces(sentence: &str, rule: &str) -> bool {
    let Some(replaced) = replaced(sentence) else { return false };
    let replaced = content(replaced);
    if replaced.is_empty() || sentence == rule || TABLE.marks(rule).has(List::Forbids) {
        return false;
    }
    let rule = content(rule);
    let is_half = |part: usize, of: usize| part > 0 && 2 * part >= of;
    is_half(shared(&replaced, &rule), replaced.len())
        && is_half(shared(&content(sentence), &rule), rule.len())
}

/// The part of a sentence that names what is not to be any more.
fn replaced(sentence: &str) -> Option<&str> {
    const ENDS: [char; 12] = [',', ';', '.', ':', '(', '–', '—', '，', '。', '；', '、', '\n'];
    let part = if let Some(at) = TABLE.first(List::InPlaceOf, sentence) {
        sentence[at.end..].trim_start().split(ENDS).next()
    } else {
        let at = TABLE.first(List::RatherThanBefore, sentence)?;
        sentence[..at.start].rsplit(ENDS).next()
    };
    part.filter(|part| !part.trim().is_empty())
}

/// The words that say what a sentence is about, besides those that make it a rule.
fn content(sentence: &str) -> Vec<u64> {
    let framing = [
        List::Filler,
        List::Standing,
        List::StandingAnywhere,
        List::UseVerb,
        List::AlwaysNever,
        List::Answering,
        List::Obligation,
        List::InPlaceOf,
        List::RatherThanBefore,
    ];
    names::content(&TABLE.without(&framing, sentence))
}

#[cfg(test)]
mod tests {
    use super::replaces;

    #[test]
    fn what_is_to_be_instead_ends_the_rule_for_what_was() {
        for (rule, sentence) in [
            ("Always use npm.", "Use pnpm instead of npm."),
            ("Always use British spelling.", "And always use American spelling instead of British."),
            ("Always use single quotes in Python.", "From now on use double quotes, not single quotes."),
            ("Always indent with spaces.", "Please indent with tabs rather than spaces."),
            ("Verwende immer Leerzeichen.", "Ab jetzt bitte Tabs statt Leerzeichen."),
            ("Antworte immer auf Englisch.", "Ab sofort auf Deutsch, nicht auf Englisch."),
            ("Utilise toujours des espaces.", "Désormais, utilise des tabulations au lieu des espaces."),
            ("Usa siempre espacios.", "A partir de ahora usa tabuladores en lugar de espacios."),
            ("总是使用单引号。", "从现在起用双引号而不是单引号。"),
            ("常にスペースを使ってください。", "これからはスペースではなくタブを使ってください。"),
        ] {
            assert!(replaces(sentence, rule), "{rule} / {sentence}");
        }
    }

    #[test]
    fn other_rules_go_on() {
        for (rule, sentence) in [
            ("Never use npm.", "Use pnpm instead of npm."),
            ("Always put spaces around operators.", "Use tabs instead of spaces."),
            ("Never leave trailing spaces.", "Use tabs instead of spaces."),
            ("Always run npm test before you commit.", "Use pnpm instead of npm."),
            ("Always use British spelling.", "Use Postgres instead of SQLite for it."),
            ("Always use British spelling.", "Always use British spelling."),
            ("Always use tabs instead of spaces.", "Always use tabs instead of spaces."),
            ("Verwende niemals Leerzeichen.", "Ab jetzt bitte Tabs statt Leerzeichen."),
            ("不要使用单引号。", "从现在起用双引号而不是单引号。"),
        ] {
            assert!(!replaces(sentence, rule), "{rule} / {sentence}");
        }
    }
}
