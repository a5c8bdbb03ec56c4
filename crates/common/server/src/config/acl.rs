//! Canned access control lists of buckets and objects (S3 user guide, "Access control list (ACL) overview").

use serde::{Deserialize, Serialize};

use crate::error::{ApiError, ErrorCode};
use plimsoll_s3::xml::{Element, XmlWriter};

/// Group of all clients, also those without a signature.
const ALL_USERS: &str = "http://acs.amazonaws.com/groups/global/AllUsers";
/// Group of all accounts.
const AUTHENTICATED_USERS: &str = "http://acs.amazonaws.com/groups/global/AuthenticatedUsers";
/// Attributes of a grantee; the type follows.
const GROUP: &str = "xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" xsi:type=\"Group\"";
const USER: &str = "xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" xsi:type=\"CanonicalUser\"";

/// A canned access control list. The owner always has full control.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum CannedAcl {
    /// Nobody else has access.
    #[default]
    Private,
    /// Everybody may read.
    PublicRead,
    /// Everybody may read and write.
    PublicReadWrite,
    /// All accounts may read.
    AuthenticatedRead,
}

impl CannedAcl {
    /// All lists, in the order of their numbers.
    pub const ALL: [CannedAcl; 4] =
        [CannedAcl::Private, CannedAcl::PublicRead, CannedAcl::PublicReadWrite, CannedAcl::AuthenticatedRead];

    /// Returns the list with this name. The bucket owner owns all objects, so lists that grant access to the bucket
    /// owner are private.
    ///
    /// # Errors
    /// Returns `InvalidArgument` for an unknown name, or `NotImplemented` for a list of another service.
    pub fn from_name(name: &str) -> Result<CannedAcl, ApiError> {
        Ok(match name {
            "private" | "bucket-owner-read" | "bucket-owner-full-control" => CannedAcl::Private,
            "public-read" => CannedAcl::PublicRead,
            "public-read-write" => CannedAcl::PublicReadWrite,
            "authenticated-read" => CannedAcl::AuthenticatedRead,
            "aws-exec-read" | "log-delivery-write" => {
                let text = format!("This server does not implement x-amz-acl: {name}");
                return Err(ApiError::with(ErrorCode::NotImplemented, text));
            }
            _ => return Err(ApiError::new(ErrorCode::InvalidArgument)),
        })
    }

    /// Returns true if a client that is not the owner may read or, with `write`, write.
    pub fn allows(self, write: bool, is_authenticated: bool) -> bool {
        match self {
            CannedAcl::Private => false,
            CannedAcl::PublicRead => !write,
            CannedAcl::PublicReadWrite => true,
            CannedAcl::AuthenticatedRead => !write && is_authenticated,
        }
    }

    /// Returns the grants to others: the group, and the permission.
    fn grants(self) -> &'static [(&'static str, &'static str)] {
        match self {
            CannedAcl::Private => &[],
            CannedAcl::PublicRead => &[(ALL_USERS, "READ")],
            CannedAcl::PublicReadWrite => &[(ALL_USERS, "READ"), (ALL_USERS, "WRITE")],
            CannedAcl::AuthenticatedRead => &[(AUTHENTICATED_USERS, "READ")],
        }
    }

    /// Returns the list as an `AccessControlPolicy` document.
    pub fn to_xml(self, owner: &str) -> String {
        let mut writer = XmlWriter::new("AccessControlPolicy");
        writer.open("Owner").text("ID", owner).text("DisplayName", owner).close();
        writer.open("AccessControlList");
        for (group, permission) in self.grants() {
            writer.open("Grant").open_with("Grantee", GROUP).text("URI", group).close();
            writer.text("Permission", permission).close();
        }
        writer.open("Grant");
        writer.open_with("Grantee", USER).text("ID", owner).text("DisplayName", owner).close();
        writer.text("Permission", "FULL_CONTROL").close();
        writer.close();
        writer.finish()
    }

    /// Parses an `AccessControlPolicy` document that is equal to a canned list.
    ///
    /// # Errors
    /// Returns `MalformedACLError`, or `NotImplemented` for any other list.
    pub fn parse(document: &[u8], owner: &str) -> Result<CannedAcl, ApiError> {
        let malformed = || ApiError::new(ErrorCode::MalformedACLError);
        let root = Element::parse(document).map_err(|_| malformed())?;
        let list = root.child("AccessControlList").filter(|_| root.name == "AccessControlPolicy");
        let mut grants = Vec::new();
        let mut owner_controls = false;
        for grant in list.ok_or_else(malformed)?.all("Grant") {
            let grantee = grant.child("Grantee").ok_or_else(malformed)?;
            let permission = grant.text_of("Permission").ok_or_else(malformed)?.trim().to_string();
            match grantee.text_of("URI") {
                Some(group) => grants.push((group.trim().to_string(), permission)),
                None if grantee.text_of("ID") == Some(owner) && permission == "FULL_CONTROL" => {
                    owner_controls = true;
                }
                None => grants.push((String::new(), permission)),
            }
        }
        grants.sort();
        let equals = |acl: &CannedAcl| {
            acl.grants().iter().copied().eq(grants.iter().map(|(g, p)| (g.as_str(), p.as_str())))
        };
        let found = CannedAcl::ALL.into_iter().find(equals).filter(|_| owner_controls);
        found.ok_or_else(|| {
            ApiError::with(
                ErrorCode::NotImplemented,
                "This server implements only canned access control lists",
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canned_lists_survive_a_round_trip() {
        for acl in CannedAcl::ALL {
            assert_eq!(CannedAcl::parse(acl.to_xml("me").as_bytes(), "me"), Ok(acl));
        }
        let other = CannedAcl::Private.to_xml("other");
        assert_eq!(CannedAcl::parse(other.as_bytes(), "me").unwrap_err().code, ErrorCode::NotImplemented);
        assert_eq!(CannedAcl::parse(b"<x/>", "me").unwrap_err().code, ErrorCode::MalformedACLError);
    }

    #[test]
    fn lists_allow_what_their_names_say() {
        use CannedAcl as A;
        assert!(!A::Private.allows(false, true) && A::PublicRead.allows(false, false));
        assert!(!A::PublicRead.allows(true, true) && A::PublicReadWrite.allows(true, false));
        assert!(A::AuthenticatedRead.allows(false, true) && !A::AuthenticatedRead.allows(false, false));
    }
}
