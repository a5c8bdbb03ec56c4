//! `dynamodb://table?region=us-east-1`: a table of Amazon DynamoDB as a store of small objects.

use super::{Lookup, Query, UrlError};
use crate::s3::endpoint::{Endpoint, Style};

/// A table as written, resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DynamoDbUrl {
    /// Where it is; its `bucket` is the table.
    pub endpoint: Endpoint,
    /// Name of the attribute that is the table's hash key.
    pub key: String,
    /// Whether reads see every write that was answered before (they then cost twice as much).
    pub consistent: bool,
}

const PARAMETERS: &str = "endpoint, region, key, consistent";

/// Whether DynamoDB would accept this as a table name (DynamoDB developer guide, naming rules).
fn is_table_name(name: &str) -> bool {
    let plain = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'-' | b'.');
    (3..=255).contains(&name.len()) && name.bytes().all(plain)
}

/// Reads a store from what follows `dynamodb://`.
///
/// # Errors
/// See [`UrlError`].
pub fn parse(rest: &str, environment: Lookup<'_>) -> Result<DynamoDbUrl, UrlError> {
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    let table = place.trim_end_matches('/');
    if table.contains('@') {
        return Err(UrlError::Secret);
    }
    if !is_table_name(table) {
        return Err(UrlError::Table(table.into()));
    }
    let mut query = Query::parse(query);
    let variable = |name: &str| environment(name).filter(|v| !v.is_empty());
    let region = query
        .take("region")
        .or_else(|| variable("AWS_REGION"))
        .or_else(|| variable("AWS_DEFAULT_REGION"))
        .unwrap_or_else(|| "us-east-1".into());
    let custom = query
        .take("endpoint")
        .or_else(|| variable("AWS_ENDPOINT_URL_DYNAMODB"))
        .or_else(|| variable("AWS_ENDPOINT_URL"));
    let url = custom.unwrap_or_else(|| format!("https://dynamodb.{region}.amazonaws.com"));
    // Tables are not part of the address; any bucket name will do to read the endpoint.
    let mut endpoint = Endpoint::new(&url, "table", Style::Path, &region)?;
    endpoint.bucket = table.to_string();
    let parsed = DynamoDbUrl {
        endpoint,
        key: query.take("key").unwrap_or_else(|| "key".into()),
        consistent: query.choice("consistent", &[("on", true), ("off", false)])?.unwrap_or(true),
    };
    query.finish(PARAMETERS)?;
    Ok(parsed)
}

#[cfg(test)]
mod tests {
    use super::super::{StoreUrl, parse};

    #[test]
    fn tables_have_names_of_their_own() {
        let read = |text: &str| parse(text, &|_| None);
        let Ok(StoreUrl::DynamoDb(url)) = read("dynamodb://My_Table?region=eu-west-1") else { panic!() };
        assert_eq!(url.endpoint.url(), "https://dynamodb.eu-west-1.amazonaws.com");
        assert!(url.endpoint.bucket == "My_Table" && url.consistent);
        let message = |text: &str| read(text).unwrap_err().to_string();
        assert!(message("dynamodb://a").contains("3 to 255"));
        assert!(message("dynamodb://table/prefix").contains("3 to 255"));
        assert!(message("dynamodb://table?consistent=maybe").contains("on, off"));
        assert!(message("dynamodb://table?x=1").contains("known are endpoint, region, key"));
    }
}
