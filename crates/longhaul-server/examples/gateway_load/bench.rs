//! The stage of a run: the servers that stand for all of it, and how one of them is put under load.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::Outcome;
use crate::bodies::Scripts;
use crate::load::{Pace, Ran, play};
use crate::process::{Family, cpu};
use crate::record::Record;
use crate::servers::{Nginx, Server, gateway};

/// The gateway: a program that is started anew for each section, or one that runs already, or none.
pub(crate) enum Gateway {
    Program(PathBuf),
    Running { address: SocketAddr, id: Option<u32> },
    Absent,
}

pub(crate) struct Bench {
    pub(crate) folder: PathBuf,
    pub(crate) upstream: Server,
    pub(crate) nginx: Nginx,
    pub(crate) gateway: Gateway,
    pub(crate) record: Record,
    pub(crate) rounds: u64,
}

/// One of the ways to the upstream.
pub(crate) struct Target {
    pub(crate) name: &'static str,
    pub(crate) address: SocketAddr,
    /// The process in between, if any.
    pub(crate) id: Option<u32>,
}

/// CPU time, by process.
#[derive(Clone, Copy, Default)]
pub(crate) struct Spent {
    pub(crate) between: Duration,
    pub(crate) upstream: Duration,
    pub(crate) load: Duration,
}

pub(crate) const DIRECT: &str = "direct";
pub(crate) const NGINX: [&str; 2] = ["nginx", "nginx unbuffered"];
pub(crate) const GATEWAY: &str = "gateway";

impl Bench {
    /// A fresh gateway, if there is to be one.
    pub(crate) async fn fresh_gateway(&self) -> Outcome<Option<Server>> {
        Ok(match &self.gateway {
            Gateway::Program(program) => Some(gateway(program, &self.folder, self.upstream.address).await?),
            Gateway::Running { address, id } => Some(Server::given(*address, *id)),
            Gateway::Absent => None,
        })
    }

    pub(crate) fn targets(&self, gateway: Option<&Server>) -> Vec<Target> {
        let nginx = self.nginx.server.id;
        let mut targets = vec![
            Target { name: DIRECT, address: self.upstream.address, id: None },
            Target { name: NGINX[0], address: self.nginx.default, id: nginx },
            Target { name: NGINX[1], address: self.nginx.unbuffered, id: nginx },
        ];
        targets.extend(gateway.map(|server| Target { name: GATEWAY, address: server.address, id: server.id }));
        targets
    }

    /// Puts one target under load. Only the gateway has to be led up to it: the others remember nothing.
    pub(crate) async fn load(&self, target: &Target, scripts: &Scripts, pace: Pace) -> Outcome<(Ran, Spent)> {
        if target.name == GATEWAY {
            play(target.address, &scripts.before, Pace::Closed).await?;
        }
        // nginx works in its children; the servers are children of this program, whose time is not theirs.
        let processes = [
            (target.id, Family::WithChildren),
            (self.upstream.id, Family::Itself),
            (Some(std::process::id()), Family::Itself),
        ];
        let spent = || processes.map(|(id, family)| id.map(|id| cpu(id, family)).unwrap_or_default());
        let before = spent();
        let ran = play(target.address, &scripts.measured, pace).await?;
        let after = spent();
        let [between, upstream, load] = [0, 1, 2].map(|at| after[at].saturating_sub(before[at]));
        Ok((ran, Spent { between, upstream, load }))
    }
}
