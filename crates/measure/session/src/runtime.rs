//! Runs unmeasured requests to completion on a temporary runtime.

use super::error::RunError;

/// Blocks on a future until it is ready and returns its output.
///
/// # Errors
/// [`RunError::Store`] if the runtime cannot be created.
pub fn block_on<T>(future: impl Future<Output = T>) -> Result<T, RunError> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(RunError::store)?;
    Ok(runtime.block_on(future))
}
