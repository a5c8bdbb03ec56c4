//! Reads: ranges, conditions, missing objects, entity tags and times.

use super::super::call::{Answer, CheckCall};
use super::super::problem::{Checked, Problem, require};
use super::super::scene::{Scene, difference};
use super::content::{MIN_PART, pattern};
use plimsoll_base::net::encode::hex;
use plimsoll_s3::checksum::md5;

/// GET and HEAD of a missing key give 404, a GET with the code `NoSuchKey`.
pub async fn missing_object(scene: &Scene<'_>) -> Checked {
    let key = scene.key("missing");
    let get = scene.send(0, CheckCall::get(&key)).await?;
    require(get.status == 404, || format!("a GET of a missing key was answered {}", get.outcome()))?;
    require(get.code == "NoSuchKey", || {
        format!("a GET of a missing key was answered {}, not 404 NoSuchKey", get.outcome())
    })?;
    let head = scene.send(0, CheckCall::head(&key)).await?;
    require(head.status == 404, || format!("a HEAD of a missing key was answered {}", head.outcome()))?;
    Ok("404 NoSuchKey".into())
}

/// Size of the object whose ranges are read.
const RANGED_BYTES: usize = 300_000;

/// Returns first and last byte of the range of a round: first those at borders, then others.
fn range_of(round: u64) -> (usize, usize) {
    let borders =
        [(0, 0), (0, 9), (1, 1), (4095, 4096), (65_535, 65_537), (100_000, 299_999), (299_999, 299_999)];
    let from = round as usize * 12_345 % 290_000;
    borders.get(round as usize).copied().unwrap_or((from, from + 1 + round as usize * 7919 % 9_999))
}

/// Requests ranges of an object, calls `judge` with each range, its bytes and the answer, and returns how many ranges
/// were requested.
async fn each_range(
    scene: &Scene<'_>,
    judge: impl Fn(&str, &[u8], &Answer) -> Result<(), Problem>,
) -> Result<u64, Problem> {
    let (key, content, mut round) = (scene.key("ranged"), pattern(RANGED_BYTES), 0);
    scene.put(&key, content.clone()).await?;
    while scene.begins(round) {
        let (from, to) = range_of(round);
        let wanted = format!("bytes={from}-{to}");
        let answer = scene.expect(0, CheckCall::get(&key).header("range", wanted.clone())).await?;
        judge(&format!("{from}-{to}"), &content[from..=to], &answer)?;
        round += 1;
    }
    Ok(round)
}

/// A range returns exactly its bytes.
pub async fn range(scene: &Scene<'_>) -> Checked {
    let count = each_range(scene, |range, content, answer| {
        require(answer.body == content, || {
            format!("bytes={range} returned {}", difference(&answer.body, content))
        })
    });
    let count = count.await?;
    let in_parts = across_parts(scene).await?;
    Ok(format!("{count} ranges return exactly their bytes{in_parts}"))
}

/// Reads ranges at the border of two parts of an object. Returns a remark, or an empty text if the store has no
/// multipart uploads, which the check `multipart` reports.
async fn across_parts(scene: &Scene<'_>) -> Result<&'static str, Problem> {
    let (key, content) = (scene.key("in parts"), pattern(MIN_PART + 5000));
    let Ok(upload) = scene.begin_upload(&key).await else { return Ok("") };
    let mut parts = Vec::new();
    for (number, data) in [(1, &content[..MIN_PART]), (2, &content[MIN_PART..])] {
        let Ok(part) = scene.part(0, &key, &upload, number, CheckCall::put("", data.to_vec())).await else {
            return Ok("");
        };
        parts.push(part);
    }
    if scene.complete(&key, &upload, &parts).await.is_err() {
        return Ok("");
    }
    let border = MIN_PART;
    for (from, to) in [
        (border - 1, border),
        (border, border),
        (border - 4096, border + 4095),
        (border + 4990, border + 4999),
    ] {
        let answer =
            scene.expect(0, CheckCall::get(&key).header("range", format!("bytes={from}-{to}"))).await?;
        require(answer.body == content[from..=to], || {
            let found = difference(&answer.body, &content[from..=to]);
            format!("bytes={from}-{to} of an object in two parts of 5 MiB and 5,000 bytes returned {found}")
        })?;
    }
    Ok(", also across parts")
}

/// The answer to a range has the status 206.
pub async fn range_status(scene: &Scene<'_>) -> Checked {
    let count = each_range(scene, |range, _, answer| {
        require(answer.status == 206, || {
            format!("bytes={range} of 300,000 bytes was answered {}", answer.outcome())
        })
    });
    Ok(format!("206 for {} ranges", count.await?))
}

/// The answer to a range has the right `Content-Range`.
pub async fn content_range(scene: &Scene<'_>) -> Checked {
    let count = each_range(scene, |range, _, answer| {
        let (given, expected) =
            (answer.header("content-range").unwrap_or("none"), format!("bytes {range}/{RANGED_BYTES}"));
        require(given == expected, || format!("bytes={range} has Content-Range {given}, not {expected}"))
    });
    Ok(format!("right for {} ranges", count.await?))
}

/// Requires the content of a range of an object of ten bytes.
async fn cut(scene: &Scene<'_>, key: &str, wanted: &str, content: &str) -> Result<(), Problem> {
    let answer = scene.send(0, CheckCall::get(key).header("range", wanted)).await?;
    require(answer.is_done() && answer.body == content.as_bytes(), || {
        let body =
            if answer.is_done() { difference(&answer.body, content.as_bytes()) } else { "an error".into() };
        format!("{wanted} of 10 bytes was answered {} with {body}", answer.outcome())
    })
}

/// A range that ends after the object is cut at its end.
pub async fn range_past_end(scene: &Scene<'_>) -> Checked {
    let key = scene.key("short");
    scene.put(&key, "0123456789").await?;
    for (wanted, content) in
        [("bytes=7-999", "789"), ("bytes=0-10", "0123456789"), ("bytes=9-9223372036854775806", "9")]
    {
        cut(scene, &key, wanted, content).await?;
    }
    Ok("cut at the end of the object".into())
}

/// A range that begins after the object gives 416.
pub async fn range_unsatisfiable(scene: &Scene<'_>) -> Checked {
    let key = scene.key("short");
    scene.put(&key, "0123456789").await?;
    for wanted in ["bytes=10-", "bytes=10-20", "bytes=500-600"] {
        let answer = scene.send(0, CheckCall::get(&key).header("range", wanted)).await?;
        require(answer.status == 416, || {
            format!("{wanted} of 10 bytes was answered {}, not 416 InvalidRange", answer.outcome())
        })?;
    }
    Ok("416 InvalidRange".into())
}

/// A suffix range returns the last bytes.
pub async fn suffix_range(scene: &Scene<'_>) -> Checked {
    let key = scene.key("suffix");
    scene.put(&key, "0123456789").await?;
    for (wanted, content) in
        [("bytes=-1", "9"), ("bytes=-4", "6789"), ("bytes=-10", "0123456789"), ("bytes=-99", "0123456789")]
    {
        cut(scene, &key, wanted, content).await?;
    }
    Ok("the last bytes are returned".into())
}

/// A range without an end returns the rest of the object.
pub async fn open_range(scene: &Scene<'_>) -> Checked {
    let key = scene.key("open");
    scene.put(&key, "0123456789").await?;
    for (wanted, content) in [("bytes=0-", "0123456789"), ("bytes=1-", "123456789"), ("bytes=9-", "9")] {
        cut(scene, &key, wanted, content).await?;
    }
    Ok("the rest from three positions".into())
}

/// An entity tag that no object has.
const OTHER_ETAG: &str = "\"0123456789abcdef0123456789abcdef\"";

/// Sends GETs with a condition and the current ETag, then another one, and requires the two statuses.
async fn conditions(scene: &Scene<'_>, name: &'static str, statuses: [u16; 2]) -> Result<(), Problem> {
    let key = scene.key("conditional");
    let etag = scene.put(&key, "content").await?.etag().to_string();
    for ((tag, value), status) in
        [("the current", etag.as_str()), ("another", OTHER_ETAG)].into_iter().zip(statuses)
    {
        let answer = scene.send(0, CheckCall::get(&key).header(name, value)).await?;
        require(answer.status == status, || {
            format!("a GET with {name} and {tag} ETag was answered {}, not {status}", answer.outcome())
        })?;
    }
    Ok(())
}

/// A GET with `If-None-Match` gives 304 for an unchanged object.
pub async fn conditional_read(scene: &Scene<'_>) -> Checked {
    conditions(scene, "if-none-match", [304, 200]).await?;
    Ok("304 for an unchanged object".into())
}

/// A GET with `If-Match` gives 412 for a changed object.
pub async fn read_if_match(scene: &Scene<'_>) -> Checked {
    conditions(scene, "if-match", [200, 412]).await?;
    Ok("412 for a changed object".into())
}

/// PUT, HEAD, GET and LIST give the same ETag; new content has another one.
pub async fn etag_stable(scene: &Scene<'_>) -> Checked {
    let key = scene.key("tagged");
    let mut seen = Vec::new();
    for content in ["first content", "other content", "more"] {
        let put = scene.put(&key, content).await?.etag().to_string();
        require(!put.is_empty(), || "the answer to a PUT has no ETag".into())?;
        let listed = scene.page(0, CheckCall::list(&key)).await?;
        let listed = listed.entries.iter().find(|entry| entry.key == key).map(|entry| entry.etag.clone());
        let others = [
            ("HEAD", scene.expect(1, CheckCall::head(&key)).await?.etag().to_string()),
            ("GET", scene.expect(2, CheckCall::get(&key)).await?.etag().to_string()),
            ("a listing", listed.unwrap_or_default()),
            ("a second HEAD", scene.expect(3, CheckCall::head(&key)).await?.etag().to_string()),
        ];
        for (name, tag) in others {
            // Some stores list the tag without its quotes.
            require(tag.trim_matches('"') == put.trim_matches('"'), || {
                format!("the ETag of {name} is '{tag}', that of the PUT '{put}'")
            })?;
        }
        require(!seen.contains(&put), || format!("two contents have the same ETag {put}"))?;
        seen.push(put);
    }
    Ok("equal in PUT, HEAD, GET and listings".into())
}

/// The ETag of an object that one PUT wrote is the MD5 of its content.
pub async fn etag_md5(scene: &Scene<'_>) -> Checked {
    let put = scene.put(&scene.key("hashed"), "hashed content").await?;
    let expected = hex(&md5(b"hashed content"));
    require(put.etag().trim_matches('"') == expected, || {
        format!("the ETag is {}, the MD5 of the content {expected}", put.etag())
    })?;
    Ok("the ETag of a simple PUT".into())
}

/// Greatest difference between the time of an object and the clock of the store, in seconds.
const MAX_CLOCK_S: i64 = 60;

/// The time of the last change agrees in HEAD, GET and listings, and with the clock of the store.
pub async fn last_modified(scene: &Scene<'_>) -> Checked {
    let key = scene.key("dated");
    let put = scene.put(&key, "content").await?;
    let second = |text: Option<&str>| {
        text.and_then(|text| jiff::fmt::rfc2822::parse(text).ok()).map(|at| at.timestamp().as_second())
    };
    let head = scene.expect(1, CheckCall::head(&key)).await?;
    let get = scene.expect(2, CheckCall::get(&key)).await?;
    let page = scene.page(3, CheckCall::list(&key)).await?;
    let listed = page.entries.iter().find(|entry| entry.key == key).map_or("", |entry| &entry.modified);
    let Some(of_head) = second(head.header("last-modified")) else {
        return Err(Problem::violated("a HEAD has no valid Last-Modified"));
    };
    let of_get = second(get.header("last-modified"));
    require(of_get == Some(of_head), || "Last-Modified differs between HEAD and GET".into())?;
    let of_list = listed.parse::<jiff::Timestamp>().map(jiff::Timestamp::as_second);
    require(of_list.as_ref().is_ok_and(|at| (at - of_head).abs() <= 1), || {
        format!("a listing gives {listed:?}, a HEAD {:?}", head.header("last-modified").unwrap_or(""))
    })?;
    if let Some(clock) = second(put.header("date")) {
        require((of_head - clock).abs() <= MAX_CLOCK_S, || {
            format!("Last-Modified differs by {} s from the Date of the PUT", of_head - clock)
        })?;
    }
    Ok("equal in HEAD, GET and listings, and close to the store's clock".into())
}
