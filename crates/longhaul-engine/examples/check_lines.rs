//! Reads JSON lines (one chat body a line) and prints the numbers of the rules that each breaks on a host, one line each.
//!
//! ```sh
//! echo '[{"role":"assistant","content":"hi"}]' | cargo run --example check_lines -- mistral
//! ```

use std::io::{BufRead, Write};

use longhaul_engine::ApiFormat;
use longhaul_engine::check::{Host, Severity, Target, check};

fn main() -> std::io::Result<()> {
    let name = std::env::args().nth(1).unwrap_or_default();
    let target = Target::on_host(Host::named(&name).unwrap_or_else(Host::unknown));
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let found = check(&line?, ApiFormat::Chat, &target);
        let errors = found.iter().filter(|v| v.severity == Severity::Error).map(|v| v.rule);
        writeln!(out, "{}", errors.collect::<Vec<_>>().join(" "))?;
    }
    Ok(())
}
