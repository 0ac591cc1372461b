//! What is measured: the upstream by itself, nginx in front of it, and the gateway in front of it.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::Outcome;
use crate::process::{Process, free_port, listening};

/// A server under test, and the id of its process where it is known.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) id: Option<u32>,
    _process: Option<Process>,
}

impl Server {
    fn started(port: u16, process: Process) -> Self {
        Self { address: local(port), id: Some(process.id()), _process: Some(process) }
    }

    /// One that runs already.
    pub(crate) fn given(address: SocketAddr, id: Option<u32>) -> Self {
        Self { address, id, _process: None }
    }
}

/// This program again, as the upstream; it says its port on its first line.
pub(crate) async fn upstream(folder: &Path) -> Outcome<Server> {
    let log = folder.join("upstream.log");
    let process = Process::start(Command::new(std::env::current_exe()?).arg("upstream"), &log)?;
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(10) {
        if let Some((port, _)) = fs::read_to_string(&log)?.split_once('\n') {
            return Ok(Server::started(port.parse()?, process));
        }
        sleep(Duration::from_millis(10)).await;
    }
    Err("the upstream says no port".into())
}

/// nginx on two ports: with its defaults, and handing request bodies on as they arrive.
pub(crate) struct Nginx {
    pub(crate) default: SocketAddr,
    pub(crate) unbuffered: SocketAddr,
    pub(crate) server: Server,
}

pub(crate) async fn nginx(folder: &Path, upstream: SocketAddr) -> Outcome<Nginx> {
    let (default, unbuffered) = (free_port()?, free_port()?);
    let site = |port: u16, more: &str| {
        format!(
            "server {{ listen 127.0.0.1:{port}; client_max_body_size 64m; keepalive_requests 1000000; {more}
             location / {{ proxy_pass http://upstream; proxy_http_version 1.1; proxy_set_header Connection \"\"; }} }}"
        )
    };
    let configuration = format!(
        "worker_processes auto; daemon off; pid nginx.pid; error_log nginx-errors.log;
         events {{ worker_connections 4096; }}
         http {{ access_log off; client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi;
         uwsgi_temp_path uwsgi; scgi_temp_path scgi;
         upstream upstream {{ server {upstream}; keepalive 256; keepalive_requests 1000000; }}
         {} {} }}",
        site(default, ""),
        site(unbuffered, "proxy_request_buffering off;"),
    );
    fs::write(folder.join("nginx.conf"), configuration)?;
    let log = folder.join("nginx.log");
    let mut command = Command::new("nginx");
    command.arg("-e").arg("nginx-errors.log").arg("-p").arg(folder).arg("-c").arg(folder.join("nginx.conf"));
    let server = Server::started(default, Process::start(&mut command, &log)?);
    listening(local(default), &log).await?;
    Ok(Nginx { default: local(default), unbuffered: local(unbuffered), server })
}

/// `longhaul serve` with a store of its own in the folder.
pub(crate) async fn gateway(program: &PathBuf, folder: &Path, upstream: SocketAddr) -> Outcome<Server> {
    let port = free_port()?;
    let folder = folder.join(format!("gateway-{port}"));
    fs::create_dir(&folder)?;
    let log = folder.join("log");
    let mut command = Command::new(program);
    command.current_dir(&folder).arg("serve");
    command.args(["--listen", &local(port).to_string(), "--upstream", &format!("http://{upstream}")]);
    command.arg("--store").arg(folder.join("store.db"));
    let server = Server::started(port, Process::start(&mut command, &log)?);
    listening(local(port), &log).await?;
    Ok(server)
}

fn local(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}
