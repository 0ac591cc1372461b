//! What a handover could cite.
#![allow(missing_docs)]

use crate::action::{Action, TestCounts, Touched};

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Evidence {
    pub requests: Vec<Request>,
    pub rules: Vec<Rule>,
    pub questions: Vec<Question>,
    pub deeds: Vec<Deed>,
    pub files: Vec<FileFact>,
    pub problems: Vec<Problem>,
    pub decisions: Vec<Decision>,
    pub state: State,
    pub said: Vec<Said>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Uses {
    pub times: u32,
    pub last: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    pub unit: usize,
    pub text: String,
    pub state: RequestState,
    pub uses: Uses,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestState {
    Open,
    Done,
    Cancelled,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    pub unit: usize,
    pub text: String,
    pub uses: Uses,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    pub unit: usize,
    pub text: String,
    pub answer: Option<String>,
    pub uses: Uses,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Deed {
    pub unit: usize,
    pub action: Action,
    pub uses: Uses,
}

#[derive(Debug, Clone, PartialEq)]
pub struct FileFact {
    pub path: String,
    pub touched: Vec<(usize, Touched)>,
    pub uses: Uses,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Problem {
    pub unit: usize,
    pub tool: String,
    pub text: String,
    pub resolved: Option<usize>,
    pub uses: Uses,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    pub unit: usize,
    pub text: String,
    pub reason: Option<String>,
    pub uses: Uses,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct State {
    pub directory: Option<String>,
    pub branch: Option<String>,
    pub tests: Option<TestCounts>,
    pub processes: Vec<String>,
    pub environment: Vec<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Said {
    pub unit: usize,
    pub text: String,
    pub kind: SaidKind,
    pub uses: Uses,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SaidKind {
    Next,
    Doing,
    Done,
    Blocked,
}
