//! Cross-origin requests: the preflight request, and the headers that grant access to a response.

use http::HeaderMap;
use http::request::Parts;

use super::VerifiedCall;
use crate::error::{ApiError, ErrorCode};
use crate::response::{ServerResponse, empty, set};
use crate::route;
use crate::service::ObjectService;

fn header<'a>(parts: &'a Parts, name: &str) -> Option<&'a str> {
    parts.headers.get(name).and_then(|v| v.to_str().ok())
}

/// Handles a preflight request: returns the permissions of the first rule that allows the announced request.
pub async fn preflight<S: ObjectService>(call: &VerifiedCall<'_, S>) -> Result<ServerResponse, ApiError> {
    let missing = |name: &str| {
        ApiError::with(
            ErrorCode::BadRequest,
            format!("Insufficient information. {name} request header needed."),
        )
    };
    let origin = call.header("origin").ok_or_else(|| missing("Origin"))?;
    let method = call.header("access-control-request-method");
    let method = method.ok_or_else(|| missing("Access-Control-Request-Method"))?;
    let named = call.header("access-control-request-headers").unwrap_or("");
    let names: Vec<&str> = named.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
    let bucket = call.bucket().await?;
    let cors = bucket.as_ref().cors.as_ref();
    let rule = cors.and_then(|cors| cors.find(origin, method, &names)).ok_or_else(|| {
        let text = "CORSResponse: This CORS request is not allowed. This is usually because the evalution of Origin, request method / Access-Control-Request-Method or Access-Control-Request-Headers are not whitelisted by the resource's CORS spec.";
        ApiError::with(ErrorCode::AccessDenied, text)
    })?;
    let mut answer = empty(200);
    let headers = answer.headers_mut();
    rule.grant(origin, headers);
    if !names.is_empty() {
        set(headers, "access-control-allow-headers", &names.join(", "));
    }
    if let Some(seconds) = rule.max_age_s {
        set(headers, "access-control-max-age", &seconds.to_string());
    }
    Ok(answer)
}

/// Adds the headers that grant a page of another origin access to the response, if a rule of the bucket allows it.
pub async fn grant<S: ObjectService>(service: &S, parts: &Parts, headers: &mut HeaderMap) {
    if !service.features().bucket_configuration || headers.contains_key("access-control-allow-origin") {
        return;
    }
    let Some(origin) = header(parts, "origin") else { return };
    let Ok(route) = route::route(parts) else { return };
    let Ok(bucket) = service.bucket(&route.bucket).await else { return };
    let cors = bucket.as_ref().cors.as_ref();
    if let Some(rule) = cors.and_then(|cors| cors.find(origin, parts.method.as_str(), &[])) {
        rule.grant(origin, headers);
    }
}
