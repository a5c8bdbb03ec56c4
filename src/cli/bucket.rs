//! `plimsoll bucket`: creates buckets, and deletes those that it created.
//!
//! A bucket made here holds one small object that says so. Only with that object in it is a bucket emptied by force, so that no slip of
//! a name can empty another one.

use clap::{Args, Subcommand};

use super::exit::{Exit, block_on};
use super::preflight::hint;
use super::stores::{self, Opened};
use crate::clock::wall_now;
use crate::driver::clean::delete;
use crate::rng::mix;
use crate::store::{Body, Failure, Ignore, Lane, Request};

/// Arguments of `plimsoll bucket`.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Create a bucket; directory buckets too: s3://base--use1-az4--x-s3
    Create {
        /// The bucket; {random} in its name becomes six random characters
        store: String,
    },
    /// Delete a bucket that is empty, or, by force, one that `plimsoll bucket create` made
    Delete {
        /// The bucket
        store: String,
        /// Delete all that is in it first, unfinished uploads included
        #[arg(long)]
        force: bool,
    },
}

/// The object that says that we made the bucket.
const MARKER: &str = "created-by-plimsoll/bucket";

/// Creates or deletes a bucket.
///
/// # Errors
/// 2 for what is no bucket or not ours, 3 when the store refuses.
pub fn bucket(arguments: &Arguments) -> Result<(), Exit> {
    match &arguments.what {
        What::Create { store } => create(&with_random(store)),
        What::Delete { store, force } => remove(store, *force),
    }
}

fn with_random(store: &str) -> String {
    let mut n = mix(wall_now().as_nanosecond() as u64 ^ u64::from(std::process::id()));
    let mut word = String::new();
    for _ in 0..6 {
        word.push(char::from(b"abcdefghijklmnopqrstuvwxyz0123456789"[(n % 36) as usize]));
        n /= 36;
    }
    store.replace("{random}", &word)
}

fn open(store: &str) -> Result<Opened, Exit> {
    let opened = stores::open(store, None)?;
    if opened.store.container().is_empty() {
        return Err(Exit::input(format!("{store} has no bucket to create or delete")));
    }
    Ok(opened)
}

fn unusable(store: &str, failure: &Failure) -> Exit {
    let hint = if failure.is_missing_container() { "" } else { hint(failure) };
    Exit::store(format!("{store}: {failure}{}{hint}", if hint.is_empty() { "" } else { "; " }))
}

fn create(store: &str) -> Result<(), Exit> {
    let opened = open(store)?;
    let work = async {
        let mut lane = opened.store.lane(0);
        lane.execute(Request::CreateBucket, &mut Ignore).await?;
        let text = format!("plimsoll {} created this bucket at {}\n", env!("CARGO_PKG_VERSION"), wall_now());
        lane.execute(Request::Put { key: MARKER, body: Body::Whole(text.into()) }, &mut Ignore).await
    };
    block_on(work)?.map_err(|f| unusable(store, &f))?;
    println!("created {store}");
    Ok(())
}

fn remove(store: &str, force: bool) -> Result<(), Exit> {
    let opened = open(store)?;
    let work = async {
        let mut lane = opened.store.lane(0);
        let ours = lane.execute(Request::Head { key: MARKER }, &mut Ignore).await;
        let ours = match ours {
            Ok(_) => true,
            Err(failure) if failure.status() == Some(404) && !failure.is_code("NoSuchBucket") => false,
            Err(failure) => return Err(failure),
        };
        let found = contents(lane.as_mut()).await?;
        if found > 0 && !force {
            return Ok(Err(Exit::input(format!(
                "{store} holds {found} objects or more; nothing was deleted. --force deletes them with a bucket that `plimsoll bucket create` made"
            ))));
        }
        if force && !ours {
            return Ok(Err(Exit::input(format!(
                "{store} was not made by `plimsoll bucket create`, so it is not emptied; nothing was deleted"
            ))));
        }
        if force {
            empty(lane.as_mut()).await?;
        } else if ours {
            lane.execute(Request::Delete { key: MARKER }, &mut Ignore).await?;
        }
        lane.execute(Request::DeleteBucket, &mut Ignore).await.map(Ok)
    };
    block_on(work)?.map_err(|f| unusable(store, &f))??;
    println!("deleted {store}");
    Ok(())
}

/// Objects in the bucket beside the marker, up to a page of them.
async fn contents(lane: &mut dyn Lane) -> Result<usize, Failure> {
    let request = Request::List { prefix: "", start_after: "", token: "", max_keys: 1000 };
    let page = lane.execute(request, &mut Ignore).await?.listing.unwrap_or_default();
    Ok(page.objects.iter().filter(|o| o.key != MARKER).count())
}

/// Deletes everything, the marker last, so that an interrupted deletion can be taken up again.
async fn empty(lane: &mut dyn Lane) -> Result<(), Failure> {
    let mut one_by_one = false;
    loop {
        let uploads = lane.execute(Request::ListUploads { prefix: "" }, &mut Ignore).await?.uploads;
        if uploads.is_empty() {
            break;
        }
        for (key, upload_id) in &uploads {
            lane.execute(Request::AbortMultipart { key, upload_id }, &mut Ignore).await?;
        }
    }
    loop {
        let request = Request::List { prefix: "", start_after: "", token: "", max_keys: 1000 };
        let page = lane.execute(request, &mut Ignore).await?.listing.unwrap_or_default();
        let keys: Vec<String> = page.objects.into_iter().map(|o| o.key).filter(|k| k != MARKER).collect();
        if keys.is_empty() {
            break;
        }
        delete(lane, &keys, &mut one_by_one).await?;
    }
    lane.execute(Request::Delete { key: MARKER }, &mut Ignore).await.map(|_| ())
}
