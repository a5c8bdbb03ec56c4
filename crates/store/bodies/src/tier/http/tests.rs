//! Tests of the client against servers that misbehave.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};

use object_store::client::HttpRequestBody;
use plimsoll_base::clock::{SECOND, now_ns};

use super::*;

/// Reads the head of a request, and as many bytes of a body as it announces.
fn read_request(socket: &mut TcpStream) -> Option<String> {
    let (mut text, mut byte) = (Vec::new(), [0]);
    while !text.ends_with(b"\r\n\r\n") {
        socket.read_exact(&mut byte).ok()?;
        text.push(byte[0]);
    }
    let text = String::from_utf8(text).unwrap();
    let length = text.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    socket.read_exact(&mut body).ok()?;
    Some(text + &String::from_utf8_lossy(&body))
}

/// Starts a server that answers each connection with `serve`. Returns its address and the number of connections.
fn server(serve: impl Fn(usize, TcpStream) + Send + Sync + 'static) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (count, serve) = (Arc::new(AtomicUsize::new(0)), Arc::new(serve));
    let seen = Arc::clone(&count);
    std::thread::spawn(move || {
        for socket in listener.incoming().map_while(Result::ok) {
            let (number, serve) = (seen.fetch_add(1, Ordering::SeqCst), Arc::clone(&serve));
            std::thread::spawn(move || serve(number, socket));
        }
    });
    (address, count)
}

fn client(timeout: Duration) -> HttpClient {
    Connector { timeout, signing: None }.client()
}

const LONG: Duration = Duration::from_secs(60);

async fn get(client: &HttpClient, address: &str) -> Result<Bytes, HttpError> {
    let request = http::Request::get(format!("http://{address}/k")).body(HttpRequestBody::empty()).unwrap();
    client.execute(request).await?.into_body().bytes().await
}

#[tokio::test]
async fn a_connection_serves_many_requests_and_bodies_of_any_framing() {
    let (address, connections) = server(|_, mut socket| {
        let large = "x".repeat(300_000);
        let answers = [
            "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi".to_string(),
            format!("HTTP/1.1 200 OK\r\ncontent-length: 300000\r\n\r\n{large}"),
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n".to_string(),
            "HTTP/1.1 204 No Content\r\n\r\n".to_string(),
        ];
        for answer in answers {
            assert!(read_request(&mut socket).unwrap().contains("user-agent: plimsoll-gateway/"));
            socket.write_all(answer.as_bytes()).unwrap();
        }
    });
    let client = client(LONG);
    let mut lengths = Vec::new();
    for _ in 0..4 {
        lengths.push(get(&client, &address).await.unwrap().len());
    }
    assert_eq!((lengths, connections.load(Ordering::SeqCst)), (vec![2, 300_000, 3, 0], 1));
}

#[tokio::test]
async fn an_upload_is_sent_with_its_length() {
    let (address, _) = server(|_, mut socket| {
        let request = read_request(&mut socket).unwrap();
        let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{request}", request.len());
        socket.write_all(answer.as_bytes()).unwrap();
    });
    let body = object_store::PutPayload::from_iter([Bytes::from_static(b"he"), Bytes::from_static(b"llo")]);
    for (body, text) in [(HttpRequestBody::from(body), "hello"), (HttpRequestBody::empty(), "")] {
        let request = http::Request::put(format!("http://{address}/k")).body(body).unwrap();
        let answer = client(LONG).execute(request).await.unwrap().into_body().bytes().await.unwrap();
        let answer = String::from_utf8(answer.to_vec()).unwrap();
        assert!(answer.contains(&format!("content-length: {}\r\n", text.len())), "{answer}");
        assert!(
            answer.contains(&format!("host: {address}\r\n")) && answer.ends_with(&format!("\r\n\r\n{text}"))
        );
    }
}

/// An idle connection that the server has closed is not used.
#[tokio::test]
async fn a_closed_connection_is_replaced() {
    let (closed, was_closed) = std::sync::mpsc::channel();
    let closed = std::sync::Mutex::new(closed);
    let (address, connections) = server(move |_, mut socket| {
        read_request(&mut socket).unwrap();
        socket.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi").unwrap();
        drop(socket);
        closed.lock().unwrap().send(()).unwrap();
    });
    let client = client(LONG);
    for number in 1..=3 {
        assert_eq!(get(&client, &address).await.unwrap(), "hi");
        was_closed.recv().unwrap();
        // The runtime must hear of the end before it counts.
        tokio::task::yield_now().await;
        assert_eq!(connections.load(Ordering::SeqCst), number);
    }
}

#[tokio::test]
async fn each_way_to_fail_has_a_kind_that_says_whether_to_repeat() {
    let (address, _) = server(|number, mut socket| {
        read_request(&mut socket);
        let answer: &[u8] = match number {
            0 => b"",
            1 => b"SSH-2.0-server\r\n\r\n",
            2 => b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhe",
            _ => b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        };
        socket.write_all(answer).unwrap();
    });
    let client = client(LONG);
    let mut kinds = Vec::new();
    for _ in 0..4 {
        kinds.push(get(&client, &address).await.unwrap_err().kind());
    }
    use HttpErrorKind::{Connect, Decode, Interrupted, Request};
    assert_eq!(kinds, [Request, Decode, Interrupted, Decode]);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let nobody = listener.local_addr().unwrap().to_string();
    drop(listener);
    assert_eq!(get(&client, &nobody).await.unwrap_err().kind(), Connect);
}

#[tokio::test]
async fn a_silent_server_ends_a_request_and_a_body_at_its_time() {
    for answer in ["", "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhe"] {
        let (address, _) = server(move |_, mut socket| {
            read_request(&mut socket);
            socket.write_all(answer.as_bytes()).unwrap();
            // Until the client gives up.
            let _ = socket.read(&mut [0]);
        });
        let error = get(&client(Duration::from_millis(100)), &address).await.unwrap_err();
        assert_eq!(error.kind(), HttpErrorKind::Timeout, "{error}");
    }
}

#[test]
fn a_host_is_read_from_a_url() {
    let host = |url: &'static str| {
        Host::of(&url.parse().unwrap()).map(|host| (host.name, host.port, host.authority))
    };
    assert_eq!(host("https://a.example/k"), Some(("a.example".into(), 443, "a.example".into())));
    assert_eq!(host("http://[::1]:9000/k"), Some(("::1".into(), 9000, "[::1]:9000".into())));
    assert_eq!(host("http://u:p@a.example:8/k"), Some(("a.example".into(), 8, "a.example:8".into())));
    assert_eq!(host("/k"), None);
}

/// A connection works only in the runtime that opened it.
#[test]
fn another_runtime_opens_its_own_connection() {
    let (address, connections) = server(|_, mut socket| {
        while read_request(&mut socket).is_some() {
            socket.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi").unwrap();
        }
    });
    let client = client(LONG);
    for number in 1..=2 {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        for _ in 0..3 {
            assert_eq!(runtime.block_on(get(&client, &address)).unwrap(), "hi");
        }
        assert_eq!(connections.load(Ordering::SeqCst), number);
    }
}

/// Regression test: an idle connection was closed only when another one of its runtime came back.
#[tokio::test]
async fn an_idle_connection_ends_without_another_one() {
    let (ended, end) = std::sync::mpsc::channel();
    let (address, _) = server(move |_, mut socket| {
        read_request(&mut socket).unwrap();
        socket.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi").unwrap();
        let _ = ended.send(socket.read(&mut [0]).unwrap());
    });
    let pool = Arc::new(Pool::default());
    let client = HttpClient::new(Client {
        timeout: LONG,
        signing: None,
        pool: Arc::clone(&pool),
        tls: OnceLock::new(),
    });
    assert_eq!(get(&client, &address).await.unwrap(), "hi");
    let runtime = tokio::runtime::Handle::current().id();
    assert!(pool.close_idle(runtime, now_ns()), "it is kept for a time");
    assert!(!pool.close_idle(runtime, now_ns() + 60 * SECOND), "and not for longer");
    assert_eq!(end.recv().unwrap(), 0, "the server sees the end");
}
