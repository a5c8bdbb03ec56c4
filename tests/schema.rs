//! `schema/result.schema.json` and `schema/experiment.schema.json` are what the code writes and reads, and what it writes fits them.

use std::path::Path;

use plimsoll::experiment::back::to_toml;
use plimsoll::experiment::{BUILT_IN, load, written};
use plimsoll::summary::result::{RunResult, schema};

#[test]
fn the_published_schemas_are_current() {
    for (name, current) in [("result", schema()), ("experiment", written::schema())] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("schema/{name}.schema.json"));
        if std::env::var_os("UPDATE_SCHEMA").is_some() {
            std::fs::write(&path, &current).unwrap();
        }
        let published = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(published == current, "run `make schema` and commit {name}.schema.json");
    }
}

#[test]
fn built_in_experiments_fit_the_schema_and_misspelt_ones_do_not() {
    let validator = jsonschema::validator_for(&serde_json::from_str(&written::schema()).unwrap()).unwrap();
    for (name, text) in BUILT_IN {
        for text in [(*text).to_string(), to_toml(&load(name, &[]).unwrap())] {
            let value: serde_json::Value = toml::from_str(&text).unwrap();
            let errors: Vec<String> = validator.iter_errors(&value).map(|e| e.to_string()).collect();
            assert!(errors.is_empty(), "{name}: {errors:?}");
        }
    }
    let wrong: serde_json::Value = toml::from_str("name = 'x'\nrepeat = 3\n").unwrap();
    assert!(!validator.is_valid(&wrong));
}

#[test]
fn an_empty_result_fits_and_a_wrong_one_does_not() {
    let validator = jsonschema::validator_for(&serde_json::from_str(&schema()).unwrap()).unwrap();
    let mut value = serde_json::to_value(RunResult::default()).unwrap();
    assert!(validator.is_valid(&value));
    value["run"]["seed"] = "forty-two".into();
    assert!(!validator.is_valid(&value));
}
