//! Stores of Google Cloud Storage, DynamoDB and Azure against emulators: fake-gcs-server, dynalite and Azurite.
//!
//! If an emulator is not installed, its tests are skipped, unless PLIMSOLL_REQUIRE_SERVERS is set (as in CI).

use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use crate::support::{block_on, repository};
use plimsoll_base::provider::calls::Call;
use plimsoll_engine::store::azure::{Authorization, AzureStore};
use plimsoll_engine::store::counted::Counted;
use plimsoll_engine::store::dynamodb::DynamoDbStore;
use plimsoll_engine::store::gcs::GcsStore;
use plimsoll_engine::store::http::Route;
use plimsoll_engine::store::ownership::{KeySpace, RunId};
use plimsoll_engine::store::testing::conformance::check;
use plimsoll_engine::store::{Body, Collect, Failure, Ignore, Reply, Request, Store};
use plimsoll_s3::credentials::{CredentialSource, Credentials};
use plimsoll_s3::url::{StoreUrl, parse};

/// A running emulator on a free port. It is killed when dropped.
struct Foreign {
    child: Child,
    port: u16,
}

/// Finds a program in PATH or in the directories to which the Makefile installs it (`go install`, `npm install`).
fn found(name: &str) -> Option<PathBuf> {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let go = std::env::var_os("GOPATH").map_or(home.join("go"), PathBuf::from).join("bin");
    let npm = repository("node_modules/.bin");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&path).chain([go, npm]);
    places.map(|place| place.join(name)).find(|file| file.is_file())
}

impl Foreign {
    /// Starts the program `name` with the arguments that `arguments` returns for a port; `None` if it is not installed.
    fn start(name: &str, arguments: impl Fn(u16) -> Vec<String>) -> Option<Foreign> {
        let Some(program) = found(name) else {
            assert!(std::env::var_os("PLIMSOLL_REQUIRE_SERVERS").is_none(), "{name} is not installed");
            eprintln!("skipped: {name} is not installed");
            return None;
        };
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let child = Command::new(program)
            .args(arguments(port))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let server = Foreign { child, port };
        let began = plimsoll_base::clock::now_ns();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(
                plimsoll_base::clock::now_ns() - began < 30_000_000_000,
                "{name} does not accept connections"
            );
            std::thread::yield_now();
        }
        Some(server)
    }

    fn fake_gcs() -> Option<Foreign> {
        Foreign::start("fake-gcs-server", |port| {
            let place = format!("127.0.0.1:{port}");
            let url = format!("http://{place}");
            let port = port.to_string();
            [
                "-scheme",
                "http",
                "-host",
                "127.0.0.1",
                "-port",
                &port,
                "-public-host",
                &place,
                "-external-url",
                &url,
                "-backend",
                "memory",
            ]
            .map(str::to_string)
            .to_vec()
        })
    }
}

/// Account and key of the emulator, which are public.
const EMULATED: &str = "UseDevelopmentStorage=true";

fn azurite() -> Option<Foreign> {
    Foreign::start("azurite-blob", |port| {
        let fixed = ["--inMemoryPersistence", "--silent", "--disableTelemetry", "--blobHost", "127.0.0.1"];
        let mut all = fixed.map(str::to_string).to_vec();
        all.extend(["--blobPort".to_string(), port.to_string()]);
        all
    })
}

fn azure(port: u16, parameters: &str) -> Arc<dyn Store> {
    let environment = |name: &str| (name == "AZURE_STORAGE_CONNECTION_STRING").then(|| EMULATED.to_string());
    let text =
        format!("az://bucket/some/prefix?endpoint=http://127.0.0.1:{port}/devstoreaccount1{parameters}");
    let Ok(StoreUrl::Azure(url)) = parse(&text, &environment) else { panic!("{text}") };
    let authorization = block_on(Authorization::find(&url.account, &environment)).unwrap();
    Arc::new(AzureStore::open(*url, &text, Some(authorization), Route::default()).unwrap())
}

#[test]
fn azure_conforms() {
    let Some(server) = azurite() else { return };
    let store = azure(server.port, "");
    let list = Request::List { prefix: "", start_after: "", token: "", max_keys: 1 };
    let early = one(store.as_ref(), list).map(|_| ()).unwrap_err();
    assert!(early.is_missing_container(), "{early}");
    one(store.as_ref(), Request::CreateBucket).unwrap();
    let again = one(store.as_ref(), Request::CreateBucket).map(|_| ()).unwrap_err();
    assert!(again.is_code("BucketAlreadyOwnedByYou"), "{again}");
    block_on(check(store.as_ref(), "some/prefix/"));
    // The emulator refuses CRC64.
    let parameters = "&storage_class=Cool&checksum=md5";
    block_on(check(azure(server.port, parameters).as_ref(), "some/prefix/"));
    one(store.as_ref(), Request::DeleteBucket).unwrap();
    let failure = one(store.as_ref(), Request::CheckBucket).map(|_| ()).unwrap_err();
    assert_eq!(failure.status(), Some(404), "{failure}");
}

#[test]
fn an_abort_discards_the_blocks_of_azure_and_no_blob() {
    let Some(server) = azurite() else { return };
    let store = azure(server.port, "");
    one(store.as_ref(), Request::CreateBucket).unwrap();
    let space = KeySpace::of_run("some/prefix/", &RunId::generate());
    let (new, old) = (format!("{}new", space.root()), format!("{}old", space.root()));
    let body = || Body::Whole(vec![1; 1000].into());
    one(store.as_ref(), Request::Put { key: &old, body: body() }).unwrap();
    let uploads = || one(store.as_ref(), Request::ListUploads { prefix: "", token: "" }).unwrap().uploads;
    for key in [&new, &old] {
        let id = one(store.as_ref(), Request::CreateMultipart { key }).unwrap().upload_id.unwrap();
        let part = Request::UploadPart { key, upload_id: &id, number: 1, body: body() };
        one(store.as_ref(), part).unwrap();
        if key == &new {
            assert_eq!(uploads(), [(new.clone(), id.clone())]);
        }
        let owned = space.own(key).unwrap();
        one(store.as_ref(), Request::AbortMultipart { key: owned, upload_id: &id }).unwrap();
    }
    assert_eq!(uploads(), []);
    let list = Request::List { prefix: "", start_after: "", token: "", max_keys: 1000 };
    let listed = one(store.as_ref(), list).unwrap().listing.unwrap().objects;
    assert_eq!(listed.iter().map(|object| &object.key).collect::<Vec<_>>(), [&old]);
    assert_eq!(content(store.as_ref(), &old).len(), 1000);
}

fn table(port: u16, parameters: &str) -> Arc<dyn Store> {
    let text = format!("dynamodb://conformance?endpoint=http://127.0.0.1:{port}{parameters}");
    let Ok(StoreUrl::DynamoDb(url)) = parse(&text, &|_| None) else { panic!("{text}") };
    let credentials = CredentialSource::fixed(Credentials::new("test", "secret", None));
    Arc::new(DynamoDbStore::open(*url, &text, credentials, Route::default()).unwrap())
}

impl Drop for Foreign {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn gcs(port: u16, parameters: &str) -> Arc<dyn Store> {
    let text = format!("gs://bucket/some/prefix?sign=off&endpoint=http://127.0.0.1:{port}{parameters}");
    let Ok(StoreUrl::Gcs(url)) = parse(&text, &|_| None) else { panic!("{text}") };
    Arc::new(GcsStore::open(*url, &text, None, Route::default()).unwrap())
}

fn one(store: &dyn Store, request: Request<'_>) -> Result<Reply, Failure> {
    block_on(async { store.connection(0).execute(request, &mut Ignore).await })
}

fn content(store: &dyn Store, key: &str) -> Vec<u8> {
    let mut content = Collect::default();
    block_on(async { store.connection(0).execute(Request::Get { key, range: None }, &mut content).await })
        .unwrap();
    content.0
}

#[test]
fn google_cloud_storage_conforms_with_media_and_resumable_uploads() {
    let Some(server) = Foreign::fake_gcs() else { return };
    let list = Request::List { prefix: "", start_after: "", token: "", max_keys: 1 };
    let early = one(gcs(server.port, "").as_ref(), list).map(|_| ()).unwrap_err();
    assert!(early.is_missing_container(), "{early}");
    one(gcs(server.port, "").as_ref(), Request::CreateBucket).unwrap();
    for parameters in ["", "&upload=resumable", "&upload=resumable&chunk=256KiB", "&upload=media"] {
        block_on(check(gcs(server.port, parameters).as_ref(), "some/prefix/"));
    }
    let missing = gcs(server.port, "");
    one(missing.as_ref(), Request::DeleteBucket).unwrap();
    let failure = one(missing.as_ref(), Request::CheckBucket).map(|_| ()).unwrap_err();
    assert_eq!(failure.status(), Some(404), "{failure}");
}

#[test]
fn more_than_32_parts_are_composed_in_several_calls() {
    let Some(server) = Foreign::fake_gcs() else { return };
    let counts = Arc::<plimsoll_engine::store::counted::RequestCounts>::default();
    let store = Counted::new(gcs(server.port, ""), Arc::clone(&counts));
    let store: Arc<dyn Store> = Arc::new(store);
    one(store.as_ref(), Request::CreateBucket).unwrap();
    let key = "some/prefix/many";
    let id = one(store.as_ref(), Request::CreateMultipart { key }).unwrap().upload_id.unwrap();
    let mut parts = Vec::new();
    for number in 1..=70u32 {
        let body = Body::Whole(vec![number as u8; 1000].into());
        let request = Request::UploadPart { key, upload_id: &id, number, body };
        let reply = one(store.as_ref(), request).unwrap();
        parts.push(plimsoll_engine::store::PartTag { etag: reply.etag.unwrap(), checksum: reply.checksum });
    }
    let complete = Request::CompleteMultipart { key, upload_id: &id, parts: &parts };
    let reply = one(store.as_ref(), complete).unwrap();
    // Three calls compose 32, 32 and 6 parts, and a fourth composes the three results. One listing finds the objects
    // to delete: 70 parts, three intermediate results and the marker of the upload.
    let composed = [Call::CompleteMultipartUpload, Call::ListObjects, Call::DeleteObject];
    assert_eq!(composed.map(|call| counts.requests(call)), [4, 1, 74], "billed requests");
    let expected: Vec<u8> = (1..=70u8).flat_map(|n| [n; 1000]).collect();
    assert_eq!(content(store.as_ref(), key), expected);
    let done =
        plimsoll_engine::store::PartTag { etag: reply.etag.unwrap_or_default(), checksum: reply.checksum };
    let sent: Vec<_> = parts.into_iter().map(|p| (p, 1000)).collect();
    let checked = plimsoll_engine::store::integrity::check_upload(store.profile(), &sent, &done);
    assert_eq!(checked, Ok(true), "the crc32c of the object matches its parts");
    let list = Request::List { prefix: "some/", start_after: "", token: "", max_keys: 1000 };
    let left = one(store.as_ref(), list).unwrap().listing.unwrap().objects;
    assert_eq!(left.len(), 1, "the parts are gone: {left:?}");
}

#[test]
fn dynamodb_conforms_and_refuses_objects_above_the_item_limit() {
    let arguments = |port: u16| {
        ["--host", "127.0.0.1", "--createTableMs", "1", "--deleteTableMs", "1", "--port", &port.to_string()]
            .map(str::to_string)
            .to_vec()
    };
    let Some(server) = Foreign::start("dynalite", arguments) else { return };
    let store = table(server.port, "");
    let missing = one(store.as_ref(), Request::CheckBucket).map(|_| ()).unwrap_err();
    assert!(missing.is_missing_container(), "{missing}");
    one(store.as_ref(), Request::CreateBucket).unwrap();
    block_on(check(store.as_ref(), "some/prefix/"));
    block_on(check(table(server.port, "&consistent=off").as_ref(), "some/prefix/"));
    let most = plimsoll_engine::store::dynamodb::MAX_BYTES;
    let put = |len: u64| {
        let body = Body::Whole(vec![1; len as usize].into());
        one(store.as_ref(), Request::Put { key: &"k".repeat(2000), body })
    };
    put(most).expect("the largest item is accepted");
    let refused = put(most + 1).map(|_| ()).unwrap_err();
    assert!(refused.is_code("EntityTooLarge") && refused.message.contains("400 KB"), "{refused}");
}
