//! Checks the files that a command line reads and writes: every output needs a path of its own, and none may
//! overwrite an input.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::cli::CompressArgs;
use crate::failure::Failure;
use crate::input;
use crate::output::OverwriteGuard;

/// Refuses a command line whose outputs have no path, share a path, or would overwrite an input.
pub(super) fn check_paths(args: &CompressArgs) -> Result<(), Failure> {
    let wrong = |text: &str| Err(Failure::InvalidInput(text.to_owned()));
    let has_place = args.output.file().is_some() || args.out_dir.is_some() || args.in_place || args.preview;
    if args.output.json && !has_place {
        return wrong(
            "--json without -o would mix the report with the request; give -o FILE or --out-dir DIR, or --preview for \
             the report alone",
        );
    }
    let several = args.bodies.len() > 1;
    if several && args.jsonl {
        return wrong("--jsonl accepts one BODY; to compact several files, leave out --jsonl");
    }
    if several && args.show.is_some() {
        return wrong("--show accepts one BODY; give them one by one");
    }
    if several && args.out_dir.is_none() && !args.preview && !args.in_place {
        return wrong("several requests need an output directory; give --out-dir DIR");
    }
    let is_stdin = |path: &&PathBuf| path.as_path() == Path::new("-");
    if (several || args.out_dir.is_some()) && args.bodies.iter().any(|path| is_stdin(&path)) {
        return wrong("standard input has no name in --out-dir; give it alone, with -o FILE");
    }
    if args.in_place && args.bodies.iter().any(|path| is_stdin(&path)) {
        return wrong("standard input cannot be replaced; give --in-place a file");
    }
    if args.input.store_flags.config.iter().chain(&args.bodies).filter(is_stdin).count() > 1 {
        return wrong("standard input cannot be both the request and the configuration; give one as a file");
    }
    check_shared_paths(args)
}

fn check_shared_paths(args: &CompressArgs) -> Result<(), Failure> {
    let originals_file = args.originals.as_deref().or(args.originals_raw.as_deref());
    let options = [
        ("-o", args.output.file()),
        ("--originals", originals_file),
        ("--report", args.report.as_deref()),
        ("--log", args.log.as_deref()),
    ];
    let mut guard =
        OverwriteGuard::with_inputs(args.bodies.iter().chain(&args.input.store_flags.config).map(PathBuf::as_path));
    for (option, path) in options {
        path.map_or(Ok(()), |path| guard.claim_new_file(option, path))?;
    }
    let Some(directory) = &args.out_dir else { return Ok(()) };
    let mut targets = BTreeMap::new();
    for body in &args.bodies {
        let (target, shown) = (path_in_directory(directory, body)?, input::label(body));
        if let Some(other) = targets.insert(target.clone(), shown.clone()) {
            let text = format!("{other} and {shown} would be the same file in --out-dir; rename one");
            return Err(Failure::InvalidInput(text));
        }
        guard.claim_output(&format!("--out-dir {}", directory.display()), &target)?;
    }
    Ok(())
}

/// Returns the path of a request in the output directory: the same file name as the input.
pub(super) fn path_in_directory(directory: &Path, body: &Path) -> Result<PathBuf, Failure> {
    match body.file_name() {
        Some(name) => Ok(directory.join(name)),
        None => Err(Failure::InvalidInput(format!("{} is not a file; give a request", body.display()))),
    }
}
