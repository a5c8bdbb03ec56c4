//! Credentials from the standard AWS chain: environment, profile, SSO, web identity, process, container, instance.
//!
//! `reqsign` implements the chain. This module gives it access to files, the environment and HTTP, and renews the
//! credentials outside measured operations. The `Debug` output of [`Credentials`] hides all secrets.

use std::path::Path;
use std::sync::{Arc, RwLock};

use reqsign_aws_core::{DefaultCredentialProvider, ProfileCredentialProvider};
use reqsign_core::ProvideCredential;

use plimsoll_base::clock::wall_now;
use plimsoll_base::net::chain::context;
use plimsoll_base::redaction::register_secret;

/// An access key id, its secret key and an optional session token.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// Access key id. It is not secret, but it is never written into a result.
    pub access_key: String,
    secret_key: String,
    /// Session token of temporary credentials; `None` for long-lived ones.
    pub session_token: Option<String>,
    /// Expiry time in Unix seconds; `None` if the credentials do not expire.
    pub expires_at: Option<i64>,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Credentials(hidden)")
    }
}

impl Credentials {
    /// Builds credentials without an expiry time. Only temporary credentials have a session token.
    pub fn new(access_key: &str, secret_key: &str, session_token: Option<&str>) -> Credentials {
        Credentials {
            access_key: access_key.to_string(),
            secret_key: secret_key.to_string(),
            session_token: session_token.map(str::to_string),
            expires_at: None,
        }
    }

    /// Registers the secret key and the session token for redaction in all output.
    pub fn hide(&self) {
        register_secret(&self.secret_key);
        self.session_token.iter().for_each(|token| register_secret(token));
    }

    /// Returns the secret key, for signing only.
    pub fn secret_key(&self) -> &str {
        &self.secret_key
    }
}

/// Reason why no credentials are available.
#[derive(Debug, thiserror::Error)]
pub enum CredentialError {
    /// No provider of the chain has credentials.
    #[error(
        "no credentials found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, \
         or add ?sign=off to the store URL of a public bucket"
    )]
    Missing,
    /// A file has no keys in a profile.
    #[error("{path}: the profile {profile} has no aws_access_key_id and aws_secret_access_key")]
    NotInFile {
        /// File as given.
        path: String,
        /// Name of the profile.
        profile: String,
    },
    /// A provider of the chain failed.
    #[error("could not load credentials: {0}")]
    Chain(String),
    /// An environment variable that the `[store.NAME]` table in `plimsoll.toml` names is not set.
    #[error(
        "store '{store}': environment variable {variable} is not set; set it, or specify another variable \
         in plimsoll.toml"
    )]
    Variable {
        /// Name of the store in `plimsoll.toml`.
        store: String,
        /// Name of the environment variable.
        variable: String,
    },
}

/// The source of the current credentials, shared by all connections of a store.
#[derive(Clone, Debug)]
pub struct CredentialSource {
    current: Arc<RwLock<Arc<Credentials>>>,
    renewable: bool,
}

impl CredentialSource {
    /// Creates a source of credentials that never change, and registers them for redaction.
    pub fn fixed(credentials: Credentials) -> CredentialSource {
        credentials.hide();
        CredentialSource { current: Arc::new(RwLock::new(Arc::new(credentials))), renewable: false }
    }

    /// Loads credentials from the standard chain.
    ///
    /// # Errors
    /// If no provider has credentials, or one fails (an expired SSO login, a profile that does not exist).
    pub async fn from_chain() -> Result<CredentialSource, CredentialError> {
        let credentials = load().await?;
        let renewable = credentials.expires_at.is_some();
        Ok(CredentialSource { current: Arc::new(RwLock::new(Arc::new(credentials))), renewable })
    }

    /// Returns the credentials to sign with now.
    pub fn current(&self) -> Arc<Credentials> {
        Arc::clone(&self.current.read().unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    /// Returns the seconds until a renewal is due, which is five minutes before expiry; negative if it is overdue.
    /// Returns `None` if the credentials do not expire.
    pub fn renewal_due_in_s(&self) -> Option<i64> {
        let expires_at = self.current().expires_at.filter(|_| self.renewable)?;
        Some(expires_at - 300 - wall_now().as_second())
    }

    /// Reloads the credentials from the chain. Connections use the new ones from their next request.
    ///
    /// # Errors
    /// The errors of [`CredentialSource::from_chain`]; the old credentials then stay in use.
    pub async fn renew(&self) -> Result<(), CredentialError> {
        let fresh = Arc::new(load().await?);
        *self.current.write().unwrap_or_else(std::sync::PoisonError::into_inner) = fresh;
        Ok(())
    }
}

async fn load() -> Result<Credentials, CredentialError> {
    let found = DefaultCredentialProvider::new().provide_credential(&context()).await;
    let found = match found {
        Ok(Some(found)) if !found.access_key_id.is_empty() => Ok(Credentials {
            expires_at: found.expires_in.map(|t| t.as_second()),
            ..Credentials::new(&found.access_key_id, &found.secret_access_key, found.session_token.as_deref())
        }),
        Ok(_) => Err(CredentialError::Missing),
        Err(error) => Err(CredentialError::Chain(error.to_string())),
    }?;
    found.hide();
    Ok(found)
}

/// Reads the keys of a profile from an AWS shared credentials file.
///
/// # Errors
/// If the file cannot be read, or the profile has no keys. The message contains no secret.
pub async fn from_file(path: &Path, profile: &str) -> Result<Credentials, CredentialError> {
    let name = path.display().to_string();
    std::fs::File::open(path).map_err(|e| CredentialError::Chain(format!("{name}: {e}")))?;
    let provider = ProfileCredentialProvider::new()
        .with_profile(profile)
        .with_credentials_file(&name)
        .with_config_file(&name);
    let found = provider.provide_credential(&context()).await;
    let found = found.map_err(|e| CredentialError::Chain(format!("{name}: {e}")))?;
    let found = found.filter(|found| !found.access_key_id.is_empty() && !found.secret_access_key.is_empty());
    let found = found.ok_or(CredentialError::NotInFile { path: name, profile: profile.to_string() })?;
    let token = found.session_token.as_deref();
    let credentials = Credentials::new(&found.access_key_id, &found.secret_access_key, token);
    credentials.hide();
    Ok(credentials)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_hides_credentials() {
        let output =
            format!("{:?}", CredentialSource::fixed(Credentials::new("AKID", "hush", Some("token"))));
        assert!(
            !output.contains("hush") && !output.contains("token") && !output.contains("AKID"),
            "{output}"
        );
    }
}
