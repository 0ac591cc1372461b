//! Where the files of a call are, and which calls would write one over another.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::cli::CompressArgs;
use crate::failure::Failure;
use crate::input;

/// Refuses a call whose outputs have no place, or share one. The file of a single body may take its own result.
pub(super) fn refuse(args: &CompressArgs) -> Result<(), Failure> {
    let wrong = |text: &str| Err(Failure::Wrong(text.to_owned()));
    let has_place = args.answer.output.is_some() || args.out_dir.is_some() || args.preview;
    if args.answer.json && !has_place {
        return wrong("--json without -o would mix the report with the body; give -o FILE or --out-dir DIR");
    }
    let several = args.bodies.len() > 1;
    if several && args.jsonl {
        return wrong("--jsonl takes one BODY; give several bodies without it");
    }
    if several && args.out_dir.is_none() && !args.preview {
        return wrong("several bodies need a place each; give --out-dir DIR");
    }
    let is_stdin = |path: &&PathBuf| path.as_path() == Path::new("-");
    if (several || args.out_dir.is_some()) && args.bodies.iter().any(|path| is_stdin(&path)) {
        return wrong("standard input has no name in --out-dir; give it alone, with -o FILE");
    }
    if args.config.config.iter().chain(&args.bodies).filter(is_stdin).count() > 1 {
        return wrong("standard input cannot be both the body and the configuration; give one as a file");
    }
    refuse_shared(args)
}

fn refuse_shared(args: &CompressArgs) -> Result<(), Failure> {
    let kept = args.originals.as_deref().or(args.originals_raw.as_deref());
    let options = [
        ("-o", args.answer.output.as_deref()),
        ("--originals", kept),
        ("--report", args.report.as_deref()),
        ("--log", args.log.as_deref()),
    ];
    let bodies: BTreeMap<PathBuf, &PathBuf> = args.bodies.iter().map(|body| (real(body), body)).collect();
    let mut written: BTreeMap<PathBuf, String> = BTreeMap::new();
    for (option, path) in options.into_iter().filter_map(|(option, path)| Some((option, real(path?)))) {
        if option != "-o" && bodies.contains_key(&path) {
            return Err(Failure::Wrong(format!("{option} names the body's own file; give it another")));
        }
        if let Some(other) = written.insert(path, option.to_owned()) {
            let text = format!("{other} and {option} name the same file; give each its own");
            return Err(Failure::Wrong(text));
        }
    }
    let Some(directory) = &args.out_dir else { return Ok(()) };
    for body in &args.bodies {
        let (target, shown) = (real(&target(directory, body)?), input::shown(body));
        if bodies.contains_key(&target) {
            let text = format!("--out-dir would write over {shown}; give another directory");
            return Err(Failure::Wrong(text));
        }
        if let Some(other) = written.insert(target, shown.clone()) {
            let text = format!("{other} and {shown} would be the same file in --out-dir; rename one");
            return Err(Failure::Wrong(text));
        }
    }
    Ok(())
}

/// Where a body goes in a directory.
pub(super) fn target(directory: &Path, body: &Path) -> Result<PathBuf, Failure> {
    match body.file_name() {
        Some(name) => Ok(directory.join(name)),
        None => Err(Failure::Wrong(format!("{} is no file; name a body", body.display()))),
    }
}

/// A path in the one way in which it can be compared, whether or not its file is there yet.
fn real(path: &Path) -> PathBuf {
    let beside = || {
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let directory = directory.unwrap_or(Path::new(".")).canonicalize().ok()?;
        Some(directory.join(path.file_name()?))
    };
    path.canonicalize().ok().or_else(beside).unwrap_or_else(|| path.to_owned())
}
