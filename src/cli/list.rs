//! `plimsoll list`: what is built in.

use clap::{Args, ValueEnum};

use super::exit::Exit;
use crate::experiment::{BUILT_IN, load};

/// Arguments of `plimsoll list`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// What to list
    #[arg(value_enum)]
    what: What,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum What {
    /// Experiments that `plimsoll run` knows by name
    Experiments,
}

/// Lists.
///
/// # Errors
/// Never, unless a built-in file is broken.
pub fn list(arguments: &Arguments) -> Result<(), Exit> {
    match arguments.what {
        What::Experiments => {
            for (name, _) in BUILT_IN {
                println!("{name:16} {}", load(name, &[]).map_err(Exit::input)?.description);
            }
        }
    }
    Ok(())
}
