//! Where a bucket lives: scheme, host, port, addressing style, and the paths of its objects.

use crate::net::encode::encode_into;

/// How the bucket is named in a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// `https://host/bucket/key`.
    Path,
    /// `https://bucket.host/key`.
    VirtualHost,
}

/// One bucket behind one endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Whether TLS is spoken.
    pub tls: bool,
    /// Host name or address to connect to, the bucket included under virtual-host style.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// Value of the `Host` header: the port only when it is not the scheme's.
    pub authority: String,
    /// Bucket name.
    pub bucket: String,
    /// Addressing style.
    pub style: Style,
    /// Region of the signature.
    pub region: String,
}

/// Why an endpoint was refused.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum EndpointError {
    /// Not `http://` or `https://`.
    #[error("endpoint '{0}' must begin with http:// or https://, such as endpoint=http://127.0.0.1:9000")]
    Scheme(String),
    /// No host, a broken port, or a path behind it.
    #[error("endpoint '{0}' must be scheme://host or scheme://host:port, nothing behind it")]
    Shape(String),
    /// Not a bucket name.
    #[error(
        "'{0}' is not a bucket name: 3 to 63 of a-z, 0-9, '-' and '.', beginning and ending with a letter or digit"
    )]
    Bucket(String),
}

/// Whether S3 would accept this as a bucket name (general purpose naming rules, length and characters).
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
    /// See [`EndpointError`].
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
        let shown = if host.contains(':') { format!("[{host}]") } else { host.clone() };
        let authority = if port == default_port { shown } else { format!("{shown}:{port}") };
        let (bucket, region) = (bucket.to_string(), region.to_string());
        Ok(Endpoint { tls, host, port, authority, bucket, style, region })
    }

    /// The endpoint of a bucket at AWS itself.
    ///
    /// # Errors
    /// When the bucket name is not one.
    pub fn aws(bucket: &str, region: &str) -> Result<Endpoint, EndpointError> {
        // A dot in the name breaks the wildcard certificate, so such buckets are addressed by path.
        let style = if bucket.contains('.') { Style::Path } else { Style::VirtualHost };
        Endpoint::new(&format!("https://s3.{region}.amazonaws.com"), bucket, style, region)
    }

    /// Writes the encoded path of `key` (the bucket itself when empty) into `out`, which is cleared first.
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

    /// `scheme://host:port`, for people and records.
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
    fn both_styles_place_the_bucket() {
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
    fn bad_endpoints_are_named() {
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
