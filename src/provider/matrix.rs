//! The decision matrix of `plimsoll list providers --matrix`: its rows that are stated rather than computed.

use serde::Deserialize;

/// Rows of the decision matrix that a provider's file states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Row {
    /// How much of the S3 API it speaks.
    Compatibility,
    /// Availability that it promises.
    Sla,
    /// Where copies are kept.
    Replication,
    /// What brings objects near their readers.
    Cdn,
    /// What a read sees after a write.
    Consistency,
}

impl Row {
    /// All rows.
    pub const ALL: [Row; 5] = [Row::Compatibility, Row::Sla, Row::Replication, Row::Cdn, Row::Consistency];

    /// Name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Row::Compatibility => "S3 compatibility",
            Row::Sla => "availability SLA",
            Row::Replication => "replication",
            Row::Cdn => "CDN",
            Row::Consistency => "consistency",
        }
    }
}
