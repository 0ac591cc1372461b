//! The inflected forms of a query's words, and the words of a question that say nothing about its subject.
//!
//! ```text
//! painted  ──▶  paint · paints · painted · painting
//! went     ──▶  go · goes · going · gone · went
//! ```
//!
//! The index has words as they were written. A query is therefore looked up by all forms of its words, and a
//! text is scored by the same forms: the index needs no stems, so text of any language stays as it is, and a
//! store that was written by an older version is searched in the same way. Only words of small ASCII letters
//! are inflected, and only as in English; derived words (`painter`) are other words.

use std::collections::HashMap;
use std::sync::LazyLock;

/// The shortest word that is inflected by rule: shorter ones are seldom verbs or nouns of a question.
const MIN_INFLECTED_BYTES: usize = 3;
/// The longest word that is inflected by rule; longer ones are rarely words. Chosen by hand.
const MAX_INFLECTED_BYTES: usize = 20;
/// The shortest rest that a word keeps without its ending: "thing" is not a form of "th".
const MIN_STEM_BYTES: usize = 3;

/// The words that ask, refer or connect, and the parts of contractions (`don't` is `don` and `t`), in
/// alphabetical order. They are in most texts, but a short session is too small to show that by their
/// frequency.
const FUNCTION_WORDS: [&str; 139] = [
    "a",
    "about",
    "after",
    "again",
    "also",
    "am",
    "an",
    "and",
    "any",
    "anything",
    "are",
    "aren",
    "as",
    "at",
    "be",
    "because",
    "been",
    "before",
    "being",
    "both",
    "but",
    "by",
    "can",
    "could",
    "couldn",
    "d",
    "did",
    "didn",
    "do",
    "does",
    "doesn",
    "doing",
    "don",
    "done",
    "each",
    "else",
    "ever",
    "for",
    "from",
    "had",
    "hadn",
    "has",
    "hasn",
    "have",
    "haven",
    "having",
    "he",
    "her",
    "here",
    "hers",
    "herself",
    "him",
    "himself",
    "his",
    "how",
    "i",
    "if",
    "in",
    "into",
    "is",
    "isn",
    "it",
    "its",
    "itself",
    "just",
    "ll",
    "m",
    "may",
    "me",
    "might",
    "mine",
    "must",
    "my",
    "myself",
    "no",
    "nor",
    "not",
    "of",
    "on",
    "or",
    "our",
    "ours",
    "ourselves",
    "over",
    "re",
    "s",
    "shall",
    "she",
    "should",
    "shouldn",
    "so",
    "some",
    "such",
    "t",
    "than",
    "that",
    "the",
    "their",
    "theirs",
    "them",
    "themselves",
    "then",
    "there",
    "these",
    "they",
    "this",
    "those",
    "through",
    "to",
    "too",
    "under",
    "until",
    "up",
    "us",
    "ve",
    "very",
    "was",
    "wasn",
    "we",
    "were",
    "weren",
    "what",
    "when",
    "where",
    "whether",
    "which",
    "while",
    "who",
    "whom",
    "whose",
    "why",
    "will",
    "with",
    "would",
    "wouldn",
    "you",
    "your",
    "yours",
    "yourself",
];

/// The irregular verbs and nouns of everyday English. The first word of a row is its stem.
const IRREGULAR_WORDS: [&str; 92] = [
    "go goes going went gone",
    "get gets getting got gotten",
    "buy bought",
    "make made",
    "take took taken",
    "give gave given",
    "see sees seeing saw seen",
    "come came",
    "run ran",
    "eat ate eaten",
    "begin began begun",
    "write wrote written",
    "speak spoke spoken",
    "teach taught",
    "think thought",
    "bring brought",
    "feel felt",
    "find found",
    "hold held",
    "keep kept",
    "know knew known",
    "leave left",
    "lose lost",
    "meet met",
    "pay paid",
    "say said",
    "sell sold",
    "send sent",
    "sit sat",
    "sleep slept",
    "spend spent",
    "stand stood",
    "swim swam swum",
    "tell told",
    "win won",
    "wear wore worn",
    "fly flew flown",
    "grow grew grown",
    "drive drove driven",
    "break broke broken",
    "choose chose chosen",
    "draw drew drawn",
    "fall fell fallen",
    "forget forgot forgotten",
    "hear heard",
    "hide hid hidden",
    "build built",
    "catch caught",
    "fight fought",
    "ride rode ridden",
    "sing sang sung",
    "throw threw thrown",
    "lead led",
    "understand understood",
    "become became",
    "use uses used using",
    "die dies died dying",
    "lie lies lied lying lain",
    "tie ties tied tying",
    "rise rose risen",
    "wake woke woken",
    "steal stole stolen",
    "freeze froze frozen",
    "drink drank drunk",
    "ring rang rung",
    "sink sank sunk",
    "shrink shrank shrunk",
    "bend bent",
    "lend lent",
    "bind bound",
    "bite bit bitten",
    "blow blew blown",
    "deal dealt",
    "dig dug",
    "feed fed",
    "hang hung",
    "mean meant",
    "seek sought",
    "shake shook shaken",
    "shoot shot",
    "show showed shown",
    "stick stuck",
    "swear swore sworn",
    "tear tore torn",
    "child children",
    "man men",
    "woman women",
    "wife wives",
    "person people",
    "foot feet",
    "life lives",
    "index indices indexes",
];

/// Maps each irregular form to its row.
static ROW_OF_IRREGULAR: LazyLock<HashMap<&str, &str>> =
    LazyLock::new(|| IRREGULAR_WORDS.iter().flat_map(|row| row.split(' ').map(move |form| (form, *row))).collect());

/// Returns whether a term asks, refers or connects, and so says nothing about the subject of a question.
pub(super) fn is_function_word(term: &str) -> bool {
    FUNCTION_WORDS.contains(&term)
}

/// Returns the stem of a word: what its inflected forms have in common. It is a key, not a word.
pub(super) fn stem(word: &str) -> String {
    let word = ROW_OF_IRREGULAR.get(word).and_then(|row| row.split(' ').next()).unwrap_or(word);
    if !is_inflected(word) {
        return word.to_owned();
    }
    let mut stem = without_plural(word);
    if let Some(rest) = without_verb_ending(&stem) {
        stem = rest;
    }
    // "bake" and "baking", "stop" and "stopping", "carry" and "carried".
    if stem.len() > MIN_STEM_BYTES && stem.ends_with('e') {
        stem.pop();
    }
    let bytes = stem.as_bytes();
    if stem.len() > MIN_STEM_BYTES && bytes[stem.len() - 1] == bytes[stem.len() - 2] {
        stem.pop();
    }
    if stem.ends_with('y') {
        stem.pop();
        stem.push('i');
    }
    stem
}

fn is_inflected(word: &str) -> bool {
    (MIN_INFLECTED_BYTES..=MAX_INFLECTED_BYTES).contains(&word.len())
        && word.bytes().all(|byte| byte.is_ascii_lowercase())
}

fn without_plural(word: &str) -> String {
    if word.len() <= MIN_STEM_BYTES {
        return word.to_owned();
    }
    if let Some(rest) = word.strip_suffix("ies").filter(|rest| rest.len() > 1) {
        return format!("{rest}y");
    }
    if ["sses", "shes", "ches", "xes", "zes"].iter().any(|ending| word.ends_with(ending)) {
        return word[..word.len() - 2].to_owned();
    }
    let keeps = ["ss", "us", "is"].iter().any(|ending| word.ends_with(ending));
    word.strip_suffix('s').filter(|_| !keeps).unwrap_or(word).to_owned()
}

fn without_verb_ending(word: &str) -> Option<String> {
    let has_vowel = |rest: &str| rest.contains(['a', 'e', 'i', 'o', 'u', 'y']);
    let rest = word.strip_suffix("ing").or_else(|| word.strip_suffix("ed").filter(|rest| !rest.ends_with('e')))?;
    if rest.len() < MIN_STEM_BYTES || !has_vowel(rest) {
        return None;
    }
    Some(rest.strip_suffix('i').map_or_else(|| rest.to_owned(), |rest| format!("{rest}y")))
}

/// Returns a term and all words with the same stem that differ from it only by an ending, or by the row of
/// irregular words.
pub(super) fn forms(term: &str) -> Vec<String> {
    let mut forms = vec![term.to_owned()];
    if !is_inflected(term) {
        return forms;
    }
    let stem_of_term = stem(term);
    let mut add = |form: String| {
        if !forms.contains(&form) && stem(&form) == stem_of_term {
            forms.push(form);
        }
    };
    let mut bases = vec![term.to_owned(), stem_of_term.clone(), format!("{stem_of_term}e")];
    if let Some(rest) = stem_of_term.strip_suffix('i') {
        bases.push(format!("{rest}y"));
    }
    if let Some(last) = stem_of_term.chars().next_back() {
        bases.push(format!("{stem_of_term}{last}"));
    }
    for base in &bases {
        for ending in ["", "s", "es", "d", "ed", "ing"] {
            add(format!("{base}{ending}"));
        }
        if let Some(rest) = base.strip_suffix('y') {
            add(format!("{rest}ies"));
            add(format!("{rest}ied"));
        }
        let row = ROW_OF_IRREGULAR.get(base.as_str()).copied().unwrap_or_default();
        row.split(' ').filter(|form| !form.is_empty()).for_each(|form| add(form.to_owned()));
    }
    forms
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_has_all_its_inflected_forms_and_no_others() {
        for (word, expected) in [
            ("painted", "paint painted painting paints"),
            ("stop", "stop stopped stopping stops"),
            ("carries", "carried carries carry carrying"),
            ("bake", "bake baked bakes baking"),
            ("boxes", "box boxed boxes boxing"),
            ("went", "go goes going gone went"),
            ("running", "ran run running runs"),
            ("tries", "tried tries try trying"),
            ("used", "use used uses using"),
            ("children", "child childed childing children childs"),
            ("thing", "thing thinged thinging things"),
            ("miss", "miss missed misses missing"),
            ("fall", "fall fallen falling falls fell"),
        ] {
            let forms = forms(word);
            for form in expected.split(' ') {
                assert!(forms.iter().any(|found| found == form), "{word}: {form} is missing in {forms:?}");
            }
            for form in &forms {
                assert_eq!(stem(form), stem(word), "{word}: {form}");
            }
            assert!(forms.len() <= 30, "{word}: {forms:?}");
        }
        for (word, other) in
            [("campaign", "camp"), ("thing", "th"), ("bus", "bu"), ("painter", "paint"), ("need", "ne")]
        {
            assert!(!forms(word).iter().any(|form| form == other), "{word} {other}");
        }
    }

    #[test]
    fn words_of_other_scripts_identifiers_and_numbers_have_one_form() {
        for term in ["错误", "エラー", "파일", "ärger", "get_user", "e0308", "404", "ii", ""] {
            assert_eq!(forms(term), [term]);
        }
        let long = "a".repeat(MAX_INFLECTED_BYTES + 1);
        assert_eq!(forms(&long), [long.as_str()]);
    }

    #[test]
    fn questions_are_made_of_function_words() {
        assert!(["when", "did", "the", "s", "t", "who"].iter().all(|word| is_function_word(word)));
        assert!(!["error", "test", "user", "not_found", "错误"].iter().any(|word| is_function_word(word)));
        assert!(FUNCTION_WORDS.iter().all(|word| word.bytes().all(|byte| byte.is_ascii_lowercase())));
    }
}
