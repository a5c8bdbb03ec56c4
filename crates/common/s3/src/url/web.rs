//! Parsing of `https://host/path`, a read-only store. A path that ends in `/` is a directory of keys; any other
//! path is a single object.

use super::UrlError;
use plimsoll_base::redaction::{redact_assignments, register_secrets_in};

/// A parsed web URL with all defaults resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebUrl {
    /// True if connections use TLS.
    pub tls: bool,
    /// Host name or address.
    pub host: String,
    /// TCP port of the host.
    pub port: u16,
    /// Value of the `Host` header.
    pub authority: String,
    /// Path in the encoding of the original URL; begins with `/`.
    pub path: String,
    /// Query without the `?`. It may contain a signature, so it must never be displayed.
    pub query: String,
    /// URL with the query redacted, for output and records.
    pub redacted: String,
}

impl WebUrl {
    /// Returns true if the query contains a signature, which is valid for only one HTTP method.
    pub fn is_presigned(&self) -> bool {
        let names = ["X-Amz-Signature", "X-Goog-Signature", "Signature", "sig"];
        let mut given = self.query.split('&').filter_map(|pair| pair.split_once('=')).map(|(name, _)| name);
        given.any(|given| names.iter().any(|name| name.eq_ignore_ascii_case(given)))
    }
}

/// Returns a store URL without secrets. The query of a web URL is omitted, because it may contain a signature.
pub fn redacted(written: &str) -> String {
    // The URL may also follow a flag: --store=https://...
    let begin = ["https://", "http://"].iter().find_map(|scheme| written.find(scheme));
    let begin = begin.filter(|begin| *begin == 0 || written[..*begin] == *"--store=");
    match (begin, written.split_once('?')) {
        (Some(_), Some((place, _))) => format!("{}?...", redact_assignments(place)),
        _ => redact_assignments(written).into_owned(),
    }
}

/// Returns the URL of the S3 bucket that a web URL without a query may mean: `s3://bucket?endpoint=http://host` for
/// `http://host/bucket`. `None` if the URL is not of this form.
pub fn as_bucket(written: &str) -> Option<String> {
    let (scheme, rest) =
        written.split_once("://").filter(|(scheme, _)| ["http", "https"].contains(scheme))?;
    let (host, path) = rest.split_once('/')?;
    let path = path.trim_end_matches('/');
    (!path.is_empty() && !path.contains(['?', '.']))
        .then(|| format!("s3://{path}?endpoint={scheme}://{host}"))
}

/// Parses a URL that begins with `https://` or `http://`.
///
/// # Errors
/// Returns a [`UrlError`] if the URL is invalid or contains credentials.
pub fn parse(text: &str) -> Result<WebUrl, UrlError> {
    let bad = || UrlError::Web(redacted(text));
    let uri: hyper::Uri = text.parse().map_err(|_| bad())?;
    let tls = uri.scheme_str() == Some("https");
    let authority = uri.authority().ok_or_else(bad)?;
    if authority.as_str().contains('@') {
        return Err(UrlError::Secret);
    }
    let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_string();
    let query = uri.query().unwrap_or("").to_string();
    register_secrets_in(std::iter::once(query.clone()));
    Ok(WebUrl {
        tls,
        host,
        port: authority.port_u16().unwrap_or(if tls { 443 } else { 80 }),
        authority: authority.as_str().to_string(),
        path: if uri.path().is_empty() { "/".into() } else { uri.path().to_string() },
        query,
        redacted: redacted(text),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_web_url_that_may_mean_a_bucket_has_a_suggestion() {
        let expected = Some("s3://bucket?endpoint=http://localhost:9000".to_string());
        assert_eq!(as_bucket("http://localhost:9000/bucket"), expected);
        assert_eq!(as_bucket("http://localhost:9000/bucket/"), expected);
        for other in
            ["http://localhost:9000/", "https://cdn/a/file.bin", "https://h/o?X-Amz-Signature=1", "s3://b/c"]
        {
            assert_eq!(as_bucket(other), None, "{other}");
        }
    }

    #[test]
    fn urls_are_parsed_and_signatures_redacted() {
        let url = parse("https://cdn.example.org/a%20b/x.bin?X-Amz-Signature=hush&e=1").unwrap();
        assert_eq!((url.port, url.path.as_str()), (443, "/a%20b/x.bin"));
        assert_eq!(url.query, "X-Amz-Signature=hush&e=1");
        assert_eq!(url.redacted, "https://cdn.example.org/a%20b/x.bin?...");
        let local = parse("http://127.0.0.1:8080/dir/").unwrap();
        assert_eq!((local.authority.as_str(), local.port, local.tls), ("127.0.0.1:8080", 8080, false));
        assert!(parse("https://user:hush@host/").is_err_and(|e| !e.to_string().contains("hush")));
        assert!(parse("https://?sig=hush").is_err_and(|e| !e.to_string().contains("hush")));
        assert_eq!(redacted("--store=https://h/k?sig=hush"), "--store=https://h/k?...");
        for plain in
            ["s3://b?region=x", "s3://b?endpoint=http://h:1&region=x", "--store=s3://b?endpoint=http://h"]
        {
            assert_eq!(redacted(plain), plain);
        }
    }
}
