//! Checks a store before a run: access, round-trip time, clock offset, and the existing objects that the run reads.

use std::sync::Arc;

use super::error::RunError;
use super::open::Opened;
use super::runtime::block_on;
use plimsoll_base::clock::wall_now;
use plimsoll_engine::driver::background::{Background, Pages, within_prefix};
use plimsoll_engine::store::ownership::KeySpace;
use plimsoll_engine::store::{Failure, Request, Store};
use plimsoll_judge::run_dir::environment::StoreFacts;
use plimsoll_s3::url::StoreUrl;
use plimsoll_s3::url::web::as_bucket;
use plimsoll_workload::dataset::{Existing, FoundObjects};
use plimsoll_workload::trace::UNKNOWN_SIZE;

/// Checks that the store can be used, creates a missing bucket if that is allowed, and returns facts about the store.
///
/// # Errors
/// [`RunError::Store`] if the store cannot be used.
pub fn preflight(opened: &Opened, space: &KeySpace, create_bucket: bool) -> Result<StoreFacts, RunError> {
    let store = opened.store.as_ref();
    let root = space.root().to_string();
    let unusable = |failure: &Failure| {
        let bucket = as_bucket(&opened.written).filter(|_| !store.capabilities().writes);
        let meant = bucket.map(|url| format!("for an S3 server, use '{url}'"));
        let hints =
            [Some(hint(failure, opened.url.as_ref()).to_string()).filter(|hint| !hint.is_empty()), meant];
        let hints: String = hints.into_iter().flatten().map(|hint| format!("; {hint}")).collect();
        RunError::store(format!("{}: {failure}{hints}", opened.written))
    };
    let facts = block_on(async {
        let mut background = Background::new(store);
        if !store.capabilities().lists {
            return background.send_until_answered(Request::CheckBucket).await.map_err(|f| unusable(&f));
        }
        let list = Request::List { prefix: &root, start_after: "", token: "", max_keys: 1 };
        let mut listed = background.send_until_answered(list.clone()).await;
        if let Err(failure) = &listed
            && failure.is_missing_container()
            && (opened.own_bucket || create_bucket)
        {
            match background.send_until_answered(Request::CreateBucket).await {
                // Another shard was faster.
                Err(failure) if failure.is_code("BucketAlreadyOwnedByYou") => {}
                created => drop(created.map_err(|f| unusable(&f))?),
            }
            listed = background.send_until_answered(list).await.map(|mut second| {
                // The first request opened the connection, so it has the valid connection times.
                second.timings.connect_ns = failure.timings.connect_ns;
                second.timings.tls_ns = failure.timings.tls_ns;
                second
            });
        }
        let listed = listed.map_err(|f| unusable(&f))?;
        let page = listed.listing.as_ref();
        page.map_or(Ok(()), |page| within_prefix(page, &root))
            .map_err(|problem| RunError::store(format!("{}: {problem}", opened.written)))?;
        Ok(listed)
    })??;
    let description = store.describe();
    let ms = |ns: u64| (ns > 0).then_some(ns as f64 / 1e6);
    let (region, class) = opened.url.as_ref().map(StoreUrl::place).unwrap_or_default();
    Ok(StoreFacts {
        url: opened.written.clone(),
        provider: description.provider,
        endpoint: description.endpoint,
        region: region.map(str::to_string),
        storage_class: class.map(str::to_string),
        addresses: description.addresses,
        signing: description.signing,
        root,
        rtt_ms: ms(facts.timings.connect_ns),
        tls_ms: ms(facts.timings.tls_ns),
        clock_offset_s: facts.store_clock_s.map(|s| s - wall_now().as_second()),
        uncleaned: store.capabilities().writes,
    })
}

/// Returns advice that usually resolves a failure of the store at `url`; empty if there is none.
pub fn hint(failure: &Failure, url: Option<&StoreUrl>) -> &'static str {
    use plimsoll_engine::store::http::RELAY;
    use plimsoll_recorder::ErrorClass;
    let is_azure = matches!(url, Some(StoreUrl::Azure(_)));
    match &failure.class {
        _ if failure.message.starts_with(RELAY) => "is the URL of --relay correct?",
        ErrorClass::Connect => "is the server running, and are endpoint= and the port correct?",
        ErrorClass::Tls => {
            "is the certificate trusted? specify its authority with --ca-bundle, \
             or use http:// if the server does not use TLS"
        }
        ErrorClass::Reset => {
            "does the server use HTTP on this port? if it uses TLS, write https:// in endpoint="
        }
        ErrorClass::Response(_) if failure.is_missing_container() => {
            "create the bucket, or use --create-bucket"
        }
        ErrorClass::Response(_) if failure.is_code("InvalidAccessKeyId") => {
            "check AWS_ACCESS_KEY_ID or the AWS profile"
        }
        ErrorClass::Response(_) if is_azure && failure.is_code("SignatureDoesNotMatch") => {
            "check account=, its key or shared access signature, and this machine's clock"
        }
        ErrorClass::Response(_) if is_azure && failure.is_code("AccessDenied") => {
            "a token needs the role Storage Blob Data Contributor, a shared access signature the permissions \
             rcwdl; does the account's firewall admit this machine?"
        }
        ErrorClass::Response(_) if failure.is_code("SignatureDoesNotMatch") => {
            "check AWS_SECRET_ACCESS_KEY and region="
        }
        ErrorClass::Response(_) if failure.is_code("AccessDenied") => {
            "the credentials need s3:ListBucket, s3:GetObject, s3:PutObject and s3:DeleteObject for this bucket"
        }
        ErrorClass::Response(_) if failure.is_code("RequestTimeTooSkewed") => {
            "set this machine's clock; signatures are valid for 15 minutes"
        }
        ErrorClass::Response(_) if failure.is_code("ExpiredToken") || failure.is_code("InvalidToken") => {
            "the session token has expired or is invalid; log in again or set a new AWS_SESSION_TOKEN"
        }
        ErrorClass::Response(_)
            if failure.is_code("AuthorizationHeaderMalformed")
                || failure.is_code("IllegalLocationConstraintException")
                || failure.is_code("PermanentRedirect") =>
        {
            "the bucket is in another region; set region="
        }
        ErrorClass::Response(_) if failure.status() == Some(301) => {
            "the bucket is in another region; set region="
        }
        _ => "",
    }
}

/// Lists the objects of an existing dataset, at most `most` of them.
///
/// # Errors
/// [`RunError::Input`] if there are none, they are in another bucket, or the file of keys is invalid;
/// [`RunError::Store`] if the listing fails.
pub fn find_objects(opened: &Opened, existing: &Existing, most: u64) -> Result<Arc<FoundObjects>, RunError> {
    let store = opened.store.as_ref();
    let place = |text: String| RunError::input(format!("objects.dataset = '{}': {text}", existing.location));
    if let Some(bucket) = existing.bucket().filter(|bucket| *bucket != store.container()) {
        return Err(place(format!(
            "store {} is not in bucket '{bucket}'; to read from the bucket of each store, specify only the \
             prefix",
            opened.written
        )));
    }
    if let Some(file) = existing.keys_file() {
        return read_keys(file, most).map(Arc::new);
    }
    if !store.capabilities().lists {
        let Some(key) = store.only_object() else {
            let text = "the store cannot list objects; \
                        list the keys to read in a file, one per line, and use --keys FILE (objects.keys)";
            return Err(RunError::input(format!("{}: {text}", opened.written)));
        };
        let mut found = FoundObjects::default();
        found.push(key, UNKNOWN_SIZE);
        return Ok(Arc::new(found));
    }
    let found = block_on(list_all(store, existing.prefix(), most))?;
    let found = found.map_err(|f| {
        RunError::store(format!("{}: {f}; {}", opened.written, hint(&f, opened.url.as_ref())))
    })?;
    if found.is_empty() {
        return Err(place(format!("store {} has no objects with this prefix", opened.written)));
    }
    Ok(Arc::new(found))
}

/// Reads at most `most` keys from a file with one key per line, optionally followed by a tab and the size in bytes.
fn read_keys(file: &str, most: u64) -> Result<FoundObjects, RunError> {
    let text = std::fs::read_to_string(file).map_err(|e| RunError::input(format!("--keys {file}: {e}")))?;
    let mut found = FoundObjects::default();
    for (line, written) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
        let (key, size) = match written.split_once('\t') {
            None => (written.trim(), UNKNOWN_SIZE),
            Some((key, size)) => (
                key,
                size.trim().parse().map_err(|_| {
                    RunError::input(format!(
                        "{file}:{line}: '{size}' is not a size in bytes; write KEY or KEY<tab>BYTES"
                    ))
                })?,
            ),
        };
        found.push(key, size);
        if found.len() == most {
            break;
        }
    }
    if found.is_empty() {
        return Err(RunError::input(format!(
            "--keys {file}: the file contains no keys; write one key per line"
        )));
    }
    Ok(found)
}

async fn list_all(store: &dyn Store, prefix: &str, most: u64) -> Result<FoundObjects, Failure> {
    let (mut background, mut pages) = (Background::new(store), Pages::new(prefix));
    let mut found = FoundObjects::default();
    while let Some(page) = pages.next(&mut background).await? {
        for object in page.objects {
            // Consoles mark folders with empty objects whose names end in a slash.
            if !(object.size == 0 && object.key.ends_with('/')) {
                found.push(&object.key, object.size);
            }
            if found.len() == most {
                return Ok(found);
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_recorder::ErrorClass;
    use plimsoll_recorder::Timings;
    use plimsoll_s3::url::parse;

    #[test]
    fn common_failures_have_hints() {
        let azure = parse("az://box?account=acme1", &|_| None).unwrap();
        for (class, url, expected) in [
            ("400 ExpiredToken", None, "log in again"),
            ("403 RequestTimeTooSkewed", None, "set this machine's clock"),
            ("301 PermanentRedirect", None, "another region"),
            ("400 AuthorizationHeaderMalformed", None, "set region="),
            ("404 NoSuchBucket", None, "--create-bucket"),
            ("400 ResourceNotFoundException", None, "--create-bucket"),
            ("403 SignatureDoesNotMatch", None, "AWS_SECRET_ACCESS_KEY"),
            ("403 AccessDenied", None, "s3:ListBucket"),
            ("403 SignatureDoesNotMatch", Some(&azure), "account="),
            ("403 AccessDenied", Some(&azure), "Storage Blob Data Contributor"),
        ] {
            let failure = Failure::new(ErrorClass::Response(class.into()), "", Timings::default());
            assert!(hint(&failure, url).contains(expected), "{class}: {}", hint(&failure, url));
        }
    }
}
