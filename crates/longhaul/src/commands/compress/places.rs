//! Where the files of a call are, and which calls would write one over another.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::cli::CompressArgs;
use crate::failure::Failure;
use crate::input;
use crate::output::Places;

/// Refuses a call whose outputs have no place, or share one, or would write over an input.
pub(super) fn refuse(args: &CompressArgs) -> Result<(), Failure> {
    let wrong = |text: &str| Err(Failure::Wrong(text.to_owned()));
    let has_place = args.answer.to().is_some() || args.out_dir.is_some() || args.in_place || args.preview;
    if args.answer.json && !has_place {
        return wrong("--json without -o would mix the report with the body; give -o FILE or --out-dir DIR");
    }
    let several = args.bodies.len() > 1;
    if several && args.jsonl {
        return wrong("--jsonl takes one BODY; give several bodies without it");
    }
    if several && args.show.is_some() {
        return wrong("--show takes one BODY; give them one by one");
    }
    if several && args.out_dir.is_none() && !args.preview && !args.in_place {
        return wrong("several bodies need a place each; give --out-dir DIR");
    }
    let is_stdin = |path: &&PathBuf| path.as_path() == Path::new("-");
    if (several || args.out_dir.is_some()) && args.bodies.iter().any(|path| is_stdin(&path)) {
        return wrong("standard input has no name in --out-dir; give it alone, with -o FILE");
    }
    if args.in_place && args.bodies.iter().any(|path| is_stdin(&path)) {
        return wrong("standard input cannot be replaced; give --in-place a file");
    }
    if args.told.place.config.iter().chain(&args.bodies).filter(is_stdin).count() > 1 {
        return wrong("standard input cannot be both the body and the configuration; give one as a file");
    }
    refuse_shared(args)
}

fn refuse_shared(args: &CompressArgs) -> Result<(), Failure> {
    let kept = args.originals.as_deref().or(args.originals_raw.as_deref());
    let options = [
        ("-o", args.answer.to()),
        ("--originals", kept),
        ("--report", args.report.as_deref()),
        ("--log", args.log.as_deref()),
    ];
    let mut places = Places::reading(args.bodies.iter().chain(&args.told.place.config).map(PathBuf::as_path));
    for (option, path) in options {
        path.map_or(Ok(()), |path| places.write(option, path))?;
    }
    let Some(directory) = &args.out_dir else { return Ok(()) };
    let mut targets = BTreeMap::new();
    for body in &args.bodies {
        let (target, shown) = (target(directory, body)?, input::shown(body));
        if let Some(other) = targets.insert(target.clone(), shown.clone()) {
            let text = format!("{other} and {shown} would be the same file in --out-dir; rename one");
            return Err(Failure::Wrong(text));
        }
        places.write(&format!("--out-dir {}", directory.display()), &target)?;
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
