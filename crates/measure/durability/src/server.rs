//! Servers that Plimsoll can start: profiles, and commands of the user.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use super::DurabilityError;
use plimsoll_base::net::lasting_port::listen_on_lasting_port;
use plimsoll_base::rng::entropy;

/// Built-in profiles, by name.
const PROFILES: [(&str, &str); 10] = [
    ("ceph", include_str!("servers/ceph.toml")),
    ("garage", include_str!("servers/garage.toml")),
    ("juicefs", include_str!("servers/juicefs.toml")),
    ("minio", include_str!("servers/minio.toml")),
    ("plimsoll-gateway", include_str!("servers/plimsoll-gateway.toml")),
    ("plimsoll-gateway-postgres", include_str!("servers/plimsoll-gateway-postgres.toml")),
    ("rclone", include_str!("servers/rclone.toml")),
    ("s3proxy", include_str!("servers/s3proxy.toml")),
    ("seaweedfs", include_str!("servers/seaweedfs.toml")),
    ("versitygw", include_str!("servers/versitygw.toml")),
];

/// Greatest number of additional ports of a server.
const MORE_PORTS: usize = 9;

/// Commands that start a server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerProfile {
    /// Name for people.
    pub title: String,
    /// Shell command that starts the server in the foreground.
    pub command: String,
    /// Shell command that prepares an empty disk; empty for none.
    #[serde(default)]
    pub setup: String,
    /// Shell command that prints the version; empty for none.
    #[serde(default)]
    pub version: String,
    /// Environment variables of both.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
}

/// Returns the profile with this name, or a profile of a command, which must contain `{dir}` and an address.
///
/// # Errors
/// [`DurabilityError::Server`] if there is no such profile, or the command lacks a placeholder.
pub fn profile(written: &str) -> Result<ServerProfile, DurabilityError> {
    if let Some((_, text)) = PROFILES.iter().find(|(name, _)| *name == written) {
        return toml::from_str(text).map_err(|e| DurabilityError::Server(e.to_string()));
    }
    let has_port = ["{address}", "{port}"].iter().any(|word| written.contains(word));
    if !written.contains("{dir}") || !has_port {
        let names: Vec<&str> = PROFILES.iter().map(|(name, _)| *name).collect();
        return Err(DurabilityError::Server(format!(
            "'{written}' is neither a profile ({}) nor a command with {{dir}} and {{address}} (or {{port}}), such as \
             'minio server {{dir}} --address {{address}}'",
            names.join(", ")
        )));
    }
    let names = [
        ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"),
        ("MINIO_ROOT_USER", "MINIO_ROOT_PASSWORD"),
        ("ROOT_ACCESS_KEY", "ROOT_SECRET_KEY"),
        ("PLIMSOLL_ACCESS_KEY", "PLIMSOLL_SECRET_KEY"),
    ];
    let mut env = BTreeMap::new();
    for (access, secret) in names {
        env.insert(access.to_string(), "{access_key}".to_string());
        env.insert(secret.to_string(), "{secret_key}".to_string());
    }
    // The name of the program: the word after `exec`, or the first one that is no assignment of a variable.
    let words = || written.split_whitespace();
    let executed = words().skip_while(|word| *word != "exec").nth(1);
    let program = executed.or_else(|| words().find(|word| !word.contains('=')));
    let title = program.and_then(|program| Path::new(program).file_name());
    let title = title.map_or_else(|| "the server".into(), |name| name.to_string_lossy().into_owned());
    Ok(ServerProfile { title, command: written.into(), setup: String::new(), version: String::new(), env })
}

/// Values of the placeholders of a profile.
#[derive(Debug, Clone, Default)]
pub struct Placeholders(Vec<(String, String)>);

/// Address and credentials of a server.
#[derive(Debug, Clone)]
pub struct Access {
    /// Port on 127.0.0.1.
    pub port: u16,
    /// Access key of the server.
    pub access_key: String,
    /// Secret key of the server.
    pub secret_key: String,
}

impl Access {
    /// Chooses free ports and new credentials; returns them with the placeholders for a disk in `dir`.
    ///
    /// # Errors
    /// [`DurabilityError::System`] if there is no free port.
    pub fn choose(dir: &Path) -> Result<(Access, Placeholders), DurabilityError> {
        // All ports are open at the same time, so they differ.
        let listeners = (0..=MORE_PORTS).map(|_| listen_on_lasting_port());
        let listeners = listeners.collect::<Result<Vec<_>, _>>()?;
        let ports = listeners.iter().map(|listener| Ok(listener.local_addr()?.port()));
        let ports = ports.collect::<std::io::Result<Vec<u16>>>()?;
        let access = Access {
            port: ports[0],
            access_key: format!("plimsoll{:08x}", entropy() as u32),
            secret_key: format!("{:016x}{:016x}", entropy(), entropy()),
        };
        let mut values = vec![
            ("{dir}".to_string(), dir.display().to_string()),
            ("{address}".into(), format!("127.0.0.1:{}", access.port)),
            ("{port}".into(), access.port.to_string()),
            ("{access_key}".into(), access.access_key.clone()),
            ("{secret_key}".into(), access.secret_key.clone()),
        ];
        values.extend(
            ports[1..].iter().enumerate().map(|(i, port)| (format!("{{port{}}}", i + 1), port.to_string())),
        );
        Ok((access, Placeholders(values)))
    }
}

impl Placeholders {
    /// Replaces the placeholders in a text.
    pub fn fill(&self, text: &str) -> String {
        self.0.iter().fold(text.to_string(), |text, (name, value)| text.replace(name, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_profiles_are_valid() {
        for (name, _) in PROFILES {
            let profile = profile(name).unwrap();
            let (access, values) = Access::choose(Path::new("/disk")).unwrap();
            let text = format!("{}{}{:?}", profile.setup, profile.command, profile.env);
            let text = values.fill(&text);
            assert!(text.contains("/disk") && text.contains(&access.port.to_string()), "{name}: {text}");
            assert!(text.contains(&access.secret_key), "{name}: {text}");
        }
    }

    #[test]
    fn a_command_without_a_directory_is_refused() {
        for written in ["minioo", "minio server --address {address}", "minio server {dir}"] {
            assert!(profile(written).is_err(), "{written}");
        }
        for written in
            ["A=1 exec /opt/bin/s3d {dir} {port}", "export A=1; exec s3d {dir} {port}", "s3d {dir} {port}"]
        {
            assert_eq!(profile(written).unwrap().title, "s3d", "{written}");
        }
    }
}
