//! Whom to trust: the system's roots, or the bundle of `--ca-bundle` or `AWS_CA_BUNDLE`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_rustls::rustls::client::Resumption;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};

/// Why TLS could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file could not be read as PEM.
    #[error("{what} {path}: {reason}")]
    File {
        /// Which option named it.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// No certificate authority is trusted.
    #[error("no system certificates found; install ca-certificates or name a PEM file with --ca-bundle")]
    NoRoots,
    /// Key and certificate do not fit, or the like.
    #[error("TLS: {0}")]
    Rustls(#[from] tokio_rustls::rustls::Error),
}

fn certificates(what: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let fail = |reason: String| TlsError::File { what, path: path.to_path_buf(), reason };
    let found: Vec<_> = CertificateDer::pem_file_iter(path)
        .and_then(|certificates| certificates.collect())
        .map_err(|e| fail(e.to_string()))?;
    if found.is_empty() { Err(fail("holds no certificate in PEM form".into())) } else { Ok(found) }
}

/// The client's TLS: HTTP/1.1, TLS 1.2 or 1.3, no session resumption (law of measurement, 8).
///
/// # Errors
/// When the bundle cannot be read or nothing is trusted.
pub fn client_config(ca_bundle: Option<&Path>) -> Result<Arc<ClientConfig>, TlsError> {
    let mut roots = RootCertStore::empty();
    let from_environment = std::env::var_os("AWS_CA_BUNDLE").filter(|v| !v.is_empty()).map(PathBuf::from);
    let bundle = match (ca_bundle, &from_environment) {
        (Some(path), _) => Some(("--ca-bundle", path)),
        (None, Some(path)) => Some(("AWS_CA_BUNDLE", path.as_path())),
        (None, None) => None,
    };
    if let Some((what, path)) = bundle {
        roots.add_parsable_certificates(certificates(what, path)?);
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

/// The server's TLS from a certificate chain and its key, both PEM.
///
/// # Errors
/// When a file cannot be read, or key and certificate do not belong together.
pub fn server_config(certificate: &Path, key: &Path) -> Result<Arc<ServerConfig>, TlsError> {
    let chain = certificates("--tls-cert", certificate)?;
    let fail = |e: tokio_rustls::rustls::pki_types::pem::Error| TlsError::File {
        what: "--tls-key",
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
