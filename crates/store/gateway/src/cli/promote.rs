//! `plimsoll-gateway promote`: lets a standby lead.

use clap::Args;

use super::Exit;
use super::admin::client;
use super::out::Output;
use super::place::StoreArguments;
use super::target::Target;
use plimsoll_catalog::ambient::utc_text;

/// Arguments of `plimsoll-gateway promote`.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    pub place: StoreArguments,
}

/// Sends the command to the standby that uses the directory of the catalog.
///
/// # Errors
/// Exit code 2 if no standby uses it, 3 if it ends before the command.
pub fn promote(arguments: &Arguments) -> Result<(), Exit> {
    let place = &arguments.place;
    place.must_exist()?;
    let stream = match place.directory()? {
        Some(catalog) => client::connect(&catalog)?,
        None => None,
    };
    let stream = stream.ok_or_else(|| {
        Exit::input(format!(
            "{}: no gateway follows here; start one with `plimsoll-gateway run --follow`",
            place.name()
        ))
    })?;
    client::execute(stream, client::own_arguments())
}

/// Asks the gateway that leads to end, and waits until this one can lead.
///
/// # Errors
/// Exit code 2 if this gateway is not a standby, 3 if the other one goes on or the place does not answer.
pub fn served(target: &Target, out: &dyn Output) -> Result<(), Exit> {
    let following = target.store.catalog.following();
    let following = following
        .ok_or_else(|| Exit::input(format!("{}: this gateway is not a standby; it leads", target.name)))?;
    let newest = following.promote().map_err(|error| target.fail(&error))?;
    let newest = newest.map_or("nothing".into(), utc_text);
    out.say(&format!("no other gateway leads; this one begins, with everything until {newest}\n"))
}
