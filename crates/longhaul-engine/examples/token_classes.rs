//! For `bench/tokens/`: reads texts, one JSON string a line, and prints for each its tokens by `o200k_base`, the estimate,
//! and how much of each class it has. The first line printed is the names of the classes.

#![allow(clippy::print_stdout, reason = "the output is what it is for")]

use std::io::{self, BufRead as _};

use longhaul_engine::tokens::{RUN_WEIGHTS, Vocabulary, count_runs, estimate};

fn main() -> io::Result<()> {
    println!("{}", serde_json::json!(RUN_WEIGHTS.map(|(class, _)| format!("{class:?}")).as_slice()));
    for line in io::stdin().lock().lines() {
        let text: String = serde_json::from_str(&line?)?;
        let tokens = Vocabulary::O200kBase.count(&text);
        println!("{}", serde_json::json!([tokens, estimate(&text), count_runs(&text).as_slice()]));
    }
    Ok(())
}
