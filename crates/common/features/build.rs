//! Does nothing. Cargo resolves the features of build dependencies only for packages with a build script.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
}
