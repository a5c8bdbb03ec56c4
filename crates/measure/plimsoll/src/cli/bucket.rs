//! `plimsoll bucket`: creates and deletes buckets.
//!
//! `plimsoll bucket create` puts a small marker object into each new bucket. `--force` empties only buckets
//! with this marker, so a mistyped name cannot empty another bucket.

use clap::{Args, Subcommand};

use super::exit::Exit;
use super::out::say;
use super::timeout::TimeoutArgument;
use plimsoll_base::rng::entropy;
use plimsoll_engine::driver::background::{Background, Pages};
use plimsoll_engine::driver::clean::{CleanupScope, clean};
use plimsoll_engine::store::ownership::{CreatedBucket, KeySpace};
use plimsoll_engine::store::{Body, Collect, Failure, Ignore, Request};
use plimsoll_session::open::{self, Opened};
use plimsoll_session::preflight::hint;
use plimsoll_session::runtime::block_on;

/// Arguments of `plimsoll bucket`.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    timeout: TimeoutArgument,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Create a bucket, or a directory bucket such as s3://base--use1-az4--x-s3
    Create {
        /// Store URL of the bucket; {random} in its name is replaced with six random characters
        store: String,
        /// Leave the bucket empty: put no marker object, without which `delete --force` never empties it
        #[arg(long)]
        without_marker: bool,
    },
    /// Delete an empty bucket; with --force, also a bucket with objects if `plimsoll bucket create` created it
    Delete {
        /// Store URL of the bucket
        store: String,
        /// First delete all objects and unfinished uploads in the bucket
        #[arg(long)]
        force: bool,
    },
}

/// Key of the marker object in buckets that Plimsoll created.
const MARKER: &str = CreatedBucket::MARKER;

/// Creates or deletes a bucket.
///
/// # Errors
/// Exit code 2 if the store has no bucket, or if the bucket exists already, is not empty or was not created
/// by Plimsoll; 3 if a request fails.
pub fn bucket(arguments: &Arguments) -> Result<(), Exit> {
    arguments.timeout.apply()?;
    match &arguments.action {
        Action::Create { store, without_marker } => create(&with_random(store), !without_marker),
        Action::Delete { store, force } => remove(store, *force),
    }
}

fn with_random(store: &str) -> String {
    let mut n = entropy();
    let mut word = String::new();
    for _ in 0..6 {
        word.push(char::from(b"abcdefghijklmnopqrstuvwxyz0123456789"[(n % 36) as usize]));
        n /= 36;
    }
    store.replace("{random}", &word)
}

fn open(store: &str) -> Result<Opened, Exit> {
    let opened = open::open(store, None)?;
    if opened.store.container().is_empty() {
        return Err(Exit::input(format!(
            "{store}: this store has no buckets; use a store URL with a bucket, such as s3://my-bucket"
        )));
    }
    Ok(opened)
}

fn unusable(opened: &Opened, failure: &Failure) -> Exit {
    let hint = if failure.is_missing_container() { "" } else { hint(failure, opened.url.as_ref()) };
    Exit::store(format!("{}: {failure}{}{hint}", opened.written, if hint.is_empty() { "" } else { "; " }))
}

fn create(store: &str, marked: bool) -> Result<(), Exit> {
    let opened = open(store)?;
    let exists = || Exit::input(format!("{store}: the bucket exists already; choose another name"));
    let work = async {
        let mut background = Background::new(opened.store.as_ref());
        match background.send_until_answered(Request::CheckBucket).await {
            Ok(_) => return Ok(Err(exists())),
            Err(failure) if failure.is_missing_container() || failure.status() == Some(404) => {}
            Err(failure) => return Err(failure),
        }
        // Not retried after a lost response: the bucket then exists, so the next attempt would fail.
        background.send(Request::CreateBucket, &mut Ignore).await?;
        // Another client may have created the bucket meanwhile; some stores report success in that case.
        if contents(&mut background).await? > 0 {
            return Ok(Err(exists()));
        }
        if !marked {
            return Ok(Ok(()));
        }
        let content = CreatedBucket::content(env!("CARGO_PKG_VERSION"));
        background
            .send_until_answered(Request::Put { key: MARKER, body: Body::Whole(content.into()) })
            .await
            .map(|_| Ok(()))
    };
    block_on(work)?.map_err(|f| unusable(&opened, &f))??;
    say(&format!("created {store}\n"))
}

fn remove(store: &str, force: bool) -> Result<(), Exit> {
    let opened = open(store)?;
    let work = async {
        let mut background = Background::new(opened.store.as_ref());
        let created = marker(&mut background).await?;
        let found = contents(&mut background).await?;
        if found > 0 && !force {
            return Ok(Err(Exit::input(format!(
                "{store}: the bucket is not empty (objects found: {found}), so nothing was deleted; use \
                 --force if `plimsoll bucket create` created the bucket"
            ))));
        }
        let Some(created) = created else {
            if force {
                return Ok(Err(Exit::input(format!(
                    "{store}: `plimsoll bucket create` did not create this bucket, so nothing was deleted; \
                     empty it with another tool"
                ))));
            }
            return background.send_until_answered(Request::DeleteBucket).await.map(Ok);
        };
        let space = KeySpace::of_bucket(&created);
        if force {
            // The marker is deleted last, so that an interrupted deletion can be repeated.
            clean(
                opened.store.as_ref(),
                &mut background,
                &space,
                &CleanupScope::everything_except(MARKER),
                |_| {},
            )
            .await?;
            clean(opened.store.as_ref(), &mut background, &space, &CleanupScope::everything(), |_| {})
                .await?;
        } else if let Some(key) = space.own(MARKER) {
            background.send_until_answered(Request::Delete { key }).await?;
        }
        background.send_until_answered(Request::DeleteBucket).await.map(Ok)
    };
    block_on(work)?.map_err(|f| unusable(&opened, &f))??;
    say(&format!("deleted {store}\n"))
}

/// Returns the proof that Plimsoll created the bucket; `None` if it did not.
async fn marker(background: &mut Background) -> Result<Option<CreatedBucket>, Failure> {
    let mut content = Collect::default();
    match background.send(Request::Get { key: MARKER, range: None }, &mut content).await {
        Ok(_) => Ok(CreatedBucket::proven_by(&content.0)),
        Err(failure) if failure.status() == Some(404) && !failure.is_code("NoSuchBucket") => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// Returns the number of objects, without the marker, on the first page of the listing that contains
/// any; 0 if the bucket contains none.
async fn contents(background: &mut Background) -> Result<usize, Failure> {
    let mut pages = Pages::new("");
    while let Some(page) = pages.next(background).await? {
        let found = page.objects.iter().filter(|o| o.key != MARKER).count();
        if found > 0 {
            return Ok(found);
        }
    }
    Ok(0)
}
