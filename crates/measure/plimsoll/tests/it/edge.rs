//! Relays: invalid input. The tests in `edge/` execute requests through real ones.

use crate::support::ask::{fails, write};
use crate::support::{plimsoll, scratch, text};

#[test]
fn relays_need_a_token_and_a_valid_url() {
    let run = ["edge", "run", "get", "--relay"];
    fails(&[&run[..], &["https://relay.example"]].concat(), 2, &["PLIMSOLL_RELAY_TOKEN"]);
    let with_token = |arguments: &[&str]| {
        let mut command = plimsoll(arguments);
        let out = command.env("PLIMSOLL_RELAY_TOKEN", "a-token-nobody-may-see").output().unwrap();
        (out.status.code(), text(&out.stderr))
    };
    let (code, message) = with_token(&[&run[..], &["ftp://relay.example"]].concat());
    assert_eq!(code, Some(2), "{message}");
    assert!(message.contains("must begin with https://"), "{message}");
    let (code, message) = with_token(&[&run[..], &["http://127.0.0.1:1", "--store", "memory:"]].concat());
    assert_eq!(code, Some(2), "{message}");
    assert!(message.contains("no network address"), "{message}");
    let (code, message) = with_token(&[&run[..], &["http://127.0.0.1:1"]].concat());
    assert_eq!(code, Some(3), "nothing listens: {message}");
    assert!(message.contains("the relay: could not connect") && message.contains("--relay"), "{message}");
    assert!(!message.contains("nobody-may-see"), "{message}");
    let twice = ["http://127.0.0.1:1", "--relay", "http://127.0.0.1:2"];
    fails(&[&run[..], &twice].concat(), 2, &["two places", "fra=http://127.0.0.1:2"]);
}

#[test]
fn the_bucket_of_a_worker_needs_a_worker() {
    fails(&["run", "get", "--store", "s3://bucket?endpoint=binding"], 2, &["plimsoll edge run", "--relay"]);
    fails(&["edge", "run", "consistency", "--relay", "http://127.0.0.1:1"], 2, &["list experiments"]);
}

#[test]
fn named_stores_may_have_a_relay() {
    let dir = scratch("edge-named");
    write(&dir, "plimsoll.toml", "[store.far]\nurl = 's3://bucket'\nrelay = 'http://127.0.0.1:1'\n");
    let out = plimsoll(&["probe", "far"]).current_dir(&dir).output().unwrap();
    assert!(text(&out.stderr).contains("PLIMSOLL_RELAY_TOKEN"), "{}", text(&out.stderr));
}
