//! `plimsoll bucket`: creates buckets, and deletes those that it created.
//!
//! A bucket made here holds one small object that says so. Only with that object in it is a bucket emptied by force, so that no slip of
//! a name can empty another one.

use clap::{Args, Subcommand};

use super::exit::Exit;
use super::out::say;
use super::timeout::TimeoutArgument;
use crate::driver::background::{Background, Pages};
use crate::driver::clean::{Owned, clean};
use crate::rng::entropy;
use crate::session::open::{self, Opened};
use crate::session::preflight::hint;
use crate::session::runtime::block_on;
use crate::store::ownership::{CreatedBucket, KeySpace};
use crate::store::{Body, Collect, Failure, Ignore, Request};

/// Arguments of `plimsoll bucket`.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(subcommand)]
    what: What,
    #[command(flatten)]
    timeout: TimeoutArgument,
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

/// Key of the object that says that we made the bucket.
const MARKER: &str = CreatedBucket::MARKER;

/// Creates or deletes a bucket.
///
/// # Errors
/// 2 for what is no bucket or not ours, 3 when the store refuses.
pub fn bucket(arguments: &Arguments) -> Result<(), Exit> {
    arguments.timeout.apply()?;
    match &arguments.what {
        What::Create { store } => create(&with_random(store)),
        What::Delete { store, force } => remove(store, *force),
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
    let exists = || {
        Exit::input(format!("{store} exists already; only a bucket that is created here may carry the mark"))
    };
    let work = async {
        let mut background = Background::new(opened.store.as_ref());
        match background.insist(Request::CheckBucket).await {
            Ok(_) => return Ok(Err(exists())),
            Err(failure) if failure.is_missing_container() || failure.status() == Some(404) => {}
            Err(failure) => return Err(failure),
        }
        // Once only: a second attempt would be refused if the answer to the first was lost.
        background.ask(Request::CreateBucket, &mut Ignore).await?;
        // Somebody else may have been faster, and some stores answer that with success.
        if contents(&mut background).await? > 0 {
            return Ok(Err(exists()));
        }
        let content = CreatedBucket::content(env!("CARGO_PKG_VERSION"));
        background
            .insist(Request::Put { key: MARKER, body: Body::Whole(content.into()) })
            .await
            .map(|_| Ok(()))
    };
    block_on(work)?.map_err(|f| unusable(store, &f))??;
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
                "{store} holds {found} objects or more; nothing was deleted. --force deletes them with a bucket that `plimsoll bucket create` made"
            ))));
        }
        let Some(created) = created else {
            if force {
                return Ok(Err(Exit::input(format!(
                    "{store} was not made by `plimsoll bucket create`, so it is not emptied; nothing was deleted"
                ))));
            }
            return background.insist(Request::DeleteBucket).await.map(Ok);
        };
        let space = KeySpace::of_bucket(&created);
        if force {
            // The marker goes last, so that an interrupted deletion can be taken up again.
            clean(opened.store.as_ref(), &mut background, &space, &Owned::everything_but(MARKER), |_| {})
                .await?;
            clean(opened.store.as_ref(), &mut background, &space, &Owned::everything(), |_| {}).await?;
        } else if let Some(key) = space.own(MARKER) {
            background.insist(Request::Delete { key }).await?;
        }
        background.insist(Request::DeleteBucket).await.map(Ok)
    };
    block_on(work)?.map_err(|f| unusable(store, &f))??;
    say(&format!("deleted {store}\n"))
}

/// The proof that the bucket was created here; `None` if it was not.
async fn marker(background: &mut Background) -> Result<Option<CreatedBucket>, Failure> {
    let mut content = Collect::default();
    match background.ask(Request::Get { key: MARKER, range: None }, &mut content).await {
        Ok(_) => Ok(CreatedBucket::proven_by(&content.0)),
        Err(failure) if failure.status() == Some(404) && !failure.is_code("NoSuchBucket") => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// Objects in the bucket besides the marker, up to those of the first page that has any.
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
