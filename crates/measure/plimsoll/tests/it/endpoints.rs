//! Stores with several endpoints: the spread of the operations, and an endpoint that is gone.

use std::net::{Shutdown, TcpListener, TcpStream};

use crate::support::{Server, plimsoll, scratch, text};
use plimsoll_judge::summary::result::{AddressFigures, RunResult};

/// An address that leads to a server.
struct Door(String);

impl Door {
    fn to(server: &Server) -> Door {
        let (listener, to) = (TcpListener::bind("127.0.0.1:0").unwrap(), server.address);
        let address = listener.local_addr().unwrap().to_string();
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let (client, server) = (client.unwrap(), TcpStream::connect(to).unwrap());
                let copy = |mut from: TcpStream, mut into: TcpStream| {
                    std::thread::spawn(move || {
                        let _ = std::io::copy(&mut from, &mut into);
                        let _ = into.shutdown(Shutdown::Both);
                    })
                };
                copy(client.try_clone().unwrap(), server.try_clone().unwrap());
                copy(server, client);
            }
        });
        Door(address)
    }

    /// Returns an address to which nothing listens.
    fn closed() -> Door {
        Door(TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string())
    }
}

/// Returns the URL of the bucket behind several doors.
fn store_behind(doors: &[&Door]) -> String {
    let endpoints: Vec<String> = doors.iter().map(|door| format!("http://{}", door.0)).collect();
    format!("s3://bucket/p?endpoint={}", endpoints.join(","))
}

fn server() -> Server {
    let server = Server::start("", false);
    drop(server.ready(""));
    server
}

#[test]
fn operations_are_spread_over_the_endpoints_and_one_that_is_gone_is_named() {
    let server = server();
    let (one, two, gone) = (Door::to(&server), Door::to(&server), Door::closed());
    let dir = scratch("endpoints");
    let store = store_behind(&[&one, &two, &gone]);
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
    let [at_one, at_two, at_gone] = [&one, &two, &gone].map(|door| of(&door.0));
    assert_eq!(window.addresses.len(), 3);
    assert_eq!((at_one.failed, at_two.failed, at_gone.service_ms.n), (0, 0, 0));
    // Each of the thirty slots leaves it out for a second after its first try.
    assert!(at_gone.failed >= 20 && at_gone.failed == window.errors["connect"], "{:?}", window.errors);
    assert_eq!(at_one.service_ms.n + at_two.service_ms.n + at_gone.failed, 600);
    assert!(at_one.service_ms.n.abs_diff(at_two.service_ms.n) <= 60, "{at_one:?} {at_two:?}");

    let run = std::fs::read_dir(&dir).unwrap().next().unwrap().unwrap().path();
    let shown = plimsoll(&["show"]).arg(&run).output().unwrap();
    let named =
        format!("put: {0} failed {1} of {1} operations, the other addresses 0 of ", gone.0, at_gone.failed);
    assert!(text(&shown.stdout).contains(&named), "{}", text(&shown.stdout));
    let verified = plimsoll(&["verify"]).arg(&run).output().unwrap();
    assert_eq!(verified.status.code(), Some(0), "{}", text(&verified.stdout));
}

#[test]
fn retries_reach_another_endpoint_and_one_address_needs_no_table() {
    let server = server();
    let (one, gone) = (Door::to(&server), Door::closed());
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
    let two = run(&store_behind(&[&one, &gone]));
    assert!(two.windows[0].errors.is_empty() && two.windows[0].retries >= 2, "{:?}", two.windows[0].errors);
    let single = run(&store_behind(&[&one]));
    assert!(single.windows[0].addresses.is_empty());
}
