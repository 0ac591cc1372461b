//! What holds of sessions: invented ones, a rule each, always; real ones where `LONGHAUL_SHARED` names the folder that has
//! them, which is no part of the repository. Without it the tests that read from there are reported as ignored.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::too_many_lines,
    clippy::needless_pass_by_value,
    clippy::similar_names,
    clippy::format_collect,
    reason = "all of it is test code, in functions too"
)]

/// The tests of a module: those that always run, and those that read real data.
macro_rules! tests {
    (always: [$($name:ident),* $(,)?], real: [$($real:ident),* $(,)?] $(,)?) => {
        pub(crate) fn tests() -> Vec<libtest_mimic::Trial> {
            let there = std::env::var_os("LONGHAUL_SHARED").is_some();
            let always: Vec<(&str, fn())> = vec![$((stringify!($name), $name)),*];
            let real: Vec<(&str, fn())> = vec![$((stringify!($real), $real)),*];
            let always = always.into_iter().map(|(name, run)| (name, run, true));
            let real = real.into_iter().map(|(name, run)| (name, run, there));
            always.chain(real).map(|test| crate::trial(module_path!(), test)).collect()
        }
    };
}

/// Prints a figure where it is asked for.
macro_rules! say {
    ($($what:tt)*) => {
        if std::env::args().any(|argument| argument == "--nocapture") {
            println!($($what)*);
        }
    };
}

mod aider;
mod claude;
mod cline;
mod codex;
mod damage;
mod databases;
mod finding;
mod gemini;
mod goose;
mod growth;
mod hermes;
mod opencode;
mod openhands;
mod orders;
mod pi;
mod pi_orders;
mod roo;
mod support;
mod valid;

use libtest_mimic::{Arguments, Trial};

fn trial(module: &str, (name, run, can_run): (&str, fn(), bool)) -> Trial {
    let module = module.rsplit("::").next().unwrap_or(module);
    Trial::test(format!("{module}::{name}"), move || {
        run();
        Ok(())
    })
    .with_ignored_flag(!can_run)
}

fn main() {
    let modules = [
        aider::tests,
        claude::tests,
        cline::tests,
        codex::tests,
        damage::tests,
        damage::huge,
        databases::tests,
        finding::tests,
        gemini::tests,
        goose::tests,
        growth::tests,
        hermes::tests,
        opencode::tests,
        openhands::tests,
        orders::tests,
        pi::tests,
        pi_orders::tests,
        roo::tests,
        valid::tests,
    ];
    let trials = modules.into_iter().flat_map(|tests| tests()).collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}
