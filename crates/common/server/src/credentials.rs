//! Files with secrets: the access keys of clients and their rights.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::accounts::{Account, Accounts, Rights};
use plimsoll_s3::credentials::Credentials;
use serde::Deserialize;

/// The file of access keys as written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CredentialsSpec {
    #[serde(default)]
    public: Vec<String>,
    account: Vec<AccountSpec>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AccountSpec {
    access_key: String,
    secret_key: String,
    #[serde(default = "all")]
    buckets: Vec<String>,
    #[serde(default)]
    write: bool,
}

fn all() -> Vec<String> {
    vec!["*".into()]
}

/// Checks that no other user can read a file with secrets. A file of root that only its group can read, too, is
/// accepted if this process is not root: Kubernetes mounts secrets with these rights (mode 0440, group `fsGroup`).
///
/// # Errors
/// A message for the user if others can read the file, or it cannot be found.
pub fn only_for_owner(path: &Path) -> Result<(), String> {
    let metadata = std::fs::metadata(path).map_err(|e| e.to_string())?;
    if is_secret(&metadata, rustix::process::geteuid().as_raw()) {
        return Ok(());
    }
    Err(format!("other users can read the file; run `chmod 600 {}`", path.display()))
}

/// Returns true if only the owner has rights to a file, or if the file belongs to root, its group can only read it, and
/// `user` is not root.
fn is_secret(file: &Metadata, user: u32) -> bool {
    let others = file.mode() & 0o077;
    others == 0 || (others == 0o040 && file.uid() == 0 && user != 0)
}

/// Reads the accounts in a file. Signatures are verified with the secret itself, so the file cannot contain hashes;
/// other users must not be able to read it.
///
/// # Errors
/// A message for the user if the file cannot be read, is readable by others, or is malformed. It contains no secret.
pub fn load(path: &Path) -> Result<Accounts, String> {
    let name = path.display();
    let fail = |e: std::io::Error| format!("--credentials {name}: {e}");
    only_for_owner(path).map_err(|e| format!("--credentials {name}: {e}"))?;
    let text = std::fs::read_to_string(path).map_err(fail)?;
    // The message of the parser quotes the line, which may contain a secret.
    let file: CredentialsSpec = toml::from_str(&text).map_err(|e| {
        let line = e.span().map_or(0, |span| text[..span.start.min(text.len())].lines().count().max(1));
        format!("--credentials {name}:{line}: {}", e.message())
    })?;
    let mut accounts = Vec::new();
    for entry in file.account {
        if entry.access_key.is_empty() || entry.secret_key.is_empty() {
            return Err(format!("--credentials {name}: an account needs an access_key and a secret_key"));
        }
        if accounts.iter().any(|a: &Account| a.credentials.access_key == entry.access_key) {
            let key = entry.access_key;
            return Err(format!("--credentials {name}: the access key {key} occurs twice"));
        }
        let credentials = Credentials::new(&entry.access_key, &entry.secret_key, None);
        credentials.hide();
        accounts.push(Account { credentials, rights: Rights { buckets: entry.buckets, write: entry.write } });
    }
    if accounts.is_empty() {
        return Err(format!("--credentials {name}: the file has no [[account]]; add one"));
    }
    Ok(Accounts::new(accounts, file.public))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A path in a new directory.
    fn path(name: &str) -> std::path::PathBuf {
        static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let directory = format!("plimsoll-{name}-{}-{number}", std::process::id());
        let directory = std::env::temp_dir().join(directory);
        std::fs::create_dir(&directory).unwrap();
        directory.join("accounts.toml")
    }

    fn loaded(text: &str, mode: u32) -> Result<Accounts, String> {
        let path = path("credentials");
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        load(&path)
    }

    const GOOD: &str = "public = ['web']\n[[account]]\naccess_key = 'a'\nsecret_key = 'topsecret'\nwrite = true\n\
        [[account]]\naccess_key = 'b'\nsecret_key = 's'\nbuckets = ['logs-*']\n";

    #[test]
    fn accounts_have_rights() {
        let accounts = loaded(GOOD, 0o600).unwrap();
        assert_eq!(accounts.owner, "a");
        let b = accounts.find("b").unwrap();
        assert!(b.rights.cover("logs-1") && !b.rights.cover("web") && !b.rights.write);
        assert!(accounts.find("a").unwrap().rights.write && accounts.anonymous().cover("web"));
    }

    #[test]
    fn a_file_that_others_can_read_is_refused() {
        assert!(loaded(GOOD, 0o644).unwrap_err().contains("chmod 600"));
    }

    /// The file belongs to the user who runs the test.
    #[test]
    fn a_group_may_read_a_file_of_root_only() {
        let path = path("group");
        let with = |mode: u32| {
            std::fs::write(&path, GOOD).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            std::fs::metadata(&path).unwrap()
        };
        let is_root = rustix::process::geteuid().is_root();
        assert_eq!(is_secret(&with(0o440), 65_532), is_root);
        for (mode, user) in [(0o440, 0), (0o460, 65_532), (0o444, 65_532), (0o640 | 0o001, 65_532)] {
            assert!(!is_secret(&with(mode), user), "{mode:o} {user}");
        }
    }

    #[test]
    fn messages_contain_no_secret() {
        for wrong in [
            GOOD.replace("write", "wrote"),
            GOOD.replace("'topsecret'", "'topsecret"),
            GOOD.replace("access_key = 'b'", "access_key = 'a'"),
            "account = []".into(),
        ] {
            let message = loaded(&wrong, 0o600).unwrap_err();
            assert!(!message.contains("topsecret") && message.contains("accounts.toml"), "{message}");
        }
    }

    #[test]
    fn the_defaults_of_the_document_are_those_of_the_code() {
        let document = include_str!("../../../../docs/gateway.md");
        let claims = plimsoll_testing::defaults::claims(document);
        let rights = |text: &str| loaded(text, 0o600).unwrap().find("backup").unwrap().rights.clone();
        let claim = |key: &str| claims.iter().find(|claim| claim.line.starts_with(key)).unwrap();
        assert_eq!(rights(&claim("write =").with), rights(&claim("write =").without));
        let all = claim("buckets =").with.replace("\"all\"", "[\"*\"]");
        assert_eq!(rights(&all), rights(&claim("buckets =").without));
    }
}
