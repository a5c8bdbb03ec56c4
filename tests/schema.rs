//! `schema/result.schema.json` is what the code writes, and what the code writes fits it.

use std::path::Path;

use plimsoll::summary::result::{RunResult, schema};

#[test]
fn the_published_schema_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("schema/result.schema.json");
    if std::env::var_os("UPDATE_SCHEMA").is_some() {
        std::fs::write(&path, schema()).unwrap();
    }
    assert!(
        std::fs::read_to_string(&path).unwrap_or_default() == schema(),
        "run `make schema` and commit the file"
    );
}

#[test]
fn an_empty_result_fits_and_a_wrong_one_does_not() {
    let validator = jsonschema::validator_for(&serde_json::from_str(&schema()).unwrap()).unwrap();
    let mut value = serde_json::to_value(RunResult::default()).unwrap();
    assert!(validator.is_valid(&value));
    value["run"]["seed"] = "forty-two".into();
    assert!(!validator.is_valid(&value));
}
