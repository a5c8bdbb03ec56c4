//! TLS configurations. The client trusts the system's root certificates, or the bundle of `--ca-bundle` or
//! `AWS_CA_BUNDLE`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_rustls::rustls::client::Resumption;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};

/// Failure to configure TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file is unreadable, or is not valid PEM.
    #[error("{option} {path}: {reason}")]
    File {
        /// Option or environment variable that names the file.
        option: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// Error from reading or parsing it.
        reason: String,
    },
    /// There is no trusted root certificate.
    #[error("no system certificates found: install ca-certificates, or specify a PEM file with --ca-bundle")]
    NoRoots,
    /// rustls rejected the configuration, for example because key and certificate do not match.
    #[error("TLS: {0}")]
    Rustls(#[from] tokio_rustls::rustls::Error),
}

fn certificates(option: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let fail = |reason: String| TlsError::File { option, path: path.to_path_buf(), reason };
    let found: Vec<_> = CertificateDer::pem_file_iter(path)
        .and_then(|certificates| certificates.collect())
        .map_err(|e| fail(e.to_string()))?;
    if found.is_empty() {
        return Err(fail("the file contains no certificate in PEM format".into()));
    }
    Ok(found)
}

/// Returns the TLS configuration of the client: HTTP/1.1, TLS 1.2 or 1.3, and no session resumption, so that every
/// connection makes a full handshake.
///
/// # Errors
/// If the bundle is unreadable, or there is no trusted root certificate.
pub fn client_config(ca_bundle: Option<&Path>) -> Result<Arc<ClientConfig>, TlsError> {
    let mut roots = RootCertStore::empty();
    let from_environment = std::env::var_os("AWS_CA_BUNDLE").filter(|v| !v.is_empty()).map(PathBuf::from);
    let bundle = match (ca_bundle, &from_environment) {
        (Some(path), _) => Some(("--ca-bundle", path)),
        (None, Some(path)) => Some(("AWS_CA_BUNDLE", path.as_path())),
        (None, None) => None,
    };
    if let Some((option, path)) = bundle {
        roots.add_parsable_certificates(certificates(option, path)?);
    } else {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    }
    if roots.is_empty() {
        return Err(TlsError::NoRoots);
    }
    let mut config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config.resumption = Resumption::disabled();
    Ok(Arc::new(config))
}

/// Returns the TLS configuration of the embedded server from a certificate chain and its private key, both PEM files.
///
/// # Errors
/// If a file is unreadable, or key and certificate do not match.
pub fn server_config(certificate: &Path, key: &Path) -> Result<Arc<ServerConfig>, TlsError> {
    let chain = certificates("--tls-cert", certificate)?;
    let fail = |e: tokio_rustls::rustls::pki_types::pem::Error| TlsError::File {
        option: "--tls-key",
        path: key.to_path_buf(),
        reason: e.to_string(),
    };
    let key = PrivateKeyDer::from_pem_file(key).map_err(fail)?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
