//! Limits of the resources that clients of the embedded server can use: connections, memory, descriptors and time.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};

use crate::support::raw;
use crate::support::{Server, plimsoll};
use plimsoll_base::clock::SECOND;
use plimsoll_server::ServerSettings;
use plimsoll_server::connections::Timeouts;

fn server(settings: ServerSettings) -> Server {
    let server = Server::start_as("127.0.0.1:0", "", false, settings);
    assert_eq!(server.ask("PUT", "/bkt", &[], b"").status, 200);
    server
}

/// Reads to the end of a connection. Returns true if the server closed it, false if it stayed open.
fn closed(stream: &mut TcpStream) -> bool {
    match stream.read_to_end(&mut Vec::new()) {
        Ok(_) => true,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    }
}

#[test]
fn idle_clients_do_not_exhaust_the_connections_of_others() {
    let server = server(ServerSettings { max_connections: 8, ..ServerSettings::default() });
    let mut idle: Vec<TcpStream> = Vec::new();
    for _ in 0..50 {
        idle.push(server.connect());
        assert_eq!(
            server.ask("PUT", "/bkt/k", &[], b"x").status,
            200,
            "with {} idle connections",
            idle.len()
        );
    }
    assert!(closed(&mut idle[0]), "the connection that was idle longest is closed");
}

#[test]
fn incomplete_heads_do_not_exhaust_the_connections_of_others() {
    let server = server(ServerSettings { max_connections: 8, ..ServerSettings::default() });
    let mut half = Vec::new();
    for _ in 0..50 {
        let mut stream = server.connect();
        stream.write_all(b"GET /bkt HTTP/1.1\r\nhost: ").unwrap();
        half.push(stream);
        assert_eq!(
            server.ask("PUT", "/bkt/k", &[], b"x").status,
            200,
            "with {} incomplete heads",
            half.len()
        );
    }
}

#[test]
fn clients_without_progress_are_disconnected() {
    let timeouts = Timeouts { idle_ns: SECOND, head_ns: SECOND, body_ns: SECOND };
    let server = server(ServerSettings { timeouts, ..ServerSettings::default() });
    let (mut silent, mut half, mut body) = (server.connect(), server.connect(), server.connect());
    half.write_all(b"GET /bkt HTTP/1.1\r\nhost: ").unwrap();
    let request = server.signed(&raw::owner(), "PUT", "/bkt/k", &[], &[7; 1000]);
    body.write_all(&request[..request.len() - 1]).unwrap();
    assert!(closed(&mut silent) && closed(&mut half) && closed(&mut body));
    assert_eq!(server.ask("HEAD", "/bkt/k", &[], b"").status, 404, "an incomplete body creates no object");
}

/// Regression test: after the refusal of a body that the client had announced with `Expect`, the connection was closed
/// without a notice, and the next request of the client failed.
#[test]
fn a_refused_body_that_was_not_sent_ends_the_connection_with_a_notice() {
    let server = server(ServerSettings::default());
    let mut stream = server.connect();
    write!(stream, "PUT /bkt/k HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 5\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 403 ") && answer.contains("connection: close"), "{answer}");
}

/// Regression test: the parser of HTTP drops `Content-Length` beside `Transfer-Encoding`, and the request was accepted.
#[test]
fn a_body_whose_length_is_declared_twice_is_refused_and_ends_the_connection() {
    let server = server(ServerSettings::default());
    let (te, length) = ("transfer-encoding: chunked\r\n", "content-length: 5\r\n");
    for (fields, status) in
        [(format!("{te}{length}"), 400), (format!("{length}{te}"), 400), (te.to_string(), 403)]
    {
        let mut stream = server.connect();
        write!(stream, "PUT /bkt/k HTTP/1.1\r\nhost: x\r\n{fields}\r\n0\r\n\r\n").unwrap();
        if status == 403 {
            // The connection stays open after another error.
            write!(stream, "GET /bkt HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
        }
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{fields}: {answer}");
        assert_eq!(answer.matches("HTTP/1.1 ").count(), if status == 403 { 2 } else { 1 }, "{answer}");
    }
}

#[test]
fn writes_beyond_the_memory_limit_return_slow_down() {
    let server = server(ServerSettings { memory_limit: 1 << 20, ..ServerSettings::default() });
    let data = vec![7; 300 << 10];
    let put = |key: usize| server.ask("PUT", &format!("/bkt/{key}"), &[], &data);
    let refused = (0..).map(put).find(|answer| answer.status != 200).unwrap();
    assert_eq!(refused.error(), (503, "SlowDown".to_string()));
    assert_eq!(server.ask("GET", "/bkt/0", &[], b"").body, data, "reads still succeed");
    assert_eq!(server.ask("DELETE", "/bkt/0", &[], b"").status, 204);
    assert_eq!(put(0).status, 200, "a deletion frees memory");
    // Empty objects use memory, too.
    let empty = |key: usize| server.ask("PUT", &format!("/bkt/empty{key}"), &[], b"");
    assert!((0..10_000).any(|key| empty(key).status == 503));
}

/// A running `plimsoll serve` process. It is killed when dropped.
struct Served {
    child: Child,
    address: String,
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts `plimsoll serve` with a limit of `files` open files.
fn served(files: usize) -> Served {
    let binary = plimsoll(&[]);
    let script = format!(
        "ulimit -n {files}; exec '{}' serve --listen 127.0.0.1:0",
        binary.get_program().to_str().unwrap()
    );
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", &script]).env("PLIMSOLL_ACCESS_KEY", "a").env("PLIMSOLL_SECRET_KEY", "s");
    let mut child = shell.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().rsplit('/').next().unwrap().to_string();
    Served { child, address }
}

#[test]
fn a_server_with_few_file_descriptors_keeps_serving() {
    let served = served(160);
    let mut idle = Vec::new();
    for _ in 0..400 {
        idle.push(TcpStream::connect(&served.address).unwrap());
    }
    let mut stream = TcpStream::connect(&served.address).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
}
