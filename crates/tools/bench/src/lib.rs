//! Benches whose dependencies are too heavy for the crates that they measure; see `benches/`.
