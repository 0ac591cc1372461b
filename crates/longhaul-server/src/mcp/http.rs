//! The MCP server over streamable HTTP, at `/mcp`. Requests are independent of each other. The server answers
//! only to host names of this machine, or requires a gateway key of the store.

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

use super::McpServer;
use super::access::McpAccess;
use crate::gateway::body::{self, BodyLimits, BodyMemory};
use crate::gateway::{GatewayLimits, find_gateway_key};
use crate::listen;

/// The path of the MCP endpoint.
const MCP_PATH: &str = "/mcp";
/// The origins of web pages that may send requests: only this machine's own.
const ALLOWED_ORIGINS: [&str; 6] = [
    "http://localhost:*",
    "http://127.0.0.1:*",
    "http://[::1]:*",
    "https://localhost:*",
    "https://127.0.0.1:*",
    "https://[::1]:*",
];
/// The largest request body, in bytes. Chosen by hand: 4 MiB.
const MAX_BODY_BYTES: usize = 4 << 20;
/// The bytes that all request bodies may use together while they are read. Chosen by hand: 64 MiB.
const MAX_TOTAL_BODY_BYTES: usize = 64 << 20;

/// Serves clients until `stop` completes.
///
/// # Errors
/// Returns an error if the socket fails.
pub async fn serve(
    server: McpServer,
    listener: TcpListener,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .with_max_request_body_bytes(MAX_BODY_BYTES)
        .with_allowed_origins(ALLOWED_ORIGINS)
        .enforce_origin_validation();
    let cancellation_token = config.cancellation_token.clone();
    // The check of host names prevents DNS rebinding. A client with a key needs no such check.
    let config = match server.access {
        McpAccess::All => config,
        McpAccess::Keys => config.disable_allowed_hosts(),
    };
    let handler = server.clone();
    let service =
        StreamableHttpService::new(move || Ok(handler.clone()), NeverSessionManager::default().into(), config);
    let body_memory = Arc::new(BodyMemory::new(MAX_TOTAL_BODY_BYTES));
    let routes = Router::new()
        .route_service(MCP_PATH, service)
        .layer(middleware::from_fn_with_state(body_memory, read_body))
        .layer(middleware::from_fn_with_state(server, authenticate));
    let limits = GatewayLimits::default().connection_limits();
    listen::serve(listener, routes, limits, stop, move || cancellation_token.cancel()).await;
    Ok(())
}

/// Reads the whole body of a request, within limits of size and speed, before anything else parses it.
async fn read_body(State(body_memory): State<Arc<BodyMemory>>, request: Request, next: Next) -> Response {
    let (parts, incoming) = request.into_parts();
    let limits = BodyLimits { max_bytes: MAX_BODY_BYTES, ..BodyLimits::new(&GatewayLimits::default()) };
    match body::read(incoming, limits, &body_memory).await {
        Ok(body_bytes) => next.run(Request::from_parts(parts, body_bytes.into())).await,
        Err(error) => (error.status(), format!("{}\n", error.message())).into_response(),
    }
}

/// Checks the key of a request, and attaches its tenant to the request.
async fn authenticate(State(server): State<McpServer>, mut request: Request, next: Next) -> Response {
    if server.access == McpAccess::Keys {
        let Some(key) = find_gateway_key(request.headers()) else { return unauthorized() };
        match server.store.find_key(key).await {
            Ok(Some(key_grant)) => drop(request.extensions_mut().insert(key_grant.tenant)),
            Ok(None) => return unauthorized(),
            Err(error) => {
                tracing::warn!("cannot look up a key in the store: {error}");
                return (StatusCode::SERVICE_UNAVAILABLE, "the store of the keys does not answer; try again\n")
                    .into_response();
            }
        }
    }
    next.run(request).await
}

fn unauthorized() -> Response {
    let message = "this server requires a gateway key: send it as x-longhaul-key, or as authorization: Bearer\n";
    (StatusCode::UNAUTHORIZED, message).into_response()
}
