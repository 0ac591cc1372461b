//! Traces for a collector, by OTLP over HTTP. They leave this machine, so they are always redacted, even if
//! the log is not.

use std::borrow::Cow;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use longhaul_engine::redact::{RedactionMode, Redactor};
use opentelemetry::trace::{Status, TracerProvider};
use opentelemetry::{Array, KeyValue, StringValue, Value};
use opentelemetry_otlp::{Protocol, SpanExporter as Otlp, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SdkTracerProvider, SpanData, SpanExporter};
use reqwest::blocking::Client;
use tracing::Subscriber;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::registry::LookupSpan;

use super::CRATE_PREFIX;
use crate::failure::Failure;
use crate::upstreams;

/// The path for traces at a collector, after its address.
const TRACES_PATH: &str = "/v1/traces";

/// How long a collector may take to accept a batch. Chosen by hand.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(5);

/// Builds the provider that sends spans to a collector, from its own thread.
pub(super) fn tracer_provider(endpoint: &str, redactor: Redactor) -> Result<SdkTracerProvider, Failure> {
    // The HTTPS client needs a process-wide crypto provider. An error means that one was installed before,
    // which is fine.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder = Client::builder().timeout(EXPORT_TIMEOUT).redirect(reqwest::redirect::Policy::none());
    let builder = if upstreams::is_local(endpoint) { builder.no_proxy() } else { builder };
    let failed =
        |error: &dyn fmt::Display| Failure::System(format!("gateway.otlp_endpoint: traces cannot be sent: {error}"));
    let client = builder.build().map_err(|error| failed(&error))?;
    let inner = Otlp::builder()
        .with_http()
        .with_http_client(client)
        .with_protocol(Protocol::HttpBinary)
        .with_endpoint(traces_url(endpoint))
        .with_timeout(EXPORT_TIMEOUT)
        .build()
        .map_err(|error| failed(&error))?;
    let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
    let resource = Resource::builder().with_service_name(CRATE_PREFIX).with_attribute(version).build();
    let exporter = RedactingExporter { inner, redactor: Mutex::new(redactor) };
    Ok(SdkTracerProvider::builder().with_resource(resource).with_batch_exporter(exporter).build())
}

/// Builds the layer that exports our own spans and events, from level info. Spans of the HTTP client are
/// excluded: sending them would create more of them, without end.
pub(super) fn trace_layer<S>(provider: &SdkTracerProvider) -> impl Layer<S> + use<S>
where
    S: Subscriber + for<'s> LookupSpan<'s>,
{
    tracing_opentelemetry::layer()
        .with_tracer(provider.tracer(CRATE_PREFIX))
        .with_location(false)
        .with_threads(false)
        .with_tracked_inactivity(false)
        .with_filter(Targets::new().with_target(CRATE_PREFIX, LevelFilter::INFO))
}

fn traces_url(endpoint: &str) -> String {
    let base = endpoint.trim_end_matches('/');
    if base.ends_with(TRACES_PATH) { base.to_owned() } else { format!("{base}{TRACES_PATH}") }
}

/// An exporter that redacts spans before it passes them on.
struct RedactingExporter<E> {
    inner: E,
    redactor: Mutex<Redactor>,
}

impl<E: fmt::Debug> fmt::Debug for RedactingExporter<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RedactingExporter({:?})", self.inner)
    }
}

impl<E: SpanExporter> SpanExporter for RedactingExporter<E> {
    fn export(&self, mut batch: Vec<SpanData>) -> impl Future<Output = OTelSdkResult> + Send {
        let mut redactor = self.redactor.lock().unwrap_or_else(PoisonError::into_inner);
        for span in &mut batch {
            redact_span(span, &mut redactor);
        }
        drop(redactor);
        self.inner.export(batch)
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.inner.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}

fn redact_span(span: &mut SpanData, redactor: &mut Redactor) {
    redact_attributes(&mut span.attributes, redactor);
    for event in &mut span.events.events {
        // The name of an event is its message.
        event.name = Cow::Owned(redact_text(&event.name, redactor));
        redact_attributes(&mut event.attributes, redactor);
    }
    if let Status::Error { description } = &mut span.status {
        *description = Cow::Owned(redact_text(description, redactor));
    }
}

fn redact_attributes(attributes: &mut [KeyValue], redactor: &mut Redactor) {
    for KeyValue { value, .. } in attributes {
        match value {
            Value::String(text) => *text = redact_value(text, redactor),
            Value::Array(Array::String(texts)) => {
                for text in texts {
                    *text = redact_value(text, redactor);
                }
            }
            _ => {}
        }
    }
}

fn redact_value(text: &StringValue, redactor: &mut Redactor) -> StringValue {
    redact_text(text.as_str(), redactor).into()
}

fn redact_text(text: &str, redactor: &mut Redactor) -> String {
    redactor.redact(text, RedactionMode::Text).text.into_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_engine::redact::{Rules, SessionKey};
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::TcpListener;
    use tracing_subscriber::layer::SubscriberExt;

    const SECRET: &str = "ghp_A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8";

    /// Accepts one request, answers with status 200, and returns its first line and its body.
    fn collect(listener: &TcpListener) -> (String, Vec<u8>) {
        let mut stream = BufReader::new(listener.accept().unwrap().0);
        let (mut first, mut length) = (String::new(), 0);
        stream.read_line(&mut first).unwrap();
        loop {
            let mut line = String::new();
            stream.read_line(&mut line).unwrap();
            if line.trim().is_empty() {
                break;
            }
            if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).unwrap();
        let answer = b"HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n";
        stream.get_mut().write_all(answer).unwrap();
        (first, body)
    }

    #[test]
    fn a_collector_gets_our_spans_without_secrets_and_nobody_elses() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let collector = std::thread::spawn(move || collect(&listener));
        let redactor = Redactor::keyed(Rules::default(), SessionKey::new([7; 32]));
        let provider = tracer_provider(&endpoint, redactor).unwrap();
        let subscriber = tracing_subscriber::registry().with(trace_layer(&provider));
        tracing::subscriber::with_default(subscriber, || {
            let span = tracing::info_span!("request", dialect = "messages", header = SECRET);
            span.in_scope(|| tracing::warn!("refused {SECRET}"));
            drop(tracing::info_span!(target: "hyper", "somebody-elses"));
        });
        provider.shutdown().unwrap();
        let (first, body) = collector.join().unwrap();
        assert!(first.starts_with("POST /v1/traces "), "{first}");
        let text = String::from_utf8_lossy(&body);
        for expected in ["longhaul", "request", "messages", "refused", "REDACTED"] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
        for absent in [SECRET, "somebody-elses"] {
            assert!(!text.contains(absent), "{absent}: {text}");
        }
    }

    #[test]
    fn the_path_is_said_once() {
        for typed in ["http://h:4318", "http://h:4318/", "http://h:4318/v1/traces"] {
            assert_eq!(traces_url(typed), "http://h:4318/v1/traces");
        }
    }
}
