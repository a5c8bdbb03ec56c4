//! Finds requests that declare the length of their body twice: with `Transfer-Encoding` and `Content-Length`.
//!
//! A proxy and a server that believe different declarations see different requests on one connection (RFC 9112, section
//! 11.2). The parser of HTTP drops `Content-Length` from such a request, so the head is also read as it arrives.

/// Number of bytes of a line that are kept: the longest name that matters, with its colon.
const KEPT: usize = "transfer-encoding:".len();

/// A head that is arriving.
#[derive(Debug, Default)]
pub struct HeadScan {
    line: Vec<u8>,
    is_first: bool,
    ended: bool,
    has_request_line: bool,
    has_length: bool,
}

impl HeadScan {
    /// Begins with a new head.
    pub fn begin(&mut self) {
        self.line.clear();
        (self.is_first, self.ended) = (true, false);
        (self.has_request_line, self.has_length) = (false, false);
    }

    /// Reads the next bytes. Those behind the head have no effect.
    pub fn read(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while !self.ended
            && let Some(end) = memchr::memchr(b'\n', rest)
        {
            let (line, next) = rest.split_at(end + 1);
            if self.line.is_empty() {
                self.end_line(&line[..line.len().min(KEPT)]);
            } else {
                self.keep(line);
                let line = std::mem::take(&mut self.line);
                self.end_line(&line);
            }
            rest = next;
        }
        if !self.ended {
            self.keep(rest);
        }
    }

    /// Appends the beginning of a line of which more has yet to arrive.
    fn keep(&mut self, piece: &[u8]) {
        let room = KEPT - self.line.len().min(KEPT);
        self.line.extend_from_slice(&piece[..piece.len().min(room)]);
    }

    fn end_line(&mut self, line: &[u8]) {
        let line = line.trim_ascii_end();
        if self.is_first && !line.is_empty() {
            let method = line.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
            self.has_request_line = method > 0 && line.get(method) == Some(&b' ');
            self.is_first = false;
        } else if line.is_empty() && !self.is_first {
            self.ended = true;
        } else {
            let name = line.split(|byte| *byte == b':').next().unwrap_or_default();
            self.has_length |= name.trim_ascii().eq_ignore_ascii_case(b"content-length");
        }
    }

    /// Returns true if the whole head was read, and it has no `Content-Length`. The head of a pipelined request, which
    /// arrived with an earlier request, was not. The next head must begin again.
    pub fn end_without_length(&mut self) -> bool {
        let is_certain = self.ended && self.has_request_line && !self.has_length;
        self.begin();
        is_certain
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn without_length(pieces: &[&str]) -> bool {
        let mut scan = HeadScan::default();
        scan.begin();
        pieces.iter().for_each(|piece| scan.read(piece.as_bytes()));
        scan.end_without_length()
    }

    #[test]
    fn a_length_is_found_wherever_the_head_is_cut() {
        let head =
            "PUT /b/k HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\ncOntent-Length : 5\r\n\r\n0\r\n";
        let clean = head.replace("cOntent-Length : 5", "x-length: 5");
        for cut in 0..head.len() {
            assert!(!without_length(&[&head[..cut], &head[cut..]]), "{cut}");
        }
        for cut in 0..clean.len() {
            let (first, second) = clean.split_at(cut);
            assert!(without_length(&[first, second]), "{cut}");
        }
    }

    #[test]
    fn a_body_is_not_part_of_the_head_and_an_unseen_head_is_not_certain() {
        let head = "PUT /b/k HTTP/1.1\r\nHost: x\r\n\r\n";
        assert!(without_length(&[head, "Content-Length: 5\r\n"]));
        assert!(!without_length(&[]), "the head arrived with an earlier request");
        assert!(!without_length(&["x: y\r\n\r\n"]), "the end of such a head");
        assert!(!without_length(&[&head[..20]]));
    }
}
