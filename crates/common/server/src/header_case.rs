//! Letters of the header `ETag` in answers to UploadPart, as S3 writes them.
//!
//! Header names do not depend on the case of letters (RFC 9110, 5.1), but some clients look for `ETag` literally, such
//! as Fluent Bit in the answer to UploadPart. hyper writes names in lower case, unless an answer has an extension with
//! the original names, which only hyper can create. [`HeaderCase::new`] lets hyper read an answer with this name, and
//! keeps the extension. Other answers stay without it, because it costs a GET 7% more instructions, and a PUT 3%.

use std::io;

use futures_util::future::join3;
use http::header::ETAG;
use http::{Extensions, Request, Response};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Answer with the name that is kept.
const NAMES: &str = "HTTP/1.1 204 No Content\r\nETag: x\r\n\r\n";

/// Extension of an answer whose header names stay in lower case.
#[derive(Debug, Clone, Copy)]
pub struct LowerCase;

/// The name of the header, for answers with an entity tag.
#[derive(Debug)]
pub struct HeaderCase(Extensions);

impl HeaderCase {
    /// Lets hyper read the names.
    ///
    /// # Errors
    /// If there is no thread or runtime for it.
    pub fn new() -> io::Result<HeaderCase> {
        let work = || {
            let runtime = tokio::runtime::Builder::new_current_thread().build()?;
            runtime.block_on(read()).map(HeaderCase).map_err(io::Error::other)
        };
        // The caller may be part of another runtime.
        let thread = std::thread::Builder::new().name("header-case".into()).spawn(work)?;
        thread.join().unwrap_or_else(|_| Err(io::Error::other("the header names could not be read")))
    }

    /// Gives an answer with an entity tag the name of S3.
    pub fn apply<B>(&self, answer: &mut Response<B>) {
        if answer.headers().contains_key(ETAG) && answer.extensions().get::<LowerCase>().is_none() {
            *answer.extensions_mut() = self.0.clone();
        }
    }
}

/// Exchanges a request with an answer in memory, and returns the extensions of the answer.
async fn read() -> hyper::Result<Extensions> {
    let (near, mut far) = tokio::io::duplex(4096);
    let (mut sender, connection) =
        http1::Builder::new().preserve_header_case(true).handshake(TokioIo::new(near)).await?;
    let peer = async {
        let mut request = [0; 1024];
        let _ = far.read(&mut request).await;
        let _ = far.write_all(NAMES.as_bytes()).await;
        drop(far);
    };
    let exchange = sender.send_request(Request::new(String::new()));
    let (answer, _, ()) = join3(exchange, connection, peer).await;
    Ok(answer?.into_parts().0.extensions)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_answers_with_an_entity_tag_have_the_extension() {
        let names = HeaderCase::new().unwrap();
        let mut tagged = Response::builder().header(ETAG, "x").body(()).unwrap();
        names.apply(&mut tagged);
        assert_eq!(tagged.extensions().len(), names.0.len());
        assert!(!tagged.extensions().is_empty());
        let mut plain = Response::new(());
        names.apply(&mut plain);
        assert!(plain.extensions().is_empty());
    }
}
