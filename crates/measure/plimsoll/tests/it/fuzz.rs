//! Runs every fuzz target on its committed corpus and on seeded mutations of it. `FUZZ_INPUTS` sets the number of
//! mutations per target; the default is 10,000.

#[path = "../../../../../fuzz/targets.rs"]
mod targets;

use std::panic::catch_unwind;
use std::path::Path;

use plimsoll_base::rng::{Stream, hash_name};
use targets::{TARGETS, Target};

/// Maximum length of an input in bytes.
const MAX_BYTES: usize = 64 << 10;

/// Words and bytes that parsers treat specially.
const WORDS: &[&[u8]] = &[
    b"\0",
    b"\xff\xfe",
    b"\xc3\x28",
    b"\r\n",
    b"\n\n",
    b"%",
    b"%00",
    b"%zz",
    b"&#x0;",
    b"&#1114112;",
    b"&amp;",
    b"<!--",
    b"]]>",
    b"<a>",
    b"</",
    b"-",
    b"-1",
    b"0",
    b"18446744073709551615",
    b"18446744073709551616",
    b"9223372036854775808",
    b"1e400",
    b"-0.0",
    b"NaN",
    b"inf",
    b"99999999999999999999",
    b"+",
    b"=",
    b"=,=",
    b"..",
    b"/",
    b"//",
    b"\\",
    b"\\u0000",
    b"\\ud800",
    b"[",
    b"]",
    b"{",
    b"}",
    b"\"",
    b"'",
    b"bytes=",
    b"0-0",
    b"-0",
    b";",
    b":",
    b",",
    b" ",
    b"\t",
    b"aws4_request",
    b"\xf0\x9f\xa6\x80",
    b"ffffffffffffffff",
];

/// A random stream and the number of values drawn from it.
struct Draws(Stream, u64);

impl Draws {
    fn below(&mut self, n: usize) -> usize {
        self.1 += 1;
        self.0.below(self.1, n.max(1) as u64) as usize
    }
}

/// Returns a mutation of a random input: flips bits, inserts words, and removes, repeats or copies pieces.
fn mutated(corpus: &[Vec<u8>], draws: &mut Draws) -> Vec<u8> {
    let mut out = corpus[draws.below(corpus.len())].clone();
    for _ in 0..=draws.below(6) {
        let at = draws.below(out.len() + 1);
        let end = (at + 1 + draws.below(64)).min(out.len());
        match draws.below(7) {
            0 if at < out.len() => out[at] ^= 1 << draws.below(8),
            1 => drop(out.splice(at..at, WORDS[draws.below(WORDS.len())].iter().copied())),
            2 if at < end => drop(out.splice(at..end, WORDS[draws.below(WORDS.len())].iter().copied())),
            3 if at < end => drop(out.drain(at..end)),
            4 => out.truncate(at),
            5 if at < end => {
                let piece = out[at..end].repeat(1 + draws.below(20));
                out.splice(at..at, piece);
            }
            _ => {
                let other = &corpus[draws.below(corpus.len())];
                let from = draws.below(other.len() + 1);
                let to = (from + draws.below(256)).min(other.len());
                out.splice(at..at, other[from..to].iter().copied());
            }
        }
    }
    out.truncate(MAX_BYTES);
    out
}

fn corpus(name: &str) -> Vec<Vec<u8>> {
    let directory = crate::support::repository("fuzz/corpus").join(name);
    let mut files: Vec<_> = std::fs::read_dir(&directory).unwrap().flatten().map(|e| e.path()).collect();
    files.sort();
    assert!(!files.is_empty(), "{name} has no corpus");
    files.iter().map(|file| std::fs::read(file).unwrap()).collect()
}

fn passes(name: &str, target: fn(&[u8]), input: &[u8]) {
    let copy = input.to_vec();
    if catch_unwind(move || target(&copy)).is_err() {
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.crash"));
        std::fs::write(&file, input).unwrap();
        panic!("{name} panicked; the input is in {}", file.display());
    }
}

fn fuzz((name, target): Target) {
    let inputs: u64 = std::env::var("FUZZ_INPUTS").ok().and_then(|n| n.parse().ok()).unwrap_or(10_000);
    let corpus = corpus(name);
    corpus.iter().for_each(|input| passes(name, target, input));
    for number in 0..inputs {
        let mut draws = Draws(Stream::new(hash_name(name), "fuzz"), number << 12);
        passes(name, target, &mutated(&corpus, &mut draws));
    }
}

/// Returns the target with this name.
fn of(name: &str) -> Target {
    *TARGETS.iter().find(|(known, _)| *known == name).unwrap()
}

macro_rules! targets {
    ($($name:ident)*) => {
        $(#[test] fn $name() { fuzz(of(stringify!($name))); })*

        #[test]
        fn every_target_has_a_test() {
            assert_eq!([$(stringify!($name)),*].as_slice(), TARGETS.iter().map(|(name, _)| *name).collect::<Vec<_>>());
        }
    };
}

targets!(xml_client xml_server aws_chunked sigv4_header sigv4_query range store_url experiment ycsb_properties arrow_log price_book request_head);
