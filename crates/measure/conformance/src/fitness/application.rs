//! Applications and what they require of a store, as data.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::check::Check;

/// Names and files of the applications that Plimsoll knows.
const APPLICATIONS: [(&str, &str); 16] = [
    ("delta", include_str!("requirements/delta.toml")),
    ("docker-registry", include_str!("requirements/docker-registry.toml")),
    ("elasticsearch", include_str!("requirements/elasticsearch.toml")),
    ("fluent-bit", include_str!("requirements/fluent-bit.toml")),
    ("iceberg", include_str!("requirements/iceberg.toml")),
    ("kopia", include_str!("requirements/kopia.toml")),
    ("litestream", include_str!("requirements/litestream.toml")),
    ("loki", include_str!("requirements/loki.toml")),
    ("nix", include_str!("requirements/nix.toml")),
    ("opentofu", include_str!("requirements/opentofu.toml")),
    ("restic", include_str!("requirements/restic.toml")),
    ("s3-api", include_str!("requirements/s3-api.toml")),
    ("slatedb", include_str!("requirements/slatedb.toml")),
    ("terraform", include_str!("requirements/terraform.toml")),
    ("thanos", include_str!("requirements/thanos.toml")),
    ("velero", include_str!("requirements/velero.toml")),
];

/// Largest file of requirements, in bytes.
const MAX_FILE: u64 = 1 << 20;

/// Importance of a requirement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// The application does not work without it.
    #[default]
    Required,
    /// The application works without it; an option or a recommendation of its documentation does not.
    Recommended,
}

impl Level {
    /// Returns the name for people.
    pub fn name(self) -> &'static str {
        match self {
            Level::Required => "required",
            Level::Recommended => "recommended",
        }
    }
}

/// A requirement of an application.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Requirement {
    /// Check that shows whether a store meets it.
    pub check: Check,
    /// Importance of it.
    #[serde(default)]
    pub level: Level,
    /// Use that the application makes of it.
    pub reason: String,
    /// URL of the documentation or the code that shows this.
    pub source: String,
}

/// File of an application.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ApplicationSpec {
    title: String,
    url: String,
    requirement: Vec<Requirement>,
}

/// An application with its requirements.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Application {
    /// Name by which it is selected.
    pub name: String,
    /// Name for people.
    pub title: String,
    /// Page of its documentation about its store.
    pub url: String,
    /// Requirements, the required ones first.
    pub requirements: Vec<Requirement>,
}

/// Reason why an application is not known.
#[derive(Debug, thiserror::Error)]
pub enum ApplicationError {
    /// There is no application of this name.
    #[error("--for {0}: unknown application; use all, a file such as ./my-app.toml, or {names}", names = names().join(", "))]
    Unknown(String),
    /// The file cannot be read.
    #[error("--for {0}: {1}")]
    File(String, std::io::Error),
    /// The file is invalid.
    #[error("{file}:{line}: {problem}")]
    Invalid {
        /// Name of the file.
        file: String,
        /// Line, counted from 1.
        line: usize,
        /// Description of the error.
        problem: String,
    },
}

/// Returns the names of the applications that Plimsoll knows.
pub fn names() -> Vec<&'static str> {
    APPLICATIONS.iter().map(|(name, _)| *name).collect()
}

/// Returns the applications with these names: `all`, a name, or a path of a TOML file.
///
/// # Errors
/// An [`ApplicationError`] for the first name that is unknown or a file that is invalid.
pub fn applications(written: &[String]) -> Result<Vec<Application>, ApplicationError> {
    let mut found: Vec<Application> = Vec::new();
    let mut add = |application: Application| {
        if !found.iter().any(|known| known.name == application.name) {
            found.push(application);
        }
    };
    for name in written {
        let is_file = name.ends_with(".toml") || name.contains('/');
        match APPLICATIONS.iter().find(|(known, _)| known == name) {
            Some((known, text)) => add(parse(known, known, text)?),
            None if name == "all" => {
                for (known, text) in APPLICATIONS {
                    add(parse(known, known, text)?);
                }
            }
            None if is_file => add(read(name)?),
            None => return Err(ApplicationError::Unknown(name.clone())),
        }
    }
    Ok(found)
}

/// Reads the file of an application.
fn read(path: &str) -> Result<Application, ApplicationError> {
    let failed = |error| ApplicationError::File(path.to_string(), error);
    let bytes = std::fs::metadata(path).map_err(failed)?.len();
    if bytes > MAX_FILE {
        return Err(failed(std::io::Error::other("a file of requirements has at most 1 MiB")));
    }
    let text = std::fs::read_to_string(path).map_err(failed)?;
    let name = Path::new(path).file_stem().map_or(path.into(), |name| name.to_string_lossy());
    parse(&name, path, &text)
}

/// Parses the text of a file.
fn parse(name: &str, file: &str, text: &str) -> Result<Application, ApplicationError> {
    let invalid = |line, problem| ApplicationError::Invalid { file: file.to_string(), line, problem };
    let spec: ApplicationSpec = toml::from_str(text).map_err(|e| {
        let start = e.span().map_or(0, |span| span.start).min(text.len());
        invalid(text[..start].matches('\n').count() + 1, e.message().replace('\n', " "))
    })?;
    let mut requirements = spec.requirement;
    for (number, requirement) in requirements.iter().enumerate() {
        if requirements[..number].iter().any(|other| other.check == requirement.check) {
            return Err(invalid(1, format!("{} is required twice; remove one", requirement.check.name())));
        }
    }
    if requirements.is_empty() {
        return Err(invalid(1, "no requirements; add a table [[requirement]]".into()));
    }
    requirements.sort_by_key(|requirement| (requirement.level != Level::Required, requirement.check));
    Ok(Application { name: name.to_string(), title: spec.title, url: spec.url, requirements })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_application_is_valid_and_has_sources() {
        let all = applications(&["all".into()]).unwrap();
        assert_eq!(all.len(), APPLICATIONS.len());
        let mut sorted = names();
        sorted.sort_unstable();
        assert_eq!(names(), sorted);
        for application in &all {
            assert!(application.url.starts_with("https://"), "{}", application.name);
            for requirement in &application.requirements {
                let (name, check) = (&application.name, requirement.check.name());
                assert!(requirement.source.starts_with("https://"), "{name}, {check}");
                let length = requirement.reason.len();
                assert!((20..=200).contains(&length), "{name}, {check}: reason of {length} bytes");
            }
        }
    }

    #[test]
    fn every_check_is_required_by_an_application() {
        let all = applications(&["all".into()]).unwrap();
        for check in Check::ALL {
            let is_used = all.iter().flat_map(|one| &one.requirements).any(|one| one.check == *check);
            assert!(is_used, "{}", check.name());
        }
    }

    #[test]
    fn invalid_files_are_refused_with_their_line() {
        let error = |text: &str| parse("x", "x.toml", text).unwrap_err().to_string();
        let head = "title = 'x'\nurl = 'https://x'\n";
        let requirement = "[[requirement]]\ncheck = 'range'\nreason = 'r'\nsource = 's'\n";
        assert!(
            error(&format!("{head}[[requirement]]\ncheck = 'ranges'\n"))
                .starts_with("x.toml:4: unknown variant")
        );
        assert!(error(&format!("{head}requirement = []")).contains("no requirements"));
        assert!(error(&format!("{head}{requirement}{requirement}")).contains("range is required twice"));
        assert!(error(&format!("{head}colour = 1")).starts_with("x.toml:3: unknown field"));
        assert!(matches!(applications(&["./none.toml".into()]), Err(ApplicationError::File(..))));
        let unknown = applications(&["opentofuu".into()]).unwrap_err().to_string();
        assert!(unknown.contains("opentofu,"), "{unknown}");
    }
}
