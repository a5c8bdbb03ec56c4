//! Raw HTTP requests that Plimsoll's own clients never send, signed with arbitrary headers.
#![allow(dead_code)]

use std::io::{Read, Write};
use std::net::TcpStream;

use plimsoll_base::net::encode::{hex, parse_query};
use plimsoll_s3::checksum::{base64, md5};
use plimsoll_s3::credentials::Credentials;
use plimsoll_s3::sign::{Signer, canonical_query, sha256};

use crate::support::{ACCESS, SECRET, Server};

/// A response as received.
#[derive(Debug)]
pub struct Answered {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Answered {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn header(&self, name: &str) -> Option<String> {
        let line = |line: &str| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then(|| value.trim().to_string())
        };
        self.head.lines().find_map(line)
    }

    /// Returns the status and the S3 error code; the code is empty if there is none.
    pub fn error(&self) -> (u16, String) {
        let text = self.text();
        let code = text.split("<Code>").nth(1).and_then(|rest| rest.split("</Code>").next());
        (self.status, code.unwrap_or("").to_string())
    }
}

pub fn owner() -> Credentials {
    Credentials::new(ACCESS, SECRET, None)
}

impl Server {
    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(std::time::Duration::from_secs(30))).unwrap();
        stream
    }

    fn host(&self) -> String {
        self.address.to_string()
    }

    /// Returns the bytes of a request whose `headers` are all signed.
    pub fn signed(
        &self,
        by: &Credentials,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Vec<u8> {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let hash = hex(&sha256(body));
        let host = self.host();
        let mut signed = vec![("host", host.as_str()), ("x-amz-content-sha256", hash.as_str())];
        signed.extend(headers);
        if let Some(token) = &by.session_token {
            signed.push(("x-amz-s3session-token", token));
        }
        signed.sort_unstable();
        let mut signer = Signer::new("us-east-1", "s3");
        let canonical = canonical_query(&parse_query(query).unwrap());
        let signature = signer.sign(by, method, path, &canonical, &signed, &hash);
        let mut out =
            format!("{method} {target} HTTP/1.1\r\nconnection: close\r\ncontent-length: {}\r\n", body.len());
        out.push_str(&format!(
            "authorization: {}\r\nx-amz-date: {}\r\n",
            signature.authorization, signature.date_time
        ));
        for (name, value) in signed {
            out.push_str(&format!("{name}: {value}\r\n"));
        }
        out.push_str("\r\n");
        [out.as_bytes(), body].concat()
    }

    /// Sends bytes and reads the response until the server closes the connection.
    pub fn exchange(&self, bytes: &[u8]) -> Answered {
        let mut stream = self.connect();
        let _ = stream.write_all(bytes);
        let mut all = Vec::new();
        let _ = stream.read_to_end(&mut all);
        answered(&all)
    }

    pub fn ask_as(
        &self,
        by: &Credentials,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Answered {
        self.exchange(&self.signed(by, method, target, headers, body))
    }

    pub fn ask(&self, method: &str, target: &str, headers: &[(&str, &str)], body: &[u8]) -> Answered {
        self.ask_as(&owner(), method, target, headers, body)
    }

    /// Posts an XML document with its Content-MD5.
    pub fn post(&self, target: &str, document: &str) -> Answered {
        let digest = base64(&md5(document.as_bytes()));
        self.ask("POST", target, &[("content-md5", &digest)], document.as_bytes())
    }

    /// Sends a presigned request. `pairs` are part of the signed query; `headers` are not signed.
    pub fn presigned(
        &self,
        method: &str,
        path: &str,
        pairs: &[(&str, &str)],
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Answered {
        let pairs: Vec<_> = pairs.iter().map(|(n, v)| ((*n).to_string(), (*v).to_string())).collect();
        let host = self.host();
        let second = plimsoll_base::clock::wall_now().as_second();
        let query = Signer::new("us-east-1", "s3").presign_at(
            &owner(),
            second,
            method,
            &host,
            path,
            (&pairs, &[]),
            60,
        );
        let mut out = format!("{method} {path}?{query} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n");
        out.push_str(&format!("content-length: {}\r\n", body.len()));
        headers.iter().for_each(|(name, value)| out.push_str(&format!("{name}: {value}\r\n")));
        out.push_str("\r\n");
        self.exchange(&[out.as_bytes(), body].concat())
    }
}

pub fn answered(all: &[u8]) -> Answered {
    let end = all.windows(4).position(|w| w == b"\r\n\r\n").unwrap_or(all.len());
    let head = String::from_utf8_lossy(&all[..end]).into_owned();
    let status = head.split(' ').nth(1).and_then(|s| s.parse().ok()).unwrap_or(0);
    Answered { status, head, body: all.get(end + 4..).unwrap_or(&[]).to_vec() }
}
