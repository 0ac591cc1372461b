//! The smallest client of HTTP that tests of a gateway need, over a bare socket.

use std::io::{Read, Write};
use std::net::TcpStream;

/// Sends a body, and gives the status and all of the reply.
pub(crate) fn post(url: &str, path: &str, headers: &[(&str, &str)], body: &str) -> (u16, String) {
    send(url, path, headers, body).unwrap()
}

/// Asks for a path, and gives the status.
pub(crate) fn get(url: &str, path: &str) -> u16 {
    exchange("GET", url, path, &[], "").unwrap().0
}

/// Sends a body; nothing where the other side went away.
pub(crate) fn send(url: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Option<(u16, String)> {
    exchange("POST", url, path, headers, body)
}

fn exchange(method: &str, url: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Option<(u16, String)> {
    let (_, rest) = url.split_once("://")?;
    let (host, below) = rest.split_once('/').map_or((rest, String::new()), |(host, below)| (host, format!("/{below}")));
    let mut stream = TcpStream::connect(host).ok()?;
    let more: Vec<String> = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let more = more.concat();
    let length = body.len();
    let head = format!(
        "{method} {below}{path} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\nconnection: close\r\n\
         content-length: {length}\r\n{more}\r\n"
    );
    stream.write_all(head.as_bytes()).ok()?;
    stream.write_all(body.as_bytes()).ok()?;
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).ok()?;
    let reply = String::from_utf8_lossy(&reply).into_owned();
    let status = reply.split(' ').nth(1)?.parse().ok()?;
    Some((status, reply))
}
