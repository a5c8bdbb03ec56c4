//! Cross-origin resource sharing: rules of a bucket that let web pages of other origins send requests (S3 user guide,
//! "Using cross-origin resource sharing"; Fetch standard, "CORS protocol").

use http::{HeaderMap, HeaderValue};
use serde::{Deserialize, Serialize};

use crate::error::{ApiError, ErrorCode};
use crate::response::set;
use plimsoll_s3::xml::{Element, XmlWriter};

/// Maximum number of rules in a bucket.
const MAX_RULES: usize = 100;
/// Methods that a rule may allow.
const METHODS: [&str; 5] = ["GET", "PUT", "POST", "DELETE", "HEAD"];

/// The CORS rules of a bucket.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cors {
    /// Rules; the first that matches a request applies.
    pub rules: Vec<CorsRule>,
}

/// One CORS rule.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CorsRule {
    /// Name of the rule; `None` if it has none.
    pub id: Option<String>,
    /// Allowed origins; each may contain one `*`.
    pub origins: Vec<String>,
    /// Methods that the rule allows.
    pub methods: Vec<String>,
    /// Headers that a preflight request may name; each may contain one `*`.
    pub headers: Vec<String>,
    /// Response headers that a page may read.
    pub exposed: Vec<String>,
    /// Time in seconds for which a browser may cache the result of a preflight request.
    pub max_age_s: Option<u32>,
}

/// Returns true if `text` matches `pattern`, in which one `*` stands for any text.
fn matches(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((start, end)) => {
            text.len() >= start.len() + end.len() && text.starts_with(start) && text.ends_with(end)
        }
    }
}

impl Cors {
    /// Parses a `CORSConfiguration` document.
    ///
    /// # Errors
    /// Returns `MalformedXML`, or `InvalidRequest` for a rule that S3 does not accept.
    pub fn parse(document: &[u8]) -> Result<Cors, ApiError> {
        let malformed = || ApiError::new(ErrorCode::MalformedXML);
        let root = Element::parse(document).map_err(|_| malformed())?;
        let rules: Vec<&Element> = root.all("CORSRule").collect();
        if root.name != "CORSConfiguration" || rules.is_empty() || rules.len() > MAX_RULES {
            return Err(malformed());
        }
        let invalid = |text: String| Err(ApiError::with(ErrorCode::InvalidRequest, text));
        let mut out = Cors::default();
        for element in rules {
            let list = |name: &str| element.all(name).map(|e| e.text.trim().to_string()).collect::<Vec<_>>();
            let max_age = element.text_of("MaxAgeSeconds").map(|text| text.trim().parse::<u32>());
            let rule = CorsRule {
                id: element.text_of("ID").map(str::to_string),
                origins: list("AllowedOrigin"),
                methods: list("AllowedMethod"),
                headers: list("AllowedHeader"),
                exposed: list("ExposeHeader"),
                max_age_s: max_age.transpose().map_err(|_| malformed())?,
            };
            if rule.origins.is_empty() || rule.methods.is_empty() {
                return Err(malformed());
            }
            if let Some(method) = rule.methods.iter().find(|m| !METHODS.contains(&m.as_str())) {
                return invalid(format!(
                    "Found unsupported HTTP method in CORS config. Unsupported method is {method}"
                ));
            }
            let wild = |text: &&String| text.matches('*').count() > 1;
            if let Some(origin) = rule.origins.iter().find(wild) {
                return invalid(format!("AllowedOrigin \"{origin}\" can not have more than one wildcard."));
            }
            if let Some(header) = rule.headers.iter().find(wild) {
                return invalid(format!("AllowedHeader \"{header}\" can not have more than one wildcard."));
            }
            out.rules.push(rule);
        }
        Ok(out)
    }

    /// Returns the rules as a `CORSConfiguration` document.
    pub fn to_xml(&self) -> String {
        let mut writer = XmlWriter::new("CORSConfiguration");
        for rule in &self.rules {
            writer.open("CORSRule");
            if let Some(id) = &rule.id {
                writer.text("ID", id);
            }
            for (name, values) in [
                ("AllowedMethod", &rule.methods),
                ("AllowedOrigin", &rule.origins),
                ("AllowedHeader", &rule.headers),
                ("ExposeHeader", &rule.exposed),
            ] {
                for value in values {
                    writer.text(name, value);
                }
            }
            if let Some(seconds) = rule.max_age_s {
                writer.text("MaxAgeSeconds", &seconds.to_string());
            }
            writer.close();
        }
        writer.finish()
    }

    /// Returns the first rule that allows a method from an origin and, for a preflight request, the headers that it
    /// names.
    pub fn find(&self, origin: &str, method: &str, headers: &[&str]) -> Option<&CorsRule> {
        let allows_header = |rule: &CorsRule, header: &str| {
            rule.headers
                .iter()
                .any(|pattern| matches(&pattern.to_ascii_lowercase(), &header.trim().to_ascii_lowercase()))
        };
        self.rules.iter().find(|rule| {
            rule.origins.iter().any(|pattern| matches(pattern, origin))
                && rule.methods.iter().any(|m| m == method)
                && headers.iter().all(|header| allows_header(rule, header))
        })
    }
}

impl CorsRule {
    /// Adds the response headers that grant access to a page of `origin`.
    pub fn grant(&self, origin: &str, headers: &mut HeaderMap) {
        let any = self.origins.iter().any(|pattern| pattern == "*");
        set(headers, "access-control-allow-origin", if any { "*" } else { origin });
        set(headers, "access-control-allow-methods", &self.methods.join(", "));
        if !any {
            headers.insert("access-control-allow-credentials", HeaderValue::from_static("true"));
        }
        if !self.exposed.is_empty() {
            set(headers, "access-control-expose-headers", &self.exposed.join(", "));
        }
        let varies = "Origin, Access-Control-Request-Headers, Access-Control-Request-Method";
        headers.insert("vary", HeaderValue::from_static(varies));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_matching_rule_applies() {
        let document = b"<CORSConfiguration><CORSRule><AllowedOrigin>http://*.example.com</AllowedOrigin>\
            <AllowedMethod>GET</AllowedMethod><AllowedHeader>x-amz-*</AllowedHeader></CORSRule>\
            <CORSRule><AllowedOrigin>*</AllowedOrigin><AllowedMethod>PUT</AllowedMethod></CORSRule></CORSConfiguration>";
        let cors = Cors::parse(document).unwrap();
        assert_eq!(Cors::parse(cors.to_xml().as_bytes()).unwrap(), cors);
        let found = |origin, method, headers: &[&str]| {
            cors.find(origin, method, headers).map(|rule| rule.methods[0].as_str())
        };
        assert_eq!(found("http://a.example.com", "GET", &["X-Amz-Date"]), Some("GET"));
        assert_eq!(found("http://a.example.com", "GET", &["authorization"]), None);
        assert_eq!(found("http://example.com", "GET", &[]), None);
        assert_eq!(found("http://anything", "PUT", &[]), Some("PUT"));
    }

    #[test]
    fn invalid_rules_are_rejected() {
        let code = |origin: &str, method: &str| {
            let rule =
                format!("<AllowedOrigin>{origin}</AllowedOrigin><AllowedMethod>{method}</AllowedMethod>");
            let document = format!("<CORSConfiguration><CORSRule>{rule}</CORSRule></CORSConfiguration>");
            Cors::parse(document.as_bytes()).map(|_| ()).map_err(|e| e.code.name())
        };
        assert_eq!(code("*", "GET"), Ok(()));
        assert_eq!(code("*.*", "GET"), Err("InvalidRequest"));
        assert_eq!(code("*", "PATCH"), Err("InvalidRequest"));
        assert_eq!(Cors::parse(b"<CORSConfiguration/>").unwrap_err().code, ErrorCode::MalformedXML);
    }
}
