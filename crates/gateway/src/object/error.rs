//! S3 errors for errors of the catalog.

use plimsoll_server::error::ApiError;

use crate::catalog::CatalogError;

/// Converts a catalog error to an S3 error, and reports damage and failures on standard error.
pub fn report(error: &CatalogError) -> ApiError {
    if !matches!(error, CatalogError::DiskFull) {
        crate::log::warn(&error.to_string());
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
        CatalogError::DiskFull => ApiError::new("InsufficientStorage"),
        CatalogError::Damaged { .. } => {
            ApiError::with("InternalError", "The stored data of this object is damaged.")
        }
        CatalogError::Stopped(_) => {
            ApiError::with("InternalError", "The server has stopped writing after a failure of its disk.")
        }
        CatalogError::Io(_) => ApiError::new("InternalError"),
        CatalogError::Unavailable(_) => {
            ApiError::with("ServiceUnavailable", "The catalog does not answer. Try again.")
        }
        CatalogError::Changed => {
            ApiError::with("ServiceUnavailable", "The object has changed during the request. Try again.")
        }
    }
}
