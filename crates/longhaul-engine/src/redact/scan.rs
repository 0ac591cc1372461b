//! Finds the secrets of a text, in order and without overlap.
//!
//! Two keyword searches and a search for plus signs (of phone numbers) pass over the text. Each hit starts one
//! bounded rule. The patterns of the user pass over the text too, and encoded words are decoded and searched.
//! So the time is linear in the size of the text, whatever it contains.

use std::cell::RefCell;
use std::ops::Range;

use super::command_rule::FlagValue;
use super::key_shape::{Alphabet, KeyShape, RunCache, is_key_boundary};
use super::mapped_text::{self, MappedText};
use super::named_value;
use super::rules::{KeywordMeaning, NAMED_KINDS, Rules, StandardRules, VendorRule};
use super::secret_name::{KeywordHit, NamePlace};
use super::value::{self, NameClass};
use super::{RedactionMode, contact, encodings, kubernetes, layout_search, private_key, tag, url};

/// A secret that a rule found. If two matches overlap, the one with the lower rank decides the kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SecretMatch<'r> {
    pub(super) start: usize,
    pub(super) end: usize,
    rank: MatchRank,
    pub(super) kind: &'r str,
}

impl SecretMatch<'_> {
    fn map_to_input(self, read: &MappedText) -> Self {
        Self { start: read.input_position(self.start), end: read.input_position(self.end), ..self }
    }
}

/// The kind of rule that found a match. A variant that is listed earlier takes precedence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum MatchRank {
    User,
    Vendor,
    Named,
    Block,
    Url,
    Contact,
}

/// The maximum number of times that a text is scanned again because redaction tags changed the neighbourhood
/// of other text. Chosen by hand.
const MAX_RESCANS: usize = 4;

/// Finds all secrets of a text, in order. None of them overlaps another or an existing redaction tag.
///
/// A tag begins and ends with a bracket, so text that was joined to a secret may be recognized once a tag
/// replaces the secret. Therefore a text with secrets is scanned again with tags in their place until nothing
/// new is found. This makes redaction idempotent.
pub(super) fn find_secrets<'r>(text: &[u8], mode: RedactionMode, rules: &'r Rules) -> Vec<SecretMatch<'r>> {
    let mut found = scan_once(text, mode, rules);
    for _ in 0..MAX_RESCANS {
        if found.is_empty() {
            break;
        }
        let marked = MappedText::with_tags(text, found.iter().map(|finding| finding.start..finding.end));
        let found_again = scan_once(&marked.text, mode, rules);
        if found_again.is_empty() {
            break;
        }
        found.extend(found_again.into_iter().map(|finding| finding.map_to_input(&marked)));
        found.sort_unstable();
    }
    found
}

fn scan_once<'r>(text: &[u8], mode: RedactionMode, rules: &'r Rules) -> Vec<SecretMatch<'r>> {
    let mut found = run_rules(text, mode, rules);
    if let Some(visible) = MappedText::without_hidden(text) {
        let seen = run_rules(&visible.text, mode, rules);
        found.extend(seen.into_iter().filter(|finding| finding.start < finding.end).map(|finding| SecretMatch {
            start: visible.input_position(finding.start),
            end: visible.input_end(finding.end),
            ..finding
        }));
    }
    for finding in &mut found {
        (finding.start, finding.end) = widen_to_characters(text, finding.start, finding.end);
    }
    let found = merge_overlaps(found);
    let tags = tag::find_tags(text);
    let touches_tag = |finding: &SecretMatch| {
        let after = tags.partition_point(|&(_, end)| end <= finding.start);
        tags.get(after).is_some_and(|&(start, _)| start < finding.end)
    };
    let allowed =
        |finding: &SecretMatch| rules.allowed.iter().any(|allow| allow.is_match(&text[finding.start..finding.end]));
    found.into_iter().filter(|finding| !touches_tag(finding) && !allowed(finding)).collect()
}

/// Runs all rules over a text. The matches are in no order and may overlap.
fn run_rules<'r>(text: &[u8], mode: RedactionMode, rules: &'r Rules) -> Vec<SecretMatch<'r>> {
    let mut scan = SecretScan::new(text, rules);
    scan.scan_literals();
    scan.scan_encoded();
    scan.scan_words(mode);
    scan.scan_phone_numbers();
    scan.scan_user_rules();
    scan.matches
}

/// Finds the secrets that their own shape reveals, whatever is around them.
pub(super) fn find_shaped_keys<'r>(text: &[u8], rules: &'r Rules) -> Vec<SecretMatch<'r>> {
    let mut scan = SecretScan::new(text, rules);
    scan.scan_literals();
    let mut found = scan.matches;
    found.retain(|finding| finding.rank == MatchRank::Vendor);
    merge_overlaps(found)
}

/// The number of bytes after a literal in which the same literal may begin again. Chosen by hand: it covers the
/// longest part that one published prefix adds to another, such as `cli_` to `prf_`.
const REPETITION_REACH_BYTES: usize = 8;
/// The minimum length in bytes of a literal that a random key does not contain by chance.
const MIN_TELLING_LITERAL_BYTES: usize = 4;

/// Whether the literal in this byte range begins again right after it. No key repeats its own beginning, so only
/// the last occurrence can start a key.
fn begins_again(text: &[u8], start: usize, end: usize) -> bool {
    let literal = &text[start..end];
    let reach = if literal.len() < MIN_TELLING_LITERAL_BYTES { 0 } else { REPETITION_REACH_BYTES };
    let near = &text[end..text.len().min(end + reach + literal.len())];
    near.windows(literal.len()).any(|window| window == literal)
}

/// Widens a byte range to whole characters. A rule that reaches its maximum length may end inside a
/// character.
fn widen_to_characters(text: &[u8], start: usize, end: usize) -> (usize, usize) {
    let inside = |&at: &usize| text.get(at).is_some_and(|byte| byte & 0xc0 == 0x80);
    let start = start - (0..3).take_while(|back| inside(&(start - back)) && *back < start).count();
    (start, end + (end..end + 3).take_while(inside).count())
}

/// Finds the secret in the value of a JSON field by the name of the field. Returns its byte range in the
/// value and its kind.
pub(super) fn find_in_field(name: &[u8], value: &[u8], rules: &Rules) -> Option<(Range<usize>, &'static str)> {
    let (start, end, class) = named_value::find_in_field(name, value, rules.standard)?;
    Some((start..end, kind_of_class(class)))
}

/// Merges overlapping matches into one that covers both, so that no part of a match remains. The lower rank
/// decides the kind.
fn merge_overlaps(mut found: Vec<SecretMatch>) -> Vec<SecretMatch> {
    found.sort_unstable();
    let mut apart: Vec<SecretMatch> = Vec::with_capacity(found.len());
    for next in found {
        match apart.last_mut() {
            Some(last) if next.start < last.end => {
                last.end = last.end.max(next.end);
                if next.rank < last.rank {
                    (last.rank, last.kind) = (next.rank, next.kind);
                }
            }
            _ => apart.push(next),
        }
    }
    apart
}

struct SecretScan<'t, 'r> {
    runs: RunCache<'t>,
    rules: &'r Rules,
    matches: Vec<SecretMatch<'r>>,
    rejected: RefCell<Vec<RejectedRun<'r>>>,
}

/// A long run that has the shape of a key but does not look random.
struct RejectedRun<'r> {
    shape: &'r KeyShape,
    end: usize,
    /// The offset before which another key that begins inside the run is rejected without a test: it would
    /// contain nearly the same bytes.
    until: usize,
}

/// The number of bytes from the beginning of a rejected run in which no other key of the same shape is
/// tested. Chosen by hand.
const REJECTION_REACH_BYTES: usize = 32;
/// The minimum length in bytes of a rejected run that is remembered. Chosen by hand: shorter runs are cheap
/// to test again.
const MIN_REJECTED_RUN_BYTES: usize = 96;

impl<'t, 'r> SecretScan<'t, 'r> {
    fn new(text: &'t [u8], rules: &'r Rules) -> Self {
        Self { runs: RunCache::new(text), rules, matches: Vec::new(), rejected: RefCell::default() }
    }

    /// Whether a key of this shape that begins at `at` is part of a run that was rejected shortly before.
    /// Without this, text that repeats a key prefix would be tested for each occurrence.
    fn was_rejected(&self, shape: &KeyShape, at: usize) -> bool {
        let rejected = self.rejected.borrow();
        rejected.iter().any(|run| {
            let same = std::ptr::eq(run.shape, shape) && at < run.until;
            same && (shape.is_literal_and_run()
                || shape.match_at(&self.runs, at).is_some_and(|(_, end)| end == run.end))
        })
    }

    fn reject(&self, shape: &'r KeyShape, (start, end): (usize, usize)) {
        if end - start >= MIN_REJECTED_RUN_BYTES {
            let mut rejected = self.rejected.borrow_mut();
            rejected.retain(|run| run.until > start && !std::ptr::eq(run.shape, shape));
            rejected.push(RejectedRun { shape, end, until: start + REJECTION_REACH_BYTES });
        }
    }

    fn add(&mut self, kind: &'r str, rank: MatchRank, (start, end): (usize, usize)) {
        self.matches.push(SecretMatch { start, end, rank, kind });
    }

    fn scan_literals(&mut self) {
        let rules: &'r StandardRules = self.rules.standard;
        let text = self.runs.text;
        let (mut at, mut document_read, mut object_read) = (0, 0, 0);
        // A hit may begin inside another one, unless a match covers both.
        for hit in rules.literal_finder.find_overlapping_iter(text) {
            let (start, end, pattern) = (hit.start(), hit.end(), hit.pattern().as_usize());
            if start < at {
                continue;
            }
            if begins_again(text, start, end) {
                continue;
            }
            if let Some((vendor, range)) = self.key_at(start, &rules.literal_meanings[pattern]) {
                self.add(&vendor.kind, MatchRank::Vendor, range);
                if vendor.kind == "aws-access-key"
                    && let Some(range) = find_aws_secret(&self.runs, range.1)
                {
                    self.add("aws-secret-key", MatchRank::Vendor, range);
                }
                at = at.max(range.1);
                continue;
            }
            for &meaning in &rules.literal_meanings[pattern] {
                match meaning {
                    KeywordMeaning::Url => {
                        let scheme_end = start - usize::from(start > 0 && text[start - 1] == b':');
                        if let Some((kind, range)) = url::find_credentials(text, scheme_end, end, rules) {
                            self.add(kind, MatchRank::Url, range);
                            at = at.max(range.1);
                        }
                    }
                    KeywordMeaning::KeyBlock => {
                        if let Some(range) = private_key::find_pem_block(&self.runs, start) {
                            self.add("private-key", MatchRank::Block, range);
                            at = at.max(range.1);
                        }
                    }
                    KeywordMeaning::PuttyBlock => {
                        if let Some(range) = private_key::find_putty_key(&self.runs, start) {
                            self.add("private-key", MatchRank::Block, range);
                            at = at.max(range.1);
                        }
                    }
                    KeywordMeaning::Mention => {
                        if let Some(range) = contact::find_mention(text, start) {
                            self.add("discord-mention", MatchRank::Contact, range);
                        }
                    }
                    KeywordMeaning::KubernetesYaml => {
                        if start < document_read {
                            continue;
                        }
                        let found = &mut self.matches;
                        document_read = kubernetes::scan_yaml(text, start, rules, |start, end| {
                            found.push(SecretMatch { start, end, rank: MatchRank::Block, kind: "kubernetes-secret" });
                        });
                    }
                    KeywordMeaning::KubernetesJson => {
                        let found = &mut self.matches;
                        object_read = kubernetes::scan_json(text, start, object_read, rules, |start, end| {
                            found.push(SecretMatch { start, end, rank: MatchRank::Block, kind: "kubernetes-secret" });
                        });
                    }
                    _ => {}
                }
            }
        }
    }

    /// Finds keys and URLs in percent-encoding, as in queries and form bodies; keys in the escape sequences
    /// of a string; and base64 of a whole key. Names need no decoding, because the value of a name is
    /// redacted as it is written, percent signs included.
    fn scan_encoded(&mut self) {
        for word in mapped_text::percent_encoded_words(self.runs.text) {
            let decoded = MappedText::percent_decoded(self.runs.text, word);
            let mut inner = SecretScan::new(&decoded.text, self.rules);
            inner.scan_literals();
            self.matches.extend(inner.matches.into_iter().map(|finding| finding.map_to_input(&decoded)));
        }
        let escaped = encodings::has_escapes(self.runs.text);
        for word in escaped.then(|| encodings::escaped_words(self.runs.text)).into_iter().flatten() {
            let read = MappedText::unescaped(self.runs.text, word);
            let mut inner = SecretScan::new(&read.text, self.rules);
            inner.scan_literals();
            self.matches.extend(inner.matches.into_iter().map(|finding| finding.map_to_input(&read)));
        }
        for (word, text) in encodings::base64_words(self.runs.text) {
            let whole = text.trim_ascii_end();
            let key =
                find_shaped_keys(whole, self.rules).into_iter().find(|key| key.start == 0 && key.end == whole.len());
            self.matches.extend(key.map(|key| SecretMatch { start: word.start, end: word.end, ..key }));
        }
    }

    /// Finds the key whose literal is at `at`. A shape that matches as published takes precedence over one
    /// that matches when loosened.
    fn key_at(&self, at: usize, meanings: &[KeywordMeaning]) -> Option<(&'r VendorRule, (usize, usize))> {
        let rules: &'r StandardRules = self.rules.standard;
        let shapes = || {
            meanings.iter().filter_map(|meaning| match *meaning {
                KeywordMeaning::Shape { vendor, shape } => Some((&rules.vendors[vendor], shape)),
                _ => None,
            })
        };
        let published = shapes().find_map(|(vendor, shape)| Some((vendor, self.published_key_at(vendor, shape, at)?)));
        published
            .or_else(|| shapes().find_map(|(vendor, shape)| Some((vendor, self.loosened_key_at(vendor, shape, at)?))))
    }

    fn published_key_at(&self, vendor: &'r VendorRule, shape: usize, at: usize) -> Option<(usize, usize)> {
        let shape = &vendor.shapes[shape];
        if !self.can_begin_at(vendor, shape, at) {
            return None;
        }
        shape.match_at(&self.runs, at).filter(|&range| self.is_key(vendor, shape, range))
    }

    fn loosened_key_at(&self, vendor: &'r VendorRule, shape: usize, at: usize) -> Option<(usize, usize)> {
        let text = self.runs.text;
        let shape = &vendor.loose_shapes[shape];
        if !self.can_begin_at(vendor, shape, at) {
            return None;
        }
        let (start, end) = shape.match_at(&self.runs, at)?;
        let random = if shape.has_weak_literal() {
            !continues_name(text, start) && value::looks_random(&text[start..end], 8)
        } else {
            let rest = &text[at + shape.keyword().map_or(0, str::len)..end];
            !value::looks_like_words(&rest[..rest.len().min(64)])
        };
        if !random {
            self.reject(shape, (start, end));
        }
        (random && self.is_key(vendor, shape, (start, end))).then_some((start, end))
    }

    /// Whether a key of this shape can have its literal at `at`. This is cheaper than matching the shape, and
    /// text that repeats a prefix mostly fails it.
    fn can_begin_at(&self, vendor: &VendorRule, shape: &KeyShape, at: usize) -> bool {
        !shape.begins_with_keyword()
            || (!self.was_rejected(shape, at) && (vendor.may_follow_letter || is_key_boundary(self.runs.text, at)))
    }

    fn is_key(&self, vendor: &VendorRule, shape: &'r KeyShape, (start, end): (usize, usize)) -> bool {
        let key = &self.runs.text[start..end];
        if !(vendor.may_follow_letter || is_key_boundary(self.runs.text, start))
            || is_inside_base64(self.runs.text, start, end)
        {
            return false;
        }
        let random = !value::is_dummy(key) && (vendor.min_entropy == 0.0 || value::entropy(key) >= vendor.min_entropy);
        if !random {
            self.reject(shape, (start, end));
        }
        random
    }

    fn scan_words(&mut self, mode: RedactionMode) {
        let rules: &'r StandardRules = self.rules.standard;
        let (mut done, mut cookies_read) = (0, 0);
        let mut commands_read = vec![0; rules.commands.len()];
        for hit in rules.word_finder.find_iter(self.runs.text) {
            if hit.start() < done {
                continue;
            }
            match rules.word_meanings[hit.pattern().as_usize()] {
                KeywordMeaning::SecretName { class, whole, cookie } => {
                    if cookie {
                        if hit.start() < cookies_read {
                            continue;
                        }
                        let found = &mut self.matches;
                        cookies_read = url::find_cookies(&self.runs, hit.end(), |start, end| {
                            found.push(SecretMatch { start, end, rank: MatchRank::Named, kind: "cookie" });
                        });
                        continue;
                    }
                    let hit = KeywordHit { start: hit.start(), end: hit.end(), class, whole_word: whole };
                    let Some(named) = named_value::find_value(&self.runs, hit, rules) else { continue };
                    let noisy = matches!(named.place, NamePlace::Assignment | NamePlace::Field)
                        && named.class != NameClass::Header;
                    if !(noisy && mode == RedactionMode::Code) {
                        self.add(kind_of_class(named.class), MatchRank::Named, (named.start, named.end));
                        done = named.end;
                        if let Some(range) = url::connection_string_around(self.runs.text, named.start, named.end) {
                            self.add("connection-string", MatchRank::User, range);
                            done = range.1;
                        }
                    }
                }
                KeywordMeaning::KeyAfterName { vendor } => {
                    let vendor: &'r VendorRule = &rules.vendors[vendor];
                    if let Some(range) = self.key_after_name(vendor, hit.end()) {
                        self.add(&vendor.kind, MatchRank::Vendor, range);
                        done = range.1;
                    }
                }
                KeywordMeaning::Command { command } => {
                    if hit.start() < commands_read[command] || !is_key_boundary(self.runs.text, hit.start()) {
                        continue;
                    }
                    let row = &rules.commands[command];
                    let (read, range) = row.find_secret(self.runs.text, hit.end(), &rules.placeholders);
                    commands_read[command] = read;
                    if let Some(range) = range {
                        match row.gives {
                            FlagValue::Pair => self.add("url-credentials", MatchRank::Url, range),
                            _ => self.add("password", MatchRank::Named, range),
                        }
                    }
                }
                KeywordMeaning::Service => {
                    if let Some(range) = layout_search::find_service_key(&self.runs, hit.start(), hit.end()) {
                        self.add("service-key", MatchRank::Named, range);
                        done = range.1;
                    }
                }
                KeywordMeaning::Setting { setting } => {
                    if let Some(range) =
                        rules.settings[setting].find_secret(self.runs.text, hit.start(), hit.end(), &rules.placeholders)
                    {
                        self.add("password", MatchRank::Named, range);
                        done = range.1;
                    }
                }
                KeywordMeaning::PipedPassword { piped } => {
                    let row = &rules.piped_passwords[piped];
                    if let Some(range) = row.find_secret(self.runs.text, hit.start(), hit.end(), &rules.placeholders) {
                        self.add("password", MatchRank::Named, range);
                    }
                }
                KeywordMeaning::Layout(form) => {
                    if let Some((kind, range)) = form.find_secret(self.runs.text, hit.end(), rules) {
                        self.add(kind, MatchRank::Named, range);
                    }
                }
                _ => {}
            }
        }
    }

    /// Finds a key without a literal of its own directly after the name of its service.
    fn key_after_name(&self, vendor: &VendorRule, name_end: usize) -> Option<(usize, usize)> {
        let text = self.runs.text;
        let word =
            text[name_end..].iter().take(16).take_while(|byte| byte.is_ascii_alphabetic() || **byte == b'_').count();
        let gap = |byte: &&u8| matches!(byte, b' ' | b'\t' | b'=' | b':' | b'"' | b'\'' | b'/' | b'-' | b'\\');
        let start = name_end + word;
        let at = start + text[start..].iter().take(12).take_while(gap).count();
        if at == start {
            return None;
        }
        let range = vendor.shapes.iter().find_map(|shape| shape.match_at(&self.runs, at))?;
        (!value::is_dummy(&text[range.0..range.1])).then_some(range)
    }

    fn scan_phone_numbers(&mut self) {
        let text = self.runs.text;
        for plus in memchr::memchr_iter(b'+', text) {
            if text.get(plus + 1).is_some_and(u8::is_ascii_digit)
                && let Some(range) = contact::find_phone_number(text, plus)
            {
                self.add("phone-number", MatchRank::Contact, range);
            }
        }
    }

    fn scan_user_rules(&mut self) {
        let rules = self.rules;
        let text = self.runs.text;
        for rule in rules.user.iter() {
            for groups in rule.pattern.captures_iter(text) {
                if let Some(secret) = groups.get(1).or_else(|| groups.get(0)).filter(|secret| !secret.is_empty()) {
                    self.add(&rule.kind, MatchRank::User, (secret.start(), secret.end()));
                }
            }
        }
    }
}

fn kind_of_class(class: NameClass) -> &'static str {
    NAMED_KINDS.iter().find(|(listed, ..)| *listed == class).map_or("secret", |&(_, kind, _)| kind)
}

/// Whether the text at `start` continues a longer name or path: `my-sk-…` and `/sk-…` contain `sk-`, too.
fn continues_name(text: &[u8], start: usize) -> bool {
    start.checked_sub(1).is_some_and(|before| matches!(text[before], b'-' | b'_' | b'.' | b'/'))
}

/// Whether the range is part of longer base64 text, in which any few letters can occur by chance: it is
/// between `/` or `+` characters, and the text before it looks random.
fn is_inside_base64(text: &[u8], start: usize, end: usize) -> bool {
    const MIN_RUN_BYTES: usize = 16;
    let is_slash_or_plus = |byte: Option<&u8>| matches!(byte, Some(b'/' | b'+'));
    if !is_slash_or_plus(start.checked_sub(1).and_then(|at| text.get(at))) || !is_slash_or_plus(text.get(end)) {
        return false;
    }
    let run = text[..start].iter().rev().take(64).take_while(|byte| Alphabet::Base64.contains(**byte)).count();
    let random = &text[start - run..start];
    random.iter().any(u8::is_ascii_uppercase) && value::looks_random(random, MIN_RUN_BYTES)
}

/// Finds the secret key that follows an AWS access key ID, as in consoles and CSV exports.
fn find_aws_secret(runs: &RunCache, id_end: usize) -> Option<(usize, usize)> {
    let text = runs.text;
    let limit = text.len().min(id_end + 64);
    let mut at = id_end;
    while at < limit {
        let end = runs.run_end(Alphabet::Base64, at);
        let run = &text[at..end];
        let mixed = run.len() == 40
            && run.iter().any(u8::is_ascii_digit)
            && run.iter().any(u8::is_ascii_uppercase)
            && run.iter().any(u8::is_ascii_lowercase);
        if mixed && !value::is_dummy(run) {
            return Some((at, end));
        }
        at = end + 1;
    }
    None
}
