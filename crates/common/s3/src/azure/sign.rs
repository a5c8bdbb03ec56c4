//! Signatures with the key of a storage account (Azure Storage REST API reference, "Authorize with Shared Key").

use aws_lc_rs::hmac;

use crate::checksum::base64;
use plimsoll_base::clock::wall_now;

/// Headers of a request that have a line of their own in the text to sign.
#[derive(Debug, Clone, Copy, Default)]
pub struct StandardHeaders<'a> {
    /// Length of the body; empty if it has no bytes.
    pub content_length: &'a str,
    /// MD5 of the body, in base64; empty for none.
    pub content_md5: &'a str,
    /// Type of the content; empty for none.
    pub content_type: &'a str,
    /// Entity tag that the blob must have; empty for none.
    pub if_match: &'a str,
    /// Entity tag that the blob must not have; empty for none.
    pub if_none_match: &'a str,
}

/// A request to sign.
#[derive(Debug, Clone, Copy)]
pub struct ToSign<'a> {
    /// Method of the HTTP request.
    pub method: &'a str,
    /// Encoded path of the URL.
    pub path: &'a str,
    /// Parameters of the query with decoded values, sorted by their lower-case names.
    pub query: &'a [(&'static str, &'a str)],
    /// Headers with a line of their own.
    pub standard: StandardHeaders<'a>,
    /// The other headers, whose names begin with `x-ms-`, sorted by name, without `x-ms-date`.
    pub headers: &'a [(&'static str, &'a str)],
}

/// Name of the header with the date, which sorts between the others.
const DATE: &str = "x-ms-date";

/// A signer of requests to one account. Each connection has its own, so that signing needs no lock.
pub struct Signer {
    account: String,
    key: hmac::Key,
    second: i64,
    date: String,
    text: String,
    authorization: String,
}

/// The headers that authorize a request.
#[derive(Debug)]
pub struct Signed<'a> {
    /// Value of `Authorization`.
    pub authorization: &'a str,
    /// Value of `x-ms-date`.
    pub date: &'a str,
}

impl Signer {
    /// Creates a signer for an account with its decoded key.
    pub fn new(account: &str, key: &[u8]) -> Signer {
        Signer {
            account: account.to_string(),
            key: hmac::Key::new(hmac::HMAC_SHA256, key),
            second: i64::MIN,
            date: String::new(),
            text: String::with_capacity(1024),
            authorization: String::with_capacity(128),
        }
    }

    /// Signs a request at the current time.
    pub fn sign(&mut self, request: &ToSign<'_>) -> Signed<'_> {
        self.sign_at(wall_now().as_second(), request)
    }

    /// Signs a request at a Unix time in seconds.
    fn sign_at(&mut self, second: i64, request: &ToSign<'_>) -> Signed<'_> {
        if second != self.second {
            self.second = second;
            let time = jiff::Timestamp::from_second(second).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
            // RFC 1123, with GMT.
            self.date = time.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
        }
        text_into(&mut self.text, &self.account, &self.date, request);
        let tag = hmac::sign(&self.key, self.text.as_bytes());
        self.authorization.clear();
        for part in ["SharedKey ", &self.account, ":", &base64(tag.as_ref())] {
            self.authorization.push_str(part);
        }
        Signed { authorization: &self.authorization, date: &self.date }
    }
}

/// Clears `out` and writes the text to sign into it.
fn text_into(out: &mut String, account: &str, date: &str, request: &ToSign<'_>) {
    let standard = &request.standard;
    out.clear();
    let lines = [
        request.method,
        "", // Content-Encoding
        "", // Content-Language
        standard.content_length,
        standard.content_md5,
        standard.content_type,
        "", // Date: the header x-ms-date replaces it
        "", // If-Modified-Since
        standard.if_match,
        standard.if_none_match,
        "", // If-Unmodified-Since
        "", // Range: the header x-ms-range replaces it
    ];
    let mut line = |parts: [&str; 3]| {
        parts.into_iter().for_each(|part| out.push_str(part));
        out.push('\n');
    };
    lines.into_iter().for_each(|text| line([text, "", ""]));
    let (before, after) = request.headers.split_at(request.headers.partition_point(|(name, _)| *name < DATE));
    before.iter().for_each(|(name, value)| line([name, ":", value]));
    line([DATE, ":", date]);
    after.iter().for_each(|(name, value)| line([name, ":", value]));
    for part in ["/", account, request.path] {
        out.push_str(part);
    }
    for (name, value) in request.query {
        for part in ["\n", name, ":", value] {
            out.push_str(part);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(date: &str, request: &ToSign<'_>) -> String {
        let mut out = String::new();
        text_into(&mut out, "myaccount", date, request);
        out
    }

    /// The example of a listing in the REST API reference, "Authorize with Shared Key", at "Constructing the
    /// canonicalized resource string" and "Constructing the canonicalized headers string".
    #[test]
    fn texts_to_sign_are_those_of_the_documentation() {
        let query = [("comp", "metadata"), ("restype", "container"), ("timeout", "20")];
        let request = ToSign {
            method: "GET",
            path: "/mycontainer",
            query: &query,
            standard: StandardHeaders::default(),
            headers: &[("x-ms-version", "2015-02-21")],
        };
        assert_eq!(
            text("Fri, 26 Jun 2015 23:39:12 GMT", &request),
            "GET\n\n\n\n\n\n\n\n\n\n\n\nx-ms-date:Fri, 26 Jun 2015 23:39:12 GMT\nx-ms-version:2015-02-21\n\
             /myaccount/mycontainer\ncomp:metadata\nrestype:container\ntimeout:20"
        );
        let standard = StandardHeaders {
            content_length: "11",
            content_type: "text/plain; charset=UTF-8",
            ..StandardHeaders::default()
        };
        let request = ToSign {
            method: "PUT",
            path: "/mycontainer/hello.txt",
            query: &[],
            standard,
            headers: &[("x-ms-blob-type", "BlockBlob"), ("x-ms-version", "2015-02-21")],
        };
        assert_eq!(
            text("Fri, 26 Jun 2015 23:39:12 GMT", &request),
            "PUT\n\n\n11\n\ntext/plain; charset=UTF-8\n\n\n\n\n\n\nx-ms-blob-type:BlockBlob\n\
             x-ms-date:Fri, 26 Jun 2015 23:39:12 GMT\nx-ms-version:2015-02-21\n/myaccount/mycontainer/hello.txt"
        );
    }

    #[test]
    fn dates_have_the_format_of_rfc_1123() {
        let mut signer = Signer::new("myaccount", b"key");
        let request = ToSign {
            method: "GET",
            path: "/c/a%20b",
            query: &[],
            standard: StandardHeaders::default(),
            headers: &[],
        };
        let signed = signer.sign_at(1_435_361_952, &request);
        assert_eq!(signed.date, "Fri, 26 Jun 2015 23:39:12 GMT");
        assert!(signed.authorization.starts_with("SharedKey myaccount:"), "{signed:?}");
    }
}
