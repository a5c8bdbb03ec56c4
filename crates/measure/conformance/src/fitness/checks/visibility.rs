//! Visibility of writes and deletes: at once, by other connections, and whole.

use futures_util::future::join_all;

use super::super::call::{Answer, CheckCall};
use super::super::problem::{Checked, Problem, require};
use super::super::scene::{Scene, difference};
use super::conditions::passed;

/// Connection slots that read after a change.
const READERS: usize = 4;

/// Reads a key on several connections, and requires the content or, with `None`, its absence.
async fn all_read(scene: &Scene<'_>, key: &str, content: Option<&[u8]>, when: &str) -> Result<(), Problem> {
    let reads = (1..=READERS).map(|index| scene.send(index, CheckCall::get(key)));
    for answer in join_all(reads).await {
        let answer = answer?;
        match content {
            Some(content) => {
                require(answer.is_done(), || format!("a GET {when} was answered {}", answer.outcome()))?;
                require(answer.body == content, || {
                    format!("a GET {when} returned {}", difference(&answer.body, content))
                })?;
            }
            // Another check requires the status 404.
            None => require(!answer.is_done(), || format!("a GET {when} was answered {}", answer.outcome()))?,
        }
    }
    let head = scene.send(1, CheckCall::head(key)).await?;
    let length = head.header("content-length");
    match content {
        Some(content) => {
            require(head.is_done(), || format!("a HEAD {when} was answered {}", head.outcome()))?;
            let is_right = length.is_none_or(|length| length == content.len().to_string());
            require(is_right, || {
                format!("a HEAD {when} gives {} bytes, not {}", length.unwrap_or("no"), content.len())
            })
        }
        None => require(!head.is_done(), || format!("a HEAD {when} was answered {}", head.outcome())),
    }
}

/// A new object is read at once, also if the key was read before and did not exist.
pub async fn read_after_write(scene: &Scene<'_>) -> Checked {
    let mut round = 0;
    while scene.begins(round) {
        let key = scene.key(&format!("new-{round}"));
        all_read(scene, &key, None, "of a key that never existed").await?;
        let content = format!("content {round}");
        scene.put(&key, content.clone()).await?;
        all_read(scene, &key, Some(content.as_bytes()), "after its PUT").await?;
        round += 1;
    }
    passed(round, "GET and HEAD return a new object")
}

/// The new content is read at once after an overwrite.
pub async fn read_after_overwrite(scene: &Scene<'_>) -> Checked {
    let (mut round, key) = (0, scene.key("overwritten"));
    while scene.begins(round) {
        let content = format!("{}, version {round}", "x".repeat(round as usize % 7));
        scene.put(&key, content.clone()).await?;
        all_read(scene, &key, Some(content.as_bytes()), "after an overwrite").await?;
        round += 1;
    }
    passed(round, "GET and HEAD return the new content")
}

/// A deleted object is gone at once.
pub async fn read_after_delete(scene: &Scene<'_>) -> Checked {
    let mut round = 0;
    while scene.begins(round) {
        let key = scene.key(&format!("deleted-{}", round % 10));
        let content = format!("content {round}");
        scene.put(&key, content.clone()).await?;
        all_read(scene, &key, Some(content.as_bytes()), "after its PUT").await?;
        scene.delete(&key).await?;
        all_read(scene, &key, None, "after its DELETE").await?;
        round += 1;
    }
    passed(round, "GET and HEAD of a deleted object give 404")
}

/// A listing after a PUT contains the object, with its size.
pub async fn list_after_write(scene: &Scene<'_>) -> Checked {
    let mut round = 0;
    while scene.begins(round) {
        let key = scene.key(&format!("listed-{}", round % 50));
        let content = "x".repeat(1 + round as usize / 50);
        scene.put(&key, content.clone()).await?;
        let page = scene.page(1 + round as usize % READERS, CheckCall::list(&scene.root)).await?;
        let entry = page.entries.iter().find(|entry| entry.key == key);
        let Some(entry) = entry else {
            let count = page.entries.len();
            return Err(Problem::violated(format!(
                "a listing after a PUT lacks the key; it has {count} keys"
            )));
        };
        require(entry.size == Some(content.len() as u64), || {
            format!(
                "a listing after an overwrite with {} bytes gives the size {:?}",
                content.len(),
                entry.size
            )
        })?;
        round += 1;
    }
    passed(round, "a listing contains the object and its size")
}

/// A listing after a DELETE lacks the object.
pub async fn list_after_delete(scene: &Scene<'_>) -> Checked {
    let mut round = 0;
    while scene.begins(round) {
        let key = scene.key(&format!("removed-{}", round % 10));
        scene.put(&key, "x").await?;
        scene.page(1 + round as usize % READERS, CheckCall::list(&scene.root)).await?;
        scene.delete(&key).await?;
        let page = scene.page(1 + round as usize % READERS, CheckCall::list(&scene.root)).await?;
        require(!page.keys().contains(&key.as_str()), || {
            "a listing after a DELETE still has the key".into()
        })?;
        round += 1;
    }
    passed(round, "a listing lacks the deleted object")
}

/// Size of the smallest version of an object that is overwritten while it is read.
const VERSION_BYTES: usize = 192 << 10;
/// Size of a large version. Servers may write large objects differently.
const LARGE_BYTES: usize = 3 << 20;

/// Returns the content of a version: its number in every eight bytes. The sizes differ.
fn version(number: u64) -> Vec<u8> {
    let bytes = match number {
        9..=12 | 29..=32 => LARGE_BYTES + (number as usize % 5) * 8192,
        _ => VERSION_BYTES + (number as usize % 5) * 8192,
    };
    number.to_le_bytes().into_iter().cycle().take(bytes).collect()
}

/// Returns the version that content consists of.
fn version_of(content: &[u8]) -> Result<u64, String> {
    let Some(first) = content.first_chunk::<8>() else { return Err(format!("{} bytes", content.len())) };
    let number = u64::from_le_bytes(*first);
    if content == version(number) {
        return Ok(number);
    }
    let other = content.chunks(8).position(|chunk| !first.starts_with(chunk));
    match other {
        Some(chunk) => {
            Err(format!("{} bytes that change to other content at byte {}", content.len(), chunk * 8))
        }
        None => Err(format!("{} bytes of a version with {}", content.len(), version(number).len())),
    }
}

/// An answer to a GET during overwrites, with the number of the first of the two versions and their ETags.
struct Overlap<'a> {
    answer: &'a Answer,
    first: u64,
    etags: &'a [String],
}

/// Overwrites an object on two connections while others read it, and calls `judge` for each read.
async fn overlapping(
    scene: &Scene<'_>,
    judge: impl Fn(Overlap<'_>) -> Result<(), Problem>,
) -> Result<(u64, u64), Problem> {
    let (key, mut round, mut reads) = (scene.key("overwritten"), 0, 0_u64);
    scene.put(&key, version(0)).await?;
    while scene.begins(round) {
        let first = 1 + round * 2;
        let put = |writer: u64| scene.expect(writer as usize, CheckCall::put(&key, version(first + writer)));
        let readers = join_all((2..2 + READERS).map(async |index| {
            let mut answers = Vec::new();
            for _ in 0..3 {
                answers.push(scene.send(index, CheckCall::get(&key)).await?);
            }
            Ok::<_, Problem>(answers)
        }));
        let (written, read) = futures_util::future::join(join_all((0..2).map(put)), readers).await;
        let written = written.into_iter().collect::<Result<Vec<_>, _>>()?;
        let etags: Vec<String> = written.iter().map(|answer| answer.etag().to_string()).collect();
        for answer in read.into_iter().collect::<Result<Vec<_>, _>>()?.iter().flatten() {
            reads += 1;
            judge(Overlap { answer, first, etags: &etags })?;
        }
        let last = scene.send(1, CheckCall::get(&key)).await?;
        let number = version_of(&last.body)
            .map_err(|found| Problem::violated(format!("a GET after two overwrites returned {found}")))?;
        require(number == first || number == first + 1, || {
            format!("a GET after overwrites returned version {number}, not {first} or {}", first + 1)
        })?;
        round += 1;
    }
    Ok((reads, round * 2))
}

/// A GET during overwrites returns one whole version.
pub async fn atomic_overwrite(scene: &Scene<'_>) -> Checked {
    let (reads, writes) = overlapping(scene, |overlap| {
        let answer = overlap.answer;
        require(answer.is_done(), || format!("a GET during overwrites was answered {}", answer.outcome()))?;
        let number = version_of(&answer.body);
        number
            .map(|_| ())
            .map_err(|found| Problem::violated(format!("a GET during overwrites returned {found}")))
    })
    .await?;
    Ok(format!("each of {reads} GETs during {writes} overwrites returned one whole version"))
}

/// A GET during overwrites returns the ETag of the version that it returns.
pub async fn etag_of_content(scene: &Scene<'_>) -> Checked {
    let (reads, writes) = overlapping(scene, |overlap| {
        let (answer, number) = (overlap.answer, version_of(&overlap.answer.body));
        // Mixed versions have no right ETag; another check finds them.
        let writer = number.ok().and_then(|number| number.checked_sub(overlap.first));
        let expected = writer.and_then(|writer| overlap.etags.get(writer as usize));
        require(expected.is_none_or(|expected| expected == answer.etag()), || {
            let (found, expected) =
                (answer.header("etag").unwrap_or("none"), expected.map_or("", String::as_str));
            format!("a GET during overwrites returned a version with the ETag {found}, not {expected}")
        })
    })
    .await?;
    Ok(format!("right for each of {reads} GETs during {writes} overwrites"))
}
