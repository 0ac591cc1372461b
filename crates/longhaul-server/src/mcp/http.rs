//! The server over streamable HTTP, at `/mcp`: each request by itself, under names of this machine, or with a key of the store.

use std::io;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::net::TcpListener;

use super::Server;
use super::whose::Access;
use crate::gateway::body::{self, Pace, Room};
use crate::gateway::{Limits, key_of};
use crate::listen;

/// The path that clients are given.
const PATH: &str = "/mcp";
/// The pages that may ask: this machine's own.
const PAGES: [&str; 6] = [
    "http://localhost:*",
    "http://127.0.0.1:*",
    "http://[::1]:*",
    "https://localhost:*",
    "https://127.0.0.1:*",
    "https://[::1]:*",
];
/// No call needs more bytes.
const BODY: usize = 4 << 20;
/// Nor do all of them that are read at a time.
const BODIES: usize = 64 << 20;

/// Answers until it is told to stop.
///
/// # Errors
/// A socket that fails.
pub async fn serve(
    server: Server,
    listener: TcpListener,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .with_max_request_body_bytes(BODY)
        .with_allowed_origins(PAGES)
        .enforce_origin_validation();
    let ends = config.cancellation_token.clone();
    // Who has a key could not have been tricked into coming, whatever name it was given for us.
    let config = match server.access {
        Access::All => config,
        Access::Keys => config.disable_allowed_hosts(),
    };
    let each = server.clone();
    let service =
        StreamableHttpService::new(move || Ok(each.clone()), NeverSessionManager::default().into(), config);
    let room = Arc::new(Room::new(BODIES));
    let routes = Router::new()
        .route_service(PATH, service)
        .layer(middleware::from_fn_with_state(room, take_in))
        .layer(middleware::from_fn_with_state(server, admit));
    let limits = Limits::default().of_connections();
    listen::serve(listener, routes, limits, stop, move || ends.cancel()).await;
    Ok(())
}

/// Reads a request whole, if it comes fast enough, before anything else looks at it.
async fn take_in(State(room): State<Arc<Room>>, request: Request, next: Next) -> Response {
    let (parts, incoming) = request.into_parts();
    let pace = Pace { most: BODY, ..Pace::of(&Limits::default()) };
    match body::read(incoming, pace, &room).await {
        Ok(read) => next.run(Request::from_parts(parts, read.into())).await,
        Err(refused) => (refused.status(), format!("{}\n", refused.said())).into_response(),
    }
}

/// Lets a request in, and says with it whose sessions it may see.
async fn admit(State(server): State<Server>, mut request: Request, next: Next) -> Response {
    if server.access == Access::Keys {
        let Some(key) = key_of(request.headers()) else { return closed() };
        match server.store.key(key).await {
            Ok(Some(granted)) => drop(request.extensions_mut().insert(granted.tenant)),
            Ok(None) => return closed(),
            Err(error) => {
                tracing::warn!("the store does not say who a key lets in: {error}");
                return (StatusCode::SERVICE_UNAVAILABLE, "the store that knows the keys does not answer\n")
                    .into_response();
            }
        }
    }
    next.run(request).await
}

fn closed() -> Response {
    let said = "this server wants a key of the store: x-longhaul-key, or authorization: Bearer\n";
    (StatusCode::UNAUTHORIZED, said).into_response()
}
