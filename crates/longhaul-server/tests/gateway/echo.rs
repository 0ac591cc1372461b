//! An upstream that takes anything, says yes, and remembers to the last byte what it was sent.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Response};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// What it says to everything.
pub(crate) const SAID: &str = "{\"choices\":[{\"message\":{\"content\":\"yes\"},\"finish_reason\":\"stop\"}]}";

/// One request.
#[derive(Clone)]
pub(crate) struct Took {
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// The upstream, until this is dropped.
pub(crate) struct Echo {
    pub(crate) origin: String,
    took: Arc<Mutex<Vec<Took>>>,
    task: JoinHandle<()>,
}

impl Echo {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let took: Arc<Mutex<Vec<Took>>> = Arc::default();
        let router = Router::new().fallback(take).with_state(Arc::clone(&took));
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { origin, took, task }
    }

    pub(crate) fn last(&self) -> Took {
        self.took.lock().unwrap().last().unwrap().clone()
    }

    pub(crate) fn count(&self) -> usize {
        self.took.lock().unwrap().len()
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn take(State(took): State<Arc<Mutex<Vec<Took>>>>, request: Request) -> Response<String> {
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap_or_default();
    let (method, target) = (parts.method.to_string(), parts.uri.to_string());
    took.lock().unwrap().push(Took { method, target, headers: parts.headers, body });
    let response = Response::builder().header("content-type", "application/json").header("x-of-theirs", "1");
    response.body(SAID.to_owned()).unwrap()
}
