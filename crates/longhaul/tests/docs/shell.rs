//! Running the commands of one page, in one shell.

use std::fmt::Write;
use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Command as Process, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::page::Command;
use crate::place::Place;

/// A page that takes longer than this hangs.
const PAGE_TIMEOUT: Duration = Duration::from_mins(4);

/// Commands that are not run, each with the reason.
const NOT_RUN: [(&str, &str); 2] = [
    ("longhaul serve --store postgres://", "needs a PostgreSQL server; the store's own tests start one"),
    ("longhaul vacuum --check --store postgres://", "the same"),
];

pub(crate) enum Ran {
    Not,
    Ended { code: i32, printed: String },
}

/// Runs the commands one after the other. A command that stays, such as `longhaul serve`, runs beside those that follow, until another
/// one takes its place.
pub(crate) fn run(place: &Place, commands: &[Command]) -> Vec<Ran> {
    let mut script = "set -o pipefail\nstays=\n".to_owned();
    for (i, command) in commands.iter().enumerate() {
        if !is_run(&command.text) {
            continue;
        }
        let files = place.record(i);
        fs::write(files.with_extension("sh"), place.addressed(&command.text)).unwrap();
        let (sh, out, code) = (files.with_extension("sh"), files.with_extension("out"), files.with_extension("code"));
        let (sh, out, code) = (sh.display(), out.display(), code.display());
        if stays(&command.text) {
            // What it prints at its start ends with an address that answers.
            write!(
                script,
                "if [ -n \"$stays\" ]; then kill $stays; wait $stays; fi\n\
                 (eval \"exec $(cat {sh})\") </dev/null >{out} 2>&1 &\nstays=$!\n\
                 for _ in $(seq 400); do grep -qs 'http://127.0.0.1' {out} && break; kill -0 $stays || break; sleep 0.05; done\n\
                 sleep 0.1; kill -0 $stays; echo $? >{code}\n"
            )
            .unwrap();
        } else {
            writeln!(script, "eval \"$(cat {sh})\" </dev/null >{out} 2>&1; echo $? >{code}").unwrap();
        }
    }
    let has_gateway = commands
        .iter()
        .any(|command| ["longhaul run", "longhaul serve"].iter().any(|start| command.text.starts_with(start)));
    bash(place, &script, has_gateway);
    let ran = |(i, command): (usize, &Command)| {
        if !is_run(&command.text) {
            return Ran::Not;
        }
        let files = place.record(i);
        let read = |extension| {
            fs::read(files.with_extension(extension)).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        };
        let printed = place.as_shown(&read("out").unwrap_or_default());
        // Without a code the page's time was over.
        let code = read("code").and_then(|code| code.trim().parse().ok()).unwrap_or(-1);
        Ran::Ended { code, printed }
    };
    commands.iter().enumerate().map(ran).collect()
}

fn is_run(command: &str) -> bool {
    !NOT_RUN.iter().any(|(prefix, _)| command.starts_with(prefix))
}

fn stays(command: &str) -> bool {
    (command.starts_with("longhaul serve") || command.starts_with("longhaul mcp --listen")) && !command.contains("||")
}

fn bash(place: &Place, script: &str, has_gateway: bool) {
    let file = place.record(usize::MAX).with_extension("sh");
    fs::write(&file, script).unwrap();
    let mut shell = Process::new("bash")
        .arg(&file)
        .current_dir(place.project())
        .env_clear()
        .envs(place.environment(has_gateway))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .unwrap();
    let end = Instant::now() + PAGE_TIMEOUT;
    while shell.try_wait().unwrap().is_none() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(20));
    }
    // What stays has no other end, and a shell whose time is over neither.
    let group = Pid::from_child(&shell);
    let _ = kill_process_group(group, Signal::KILL);
    let _ = shell.wait();
}
