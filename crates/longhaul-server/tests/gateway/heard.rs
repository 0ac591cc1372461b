//! Everything that is logged while tests run, at every level and by every crate, to be searched for what must not be in it.

use std::fmt::{Debug, Write as _};
use std::sync::{Mutex, Once, PoisonError};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

static LINES: Mutex<String> = Mutex::new(String::new());
static BEGUN: Once = Once::new();

/// Begins to listen; who comes second joins in.
pub(crate) fn listen() {
    BEGUN.call_once(|| tracing::subscriber::set_global_default(Ear).unwrap());
}

/// All that was logged so far.
pub(crate) fn lines() -> String {
    LINES.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

struct Ear;

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {field}={value:?}").unwrap();
    }
}

impl Line {
    fn end(self) {
        let mut lines = LINES.lock().unwrap_or_else(PoisonError::into_inner);
        lines.push_str(&self.0);
        lines.push('\n');
    }
}

impl Subscriber for Ear {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut line = Line(span.metadata().name().to_owned());
        span.record(&mut line);
        line.end();
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        let mut line = Line(String::new());
        values.record(&mut line);
        line.end();
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(event.metadata().target().to_owned());
        event.record(&mut line);
        line.end();
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
