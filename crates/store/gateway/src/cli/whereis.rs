//! `plimsoll-gateway where`: the place of an object, and what the rules will do with it; or the objects of a tier.

use clap::Args;
use plimsoll_server::error::ErrorCode;

use super::Exit;
use super::out::Output;
use super::place::StoreArguments;
use super::target::Target;
use plimsoll_maintenance::whereabouts::{self, Next, PiecePlace, Removed, Whereabouts};
use plimsoll_objects::Bucket;
use plimsoll_objects::removal::Removal;

/// Arguments of `plimsoll-gateway where`.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    pub place: StoreArguments,
    /// Bucket and key of the object
    #[arg(long, value_name = "BUCKET/KEY", conflicts_with_all = ["tier", "bucket"], required_unless_present = "tier")]
    object: Option<String>,
    /// Show only this version
    #[arg(long, value_name = "ID", requires = "object")]
    version: Option<String>,
    /// List the objects that are read from this tier, or from `catalog`: each with its key, a tab and its size, as
    /// `keys` of an experiment
    #[arg(long, value_name = "NAME", requires = "bucket")]
    tier: Option<String>,
    /// Bucket of the listed objects
    #[arg(long)]
    bucket: Option<String>,
    /// Only objects whose keys start with this text
    #[arg(long, default_value = "")]
    prefix: String,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Shows where the bytes of an object are.
///
/// # Errors
/// Exit code 1 if there is no such object, 2 for invalid arguments, 3 if the catalog fails.
pub fn whereis(arguments: &Arguments, target: &Target, out: &dyn Output) -> Result<(), Exit> {
    if let (Some(tier), Some(bucket)) = (&arguments.tier, &arguments.bucket) {
        return list(arguments, tier, &*target.bucket("--bucket", bucket)?, target, out);
    }
    let object = arguments.object.as_deref().unwrap_or("");
    let found = find(object, arguments.version.as_deref(), target)?;
    if arguments.json {
        return out.say(&format!("{}\n", serde_json::to_string_pretty(&found).map_err(Exit::store)?));
    }
    out.say(&text(&found))
}

/// Describes an object, `BUCKET/KEY`, or one of its versions.
///
/// # Errors
/// Exit code 1 if there is no such object, 2 for an invalid name, 3 if the catalog fails.
pub fn find(object: &str, version: Option<&str>, target: &Target) -> Result<Whereabouts, Exit> {
    let named = object.strip_prefix("s3://").unwrap_or(object);
    let named = named.split_once('/').filter(|(bucket, key)| !bucket.is_empty() && !key.is_empty());
    let (bucket, key) = named.ok_or_else(|| {
        Exit::input(format!("--object {object}: write BUCKET/KEY, such as photos/2026/a.jpg"))
    })?;
    let found_bucket = target.bucket("--object", bucket)?;
    let found = whereabouts::find(&*target.store, &target.rules, &found_bucket, key, version);
    found.map_err(|error| match error.code {
        ErrorCode::NoSuchKey => match removed(target, &found_bucket, key) {
            Ok(removed) => Exit::check(format!("{bucket}/{key}: {}{removed}", error.message)),
            Err(exit) => exit,
        },
        ErrorCode::NoSuchVersion | ErrorCode::MethodNotAllowed => {
            Exit::check(format!("{bucket}/{key}: {}", error.message))
        }
        _ => target.fail(&error),
    })
}

/// Says how an object that does not exist any more is brought back; empty if it is not kept.
fn removed(target: &Target, bucket: &Bucket, key: &str) -> Result<String, Exit> {
    let found =
        whereabouts::last_removed(&*target.store, bucket, key).map_err(|error| target.fail(&error))?;
    let Some(Removed { removal, last, until }) = found else { return Ok(String::new()) };
    let (verb, force) = match removal {
        Removal::Replaced => ("replaced", ""),
        Removal::Deleted => ("deleted", ""),
        Removal::Expired => ("deleted by a lifecycle rule", " --force"),
    };
    let (name, key, place) = (&bucket.name, key.replace('\'', r"'\''"), &target.name);
    Ok(format!(
        " It was {verb} after {last}, and is kept until {until:.0}: `plimsoll-gateway undelete {place} --bucket {name} --prefix '{key}' \
         --at {last}{force}` brings it back, \
         with all keys that start so."
    ))
}

/// Lists the objects of a bucket that are read from a tier.
fn list(
    arguments: &Arguments,
    tier: &str,
    bucket: &Bucket,
    target: &Target,
    out: &dyn Output,
) -> Result<(), Exit> {
    /// Length of a piece of the output in bytes.
    const PIECE: usize = 64 * 1024;
    let number = match tier {
        "catalog" => None,
        name => Some(target.store.blobs.tiers().number(name).ok_or_else(|| {
            let known: Vec<&str> =
                target.store.blobs.tiers().iter().map(|(_, tier)| tier.name.as_str()).collect();
            Exit::input(format!(
                "--tier {name}: the tiers are {}; small bodies are in catalog",
                known.join(", ")
            ))
        })?),
    };
    let (mut text, mut result) = (String::new(), Ok(()));
    let mut add = |key: &str, size: u64| {
        if arguments.json {
            text.push_str(&format!("{}\n", serde_json::json!({ "key": key, "size": size })));
        } else if !key.contains(['\t', '\n', '\r']) {
            text.push_str(&format!("{key}\t{size}\n"));
        }
        if text.len() >= PIECE {
            result = out.say(&std::mem::take(&mut text));
        }
        result.is_ok()
    };
    let listed = whereabouts::list(&*target.store, bucket, &arguments.prefix, number, &mut add);
    listed.map_err(|e| target.fail(&e))?;
    result?;
    out.say(&text)
}

/// Describes an object. The first line says where it is read from.
fn text(found: &Whereabouts) -> String {
    let line = |(name, fact): (String, String)| format!("{name:<11}{fact}\n");
    format!("{}\n{}", answer(found), facts(found).into_iter().map(line).collect::<String>())
}

/// Returns the place of an object in a sentence.
pub fn answer(found: &Whereabouts) -> String {
    let Whereabouts { bucket, key, pieces, .. } = found;
    format!("{bucket}/{key} is in {}", first_place(pieces))
}

/// Returns the facts about an object with their names. The name of a copy is its tier after two spaces.
pub fn facts(found: &Whereabouts) -> Vec<(String, String)> {
    let Whereabouts { version, size, etag, checksum, modified, storage_class, pieces, next, .. } = found;
    let checksum = checksum.as_ref().map_or(String::new(), |checksum| format!(", {checksum}"));
    let mut facts = vec![
        ("size".into(), format!("{size} bytes")),
        ("version".into(), format!("{version}, modified {modified:.0}")),
        ("checksums".into(), format!("etag {etag}{checksum}")),
        ("class".into(), storage_class.clone()),
    ];
    for piece in pieces {
        let Some(blob) = &piece.blob else {
            facts.push(("piece".into(), format!("{} bytes in the catalog", piece.size)));
            continue;
        };
        facts.push(match &piece.slice {
            None => ("blob".into(), format!("{blob}, {} bytes", piece.size)),
            Some(slice) => (
                "pack file".into(),
                format!(
                    "{blob}, {} of {} bytes at offset {}, CRC-32C {}",
                    piece.size, slice.pack_file_size, slice.offset, slice.crc32c
                ),
            ),
        });
        for copy in &piece.copies {
            let written = copy.written.map_or("adopted".into(), |time| format!("written {time:.0}"));
            let until = copy.deleted_after.map_or(String::new(), |time| format!(", deleted after {time:.0}"));
            facts.push((format!("  {:<8}", copy.tier), format!("{}, {written}{until}", copy.object)));
        }
    }
    let next = match next {
        Next::Stays => "no rule applies: it stays".into(),
        Next::Moves { to, rule, from } => format!("moves to {to} from {from:.0} on ({rule})"),
        Next::Packs { to, from } => format!("moves into a pack file in {to} from {from:.0} on"),
        Next::TooDear { to } => format!("stays: a rule moves it to {to}, but that costs more than it saves"),
    };
    facts.push(("next".into(), next));
    facts
}

/// Returns the places from which the pieces are read.
fn first_place(pieces: &[PiecePlace]) -> String {
    let mut places: Vec<String> = Vec::new();
    for piece in pieces {
        let place = match (&piece.blob, piece.copies.first()) {
            (None, _) => "the catalog".to_string(),
            (Some(_), Some(copy)) => format!("tier {}", copy.tier),
            (Some(_), None) => "no place: its blob is not in the catalog".to_string(),
        };
        if !places.contains(&place) {
            places.push(place);
        }
    }
    if places.is_empty() { "the catalog".into() } else { places.join(" and ") }
}
