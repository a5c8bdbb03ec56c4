//! Access tokens for Google from Application Default Credentials.
//!
//! The `reqsign` crate implements the credential chain: the file of `GOOGLE_APPLICATION_CREDENTIALS`, gcloud's
//! own file and the metadata server, with user, service account, federated and impersonated credentials.

use std::sync::Arc;

use reqsign_core::{Context, ProvideCredential};
use reqsign_google::{
    DefaultCredentialProvider, FileCredentialProvider, ServiceAccountTokenCredentialProvider,
};

use crate::store::http::tokens::{Token, Tokens};
use plimsoll_base::net::chain::context;
use plimsoll_base::redaction::register_secret;

/// The reason why no token could be obtained.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The credential chain found no credentials.
    #[error(
        "no Google credentials found; set GOOGLE_APPLICATION_CREDENTIALS to a credentials file, \
         run `gcloud auth application-default login`, or add ?sign=off to the store URL of a public bucket"
    )]
    Missing,
    /// A provider in the credential chain failed.
    #[error("could not load Google credentials: {0}")]
    Chain(String),
}

/// Obtains the first token from the credential chain.
///
/// # Errors
/// Returns a [`TokenError`] if the chain finds no credentials or fails.
pub async fn tokens() -> Result<Arc<Tokens>, TokenError> {
    Tokens::begin(|| Box::pin(async { load(&context()).await })).await
}

async fn load(context: &Context) -> Result<Token, TokenError> {
    let failed = |e: reqsign_core::Error| TokenError::Chain(e.to_string());
    // A file named by the variable must be valid; the chain would silently try the next provider.
    let named = context.env_var("GOOGLE_APPLICATION_CREDENTIALS").filter(|path| !path.is_empty());
    let found = match named {
        Some(path) => FileCredentialProvider::new(path).provide_credential(context).await,
        None => DefaultCredentialProvider::new().provide_credential(context).await,
    };
    let found = found.map_err(failed)?;
    let mut found = found.ok_or(TokenError::Missing)?;
    if let (None, Some(account)) = (&found.token, found.service_account.clone()) {
        let exchange = ServiceAccountTokenCredentialProvider::new(account);
        found = exchange.provide_credential(context).await.map_err(failed)?.ok_or(TokenError::Missing)?;
    }
    let token = found.token.ok_or(TokenError::Missing)?;
    register_secret(&token.access_token);
    Ok(Token {
        header: format!("Bearer {}", token.access_token),
        expires_at_s: token.expires_at.map(|at| at.as_second()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use plimsoll_base::clock::wall_now;
    use reqsign_core::{Env, FileRead, HttpSend};
    use std::collections::HashMap;
    use std::path::PathBuf;

    #[derive(Debug)]
    struct Surroundings {
        file: String,
    }

    impl FileRead for Surroundings {
        async fn file_read(&self, _: &str) -> reqsign_core::Result<Vec<u8>> {
            Ok(self.file.clone().into_bytes())
        }
    }

    #[derive(Debug)]
    struct Variables;

    impl Env for Variables {
        fn var(&self, key: &str) -> Option<String> {
            (key == "GOOGLE_APPLICATION_CREDENTIALS").then(|| "/credentials.json".to_string())
        }

        fn vars(&self) -> HashMap<String, String> {
            HashMap::new()
        }

        fn home_dir(&self) -> Option<PathBuf> {
            None
        }
    }

    /// A minimal imitation of Google's token endpoint.
    #[derive(Debug)]
    struct TokenEndpoint;

    impl HttpSend for TokenEndpoint {
        async fn http_send(
            &self,
            request: http::Request<Bytes>,
        ) -> reqsign_core::Result<http::Response<Bytes>> {
            assert_eq!(request.uri().host(), Some("oauth2.googleapis.com"));
            let body = String::from_utf8_lossy(request.body()).into_owned();
            // A JWT has three parts; a refresh token is sent as is.
            let jwt = body.contains("jwt-bearer") && body.matches('.').count() >= 2;
            assert!(jwt || body.contains("refresh"), "{body}");
            let answer = r#"{"access_token": "the-token", "expires_in": 3600, "token_type": "Bearer"}"#;
            Ok(http::Response::new(Bytes::from(answer)))
        }
    }

    fn loaded(file: &str) -> Result<Token, TokenError> {
        let surroundings = Surroundings { file: file.into() };
        let context =
            Context::new().with_file_read(surroundings).with_env(Variables).with_http_send(TokenEndpoint);
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(load(&context))
    }

    #[test]
    fn a_service_account_exchanges_a_jwt_for_a_token() {
        let key = include_str!("../../../../../../tests/data/tls/server.key");
        let pkcs8 = if key.contains("BEGIN PRIVATE KEY") {
            key
        } else {
            panic!("the test key must be in PKCS #8 format")
        };
        let file = serde_json::json!({
            "type": "service_account", "client_email": "me@project.iam.gserviceaccount.com",
            "private_key": pkcs8, "token_uri": "https://oauth2.googleapis.com/token",
        });
        match loaded(&file.to_string()) {
            Ok(token) => {
                assert_eq!(token.header, "Bearer the-token");
                assert!(token.expires_at_s.is_some_and(|expires| expires > wall_now().as_second() + 3000));
            }
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn a_user_refreshes_a_token_and_a_broken_file_is_reported() {
        let file = r#"{"type": "authorized_user", "client_id": "id", "client_secret": "hush", "refresh_token": "refresh"}"#;
        assert_eq!(loaded(file).map(|t| t.header).ok().as_deref(), Some("Bearer the-token"));
        let error = loaded("{").map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("could not load Google credentials"), "{error}");
        assert!(!error.contains("hush"));
    }
}
