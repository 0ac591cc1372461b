//! What holds of the store, over both databases: each test of the suite is listed once for SQLite and once for PostgreSQL.
//!
//! PostgreSQL is started by the tests themselves, where `LONGHAUL_POSTGRES_BIN` names the folder with its programs. Real bodies
//! are read where `LONGHAUL_SHARED` names the folder that has them. What needs either and has it not is reported as ignored.
//!
//! Some tests run this program again as another process, to kill it or to run it in a world where things fail: [`worker`].

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::too_many_lines,
    clippy::similar_names,
    clippy::missing_panics_doc,
    clippy::doc_markdown,
    clippy::cast_possible_wrap,
    clippy::cloned_ref_to_slice_refs,
    clippy::format_collect,
    clippy::format_push_string,
    reason = "all of it is test code, in functions too"
)]

/// The tests of a module: those for both databases, and those for one of them. Each takes the ground that it stands on.
macro_rules! tests {
    ($($on:ident: [$($name:ident),* $(,)?]),* $(,)?) => {
        pub(crate) fn tests() -> Vec<crate::Test> {
            vec![$($(crate::Test {
                module: module_path!(),
                name: stringify!($name),
                on: crate::On::$on,
                run: |ground| crate::ground::wait_for($name(ground)),
            }),*),*]
        }
    };
}

mod crashes;
mod ground;
mod histories;
mod keys;
mod migrations;
mod overviews;
mod pages;
mod races;
mod real;
mod recalls;
mod retention;
mod searches;
mod secrets;
mod server;
mod speech;
mod standings;
mod tenants;
mod traffic;
mod views;
mod worker;
mod worlds;

use libtest_mimic::{Arguments, Trial};

use ground::{Database, Ground};
use server::Server;

/// One test, for one database or for both.
#[derive(Clone, Copy)]
pub(crate) struct Test {
    module: &'static str,
    name: &'static str,
    on: On,
    run: fn(Ground),
}

/// What a test needs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum On {
    /// Either database, each in turn.
    Both,
    /// SQLite.
    Sqlite,
    /// PostgreSQL.
    Postgres,
    /// Either database, and real bodies.
    Real,
}

fn trial(test: Test, database: Database) -> Trial {
    let module = test.module.rsplit("::").next().unwrap_or(test.module);
    let lacks = match () {
        () if database == Database::Postgres && server::programs().is_none() => {
            Some("LONGHAUL_POSTGRES_BIN is not set")
        }
        () if test.on == On::Real && std::env::var_os("LONGHAUL_SHARED").is_none() => {
            Some("LONGHAUL_SHARED is not set")
        }
        () => None,
    };
    let run = move || {
        (test.run)(Ground::new(database));
        Ok(())
    };
    let trial = Trial::test(format!("{}::{module}::{}", database.name(), test.name), run);
    match lacks {
        Some(reason) => trial.with_kind(reason).with_ignored_flag(true),
        None => trial,
    }
}

fn main() {
    if worker::is_asked_for() {
        return worker::work();
    }
    let modules = [
        histories::tests,
        views::tests,
        recalls::tests,
        searches::tests,
        standings::tests,
        keys::tests,
        traffic::tests,
        overviews::tests,
        pages::tests,
        retention::tests,
        migrations::tests,
        tenants::tests,
        secrets::tests,
        real::tests,
        crashes::tests,
        races::tests,
        worlds::tests,
    ];
    let tests: Vec<Test> = modules.into_iter().flat_map(|tests| tests()).collect();
    let on = |database: Database| {
        let tests = tests.clone();
        let runs = move |test: &Test| match test.on {
            On::Both | On::Real => true,
            On::Sqlite => database == Database::Sqlite,
            On::Postgres => database == Database::Postgres,
        };
        tests.into_iter().filter(runs).map(move |test| trial(test, database))
    };
    let trials = on(Database::Sqlite).chain(on(Database::Postgres)).collect();
    let conclusion = libtest_mimic::run(&Arguments::from_args(), trials);
    Server::stop_shared();
    conclusion.exit();
}
