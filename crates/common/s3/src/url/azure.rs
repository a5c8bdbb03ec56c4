//! Parsing of `az://container/prefix?account=NAME&storage_class=Cool`: Azure Blob Storage.
//!
//! The account and the endpoint come from the URL, from the connection string of `AZURE_STORAGE_CONNECTION_STRING`, or
//! from `AZURE_STORAGE_ACCOUNT`, in this order, as in Azure's own tools.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use super::{Lookup, Query, UrlError, prefix_of};
use crate::checksum::{Algorithm, BodyChecksum};
use crate::endpoint::{Endpoint, Style};
use plimsoll_base::provider::{self, Profile};

/// A parsed URL of a container of Azure Blob Storage with all defaults resolved.
#[derive(Debug, Clone, PartialEq)]
pub struct AzureUrl {
    /// Endpoint of the account; its bucket is the container.
    pub endpoint: Endpoint,
    /// Path before the container: empty, or `/` and the account, where the host does not name it.
    pub base: String,
    /// Name of the storage account.
    pub account: String,
    /// Prefix of keys; empty or ending in `/`.
    pub prefix: String,
    /// Profile of the provider.
    pub profile: Arc<Profile>,
    /// Access tier of uploaded blobs; `None` for the account's default.
    pub storage_class: Option<String>,
    /// Checksum that uploads send; `None` for none.
    pub checksum: Option<BodyChecksum>,
    /// True if requests are authorized.
    pub sign: bool,
}

const PARAMETERS: &str = "account, endpoint, storage_class, checksum, sign";

/// Checksums that an upload can send, with their names.
const CHECKSUMS: [(&str, Option<BodyChecksum>); 3] = [
    ("none", None),
    ("crc64nvme", Some(BodyChecksum::Declared(Algorithm::Crc64Nvme))),
    ("md5", Some(BodyChecksum::Md5)),
];

/// Variable with a connection string.
pub const CONNECTION_STRING: &str = "AZURE_STORAGE_CONNECTION_STRING";
/// Account of the emulator Azurite (Azurite documentation, "default storage account").
const EMULATED_ACCOUNT: &str = "devstoreaccount1";
/// Endpoint of the emulator Azurite.
const EMULATED_ENDPOINT: &str = "http://127.0.0.1:10000";
/// Key of the emulator's account, which is public.
const EMULATED_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// The fields of a connection string (Azure Storage documentation, "Configure Azure Storage connection strings").
#[derive(Clone, Default)]
pub struct ConnectionString(BTreeMap<String, String>);

impl ConnectionString {
    /// Parses the connection string of the environment; empty if there is none.
    pub fn of(environment: Lookup<'_>) -> ConnectionString {
        let text = environment(CONNECTION_STRING).unwrap_or_default();
        let fields = text.split(';').filter_map(|field| field.split_once('='));
        let fields = fields.map(|(name, value)| (name.trim().to_ascii_lowercase(), value.trim().to_string()));
        let mut fields: BTreeMap<_, _> = fields.filter(|(_, value)| !value.is_empty()).collect();
        if fields.get("usedevelopmentstorage").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            fields.insert("accountname".into(), EMULATED_ACCOUNT.into());
            fields.insert("accountkey".into(), EMULATED_KEY.into());
            fields.insert("blobendpoint".into(), format!("{EMULATED_ENDPOINT}/{EMULATED_ACCOUNT}"));
        }
        ConnectionString(fields)
    }

    fn field(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Returns the name of the account.
    pub fn account(&self) -> Option<&str> {
        self.field("accountname")
    }

    /// Returns the key of the account, in base64.
    pub fn key(&self) -> Option<&str> {
        self.field("accountkey")
    }

    /// Returns the shared access signature, a query.
    pub fn signature(&self) -> Option<&str> {
        self.field("sharedaccesssignature")
    }

    /// Returns the endpoint of blobs.
    fn endpoint(&self) -> Option<String> {
        if let Some(endpoint) = self.field("blobendpoint") {
            return Some(endpoint.to_string());
        }
        let (suffix, account) = (self.field("endpointsuffix")?, self.account()?);
        let scheme = self.field("defaultendpointsprotocol").unwrap_or("https");
        Some(format!("{scheme}://{account}.blob.{suffix}"))
    }
}

/// Splits an endpoint into scheme with host, and path without the last slash.
fn split_path(endpoint: &str) -> (&str, &str) {
    let host = endpoint.find("://").map_or(0, |at| at + 3);
    match endpoint[host..].find('/') {
        Some(at) => (&endpoint[..host + at], endpoint[host + at..].trim_end_matches('/')),
        None => (endpoint, ""),
    }
}

/// Returns the account that a host names as its first label, such as `account.blob.core.windows.net`.
fn account_of_host(host: &str) -> Option<&str> {
    let (account, rest) = host.split_once('.')?;
    rest.starts_with("blob.").then_some(account)
}

/// Returns true if a text may be the name of a storage account (Azure documentation, "Storage account name").
fn is_account(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    (3..=24).contains(&name.len()) && name.bytes().all(is_allowed)
}

/// Parses the part of a URL after `az://`.
///
/// # Errors
/// Returns a [`UrlError`] that names the invalid part.
pub fn parse(rest: &str, environment: Lookup<'_>) -> Result<AzureUrl, UrlError> {
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (container, prefix) = place.split_once('/').unwrap_or((place, ""));
    if container.contains('@') {
        return Err(UrlError::AzureSecret);
    }
    let mut query = Query::parse(query);
    if query.has("sig") {
        return Err(UrlError::AzureSecret);
    }
    let profile = provider::load("azure-blob")?;
    let variable = |name: &str| environment(name).filter(|value| !value.is_empty());
    let connection = ConnectionString::of(environment);
    let (written_account, written) = (query.take("account"), query.take("endpoint"));
    if let Some(value) = written.as_ref().filter(|written| written.contains(',')) {
        let allowed = "one URL; only s3:// stores may have several".into();
        return Err(UrlError::Value { name: "endpoint", value: value.clone(), allowed });
    }
    let class = query.take("storage_class");
    let checksum = query.choice("checksum", &CHECKSUMS)?.flatten();
    let sign = query.choice("sign", &[("on", true), ("off", false)])?.unwrap_or(true);
    // Before the account, whose parameter may be misspelled.
    query.finish(PARAMETERS)?;
    // The connection string has the endpoint of one account, which another account cannot use.
    let is_connected = written_account.is_none() || written_account.as_deref() == connection.account();
    let endpoint = written.or_else(|| connection.endpoint().filter(|_| is_connected));
    let (host, path) = endpoint.as_deref().map_or(("", ""), split_path);
    let named = endpoint.as_ref().map(|_| host.split_once("://").map_or("", |(_, host)| host));
    let account = written_account
        .or_else(|| path.strip_prefix('/').map(str::to_string))
        .or_else(|| named.and_then(account_of_host).map(str::to_string))
        .or_else(|| connection.account().map(str::to_string))
        .or_else(|| variable("AZURE_STORAGE_ACCOUNT"))
        .or_else(|| variable("AZURE_STORAGE_ACCOUNT_NAME"))
        .ok_or(UrlError::NoAccount)?;
    if !is_account(&account) {
        return Err(UrlError::Account(account));
    }
    let default = format!("https://{account}.blob.core.windows.net");
    let host = if host.is_empty() { default.as_str() } else { host };
    let endpoint = Endpoint::new(host, container, Style::Path, "")?;
    // Addresses cannot name an account, so it is in the path.
    let is_address = endpoint.host == "localhost" || endpoint.host.parse::<IpAddr>().is_ok();
    let base = match path {
        "" if is_address => format!("/{account}"),
        path => path.to_string(),
    };
    if let Some(class) = class.as_ref().filter(|class| !profile.storage_classes.contains(class)) {
        return Err(UrlError::StorageClass {
            class: class.clone(),
            provider: profile.name.clone(),
            known: profile.storage_classes.join(", "),
        });
    }
    Ok(AzureUrl {
        endpoint,
        base,
        account,
        prefix: prefix_of(prefix)?,
        storage_class: class,
        checksum,
        sign,
        profile: Arc::new(profile),
    })
}

#[cfg(test)]
mod tests {
    use super::super::{StoreUrl, parse};
    use super::*;

    fn read(text: &str, variables: &[(&str, &str)]) -> Result<AzureUrl, String> {
        let lookup = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.to_string())
        };
        match parse(text, &lookup) {
            Ok(StoreUrl::Azure(url)) => Ok(*url),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn the_account_is_found_where_azures_tools_find_it() {
        let place = |url: AzureUrl| (url.account.clone(), format!("{}{}", url.endpoint.url(), url.base));
        let account = "https://acme1.blob.core.windows.net";
        let emulator =
            ("devstoreaccount1".to_string(), "http://127.0.0.1:10000/devstoreaccount1".to_string());
        for (text, variables, expected) in [
            ("az://box/p?account=acme1", &[][..], ("acme1", account)),
            ("az://box", &[("AZURE_STORAGE_ACCOUNT", "acme1")], ("acme1", account)),
            ("az://box", &[(CONNECTION_STRING, "AccountName=acme1;AccountKey=a2V5")], ("acme1", account)),
            (
                "az://box",
                &[(CONNECTION_STRING, "AccountName=acme1;EndpointSuffix=core.chinacloudapi.cn")],
                ("acme1", "https://acme1.blob.core.chinacloudapi.cn"),
            ),
            (
                "az://box?account=other",
                &[(CONNECTION_STRING, "AccountName=acme1;BlobEndpoint=https://blobs.acme.com")],
                ("other", "https://other.blob.core.windows.net"),
            ),
            (
                "az://box?endpoint=https://acme1.blob.storage.azure.net",
                &[],
                ("acme1", "https://acme1.blob.storage.azure.net"),
            ),
            (
                "az://box?endpoint=http://localhost:9&account=acme1",
                &[],
                ("acme1", "http://localhost:9/acme1"),
            ),
        ] {
            let expected = (expected.0.to_string(), expected.1.to_string());
            assert_eq!(place(read(text, variables).unwrap()), expected, "{text}");
        }
        let emulated = read("az://box", &[(CONNECTION_STRING, "UseDevelopmentStorage=true")]).unwrap();
        assert_eq!(place(emulated), emulator);
        let emulated = read("az://box?endpoint=http://127.0.0.1:10000/devstoreaccount1/", &[]).unwrap();
        assert_eq!(place(emulated), emulator);
    }

    #[test]
    fn invalid_urls_are_explained() {
        for (text, part) in [
            ("az://box", "AZURE_STORAGE_ACCOUNT"),
            ("az://box?account=Acme", "3 to 24"),
            ("az://b?account=acme1", "bucket name"),
            ("az://box?account=acme1&sig=abc", "credentials"),
            ("az://box?account=acme1&region=x", "use one of account"),
            ("az://box?acount=acme1", "acount"),
            ("az://box?account=acme1&storage_class=STANDARD", "Cool"),
            ("az://box?account=acme1&checksum=sha1", "none, crc64nvme, md5"),
        ] {
            let error = read(text, &[]).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
