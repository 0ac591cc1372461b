//! What to look for: the shapes and names of `rules.toml`, and what the user adds or allows.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use aho_corasick::{AhoCorasick, AhoCorasickBuilder, AhoCorasickKind, MatchKind};
use regex::bytes::Regex;
use serde::Deserialize;

use super::command::Command;
use super::form::{FORMS, Form};
use super::placeholders::Placeholders;
use super::setting::{Piped, Setting};
use super::shape::Shape;
use super::value::Class;
use crate::config::Redaction;

/// Everything the redactor looks for. Made once and shared: cloning is cheap.
#[derive(Clone)]
pub struct Rules {
    pub(super) standard: &'static Standard,
    pub(super) user: Arc<[UserFind]>,
    pub(super) allowed: Arc<[Regex]>,
}

/// A user's rule that cannot be used: which one, where in its text, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleError {
    /// The list in the configuration: `redaction.rules` or `redaction.allow`.
    pub list: &'static str,
    /// The place in the list, from 0.
    pub rule: usize,
    /// The byte in the name or the pattern where the trouble is, from 0.
    pub at: usize,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}], byte {}: {}", self.list, self.rule, self.at, self.message)
    }
}

impl std::error::Error for RuleError {}

/// One line of the list that `longhaul redact --list-rules` prints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleSummary {
    /// What the mark says.
    pub kind: String,
    /// What sort of service or text it belongs to.
    pub group: String,
    /// The shape, pattern or names that are looked for.
    pub looks_for: String,
}

pub(super) struct UserFind {
    pub(super) kind: String,
    pub(super) pattern: Regex,
}

impl Default for Rules {
    fn default() -> Self {
        Self { standard: &STANDARD, user: Arc::from([]), allowed: Arc::from([]) }
    }
}

impl fmt::Debug for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rules({} of the user's, {} allowed)", self.user.len(), self.allowed.len())
    }
}

impl Rules {
    /// Whether the user added nothing and allowed nothing.
    pub(super) fn is_standard(&self) -> bool {
        self.user.is_empty() && self.allowed.is_empty()
    }

    /// The standard rules and the user's own. If a pattern has a capture group, the first group is the secret, else the
    /// whole match is. What a pattern of the allow-list matches in full is left alone, whichever rule found it.
    pub fn with_user(added: &Redaction) -> Result<Self, RuleError> {
        let user = added.rules.iter().enumerate().map(|(rule, added)| {
            let error = |at, message: &str| RuleError {
                list: "redaction.rules",
                rule,
                at,
                message: message.to_owned(),
            };
            if let Some(at) = misnamed(&added.name) {
                return Err(error(at, "a name has 1 to 40 lower case letters, digits and dashes"));
            }
            let pattern = compile(&added.pattern).map_err(|(at, message)| error(at, &message))?;
            if pattern.is_match(b"") {
                return Err(error(0, "the pattern matches the empty text, so it would match everywhere"));
            }
            Ok(UserFind { kind: added.name.clone(), pattern })
        });
        let allowed = added.allow.iter().enumerate().map(|(rule, pattern)| {
            let error = |(at, message)| RuleError { list: "redaction.allow", rule, at, message };
            compile(pattern).map_err(error)?;
            let whole = compile(&format!(r"\A(?:{pattern})\z")).map_err(error)?;
            if ANYTHING.iter().all(|probe| whole.is_match(probe)) {
                return Err(error((0, "the pattern lets every secret through".to_owned())));
            }
            Ok(whole)
        });
        let user = user.collect::<Result<Vec<_>, _>>()?;
        let allowed = allowed.collect::<Result<Vec<_>, _>>()?;
        Ok(Self { standard: &STANDARD, user: user.into(), allowed: allowed.into() })
    }

    /// All that is looked for, in the order of `rules.toml`, the user's rules last.
    #[must_use]
    pub fn summary(&self) -> Vec<RuleSummary> {
        let line = |kind: &str, group: &str, looks_for: String| RuleSummary {
            kind: kind.to_owned(),
            group: group.to_owned(),
            looks_for,
        };
        let vendor = self.standard.vendors.iter().map(|rule| {
            let before =
                if rule.after.is_empty() { String::new() } else { format!("{} then ", rule.after.join("|")) };
            line(&rule.kind, &rule.group, before + &rule.notation.join(" | "))
        });
        let names = NAMED_KINDS.iter().map(|&(_, kind, what)| line(kind, "named", what.to_owned()));
        let others = OTHER_KINDS.iter().map(|&(kind, what)| line(kind, "text", what.to_owned()));
        let user = self.user.iter().map(|rule| line(&rule.kind, "user", rule.pattern.as_str().to_owned()));
        vendor.chain(names).chain(others).chain(user).collect()
    }
}

/// Values with nothing in common: a pattern that matches all of them matches anything.
const ANYTHING: [&[u8]; 4] =
    [b"hunter2", b"Xk9-wQ_3.vR~7", b"correct horse", b"0123456789abcdef0123456789ABCDEF"];

/// What a named value is called in its mark.
pub(super) const NAMED_KINDS: [(Class, &str, &str); 5] = [
    (
        Class::Password,
        "password",
        "the value behind a name that ends in password, passwd, passphrase, pwd or pass",
    ),
    (
        Class::Secret,
        "secret",
        "the value behind a name that ends in secret, api key, access key, credentials or bearer",
    ),
    (
        Class::Token,
        "token",
        "a random-looking value behind a name that ends in token, key, auth, access, login or session",
    ),
    (Class::Query, "signature", "a random-looking sig or signature parameter of a query"),
    (Class::Header, "authorization", "what follows an Authorization header, and cookies"),
];

const OTHER_KINDS: [(&str, &str); 11] = [
    ("service-key", "a random-looking value behind the name of one of some 770 services"),
    ("recovery-phrase", "twelve to twenty-four words behind the name of a recovery phrase"),
    ("private-key", "PEM, OpenSSH, PGP and PuTTY private key blocks, also with escaped line ends"),
    ("url-credentials", "user:password in a URL, and behind the flag of a command that takes it"),
    ("database-url", "a URL with a password that is not of the web: databases, brokers, file servers"),
    ("connection-string", "Name=value pairs between semicolons that hold a password or an access key"),
    ("cookie", "the random-looking values of a Cookie or Set-Cookie header"),
    ("aws-secret-key", "the 40 characters that stand beside an AWS access key id"),
    ("kubernetes-secret", "the data of a Kubernetes Secret"),
    ("discord-mention", "<@id> with 17 to 20 digits"),
    ("phone-number", "an E.164 number with its plus sign"),
];

/// Where a name cannot be part of a mark.
fn misnamed(name: &str) -> Option<usize> {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    match name.bytes().position(|byte| !fits(byte)) {
        None if name.is_empty() => Some(0),
        None if name.len() > 40 => Some(40),
        at => at,
    }
}

fn compile(pattern: &str) -> Result<Regex, (usize, String)> {
    if let Err(error) = regex_syntax::Parser::new().parse(pattern) {
        return Err(match error {
            regex_syntax::Error::Parse(error) => (error.span().start.offset, error.kind().to_string()),
            regex_syntax::Error::Translate(error) => (error.span().start.offset, error.kind().to_string()),
            error => (0, error.to_string()),
        });
    }
    Regex::new(pattern).map_err(|error| (0, error.to_string()))
}

/// `rules.toml`, ready to be used.
pub(super) struct Standard {
    pub(super) vendors: Vec<Vendor>,
    /// Finds the literals that shapes begin with, and the marks of URLs, blocks and mentions.
    pub(super) literals: AhoCorasick,
    pub(super) literal_meanings: Vec<Vec<Meaning>>,
    /// Finds the words that name secrets, in any case.
    pub(super) words: AhoCorasick,
    pub(super) word_meanings: Vec<Meaning>,
    pub(super) commands: Vec<Command>,
    pub(super) settings: Vec<Setting>,
    pub(super) piped: Vec<Piped>,
    pub(super) names: Names,
    pub(super) placeholders: Placeholders,
}

pub(super) struct Vendor {
    pub(super) kind: String,
    pub(super) group: String,
    /// The shapes as published, and as they are looked for as well if what they fit looks drawn at random.
    pub(super) shapes: Vec<Shape>,
    pub(super) loosened: Vec<Shape>,
    pub(super) notation: Vec<String>,
    pub(super) glued: bool,
    pub(super) entropy: f64,
    pub(super) after: Vec<String>,
}

/// What a keyword hit calls for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    Shape {
        vendor: usize,
        shape: usize,
    },
    After {
        vendor: usize,
    },
    Named {
        class: Class,
        whole: bool,
        cookie: bool,
    },
    Url,
    KeyBlock,
    PuttyBlock,
    Mention,
    KubernetesSecret,
    KubernetesJson,
    Command {
        command: usize,
    },
    /// The name of a service whose keys have no shape of their own.
    Service,
    Setting {
        setting: usize,
    },
    Piped {
        piped: usize,
    },
    Form(Form),
}

#[derive(Deserialize)]
struct File {
    rules: Vec<VendorRow>,
    /// Names of services, between blanks.
    services: String,
    commands: Vec<Command>,
    settings: Vec<Setting>,
    piped: Vec<Piped>,
    names: NamesRow,
    placeholders: Placeholders,
}

#[derive(Deserialize)]
struct VendorRow {
    kind: String,
    group: String,
    shapes: Vec<String>,
    #[serde(default)]
    glued: bool,
    #[serde(default)]
    entropy: f64,
    #[serde(default)]
    after: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NamesRow {
    password: Vec<String>,
    secret: Vec<String>,
    token: Vec<String>,
    query: Vec<String>,
    header: Vec<String>,
    whole: Vec<String>,
    tails: Vec<String>,
    strengthens: Vec<String>,
    harmless: Vec<String>,
    filling: Vec<String>,
    headers: Vec<String>,
    schemes: Vec<String>,
}

/// The words around a name that say more about it.
pub(super) struct Names {
    pub(super) tails: Vec<String>,
    pub(super) strengthens: Vec<String>,
    pub(super) harmless: Vec<String>,
    pub(super) filling: Vec<String>,
    pub(super) headers: Vec<String>,
    pub(super) schemes: Vec<String>,
}

const LITERALS: [(&str, Meaning); 9] = [
    ("//", Meaning::Url),
    ("-----BEGIN", Meaning::KeyBlock),
    ("PuTTY-User-Key-File-", Meaning::PuttyBlock),
    ("<@", Meaning::Mention),
    ("kind: Secret", Meaning::KubernetesSecret),
    ("kind: secret", Meaning::KubernetesSecret),
    ("kind: \"Secret\"", Meaning::KubernetesSecret),
    ("kind\"", Meaning::KubernetesJson),
    ("kind\\\"", Meaning::KubernetesJson),
];

table! {
    static STANDARD: Standard = "rules.toml", Standard::made;
}

impl Standard {
    fn made(mut file: File) -> Result<Self, String> {
        let vendors =
            std::mem::take(&mut file.rules).into_iter().map(Vendor::parse).collect::<Result<Vec<_>, _>>()?;
        let mut literals: BTreeMap<&str, Vec<Meaning>> = BTreeMap::new();
        for (vendor, rule) in vendors.iter().enumerate().filter(|(_, rule)| rule.after.is_empty()) {
            for (at, shape) in rule.shapes.iter().enumerate() {
                let keyword = shape.keyword().ok_or(format!("{}: a shape without a literal", rule.kind))?;
                literals.entry(keyword).or_default().push(Meaning::Shape { vendor, shape: at });
            }
        }
        for (literal, meaning) in LITERALS {
            literals.entry(literal).or_default().push(meaning);
        }
        let words = words(&file, &vendors);
        Ok(Self {
            literals: automaton(literals.keys().copied(), MatchKind::Standard, AnyCase::No)?,
            literal_meanings: literals.into_values().collect(),
            words: automaton(
                words.iter().map(|(word, _)| word.as_str()),
                MatchKind::LeftmostLongest,
                AnyCase::Yes,
            )?,
            word_meanings: words.into_iter().map(|(_, meaning)| meaning).collect(),
            commands: file.commands,
            settings: file.settings,
            piped: file.piped,
            names: Names {
                tails: file.names.tails,
                strengthens: file.names.strengthens,
                harmless: file.names.harmless,
                filling: file.names.filling,
                headers: file.names.headers,
                schemes: file.names.schemes,
            },
            placeholders: file.placeholders,
            vendors,
        })
    }
}

fn words(file: &File, vendors: &[Vendor]) -> Vec<(String, Meaning)> {
    let names = &file.names;
    let classes = [
        (&names.password, Class::Password),
        (&names.secret, Class::Secret),
        (&names.token, Class::Token),
        (&names.query, Class::Query),
        (&names.header, Class::Header),
    ];
    let secrets = classes.into_iter().flat_map(|(words, class)| {
        words.iter().map(move |word| {
            let whole = names.whole.contains(word);
            (word.clone(), Meaning::Named { class, whole, cookie: word == "cookie" })
        })
    });
    let after = vendors.iter().enumerate().flat_map(|(vendor, rule)| {
        rule.after.iter().map(move |name| (name.clone(), Meaning::After { vendor }))
    });
    let commands = file.commands.iter().enumerate();
    let commands = commands.map(|(command, row)| (row.name.clone(), Meaning::Command { command }));
    let settings = file.settings.iter().enumerate();
    let settings = settings.map(|(setting, row)| (row.word.clone(), Meaning::Setting { setting }));
    let piped = file.piped.iter().enumerate();
    let piped = piped.map(|(piped, row)| (row.word.clone(), Meaning::Piped { piped }));
    let services = file.services.split_whitespace().map(|name| (name.to_owned(), Meaning::Service));
    let forms = FORMS.iter().map(|&(word, form)| (word.to_owned(), Meaning::Form(form)));
    secrets.chain(after).chain(commands).chain(settings).chain(piped).chain(forms).chain(services).collect()
}

#[derive(Clone, Copy)]
enum AnyCase {
    Yes,
    No,
}

fn automaton<'w>(
    words: impl Iterator<Item = &'w str>,
    kind: MatchKind,
    case: AnyCase,
) -> Result<AhoCorasick, String> {
    AhoCorasickBuilder::new()
        .ascii_case_insensitive(matches!(case, AnyCase::Yes))
        .match_kind(kind)
        .kind(Some(AhoCorasickKind::DFA))
        .prefilter(false)
        .build(words)
        .map_err(|error| error.to_string())
}

impl Vendor {
    fn parse(row: VendorRow) -> Result<Self, String> {
        let parse =
            |notation: &String| Shape::parse(notation).map_err(|error| format!("{}: {error}", row.kind));
        let shapes = row.shapes.iter().map(parse).collect::<Result<Vec<Shape>, _>>()?;
        let loosened = shapes.iter().map(Shape::loosened).collect();
        Ok(Self {
            shapes,
            loosened,
            kind: row.kind,
            group: row.group,
            notation: row.shapes,
            glued: row.glued,
            entropy: row.entropy,
            after: row.after,
        })
    }
}
