//! The validity of the certificate that the gateway presents: clients refuse an expired one, and nothing else fails.

use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};

use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use x509_cert::Certificate;
use x509_cert::der::Decode;
use x509_cert::time::Time;

use plimsoll_catalog::ambient::{now_ms, utc_text};
use plimsoll_catalog::log::note;

/// Seconds before the end at which an operator must act: a third of the 47 days that certificates last at most from
/// 2029 on (CA/Browser Forum, ballot SC-081v3).
pub const SOON_S: i64 = 14 * 86_400;

/// End of the validity in Unix seconds; the minimum without a certificate.
static NOT_AFTER_S: AtomicI64 = AtomicI64::new(i64::MIN);

/// Returns the seconds until the certificate expires, negative afterwards; `None` without a certificate.
pub fn left_s() -> Option<i64> {
    let not_after_s = NOT_AFTER_S.load(Ordering::Relaxed);
    (not_after_s != i64::MIN).then(|| not_after_s - now_s())
}

fn now_s() -> i64 {
    (now_ms() / 1000).cast_signed()
}

/// Validity in Unix seconds: its start and its end.
fn validity(path: &Path) -> Option<(i64, i64)> {
    let first = CertificateDer::pem_file_iter(path).ok()?.next()?.ok()?;
    let validity = Certificate::from_der(&first).ok()?.tbs_certificate.validity;
    let seconds = |time: Time| i64::try_from(time.to_unix_duration().as_secs()).unwrap_or(i64::MAX);
    Some((seconds(validity.not_before), seconds(validity.not_after)))
}

/// Remembers how long the certificate in a file is valid, and reports one that is not valid now or not for long.
pub fn examine(path: &Path) {
    let name = path.display();
    let Some((not_before_s, not_after_s)) = validity(path) else {
        note(&format!("--tls-cert {name}: the validity of the certificate is unreadable"));
        return;
    };
    NOT_AFTER_S.store(not_after_s, Ordering::Relaxed);
    let (now_s, text) = (now_s(), |seconds: i64| utc_text(seconds.max(0).cast_unsigned() * 1000));
    if now_s >= not_after_s {
        let end = text(not_after_s);
        note(&format!(
            "--tls-cert {name}: the certificate has expired at {end}, and clients refuse it; renew it, and send SIGHUP"
        ));
    } else if now_s < not_before_s {
        let start = text(not_before_s);
        note(&format!(
            "--tls-cert {name}: the certificate is valid only from {start} on, and clients refuse it"
        ));
    } else if not_after_s - now_s < SOON_S {
        let end = text(not_after_s);
        note(&format!("--tls-cert {name}: the certificate expires at {end}; renew it, and send SIGHUP"));
    }
}
