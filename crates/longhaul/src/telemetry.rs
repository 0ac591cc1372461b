//! What the gateway tells about itself while it runs: a log, and traces where somebody collects them.
//!
//! ```text
//! tracing's spans and events ─┬─ by level ──▶ lines, without secrets ──▶ standard error, or a file
//!                             └─ from info ─▶ spans, without secrets ──▶ a collector, by OTLP over HTTP
//! ```
//!
//! Neither is ever waited for: both are written by threads of their own, and what they cannot take in time is dropped and counted.

use std::path::PathBuf;

use longhaul_engine::redact::{Redactor, Rules, SessionKey};
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::Subscriber;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::{LookupSpan, Registry};
use tracing_subscriber::util::SubscriberInitExt;

use crate::config::{Environment, GatewaySettings, LogForm, LogLevel, Settings};
use crate::failure::Failure;
use log::Log;

mod log;
mod otlp;

/// The variable that says in detail what is worth a line.
const VARIABLE: &str = "LONGHAUL_LOG";

/// What our own crates' names begin with.
const OURS: &str = "longhaul";

/// Where the log goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LogTo {
    StandardError,
    /// Behind what the file holds.
    File(PathBuf),
    Nowhere,
}

/// The log and the traces of this process, as long as it is held.
pub(crate) struct Telemetry {
    log: Option<Log>,
    traces: Option<SdkTracerProvider>,
}

impl Telemetry {
    /// Begins to write down what the process tells about itself. It must not be called from within a runtime.
    pub(crate) fn start(
        settings: &Settings,
        rules: &Rules,
        environment: &Environment,
        to: &LogTo,
    ) -> Result<Self, Failure> {
        let gateway = &settings.shell.gateway;
        let filter = filter(gateway, environment)?;
        let redactor = redactor(rules)?;
        let for_lines = settings.shell.redaction.logs.then(|| redactor.clone());
        let log = Log::open(to, gateway.log, for_lines)?;
        let traces = gateway.otlp_endpoint.as_deref().map(|endpoint| otlp::provider(endpoint, redactor));
        let traces = traces.transpose()?;
        let lines = log.as_ref().map(|log| lines(gateway.log, log).with_filter(filter));
        let subscriber = Registry::default().with(lines).with(traces.as_ref().map(otlp::layer));
        let set = subscriber.try_init();
        set.map_err(|error| Failure::World(format!("cannot begin a log: {error}")))?;
        Ok(Self { log, traces })
    }

    /// Writes what is still to be written. It must not be called from within a runtime.
    pub(crate) fn end(self) {
        if let Some(traces) = self.traces {
            // Who collects them may be gone, and nobody is left to be told.
            let _ = traces.shutdown();
        }
        if let Some(log) = self.log {
            log.flush();
        }
    }
}

/// Events as lines. They are not coloured: marks between a name and its value would hide a secret from those who look for one.
fn lines<S>(form: LogForm, log: &Log) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'s> LookupSpan<'s>,
{
    let layer = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(log.pen());
    match form {
        LogForm::Text => layer.boxed(),
        LogForm::Json => layer.json().flatten_event(true).boxed(),
    }
}

/// What is worth a line: what the variable says in detail, else the configured level of ours and no more than warnings of others.
fn filter(gateway: &GatewaySettings, environment: &Environment) -> Result<Targets, Failure> {
    let variable = environment.iter().find(|(name, value)| name == VARIABLE && !value.is_empty());
    if let Some((_, typed)) = variable {
        let read = typed.parse::<Targets>();
        return read.map_err(|error| {
            Failure::Wrong(format!("{VARIABLE}: {error}; expected a level, or such as warn,longhaul=debug"))
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
    Ok(Targets::new().with_target(OURS, level).with_default(level.min(LevelFilter::WARN)))
}

/// The same secret has the same mark in every line of this process, and in no other's.
fn redactor(rules: &Rules) -> Result<Redactor, Failure> {
    let mut key = [0; 32];
    let filled = getrandom::fill(&mut key);
    filled.map_err(|error| Failure::World(format!("the system gives no random bytes: {error}")))?;
    Ok(Redactor::keyed(rules.clone(), SessionKey::new(key)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_ours_and_the_variable_says_it_in_detail() {
        let gateway = GatewaySettings { log_level: LogLevel::Debug, ..GatewaySettings::default() };
        let enabled =
            |targets: &Targets, target: &str, level: tracing::Level| targets.would_enable(target, &level);
        let by_level = filter(&gateway, &Vec::new()).unwrap();
        assert!(enabled(&by_level, "longhaul_server::gateway", tracing::Level::DEBUG));
        assert!(enabled(&by_level, "hyper", tracing::Level::WARN));
        assert!(!enabled(&by_level, "hyper", tracing::Level::INFO));
        let variable = |value: &str| vec![(VARIABLE.to_owned(), value.to_owned())];
        let detailed = filter(&gateway, &variable("error,hyper=trace")).unwrap();
        assert!(enabled(&detailed, "hyper::proto", tracing::Level::TRACE));
        assert!(!enabled(&detailed, "longhaul", tracing::Level::WARN));
        assert_eq!(filter(&gateway, &variable("longhaul=loud")).unwrap_err().exit_code(), 2);
    }
}
