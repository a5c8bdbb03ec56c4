//! Amazon DynamoDB as a store of small objects. Each object is an item; its key is the table's hash key and its
//! content a binary attribute (DynamoDB developer guide; API reference of 2012-08-10).
//!
//! The store supports neither byte ranges nor multipart uploads. It lists keys by scanning the table, so they
//! are in no particular order. An item has at most 400 KB, attribute names included.

mod answer;

use std::sync::Arc;

use bytes::Bytes;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderName, HeaderValue};
use serde_json::{Value, json};

use super::http::reading::{Reading, store_clock_s};
use super::http::{
    Destination, HttpTransport, OpenError, Prepared, Route, Sending, Unsent, payload_of, target_of,
};
use super::{
    Body, Capabilities, Connection, Description, ErrorClass, Failure, Local, Observer, Reply, Request, Store,
    Timings,
};
use answer::{Item, listing_of, read};
use plimsoll_base::clock::{SECOND, Timer, now_ns};
use plimsoll_base::net::client_limits::MAX_RESPONSE_BYTES;
use plimsoll_base::net::encode::hex;
use plimsoll_base::provider::calls::Call as BilledCall;
use plimsoll_recorder::store_facts::RelayFacts;
use plimsoll_s3::checksum::base64;
use plimsoll_s3::credentials::CredentialSource;
use plimsoll_s3::sign::{Signer, sha256};
use plimsoll_s3::url::dynamodb::DynamoDbUrl;

/// Maximum size of an item in bytes: 400 KB (DynamoDB developer guide, "Service, account, and table quotas").
const MAX_ITEM_BYTES: u64 = 400 * 1024;
/// Bytes reserved for the key (at most 2,048 bytes), the attribute names and the size attribute.
const OVERHEAD: u64 = 2048 + 64;
/// Maximum size of an object in bytes.
pub const MAX_BYTES: u64 = MAX_ITEM_BYTES - OVERHEAD;
/// Maximum number of items in one BatchWriteItem request.
const MAX_BATCH_ITEMS: usize = 25;

/// A store on a DynamoDB table.
pub struct DynamoDbStore {
    url: Arc<DynamoDbUrl>,
    redacted: String,
    destination: Destination,
    credentials: CredentialSource,
}

impl DynamoDbStore {
    /// Resolves the endpoint and prepares TLS, without connecting.
    ///
    /// # Errors
    /// Returns an [`OpenError`] if the endpoint does not resolve or TLS cannot be set up.
    pub fn open(
        url: DynamoDbUrl,
        redacted: &str,
        credentials: CredentialSource,
        route: Route<'_>,
    ) -> Result<DynamoDbStore, OpenError> {
        let place = &url.endpoint;
        let destination = target_of(&place.host, place.port, place.tls, route)?;
        Ok(DynamoDbStore { url: Arc::new(url), redacted: redacted.to_string(), destination, credentials })
    }
}

impl Store for DynamoDbStore {
    fn describe(&self) -> Description {
        Description {
            url: self.redacted.clone(),
            provider: "aws-dynamodb".into(),
            endpoint: self.url.endpoint.url(),
            addresses: self.destination.addresses(),
            signing: if self.url.consistent { "signed payload, consistent reads" } else { "signed payload" }
                .into(),
        }
    }

    fn connection(&self, index: usize) -> Box<dyn Connection> {
        Box::new(DynamoDbConnection {
            signer: Signer::new(&self.url.endpoint.region, "dynamodb"),
            url: Arc::clone(&self.url),
            credentials: self.credentials.clone(),
            wire: HttpTransport::new(self.destination.clone(), index),
        })
    }

    fn container(&self) -> &str {
        &self.url.endpoint.bucket
    }

    fn relayed(&self) -> Option<RelayFacts> {
        self.destination.seen()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            copies: false,
            start_after: false,
            ranges: false,
            multipart: false,
            max_object_bytes: Some(MAX_BYTES),
            ..Capabilities::default()
        }
    }
}

/// A connection slot of the table.
struct DynamoDbConnection {
    signer: Signer,
    url: Arc<DynamoDbUrl>,
    credentials: CredentialSource,
    wire: HttpTransport,
}

/// A call to the DynamoDB API.
struct Call {
    action: &'static str,
    body: Bytes,
}

/// Returns a failure that Plimsoll itself detected, with the given error class.
fn refused(class: &str, message: String) -> Failure {
    let now = now_ns();
    let timings = Timings { start_ns: now, end_ns: now, ..Timings::default() };
    Failure::new(ErrorClass::Response(class.into()), message, timings)
}

/// A parsed response and the store's clock when it was sent, in Unix seconds.
struct Parsed {
    value: Value,
    store_clock_s: Option<i64>,
}

impl DynamoDbConnection {
    fn call(&self, action: &'static str, mut fields: Value) -> Call {
        fields["TableName"] = self.url.endpoint.bucket.as_str().into();
        Call { action, body: fields.to_string().into() }
    }

    fn key_of(&self, key: &str) -> Value {
        json!({ self.url.key.as_str(): { "S": key } })
    }

    fn prepare(&mut self, call: &Call, tag: Option<&str>) -> Result<Prepared, Failure> {
        let bad = |e: hyper::header::InvalidHeaderValue| refused("400 ValidationException", e.to_string());
        let value = |text: &str| HeaderValue::from_str(text).map_err(bad);
        let payload = hex(&sha256(&call.body));
        let action = format!("DynamoDB_20120810.{}", call.action);
        let credentials = self.credentials.current();
        let authority = self.url.endpoint.authority.clone();
        let mut headers = vec![("host", authority.as_str())];
        if let Some(token) = &credentials.session_token {
            headers.push(("x-amz-security-token", token));
        }
        headers.push(("x-amz-target", &action));
        let signed = self.signer.sign(&credentials, "POST", "/", "", &headers, &payload);
        let mut request = hyper::Request::new(payload_of(Some(Body::Whole(call.body.clone()))));
        *request.method_mut() = hyper::Method::POST;
        *request.uri_mut() = hyper::Uri::from_static("/");
        let out = request.headers_mut();
        out.insert(HOST, value(&authority)?);
        out.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-amz-json-1.0"));
        out.insert(AUTHORIZATION, value(signed.authorization)?);
        out.insert(HeaderName::from_static("x-amz-date"), value(signed.date_time)?);
        for (name, text) in headers.into_iter().filter(|(name, _)| *name != "host") {
            out.insert(HeaderName::from_static(name), value(text)?);
        }
        if let Some(tag) = tag {
            out.insert(HeaderName::from_static("x-plimsoll-tag"), value(tag)?);
        }
        Ok(request.into())
    }

    /// Sends a call and reads the response.
    async fn ask(
        &mut self,
        call: &Call,
        observer: &mut dyn Observer,
        timings: &mut Timings,
    ) -> Result<Parsed, Failure> {
        let prepared = self.prepare(call, observer.tag())?;
        if timings.start_ns == 0 {
            timings.start_ns = now_ns();
            observer.started(timings.start_ns);
        }
        let sending = Sending { bytes: call.body.len() as u64, idempotent: true };
        let mut answer = match self.wire.send(prepared, sending, timings).await {
            Ok(answer) => answer,
            Err(Unsent::Failed(failure)) => return Err(failure),
            Err(Unsent::ConnectionClosed) => {
                let again = self.prepare(call, observer.tag())?;
                self.wire.send_on_new_connection(again, sending, timings).await?
            }
        };
        timings.end_ns = 0;
        let mut reading = Reading { answer: &mut answer, timings, observer };
        reading.begin();
        let stamps = reading.answer.connection.stamps();
        (reading.timings.body_first_ns, reading.timings.body_last_ns) = match call.action {
            "PutItem" => (stamps.first_write.get(), stamps.last_write.get()),
            _ => (stamps.first_read.get(), 0),
        };
        let body = reading.collect(MAX_RESPONSE_BYTES).await;
        if call.action != "PutItem" {
            reading.timings.body_last_ns = reading.answer.connection.stamps().last_read.get();
        }
        reading.end();
        let store_clock_s = store_clock_s(&reading.answer.head);
        let body = body?;
        let value = read(&answer.head.parts(), &body, *timings);
        self.wire.keep(answer);
        Ok(Parsed { value: value?, store_clock_s })
    }

    async fn put(&mut self, key: &str, body: Body, observer: &mut dyn Observer) -> Result<Reply, Failure> {
        if body.len() > MAX_BYTES {
            let text = format!(
                "{} bytes exceed the maximum of {MAX_BYTES} for an item (400 KB including its key)",
                body.len()
            );
            return Err(refused("400 EntityTooLarge", text));
        }
        let content = match &body {
            Body::Whole(data) => base64(data),
            Body::Segmented(_) => {
                let mut data = Vec::with_capacity(body.len() as usize);
                body.pieces().for_each(|piece| data.extend_from_slice(&piece));
                base64(&data)
            }
        };
        let mut item = self.key_of(key);
        item["content"] = json!({ "B": content });
        item["size"] = json!({ "N": body.len().to_string() });
        let call = self.call("PutItem", json!({ "Item": item }));
        let mut timings = Timings::default();
        self.ask(&call, observer, &mut timings).await?;
        Ok(Reply { bytes: body.len(), timings, ..Reply::default() })
    }

    async fn item(
        &mut self,
        key: &str,
        attribute: &str,
        observer: &mut dyn Observer,
        timings: &mut Timings,
    ) -> Result<Item, Failure> {
        let call = self.call(
            "GetItem",
            json!({
                "Key": self.key_of(key),
                "ConsistentRead": self.url.consistent,
                "ProjectionExpression": "#a",
                "ExpressionAttributeNames": { "#a": attribute },
            }),
        );
        let parsed = self.ask(&call, observer, timings).await?;
        Item::of(parsed.value, *timings)
    }

    async fn get(&mut self, key: &str, observer: &mut dyn Observer) -> Result<Reply, Failure> {
        let mut timings = Timings::default();
        let content = self.item(key, "content", observer, &mut timings).await?.content(timings)?;
        observer.piece(&content).map_err(|offset| {
            Failure::new(ErrorClass::Corrupt, format!("content mismatch at byte {offset}"), timings)
        })?;
        Ok(Reply { bytes: content.len() as u64, timings, ..Reply::default() })
    }

    /// Scans until at least one key is found or the table ends.
    async fn list(
        &mut self,
        prefix: &str,
        token: &str,
        most: u32,
        observer: &mut dyn Observer,
    ) -> Result<Reply, Failure> {
        let (mut timings, mut token) = (Timings::default(), token.to_string());
        loop {
            let mut fields = json!({
                "ProjectionExpression": "#k, #s",
                "ExpressionAttributeNames": { "#k": self.url.key, "#s": "size" },
                "ConsistentRead": self.url.consistent,
                // The limit applies before the filter, so a small limit with a filter would return few or no
                // keys per request.
                "Limit": if prefix.is_empty() { most } else { 1000 },
            });
            if !prefix.is_empty() {
                fields["FilterExpression"] = "begins_with(#k, :p)".into();
                fields["ExpressionAttributeValues"] = json!({ ":p": { "S": prefix } });
            }
            if !token.is_empty() {
                fields["ExclusiveStartKey"] = self.key_of(&token);
            }
            let call = self.call("Scan", fields);
            let Parsed { value, store_clock_s } = self.ask(&call, observer, &mut timings).await?;
            let listing = listing_of(&value, &self.url.key, most as usize);
            match &listing.next_token {
                Some(next) if listing.objects.is_empty() => token = next.clone(),
                _ => return Ok(Reply { listing: Some(listing), store_clock_s, timings, ..Reply::default() }),
            }
        }
    }

    async fn delete_many(&mut self, keys: &[String], observer: &mut dyn Observer) -> Result<Reply, Failure> {
        let mut timings = Timings::default();
        for group in keys.chunks(MAX_BATCH_ITEMS) {
            let delete = |key: &String| json!({ "DeleteRequest": { "Key": self.key_of(key) } });
            let mut left: Value = group.iter().map(delete).collect::<Vec<Value>>().into();
            while left.as_array().is_some_and(|l| !l.is_empty()) {
                let table = self.url.endpoint.bucket.clone();
                let fields = json!({ "RequestItems": { table.as_str(): left } });
                let call = Call { action: "BatchWriteItem", body: fields.to_string().into() };
                let parsed = self.ask(&call, observer, &mut timings).await?;
                left = parsed.value["UnprocessedItems"][&table].clone();
            }
        }
        // A batch is billed per item.
        Ok(Reply { timings, also: vec![BilledCall::DeleteObject; keys.len()], ..Reply::default() })
    }

    /// Creates the table and waits until it is active.
    async fn create(&mut self, observer: &mut dyn Observer) -> Result<Reply, Failure> {
        let mut timings = Timings::default();
        let create = self.call(
            "CreateTable",
            json!({
                "AttributeDefinitions": [{ "AttributeName": self.url.key, "AttributeType": "S" }],
                "KeySchema": [{ "AttributeName": self.url.key, "KeyType": "HASH" }],
                "BillingMode": "PAY_PER_REQUEST",
            }),
        );
        self.ask(&create, observer, &mut timings).await?;
        for _ in 0..120 {
            let describe = self.call("DescribeTable", json!({}));
            let description = self.ask(&describe, observer, &mut timings).await?.value;
            if description["Table"]["TableStatus"] == "ACTIVE" {
                return Ok(Reply { timings, ..Reply::default() });
            }
            if let Ok(mut timer) = Timer::new() {
                let _ = timer.until(now_ns() + SECOND / 2).await;
            }
        }
        Err(refused(
            "400 ResourceInUseException",
            "the table was created but did not become active within 60 s".into(),
        ))
    }

    async fn run(&mut self, request: Request<'_>, observer: &mut dyn Observer) -> Result<Reply, Failure> {
        let mut timings = Timings::default();
        let plain = |timings| Ok(Reply { timings, ..Reply::default() });
        match request {
            Request::Put { key, body } => self.put(key, body, observer).await,
            Request::Get { key, range: None } => self.get(key, observer).await,
            Request::Head { key } => {
                let size = self.item(key, "size", observer, &mut timings).await?.size();
                Ok(Reply { size, timings, ..Reply::default() })
            }
            Request::List { prefix, token, max_keys, .. } => {
                self.list(prefix, token, max_keys, observer).await
            }
            Request::Delete { key } => {
                let call = self.call("DeleteItem", json!({ "Key": self.key_of(key.as_str()) }));
                self.ask(&call, observer, &mut timings).await?;
                plain(timings)
            }
            Request::DeleteMany { keys } => self.delete_many(keys.as_slice(), observer).await,
            Request::CheckBucket => {
                let call = self.call("DescribeTable", json!({}));
                self.ask(&call, observer, &mut timings).await?;
                plain(timings)
            }
            Request::CreateBucket => self.create(observer).await,
            Request::DeleteBucket => {
                let call = self.call("DeleteTable", json!({}));
                self.ask(&call, observer, &mut timings).await?;
                plain(timings)
            }
            Request::ListUploads { .. } => plain(timings),
            _ => Err(refused(
                "501 NotImplemented",
                "a table supports neither byte ranges nor multipart uploads".into(),
            )),
        }
    }
}

impl Connection for DynamoDbConnection {
    fn execute<'a>(
        &'a mut self,
        request: Request<'a>,
        observer: &'a mut dyn Observer,
    ) -> Local<'a, Result<Reply, Failure>> {
        Box::pin(self.run(request, observer))
    }

    fn address(&self) -> Option<usize> {
        self.wire.address()
    }
}
