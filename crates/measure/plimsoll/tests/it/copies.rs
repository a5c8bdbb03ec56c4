//! Copies within a store.

use std::path::Path;

use crate::support::ask::good;
use crate::support::{Server, block_on, plimsoll, scratch, text};
use plimsoll_engine::store::{Body, Ignore, Request, Store};
use plimsoll_judge::summary::result::{RunResult, Window};
use plimsoll_workload::OperationKind;
use plimsoll_workload::schedule::Role;

/// Runs an experiment on a store and returns the measured windows.
fn measure(experiment: &str, store: &str, dir: &Path) -> Vec<Window> {
    let file = dir.join("copies.toml");
    std::fs::write(&file, experiment).unwrap();
    let runs = dir.join("runs");
    let arguments =
        ["run", file.to_str().unwrap(), "--store", store, "--json", "--out", runs.to_str().unwrap()];
    let result: RunResult = serde_json::from_str(&good(&arguments)).unwrap();
    result.windows.into_iter().filter(|window| window.role == Role::Measure).collect()
}

fn keys(store: &dyn Store) -> Vec<String> {
    block_on(async {
        let list = Request::List { prefix: "", start_after: "", token: "", max_keys: 1000 };
        let page = store.connection(0).execute(list, &mut Ignore).await.unwrap().listing.unwrap();
        page.objects.into_iter().map(|object| object.key).collect()
    })
}

#[test]
fn copies_have_the_content_of_their_objects_and_are_removed() {
    let (server, dir) = (Server::start("", false), scratch("copies"));
    let store = server.ready("");
    let url = format!("s3://bucket/some/prefix?endpoint={}", server.endpoint());
    for naming in ["'sequential'", "'hex'", "{ prefixes = 4 }"] {
        let experiment = format!(
            "name = 'copies'\nrepeats = 2\n\
             [[phase]]\nname = 'objects'\nrole = 'prepare'\noperations = {{ put = 1 }}\n\
             objects = {{ count = 40, naming = {naming}, size = {{ uniform = ['1 KiB', '90 KiB'] }} }}\n\
             [[phase]]\nname = 'mixed'\noperations = {{ copy = 3, get = 1 }}\nobjects = {{ from = 'objects' }}\n\
             concurrency = 4\nstop_after = 200\nverify = 'readback'\n"
        );
        let windows = measure(&experiment, &url, &dir);
        for window in &windows {
            assert!(window.errors.is_empty(), "{naming}: {:?}", window.errors);
            let is_copy = window.operation == OperationKind::Copy;
            assert_eq!(is_copy, window.bytes == 0, "no content of a copy passes through the client");
        }
        let copied = |window: &&Window| window.operation == OperationKind::Copy;
        assert_eq!(windows.iter().filter(copied).map(|window| window.operations).sum::<u64>(), 300);
        assert_eq!(keys(store.as_ref()), [""; 0], "{naming}");
    }
}

#[test]
fn existing_objects_are_copied_and_kept() {
    let (server, dir) = (Server::start("", false), scratch("copies-existing"));
    let store = server.ready("");
    block_on(async {
        for (key, size) in [("data/a", 7), ("data/b c", 70_000)] {
            let body = Body::Whole(vec![3; size].into());
            store.connection(0).execute(Request::Put { key, body }, &mut Ignore).await.unwrap();
        }
    });
    let url = format!("s3://bucket/some/prefix?endpoint={}", server.endpoint());
    let experiment = "name = 'copies'\n[[phase]]\nname = 'copy'\noperations = { copy = 1 }\nconcurrency = 2\n\
                      objects = { dataset = 'data/' }\nstop_after = 20\nverify = 'readback'\n";
    let windows = measure(experiment, &url, &dir);
    assert_eq!(windows.iter().map(|window| (window.operations, window.errors.len())).next(), Some((20, 0)));
    assert_eq!(keys(store.as_ref()), ["data/a", "data/b c"]);
}

#[test]
fn stores_that_cannot_copy_and_records_are_refused() {
    let dir = scratch("copies-refused");
    let table = "dynamodb://table?region=us-east-1&endpoint=http://127.0.0.1:1";
    let refused = plimsoll(&["run", "copy", "--store", table, "--operations", "5"])
        .envs([("AWS_ACCESS_KEY_ID", "a"), ("AWS_SECRET_ACCESS_KEY", "b")])
        .output()
        .unwrap();
    let message = text(&refused.stderr);
    assert!(
        refused.status.code() == Some(2) && message.contains("the store cannot copy objects"),
        "{message}"
    );
    let file = dir.join("records.toml");
    let records = "name = 'r'\n[[phase]]\nname = 'p'\noperations = { copy = 1 }\nstop_after = 5\n\
                   objects = { records = { at = 't/', count = 9 } }\n";
    std::fs::write(&file, records).unwrap();
    let refused = plimsoll(&["run", file.to_str().unwrap(), "--store", "memory:"]).output().unwrap();
    let message = text(&refused.stderr);
    assert!(refused.status.code() == Some(2) && message.contains("records are not copied"), "{message}");
}
