//! The AWS policy with which Plimsoll can use a store, and nothing more.

use plimsoll_s3::url::StoreUrl;

/// Policy of a general purpose bucket, with placeholders for its name and the prefix.
const S3: &str = include_str!("../../../../../infra/policy/s3.json");
/// Policy of a directory bucket, with placeholders for its name and region. Its rights cannot be limited to a prefix.
const S3_EXPRESS: &str = include_str!("../../../../../infra/policy/s3-express.json");

/// Reason why there is no policy for a store.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum PolicyError {
    /// The provider has no policies in the format of AWS. The text names its replacement.
    #[error("{0}")]
    Other(&'static str),
}

/// Returns the policy document for a store, as JSON.
///
/// # Errors
/// A [`PolicyError`] if the store is not at AWS or does not use its policies.
pub fn policy(url: &StoreUrl) -> Result<String, PolicyError> {
    let s3 = match url {
        StoreUrl::S3(s3) => s3,
        StoreUrl::Gcs(_) => {
            return Err(PolicyError::Other(
                "Google Cloud Storage has roles instead of policies: grant roles/storage.objectUser on the bucket",
            ));
        }
        StoreUrl::Azure(_) => {
            return Err(PolicyError::Other(
                "Azure has roles instead of policies: assign Storage Blob Data Contributor on the container",
            ));
        }
        _ => return Err(PolicyError::Other("the store has no access policies")),
    };
    let (template, known) = match s3.profile.name.as_str() {
        "aws-s3" | "generic" | "minio" | "embedded" => (S3, true),
        "aws-s3-express" => (S3_EXPRESS, true),
        _ => ("", false),
    };
    if !known {
        return Err(PolicyError::Other(
            "the provider has tokens instead of policies: create one with the rights to list, read, write and delete \
             the objects of the bucket",
        ));
    }
    // A policy treats * and ? in a resource as patterns, and ${ as the start of a variable.
    let literal = |text: &str| text.replace('$', "${$}").replace('*', "${*}").replace('?', "${?}");
    let quoted = |text: &str| {
        let json = serde_json::Value::from(literal(text)).to_string();
        json[1..json.len() - 1].to_string()
    };
    Ok(template
        .replace("__BUCKET__", &quoted(&s3.endpoint.bucket))
        .replace("__REGION__", &quoted(&s3.endpoint.region))
        .replace("__PREFIX__", &quoted(&s3.prefix)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_s3::url::parse;

    fn of(url: &str) -> Result<serde_json::Value, PolicyError> {
        policy(&parse(url, &|_| None).unwrap()).map(|text| serde_json::from_str(&text).unwrap())
    }

    #[test]
    fn a_policy_covers_the_keys_of_runs_below_the_prefix_only() {
        let policy = of("s3://my-bucket/team/a").unwrap();
        let statements = policy["Statement"].as_array().unwrap();
        assert_eq!(statements[0]["Condition"]["StringLike"]["s3:prefix"], "team/a/plimsoll/*");
        assert_eq!(statements[2]["Resource"], "arn:aws:s3:::my-bucket/team/a/plimsoll/*");
        let actions = policy.to_string();
        assert!(!actions.contains("DeleteBucket") && !actions.contains("s3:*"), "{actions}");
        // A prefix cannot widen the rights or break the document.
        let hostile = of("s3://my-bucket/*%22%5D").unwrap();
        let resource = hostile["Statement"][2]["Resource"].as_str().unwrap();
        assert!(resource.starts_with("arn:aws:s3:::my-bucket/${*}"), "{resource}");
    }

    #[test]
    fn a_directory_bucket_needs_sessions_and_other_providers_have_no_policy() {
        let policy = of("s3://data--use1-az4--x-s3").unwrap();
        let statement = &policy["Statement"][0];
        assert_eq!(statement["Action"], "s3express:CreateSession");
        assert_eq!(statement["Resource"], "arn:aws:s3express:us-east-1:*:bucket/data--use1-az4--x-s3");
        assert!(of("gs://bucket").unwrap_err().to_string().contains("objectUser"));
        assert!(
            of("s3://bucket?provider=cloudflare-r2&endpoint=https://a.r2.cloudflarestorage.com").is_err()
        );
    }
}
