//! Credentials from the standard AWS chain: environment, profile, SSO, web identity, process, container, instance.
//!
//! The chain itself is `reqsign`'s; this file gives it files, environment and HTTP, and keeps the result
//! fresh off the measured path. A secret never leaves [`Credentials`], whose `Debug` hides it.

use std::sync::{Arc, RwLock};

use reqsign_aws_core::DefaultCredentialProvider;
use reqsign_core::ProvideCredential;

use crate::clock::wall_now;
use crate::net::chain::context;
use crate::text::register_secret;

/// An access key and its secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The access key id; not secret, but never written into a result either.
    pub access_key: String,
    secret_key: String,
    /// Session token of temporary credentials.
    pub session_token: Option<String>,
    /// When they end, in Unix seconds.
    pub expires_at: Option<i64>,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Credentials(hidden)")
    }
}

impl Credentials {
    /// Long-lived or temporary credentials.
    pub fn new(access_key: &str, secret_key: &str, session_token: Option<&str>) -> Credentials {
        Credentials {
            access_key: access_key.to_string(),
            secret_key: secret_key.to_string(),
            session_token: session_token.map(str::to_string),
            expires_at: None,
        }
    }

    /// Makes every text that leaves the program hide these credentials.
    pub fn hide(&self) {
        register_secret(&self.secret_key);
        self.session_token.iter().for_each(|token| register_secret(token));
    }

    /// The secret, for signing only.
    pub(crate) fn secret_key(&self) -> &str {
        &self.secret_key
    }
}

/// Why no credentials could be had.
#[derive(Debug, thiserror::Error)]
pub enum CredentialError {
    /// The chain came to its end.
    #[error(
        "no credentials found; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, \
         or add ?sign=off to the store for a public bucket"
    )]
    Missing,
    /// A link of the chain failed.
    #[error("credentials could not be loaded: {0}")]
    Chain(String),
    /// The variables that a store names are not set.
    #[error("store '{store}' reads its credentials from {variable}, which is not set")]
    Variable {
        /// Name of the store.
        store: String,
        /// Name of the environment variable.
        variable: String,
    },
}

/// Where the signer finds the credentials of the moment. Shared by all connections of a store.
#[derive(Clone, Debug)]
pub struct CredentialSource {
    current: Arc<RwLock<Arc<Credentials>>>,
    renewable: bool,
}

impl CredentialSource {
    /// Credentials that never change.
    pub fn fixed(credentials: Credentials) -> CredentialSource {
        credentials.hide();
        CredentialSource { current: Arc::new(RwLock::new(Arc::new(credentials))), renewable: false }
    }

    /// Walks the standard chain once.
    ///
    /// # Errors
    /// When nothing is found, or a link fails (an expired SSO login, a profile that does not exist).
    pub async fn from_chain() -> Result<CredentialSource, CredentialError> {
        let credentials = load().await?;
        let renewable = credentials.expires_at.is_some();
        Ok(CredentialSource { current: Arc::new(RwLock::new(Arc::new(credentials))), renewable })
    }

    /// The credentials to sign with now.
    pub fn current(&self) -> Arc<Credentials> {
        Arc::clone(&self.current.read().unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    /// Seconds until a renewal is due (five minutes before the end), or `None` when they never end.
    pub fn renewal_due_in_s(&self) -> Option<i64> {
        let expires_at = self.current().expires_at.filter(|_| self.renewable)?;
        Some(expires_at - 300 - wall_now().as_second())
    }

    /// Loads them again from the chain; the connections sign with the new ones from their next request on.
    ///
    /// # Errors
    /// As [`CredentialSource::from_chain`]; the old credentials then stay.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_hides_everything() {
        let shown = format!("{:?}", CredentialSource::fixed(Credentials::new("AKID", "hush", Some("token"))));
        assert!(!shown.contains("hush") && !shown.contains("token") && !shown.contains("AKID"), "{shown}");
    }
}
