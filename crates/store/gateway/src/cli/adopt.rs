//! `plimsoll-gateway adopt`: takes over the objects of an existing bucket.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use plimsoll_server::config::acl::CannedAcl;
use plimsoll_server::ops::may_be_created;
use plimsoll_server::reserve::Memory;
use plimsoll_server::service::{NewBucket, ObjectService};

use super::Exit;
use super::opened::Opened;
use super::out::say;
use super::ownership::{self, Older};
use super::place::StoreArguments;
use super::preflight;
use plimsoll_catalog::any::AnyCatalog;
use plimsoll_maintenance::adoption::adopt::{Adopted, Adoption, adopt as execute, count};
use plimsoll_objects::{Bucket, Store};

/// Arguments of `plimsoll-gateway adopt`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Settings of a gateway over several tiers, a TOML file; if the catalog is a directory, no gateway may run
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Tier whose objects are adopted
    #[arg(long, value_name = "NAME")]
    tier: String,
    /// Bucket of the gateway that receives them; it is created if necessary
    #[arg(long)]
    bucket: String,
    /// Only objects whose keys start with this text
    #[arg(long, default_value = "")]
    prefix: String,
    /// Access key of the account that owns a new bucket
    #[arg(long, value_name = "KEY", env = "PLIMSOLL_ACCESS_KEY", hide_env_values = true)]
    owner: Option<String>,
    /// Only count the objects
    #[arg(long)]
    dry_run: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// A store without services, for a command.
pub struct Offline {
    /// The store with all tiers.
    pub store: Store<AnyCatalog>,
    /// Catalog of the store.
    pub catalog: Arc<AnyCatalog>,
    /// Runtime for requests to the tiers.
    pub runtime: tokio::runtime::Runtime,
    /// Number of the tier that was named.
    pub tier: u16,
}

/// Opens the store, and finds a tier.
///
/// # Errors
/// If the settings are invalid, the catalog is in use, or there is no such tier.
pub fn offline(place: &StoreArguments, tier: &str) -> Result<Offline, Exit> {
    preflight::check(place, Older::Refused, true)?;
    let opened = place.open(Default::default())?;
    ownership::check(place, &opened, Older::Refused, true)?;
    let Opened { catalog, bodies, .. } = opened;
    let tiers = bodies.blobs.tiers();
    let names: Vec<&str> = tiers.iter().map(|(_, tier)| tier.name.as_str()).collect();
    let number = tiers.number(tier).ok_or_else(|| {
        Exit::input(format!("--tier: there is no tier {tier}; the tiers are {}", names.join(", ")))
    })?;
    let store =
        Store::open(Arc::clone(&catalog), bodies, Memory::new(u64::MAX)).map_err(|e| place.fail(&e))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Exit::store)?;
    Ok(Offline { store, catalog, runtime, tier: number })
}

/// Returns a bucket of the store.
///
/// # Errors
/// If the catalog cannot be read.
pub fn find_bucket(
    place: &StoreArguments,
    store: &Store<AnyCatalog>,
    name: &str,
) -> Result<Option<Arc<Bucket>>, Exit> {
    let buckets = store.all_buckets().map_err(|e| place.fail(&e))?;
    Ok(buckets.into_iter().find(|(other, _)| other == name).map(|(_, bucket)| bucket))
}

/// Adopts the objects.
///
/// # Errors
/// Exit code 1 if some objects were not adopted, 2 for invalid settings, 3 if the catalog or the tier fails.
pub fn adopt(arguments: &Arguments) -> Result<(), Exit> {
    let place = StoreArguments::of_file(&arguments.file);
    let Offline { store, catalog, runtime, tier } = offline(&place, &arguments.tier)?;
    let adoption = Adoption { tier, prefix: arguments.prefix.clone() };
    let bucket = find_bucket(&place, &store, &arguments.bucket)?;
    let adopted = match bucket {
        bucket if arguments.dry_run => runtime.block_on(count(&store, bucket.as_deref(), &adoption)),
        Some(bucket) => runtime.block_on(execute(&store, &bucket, &adoption)),
        None => {
            let bucket = create_bucket(arguments, &place, &store, &runtime)?;
            runtime.block_on(execute(&store, &bucket, &adoption))
        }
    };
    drop(store);
    catalog.close().map_err(|e| place.fail(&e))?;
    let adopted = adopted.map_err(|e| place.fail(&e))?;
    print(arguments, &adopted)?;
    match adopted.skipped.len() {
        0 => Ok(()),
        count => Err(Exit::check(format!("{count} objects were not adopted"))),
    }
}

/// Creates the bucket that receives the objects.
fn create_bucket(
    arguments: &Arguments,
    place: &StoreArguments,
    store: &Store<AnyCatalog>,
    runtime: &tokio::runtime::Runtime,
) -> Result<Arc<Bucket>, Exit> {
    if !may_be_created(&arguments.bucket) {
        let name = &arguments.bucket;
        return Err(Exit::input(format!(
            "--bucket {name}: this is no name of a bucket; use 3 to 63 lower-case letters, digits, '-' and '.'"
        )));
    }
    let owner = arguments.owner.clone().unwrap_or_default();
    let new = NewBucket { region: "us-east-1", owner: &owner, acl: CannedAcl::Private };
    runtime
        .block_on(store.create_bucket(&arguments.bucket, new))
        .map_err(|e| Exit::input(format!("--bucket {}: {e}", arguments.bucket)))?;
    let created = find_bucket(place, store, &arguments.bucket)?;
    created.ok_or_else(|| Exit::store("the bucket was not created"))
}

fn print(arguments: &Arguments, adopted: &Adopted) -> Result<(), Exit> {
    if arguments.json {
        return say(&format!("{}\n", serde_json::json!(adopted)));
    }
    let verb = if arguments.dry_run { "can be adopted" } else { "adopted" };
    let Adopted { objects, bytes, existing, skipped } = adopted;
    for (key, reason) in skipped {
        say(&format!("not adopted: {key}: {reason}\n"))?;
    }
    say(&format!("{objects} objects with {bytes} bytes {verb}, {existing} are adopted or exist already\n"))
}
