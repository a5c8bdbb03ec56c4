//! Stores with several endpoints: the spread of the operations, and an endpoint that is gone.

use std::net::TcpListener;

use crate::support::{Server, plimsoll, scratch, text};
use plimsoll_judge::summary::result::{AddressFigures, RunResult};

/// Returns two servers with the bucket, and the address of a third one that is gone.
fn servers() -> (Server, Server, String) {
    let [one, two] = [(); 2].map(|()| Server::start("", false));
    [&one, &two].into_iter().for_each(|server| drop(server.ready("")));
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    (one, two, gone)
}

#[test]
fn operations_are_spread_over_the_endpoints_and_one_that_is_gone_is_named() {
    let (one, two, gone) = servers();
    let dir = scratch("endpoints");
    let store = format!("s3://bucket/p?endpoint={},{},http://{gone}", one.endpoint(), two.endpoint());
    let run = plimsoll(&["run", "put", "--warmup", "0", "--operations", "600", "--concurrency", "30"])
        .args(["--json", "--store", &store, "--out"])
        .arg(&dir)
        .output()
        .unwrap();
    assert_eq!(run.status.code(), Some(0), "{}", text(&run.stderr));
    let result: RunResult = serde_json::from_slice(&run.stdout).unwrap();
    let [window] = &result.windows[..] else { panic!("{}", text(&run.stdout)) };
    let of = |address: &str| -> AddressFigures {
        window.addresses.iter().find(|figures| figures.address == address).unwrap().clone()
    };
    let [at_one, at_two, at_gone] =
        [one.address.to_string(), two.address.to_string(), gone.clone()].map(|a| of(&a));
    assert_eq!(window.addresses.len(), 3);
    assert_eq!((at_one.failed, at_two.failed, at_gone.service_ms.n), (0, 0, 0));
    // Ten of thirty slots belong to the endpoint that is gone. Each tries it once, and again after a second.
    assert!(at_gone.failed >= 10 && at_gone.failed == window.errors["connect"], "{:?}", window.errors);
    assert!(at_one.service_ms.n > 0 && at_two.service_ms.n > 0);
    assert_eq!(at_one.service_ms.n + at_two.service_ms.n + at_gone.failed, 600);

    let run = std::fs::read_dir(&dir).unwrap().next().unwrap().unwrap().path();
    let shown = plimsoll(&["show"]).arg(&run).output().unwrap();
    let named =
        format!("put: {gone} failed {0} of {0} operations, the other addresses 0 of ", at_gone.failed);
    assert!(text(&shown.stdout).contains(&named), "{}", text(&shown.stdout));
    let verified = plimsoll(&["verify"]).arg(&run).output().unwrap();
    assert_eq!(verified.status.code(), Some(0), "{}", text(&verified.stdout));
}

#[test]
fn retries_reach_another_endpoint_and_one_address_needs_no_table() {
    let (one, _, gone) = servers();
    let dir = scratch("endpoints-retries");
    let run = |store: &str| -> RunResult {
        let run = plimsoll(&["run", "put", "--warmup", "0", "--operations", "40", "--concurrency", "4"])
            .args(["--retries", "3", "--json", "--store", store, "--out"])
            .arg(&dir)
            .output()
            .unwrap();
        assert_eq!(run.status.code(), Some(0), "{}", text(&run.stderr));
        serde_json::from_slice(&run.stdout).unwrap()
    };
    let two = run(&format!("s3://bucket/p?endpoint={},http://{gone}", one.endpoint()));
    assert!(two.windows[0].errors.is_empty() && two.windows[0].retries >= 2, "{:?}", two.windows[0].errors);
    let single = run(&format!("s3://bucket/p?endpoint={}", one.endpoint()));
    assert!(single.windows[0].addresses.is_empty());
}
