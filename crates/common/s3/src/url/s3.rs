//! Parsing of `s3://bucket/prefix?endpoint=…&provider=…`, which determines the provider, the endpoint and the
//! form of requests.

use std::sync::Arc;

use super::{Lookup, Query, UrlError, prefix_of};
use crate::checksum::BodyChecksum;
use crate::endpoint::{Endpoint, Style};
use plimsoll_base::clock::SECOND;
use plimsoll_base::provider::{self, Addressing, EndpointParameters, Profile, zone};
use plimsoll_base::units::parse_duration;

/// The signing mode for request bodies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PayloadSigning {
    /// The signature covers the SHA-256 of the body, computed before the operation starts.
    Signed,
    /// The signature does not cover the body (`UNSIGNED-PAYLOAD`); TLS protects it.
    Unsigned,
}

/// A parsed URL of an S3-compatible bucket with all defaults resolved.
#[derive(Debug, Clone, PartialEq)]
pub struct S3Url {
    /// Endpoint for requests to objects.
    pub endpoint: Endpoint,
    /// Further endpoints of the same bucket.
    pub others: Vec<Endpoint>,
    /// Endpoint for creating and deleting the bucket; `None` if `endpoint` does this too.
    pub control: Option<Endpoint>,
    /// Prefix of keys; empty or ending in `/`.
    pub prefix: String,
    /// Profile of the provider.
    pub profile: Arc<Profile>,
    /// Zone ID of a directory bucket; `None` for other buckets.
    pub zone: Option<String>,
    /// Signing mode for request bodies.
    pub payload: PayloadSigning,
    /// True if requests are signed.
    pub sign: bool,
    /// Checksum sent with uploads; `None` for none.
    pub checksum: Option<BodyChecksum>,
    /// Storage class of uploaded objects; `None` for the bucket's default.
    pub storage_class: Option<String>,
    /// Lifetime in seconds of the presigned URLs used to put, get and head objects; `None` to sign each request
    /// instead.
    pub presign_s: Option<u32>,
}

/// Names of the parameters of an `s3://` URL, for error messages.
pub const PARAMETERS: &str =
    "endpoint, region, provider, account, style, payload, sign, checksum, storage_class, presign";

/// Value of `endpoint` for the R2 bucket that is bound to a Worker. The Worker accesses it without signatures.
pub const BINDING: &str = "binding";

/// Parses the part of an S3 URL after `s3://`.
///
/// # Errors
/// Returns a [`UrlError`] that names the invalid part.
pub fn parse(rest: &str, environment: Lookup<'_>) -> Result<S3Url, UrlError> {
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (bucket, prefix) = place.split_once('/').unwrap_or((place, ""));
    if bucket.contains('@') {
        return Err(UrlError::Secret);
    }
    let mut query = Query::parse(query);
    if ["access_key", "secret_key", "access-key", "secret-key"].iter().any(|name| query.has(name)) {
        return Err(UrlError::Secret);
    }
    let prefix = prefix_of(prefix)?;
    let variable = |name: &str| environment(name).filter(|v| !v.is_empty());
    let (account, region) = (query.take("account"), query.take("region"));
    let named = query.take("provider");
    let from_environment = variable("AWS_ENDPOINT_URL_S3").or_else(|| variable("AWS_ENDPOINT_URL"));
    let written = query.take("endpoint");
    let bound = written.as_deref() == Some(BINDING);
    let written = if bound { Some(format!("https://{BINDING}")) } else { written };
    let named = named.or_else(|| bound.then(|| "cloudflare-r2".into()));
    let (written, others) = several(written)?;
    let seen = written.as_deref().or(from_environment.as_deref());
    let profile = profile_of(named.as_deref(), bucket, seen)?;
    // A named provider with its own endpoint takes precedence over the endpoint from the environment.
    let use_environment = named.is_none() || profile.endpoint.is_none();
    let custom = written.or(from_environment.filter(|_| use_environment));
    let zone = if profile.sessions {
        if let Some(fault) = zone::name_fault(bucket) {
            return Err(UrlError::Express { bucket: bucket.into(), fault });
        }
        zone::zone_of(bucket)
    } else {
        None
    };
    let region = region_of(&profile, zone, region, variable)?;
    let holes = EndpointParameters { region: &region, account: account.as_deref(), zone };
    let style = query.choice("style", &[("path", Style::Path), ("virtual", Style::VirtualHost)])?;
    let default_style = match (&custom, profile.style) {
        // A wildcard certificate does not cover a bucket with a dot in its name.
        (None, Addressing::Virtual) if !bucket.contains('.') => Style::VirtualHost,
        _ => Style::Path,
    };
    let style = style.unwrap_or(default_style);
    let url = match &custom {
        Some(url) => url.clone(),
        None => profile.endpoint(holes)?.ok_or_else(|| UrlError::Anywhere(profile.name.clone()))?,
    };
    let endpoint = Endpoint::new(&url, bucket, style, &region)?;
    let others = others.iter().map(|url| Endpoint::new(url, bucket, style, &region));
    let others: Vec<Endpoint> = others.collect::<Result<_, _>>()?;
    check_different(&endpoint, &others)?;
    let control = profile.control(holes)?.filter(|_| custom.is_none());
    let control = control.map(|url| Endpoint::new(&url, bucket, Style::Path, &region)).transpose()?;
    let payload = query
        .choice("payload", &[("signed", PayloadSigning::Signed), ("unsigned", PayloadSigning::Unsigned)])?;
    let default_payload = if endpoint.tls { PayloadSigning::Unsigned } else { PayloadSigning::Signed };
    let url = S3Url {
        endpoint,
        others,
        control,
        prefix,
        zone: zone.map(str::to_string),
        payload: payload.unwrap_or(default_payload),
        sign: query.choice("sign", &[("on", true), ("off", false)])?.unwrap_or(!bound),
        checksum: checksum_of(&profile, query.take("checksum"))?,
        presign_s: presign_of(query.take("presign"))?,
        storage_class: storage_class_of(&profile, query.take("storage_class"))?,
        profile: Arc::new(profile),
    };
    query.finish(PARAMETERS)?;
    Ok(url)
}

/// Maximum number of endpoints of one store.
const MAX_ENDPOINTS: usize = 256;

/// Splits the endpoints of `endpoint=a,b,c` into the first and the others.
fn several(written: Option<String>) -> Result<(Option<String>, Vec<String>), UrlError> {
    let Some(text) = written else { return Ok((None, Vec::new())) };
    let mut all: Vec<String> = text.split(',').map(|url| url.trim().to_string()).collect();
    let wrong = |allowed: &str| {
        Err(UrlError::Value { name: "endpoint", value: text.clone(), allowed: allowed.to_string() })
    };
    if all.len() > MAX_ENDPOINTS {
        return wrong("at most 256 URLs, separated by commas");
    }
    if all.len() > 1 && all.iter().any(|url| url == BINDING) {
        return wrong("either a binding or URLs");
    }
    let first = all.remove(0);
    Ok((Some(first), all))
}

/// Checks that no endpoint is named twice.
fn check_different(first: &Endpoint, others: &[Endpoint]) -> Result<(), UrlError> {
    let place = |of: &Endpoint| (of.tls, of.host.to_ascii_lowercase(), of.port);
    let mut places = vec![place(first)];
    for other in others {
        if places.contains(&place(other)) {
            let allowed = "different URLs, separated by commas".to_string();
            return Err(UrlError::Value { name: "endpoint", value: other.url(), allowed });
        }
        places.push(place(other));
    }
    Ok(())
}

/// Returns the named provider, or the one recognised from the bucket name or the endpoint's host.
fn profile_of(named: Option<&str>, bucket: &str, custom: Option<&str>) -> Result<Profile, UrlError> {
    if let Some(name) = named {
        return Ok(provider::load(name)?);
    }
    if zone::is_directory(bucket) {
        return Ok(provider::load("aws-s3-express")?);
    }
    let Some(custom) = custom else { return Ok(provider::load("aws-s3")?) };
    let host = custom.split_once("://").map_or(custom, |(_, rest)| rest);
    let host = host.split([':', '/']).next().unwrap_or(host);
    match provider::of_host(host) {
        Some(profile) => Ok(profile),
        None => Ok(provider::load("generic")?),
    }
}

/// Returns the region: as written, else that of the zone, else from the environment if the provider has that
/// region, else the provider's default.
fn region_of(
    profile: &Profile,
    zone: Option<&str>,
    written: Option<String>,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<String, UrlError> {
    let of_zone = zone.and_then(|zone| profile.region_of(zone));
    match (written, of_zone, zone) {
        (Some(written), Some(region), Some(zone)) if written != region => {
            Err(UrlError::Zone { zone: zone.into(), region: region.into(), written })
        }
        (Some(written), ..) => Ok(written),
        (None, Some(region), _) => Ok(region.into()),
        (None, None, _) => {
            let from_environment = variable("AWS_REGION").or_else(|| variable("AWS_DEFAULT_REGION"));
            let fits = |region: &String| profile.regions.is_empty() || profile.regions.contains(region);
            Ok(from_environment.filter(fits).unwrap_or_else(|| profile.region.clone()))
        }
    }
}

fn checksum_of(profile: &Profile, written: Option<String>) -> Result<Option<BodyChecksum>, UrlError> {
    let Some(name) = written.filter(|name| name != "none") else { return Ok(None) };
    let checksum = BodyChecksum::from_name(&name).filter(|c| profile.takes(c.name()));
    checksum.map(Some).ok_or_else(|| UrlError::Checksum {
        name,
        provider: profile.name.clone(),
        known: profile.checksums.join(", "),
    })
}

/// Maximum lifetime of a presigned URL in seconds: seven days (S3 user guide, presigned URLs).
const MAX_PRESIGN_S: u64 = 7 * 24 * 3600;

fn presign_of(written: Option<String>) -> Result<Option<u32>, UrlError> {
    let Some(value) = written else { return Ok(None) };
    let seconds = parse_duration(&value).map_or(0, |ns| ns / SECOND);
    if (2..=MAX_PRESIGN_S).contains(&seconds) {
        return Ok(Some(seconds as u32));
    }
    Err(UrlError::Value { name: "presign", value, allowed: "2s to 168h, such as 15m".into() })
}

fn storage_class_of(profile: &Profile, written: Option<String>) -> Result<Option<String>, UrlError> {
    let Some(class) = written else { return Ok(None) };
    if profile.storage_classes.is_empty() || profile.storage_classes.contains(&class) {
        return Ok(Some(class));
    }
    Err(UrlError::StorageClass {
        class,
        provider: profile.name.clone(),
        known: profile.storage_classes.join(", "),
    })
}

#[cfg(test)]
mod tests {
    use super::super::{StoreUrl, parse};
    use super::*;

    fn s3(text: &str) -> S3Url {
        match parse(text, &|_| None) {
            Ok(StoreUrl::S3(url)) => *url,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn urls_from_the_manual_are_parsed() {
        let url = s3("s3://bucket/some/prefix?endpoint=http://127.0.0.1:9000&region=eu-1&provider=minio");
        assert_eq!((url.prefix.as_str(), url.profile.name.as_str()), ("some/prefix/", "minio"));
        assert_eq!((url.endpoint.port, url.payload), (9000, PayloadSigning::Signed));
        let aws = s3("s3://bucket");
        assert_eq!(aws.endpoint.authority, "bucket.s3.us-east-1.amazonaws.com");
        assert_eq!(
            (aws.payload, aws.profile.name.as_str(), aws.prefix.as_str()),
            (PayloadSigning::Unsigned, "aws-s3", "")
        );
        assert_eq!(s3("s3://my.bucket").endpoint.style, Style::Path);
    }

    #[test]
    fn a_store_may_have_several_endpoints() {
        let url = s3("s3://bucket/p?endpoint=http://10.0.0.1:9000,https://b.example:9443,http://10.0.0.3");
        assert_eq!(url.endpoint.url(), "http://10.0.0.1:9000");
        let others: Vec<String> = url.others.iter().map(Endpoint::url).collect();
        assert_eq!(others, ["https://b.example:9443", "http://10.0.0.3"]);
        let message = |endpoint: &str| {
            parse(&format!("s3://bucket?endpoint={endpoint}"), &|_| None).unwrap_err().to_string()
        };
        for same in ["http://a:1,http://a:1", "http://a:1,http://a:1/", "http://a:80,http://A"] {
            assert!(message(same).contains("different URLs"), "{same}");
        }
        assert!(message("http://a:1&endpoint=http://b:1").contains("given twice"));
        assert!(message("http://a:1,b:2").contains("b:2"));
        assert!(message("http://a:1,").contains("endpoint ''"));
        assert!(message("binding,http://a:1").contains("either a binding or URLs"));
    }

    #[test]
    fn providers_fill_in_endpoint_region_and_style() {
        let r2 = s3("s3://bucket?provider=cloudflare-r2&account=abc");
        assert_eq!(r2.endpoint.url(), "https://abc.r2.cloudflarestorage.com");
        assert_eq!((r2.endpoint.region.as_str(), r2.endpoint.style), ("auto", Style::Path));
        let tigris = s3("s3://bucket?provider=tigris");
        assert_eq!(tigris.endpoint.authority, "bucket.t3.storage.dev");
        let b2 = s3("s3://bucket?provider=backblaze-b2&region=eu-central-003");
        assert_eq!(b2.endpoint.authority, "s3.eu-central-003.backblazeb2.com");
        let known = s3("s3://bucket?endpoint=https://abc.r2.cloudflarestorage.com");
        assert_eq!(known.profile.name, "cloudflare-r2");
    }

    #[test]
    fn directory_buckets_find_their_zone_and_region() {
        let url = s3("s3://base--usw2-az1--x-s3");
        assert_eq!(url.endpoint.authority, "base--usw2-az1--x-s3.s3express-usw2-az1.us-west-2.amazonaws.com");
        let control = url.control.unwrap();
        assert_eq!(
            (control.authority.as_str(), control.style),
            ("s3express-control.us-west-2.amazonaws.com", Style::Path)
        );
        let here = s3("s3://base--use1-az4--x-s3?endpoint=http://127.0.0.1:9000");
        assert_eq!((here.endpoint.style, here.control, here.profile.sessions), (Style::Path, None, true));
        let message = |text: &str| parse(text, &|_| None).unwrap_err().to_string();
        assert!(message("s3://base--use1-az4--x-s3?region=eu-west-1").contains("us-east-1"));
        assert!(message("s3://base--x-s3").contains("base--zone--x-s3"));
        assert!(message("s3://data?provider=aws-s3-express").contains("base--zone--x-s3"));
    }

    #[test]
    fn the_environment_supplies_omitted_parameters() {
        let environment = |name: &str| match name {
            "AWS_REGION" => Some("eu-west-1".to_string()),
            "AWS_ENDPOINT_URL_S3" => Some("https://s3.example.org".to_string()),
            _ => None,
        };
        let read = |text| match parse(text, &environment) {
            Ok(StoreUrl::S3(url)) => *url,
            other => panic!("{other:?}"),
        };
        let url = read("s3://bucket");
        assert_eq!(
            (url.endpoint.authority.as_str(), url.endpoint.region.as_str()),
            ("s3.example.org", "eu-west-1")
        );
        let r2 = read("s3://bucket?provider=cloudflare-r2&account=abc");
        assert_eq!(
            (r2.endpoint.region.as_str(), r2.endpoint.port),
            ("auto", 443),
            "AWS's region is not R2's"
        );
    }

    #[test]
    fn errors_name_the_parameter_and_the_fix() {
        let message = |text: &str| parse(text, &|_| None).unwrap_err().to_string();
        assert!(
            message("s3://bucket?endpont=x")
                .contains("unknown store parameter 'endpont'; use one of endpoint")
        );
        assert!(message("s3://bucket?style=host").contains("path, virtual"));
        assert!(message("s3://key:secret@bucket").contains("AWS_ACCESS_KEY_ID"));
        assert!(!message("s3://key:secret@bucket").contains("secret@"));
        assert!(!message("s3://bucket?secret_key=hush").contains("hush"));
        assert!(message("s3://bucket?endpoint=localhost:9000").contains("http://"));
        assert!(message("s3://bucket?provider=aws").contains("use one of aws-s3"));
        assert!(message("s3://bucket?provider=minio").contains("endpoint="));
        assert!(message("s3://bucket?provider=cloudflare-r2").contains("account="));
        assert!(
            message("s3://bucket?provider=backblaze-b2&checksum=crc32c").contains("use one of none, md5")
        );
        assert!(message("s3://bucket?storage_class=EXPRESS").contains("STANDARD_IA"));
    }
}
