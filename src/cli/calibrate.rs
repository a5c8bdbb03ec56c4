//! x
use super::exit::Exit;
/// x
#[derive(Debug, clap::Args)]
pub struct Arguments {}
/// x
pub fn calibrate(_: &Arguments) -> Result<(), Exit> { Ok(()) }
