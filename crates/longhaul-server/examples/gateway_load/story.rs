//! The sessions that are played: request bodies of the Messages dialect that grow as a client's do, each one the last and a little more.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::text::Dice;

/// A model whose window is 200,000 tokens, so that a session is compacted at 100,000.
pub(crate) const MODEL: &str = "claude-sonnet-4-5";
/// Bytes of these bodies that make a token of that model's; `longhaul tokens --model` says so of one of them.
pub(crate) const BYTES_A_TOKEN: f64 = 3.3;
/// What stands after the last message of a body.
const WHOLE: &[u8] = br#"],"stream":false}"#;
const STREAMED: &[u8] = br#"],"stream":true}"#;

/// How a reply is wanted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    Whole,
    Streamed,
}

/// A request body in two pieces, the first of which is shared by all requests of a session: nothing is copied to send one.
#[derive(Clone)]
pub(crate) struct Body {
    pub(crate) pieces: [Bytes; 2],
    pub(crate) wanted: Wanted,
}

/// One session: all that its client will ever have said, and where each of its requests ends.
pub(crate) struct Story {
    bytes: Bytes,
    ends: Vec<usize>,
}

/// A session that is being made up.
pub(crate) struct Draft {
    dice: Dice,
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Draft {
    /// A conversation without tools, whose first request has some 500 bytes.
    pub(crate) fn chat(seed: u64) -> Self {
        let dice = Dice::new(seed);
        Self::opened(dice, &json!("You are a helpful assistant. Answer briefly."), &json!([]), seed)
    }

    /// The work of a coding agent: a long system prompt and tools, alike in all sessions, then what was asked for.
    pub(crate) fn agent(seed: u64) -> Self {
        let mut rules = Dice::new(0);
        let system: Vec<_> = (0..80).map(|_| rules.sentence()).collect();
        let tool = |name: &str| {
            let properties = json!({"path": {"type": "string"}, "argument": {"type": "string"}});
            let schema = json!({"type": "object", "properties": properties, "required": ["path"]});
            json!({"name": name, "description": "Works on one file of the project.", "input_schema": schema})
        };
        let tools = json!([tool("read_file"), tool("edit_file"), tool("run_tests"), tool("search")]);
        Self::opened(Dice::new(seed), &json!(system.join("\n")), &tools, seed)
    }

    fn opened(mut dice: Dice, system: &Value, tools: &Value, seed: u64) -> Self {
        let mut bytes = format!(r#"{{"model":"{MODEL}","max_tokens":1024,"system":{system},"#).into_bytes();
        if tools != &json!([]) {
            bytes.extend(format!(r#""tools":{tools},"#).bytes());
        }
        bytes.extend(br#""messages":["#);
        let asked: Vec<_> = (0..3).map(|_| dice.sentence()).collect();
        let first = json!({"role": "user", "content": format!("Task {seed}. {}", asked.join(" "))});
        bytes.extend(first.to_string().bytes());
        let ends = vec![bytes.len()];
        Self { dice, bytes, ends }
    }

    /// An answer, and what the user says to it.
    pub(crate) fn talk(&mut self) {
        let (answer, question) = (self.dice.sentence(), self.dice.sentence());
        self.add(&json!({"role": "assistant", "content": answer}), &json!({"role": "user", "content": question}));
    }

    /// A tool call, and its result of so many lines.
    pub(crate) fn step(&mut self, lines: usize) {
        let dice = &mut self.dice;
        let id = format!("toolu_{:012}", dice.below(1_000_000_000_000));
        let tool = ["read_file", "edit_file", "run_tests", "search"][dice.below(4)];
        let input = json!({"path": dice.path(), "argument": dice.sentence()});
        let said = json!({"type": "text", "text": dice.sentence()});
        let call = json!({"type": "tool_use", "id": id, "name": tool, "input": input});
        let result = json!({"type": "tool_result", "tool_use_id": id, "content": dice.output(lines)});
        self.add(&json!({"role": "assistant", "content": [said, call]}), &json!({"role": "user", "content": [result]}));
    }

    /// A step of an ordinary size: some 3.5 KB with its result.
    pub(crate) fn work(&mut self) {
        let lines = 20 + self.dice.below(60);
        self.step(lines);
    }

    /// Steps until a request has so many tokens.
    pub(crate) fn work_until(&mut self, tokens: f64) {
        while self.bytes.len() as f64 / BYTES_A_TOKEN < tokens {
            self.work();
        }
    }

    pub(crate) fn requests(&self) -> usize {
        self.ends.len()
    }

    fn add(&mut self, reply: &Value, next: &Value) {
        self.bytes.extend(format!(",{reply},{next}").bytes());
        self.ends.push(self.bytes.len());
    }

    pub(crate) fn told(self) -> Story {
        Story { bytes: self.bytes.into(), ends: self.ends }
    }
}

impl Story {
    pub(crate) fn requests(&self) -> usize {
        self.ends.len()
    }

    /// The request with this number, from 0: it has `2 × number + 1` messages.
    pub(crate) fn body(&self, number: usize, wanted: Wanted) -> Body {
        let closing = match wanted {
            Wanted::Whole => WHOLE,
            Wanted::Streamed => STREAMED,
        };
        Body { pieces: [self.bytes.slice(..self.ends[number]), Bytes::from_static(closing)], wanted }
    }
}

impl Body {
    pub(crate) fn len(&self) -> usize {
        self.pieces.iter().map(Bytes::len).sum()
    }
}
