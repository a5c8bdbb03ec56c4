//! Authorization of requests: with the key of the account, a shared access signature, or a token of Microsoft Entra.

use std::sync::Arc;

use reqsign_azure_storage::{
    ClientCertificateCredentialProvider, ClientSecretCredentialProvider, Credential,
    DefaultCredentialProvider, WorkloadIdentityCredentialProvider,
};
use reqsign_core::{Context, ProvideCredential};

use crate::store::http::tokens::{Token, Tokens};
use plimsoll_base::net::chain::context;
use plimsoll_base::redaction::register_secret;
use plimsoll_s3::checksum::from_base64;
use plimsoll_s3::url::Lookup;
use plimsoll_s3::url::azure::ConnectionString;

/// Variables with the key of the account, the first one that is set: those of Azure's CLI, and of the SDK for Rust.
const KEYS: [&str; 3] = ["AZURE_STORAGE_KEY", "AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_ACCESS_KEY"];
/// Variable with a shared access signature.
const SIGNATURE: &str = "AZURE_STORAGE_SAS_TOKEN";

/// The reason why requests cannot be authorized.
#[derive(Debug, thiserror::Error)]
pub enum AuthorizationError {
    /// The key of the account is not base64.
    #[error("the key of the storage account in {0} is not base64")]
    Key(&'static str),
    /// There are no credentials.
    #[error(
        "no Azure credentials found; set AZURE_STORAGE_KEY, AZURE_STORAGE_SAS_TOKEN or AZURE_STORAGE_CONNECTION_STRING, \
         run `az login`, use a managed identity, or add ?sign=off to the store URL of a public container"
    )]
    Missing,
    /// A provider in the credential chain of Microsoft Entra failed.
    #[error("could not get a token from Microsoft Entra: {0}")]
    Entra(String),
}

/// A way to authorize requests.
#[derive(Clone)]
pub enum Authorization {
    /// A signature with the key of the account.
    Key(Vec<u8>),
    /// A shared access signature, which is part of the query.
    Signature(String),
    /// A token of Microsoft Entra.
    Token(Arc<Tokens>),
}

impl Authorization {
    /// Finds the credentials of an account in the environment: a connection string, a key, a shared access signature,
    /// or the credential chain of Microsoft Entra, in this order.
    ///
    /// # Errors
    /// If there are no credentials, or they are invalid.
    pub async fn find(account: &str, environment: Lookup<'_>) -> Result<Authorization, AuthorizationError> {
        match from_variables(account, environment)? {
            Some(found) => Ok(found),
            None => {
                Ok(Authorization::Token(Tokens::begin(|| Box::pin(async { load(&context()).await })).await?))
            }
        }
    }

    /// Returns the name that a run records.
    pub fn name(&self) -> &'static str {
        match self {
            Authorization::Key(_) => "Shared Key",
            Authorization::Signature(_) => "shared access signature",
            Authorization::Token(_) => "Entra token",
        }
    }
}

fn from_variables(
    account: &str,
    environment: Lookup<'_>,
) -> Result<Option<Authorization>, AuthorizationError> {
    let variable = |name: &str| environment(name).filter(|value| !value.is_empty());
    let connection = ConnectionString::of(environment);
    // A connection string may have only a signature, which does not name its account.
    if connection.account().is_none_or(|of| of == account) {
        if let Some(key) = connection.key() {
            return key_of(key, "AZURE_STORAGE_CONNECTION_STRING").map(Some);
        }
        if let Some(signature) = connection.signature() {
            return Ok(Some(signature_of(signature)));
        }
    }
    if let Some((name, key)) = KEYS.into_iter().find_map(|name| Some((name, variable(name)?))) {
        return key_of(&key, name).map(Some);
    }
    Ok(variable(SIGNATURE).map(|signature| signature_of(&signature)))
}

fn key_of(text: &str, source: &'static str) -> Result<Authorization, AuthorizationError> {
    register_secret(text);
    let key = from_base64(text).filter(|key| !key.is_empty());
    key.map(Authorization::Key).ok_or(AuthorizationError::Key(source))
}

fn signature_of(text: &str) -> Authorization {
    let text = text.trim_start_matches('?');
    register_secret(text);
    // Messages of servers and proxies may quote one parameter alone.
    for parameter in text.split('&').filter_map(|parameter| parameter.strip_prefix("sig=")) {
        register_secret(parameter);
        plimsoll_base::net::encode::decode(parameter, false)
            .iter()
            .for_each(|decoded| register_secret(decoded));
    }
    Authorization::Signature(text.to_string())
}

/// Loads a token from the credential chain: a certificate or a secret in the environment, a workload identity, a
/// managed identity, or Azure's CLI.
async fn load(context: &Context) -> Result<Token, AuthorizationError> {
    let chain = DefaultCredentialProvider::builder().no_env().build();
    let found = chain.provide_credential(context).await;
    match found.map_err(|error| AuthorizationError::Entra(error.to_string()))? {
        Some(Credential::BearerToken { token, expires_in }) => {
            register_secret(&token);
            let expires_at_s = expires_in.map(|at| at.as_second());
            Ok(Token { header: format!("Bearer {token}"), expires_at_s })
        }
        _ => Err(refusal(context).await.map_or(AuthorizationError::Missing, AuthorizationError::Entra)),
    }
}

/// Returns why credentials that are configured gave no token; `None` if there are none. The chain tries the next
/// provider after an error, and loses it.
async fn refusal(context: &Context) -> Option<String> {
    let certificate = ClientCertificateCredentialProvider::new().provide_credential(context).await.err();
    let secret = ClientSecretCredentialProvider::new().provide_credential(context).await.err();
    let workload = WorkloadIdentityCredentialProvider::new().provide_credential(context).await.err();
    [certificate, secret, workload].into_iter().flatten().map(|error| error.to_string()).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(variables: &[(&str, &str)]) -> Option<String> {
        let lookup = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.to_string())
        };
        match from_variables("acme1", &lookup) {
            Ok(Some(Authorization::Key(key))) => Some(String::from_utf8(key).unwrap()),
            Ok(Some(Authorization::Signature(signature))) => Some(signature),
            Ok(Some(Authorization::Token(_)) | None) => None,
            Err(error) => Some(error.to_string()),
        }
    }

    #[test]
    fn credentials_are_found_in_the_order_of_azures_tools() {
        let connection = ("AZURE_STORAGE_CONNECTION_STRING", "AccountName=acme1;AccountKey=b25l");
        let (key, signature) =
            (("AZURE_STORAGE_KEY", "dHdv"), ("AZURE_STORAGE_SAS_TOKEN", "?sv=1&sig=abcdefgh"));
        assert_eq!(found(&[connection, key, signature]).as_deref(), Some("one"));
        assert_eq!(found(&[key, signature]).as_deref(), Some("two"));
        assert_eq!(found(&[signature]).as_deref(), Some("sv=1&sig=abcdefgh"));
        assert_eq!(found(&[]), None);
        let other = ("AZURE_STORAGE_CONNECTION_STRING", "AccountName=other;AccountKey=b25l");
        assert_eq!(found(&[other, key]).as_deref(), Some("two"));
        let invalid = found(&[("AZURE_STORAGE_KEY", "not base64!")]).unwrap();
        assert!(invalid.contains("AZURE_STORAGE_KEY is not base64") && !invalid.contains("not base64!"));
    }
}
