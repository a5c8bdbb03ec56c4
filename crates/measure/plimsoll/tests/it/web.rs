//! HTTP URLs as stores, through the binary: cache hits and misses, keys from a file, refusals, and hidden signatures.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::Output;

use crate::support::{plimsoll, scratch, text};
use plimsoll_judge::summary::result::{RunResult, Window};

/// Starts a cache: on each connection, every fourth response is a miss. `/moved` redirects, `/missing` does not exist.
fn cdn() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut out = stream.try_clone().unwrap();
                let mut reader = BufReader::new(stream);
                let mut n = 0;
                loop {
                    let mut line = String::new();
                    if reader.read_line(&mut line).unwrap_or(0) == 0 {
                        return;
                    }
                    let path = line.split(' ').nth(1).unwrap_or("").to_string();
                    let head = line.starts_with("HEAD");
                    while reader.read_line(&mut line).is_ok_and(|n| n > 2) {}
                    let status = if n % 4 == 0 { "MISS" } else { "HIT" };
                    n += u32::from(!head);
                    let body = if head { "" } else { "0123456789" };
                    let answer = if path.starts_with("/moved") {
                        "HTTP/1.1 302 Found\r\nlocation: https://else.where/x?sig=hush\r\ncontent-length: 0\r\n\r\n".to_string()
                    } else if path.starts_with("/missing") {
                        "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n".to_string()
                    } else {
                        format!(
                            "HTTP/1.1 200 OK\r\ncf-cache-status: {status}\r\ncontent-length: 10\r\n\r\n{body}"
                        )
                    };
                    if out.write_all(answer.as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    port
}

fn run(arguments: &[&str], out: &Path) -> Output {
    plimsoll(&["run"]).args(arguments).args(["--warmup", "0", "--json", "--out"]).arg(out).output().unwrap()
}

fn result(run: &Output) -> RunResult {
    serde_json::from_slice(&run.stdout).unwrap_or_else(|e| panic!("{e}\n{}", text(&run.stderr)))
}

fn only(result: &RunResult) -> &Window {
    result.windows.iter().find(|w| w.role == plimsoll_workload::schedule::Role::Measure).unwrap()
}

#[test]
fn cache_hits_and_misses_are_separate_and_no_file_contains_the_signature() {
    let port = cdn();
    let out = scratch("web");
    let url = format!("http://127.0.0.1:{port}/one.bin?X-Amz-Signature=hush-hush");
    let arguments = ["get", "--store", &url, "--operations", "40", "--concurrency", "1"];
    let run = run(&arguments, &out);
    assert_eq!(run.status.code(), Some(0), "{}", text(&run.stderr));
    let result = result(&run);
    let window = only(&result);
    assert_eq!((window.operations, window.bytes), (40, 400));
    assert_eq!(window.hit_ratio, Some(0.75));
    assert_eq!((window.cache_ms["hit"].n, window.cache_ms["miss"].n), (30, 10));
    let mut files = 0;
    for run in std::fs::read_dir(&out).unwrap().flatten() {
        for file in std::fs::read_dir(run.path()).unwrap().flatten() {
            files += 1;
            let content = std::fs::read(file.path()).unwrap();
            assert!(!text(&content).contains("hush"), "{}", file.path().display());
        }
    }
    assert!(files >= 3 && !text(&run.stdout).contains("hush"));
}

#[test]
fn keys_come_from_a_file_and_their_sizes_are_checked() {
    let port = cdn();
    let out = scratch("keys");
    let keys = out.join("keys.txt");
    std::fs::write(&keys, "a.bin\nb.bin\t10\n\n").unwrap();
    let url = format!("http://127.0.0.1:{port}/dir/");
    let file = keys.to_str().unwrap();
    let arguments = ["get", "--store", &url, "--operations", "20", "--keys", file];
    let good = run(&arguments, &out);
    assert_eq!(good.status.code(), Some(0), "{}", text(&good.stderr));
    assert_eq!(only(&result(&good)).errors.len(), 0);
    std::fs::write(&keys, "a.bin\t11\n").unwrap();
    let wrong = run(&arguments, &out);
    assert_eq!(only(&result(&wrong)).errors.get("corrupt"), Some(&20));
    std::fs::write(&keys, "a.bin\tmany\n").unwrap();
    let bad = run(&arguments, &out);
    assert!(
        bad.status.code() == Some(2) && text(&bad.stderr).contains("keys.txt:1"),
        "{}",
        text(&bad.stderr)
    );
}

#[test]
fn unsupported_requests_are_refused_with_a_reason() {
    let port = cdn();
    let out = scratch("web-refused");
    let at = |path: &str| format!("http://127.0.0.1:{port}{path}");
    for (arguments, code, expected) in [
        (vec!["put", "--store", &at("/dir/"), "--operations", "1"], 2, "read-only"),
        (vec!["list", "--store", &at("/dir/"), "--operations", "1"], 2, "cannot list objects"),
        (vec!["get", "--store", &at("/dir/"), "--operations", "1"], 2, "--keys FILE"),
        (
            vec!["get", "--store", &at("/moved"), "--operations", "1"],
            3,
            "https://else.where/x: Plimsoll does not follow redirects",
        ),
        (vec!["get", "--store", &at("/missing"), "--operations", "1"], 3, "404 NoSuchKey"),
    ] {
        let run = run(&arguments, &out);
        let message = text(&run.stderr);
        assert_eq!(run.status.code(), Some(code), "{arguments:?}: {message}");
        assert!(message.contains(expected) && !message.contains("hush"), "{arguments:?}: {message}");
    }
}
