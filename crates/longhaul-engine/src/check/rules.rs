//! The table of all rules. The checks report them, and `--help` and the documentation print them.

use super::{Host, Severity};

/// A rule. Every report of a violation has its number.
#[derive(Debug, PartialEq, Eq, serde::Serialize)]
pub struct Rule {
    /// The number of the rule. Its letters give the group: G generic, A Messages, O Chat Completions, R
    /// Responses, M, X, B and Ge single hosts, V a rewrite.
    pub number: &'static str,
    /// The severity of a violation where the rule applies.
    pub severity: Severity,
    /// The hosts to which the rule applies.
    pub scope: Scope,
    /// The rule in one line.
    pub meaning: &'static str,
}

/// The hosts to which a rule applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// All hosts that use the API format.
    #[serde(rename = "dialect")]
    ApiFormat,
    /// The hosts that `hosts.toml` lists for the rule; on other hosts it is a warning.
    Suspected,
    /// Only the hosts that `hosts.toml` lists for the rule.
    Host,
}

impl Rule {
    /// Returns the severity of a violation on a host, or `None` if the rule does not apply there.
    #[must_use]
    pub fn severity_on(&self, host: &Host) -> Option<Severity> {
        match self.scope {
            Scope::ApiFormat => Some(self.severity),
            _ if host.lists_rule(self.number) => Some(self.severity),
            Scope::Suspected => Some(Severity::Warning),
            Scope::Host => None,
        }
    }
}

macro_rules! rules {
    ($($number:ident $severity:ident $scope:ident $meaning:literal)*) => {
        $(
            #[allow(non_upper_case_globals)]
            pub(super) static $number: Rule = Rule {
                number: stringify!($number),
                severity: Severity::$severity,
                scope: Scope::$scope,
                meaning: $meaning,
            };
        )*
        /// All rules that are checked, in the order of the documentation.
        pub static RULES: &[&Rule] = &[$(&$number),*];
    };
}

rules! {
    G1 Error ApiFormat "the body is strict UTF-8 JSON of its API format: no lone surrogate, no key twice, no byte-order mark"
    G2 Error ApiFormat "every call has exactly one result (Responses; elsewhere A1 to A3, O1 to O3)"
    G3 Warning ApiFormat "no call id is used twice (Responses; elsewhere A4, O3)"
    G4 Error Suspected "the arguments of a call are a JSON object in a string, `{}` if there are none"
    G7 Warning ApiFormat "the last message is not a reply; an error where the model refuses to go on from one"
    G11 Silent ApiFormat "a summary does not imitate the syntax of tool calls"
    G12 Error ApiFormat "known fields have the JSON types of the API format: `tools` a list of objects, `model` a string, and so on"
    A1 Error ApiFormat "each `tool_use` has its `tool_result` in the next message"
    A2 Error ApiFormat "each `tool_result` answers a `tool_use` of the message before"
    A3 Error ApiFormat "a `tool_use` has one `tool_result`"
    A4 Error ApiFormat "`tool_use` ids are unique in the request"
    A5 Error ApiFormat "results come first in the user message that answers calls"
    A6 Silent ApiFormat "text right behind the last results can yield an empty reply"
    A7 Error ApiFormat "while a server tool is unresolved, the answer to client calls holds only results"
    A8 Error ApiFormat "`server_tool_use` and its result stay in one assistant turn"
    A9 Error ApiFormat "ids are letters, digits, `_` and `-`, and not empty"
    A10 Error ApiFormat "a request with tool blocks defines `tools`"
    A11 Warning ApiFormat "`input` is an object and tool names are 1 to 128 letters, digits, `_` and `-`"
    A12 Error ApiFormat "the last message is not an assistant's, on models without prefill"
    A13 Error ApiFormat "a last assistant message does not end in whitespace"
    A14 Error ApiFormat "text blocks are not empty"
    A15 Error ApiFormat "text blocks are more than whitespace"
    A16 Warning ApiFormat "there are 1 to 100,000 messages, none empty, the first the user's"
    A17 Error ApiFormat "roles are user and assistant; system only on models that take it inside the messages"
    A19 Error ApiFormat "with thinking on, the last reply of an open tool loop starts with its thinking"
    A20 Error ApiFormat "with thinking off, a last assistant message has no thinking"
    A23 Error ApiFormat "thinking carries its signature"
    A24 Error ApiFormat "no forced `tool_choice` with thinking on, nor on models that refuse it"
    A25 Error ApiFormat "kept thinking has an unchanged prefix, on models that bind it"
    A26 Error ApiFormat "`budget_tokens` is at least 1,024 and under `max_tokens`, temperature 1, and the model takes a budget"
    A27 Error ApiFormat "at most 4 cache breakpoints, the automatic one included"
    A28 Error ApiFormat "no 1h cache breakpoint after a 5m one, in the order tools, system, messages"
    A29 Error ApiFormat "no cache breakpoint on empty text"
    A30 Warning ApiFormat "no cache breakpoint on thinking or deeper parts; type `ephemeral`, ttl `5m` or `1h`"
    A34 Error Suspected "the body is at most 32 MB"
    A36 Error Suspected "an image is at most 5 MB"
    A37 Error Suspected "an image is at most 8000 pixels on each side, 2000 when there are more than 20 images"
    A38 Warning ApiFormat "a document of type application/pdf contains a PDF"
    O1 Error ApiFormat "a tool message answers a call of the assistant message right before its group"
    O2 Error ApiFormat "each call is answered before anything else follows"
    O3 Error ApiFormat "a call id is answered once, and used once in a message; a use in a later message is a warning"
    O4 Error Suspected "call ids have at most 40 characters"
    O5 Error ApiFormat "a list of messages or parts is not empty"
    O6 Error ApiFormat "content is null only beside tool calls"
    O7 Warning ApiFormat "`tool_calls` is not empty, and a tool message names its call"
    O8 Error Suspected "images are in user messages only"
    O9 Error Suspected "at most 128 tools"
    O10 Error Suspected "a string has at most 1,048,576 characters"
    O11 Error Suspected "`json_object` needs the word json in the messages"
    O12 Warning ApiFormat "names are 1 to 64 letters, digits, `_` and `-`, roles are known ones"
    R1 Error ApiFormat "each output answers a call before it"
    R2 Error ApiFormat "each call has its output"
    R3 Error Suspected "a reasoning item is followed by the item it led to"
    R4 Error Suspected "an item that kept its id keeps the reasoning before it"
    R5 Error Suspected "the item after a reasoning item keeps its own id"
    R6 Error Suspected "a reasoning item has `summary` and, unless stored, `encrypted_content`"
    R7 Error Suspected "a reasoning item has no `content`"
    R9 Warning ApiFormat "nothing refers to stored items when `store` is false"
    R10 Error Suspected "an item's id begins as its type demands"
    R11 Error Suspected "ids have at most 64 characters"
    R12 Error Suspected "item ids are unique"
    R13 Error Host "no system messages, developer ones instead"
    R14 Warning ApiFormat "content parts fit the role"
    R15 Error Suspected "image data is base64"
    R16 Error Suspected "`json_object` needs the word json in the input"
    M1 Error Host "there is a message, and a lone one is the user's or the system's"
    M2 Error Host "roles follow each other in the order that Mistral allows"
    M3 Error Host "the last message is the user's, a tool's, or an assistant's with `prefix`"
    M4 Error Host "`prefix` is set on the last message only"
    M5 Error Host "as many results as calls, matched by id"
    M6 Error Host "call ids are 9 letters and digits"
    M7 Error Host "function names are 1 to 64 letters, digits, `_` and `-`"
    M8 Warning Host "an assistant message has content or calls"
    M9 Error Host "system content is not null, and assistant and tool content is text"
    B2 Warning Host "user and assistant messages alternate"
    B7 Error Host "a failed result has content"
    B10 Warning Host "ids have at most 64 characters"
    X1 Error Host "arguments are a JSON object in a string"
    X3 Error Host "nothing stands beside results in their message"
    X4 Error Host "every function has `parameters`; content is not empty"
    X6 Error Host "with thinking on and tools, every reply brings its reasoning back"
    X7 Error Host "no two user or assistant messages in a row, the first and the last the user's"
    X8 Error Host "with thinking on, replies with calls bring `reasoning_content` back, and nothing conflicts with it"
    X10 Error ApiFormat "the chat template's roles: alternating, system only if it knows it"
    X11 Error Host "`content` is left out rather than null"
    X12 Silent Host "`reasoning_details` of kept replies are kept"
    X13 Warning Host "messages have no `reasoning` fields"
    Ge10 Error Host "function names start with a letter or `_` and have at most 64 of letters, digits, `_.:-`"
    Ge12 Error Host "the first call of each step of the current turn keeps its `thought_signature`"
    V1 Error ApiFormat "the newest user message is untouched and outside the summary"
    V2 Error ApiFormat "the system text is untouched; additions only at its end"
    V3 Error ApiFormat "kept messages keep order and prose; the only new message is the summary"
    V5 Error ApiFormat "a second run with nothing to do returns its input"
    V6 Error ApiFormat "a rewrite leaves cache breakpoints that A27 to A30 accept"
    V8 Error ApiFormat "thinking, encrypted reasoning and signatures are kept byte for byte or dropped"
    V9 Error ApiFormat "the summary is one message that the target accepts where it stands"
    V10 Error ApiFormat "steps are kept or removed whole, and an open last step is kept, its results shortened at most"
}

/// The numbers of the rules that are not checked here, each with the reason.
pub static NOT_CHECKED: &[(&str, &str)] = &[
    ("G5", "is checked as the id, name and role rules of the target"),
    ("G6", "is advice on when to check"),
    ("G8", "is G2 as its API format words it: A1, O2, R2"),
    ("G9", "is seen as G4 once the half-written arguments are stored"),
    ("G10", "is about streams"),
    ("A18", "is A14 once the block is sent back"),
    ("A21", "needs the original: V8, V10"),
    ("A22", "only the provider can verify a signature"),
    ("A31", "needs token counts and costs nothing but money: belongs to the cache breakpoints"),
    ("A32", "belongs to the cache breakpoints"),
    ("A33", "belongs to the cache breakpoints"),
    ("A35", "needs token counts"),
    ("O13", "needs token counts"),
    ("O14", "depends on endpoint and effort, not on the messages"),
    ("O15", "cannot be broken"),
    ("O16", "belongs to the cache breakpoints"),
    ("R8", "only the provider can decrypt it; V8 proves that it was not touched"),
    ("R17", "needs token counts"),
    ("R18", "needs the original: V3"),
    ("Ge1", "generateContent is not a supported API format"),
    ("Ge2", "generateContent is not a supported API format"),
    ("Ge3", "generateContent is not a supported API format"),
    ("Ge4", "generateContent is not a supported API format; a template that alternates is X10"),
    ("Ge5", "is G7 where the model refuses prefill"),
    ("Ge6", "is Ge12 in Chat Completions"),
    ("Ge7", "generateContent is not a supported API format"),
    ("Ge8", "generateContent is not a supported API format"),
    ("Ge9", "generateContent is not a supported API format"),
    ("Ge11", "is about tool schemas, which a rewrite copies"),
    ("Ge13", "needs token counts"),
    ("M10", "is about tool schemas, which a rewrite copies"),
    ("B1", "is A16"),
    ("B3", "is A1"),
    ("B4", "is A2 and A3"),
    ("B5", "is A10"),
    ("B6", "is A14 and A15"),
    ("B8", "applies to models that do not use Messages"),
    ("B9", "is A12, A13, A19, A22 and A25"),
    ("X2", "is O1"),
    ("X5", "is O1 and O2"),
    ("X9", "is O1; its arguments are G4"),
    ("V4", "needs the store"),
    ("V7", "needs the redactor"),
    ("V11", "needs the evidence"),
];
