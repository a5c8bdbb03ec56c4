//! A small HTTP server for the pages of a process: metrics, health, and pages for people. It has one thread, which is
//! idle between requests, and executes requests on at most [`WORKERS`] others.

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
pub use http::StatusCode;
use http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use http::{Method, Response};
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use crate::net::encode::decode;

/// Requests that are executed at a time.
const WORKERS: usize = 4;
/// Maximum number of connections. A further one replaces the oldest without a request, so that idle clients keep nobody
/// out.
const CONNECTIONS: usize = 64;
/// Time in which a client must send the head of its next request, or finish its handshake.
const HEAD_PATIENCE: Duration = Duration::from_secs(30);
/// Time in which a client must send the body of a request.
const BODY_PATIENCE: Duration = Duration::from_secs(10);
/// Time for which a request waits for one of the threads.
const TURN_PATIENCE: Duration = Duration::from_secs(10);
/// Maximum size of the body of a request in bytes.
const BODY: usize = 64 * 1024;
/// Policy for browsers: a page loads its script, its style and its data from this server, and nothing else.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
    form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// Names and values of a query or a form, decoded.
pub type Fields = Vec<(String, String)>;

/// A request for a page.
#[derive(Debug, Clone)]
pub struct PageRequest {
    /// Method of the request.
    pub method: Method,
    /// Path without the query, as sent.
    pub path: String,
    /// Parameters of the query.
    pub query: Fields,
    /// Fields of a form in the body; empty for other requests.
    pub form: Fields,
    /// Value of the header `Authorization`; `None` without one.
    pub authorization: Option<String>,
    /// Value of the header `Host`; empty without one.
    pub host: String,
    /// True if a page of another site has made a browser send the request.
    pub is_foreign: bool,
    /// Address of the client, which may be a proxy.
    pub peer: IpAddr,
    /// True if the request came through TLS.
    pub has_tls: bool,
    /// True if nobody on the network can read the request: it came through TLS, or from this machine and not through a
    /// proxy.
    pub is_private: bool,
}

impl PageRequest {
    /// Returns the first value of a parameter of the query; empty without one.
    pub fn parameter(&self, name: &str) -> &str {
        value(&self.query, name)
    }

    /// Returns the first value of a field of the form; empty without one.
    pub fn field(&self, name: &str) -> &str {
        value(&self.form, name)
    }

    /// Returns the refusal of a request for a page that people open in a browser: it has another method than `allowed`
    /// (such as `GET, HEAD`), or a page of another site may have sent it. `None` for other requests.
    pub fn refusal(&self, allowed: &'static str) -> Option<Page> {
        if !self.is_addressed() {
            let text = "without TLS, write localhost or the address of this machine in place of its name\n";
            return Some(Page::text(StatusCode::MISDIRECTED_REQUEST, text));
        }
        if self.is_foreign && self.path != "/" {
            return Some(Page::text(
                StatusCode::FORBIDDEN,
                "pages of other sites cannot send this request\n",
            ));
        }
        if allowed.split(", ").any(|method| method == self.method.as_str()) {
            return None;
        }
        let refused = Page::text(StatusCode::METHOD_NOT_ALLOWED, format!("use {allowed}\n"));
        Some(Page { headers: vec![(ALLOW, allowed)], ..refused })
    }

    /// Returns false if a browser may have resolved the name of another site to this machine (DNS rebinding). Without
    /// TLS, which protects names, clients must write `localhost` or an address.
    fn is_addressed(&self) -> bool {
        let name = self.host.rsplit_once(':').map_or(self.host.as_str(), |(name, port)| {
            if port.bytes().all(|digit| digit.is_ascii_digit()) { name } else { &self.host }
        });
        let address = name.trim_start_matches('[').trim_end_matches(']');
        let is_local = name.eq_ignore_ascii_case("localhost") || address.parse::<IpAddr>().is_ok();
        self.has_tls || is_local
    }
}

fn value<'a>(fields: &'a Fields, name: &str) -> &'a str {
    fields.iter().find(|(other, _)| other == name).map_or("", |(_, value)| value)
}

/// A page with its status.
#[derive(Debug, Clone)]
pub struct Page {
    /// Status of the response.
    pub status: StatusCode,
    /// Media type of the body.
    pub kind: &'static str,
    /// Body of the response.
    pub body: Bytes,
    /// Further headers of the response.
    pub headers: Vec<(HeaderName, &'static str)>,
}

impl Page {
    /// Returns a page with a status.
    pub fn new(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Page {
        Page { status, kind, body: body.into(), headers: Vec::new() }
    }

    /// Returns a page for browsers.
    pub fn html(status: StatusCode, text: impl Into<String>) -> Page {
        Page::new(status, "text/html; charset=utf-8", text.into())
    }

    /// Returns a plain text.
    pub fn text(status: StatusCode, text: impl Into<String>) -> Page {
        Page::new(status, "text/plain; charset=utf-8", text.into())
    }
}

/// Returns the page of a request. It may block.
pub type Handler = Arc<dyn Fn(&PageRequest) -> Page + Send + Sync>;

/// Returns the current TLS configuration of new connections; `None` for connections without TLS.
pub type TlsSource = Arc<dyn Fn() -> Option<TlsAcceptor> + Send + Sync>;

/// Starts a thread with a name that serves pages on `address` until the process ends. Returns the bound address.
///
/// # Errors
/// If the address cannot be bound, or the thread cannot be started.
pub fn serve(address: &str, name: &str, tls: Option<TlsSource>, handler: Handler) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    let bound = listener.local_addr()?;
    let runtime =
        tokio::runtime::Builder::new_current_thread().max_blocking_threads(WORKERS).enable_all().build()?;
    std::thread::Builder::new()
        .name(name.into())
        .spawn(move || runtime.block_on(accept(listener, tls, handler)))?;
    Ok(bound)
}

async fn accept(listener: TcpListener, tls: Option<TlsSource>, handler: Handler) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
    let mut open: Vec<Open> = Vec::new();
    let turns = Arc::new(Semaphore::new(WORKERS));
    loop {
        let Ok((stream, peer)) = listener.accept().await else {
            // There are no descriptors, for example.
            let _ = timeout(Duration::from_millis(100), std::future::pending::<()>()).await;
            continue;
        };
        open.retain(|connection| !connection.task.is_finished());
        if open.len() >= CONNECTIONS {
            let Some(idle) = open.iter().position(|connection| !connection.is_busy.load(Ordering::Relaxed))
            else {
                continue;
            };
            open.remove(idle).task.abort();
        }
        let is_busy = Arc::new(AtomicBool::new(false));
        let acceptor = tls.as_ref().and_then(|tls| tls());
        let client = Client {
            peer: peer.ip().to_canonical(),
            has_tls: acceptor.is_some(),
            handler: Arc::clone(&handler),
            turns: Arc::clone(&turns),
            is_busy: Arc::clone(&is_busy),
        };
        let task = tokio::spawn(async move {
            match acceptor {
                None => connection(stream, client).await,
                Some(acceptor) => {
                    if let Ok(Ok(stream)) = timeout(HEAD_PATIENCE, acceptor.accept(stream)).await {
                        connection(stream, client).await;
                    }
                }
            }
        });
        open.push(Open { task: task.abort_handle(), is_busy });
    }
}

/// An open connection.
struct Open {
    task: AbortHandle,
    /// True while a request is executed.
    is_busy: Arc<AtomicBool>,
}

/// A client with what its requests need.
#[derive(Clone)]
struct Client {
    peer: IpAddr,
    has_tls: bool,
    handler: Handler,
    /// Threads that are free.
    turns: Arc<Semaphore>,
    is_busy: Arc<AtomicBool>,
}

/// Serves the requests of a connection. Clients that disconnect are ignored.
async fn connection(stream: impl AsyncRead + AsyncWrite + Unpin, client: Client) {
    let service = service_fn(|request: http::Request<Incoming>| {
        let client = client.clone();
        async move {
            let page = page(request, &client).await;
            client.is_busy.store(false, Ordering::Relaxed);
            Ok::<_, Infallible>(response(page))
        }
    });
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(HEAD_PATIENCE).max_buf_size(BODY);
    let _ = server.serve_connection(TokioIo::new(stream), service).await;
}

async fn page(request: http::Request<Incoming>, client: &Client) -> Page {
    let (head, body) = request.into_parts();
    let header = |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok());
    let Ok(Some(body)) = timeout(BODY_PATIENCE, collect(body)).await else {
        return Page::text(StatusCode::PAYLOAD_TOO_LARGE, "the request is too long or too slow\n");
    };
    let is_form = header("content-type")
        .and_then(|kind| kind.split(';').next())
        .is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/x-www-form-urlencoded"));
    let form = match (body.is_empty(), is_form) {
        (true, _) => Some(Vec::new()),
        (false, true) => std::str::from_utf8(&body).ok().and_then(fields),
        (false, false) => None,
    };
    let (Some(form), Some(query)) = (form, fields(head.uri.query().unwrap_or(""))) else {
        return Page::text(StatusCode::BAD_REQUEST, "the query or the form is malformed\n");
    };
    let is_forwarded = ["forwarded", "x-forwarded-for", "x-forwarded-proto", "x-forwarded-host", "via"]
        .iter()
        .any(|name| head.headers.contains_key(*name));
    let (peer, has_tls) = (client.peer, client.has_tls);
    let request = PageRequest {
        method: head.method.clone(),
        path: head.uri.path().to_string(),
        query,
        form,
        authorization: header("authorization").map(str::to_string),
        host: header("host").unwrap_or("").to_string(),
        is_foreign: header("sec-fetch-site").is_some_and(|site| !["same-origin", "none"].contains(&site)),
        peer,
        has_tls,
        is_private: has_tls || (peer.is_loopback() && !is_forwarded),
    };
    // The thread has its turn until the request ends, even if the client has gone.
    let Ok(Ok(turn)) = timeout(TURN_PATIENCE, Arc::clone(&client.turns).acquire_owned()).await else {
        return Page::text(
            StatusCode::SERVICE_UNAVAILABLE,
            "there are too many requests; repeat this later\n",
        );
    };
    client.is_busy.store(true, Ordering::Relaxed);
    let handler = Arc::clone(&client.handler);
    let page = tokio::task::spawn_blocking(move || {
        let page = handler(&request);
        drop(turn);
        page
    });
    page.await.unwrap_or_else(|_| {
        let text = "the request has failed; the log of the program has more\n";
        Page::text(StatusCode::INTERNAL_SERVER_ERROR, text)
    })
}

/// Reads a body; `None` if it is too long or ends early.
async fn collect(body: Incoming) -> Option<Vec<u8>> {
    let (mut body, mut all) = (std::pin::pin!(body), Vec::new());
    while let Some(frame) = std::future::poll_fn(|context| body.as_mut().poll_frame(context)).await {
        if let Ok(bytes) = frame.ok()?.into_data() {
            all.extend_from_slice(&bytes);
        }
        if all.len() > BODY {
            return None;
        }
    }
    Some(all)
}

/// Decodes the parameters of a query or a form; `None` if one is malformed.
fn fields(text: &str) -> Option<Fields> {
    let field = |pair: &str| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        Some((decode(name, true)?, decode(value, true)?))
    };
    text.split('&').filter(|pair| !pair.is_empty()).map(field).collect()
}

fn response(page: Page) -> Response<Whole> {
    let mut response = Response::new(Whole(Some(page.body)));
    *response.status_mut() = page.status;
    let always = [
        (CONTENT_TYPE, page.kind),
        (CACHE_CONTROL, "no-store"),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
    ];
    for (name, value) in always.into_iter().chain(page.headers) {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// A response body of one buffer.
struct Whole(Option<Bytes>);

impl Body for Whole {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<hyper::body::Frame<Bytes>, Infallible>>> {
        std::task::Poll::Ready(self.0.take().map(|bytes| Ok(hyper::body::Frame::data(bytes))))
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        hyper::body::SizeHint::with_exact(self.0.as_ref().map_or(0, |bytes| bytes.len() as u64))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_none()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;

    use super::*;

    fn request(host: &str) -> PageRequest {
        PageRequest {
            method: Method::GET,
            path: "/".into(),
            query: Vec::new(),
            form: Vec::new(),
            authorization: None,
            host: host.into(),
            is_foreign: false,
            peer: "192.0.2.7".parse().unwrap(),
            has_tls: false,
            is_private: true,
        }
    }

    #[test]
    fn another_site_cannot_address_this_machine_by_its_name() {
        for host in ["localhost:9002", "LOCALHOST", "127.0.0.1:9002", "[::1]:9002", "[::1]", "192.0.2.1"] {
            assert!(request(host).is_addressed(), "{host}");
        }
        for host in ["", "evil.example", "evil.example:9002", "localhost.evil.example:9002", "127.0.0.1.evil"]
        {
            assert!(!request(host).is_addressed(), "{host}");
        }
        assert!(PageRequest { has_tls: true, ..request("console.example") }.is_addressed());
    }

    #[test]
    fn idle_connections_keep_nobody_out() {
        let handler: Handler = Arc::new(|request| Page::text(StatusCode::OK, request.path.clone()));
        let address = serve("127.0.0.1:0", "pages", None, handler).unwrap();
        let idle: Vec<TcpStream> =
            (0..2 * CONNECTIONS).map(|_| TcpStream::connect(address).unwrap()).collect();
        let mut one = TcpStream::connect(address).unwrap();
        one.write_all(b"GET /served HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        one.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("/served"), "{answer}");
        drop(idle);
    }

    #[test]
    fn parameters_are_decoded_and_malformed_ones_refused() {
        assert!(fields("a=1&c=%zz").is_none() && fields("a=100%").is_none());
        let found = fields("a=x%20y+z&b&&a=2").unwrap();
        let expected = [("a", "x y z"), ("b", ""), ("a", "2")];
        assert_eq!(found, expected.map(|(name, value)| (name.to_string(), value.to_string())));
        assert_eq!(value(&found, "a"), "x y z");
    }
}
