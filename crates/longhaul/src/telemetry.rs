//! The log of the gateway, and its traces if a collector is configured.
//!
//! ```text
//! spans and events of tracing ─┬─ by level ──▶ lines, redacted ──▶ standard error, or a file
//!                              └─ from info ─▶ spans, redacted ──▶ a collector, by OTLP over HTTP
//! ```
//!
//! No request waits for either: each has its own thread, and what its queue cannot take is dropped. Dropped
//! log lines are counted.

use std::path::PathBuf;

use longhaul_engine::redact::{Redactor, Rules, SessionKey};
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::Subscriber;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::{LookupSpan, Registry};
use tracing_subscriber::util::SubscriberInitExt;

use crate::config::{Environment, GatewayConfig, LogFormat, LogLevel, Settings};
use crate::failure::Failure;
use log::Log;

mod log;
mod otlp;

/// The variable that sets the log level by module, as in `warn,longhaul=debug`.
const LOG_VARIABLE: &str = "LONGHAUL_LOG";

/// The common prefix of the names of our crates.
const CRATE_PREFIX: &str = "longhaul";

/// The destination of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LogDestination {
    StandardError,
    /// A file, to which lines are appended.
    File(PathBuf),
    Nowhere,
}

/// The log and the traces of this process, which run until [`Telemetry::shut_down`].
pub(crate) struct Telemetry {
    log: Option<Log>,
    traces: Option<SdkTracerProvider>,
}

impl Telemetry {
    /// Starts the log and the traces. Must not be called within an async runtime.
    pub(crate) fn start(
        settings: &Settings,
        rules: &Rules,
        environment: &Environment,
        to: &LogDestination,
    ) -> Result<Self, Failure> {
        let gateway = &settings.app.gateway;
        let filter = log_filter(gateway, environment)?;
        let redactor = new_redactor(rules)?;
        let for_lines = settings.app.redaction.logs.then(|| redactor.clone());
        let log = Log::open(to, gateway.log, for_lines)?;
        let traces = gateway.otlp_endpoint.as_deref().map(|endpoint| otlp::tracer_provider(endpoint, redactor));
        let traces = traces.transpose()?;
        let lines = log.as_ref().map(|log| line_layer(gateway.log, log).with_filter(filter));
        let subscriber = Registry::default().with(lines).with(traces.as_ref().map(otlp::trace_layer));
        let set = subscriber.try_init();
        set.map_err(|error| Failure::System(format!("cannot start the log: {error}")))?;
        Ok(Self { log, traces })
    }

    /// Sends and writes what is still queued. Must not be called within an async runtime.
    pub(crate) fn shut_down(self) {
        if let Some(traces) = self.traces {
            // The collector may be gone, and there is nobody left to tell.
            let _ = traces.shutdown();
        }
        if let Some(log) = self.log {
            log.flush();
        }
    }
}

/// Builds the layer that writes events as lines. They have no colors, because escape sequences between a name
/// and its value would hide a secret from the redactor.
fn line_layer<S>(form: LogFormat, log: &Log) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'s> LookupSpan<'s>,
{
    let layer = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(log.line_writer());
    match form {
        LogFormat::Text => layer.boxed(),
        LogFormat::Json => layer.json().flatten_event(true).boxed(),
    }
}

/// Returns the filter for log lines: the one in the variable, or else the configured level for our crates and
/// at most warnings for others.
fn log_filter(gateway: &GatewayConfig, environment: &Environment) -> Result<Targets, Failure> {
    let variable = environment.iter().find(|(name, value)| name == LOG_VARIABLE && !value.is_empty());
    if let Some((_, typed)) = variable {
        let read = typed.parse::<Targets>();
        return read.map_err(|error| {
            Failure::InvalidInput(format!(
                "{LOG_VARIABLE}: {error}; expected a level, or a list such as warn,longhaul=debug"
            ))
        });
    }
    let level = match gateway.log_level {
        LogLevel::Off => LevelFilter::OFF,
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    Ok(Targets::new().with_target(CRATE_PREFIX, level).with_default(level.min(LevelFilter::WARN)))
}

/// Makes a redactor with a random key: the same secret has the same redaction tag in all lines of this
/// process, and another tag in every other process.
fn new_redactor(rules: &Rules) -> Result<Redactor, Failure> {
    let mut key = [0; 32];
    let filled = getrandom::fill(&mut key);
    filled.map_err(|error| Failure::System(format!("the system has no random bytes: {error}")))?;
    Ok(Redactor::keyed(rules.clone(), SessionKey::new(key)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_ours_and_the_variable_says_it_in_detail() {
        let gateway = GatewayConfig { log_level: LogLevel::Debug, ..GatewayConfig::default() };
        let enabled = |targets: &Targets, target: &str, level: tracing::Level| targets.would_enable(target, &level);
        let by_level = log_filter(&gateway, &Vec::new()).unwrap();
        assert!(enabled(&by_level, "longhaul_server::gateway", tracing::Level::DEBUG));
        assert!(enabled(&by_level, "hyper", tracing::Level::WARN));
        assert!(!enabled(&by_level, "hyper", tracing::Level::INFO));
        let variable = |value: &str| vec![(LOG_VARIABLE.to_owned(), value.to_owned())];
        let detailed = log_filter(&gateway, &variable("error,hyper=trace")).unwrap();
        assert!(enabled(&detailed, "hyper::proto", tracing::Level::TRACE));
        assert!(!enabled(&detailed, "longhaul", tracing::Level::WARN));
        assert_eq!(log_filter(&gateway, &variable("longhaul=loud")).unwrap_err().exit_code(), 2);
    }
}
