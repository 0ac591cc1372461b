//! A PostgreSQL server of the tests' own, and a look past the store: what the tests of the store have.

#![allow(dead_code, reason = "the tests of the store use the rest")]

#[path = "../store/ground.rs"]
pub(crate) mod ground;
#[path = "../store/server.rs"]
pub(crate) mod server;

use longhaul_server::store::{Durability, Store, StoreLocation};

use ground::ask;
use server::Server;

/// A server with an empty database, where the environment says where its programs are; else it is said that nothing is tested.
pub(crate) async fn start() -> Option<(Server, String)> {
    if server::programs().is_none() {
        eprintln!("LONGHAUL_POSTGRES_BIN is not set: gateways that share a PostgreSQL are not tested");
        return None;
    }
    let server = tokio::task::spawn_blocking(|| Server::start("fsync=off")).await.unwrap();
    ask(&server.url("postgres"), "CREATE DATABASE shared").await;
    let url = server.url("shared");
    Some((server, url))
}

/// A store there, with connections of its own: as another gateway has it.
pub(crate) async fn store(url: &str) -> Store {
    Store::open(&StoreLocation::Postgres(url.to_owned()), Durability::Normal).await.unwrap()
}
