//! Runs unmeasured requests to their end on a runtime of their own.

use super::error::RunError;

/// Blocks on a future until it is ready and returns its output.
///
/// # Errors
/// [`RunError::Store`] if the system refuses the runtime.
pub fn block_on<T>(future: impl Future<Output = T>) -> Result<T, RunError> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(RunError::store)?;
    Ok(runtime.block_on(future))
}
