//! Text → the secrets in it, sorted and apart.
//!
//! Two keyword automata and one search for plus signs pass over the text; each hit is looked at by the one rule that it
//! calls for, within bounds. So the time is linear in the text, whatever it holds.

use std::cell::RefCell;
use std::ops::Range;

use super::command::Gives;
use super::name::{Hit, Place};
use super::named;
use super::rewritten::{self, Rewritten};
use super::rules::{Meaning, NAMED_KINDS, Rules, Standard, Vendor};
use super::shape::{Alphabet, Runs, Shape, starts_clean};
use super::value::{self, Class};
use super::{Content, blocks, contact, disguised, forms, kubernetes, mark, url};

/// A secret, before overlaps are settled. The lower rank names the kind where two overlap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Finding<'r> {
    pub(super) start: usize,
    pub(super) end: usize,
    rank: Rank,
    pub(super) kind: &'r str,
}

impl Finding<'_> {
    fn in_input(self, read: &Rewritten) -> Self {
        Self { start: read.origin(self.start), end: read.origin(self.end), ..self }
    }
}

/// The order that decides between shapes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    User,
    Vendor,
    Named,
    Block,
    Url,
    Contact,
}

/// How often text is read again at most because marks changed what stands beside them.
const ROUNDS: usize = 4;

/// All secrets in `text`, in order, none overlapping another or a mark that is already there.
///
/// A mark is no letter, so what stood glued to a secret may be found once the secret is gone. Text with secrets is therefore
/// read again with marks in their place, until nothing new turns up: that makes redaction idempotent.
pub(super) fn secrets<'r>(text: &[u8], content: Content, rules: &'r Rules) -> Vec<Finding<'r>> {
    let mut found = pass(text, content, rules);
    for _ in 0..ROUNDS {
        if found.is_empty() {
            break;
        }
        let marked = Rewritten::marked(text, found.iter().map(|finding| finding.start..finding.end));
        let more = pass(&marked.text, content, rules);
        if more.is_empty() {
            break;
        }
        found.extend(more.into_iter().map(|finding| finding.in_input(&marked)));
        found.sort_unstable();
    }
    found
}

fn pass<'r>(text: &[u8], content: Content, rules: &'r Rules) -> Vec<Finding<'r>> {
    let mut found = found_in(text, content, rules);
    if let Some(visible) = Rewritten::visible(text) {
        let seen = found_in(&visible.text, content, rules);
        found.extend(seen.into_iter().filter(|finding| finding.start < finding.end).map(|finding| Finding {
            start: visible.origin(finding.start),
            end: visible.origin_end(finding.end),
            ..finding
        }));
    }
    for finding in &mut found {
        (finding.start, finding.end) = between_characters(text, finding.start, finding.end);
    }
    let found = merged(found);
    let marks = mark::existing(text);
    let touches_mark = |finding: &Finding| {
        let after = marks.partition_point(|&(_, end)| end <= finding.start);
        marks.get(after).is_some_and(|&(start, _)| start < finding.end)
    };
    let allowed = |finding: &Finding| {
        rules.allowed.iter().any(|allow| allow.is_match(&text[finding.start..finding.end]))
    };
    found.into_iter().filter(|finding| !touches_mark(finding) && !allowed(finding)).collect()
}

/// What the rules find, in no order.
fn found_in<'r>(text: &[u8], content: Content, rules: &'r Rules) -> Vec<Finding<'r>> {
    let mut scan = Scan::over(text, rules);
    scan.literals();
    scan.encoded();
    scan.words(content);
    scan.phones();
    scan.user_rules();
    scan.found
}

/// The secrets in `text` that their own shape gives away, whatever stands around them.
pub(super) fn shaped<'r>(text: &[u8], rules: &'r Rules) -> Vec<Finding<'r>> {
    let mut scan = Scan::over(text, rules);
    scan.literals();
    let mut found = scan.found;
    found.retain(|finding| finding.rank == Rank::Vendor);
    merged(found)
}

/// What a rule cuts off at its greatest length may end inside a character; the character goes with it.
fn between_characters(text: &[u8], start: usize, end: usize) -> (usize, usize) {
    let inside = |&at: &usize| text.get(at).is_some_and(|byte| byte & 0xc0 == 0x80);
    let start = start - (0..3).take_while(|back| inside(&(start - back)) && *back < start).count();
    (start, end + (end..end + 3).take_while(inside).count())
}

/// The secret that a JSON field holds by its name: where it is in the value, and its kind.
pub(super) fn field(name: &[u8], value: &[u8], rules: &Rules) -> Option<(Range<usize>, &'static str)> {
    let (start, end, class) = named::field(name, value, rules.standard)?;
    Some((start..end, named_kind(class)))
}

/// Overlapping findings become one, over both, of the kind that ranks first: nothing that any rule found stays.
fn merged(mut found: Vec<Finding>) -> Vec<Finding> {
    found.sort_unstable();
    let mut apart: Vec<Finding> = Vec::with_capacity(found.len());
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

struct Scan<'t, 'r> {
    runs: Runs<'t>,
    rules: &'r Rules,
    found: Vec<Finding<'r>>,
    refused: RefCell<Vec<Refused<'r>>>,
}

/// A long run that has the shape of a key and is none, because it is not random.
struct Refused<'r> {
    shape: &'r Shape,
    end: usize,
    /// Up to here, what begins inside is as little random: nearly all of it was judged already.
    until: usize,
}

/// Of a run that was refused, a key that begins so many bytes later is judged again, where the run is longer than the second.
const JUDGED_AGAIN: usize = 32;
const MIN_REFUSED: usize = 96;

impl<'t, 'r> Scan<'t, 'r> {
    fn over(text: &'t [u8], rules: &'r Rules) -> Self {
        Self { runs: Runs::over(text), rules, found: Vec::new(), refused: RefCell::default() }
    }

    /// Whether what begins here is the end of a run that was judged shortly before, as a key of the same shape, and refused: text
    /// that repeats a prefix would else be judged for each.
    fn was_refused(&self, shape: &Shape, at: usize) -> bool {
        let refused = self.refused.borrow();
        refused.iter().any(|known| {
            let same = std::ptr::eq(known.shape, shape) && at < known.until;
            same && (shape.is_one_run()
                || shape.around(&self.runs, at).is_some_and(|(_, end)| end == known.end))
        })
    }

    fn refuse(&self, shape: &'r Shape, (start, end): (usize, usize)) {
        if end - start >= MIN_REFUSED {
            let mut refused = self.refused.borrow_mut();
            refused.retain(|known| known.until > start && !std::ptr::eq(known.shape, shape));
            refused.push(Refused { shape, end, until: start + JUDGED_AGAIN });
        }
    }

    fn add(&mut self, kind: &'r str, rank: Rank, (start, end): (usize, usize)) {
        self.found.push(Finding { start, end, rank, kind });
    }

    fn literals(&mut self) {
        let rules: &'r Standard = self.rules.standard;
        let text = self.runs.text;
        let (mut at, mut document_read, mut object_read) = (0, 0, 0);
        // A hit may begin inside another, unless a finding takes both.
        for hit in rules.literals.find_overlapping_iter(text) {
            let (start, end, pattern) = (hit.start(), hit.end(), hit.pattern().as_usize());
            if start < at {
                continue;
            }
            // No key goes on with its own beginning: of a beginning that is repeated, the last can be one's.
            if text[end..].starts_with(&text[start..end]) {
                continue;
            }
            if let Some((vendor, range)) = self.key_at(start, &rules.literal_meanings[pattern]) {
                self.add(&vendor.kind, Rank::Vendor, range);
                if vendor.kind == "aws-access-key"
                    && let Some(range) = aws_secret(&self.runs, range.1)
                {
                    self.add("aws-secret-key", Rank::Vendor, range);
                }
                at = at.max(range.1);
                continue;
            }
            for &meaning in &rules.literal_meanings[pattern] {
                match meaning {
                    Meaning::Url => {
                        let scheme_end = start - usize::from(start > 0 && text[start - 1] == b':');
                        if let Some((kind, range)) = url::credentials(text, scheme_end, end, rules) {
                            self.add(kind, Rank::Url, range);
                            at = at.max(range.1);
                        }
                    }
                    Meaning::KeyBlock => {
                        if let Some(range) = blocks::private_key(&self.runs, start) {
                            self.add("private-key", Rank::Block, range);
                            at = at.max(range.1);
                        }
                    }
                    Meaning::PuttyBlock => {
                        if let Some(range) = blocks::putty_key(&self.runs, start) {
                            self.add("private-key", Rank::Block, range);
                            at = at.max(range.1);
                        }
                    }
                    Meaning::Mention => {
                        if let Some(range) = contact::mention(text, start) {
                            self.add("discord-mention", Rank::Contact, range);
                        }
                    }
                    Meaning::KubernetesSecret => {
                        if start < document_read {
                            continue;
                        }
                        let found = &mut self.found;
                        document_read = kubernetes::in_yaml(text, start, rules, |start, end| {
                            found.push(Finding { start, end, rank: Rank::Block, kind: "kubernetes-secret" });
                        });
                    }
                    Meaning::KubernetesJson => {
                        let found = &mut self.found;
                        object_read = kubernetes::in_json(text, start, object_read, rules, |start, end| {
                            found.push(Finding { start, end, rank: Rank::Block, kind: "kubernetes-secret" });
                        });
                    }
                    _ => {}
                }
            }
        }
    }

    /// Keys and URLs that are percent-encoded, as in queries and form bodies, keys in the escapes of a string, and base64 of a whole
    /// key. Names need no such reading: what a name gives away is taken whole, percent signs and all.
    fn encoded(&mut self) {
        for word in rewritten::encoded_words(self.runs.text) {
            let decoded = Rewritten::decoded(self.runs.text, word);
            let mut inner = Scan::over(&decoded.text, self.rules);
            inner.literals();
            self.found.extend(inner.found.into_iter().map(|finding| finding.in_input(&decoded)));
        }
        let escaped = disguised::may_be_escaped(self.runs.text);
        for word in escaped.then(|| disguised::escaped_words(self.runs.text)).into_iter().flatten() {
            let read = Rewritten::unescaped(self.runs.text, word);
            let mut inner = Scan::over(&read.text, self.rules);
            inner.literals();
            self.found.extend(inner.found.into_iter().map(|finding| finding.in_input(&read)));
        }
        for (word, text) in disguised::base64_words(self.runs.text) {
            let whole = text.trim_ascii_end();
            let key =
                shaped(whole, self.rules).into_iter().find(|key| key.start == 0 && key.end == whole.len());
            self.found.extend(key.map(|key| Finding { start: word.start, end: word.end, ..key }));
        }
    }

    /// The key whose literal stands at `at`: of the first shape that it has as published, else of the first that it has more
    /// or less.
    fn key_at(&self, at: usize, meanings: &[Meaning]) -> Option<(&'r Vendor, (usize, usize))> {
        let rules: &'r Standard = self.rules.standard;
        let shapes = || {
            meanings.iter().filter_map(|meaning| match *meaning {
                Meaning::Shape { vendor, shape } => Some((&rules.vendors[vendor], shape)),
                _ => None,
            })
        };
        let published =
            shapes().find_map(|(vendor, shape)| Some((vendor, self.published(vendor, shape, at)?)));
        published.or_else(|| {
            shapes().find_map(|(vendor, shape)| Some((vendor, self.loosened(vendor, shape, at)?)))
        })
    }

    fn published(&self, vendor: &'r Vendor, shape: usize, at: usize) -> Option<(usize, usize)> {
        let shape = &vendor.shapes[shape];
        if !self.can_begin(vendor, shape, at) {
            return None;
        }
        shape.around(&self.runs, at).filter(|&range| self.is_key(vendor, shape, range))
    }

    fn loosened(&self, vendor: &'r Vendor, shape: usize, at: usize) -> Option<(usize, usize)> {
        let text = self.runs.text;
        let shape = &vendor.loosened[shape];
        if !self.can_begin(vendor, shape, at) {
            return None;
        }
        let (start, end) = shape.around(&self.runs, at)?;
        let random = if shape.is_weak() {
            !joined(text, start) && value::is_dense(&text[start..end], 8)
        } else {
            let rest = &text[at + shape.keyword().map_or(0, str::len)..end];
            !value::is_wordy(&rest[..rest.len().min(64)])
        };
        if !random {
            self.refuse(shape, (start, end));
        }
        (random && self.is_key(vendor, shape, (start, end))).then_some((start, end))
    }

    /// Whether a key of this shape can have its literal here. This costs less than reading the key, and text that repeats a
    /// prefix mostly fails it.
    fn can_begin(&self, vendor: &Vendor, shape: &Shape, at: usize) -> bool {
        !shape.begins_with_keyword()
            || (!self.was_refused(shape, at) && (vendor.glued || starts_clean(self.runs.text, at)))
    }

    fn is_key(&self, vendor: &Vendor, shape: &'r Shape, (start, end): (usize, usize)) -> bool {
        let key = &self.runs.text[start..end];
        if !(vendor.glued || starts_clean(self.runs.text, start)) || inside_base64(self.runs.text, start, end)
        {
            return false;
        }
        let random =
            !value::is_filler(key) && (vendor.entropy == 0.0 || value::entropy(key) >= vendor.entropy);
        if !random {
            self.refuse(shape, (start, end));
        }
        random
    }

    fn words(&mut self, content: Content) {
        let rules: &'r Standard = self.rules.standard;
        let (mut done, mut cookies_read) = (0, 0);
        let mut commands_read = vec![0; rules.commands.len()];
        for hit in rules.words.find_iter(self.runs.text) {
            if hit.start() < done {
                continue;
            }
            match rules.word_meanings[hit.pattern().as_usize()] {
                Meaning::Named { class, whole, cookie } => {
                    if cookie {
                        if hit.start() < cookies_read {
                            continue;
                        }
                        let found = &mut self.found;
                        cookies_read = url::cookies(&self.runs, hit.end(), |start, end| {
                            found.push(Finding { start, end, rank: Rank::Named, kind: "cookie" });
                        });
                        continue;
                    }
                    let hit = Hit { start: hit.start(), end: hit.end(), class, whole };
                    let Some(named) = named::value_at(&self.runs, hit, rules) else { continue };
                    let noisy = matches!(named.place, Place::Assignment | Place::Field)
                        && named.class != Class::Header;
                    if !(noisy && content == Content::Code) {
                        self.add(named_kind(named.class), Rank::Named, (named.start, named.end));
                        done = named.end;
                        if let Some(range) = url::connection_string(self.runs.text, named.start, named.end) {
                            self.add("connection-string", Rank::User, range);
                            done = range.1;
                        }
                    }
                }
                Meaning::After { vendor } => {
                    let vendor: &'r Vendor = &rules.vendors[vendor];
                    if let Some(range) = self.key_after(vendor, hit.end()) {
                        self.add(&vendor.kind, Rank::Vendor, range);
                        done = range.1;
                    }
                }
                Meaning::Command { command } => {
                    if hit.start() < commands_read[command] || !starts_clean(self.runs.text, hit.start()) {
                        continue;
                    }
                    let row = &rules.commands[command];
                    let (read, range) = row.secret(self.runs.text, hit.end(), &rules.placeholders);
                    commands_read[command] = read;
                    if let Some(range) = range {
                        match row.gives {
                            Gives::Pair => self.add("url-credentials", Rank::Url, range),
                            _ => self.add("password", Rank::Named, range),
                        }
                    }
                }
                Meaning::Service => {
                    if let Some(range) = forms::service_key(&self.runs, hit.start(), hit.end()) {
                        self.add("service-key", Rank::Named, range);
                        done = range.1;
                    }
                }
                Meaning::Setting { setting } => {
                    if let Some(range) = rules.settings[setting].secret(
                        self.runs.text,
                        hit.start(),
                        hit.end(),
                        &rules.placeholders,
                    ) {
                        self.add("password", Rank::Named, range);
                        done = range.1;
                    }
                }
                Meaning::Piped { piped } => {
                    let row = &rules.piped[piped];
                    if let Some(range) =
                        row.secret(self.runs.text, hit.start(), hit.end(), &rules.placeholders)
                    {
                        self.add("password", Rank::Named, range);
                    }
                }
                Meaning::Form(form) => {
                    if let Some((kind, range)) = form.secret(self.runs.text, hit.end(), rules) {
                        self.add(kind, Rank::Named, range);
                    }
                }
                _ => {}
            }
        }
    }

    /// A key without a shape of its own, directly behind the name of its service.
    fn key_after(&self, vendor: &Vendor, name_end: usize) -> Option<(usize, usize)> {
        let text = self.runs.text;
        let word = text[name_end..]
            .iter()
            .take(16)
            .take_while(|byte| byte.is_ascii_alphabetic() || **byte == b'_')
            .count();
        let gap =
            |byte: &&u8| matches!(byte, b' ' | b'\t' | b'=' | b':' | b'"' | b'\'' | b'/' | b'-' | b'\\');
        let start = name_end + word;
        let at = start + text[start..].iter().take(12).take_while(gap).count();
        if at == start {
            return None;
        }
        let range = vendor.shapes.iter().find_map(|shape| shape.around(&self.runs, at))?;
        (!value::is_filler(&text[range.0..range.1])).then_some(range)
    }

    fn phones(&mut self) {
        let text = self.runs.text;
        for plus in memchr::memchr_iter(b'+', text) {
            if text.get(plus + 1).is_some_and(u8::is_ascii_digit)
                && let Some(range) = contact::phone_number(text, plus)
            {
                self.add("phone-number", Rank::Contact, range);
            }
        }
    }

    fn user_rules(&mut self) {
        let rules = self.rules;
        let text = self.runs.text;
        for rule in rules.user.iter() {
            for groups in rule.pattern.captures_iter(text) {
                if let Some(secret) =
                    groups.get(1).or_else(|| groups.get(0)).filter(|secret| !secret.is_empty())
                {
                    self.add(&rule.kind, Rank::User, (secret.start(), secret.end()));
                }
            }
        }
    }
}

fn named_kind(class: Class) -> &'static str {
    NAMED_KINDS.iter().find(|(known, ..)| *known == class).map_or("secret", |&(_, kind, _)| kind)
}

/// Whether a longer name goes on here: `task-…` has `sk-` in it, and so have `my-sk-…` and the address of a page, `/sk-…`.
fn joined(text: &[u8], start: usize) -> bool {
    start.checked_sub(1).is_some_and(|before| matches!(text[before], b'-' | b'_' | b'.' | b'/'))
}

/// Whether random characters stand on both sides, with no more than the signs of base64 between: a piece of a longer thing, in
/// which any few letters turn up.
fn inside_base64(text: &[u8], start: usize, end: usize) -> bool {
    const LEAST: usize = 16;
    let sign = |byte: Option<&u8>| matches!(byte, Some(b'/' | b'+'));
    if !sign(start.checked_sub(1).and_then(|at| text.get(at))) || !sign(text.get(end)) {
        return false;
    }
    let run = text[..start].iter().rev().take(64).take_while(|byte| Alphabet::Base64.holds(**byte)).count();
    let random = &text[start - run..start];
    random.iter().any(u8::is_ascii_uppercase) && value::is_dense(random, LEAST)
}

/// The secret that is listed beside an access key id, as consoles and CSV exports do.
fn aws_secret(runs: &Runs, id_end: usize) -> Option<(usize, usize)> {
    let text = runs.text;
    let limit = text.len().min(id_end + 64);
    let mut at = id_end;
    while at < limit {
        let end = runs.end(Alphabet::Base64, at);
        let run = &text[at..end];
        let mixed = run.len() == 40
            && run.iter().any(u8::is_ascii_digit)
            && run.iter().any(u8::is_ascii_uppercase)
            && run.iter().any(u8::is_ascii_lowercase);
        if mixed && !value::is_filler(run) {
            return Some((at, end));
        }
        at = end + 1;
    }
    None
}
