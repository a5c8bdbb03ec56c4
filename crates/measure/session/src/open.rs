//! Opens stores from their URLs or their names in `plimsoll.toml`, and starts the embedded server.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;

use super::embedded::EmbeddedServer;
use super::error::RunError;
use super::runtime::block_on;
use plimsoll_base::redaction::{redacted_document, register_secret};
use plimsoll_engine::store::Store;
use plimsoll_engine::store::azure::{Authorization, AzureStore};
use plimsoll_engine::store::dynamodb::DynamoDbStore;
use plimsoll_engine::store::file::FileStore;
use plimsoll_engine::store::gcs::{self, GcsStore};
use plimsoll_engine::store::http::relay::{Relay, TOKEN_VARIABLE};
use plimsoll_engine::store::http::{OpenError, Route};
use plimsoll_engine::store::memory::MemoryStore;
use plimsoll_engine::store::s3::S3Store;
use plimsoll_engine::store::spread::Spread;
use plimsoll_engine::store::web::WebStore;
use plimsoll_experiment::Experiment;
use plimsoll_experiment::spec::NamedStore;
use plimsoll_s3::credentials::{CredentialError, CredentialSource, Credentials};
use plimsoll_s3::endpoint::Endpoint;
use plimsoll_s3::url::s3::{BINDING, S3Url};
use plimsoll_s3::url::web::redacted as redacted_url;
use plimsoll_s3::url::{StoreUrl, parse};

/// An open store.
pub struct Opened {
    /// URL or name of the store as the user wrote it, redacted.
    pub written: String,
    /// Store that executes the requests.
    pub store: Arc<dyn Store>,
    /// Source of its AWS credentials; `None` if it uses none.
    pub credentials: Option<CredentialSource>,
    /// True if Plimsoll may create its bucket even without `--create-bucket`.
    pub own_bucket: bool,
    /// Embedded server, which stops when this value is dropped; `None` for other stores.
    pub server: Option<EmbeddedServer>,
    /// URL by which other tools address it, without a key, such as `s3://bucket/`; empty if there is none.
    pub place: String,
    /// Parsed URL of the store.
    pub url: Option<StoreUrl>,
    /// Table that defines its name; `None` if the user wrote a URL.
    pub named: Option<NamedStore>,
    /// PEM file of certificate authorities to trust; `None` for those of the system.
    pub ca_bundle: Option<PathBuf>,
    /// Relay that sends its requests; `None` to send them from this process.
    pub relay: Option<Arc<Relay>>,
}

impl Opened {
    /// Returns the route of its requests.
    pub fn route(&self) -> Route<'_> {
        Route { ca_bundle: self.ca_bundle.as_deref(), relay: self.relay.as_ref() }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Configuration {
    #[serde(default)]
    store: BTreeMap<String, NamedStore>,
}

/// Returns the `[store.NAME]` table of `plimsoll.toml` in the working directory; `None` if there is none.
fn table(name: &str) -> Result<Option<NamedStore>, RunError> {
    const FILE: &str = "plimsoll.toml";
    let Ok(text) = std::fs::read_to_string(FILE) else { return Ok(None) };
    let mut configuration: Configuration = toml::from_str(&text).map_err(|e| {
        let line = text[..e.span().map_or(0, |s| s.start).min(text.len())].matches('\n').count() + 1;
        RunError::input(format!("{FILE}:{line}: {}", e.message().replace('\n', " ")))
    })?;
    Ok(configuration.store.remove(name))
}

/// Returns the credentials from the environment variables that the table of a store names; `None` if it names none.
fn from_variables(name: &str, table: &NamedStore) -> Result<Option<CredentialSource>, RunError> {
    let (access, secret) = match (&table.access_key_env, &table.secret_key_env, &table.session_token_env) {
        (Some(access), Some(secret), _) => (access, secret),
        (None, None, None) => return Ok(None),
        _ => {
            return Err(RunError::input(format!(
                "store '{name}': access_key_env and secret_key_env belong together; \
                 set both, or set neither to use the standard credential chain"
            )));
        }
    };
    let variable = |variable: &String| {
        std::env::var(variable).ok().filter(|v| !v.is_empty()).ok_or_else(|| {
            RunError::input(CredentialError::Variable { store: name.to_string(), variable: variable.clone() })
        })
    };
    let token = table.session_token_env.as_ref().map(variable).transpose()?;
    let credentials = Credentials::new(&variable(access)?, &variable(secret)?, token.as_deref());
    Ok(Some(CredentialSource::fixed(credentials)))
}

/// Returns the URL by which other tools address a store, without a key; empty if there is none.
fn place_of(url: &StoreUrl) -> String {
    match url {
        StoreUrl::S3(s3) => format!("s3://{}/", s3.endpoint.bucket),
        StoreUrl::Gcs(gcs) => format!("gs://{}/", gcs.endpoint.bucket),
        StoreUrl::Azure(azure) => format!("az://{}/", azure.endpoint.bucket),
        StoreUrl::File(path, _) => format!("{}/", path.display()),
        _ => String::new(),
    }
}

/// Adds the tables of an experiment's named stores from `plimsoll.toml`, so that the experiment works on machines
/// without this file.
///
/// # Errors
/// [`RunError::Input`] if the file is invalid.
pub fn add_tables(experiment: &mut Experiment) -> Result<(), RunError> {
    for name in experiment.stores.iter().filter(|store| !store.contains(':')) {
        if let Some(table) = table(name)? {
            experiment.named.entry(name.clone()).or_insert(table);
        }
    }
    Ok(())
}

/// Returns true if the URL or name of a store, as the user wrote it, denotes a read-only HTTP URL.
pub fn is_read_only(written: &str) -> bool {
    let named = if written.contains(':') { None } else { table(written).ok().flatten() };
    let url = named.as_ref().map_or(written, |t| t.url.as_str());
    url.starts_with("https://") || url.starts_with("http://")
}

/// Returns the parsed URL of a store, and the table that defines its name if there is one.
fn resolve(written: &str, known: &Named) -> Result<(StoreUrl, Option<NamedStore>), RunError> {
    let named = match known.get(written) {
        Some(named) => Some(named.clone()),
        None if written.contains(':') => None,
        None => table(written)?,
    };
    let url = named.as_ref().map_or(written, |t| t.url.as_str());
    let environment = |name: &str| std::env::var(name).ok();
    let resolved = parse(url, &environment).map_err(|e| RunError::input(format!("--store: {e}")))?;
    Ok((resolved, named))
}

/// Parses the URL of a store without opening it.
///
/// # Errors
/// [`RunError::Input`] if the URL or `plimsoll.toml` is invalid.
pub fn url_of(written: &str) -> Result<StoreUrl, RunError> {
    let (written, known) = name_of(written);
    resolve(written, &known).map(|(url, _)| url)
}

/// Opens a store.
///
/// # Errors
/// [`RunError::Input`] if the URL or a setting is invalid; [`RunError::Store`] if the store cannot be reached or there
/// are no credentials.
pub fn open(written: &str, ca_bundle: Option<&Path>) -> Result<Opened, RunError> {
    let (written, known) = name_of(written);
    open_as(written, &known, ca_bundle, None)
}

/// Returns the name of a store that is written as `NAME=URL`, with its definition; else the text itself.
fn name_of(written: &str) -> (&str, Named) {
    match mapping(written) {
        Some((name, url)) => (name, Named::from([(name.to_string(), defined_as(url))])),
        None => (written, Named::new()),
    }
}

/// Returns the definition of a named store that has only a URL.
pub fn defined_as(url: &str) -> NamedStore {
    NamedStore { url: url.into(), ..NamedStore::default() }
}

/// Stores that an experiment defines by name; they take precedence over those of `plimsoll.toml`.
pub type Named = BTreeMap<String, NamedStore>;

/// Parses `NAME=URL`, which gives a store a name, or another store to a name of an experiment. Returns `None` for a
/// plain store.
pub fn mapping(written: &str) -> Option<(&str, &str)> {
    let (name, url) = written.split_once('=')?;
    let plain =
        !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'));
    (plain && url.contains(':')).then_some((name, url))
}

/// Opens a store. `known` defines names of stores; `given` credentials replace all others.
///
/// # Errors
/// As [`open`].
pub fn open_as(
    written: &str,
    known: &Named,
    ca_bundle: Option<&Path>,
    given: Option<CredentialSource>,
) -> Result<Opened, RunError> {
    let (resolved, named) = resolve(written, known)?;
    let written = redacted_document(&redacted_url(written)).into_owned();
    let mut opened = Opened {
        written: written.clone(),
        store: Arc::new(MemoryStore::named(&written)),
        credentials: None,
        own_bucket: false,
        server: None,
        place: place_of(&resolved),
        url: Some(resolved.clone()),
        named: named.clone(),
        ca_bundle: ca_bundle.map(Path::to_path_buf),
        relay: relay_of(&resolved, named.as_ref(), ca_bundle)?,
    };
    let relay = opened.relay.clone();
    let route = Route { ca_bundle, relay: relay.as_ref() };
    // Precedence: given credentials, the environment variables that a named store specifies, the standard chain.
    let aws = || match (given, &named) {
        (Some(given), _) => Ok(given),
        (None, Some(table)) => from_variables(&written, table)?.map_or_else(from_chain, Ok),
        (None, None) => from_chain(),
    };
    match resolved {
        StoreUrl::Memory => opened.own_bucket = true,
        StoreUrl::File(root, steps) => opened.store = Arc::new(FileStore::new(root, &written, steps)),
        StoreUrl::Embedded => {
            let server = EmbeddedServer::start(&[])?;
            (opened.store, opened.own_bucket) = (server.store(&written)?, true);
            opened.server = Some(server);
        }
        StoreUrl::Azure(azure) => {
            let environment = |name: &str| std::env::var(name).ok();
            let authorization = match azure.sign {
                true => Some(on_runtime(Authorization::find(&azure.account, &environment))?),
                false => None,
            };
            let store = AzureStore::open(*azure, &written, authorization, route).map_err(open_error)?;
            opened.store = Arc::new(store);
        }
        StoreUrl::Gcs(gcs) => {
            let tokens = if gcs.sign { Some(on_runtime(gcs::tokens())?) } else { None };
            opened.store = Arc::new(GcsStore::open(*gcs, &written, tokens, route).map_err(open_error)?);
        }
        StoreUrl::Web(web) => {
            opened.store = Arc::new(WebStore::open(*web, route).map_err(open_error)?);
        }
        StoreUrl::DynamoDb(table) => {
            let source = aws()?;
            opened.credentials = Some(source.clone());
            opened.store =
                Arc::new(DynamoDbStore::open(*table, &written, source, route).map_err(open_error)?);
        }
        StoreUrl::S3(s3) => {
            opened.credentials = if s3.sign { Some(aws()?) } else { None };
            opened.store = spread(&s3, &written, opened.credentials.as_ref(), route)?;
        }
    }
    Ok(opened)
}

/// Opens a bucket, at one endpoint or several.
fn spread(
    url: &S3Url,
    written: &str,
    credentials: Option<&CredentialSource>,
    route: Route<'_>,
) -> Result<Arc<dyn Store>, RunError> {
    let at = |endpoint: &Endpoint| -> Result<Arc<dyn Store>, RunError> {
        let url = S3Url { endpoint: endpoint.clone(), others: Vec::new(), ..url.clone() };
        Ok(Arc::new(S3Store::open(url, written, credentials.cloned(), route).map_err(open_error)?))
    };
    let first = at(&url.endpoint)?;
    if url.others.is_empty() {
        return Ok(first);
    }
    if route.relay.is_some() {
        return Err(RunError::input("--relay: a relay uses one endpoint; name only one in endpoint="));
    }
    Ok(Arc::new(Spread::new(first, url.others.iter().map(at).collect::<Result<_, _>>()?)))
}

/// Opens a relay with the token from the environment.
///
/// # Errors
/// [`RunError::Input`] if the URL is invalid or there is no token; [`RunError::Store`] if its host does not resolve.
pub fn relay_at(url: &str, ca_bundle: Option<&Path>) -> Result<Relay, RunError> {
    let token = std::env::var(TOKEN_VARIABLE).ok().filter(|token| !token.is_empty());
    let token = token.ok_or_else(|| {
        RunError::input(format!("{url} needs a token; set {TOKEN_VARIABLE} to the TOKEN of the relay"))
    })?;
    register_secret(&token);
    Relay::open(url, &token, ca_bundle).map_err(open_error)
}

/// Returns the relay of a store; `None` if this process sends its requests.
fn relay_of(
    url: &StoreUrl,
    named: Option<&NamedStore>,
    ca_bundle: Option<&Path>,
) -> Result<Option<Arc<Relay>>, RunError> {
    let network = !matches!(url, StoreUrl::File(..) | StoreUrl::Memory | StoreUrl::Embedded);
    match named.and_then(|table| table.relay.as_ref()) {
        Some(_) if !network => {
            Err(RunError::input("--relay: this store has no network address; omit --relay"))
        }
        Some(relay) => relay_at(relay, ca_bundle).map(|relay| Some(Arc::new(relay))),
        None if matches!(url, StoreUrl::S3(s3) if s3.endpoint.host == BINDING) => Err(RunError::input(
            "endpoint=binding: only a Worker has a binding; use plimsoll edge run with --relay URL",
        )),
        None => Ok(None),
    }
}

fn open_error(error: OpenError) -> RunError {
    match error {
        OpenError::Resolve { .. } => RunError::store(error),
        other => RunError::input(other),
    }
}

fn on_runtime<T, E: std::fmt::Display>(work: impl Future<Output = Result<T, E>>) -> Result<T, RunError> {
    block_on(work)?.map_err(RunError::store)
}

fn from_chain() -> Result<CredentialSource, RunError> {
    on_runtime(CredentialSource::from_chain())
}
