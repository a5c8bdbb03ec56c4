//! S3 errors for errors of the catalog.

use plimsoll_server::error::{ApiError, ErrorCode};

use plimsoll_catalog::CatalogError;

/// Failure of a transaction.
#[derive(Debug, thiserror::Error)]
pub enum TransactionError {
    /// The operation was refused, and nothing was written.
    #[error(transparent)]
    Refused(#[from] ApiError),
    /// The catalog failed.
    #[error(transparent)]
    Catalog(CatalogError),
}

impl TransactionError {
    /// Returns true if the transaction has no effect, or if the next transaction sees its effect. After a failure of
    /// its disk, a catalog in a directory cannot know before its next start whether the transaction is durable.
    pub fn is_undone(&self) -> bool {
        use CatalogError::{Changed, Damaged, DiskFull, Ended, Io, Standby, Stopped, Unavailable};
        match self {
            TransactionError::Refused(_) => true,
            // The outcome of `Unavailable` is unknown now, but the next transaction sees it.
            TransactionError::Catalog(DiskFull | Unavailable(_) | Changed | Standby | Ended) => true,
            TransactionError::Catalog(Damaged { .. } | Stopped(_) | Io(_)) => false,
        }
    }
}

impl From<TransactionError> for ApiError {
    fn from(error: TransactionError) -> ApiError {
        match error {
            TransactionError::Refused(error) => error,
            TransactionError::Catalog(error) => report(&error),
        }
    }
}

/// Converts a catalog error to an S3 error, and reports damage and failures on standard error.
pub fn report(error: &CatalogError) -> ApiError {
    // These are states that all requests meet, and each line would repeat the one before.
    if !matches!(error, CatalogError::DiskFull | CatalogError::Standby | CatalogError::Ended) {
        plimsoll_catalog::log::warn(&error.to_string());
    }
    unavailable(error)
}

/// Converts an error of the catalog for a client.
pub fn for_client(error: CatalogError) -> ApiError {
    report(&error)
}

/// Returns the S3 error for a catalog that cannot answer. The client learns no file names.
pub fn unavailable(error: &CatalogError) -> ApiError {
    match error {
        CatalogError::DiskFull => ApiError::new(ErrorCode::InsufficientStorage),
        CatalogError::Damaged { .. } => {
            ApiError::with(ErrorCode::InternalError, "The stored data of this object is damaged.")
        }
        CatalogError::Stopped(_) => ApiError::with(
            ErrorCode::InternalError,
            "The server has stopped writing after a failure of its disk.",
        ),
        CatalogError::Io(_) => ApiError::new(ErrorCode::InternalError),
        CatalogError::Unavailable(_) => {
            ApiError::with(ErrorCode::ServiceUnavailable, "The catalog does not answer. Try again.")
        }
        CatalogError::Ended => {
            ApiError::with(ErrorCode::ServiceUnavailable, "The gateway is shutting down. Try again.")
        }
        CatalogError::Standby => ApiError::with(
            ErrorCode::ServiceUnavailable,
            "This gateway is a standby, which accepts no writes.",
        ),
        CatalogError::Changed => ApiError::with(
            ErrorCode::ServiceUnavailable,
            "The object has changed during the request. Try again.",
        ),
    }
}
