//! Checks that `schema/*.schema.json` match the types in the code, and that the files of the project match the schemas.

use crate::support::repository;

use plimsoll_cost::{bills, book};
use plimsoll_experiment::to_toml::to_toml;
use plimsoll_experiment::{BUILT_IN, load, spec};
use plimsoll_judge::summary::result::{RunResult, schema};

#[test]
fn the_published_schemas_are_current() {
    for (name, current) in [
        ("result", schema()),
        ("experiment", spec::schema()),
        ("prices", book::schema()),
        ("bills", bills::schema()),
    ] {
        let path = repository(&format!("schema/{name}.schema.json"));
        if std::env::var_os("UPDATE_SCHEMA").is_some() {
            std::fs::write(&path, &current).unwrap();
        }
        let published = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(published == current, "run `make schema` and commit {name}.schema.json");
    }
}

#[test]
fn built_in_experiments_match_the_schema_and_misspelt_ones_do_not() {
    let validator = jsonschema::validator_for(&serde_json::from_str(&spec::schema()).unwrap()).unwrap();
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
fn an_empty_result_matches_the_schema_and_an_invalid_one_does_not() {
    let validator = jsonschema::validator_for(&serde_json::from_str(&schema()).unwrap()).unwrap();
    let mut value = serde_json::to_value(RunResult::default()).unwrap();
    assert!(validator.is_valid(&value));
    value["run"]["seed"] = "forty-two".into();
    assert!(!validator.is_valid(&value));
}

#[test]
fn price_books_match_the_schema_and_misspelt_ones_do_not() {
    let validator = jsonschema::validator_for(&serde_json::from_str(&book::schema()).unwrap()).unwrap();
    let mut seen = 0;
    for directory in ["crates/price/cost/prices", "crates/price/cost/published/prices"] {
        for file in std::fs::read_dir(repository(directory)).unwrap() {
            let path = file.unwrap().path();
            let value: serde_json::Value = toml::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
            let errors: Vec<String> = validator.iter_errors(&value).map(|e| e.to_string()).collect();
            assert!(errors.is_empty(), "{}: {errors:?}", path.display());
            seen += 1;
        }
    }
    assert!(seen >= 14);
    let wrong: serde_json::Value =
        toml::from_str("title = 'x'\n[[price]]\noffers = ['a']\nusd = 0.5").unwrap();
    assert!(!validator.is_valid(&wrong));
}
