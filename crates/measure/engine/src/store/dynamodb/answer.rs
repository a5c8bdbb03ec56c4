//! Responses of DynamoDB: items, scans and errors.

use serde_json::Value;

use crate::store::{Failure, ListedObject, Listing};
use plimsoll_recorder::ErrorClass;
use plimsoll_recorder::Timings;
use plimsoll_s3::checksum::{Algorithm, base64, from_base64};

/// Error codes that mean throttling, although DynamoDB sends them with status 400 (developer guide, "Error
/// handling with DynamoDB").
const THROTTLED: [&str; 3] =
    ["ProvisionedThroughputExceededException", "RequestLimitExceeded", "ThrottlingException"];

/// Parses the JSON of a response, and verifies its CRC32 if it has one.
///
/// # Errors
/// Returns the error that the store reported, or [`ErrorClass::Corrupt`] if the response was damaged.
pub fn read(head: &http::response::Parts, body: &[u8], timings: Timings) -> Result<Value, Failure> {
    let declared = head.headers.get("x-amz-crc32").and_then(|v| v.to_str().ok()?.parse::<u32>().ok());
    let corrupt = |message: &str| Failure::new(ErrorClass::Corrupt, message, timings);
    if let Some(declared) = declared
        && Algorithm::Crc32.of(body) != base64(&declared.to_be_bytes())
    {
        return Err(corrupt("the CRC32 of the response differs from its x-amz-crc32 header"));
    }
    let value: Value = serde_json::from_slice(body).unwrap_or(Value::Null);
    if head.status.is_success() {
        return if value.is_object() { Ok(value) } else { Err(corrupt("the response is not a JSON object")) };
    }
    let code = value["__type"].as_str().and_then(|t| t.rsplit('#').next()).unwrap_or("");
    let message =
        ["message", "Message"].iter().find_map(|name| value[*name].as_str()).unwrap_or("no message");
    // DynamoDB reports throttling as a client error (400); results count it as 429.
    let status = if THROTTLED.contains(&code) { 429 } else { head.status.as_u16() };
    let class = format!("{status} {code}").trim_end().to_string();
    Err(Failure::new(ErrorClass::Response(class), message, timings))
}

/// An item of a table, with the attributes that the request selected.
pub struct Item(Value);

impl Item {
    /// Takes the item from a GetItem response.
    ///
    /// # Errors
    /// Returns `404 NoSuchKey` if the response has no item.
    pub fn of(mut answer: Value, timings: Timings) -> Result<Item, Failure> {
        match answer.get_mut("Item").map(Value::take) {
            Some(item) => Ok(Item(item)),
            None => {
                let class = ErrorClass::Response("404 NoSuchKey".into());
                Err(Failure::new(class, "the table has no item with this key", timings))
            }
        }
    }

    /// Returns the content of the object.
    ///
    /// # Errors
    /// Fails if the item has no binary attribute `content`.
    pub fn content(&self, timings: Timings) -> Result<Vec<u8>, Failure> {
        let text = self.0["content"]["B"].as_str();
        text.and_then(from_base64).ok_or_else(|| {
            let message = "the item has no binary attribute 'content': another program may have written it";
            Failure::new(ErrorClass::Corrupt, message, timings)
        })
    }

    /// Returns the size of the object in bytes; `None` if the item has no numeric attribute `size`.
    pub fn size(&self) -> Option<u64> {
        self.0["size"]["N"].as_str()?.parse().ok()
    }
}

/// Converts a Scan response to a page of at most `most` objects.
///
/// A scan can continue after any item, so the next page starts after the last object returned.
pub fn listing_of(answer: &Value, key: &str, most: usize) -> Listing {
    let listed = |item: &Value| {
        Some(ListedObject {
            key: item[key]["S"].as_str()?.to_string(),
            size: item["size"]["N"].as_str().and_then(|n| n.parse().ok()).unwrap_or(0),
            etag: String::new(),
        })
    };
    let items = answer["Items"].as_array();
    let mut objects: Vec<ListedObject> =
        items.map(|items| items.iter().filter_map(listed).collect()).unwrap_or_default();
    let mut next_token = answer["LastEvaluatedKey"][key]["S"].as_str().map(str::to_string);
    if objects.len() > most {
        objects.truncate(most);
        next_token = objects.last().map(|object| object.key.clone());
    }
    Listing { objects, common_prefixes: Vec::new(), next_token }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(status: u16, crc32: Option<&str>) -> http::response::Parts {
        let mut response = http::Response::builder().status(status);
        if let Some(crc32) = crc32 {
            response = response.header("x-amz-crc32", crc32);
        }
        response.body(()).unwrap().into_parts().0
    }

    #[test]
    fn a_page_of_a_long_scan_ends_with_a_token_for_its_last_key() {
        let items: Vec<Value> = ["c", "a", "b"].map(|key| serde_json::json!({ "k": { "S": key } })).into();
        let answer = serde_json::json!({ "Items": items, "LastEvaluatedKey": { "k": { "S": "z" } } });
        let keys = |most: usize| {
            let page = listing_of(&answer, "k", most);
            (page.objects.into_iter().map(|o| o.key).collect::<Vec<_>>(), page.next_token.unwrap())
        };
        assert_eq!(keys(2), (vec!["c".into(), "a".into()], "a".into()));
        assert_eq!(keys(3), (vec!["c".into(), "a".into(), "b".into()], "z".into()));
    }

    #[test]
    fn throttling_is_counted_as_429_and_is_retryable() {
        let body = br#"{"__type": "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException", "message": "slow"}"#;
        let failure = read(&head(400, None), body, Timings::default()).unwrap_err();
        assert_eq!(failure.class.to_string(), "429 ProvisionedThroughputExceededException");
        assert!(failure.is_retryable());
        let missing = br#"{"__type": "a#ResourceNotFoundException", "message": "no table"}"#;
        let failure = read(&head(400, None), missing, Timings::default()).unwrap_err();
        assert!(failure.is_code("ResourceNotFoundException") && !failure.is_retryable());
    }

    #[test]
    fn the_checksum_detects_a_damaged_response() {
        // CRC-32 of "{}" is 2745614147 (DynamoDB sends it with every empty response).
        assert!(read(&head(200, Some("2745614147")), b"{}", Timings::default()).is_ok());
        let failure = read(&head(200, Some("2745614147")), b"{ }", Timings::default()).unwrap_err();
        assert_eq!(failure.class, ErrorClass::Corrupt);
    }
}
