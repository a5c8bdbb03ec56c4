//! Relays of a run: each store of an experiment is measured through each relay, under the name of its place.

use super::error::RunError;
use super::open::{add_tables, mapping};
use plimsoll_experiment::Experiment;
use plimsoll_experiment::spec::NamedStore;
use plimsoll_s3::url::s3::BINDING;

/// Relays and the names of their places.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Relays(Vec<(String, String)>);

impl Relays {
    /// Parses relays, each as `URL` or `PLACE=URL`. The default name of a place is the first label of the host.
    ///
    /// # Errors
    /// [`RunError::Input`] if two places have the same name.
    pub fn parse(written: &[String]) -> Result<Relays, RunError> {
        let mut relays: Vec<(String, String)> = Vec::new();
        for text in written {
            let (place, url) = match mapping(text) {
                Some((place, url)) => (place.to_string(), url),
                None => (label(text), text.as_str()),
            };
            if relays.iter().any(|(known, _)| *known == place) {
                return Err(RunError::input(format!(
                    "--relay {text}: two places are called '{place}'; name them, as in fra={url}"
                )));
            }
            relays.push((place, url.to_string()));
        }
        Ok(Relays(relays))
    }

    /// Returns true if there is no relay.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds the R2 bucket that is bound to the relays, if an experiment has no store.
    pub fn add_binding(&self, experiment: &mut Experiment) {
        if !self.is_empty() && experiment.stores.is_empty() {
            experiment.stores.push(format!("s3://bound-bucket?endpoint={BINDING}"));
        }
    }

    /// Replaces each store of an experiment by one for each relay.
    ///
    /// # Errors
    /// [`RunError::Input`] if `plimsoll.toml` is invalid.
    pub fn apply(&self, experiment: &mut Experiment) -> Result<(), RunError> {
        if self.is_empty() {
            return Ok(());
        }
        add_tables(experiment)?;
        let stores = std::mem::take(&mut experiment.stores);
        for (number, store) in stores.iter().enumerate() {
            let table = experiment.named.get(store).cloned();
            let table = table.unwrap_or_else(|| NamedStore { url: store.clone(), ..NamedStore::default() });
            for (place, url) in &self.0 {
                let name = match (stores.len(), store.contains(':')) {
                    (1, _) => place.clone(),
                    (_, true) => format!("{place}-{}", number + 1),
                    (_, false) => format!("{place}-{store}"),
                };
                experiment
                    .named
                    .insert(name.clone(), NamedStore { relay: Some(url.clone()), ..table.clone() });
                experiment.stores.push(name);
            }
        }
        Ok(())
    }
}

/// Returns the first label of a URL's host, or the whole host if it is an address.
fn label(url: &str) -> String {
    let host = url.split_once("://").map_or(url, |(_, rest)| rest);
    let host = host.split(['/', ':']).next().unwrap_or(host);
    let address = host.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let label = if address { host } else { host.split('.').next().unwrap_or(host) };
    let label: String = label.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    if label.is_empty() { "relay".into() } else { label }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn relays(written: &[&str]) -> Result<Relays, String> {
        Relays::parse(&written.iter().map(ToString::to_string).collect::<Vec<_>>()).map_err(|e| e.to_string())
    }

    fn experiment_on(stores: &[&str]) -> Experiment {
        let text = "name = 'e'\n[[phase]]\nname = 'p'\noperations = { put = 1 }\nobjects = { count = 1, size = '1 KiB' }\n\
                    concurrency = 1\nduration = '1s'\n";
        let stores = stores.iter().map(ToString::to_string).collect();
        Experiment { stores, ..plimsoll_experiment::resolve::parse("e", text, &[]).unwrap() }
    }

    #[test]
    fn each_store_is_measured_in_each_place() {
        let relays = relays(&["fra=https://a.example", "https://lambda-x.on.aws/"]).unwrap();
        let mut experiment = experiment_on(&[]);
        relays.add_binding(&mut experiment);
        relays.apply(&mut experiment).unwrap();
        assert_eq!(experiment.stores, ["fra", "lambda-x"]);
        assert_eq!(experiment.named["fra"].url, "s3://bound-bucket?endpoint=binding");
        assert_eq!(experiment.named["lambda-x"].relay.as_deref(), Some("https://lambda-x.on.aws/"));
        let mut two = experiment_on(&["s3://a", "s3://b"]);
        relays.apply(&mut two).unwrap();
        assert_eq!(two.stores, ["fra-1", "lambda-x-1", "fra-2", "lambda-x-2"]);
        assert_eq!(two.named["fra-2"].url, "s3://b");
    }

    #[test]
    fn places_with_the_same_name_are_refused() {
        let error = relays(&["http://127.0.0.1:1", "http://127.0.0.1:2"]).unwrap_err();
        assert!(error.contains("called '127-0-0-1'"), "{error}");
    }
}
