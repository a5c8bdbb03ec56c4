//! Parameters of a query.

/// Name and value of a parameter, decoded.
pub type Pair = (String, String);
