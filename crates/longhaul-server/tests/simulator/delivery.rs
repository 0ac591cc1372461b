//! How an answer comes over the wire: when, in which pieces, and how far.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Bytes;
use http_body::Frame;
use tokio::time::{Sleep, sleep};

use super::server::Watch;

/// How answers are delivered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Delivery {
    /// Before the first byte of the head.
    pub(crate) after: Duration,
    pub(crate) pieces: Pieces,
    /// Between two pieces.
    pub(crate) pace: Duration,
    /// The connection is closed when so many bytes of the body are sent.
    pub(crate) cut: Option<usize>,
    /// The body ends when so many bytes of it are sent, as if that were all.
    pub(crate) ends: Option<usize>,
}

/// What is sent at once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Pieces {
    /// A whole event, or a whole document.
    #[default]
    Events,
    /// So many bytes.
    Bytes(usize),
    /// So many bytes, and then the rest.
    SplitAt(usize),
}

/// What is done with the next request, instead of what is usual.
#[derive(Debug, Clone)]
pub(crate) enum Next {
    /// It is answered, and the answer comes like this.
    Delivers(Delivery),
    /// It fails with that status, whatever it says.
    Fails { status: u16, headers: Vec<(&'static str, String)> },
}

impl Next {
    pub(crate) fn fails(status: u16) -> Self {
        Self::Fails { status, headers: Vec::new() }
    }
}

#[derive(Debug)]
enum Step {
    Send(Bytes),
    Wait(Duration),
    /// Lets the connection write what it has.
    Flush,
    Break,
}

/// A body on its way.
pub(super) struct Sending {
    steps: VecDeque<Step>,
    waiting: Option<Pin<Box<Sleep>>>,
    watch: Watch,
}

impl Sending {
    pub(super) fn new(events: Vec<Bytes>, delivery: Delivery, watch: Watch) -> Self {
        let mut left = delivery.cut.or(delivery.ends).unwrap_or(usize::MAX);
        let mut steps = VecDeque::new();
        for piece in pieces(events, delivery.pieces) {
            let sent = piece.slice(..piece.len().min(left));
            left -= sent.len();
            if !sent.is_empty() {
                steps.push_back(Step::Send(sent));
            }
            if !delivery.pace.is_zero() {
                steps.push_back(Step::Wait(delivery.pace));
            }
        }
        if delivery.cut.is_some() {
            steps.extend([Step::Flush, Step::Break]);
        }
        Self { steps, waiting: None, watch }
    }
}

fn pieces(events: Vec<Bytes>, pieces: Pieces) -> Vec<Bytes> {
    let all = || Bytes::from(events.concat());
    match pieces {
        Pieces::Events => events,
        Pieces::Bytes(size) => {
            let all = all();
            let starts = (0..all.len()).step_by(size.max(1));
            starts.map(|start| all.slice(start..all.len().min(start + size.max(1)))).collect()
        }
        Pieces::SplitAt(at) => {
            let mut first = all();
            let rest = first.split_off(at.min(first.len()));
            vec![first, rest]
        }
    }
}

impl http_body::Body for Sending {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        loop {
            if let Some(waiting) = &mut self.waiting {
                if waiting.as_mut().poll(context).is_pending() {
                    return Poll::Pending;
                }
                self.waiting = None;
            }
            match self.steps.pop_front() {
                Some(Step::Send(piece)) => return Poll::Ready(Some(Ok(Frame::data(piece)))),
                Some(Step::Wait(time)) => self.waiting = Some(Box::pin(sleep(time))),
                Some(Step::Flush) => {
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Some(Step::Break) => {
                    self.watch.sent();
                    return Poll::Ready(Some(Err(io::Error::other("cut, as it was asked for"))));
                }
                None => {
                    self.watch.sent();
                    return Poll::Ready(None);
                }
            }
        }
    }
}
