//! The address of a bucket: scheme, host, port, addressing style, and the paths of its objects.

use plimsoll_base::net::encode::encode_into;

/// Position of the bucket name in a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Path style: `https://host/bucket/key`.
    Path,
    /// Virtual-host style: `https://bucket.host/key`.
    VirtualHost,
}

/// A bucket and the endpoint that serves it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// True if connections use TLS.
    pub tls: bool,
    /// Host name or address to connect to; under virtual-host style it includes the bucket.
    pub host: String,
    /// TCP port to connect to.
    pub port: u16,
    /// Value of the `Host` header; includes the port unless it is the scheme's default.
    pub authority: String,
    /// Name of the bucket.
    pub bucket: String,
    /// Addressing style of requests.
    pub style: Style,
    /// Region used in signatures.
    pub region: String,
}

/// Reason for rejecting an endpoint or a bucket name.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum EndpointError {
    /// The URL does not begin with `http://` or `https://`.
    #[error("endpoint '{0}' must begin with http:// or https://, such as endpoint=http://127.0.0.1:9000")]
    Scheme(String),
    /// The URL has no host, an invalid port, a path or a user name.
    #[error("endpoint '{0}' must be scheme://host or scheme://host:port, without a path or user name")]
    Shape(String),
    /// The bucket name breaks the naming rules.
    #[error(
        "'{0}' is not a valid bucket name: use 3 to 63 of a-z, 0-9, '-' and '.', \
         with a letter or digit at both ends"
    )]
    Bucket(String),
}

/// Returns true if `name` has the length and characters that S3's general purpose bucket naming rules require.
pub fn is_bucket_name(name: &str) -> bool {
    let edge = |c: Option<u8>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    let bytes = name.as_bytes();
    (3..=63).contains(&bytes.len())
        && edge(bytes.first().copied())
        && edge(bytes.last().copied())
        && bytes.iter().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, b'-' | b'.'))
        && !name.contains("..")
        && name.parse::<std::net::Ipv4Addr>().is_err()
}

impl Endpoint {
    /// Builds the endpoint of `bucket` at `url` (`scheme://host[:port]`).
    ///
    /// # Errors
    /// If the URL or the bucket name is invalid; see [`EndpointError`].
    pub fn new(url: &str, bucket: &str, style: Style, region: &str) -> Result<Endpoint, EndpointError> {
        let (tls, rest) = if let Some(rest) = url.strip_prefix("https://") {
            (true, rest)
        } else if let Some(rest) = url.strip_prefix("http://") {
            (false, rest)
        } else {
            return Err(EndpointError::Scheme(url.to_string()));
        };
        if !is_bucket_name(bucket) {
            return Err(EndpointError::Bucket(bucket.to_string()));
        }
        let shape = || EndpointError::Shape(url.to_string());
        let authority = rest.trim_end_matches('/');
        let default_port = if tls { 443 } else { 80 };
        let colon = authority.rfind(':').filter(|&i| !authority[i..].contains(']'));
        let (host, port) = match colon {
            Some(i) => (&authority[..i], authority[i + 1..].parse().map_err(|_| shape())?),
            None => (authority, default_port),
        };
        let bare = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
        if bare.is_empty() || authority.contains(['/', '?', '#', '@', ' ']) {
            return Err(shape());
        }
        let host = match style {
            Style::Path => bare.to_string(),
            Style::VirtualHost => format!("{bucket}.{bare}"),
        };
        let bracketed = if host.contains(':') { format!("[{host}]") } else { host.clone() };
        let authority = if port == default_port { bracketed } else { format!("{bracketed}:{port}") };
        let (bucket, region) = (bucket.to_string(), region.to_string());
        Ok(Endpoint { tls, host, port, authority, bucket, style, region })
    }

    /// Builds the endpoint of a bucket at AWS.
    ///
    /// # Errors
    /// If the bucket name is invalid.
    pub fn aws(bucket: &str, region: &str) -> Result<Endpoint, EndpointError> {
        // The wildcard certificate does not cover names with a dot, so such buckets use path style.
        let style = if bucket.contains('.') { Style::Path } else { Style::VirtualHost };
        Endpoint::new(&format!("https://s3.{region}.amazonaws.com"), bucket, style, region)
    }

    /// Clears `out` and writes the encoded path of `key` into it; an empty key gives the path of the bucket.
    pub fn path_into(&self, out: &mut String, key: &str) {
        out.clear();
        out.push('/');
        if self.style == Style::Path {
            out.push_str(&self.bucket);
            if !key.is_empty() {
                out.push('/');
            }
        }
        encode_into(out, key.as_bytes(), true);
    }

    /// Returns `scheme://host[:port]` for messages and results.
    pub fn url(&self) -> String {
        format!("{}://{}", if self.tls { "https" } else { "http" }, self.authority)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(endpoint: &Endpoint, key: &str) -> String {
        let mut out = String::new();
        endpoint.path_into(&mut out, key);
        out
    }

    #[test]
    fn path_and_virtual_host_style_build_their_urls() {
        let by_path = Endpoint::new("http://127.0.0.1:9000", "data", Style::Path, "us-east-1").unwrap();
        assert_eq!(
            (by_path.authority.as_str(), path(&by_path, "a b/c")),
            ("127.0.0.1:9000", "/data/a%20b/c".into())
        );
        assert_eq!(path(&by_path, ""), "/data");
        let aws = Endpoint::aws("data", "eu-west-1").unwrap();
        assert_eq!((aws.authority.as_str(), aws.port), ("data.s3.eu-west-1.amazonaws.com", 443));
        assert_eq!(path(&aws, ""), "/");
        assert_eq!(Endpoint::aws("my.data", "eu-west-1").unwrap().style, Style::Path);
        let v6 = Endpoint::new("http://[::1]:9000/", "data", Style::Path, "r").unwrap();
        assert_eq!((v6.host.as_str(), v6.authority.as_str()), ("::1", "[::1]:9000"));
    }

    #[test]
    fn invalid_endpoints_and_buckets_are_rejected() {
        for bad in ["http://", "http://host/path", "http://host:port", "https://u@host", "http://a b"] {
            assert!(
                matches!(Endpoint::new(bad, "data", Style::Path, "r"), Err(EndpointError::Shape(_))),
                "{bad}"
            );
        }
        assert!(matches!(Endpoint::new("host", "data", Style::Path, "r"), Err(EndpointError::Scheme(_))));
        for bad in ["ab", "Upper", "-a-", "a..b", "10.0.0.1", "a_b"] {
            assert!(matches!(Endpoint::aws(bad, "r"), Err(EndpointError::Bucket(_))), "{bad}");
        }
    }
}
