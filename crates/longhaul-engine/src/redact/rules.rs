//! The rules: the key shapes and names of `rules.toml`, and the patterns that the user adds or allows.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use aho_corasick::{AhoCorasick, AhoCorasickBuilder, AhoCorasickKind, MatchKind};
use regex::bytes::Regex;
use serde::Deserialize;

use super::command_rule::CommandRule;
use super::key_shape::KeyShape;
use super::keyword_password::{PipedPasswordRule, SettingRule};
use super::layout::{LAYOUT_KEYWORDS, SecretLayout};
use super::placeholders::Placeholders;
use super::value::NameClass;
use crate::config::RedactionConfig;

/// All rules of a redactor. They are built once and shared, so a clone is cheap.
#[derive(Clone)]
pub struct Rules {
    pub(super) standard: &'static StandardRules,
    pub(super) user: Arc<[UserPattern]>,
    pub(super) allowed: Arc<[Regex]>,
}

/// An error in a rule of the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleError {
    /// The configuration key of the list: `redaction.rules` or `redaction.allow`.
    pub list: &'static str,
    /// The index of the rule in the list, from 0.
    pub index: usize,
    /// The offset of the error in the name or the pattern, in bytes from 0.
    pub byte: usize,
    /// A description of the error.
    pub message: String,
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}], byte {}: {}", self.list, self.index, self.byte, self.message)
    }
}

impl std::error::Error for RuleError {}

/// One line of the list that `longhaul redact --list-rules` prints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleSummary {
    /// The kind of the secret, as in its redaction tag.
    pub kind: String,
    /// The group of services or texts that the rule belongs to.
    pub group: String,
    /// A description of what the rule matches: the shapes, the pattern or the names.
    pub pattern: String,
}

pub(super) struct UserPattern {
    pub(super) kind: String,
    pub(super) pattern: Regex,
}

impl Default for Rules {
    fn default() -> Self {
        Self { standard: &STANDARD_RULES, user: Arc::from([]), allowed: Arc::from([]) }
    }
}

impl fmt::Debug for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rules({} of the user's, {} allowed)", self.user.len(), self.allowed.len())
    }
}

impl Rules {
    /// Whether the user added no rule and allowed nothing.
    pub(super) fn is_standard(&self) -> bool {
        self.user.is_empty() && self.allowed.is_empty()
    }

    /// Builds the standard rules and those of the user. If a pattern has a capture group, the first group is
    /// the secret, otherwise the whole match is. A value that a pattern of the allow-list matches in full is
    /// not redacted, whichever rule found it.
    pub fn with_user_rules(added: &RedactionConfig) -> Result<Self, RuleError> {
        let user = added.rules.iter().enumerate().map(|(rule, added)| {
            let error = |at, message: &str| RuleError {
                list: "redaction.rules",
                index: rule,
                byte: at,
                message: message.to_owned(),
            };
            if let Some(at) = invalid_name_byte(&added.name) {
                return Err(error(at, "a name has 1 to 40 lower case letters, digits and dashes"));
            }
            let pattern = compile_pattern(&added.pattern).map_err(|(at, message)| error(at, &message))?;
            if pattern.is_match(b"") {
                return Err(error(0, "the pattern matches the empty text, so it would match everywhere"));
            }
            Ok(UserPattern { kind: added.name.clone(), pattern })
        });
        let allowed = added.allow.iter().enumerate().map(|(rule, pattern)| {
            let error = |(at, message)| RuleError { list: "redaction.allow", index: rule, byte: at, message };
            compile_pattern(pattern).map_err(error)?;
            let whole = compile_pattern(&format!(r"\A(?:{pattern})\z")).map_err(error)?;
            if ALLOW_ALL_PROBES.iter().all(|probe| whole.is_match(probe)) {
                return Err(error((0, "the pattern matches every value, so no secret would be redacted".to_owned())));
            }
            Ok(whole)
        });
        let user = user.collect::<Result<Vec<_>, _>>()?;
        let allowed = allowed.collect::<Result<Vec<_>, _>>()?;
        Ok(Self { standard: &STANDARD_RULES, user: user.into(), allowed: allowed.into() })
    }

    /// Lists all rules: those of `rules.toml` in their order, then those of the user.
    #[must_use]
    pub fn summary(&self) -> Vec<RuleSummary> {
        let line = |kind: &str, group: &str, looks_for: String| RuleSummary {
            kind: kind.to_owned(),
            group: group.to_owned(),
            pattern: looks_for,
        };
        let vendor = self.standard.vendors.iter().map(|rule| {
            let before = if rule.preceding_names.is_empty() {
                String::new()
            } else {
                format!("{} then ", rule.preceding_names.join("|"))
            };
            line(&rule.kind, &rule.group, before + &rule.notation.join(" | "))
        });
        let names = NAMED_KINDS.iter().map(|&(_, kind, what)| line(kind, "named", what.to_owned()));
        let others = OTHER_KINDS.iter().map(|&(kind, what)| line(kind, "text", what.to_owned()));
        let user = self.user.iter().map(|rule| line(&rule.kind, "user", rule.pattern.as_str().to_owned()));
        vendor.chain(names).chain(others).chain(user).collect()
    }
}

/// Values with nothing in common. A pattern of the allow-list that matches all of them would allow every
/// secret.
const ALLOW_ALL_PROBES: [&[u8]; 4] =
    [b"hunter2", b"Xk9-wQ_3.vR~7", b"correct horse", b"0123456789abcdef0123456789ABCDEF"];

/// The kind in the redaction tag for each class of names, with a description for `--list-rules`.
pub(super) const NAMED_KINDS: [(NameClass, &str, &str); 5] = [
    (NameClass::Password, "password", "the value after a name that ends in password, passwd, passphrase, pwd or pass"),
    (
        NameClass::Secret,
        "secret",
        "the value after a name that ends in secret, api key, access key, credentials or bearer",
    ),
    (
        NameClass::Token,
        "token",
        "a random-looking value after a name that ends in token, key, auth, access, login or session",
    ),
    (NameClass::QueryToken, "signature", "a random-looking sig or signature parameter of a query"),
    (NameClass::Header, "authorization", "what follows an Authorization header, and cookies"),
];

const OTHER_KINDS: [(&str, &str); 11] = [
    ("service-key", "a random-looking value after the name of one of about 770 services"),
    ("recovery-phrase", "twelve to twenty-four words after the name of a recovery phrase"),
    ("private-key", "PEM, OpenSSH, PGP and PuTTY private key blocks, also with escaped line ends"),
    ("url-credentials", "user:password in a URL, and after the flag of a command that takes it"),
    ("database-url", "a URL with a password, other than a web address: databases, brokers, file servers"),
    ("connection-string", "Name=value pairs between semicolons that contain a password or an access key"),
    ("cookie", "the random-looking values of a Cookie or Set-Cookie header"),
    ("aws-secret-key", "the 40 characters beside an AWS access key ID"),
    ("kubernetes-secret", "the data of a Kubernetes Secret"),
    ("discord-mention", "<@id> with 17 to 20 digits"),
    ("phone-number", "an E.164 number with its plus sign"),
];

/// Returns the offset of the first byte that a kind in a redaction tag may not have. A kind has 1 to 40
/// bytes.
fn invalid_name_byte(name: &str) -> Option<usize> {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    match name.bytes().position(|byte| !fits(byte)) {
        None if name.is_empty() => Some(0),
        None if name.len() > 40 => Some(40),
        at => at,
    }
}

fn compile_pattern(pattern: &str) -> Result<Regex, (usize, String)> {
    if let Err(error) = regex_syntax::Parser::new().parse(pattern) {
        return Err(match error {
            regex_syntax::Error::Parse(error) => (error.span().start.offset, error.kind().to_string()),
            regex_syntax::Error::Translate(error) => (error.span().start.offset, error.kind().to_string()),
            error => (0, error.to_string()),
        });
    }
    Regex::new(pattern).map_err(|error| (0, error.to_string()))
}

/// The contents of `rules.toml`, prepared for searching.
pub(super) struct StandardRules {
    pub(super) vendors: Vec<VendorRule>,
    /// Finds the literals that key shapes have, and the beginnings of URLs, key blocks, mentions and
    /// Kubernetes Secrets.
    pub(super) literal_finder: AhoCorasick,
    pub(super) literal_meanings: Vec<Vec<KeywordMeaning>>,
    /// Finds the words that name secrets and the other keywords, in any case.
    pub(super) word_finder: AhoCorasick,
    pub(super) word_meanings: Vec<KeywordMeaning>,
    pub(super) commands: Vec<CommandRule>,
    pub(super) settings: Vec<SettingRule>,
    pub(super) piped_passwords: Vec<PipedPasswordRule>,
    pub(super) names: NameWords,
    pub(super) placeholders: Placeholders,
}

pub(super) struct VendorRule {
    pub(super) kind: String,
    pub(super) group: String,
    /// The shapes as published.
    pub(super) shapes: Vec<KeyShape>,
    /// The same shapes with wider alphabets and shorter lengths. What they match must also look random.
    pub(super) loose_shapes: Vec<KeyShape>,
    pub(super) notation: Vec<String>,
    pub(super) may_follow_letter: bool,
    pub(super) min_entropy: f64,
    pub(super) preceding_names: Vec<String>,
}

/// The search that a keyword starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeywordMeaning {
    Shape {
        vendor: usize,
        shape: usize,
    },
    KeyAfterName {
        vendor: usize,
    },
    SecretName {
        class: NameClass,
        whole: bool,
        cookie: bool,
    },
    Url,
    KeyBlock,
    PuttyBlock,
    Mention,
    KubernetesYaml,
    KubernetesJson,
    Command {
        command: usize,
    },
    /// The name of a service whose keys have no shape of their own.
    Service,
    Setting {
        setting: usize,
    },
    PipedPassword {
        piped: usize,
    },
    Layout(SecretLayout),
}

#[derive(Deserialize)]
struct RulesFile {
    rules: Vec<VendorRow>,
    /// The names of the services, separated by white space.
    services: String,
    commands: Vec<CommandRule>,
    settings: Vec<SettingRule>,
    piped: Vec<PipedPasswordRule>,
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

/// Words near the keyword of a name that change its meaning. `rules.toml` documents each list.
pub(super) struct NameWords {
    pub(super) suffixes: Vec<String>,
    pub(super) strengthening: Vec<String>,
    pub(super) harmless: Vec<String>,
    pub(super) fillers: Vec<String>,
    pub(super) header_names: Vec<String>,
    pub(super) auth_schemes: Vec<String>,
}

const LITERAL_KEYWORDS: [(&str, KeywordMeaning); 9] = [
    ("//", KeywordMeaning::Url),
    ("-----BEGIN", KeywordMeaning::KeyBlock),
    ("PuTTY-User-Key-File-", KeywordMeaning::PuttyBlock),
    ("<@", KeywordMeaning::Mention),
    ("kind: Secret", KeywordMeaning::KubernetesYaml),
    ("kind: secret", KeywordMeaning::KubernetesYaml),
    ("kind: \"Secret\"", KeywordMeaning::KubernetesYaml),
    ("kind\"", KeywordMeaning::KubernetesJson),
    ("kind\\\"", KeywordMeaning::KubernetesJson),
];

table! {
    static STANDARD_RULES: StandardRules = "rules.toml", StandardRules::from_file;
}

impl StandardRules {
    fn from_file(mut file: RulesFile) -> Result<Self, String> {
        let vendors =
            std::mem::take(&mut file.rules).into_iter().map(VendorRule::parse).collect::<Result<Vec<_>, _>>()?;
        let mut literals: BTreeMap<&str, Vec<KeywordMeaning>> = BTreeMap::new();
        for (vendor, rule) in vendors.iter().enumerate().filter(|(_, rule)| rule.preceding_names.is_empty()) {
            for (at, shape) in rule.shapes.iter().enumerate() {
                let keyword = shape.keyword().ok_or(format!("{}: a shape without a literal", rule.kind))?;
                literals.entry(keyword).or_default().push(KeywordMeaning::Shape { vendor, shape: at });
            }
        }
        for (literal, meaning) in LITERAL_KEYWORDS {
            literals.entry(literal).or_default().push(meaning);
        }
        let words = collect_keywords(&file, &vendors);
        Ok(Self {
            literal_finder: build_finder(literals.keys().copied(), MatchKind::Standard, IgnoreCase::No)?,
            literal_meanings: literals.into_values().collect(),
            word_finder: build_finder(
                words.iter().map(|(word, _)| word.as_str()),
                MatchKind::LeftmostLongest,
                IgnoreCase::Yes,
            )?,
            word_meanings: words.into_iter().map(|(_, meaning)| meaning).collect(),
            commands: file.commands,
            settings: file.settings,
            piped_passwords: file.piped,
            names: NameWords {
                suffixes: file.names.tails,
                strengthening: file.names.strengthens,
                harmless: file.names.harmless,
                fillers: file.names.filling,
                header_names: file.names.headers,
                auth_schemes: file.names.schemes,
            },
            placeholders: file.placeholders,
            vendors,
        })
    }
}

fn collect_keywords(file: &RulesFile, vendors: &[VendorRule]) -> Vec<(String, KeywordMeaning)> {
    let names = &file.names;
    let classes = [
        (&names.password, NameClass::Password),
        (&names.secret, NameClass::Secret),
        (&names.token, NameClass::Token),
        (&names.query, NameClass::QueryToken),
        (&names.header, NameClass::Header),
    ];
    let secrets = classes.into_iter().flat_map(|(words, class)| {
        words.iter().map(move |word| {
            let whole = names.whole.contains(word);
            (word.clone(), KeywordMeaning::SecretName { class, whole, cookie: word == "cookie" })
        })
    });
    let after = vendors.iter().enumerate().flat_map(|(vendor, rule)| {
        rule.preceding_names.iter().map(move |name| (name.clone(), KeywordMeaning::KeyAfterName { vendor }))
    });
    let commands = file.commands.iter().enumerate();
    let commands = commands.map(|(command, row)| (row.name.clone(), KeywordMeaning::Command { command }));
    let settings = file.settings.iter().enumerate();
    let settings = settings.map(|(setting, row)| (row.word.clone(), KeywordMeaning::Setting { setting }));
    let piped = file.piped.iter().enumerate();
    let piped = piped.map(|(piped, row)| (row.word.clone(), KeywordMeaning::PipedPassword { piped }));
    let services = file.services.split_whitespace().map(|name| (name.to_owned(), KeywordMeaning::Service));
    let forms = LAYOUT_KEYWORDS.iter().map(|&(word, form)| (word.to_owned(), KeywordMeaning::Layout(form)));
    secrets.chain(after).chain(commands).chain(settings).chain(piped).chain(forms).chain(services).collect()
}

#[derive(Clone, Copy)]
enum IgnoreCase {
    Yes,
    No,
}

fn build_finder<'w>(
    words: impl Iterator<Item = &'w str>,
    kind: MatchKind,
    case: IgnoreCase,
) -> Result<AhoCorasick, String> {
    AhoCorasickBuilder::new()
        .ascii_case_insensitive(matches!(case, IgnoreCase::Yes))
        .match_kind(kind)
        .kind(Some(AhoCorasickKind::DFA))
        .prefilter(false)
        .build(words)
        .map_err(|error| error.to_string())
}

impl VendorRule {
    fn parse(row: VendorRow) -> Result<Self, String> {
        let parse = |notation: &String| KeyShape::parse(notation).map_err(|error| format!("{}: {error}", row.kind));
        let shapes = row.shapes.iter().map(parse).collect::<Result<Vec<KeyShape>, _>>()?;
        let loosened = shapes.iter().map(KeyShape::loosened).collect();
        Ok(Self {
            shapes,
            loose_shapes: loosened,
            kind: row.kind,
            group: row.group,
            notation: row.shapes,
            may_follow_letter: row.glued,
            min_entropy: row.entropy,
            preceding_names: row.after,
        })
    }
}
