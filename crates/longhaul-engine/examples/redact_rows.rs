//! Reads JSON lines with a `text` on standard input and writes one line each: the redacted text and what was found.
//!
//! The measurements under `bench/redact` use it, so that a thousand small texts cost one process.

use std::io::{BufRead, Write};

use longhaul_engine::redact::{RedactionMode, Redactor, Rules};

fn main() -> std::io::Result<()> {
    let rules = Rules::default();
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for line in std::io::stdin().lock().lines() {
        let row: serde_json::Value = serde_json::from_str(&line?)?;
        let text = row["text"].as_str().unwrap_or_default();
        let done = Redactor::numbered(rules.clone()).redact(text, RedactionMode::Text);
        let found: Vec<_> = done
            .found
            .iter()
            .map(|found| serde_json::json!({"kind": found.kind, "start": found.start, "end": found.end}))
            .collect();
        writeln!(out, "{}", serde_json::json!({"text": done.text.as_str(), "found": found}))?;
    }
    Ok(())
}
