//! Signatures of HTML forms, which cover a policy instead of the request.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac;

use super::scope::Scope;
use crate::accounts::{Account, Accounts};
use crate::error::{ApiError, ErrorCode};
use crate::form::Fields;
use crate::signing_key::with_key;
use plimsoll_base::net::encode::hex;
use plimsoll_s3::checksum::from_base64;
use plimsoll_s3::sign::ALGORITHM;

/// Verifies a policy in the older form, which many form generators still produce: HMAC-SHA1 with the secret key itself.
fn verify_policy_v2<'a>(
    accounts: &'a Accounts,
    access_key: &str,
    policy: &str,
    given: &str,
) -> Result<&'a Account, ApiError> {
    let unknown = || ApiError::new(ErrorCode::InvalidAccessKeyId).detail("AWSAccessKeyId", access_key);
    let account = accounts.find(access_key).ok_or_else(unknown)?;
    let secret = account.credentials.secret_key().as_bytes();
    let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, secret);
    let given = from_base64(given.trim()).unwrap_or_default();
    match hmac::verify(&key, policy.as_bytes(), &given) {
        Ok(()) => Ok(account),
        Err(_) => Err(ApiError::new(ErrorCode::SignatureDoesNotMatch)),
    }
}

/// Returns the account that signed the policy of an HTML form. `policy` is the base64 text that was signed.
///
/// # Errors
/// Returns the S3 error for a missing or wrong signature.
pub fn verify_policy<'a>(
    fields: &Fields,
    accounts: &'a Accounts,
    policy: &str,
) -> Result<&'a Account, ApiError> {
    let field = |name: &str| {
        let missing = || {
            let text = format!(
                "Bucket POST must contain a field named '{name}'. If it is specified, please check the order of the fields."
            );
            ApiError::with(ErrorCode::InvalidArgument, text)
        };
        fields.get(name).ok_or_else(missing)
    };
    if let (Some(access_key), None) = (fields.get("awsaccesskeyid"), fields.get("x-amz-algorithm")) {
        return verify_policy_v2(accounts, access_key, policy, field("signature")?);
    }
    if field("x-amz-algorithm")? != ALGORITHM {
        return Err(ApiError::with(ErrorCode::InvalidArgument, "x-amz-algorithm must be AWS4-HMAC-SHA256"));
    }
    let scope = Scope::parse(field("x-amz-credential")?)
        .map_err(|problem| ApiError::with(ErrorCode::InvalidArgument, problem))?;
    let unknown = || ApiError::new(ErrorCode::InvalidAccessKeyId).detail("AWSAccessKeyId", scope.access_key);
    let account = accounts.find(scope.access_key).ok_or_else(unknown)?;
    let date_time = field("x-amz-date")?;
    if !date_time.starts_with(scope.date) {
        return Err(ApiError::with(
            ErrorCode::InvalidArgument,
            "x-amz-date does not match the credential date",
        ));
    }
    let sign = |key: &hmac::Key| hex(hmac::sign(key, policy.as_bytes()).as_ref());
    let computed = with_key(&account.credentials, scope.of_key(), sign);
    if verify_slices_are_equal(computed.as_bytes(), field("x-amz-signature")?.as_bytes()).is_err() {
        return Err(ApiError::new(ErrorCode::SignatureDoesNotMatch));
    }
    Ok(account)
}
