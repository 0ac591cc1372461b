//! The agent as a child process, in our terminal and our process group.
//!
//! A terminal sends its signals (Ctrl-C, Ctrl-\, Ctrl-Z) to the whole group, so the agent receives them
//! itself and we only must not die of them. Signals to us alone are forwarded: always hang-up and terminate,
//! and interrupt and quit if there is no terminal that could have sent them. If the agent stops itself, we
//! stop too, so that the shell returns; when the shell continues us, we continue the agent.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::process::{ExitCode, ExitStatus};

use tokio::process::Command;

use crate::agent_setup::LaunchSettings;
use crate::failure::Failure;

/// A running agent.
pub(super) struct AgentProcess {
    child: tokio::process::Child,
    #[cfg(unix)]
    signals: unix::SignalStreams,
}

impl AgentProcess {
    /// Starts the agent with its extra arguments and variables. Call it within a Tokio runtime.
    pub(super) fn start(call: &[OsString], launch_settings: &LaunchSettings) -> Result<Self, Failure> {
        let [program, arguments @ ..] = call else {
            return Err(Failure::InvalidInput("no agent to run; longhaul run -- AGENT".to_owned()));
        };
        #[cfg(unix)]
        let signals = unix::SignalStreams::new()?;
        let mut command = Command::new(program);
        command.args(&launch_settings.arguments).args(arguments);
        command.envs(launch_settings.variables.iter().map(|(name, value)| (name, value)));
        let child = command.spawn().map_err(|error| {
            let shown = program.to_string_lossy();
            Failure::InvalidInput(match error.kind() {
                ErrorKind::NotFound => {
                    format!("program {shown} not found; check the name, or give its path")
                }
                ErrorKind::PermissionDenied => format!("no permission to run {shown}"),
                _ => format!("{shown} cannot be run: {error}"),
            })
        })?;
        Ok(Self {
            child,
            #[cfg(unix)]
            signals,
        })
    }

    /// Waits until the agent ends, and forwards signals to it meanwhile.
    pub(super) async fn wait(mut self) -> Result<ExitCode, Failure> {
        #[cfg(unix)]
        let status = {
            let id = self.child.id();
            loop {
                tokio::select! {
                    status = self.child.wait() => break status,
                    signal = self.signals.next() => unix::apply_action(signal, id),
                }
            }
        };
        #[cfg(not(unix))]
        let status = self.child.wait().await;
        let status = status.map_err(|error| Failure::System(format!("cannot wait for the agent: {error}")))?;
        Ok(exit_code(status))
    }
}

/// Returns the exit code of the agent. If a signal ended it, the code is 128 plus the signal, as in a shell.
fn exit_code(status: ExitStatus) -> ExitCode {
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

    /// The signals that may arrive while an agent runs.
    pub(super) struct SignalStreams {
        terminal: Terminal,
        interrupt: Stream,
        quit: Stream,
        hang_up: Stream,
        terminate: Stream,
        child: Stream,
    }

    /// Whether we share a terminal with the agent, which then sends its signals to both.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    enum Terminal {
        Shared,
        Absent,
    }

    /// The reaction to a signal.
    #[derive(Clone, Copy)]
    pub(super) enum SignalAction {
        /// Forward the signal to the agent.
        Forward(Signal),
        /// Do nothing, because the terminal already sent the signal to the agent.
        AlreadyDelivered,
        /// Check whether the agent stopped.
        ChildChanged,
    }

    impl SignalStreams {
        pub(super) fn new() -> Result<Self, Failure> {
            let on = |kind| signal(kind).map_err(|error| Failure::System(format!("cannot listen to signals: {error}")));
            let terminal = if File::open("/dev/tty").is_ok() { Terminal::Shared } else { Terminal::Absent };
            Ok(Self {
                terminal,
                interrupt: on(SignalKind::interrupt())?,
                quit: on(SignalKind::quit())?,
                hang_up: on(SignalKind::hangup())?,
                terminate: on(SignalKind::terminate())?,
                child: on(SignalKind::child())?,
            })
        }

        pub(super) async fn next(&mut self) -> SignalAction {
            let terminal = self.terminal;
            let typed = |signal| {
                if terminal == Terminal::Shared {
                    SignalAction::AlreadyDelivered
                } else {
                    SignalAction::Forward(signal)
                }
            };
            tokio::select! {
                _ = self.interrupt.recv() => typed(Signal::INT),
                _ = self.quit.recv() => typed(Signal::QUIT),
                _ = self.hang_up.recv() => SignalAction::Forward(Signal::HUP),
                _ = self.terminate.recv() => SignalAction::Forward(Signal::TERM),
                _ = self.child.recv() => SignalAction::ChildChanged,
            }
        }
    }

    /// Reacts to a signal. If the agent has ended, it does nothing.
    pub(super) fn apply_action(action: SignalAction, id: Option<u32>) {
        let Some(agent) = id.and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw) else { return };
        match action {
            SignalAction::Forward(signal) => {
                let _ = kill_process(agent, signal);
            }
            SignalAction::AlreadyDelivered => {}
            SignalAction::ChildChanged => {
                let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
                if let Ok(Some(_)) = waitid(WaitId::Pid(agent), options) {
                    // We stop here until the shell continues us.
                    let _ = kill_process(getpid(), Signal::STOP);
                    let _ = kill_process(agent, Signal::CONT);
                }
            }
        }
    }
}
