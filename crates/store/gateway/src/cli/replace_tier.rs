//! `plimsoll-gateway replace-tier`: accepts that the bytes of a tier are lost, and that the place in the settings is
//! new.

use std::path::PathBuf;

use clap::Args;

use super::Exit;
use super::backup_place::runtime;
use super::out::say;
use super::ownership::advice;
use super::place::StoreArguments;
use plimsoll_objects::owner;
use plimsoll_objects::owner::claim::{Claim, inspect, refused, take_free};

/// Arguments of `plimsoll-gateway replace-tier`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Settings of the gateway, a TOML file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Name of the tier, whose URL in FILE is the new place
    #[arg(long, value_name = "NAME")]
    tier: String,
}

/// Records the catalog as the owner of the new place of a tier.
///
/// # Errors
/// Exit code 2 for invalid arguments, 3 if the place belongs to something else or fails.
pub fn replace_tier(arguments: &Arguments) -> Result<(), Exit> {
    let place = StoreArguments::of_file(&arguments.file);
    let name = &arguments.tier;
    place.must_exist()?;
    let config = place.config()?;
    if !config.tiers.contains_key(name) {
        let names: Vec<&str> = config.tiers.keys().map(String::as_str).collect();
        return Err(Exit::input(format!(
            "--tier {name}: there is no such tier; the tiers are {}",
            names.join(", ")
        )));
    }
    let (_snapshot, opened) = place.open_copy(config)?;
    let identity = owner::read(&*opened.catalog).map_err(|e| place.fail(&e))?;
    let identity =
        identity.ok_or_else(|| place.fail(&"the catalog has no id yet; start the gateway once"))?;
    let tiers = opened.bodies.blobs.tiers();
    let tier = tiers.iter().map(|(_, tier)| tier).find(|tier| tier.name == *name);
    let tier = tier.ok_or_else(|| place.fail(&format!("tier {name} cannot be opened")))?;
    let runtime = runtime()?;
    let claim = runtime.block_on(inspect(tier, &identity)).map_err(|e| place.fail(&e))?;
    let text = match &claim {
        Claim::Free => {
            runtime.block_on(take_free(tier, &identity)).map_err(|e| place.fail(&e))?;
            format!(
                "tier {name} has a new place; the blobs that were only in the old one are lost: see `scrub`\n"
            )
        }
        Claim::Own(_) => format!("tier {name} has its record already; nothing was changed\n"),
        Claim::Foreign(_) | Claim::Newer(_) => {
            let error = refused(tier, &identity, &claim);
            let text = error.map_or_else(String::new, |error| format!("{error}. {}", advice(&place, &error)));
            return Err(place.fail(&text));
        }
    };
    opened.catalog.close().map_err(|e| place.fail(&e))?;
    say(&text)
}
