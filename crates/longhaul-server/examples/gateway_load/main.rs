//! What the gateway costs beside nginx, in one run. `bench/gateway/run` builds and starts it:
//!
//!     cargo run --release -p longhaul-server --example gateway_load -- [OPTION VALUE]… [small] [long] [streams] [length]
//!
//! It starts an upstream that only reads and answers, nginx with `proxy_pass`, and `longhaul serve`, and measures requests a second, time
//! added at half load, memory with open streams, and a turn by the length of its session. Sections that are named are measured, else all.
//!
//!     --program FILE        the gateway to start, target/release/longhaul if not given; `none` measures nginx alone
//!     --gateway HOST:PORT   one that runs already, with --process ID so that its CPU time and memory can be read
//!     --rounds N            how often targets take turns, 5 if not given
//!     --record FILE         where to append a JSON line a figure; --date and --commit are said with each
//!
//! It fails where a request fails, or where no part of it can be started; a goal that is missed is said.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it talks to a person")]

mod bench;
mod bodies;
mod client;
mod length;
mod load;
mod process;
mod record;
mod requests;
mod servers;
mod story;
mod streams;
mod text;
mod upstream;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::{Map, json};

use crate::bench::{Bench, Gateway};
use crate::bodies::Size;
use crate::record::Record;

type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

const OPTIONS: [&str; 7] = ["--program", "--gateway", "--process", "--rounds", "--record", "--date", "--commit"];
const SECTIONS: [&str; 4] = ["small", "long", "streams", "length"];

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let typed: Vec<_> = std::env::args().skip(1).collect();
    let done = match typed.as_slice() {
        [one] if one == "upstream" => upstream::serve().await,
        _ => run(typed).await,
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("gateway_load: {reason}");
            ExitCode::FAILURE
        }
    }
}

async fn run(typed: Vec<String>) -> Outcome<()> {
    let typed = Typed::read(typed)?;
    let folder = Folder::new()?;
    let upstream = servers::upstream(&folder.0).await?;
    let nginx = servers::nginx(&folder.0, upstream.address).await?;
    let record = Record { stamp: typed.stamp(), file: typed.option("--record").map(PathBuf::from) };
    let (gateway, rounds) = (typed.gateway()?, typed.number("--rounds")?.unwrap_or(5));
    let bench = Bench { folder: folder.0.clone(), upstream, nginx, gateway, record, rounds };
    println!("{}", typed.stamp().values().map(ToString::to_string).collect::<Vec<_>>().join(", "));
    for section in &typed.sections {
        match section.as_str() {
            "small" => requests::measure(&bench, Size::Small).await?,
            "long" => requests::measure(&bench, Size::Long).await?,
            "streams" => streams::measure(&bench).await?,
            _ => length::measure(&bench).await?,
        }
    }
    Ok(())
}

/// What was typed.
struct Typed {
    options: BTreeMap<String, String>,
    sections: Vec<String>,
}

impl Typed {
    fn read(typed: Vec<String>) -> Outcome<Self> {
        let (mut options, mut sections) = (BTreeMap::new(), Vec::new());
        let mut typed = typed.into_iter();
        while let Some(word) = typed.next() {
            if OPTIONS.contains(&word.as_str()) {
                let value = typed.next().ok_or_else(|| format!("{word} wants a value"))?;
                options.insert(word, value);
            } else if SECTIONS.contains(&word.as_str()) {
                sections.push(word);
            } else {
                return Err(format!("{word} is no option and none of {}", SECTIONS.join(", ")).into());
            }
        }
        if sections.is_empty() {
            sections = SECTIONS.map(str::to_owned).to_vec();
        }
        Ok(Self { options, sections })
    }

    fn option(&self, name: &str) -> Option<&str> {
        self.options.get(name).map(String::as_str)
    }

    fn number<N: std::str::FromStr>(&self, name: &str) -> Outcome<Option<N>> {
        let Some(text) = self.option(name) else { return Ok(None) };
        Ok(Some(text.parse().map_err(|_| format!("{name} wants a number, not {text}"))?))
    }

    fn gateway(&self) -> Outcome<Gateway> {
        if let Some(address) = self.option("--gateway") {
            let address = address.trim_start_matches("http://").trim_end_matches('/');
            let address = address.parse().map_err(|_| format!("--gateway wants HOST:PORT, not {address}"))?;
            return Ok(Gateway::Running { address, id: self.number("--process")? });
        }
        Ok(match self.option("--program").unwrap_or("target/release/longhaul") {
            "none" => Gateway::Absent,
            program => Gateway::Program(
                std::fs::canonicalize(program).map_err(|error| format!("there is no {program}: {error}"))?,
            ),
        })
    }

    /// When, of what and where: said with every figure.
    fn stamp(&self) -> Map<String, serde_json::Value> {
        let cores = std::thread::available_parallelism().map_or(0, usize::from);
        let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let load = load.split(' ').next().and_then(|load| load.parse::<f64>().ok());
        let said =
            json!({"date": self.option("--date"), "commit": self.option("--commit"), "cores": cores, "load": load});
        said.as_object().cloned().unwrap_or_default()
    }
}

/// A folder that goes when the run ends.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Outcome<Self> {
        let path = std::env::temp_dir().join(format!("longhaul-gateway-{}", std::process::id()));
        std::fs::create_dir_all(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
