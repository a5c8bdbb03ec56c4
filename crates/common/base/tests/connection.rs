//! Tests of connections with peers that behave unusually, over TCP.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;

use bytes::Bytes;
use plimsoll_base::net::connection::{HttpConnection, ResolvedEndpoint};
use plimsoll_base::net::http1::HttpError;
use plimsoll_base::net::http1::outgoing::{HeadWriter, Outgoing, Payload};

/// Runs a peer on one accepted connection, and an exchange with it.
fn with_peer<T>(
    peer: impl FnOnce(TcpStream) + Send + 'static,
    vectored: bool,
    exchange: impl AsyncFnOnce(HttpConnection) -> T,
) -> T {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addresses = [listener.local_addr().unwrap()].into();
    let thread = std::thread::spawn(move || peer(listener.accept().unwrap().0));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let result = runtime.block_on(async {
        let target = ResolvedEndpoint { tls: None, addresses };
        exchange(HttpConnection::open(&target, 0, vectored).await.unwrap()).await
    });
    thread.join().unwrap();
    result
}

/// Returns a request with a body of `bytes` zeros.
fn request(bytes: u64) -> Outgoing {
    let mut head = HeadWriter::new("PUT", "/key", "").unwrap();
    head.length(bytes);
    let piece = Bytes::from(vec![0; 1 << 20]);
    let pieces =
        (0..bytes.div_ceil(1 << 20)).map(move |n| piece.slice(..(bytes - (n << 20)).min(1 << 20) as usize));
    head.finish(false, Payload::pieces(bytes, Box::new(pieces)))
}

/// Reads the head of a request.
fn read_head(peer: &mut TcpStream) {
    let (mut seen, mut byte) = (Vec::new(), [0]);
    while !seen.ends_with(b"\r\n\r\n") {
        peer.read_exact(&mut byte).unwrap();
        seen.push(byte[0]);
    }
}

async fn body_of(connection: &mut HttpConnection) -> Result<Vec<u8>, HttpError> {
    let mut body = Vec::new();
    while let Some(piece) = connection.next_piece().await? {
        body.extend_from_slice(piece);
    }
    Ok(body)
}

/// A store refuses an upload before it has read it, such as one that is too large.
#[test]
fn an_answer_to_an_unfinished_request_is_received() {
    let (done, wait) = mpsc::channel::<()>();
    let peer = move |mut peer: TcpStream| {
        read_head(&mut peer);
        peer.write_all(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 2\r\n\r\nno").unwrap();
        wait.recv().unwrap_err();
    };
    with_peer(peer, true, async |mut connection| {
        let head = connection.send(request(64 << 20)).await.unwrap();
        assert_eq!((head.status(), body_of(&mut connection).await.unwrap()), (403, b"no".to_vec()));
        assert!(!connection.is_open(), "the rest of the request was never sent");
        drop(done);
    });
}

#[test]
fn the_rest_of_a_request_is_sent_after_an_early_head() {
    for vectored in [false, true] {
        let peer = |mut peer: TcpStream| {
            read_head(&mut peer);
            peer.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n").unwrap();
            let mut rest = vec![0; 16 << 20];
            peer.read_exact(&mut rest).unwrap();
            peer.write_all(b"ok").unwrap();
        };
        with_peer(peer, vectored, async |mut connection| {
            let head = connection.send(request(16 << 20)).await.unwrap();
            assert_eq!((head.status(), body_of(&mut connection).await.unwrap()), (200, b"ok".to_vec()));
            assert!(connection.is_open());
        });
    }
}

#[test]
fn a_response_may_arrive_byte_by_byte() {
    let peer = |mut peer: TcpStream| {
        peer.set_nodelay(true).unwrap();
        for body in ["first", "second"] {
            read_head(&mut peer);
            let text = format!(
                "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n",
                body.len()
            );
            for byte in text.as_bytes() {
                peer.write_all(&[*byte]).unwrap();
            }
        }
    };
    with_peer(peer, false, async |mut connection| {
        for body in ["first", "second"] {
            let head = connection.send(request(0)).await.unwrap();
            assert_eq!(head.text("transfer-encoding"), Some("chunked"));
            assert_eq!(body_of(&mut connection).await.unwrap(), body.as_bytes());
            connection.reuse(head);
            assert!(connection.is_open());
        }
    });
}

/// The request may be sent again only if no byte of a response has arrived.
#[test]
fn the_end_of_an_idle_connection_and_bytes_without_a_request_are_noticed() {
    for sent in [&b""[..], b"HTTP/1.1 408 Request Timeout\r\n\r\n"] {
        let (go, wait) = mpsc::channel::<()>();
        let (done, sent_all) = mpsc::channel::<()>();
        let peer = move |mut peer: TcpStream| {
            read_head(&mut peer);
            peer.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").unwrap();
            wait.recv().unwrap();
            peer.write_all(sent).unwrap();
            drop(peer);
            done.send(()).unwrap();
        };
        with_peer(peer, false, async |mut connection| {
            connection.send(request(0)).await.unwrap();
            assert!(body_of(&mut connection).await.unwrap().is_empty() && connection.is_open());
            go.send(()).unwrap();
            sent_all.recv().unwrap();
            // The runtime learns of it when it looks for events.
            tokio::task::yield_now().await;
            let answer = connection.send(request(0)).await;
            let is_first_read = connection.stamps().first_read.get() == 0;
            match answer {
                Err(HttpError::Closed | HttpError::Io(_)) => assert!(sent.is_empty() && is_first_read),
                Err(HttpError::Unexpected) => assert!(!sent.is_empty() && !is_first_read),
                // The kernel delivered the bytes after the request.
                Ok(head) if !sent.is_empty() => assert_eq!(head.status(), 408),
                other => panic!("{other:?}"),
            }
            assert!(!connection.is_open());
        });
    }
}
