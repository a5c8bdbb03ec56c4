//! Rows of the decision matrix (`plimsoll list providers --matrix`) that provider files state. The other rows are
//! computed from the profile.

use serde::Deserialize;

/// A row of the decision matrix whose cells the provider files state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MatrixRow {
    /// Extent of the S3 API that the provider supports.
    Compatibility,
    /// Availability that the provider promises.
    Sla,
    /// Placement of replicas.
    Replication,
    /// Content delivery network that caches objects near their readers.
    Cdn,
    /// Consistency of reads and listings after a write.
    Consistency,
}

impl MatrixRow {
    /// All rows, in the order of the table.
    pub const ALL: [MatrixRow; 5] = [
        MatrixRow::Compatibility,
        MatrixRow::Sla,
        MatrixRow::Replication,
        MatrixRow::Cdn,
        MatrixRow::Consistency,
    ];

    /// Returns the name used in tables.
    pub fn name(self) -> &'static str {
        match self {
            MatrixRow::Compatibility => "S3 compatibility",
            MatrixRow::Sla => "availability SLA",
            MatrixRow::Replication => "replication",
            MatrixRow::Cdn => "CDN",
            MatrixRow::Consistency => "consistency",
        }
    }
}
