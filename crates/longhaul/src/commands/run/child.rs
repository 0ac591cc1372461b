//! The agent as a child of ours, in our terminal and our process group.
//!
//! What a terminal sends (Ctrl-C, Ctrl-\, Ctrl-Z) reaches the whole group by itself, so the agent has it already and we only must not
//! die of it. What somebody sends to us alone is handed on: always a request to end, and the others where there is no terminal that
//! they could have come from. An agent that stops itself stops us with it, so that the shell comes back, and goes on with us.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::process::{ExitCode, ExitStatus};

use tokio::process::Command;

use crate::agents::Outfit;
use crate::failure::Failure;

/// An agent that runs.
pub(super) struct Child {
    child: tokio::process::Child,
    #[cfg(unix)]
    signals: unix::Signals,
}

impl Child {
    /// Starts it with what it is to be given. It must be called from within a runtime.
    pub(super) fn start(call: &[OsString], outfit: &Outfit) -> Result<Self, Failure> {
        let [program, arguments @ ..] = call else {
            return Err(Failure::Wrong("no agent to run; longhaul run -- AGENT".to_owned()));
        };
        #[cfg(unix)]
        let signals = unix::Signals::new()?;
        let mut command = Command::new(program);
        command.args(&outfit.arguments).args(arguments);
        command.envs(outfit.variables.iter().map(|(name, value)| (name, value)));
        let child = command.spawn().map_err(|error| {
            let shown = program.to_string_lossy();
            Failure::Wrong(match error.kind() {
                ErrorKind::NotFound => {
                    format!("there is no program {shown}; check the name, or give its path")
                }
                ErrorKind::PermissionDenied => format!("{shown} is no program that may be run"),
                _ => format!("{shown} cannot be run: {error}"),
            })
        })?;
        Ok(Self {
            child,
            #[cfg(unix)]
            signals,
        })
    }

    /// Waits until it ends, and hands on what is for it.
    pub(super) async fn wait(mut self) -> Result<ExitCode, Failure> {
        #[cfg(unix)]
        let status = {
            let id = self.child.id();
            loop {
                tokio::select! {
                    status = self.child.wait() => break status,
                    signal = self.signals.next() => unix::pass(signal, id),
                }
            }
        };
        #[cfg(not(unix))]
        let status = self.child.wait().await;
        let status = status.map_err(|error| Failure::World(format!("the agent is lost: {error}")))?;
        Ok(code(status))
    }
}

/// The exit code; of one that a signal ended, what a shell says.
fn code(status: ExitStatus) -> ExitCode {
    #[cfg(unix)]
    let by_signal = std::os::unix::process::ExitStatusExt::signal(&status).map(|signal| 128 + signal);
    #[cfg(not(unix))]
    let by_signal = None;
    let code = status.code().or(by_signal).unwrap_or(1);
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}

#[cfg(unix)]
mod unix {
    use std::fs::File;

    use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, getpid, kill_process, waitid};
    use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

    use crate::failure::Failure;

    /// What may come while an agent runs.
    pub(super) struct Signals {
        terminal: Terminal,
        interrupt: Stream,
        quit: Stream,
        hang_up: Stream,
        terminate: Stream,
        child: Stream,
    }

    /// Whether there is a terminal whose signals the agent has without us.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    enum Terminal {
        Ours,
        None,
    }

    /// What is to be done about one.
    #[derive(Clone, Copy)]
    pub(super) enum Came {
        /// Hand it on.
        For(Signal),
        /// The agent has it.
        Known,
        /// Something became of the agent.
        Child,
    }

    impl Signals {
        pub(super) fn new() -> Result<Self, Failure> {
            let on = |kind| {
                signal(kind).map_err(|error| Failure::World(format!("cannot listen to signals: {error}")))
            };
            let terminal = if File::open("/dev/tty").is_ok() { Terminal::Ours } else { Terminal::None };
            Ok(Self {
                terminal,
                interrupt: on(SignalKind::interrupt())?,
                quit: on(SignalKind::quit())?,
                hang_up: on(SignalKind::hangup())?,
                terminate: on(SignalKind::terminate())?,
                child: on(SignalKind::child())?,
            })
        }

        pub(super) async fn next(&mut self) -> Came {
            let terminal = self.terminal;
            let typed = |signal| if terminal == Terminal::Ours { Came::Known } else { Came::For(signal) };
            tokio::select! {
                _ = self.interrupt.recv() => typed(Signal::INT),
                _ = self.quit.recv() => typed(Signal::QUIT),
                _ = self.hang_up.recv() => Came::For(Signal::HUP),
                _ = self.terminate.recv() => Came::For(Signal::TERM),
                _ = self.child.recv() => Came::Child,
            }
        }
    }

    /// Does it. An agent that is gone needs nothing any more.
    pub(super) fn pass(came: Came, id: Option<u32>) {
        let Some(agent) = id.and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw) else { return };
        match came {
            Came::For(signal) => {
                let _ = kill_process(agent, signal);
            }
            Came::Known => {}
            Came::Child => {
                let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
                if let Ok(Some(_)) = waitid(WaitId::Pid(agent), options) {
                    // We stop here, and go on when the shell lets us.
                    let _ = kill_process(getpid(), Signal::STOP);
                    let _ = kill_process(agent, Signal::CONT);
                }
            }
        }
    }
}
