//! `plimsoll-gateway where`: the place of an object, and what the rules will do with it.

use clap::Args;
use plimsoll_server::error::ErrorCode;

use super::Exit;
use super::command::Target;
use super::out::Output;
use super::place::StoreArguments;
use crate::whereabouts::{self, Next, PiecePlace, Whereabouts};

/// Arguments of `plimsoll-gateway where`.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    pub place: StoreArguments,
    /// Bucket and key of the object
    #[arg(long, value_name = "BUCKET/KEY")]
    object: String,
    /// Only this version
    #[arg(long, value_name = "ID")]
    version: Option<String>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Shows where the bytes of an object are.
///
/// # Errors
/// Exit code 1 if there is no such object, 2 for invalid arguments, 3 if the catalog fails.
pub fn whereis(arguments: &Arguments, target: &Target, out: &dyn Output) -> Result<(), Exit> {
    let named =
        arguments.object.split_once('/').filter(|(bucket, key)| !bucket.is_empty() && !key.is_empty());
    let (bucket, key) = named.ok_or_else(|| {
        Exit::input(format!("--object {}: write BUCKET/KEY, such as photos/2026/a.jpg", arguments.object))
    })?;
    let found_bucket = target.bucket(bucket)?;
    let found =
        whereabouts::find(&*target.store, &target.rules, &found_bucket, key, arguments.version.as_deref());
    let found = found.map_err(|error| match error.code {
        ErrorCode::NoSuchKey | ErrorCode::NoSuchVersion | ErrorCode::MethodNotAllowed => {
            Exit::check(format!("{bucket}/{key}: {}", error.message))
        }
        _ => target.fail(&error),
    })?;
    if arguments.json {
        return out.say(&format!("{}\n", serde_json::to_string_pretty(&found).map_err(Exit::store)?));
    }
    out.say(&text(&found))
}

/// Describes an object. The first line says where it is read from.
fn text(found: &Whereabouts) -> String {
    let Whereabouts { bucket, key, version, size, etag, checksum, modified, storage_class, pieces, next } =
        found;
    let place = first_place(pieces);
    let checksum = checksum.as_ref().map_or(String::new(), |checksum| format!(", {checksum}"));
    let mut lines = vec![
        format!("{bucket}/{key} is in {place}"),
        format!("size       {size} bytes"),
        format!("version    {version}, modified {modified:.0}"),
        format!("checksums  etag {etag}{checksum}"),
        format!("class      {storage_class}"),
    ];
    for piece in pieces {
        let Some(blob) = &piece.blob else {
            lines.push(format!("piece      {} bytes in the catalog", piece.size));
            continue;
        };
        lines.push(match &piece.slice {
            None => format!("blob       {blob}, {} bytes", piece.size),
            Some(slice) => format!(
                "pack file  {blob}, {} of {} bytes at offset {}, CRC-32C {}",
                piece.size, slice.pack_file_size, slice.offset, slice.crc32c
            ),
        });
        for copy in &piece.copies {
            let written = copy.written.map_or("adopted".into(), |time| format!("written {time:.0}"));
            let until = copy.deleted_after.map_or(String::new(), |time| format!(", deleted after {time:.0}"));
            lines.push(format!("  {:<9}{}, {written}{until}", copy.tier, copy.object));
        }
    }
    lines.push(match next {
        Next::Stays => "next       no rule applies: it stays".into(),
        Next::Moves { to, rule, from } => format!("next       moves to {to} from {from:.0} on ({rule})"),
        Next::Packs { to, from } => format!("next       moves into a pack file in {to} from {from:.0} on"),
        Next::TooDear { to } => {
            format!("next       stays: a rule moves it to {to}, but that costs more than it saves")
        }
    });
    lines.join("\n") + "\n"
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
