//! What holds of every body: generated ones always, real ones where `LONGHAUL_SHARED` names the folder that has them, which is
//! no part of the repository. Without it the tests that read from there are reported as ignored.
//!
//! This harness catches no output, so figures are printed only where `-- --nocapture` asks for them.

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
            let always = [$((stringify!($name), $name as fn())),*].map(|(name, run)| (name, run, true));
            let real = [$((stringify!($real), $real as fn())),*].map(|(name, run)| (name, run, there));
            always.into_iter().chain(real).map(|test| crate::trial(module_path!(), test)).collect()
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

#[path = "../support/mod.rs"]
mod support;

mod block_cache;
mod cache_breakpoints;
mod cache_sessions;
mod check;
mod check_real;
mod compressor;
mod digest;
mod evidence;
mod growth;
mod host_text;
mod lossless;
mod models;
mod outputs;
mod passes;
mod prefix_chain;
mod redact;
mod replayed_costs;
mod rewrite;
mod sacred_zone;
mod simulated_cache;
mod tokens;

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
        prefix_chain::tests,
        cache_breakpoints::tests,
        simulated_cache::tests,
        cache_sessions::tests,
        check::tests,
        check_real::tests,
        compressor::tests,
        replayed_costs::tests,
        digest::tests,
        evidence::tests,
        growth::tests,
        host_text::tests,
        block_cache::tests,
        lossless::tests,
        models::tests,
        passes::tests,
        redact::tests,
        rewrite::tests,
        sacred_zone::tests,
        tokens::tests,
    ];
    let trials = modules.into_iter().flat_map(|tests| tests()).collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}
