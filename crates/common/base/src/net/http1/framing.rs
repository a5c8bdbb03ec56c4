//! The end of the body of a response (RFC 9112, 6.3), and the parts of a chunked one.

use std::ops::Range;

use super::HttpError;
use super::head::{Head, MAX_FIELDS, visible};

/// Maximum length in bytes of the line with the size of a chunk, and of all trailer fields together.
const MAX_LINE: usize = 16 * 1024;

/// Way in which the end of a body is found, and what is left of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// All of the body has been taken.
    Done,
    /// The number of bytes that are left.
    Length(u64),
    /// The body consists of chunks.
    Chunked(Chunk),
    /// The body ends with the connection.
    ToEnd,
}

/// Position in a chunked body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chunk {
    /// The next bytes are the line with the size of a chunk.
    Size,
    /// The number of bytes of the chunk that are left.
    Data(u64),
    /// The next bytes are the line break after a chunk.
    End,
    /// The next bytes are trailer fields and the empty line that ends them.
    Trailer,
}

/// Next step in a body.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// These bytes of the input belong to the body.
    Piece(Range<usize>),
    /// More input is needed.
    More,
    /// The body is complete.
    End,
}

/// Parses the values of Content-Length, which must all be equal.
fn length(head: &Head) -> Result<Option<u64>, HttpError> {
    let mut found = None;
    for value in head.values("content-length").flat_map(|value| value.split(|byte| *byte == b',')) {
        let digits = value.trim_ascii();
        let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
        let number =
            std::str::from_utf8(digits).ok().filter(|_| is_number).and_then(|text| text.parse().ok());
        let number: u64 =
            number.filter(|number| *number < u64::MAX - 1).ok_or(HttpError::Invalid("the content length"))?;
        if found.is_some_and(|earlier| earlier != number) {
            return Err(HttpError::Invalid("two content lengths"));
        }
        found = Some(number);
    }
    Ok(found)
}

impl Framing {
    /// Returns the framing of the body after a head. `is_head` is true for a response to HEAD.
    ///
    /// # Errors
    /// [`HttpError::Invalid`] if the head contradicts itself.
    pub fn of(head: &Head, is_head: bool) -> Result<Framing, HttpError> {
        if is_head || matches!(head.status(), 204 | 304) {
            return Ok(Framing::Done);
        }
        if head.is_coded() {
            let coding = head.values("transfer-encoding").last().unwrap_or_default();
            if head.is_old() {
                return Err(HttpError::Invalid("a transfer encoding in HTTP/1.0"));
            }
            let last = visible(coding).and_then(|text| text.rsplit(',').next()).unwrap_or_default();
            let is_chunked = last.trim().eq_ignore_ascii_case("chunked");
            return Ok(if is_chunked { Framing::Chunked(Chunk::Size) } else { Framing::ToEnd });
        }
        Ok(match length(head)? {
            Some(0) => Framing::Done,
            Some(bytes) => Framing::Length(bytes),
            None => Framing::ToEnd,
        })
    }

    /// Takes the next step with the unread input, of which `used` bytes are consumed. After a piece, the caller calls
    /// it again with the rest.
    ///
    /// # Errors
    /// [`HttpError::Invalid`] if the input is not a chunked body although it should be one.
    pub fn step(&mut self, input: &[u8], used: &mut usize) -> Result<Step, HttpError> {
        *used = 0;
        match self {
            Framing::Done => Ok(Step::End),
            Framing::Length(_) | Framing::ToEnd if input.is_empty() => Ok(Step::More),
            Framing::ToEnd => {
                *used = input.len();
                Ok(Step::Piece(0..input.len()))
            }
            Framing::Length(left) => {
                let taken = (input.len() as u64).min(*left);
                *used = taken as usize;
                *self = if taken == *left { Framing::Done } else { Framing::Length(*left - taken) };
                Ok(Step::Piece(0..taken as usize))
            }
            Framing::Chunked(_) => self.chunk(input, used),
        }
    }

    fn chunk(&mut self, input: &[u8], used: &mut usize) -> Result<Step, HttpError> {
        while let Framing::Chunked(at) = *self {
            let rest = &input[*used..];
            let next = match at {
                Chunk::Size => {
                    let Some((size, length)) = size_line(rest)? else { return Ok(Step::More) };
                    *used += length;
                    if size == 0 { Chunk::Trailer } else { Chunk::Data(size) }
                }
                Chunk::Data(_) if rest.is_empty() => return Ok(Step::More),
                Chunk::Data(left) => {
                    let taken = (rest.len() as u64).min(left);
                    let from = *used;
                    *used += taken as usize;
                    let next = if taken == left { Chunk::End } else { Chunk::Data(left - taken) };
                    *self = Framing::Chunked(next);
                    return Ok(Step::Piece(from..*used));
                }
                Chunk::End => match rest {
                    [b'\r', b'\n', ..] => {
                        *used += 2;
                        Chunk::Size
                    }
                    [] | [b'\r'] => return Ok(Step::More),
                    _ => return Err(HttpError::Invalid("the end of a chunk")),
                },
                Chunk::Trailer => {
                    let Some(length) = trailer(rest)? else { return Ok(Step::More) };
                    *used += length;
                    *self = Framing::Done;
                    return Ok(Step::End);
                }
            };
            *self = Framing::Chunked(next);
        }
        Ok(Step::End)
    }
}

/// Parses the line with the size of a chunk. Returns the size and the length of the line; `None` if it is not complete.
fn size_line(input: &[u8]) -> Result<Option<(u64, usize)>, HttpError> {
    let Some(end) = input.iter().take(MAX_LINE).position(|byte| *byte == b'\n') else {
        return if input.len() >= MAX_LINE {
            Err(HttpError::Invalid("the size of a chunk"))
        } else {
            Ok(None)
        };
    };
    let wrong = || HttpError::Invalid("the size of a chunk");
    let line = input[..end].strip_suffix(b"\r").filter(|line| !line.contains(&b'\r')).ok_or_else(wrong)?;
    let digits = line.split(|byte| *byte == b';').next().unwrap_or_default();
    let spaces = digits.iter().rev().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    let digits = &digits[..digits.len() - spaces];
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_hexdigit);
    let text = std::str::from_utf8(digits).ok().filter(|_| is_number).ok_or_else(wrong)?;
    Ok(Some((u64::from_str_radix(text, 16).map_err(|_| wrong())?, end + 1)))
}

/// Checks the trailer fields at the start of the input. Returns their length with the empty line that ends them; `None`
/// if they are not complete.
fn trailer(input: &[u8]) -> Result<Option<usize>, HttpError> {
    let wrong = || HttpError::Invalid("the trailer");
    let (mut end, mut lines) = (0, 0);
    // Each line ends with CR and LF, and has no other CR.
    while let Some(length) = input[end..].iter().position(|byte| *byte == b'\r') {
        match input.get(end + length + 1) {
            Some(b'\n') => end += length + 2,
            Some(_) => return Err(wrong()),
            None => break,
        }
        if length == 0 {
            let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
            let is_valid = lines == 0
                || matches!(
                    httparse::parse_headers(&input[..end], &mut fields[..lines]),
                    Ok(httparse::Status::Complete(_))
                );
            return if is_valid { Ok(Some(end)) } else { Err(wrong()) };
        }
        lines += 1;
        if lines > MAX_FIELDS {
            return Err(wrong());
        }
    }
    if input.len() > MAX_LINE { Err(wrong()) } else { Ok(None) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framing(head: &str, is_head: bool) -> Result<Framing, HttpError> {
        let mut parsed = Head::default();
        parsed.parse(format!("{head}\r\n\r\n").as_bytes()).unwrap().unwrap();
        Framing::of(&parsed, is_head)
    }

    #[test]
    fn the_end_of_a_body_follows_from_its_head() {
        let of = |head: &str| framing(&format!("HTTP/1.1 200 OK\r\n{head}"), false).ok();
        assert_eq!(of("content-length: 5"), Some(Framing::Length(5)));
        assert_eq!(of("content-length: 5\r\ncontent-length: 5"), Some(Framing::Length(5)));
        assert_eq!(of("content-length: 5\r\ncontent-length: 6"), None);
        assert_eq!(of("content-length: +5"), None);
        assert_eq!(of("content-length: 0"), Some(Framing::Done));
        assert_eq!(of("transfer-encoding: Chunked"), Some(Framing::Chunked(Chunk::Size)));
        assert_eq!(
            of("content-length: 5\r\ntransfer-encoding: chunked"),
            Some(Framing::Chunked(Chunk::Size))
        );
        assert_eq!(of("transfer-encoding: gzip"), Some(Framing::ToEnd));
        assert_eq!(of("server: x"), Some(Framing::ToEnd));
        assert_eq!(framing("HTTP/1.1 200 OK\r\ncontent-length: 5", true).unwrap(), Framing::Done);
        assert_eq!(framing("HTTP/1.1 204 No Content\r\nserver: x", false).unwrap(), Framing::Done);
        assert!(framing("HTTP/1.0 200 OK\r\ntransfer-encoding: chunked", false).is_err());
    }

    /// Takes a body apart, with the input in pieces of `step` bytes.
    fn taken(mut framing: Framing, input: &[u8], step: usize) -> Result<(Vec<u8>, usize), HttpError> {
        let (mut out, mut start, mut end) = (Vec::new(), 0, 0);
        loop {
            let mut used = 0;
            match framing.step(&input[start..end], &mut used)? {
                Step::Piece(range) => out.extend_from_slice(&input[start + range.start..start + range.end]),
                Step::End => return Ok((out, start + used)),
                Step::More if end == input.len() => return Err(HttpError::Closed),
                Step::More => end = (end + step).min(input.len()),
            }
            start += used;
        }
    }

    #[test]
    fn chunks_give_the_same_body_however_they_arrive() {
        let input = b"5\r\nhello\r\n6;x=y\r\n world\r\n0\r\nx-trailer: 1\r\n\r\nrest";
        for step in 1..=input.len() {
            let (body, used) = taken(Framing::Chunked(Chunk::Size), input, step).unwrap();
            assert_eq!((&body[..], used), (&b"hello world"[..], input.len() - 4), "{step}");
        }
        assert_eq!(taken(Framing::Length(3), b"abcdef", 2).unwrap(), (b"abc".to_vec(), 3));
    }

    #[test]
    fn chunks_that_are_not_chunks_are_refused() {
        for wrong in ["x\r\n", "\r\n", "5\nhello\r\n", "5\r\nhelloX\r\n", "-1\r\n", "11112222333344445\r\n"] {
            let result = taken(Framing::Chunked(Chunk::Size), wrong.as_bytes(), wrong.len());
            assert!(matches!(result, Err(HttpError::Invalid(_))), "{wrong:?}: {result:?}");
        }
        let endless = "0\r\n".to_string() + &"a: b\r\n".repeat(5000);
        assert!(taken(Framing::Chunked(Chunk::Size), endless.as_bytes(), 100).is_err());
        let line = "1;".to_string() + &"x".repeat(MAX_LINE * 2);
        assert!(taken(Framing::Chunked(Chunk::Size), line.as_bytes(), 1000).is_err());
    }
}
