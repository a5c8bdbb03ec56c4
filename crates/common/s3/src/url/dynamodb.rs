//! Parsing of `dynamodb://table?region=us-east-1`: an Amazon DynamoDB table as a store of small objects.

use super::{Lookup, Query, UrlError};
use crate::endpoint::{Endpoint, Style};

/// A parsed URL of a DynamoDB table with all defaults resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DynamoDbUrl {
    /// Endpoint of the table; its `bucket` is the table name.
    pub endpoint: Endpoint,
    /// Name of the table's hash key attribute.
    pub key: String,
    /// True if reads are strongly consistent, which costs twice as much.
    pub consistent: bool,
}

const PARAMETERS: &str = "endpoint, region, key, consistent";

/// Returns true if DynamoDB accepts the table name (DynamoDB developer guide, naming rules).
fn is_table_name(name: &str) -> bool {
    let plain = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'-' | b'.');
    (3..=255).contains(&name.len()) && name.bytes().all(plain)
}

/// Parses the part of a URL after `dynamodb://`.
///
/// # Errors
/// Returns a [`UrlError`] that names the invalid part.
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
    // The endpoint does not contain the table name, so any valid bucket name can be used to parse it.
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
    fn table_names_and_parameters_are_checked() {
        let read = |text: &str| parse(text, &|_| None);
        let Ok(StoreUrl::DynamoDb(url)) = read("dynamodb://My_Table?region=eu-west-1") else { panic!() };
        assert_eq!(url.endpoint.url(), "https://dynamodb.eu-west-1.amazonaws.com");
        assert!(url.endpoint.bucket == "My_Table" && url.consistent);
        let message = |text: &str| read(text).unwrap_err().to_string();
        assert!(message("dynamodb://a").contains("3 to 255"));
        assert!(message("dynamodb://table/prefix").contains("3 to 255"));
        assert!(message("dynamodb://table?consistent=maybe").contains("on, off"));
        assert!(message("dynamodb://table?x=1").contains("use one of endpoint, region, key"));
    }
}
