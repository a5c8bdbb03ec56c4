//! Listings and keys.

use super::super::call::CheckCall;
use super::super::problem::Problem;
use super::super::problem::{Checked, require};
use super::super::scene::{Page, Scene};

/// Writes keys and requires that a listing of their prefix gives them in the order of their bytes.
async fn ordered(scene: &Scene<'_>, prefix: &str, names: &[&str]) -> Result<(), Problem> {
    let mut keys: Vec<String> = names.iter().map(|name| scene.key(&format!("{prefix}{name}"))).collect();
    scene.put_all(&keys.iter().rev().cloned().collect::<Vec<_>>()).await?;
    let page = scene.page(0, CheckCall::list(&scene.key(prefix))).await?;
    keys.sort_unstable();
    let name = |key: &str| key.strip_prefix(scene.root.as_str()).unwrap_or(key).to_string();
    let listed = page.keys();
    if let Some((found, expected)) = listed.iter().zip(&keys).find(|(found, expected)| *found != expected) {
        return Err(Problem::violated(format!(
            "{:?} is listed instead of {:?}",
            name(found),
            name(expected)
        )));
    }
    require(listed.len() == keys.len(), || format!("{} of {} keys are listed", listed.len(), keys.len()))
}

/// Keys of ASCII characters in a folder are listed in the order of their bytes.
pub async fn list_order(scene: &Scene<'_>) -> Checked {
    let names = ["00010", "10", "2", "A", "B", "Z1", "_last", "a-", "a.b", "a0", "aa", "b", "b_", "z"];
    ordered(scene, "order/", &names).await?;
    Ok("in the order of their bytes".into())
}

/// Keys in several folders are listed in the order of their bytes, in which `a-` and `a.b` precede `a/b`.
pub async fn list_order_folders(scene: &Scene<'_>) -> Checked {
    ordered(scene, "folders/", &["Z/1", "a-", "a-b/1", "a.b", "a/b", "a/c.d", "a0", "aa/1", "b"]).await?;
    Ok("in the order of their bytes".into())
}

/// Keys with characters beyond ASCII are listed in the order of their UTF-8 bytes, not of UTF-16.
pub async fn list_order_unicode(scene: &Scene<'_>) -> Checked {
    ordered(scene, "unicode/", &["a", "z", "\u{e9}", "\u{4e00}", "\u{ff21}", "\u{1f600}"]).await?;
    Ok("in the order of their bytes".into())
}

/// A key may be the beginning of another one, up to a slash.
pub async fn nested_keys(scene: &Scene<'_>) -> Checked {
    ordered(scene, "nested/", &["a", "a/b", "a/b/c", "a-", "ab"]).await?;
    for name in ["nested/a", "nested/a/b"] {
        let key = scene.key(name);
        scene.reads(1, &key, key.as_bytes(), "after the PUTs").await?;
    }
    Ok("an object and objects below it".into())
}

/// Requests pages until the last one, and requires each key once.
async fn pages(
    scene: &Scene<'_>,
    keys: &[String],
    most: usize,
    next: impl Fn(Option<&Page>) -> CheckCall,
) -> Result<usize, Problem> {
    let (mut found, mut last, mut count): (Vec<String>, Option<Page>, usize) = (Vec::new(), None, 0);
    loop {
        let page = scene.page(0, next(last.as_ref()).query("max-keys", most.to_string())).await?;
        count += 1;
        require(page.entries.len() <= most, || {
            format!("a page of at most {most} keys has {}", page.entries.len())
        })?;
        require(count <= keys.len() + 1, || "the listing does not end".into())?;
        found.extend(page.entries.iter().map(|entry| entry.key.clone()));
        if !page.is_truncated {
            break;
        }
        last = Some(page);
    }
    require(found == keys, || {
        let missing = keys.iter().filter(|key| !found.contains(key)).count();
        format!("{} keys were listed in {count} pages, {missing} of {} are missing", found.len(), keys.len())
    })?;
    Ok(count)
}

/// Writes 25 keys below a folder, two of them with characters that tokens may break.
async fn folder(scene: &Scene<'_>, name: &str) -> Result<Vec<String>, Problem> {
    let mut keys: Vec<String> = (0..23).map(|i| scene.key(&format!("{name}/{i:02}"))).collect();
    keys.extend(["07 +%2B", "11&\u{e9}"].map(|odd| scene.key(&format!("{name}/{odd}"))));
    scene.put_all(&keys).await?;
    keys.sort_unstable();
    Ok(keys)
}

/// Pages with a continuation token give each key once.
pub async fn list_pages(scene: &Scene<'_>) -> Checked {
    let keys = folder(scene, "pages").await?;
    let prefix = scene.key("pages/");
    let call = |page: Option<&Page>| {
        let call = CheckCall::list(&prefix);
        match page {
            Some(page) => call.query("continuation-token", page.next.clone()),
            None => call,
        }
    };
    for most in [1, 3, 25] {
        pages(scene, &keys, most, call).await?;
    }
    if !scene.is_thorough() {
        return Ok("each of 25 keys once, in pages of 1, 3 and 25".into());
    }
    whole_pages(scene).await?;
    Ok(format!("each of 25 keys once, in pages of 1, 3 and 25, and {MANY_KEYS} in whole pages"))
}

/// Number of keys that do not fit on a page.
const MANY_KEYS: usize = 1_050;
/// Most keys of a page of S3.
const PAGE_KEYS: usize = 1_000;

/// Lists more keys than a page of S3 has, without naming a number.
async fn whole_pages(scene: &Scene<'_>) -> Result<(), Problem> {
    let keys: Vec<String> = (0..MANY_KEYS).map(|i| scene.key(&format!("whole/{i:05}"))).collect();
    scene.put_all(&keys).await?;
    scene.client.begin_trace(&scene.root);
    let (mut found, mut token) = (0, String::new());
    // A store may have smaller pages, but each must have a key.
    for _ in 0..=MANY_KEYS {
        let mut call = CheckCall::list(&scene.key("whole/"));
        if !token.is_empty() {
            call = call.query("continuation-token", token);
        }
        let page = scene.page(0, call).await?;
        let next = keys[found..].iter().take(page.entries.len()).map(String::as_str);
        require(page.keys().into_iter().eq(next) && page.entries.len() <= PAGE_KEYS, || {
            let count = page.entries.len();
            format!("a page of {count} keys does not continue after the first {found} of {MANY_KEYS} keys")
        })?;
        found += page.entries.len();
        if !page.is_truncated {
            break;
        }
        token = page.next;
    }
    require(found == MANY_KEYS, || format!("{found} of {MANY_KEYS} keys are listed"))
}

/// Version 1 of the operation gives each key once, with markers.
pub async fn list_v1(scene: &Scene<'_>) -> Checked {
    let keys = folder(scene, "markers").await?;
    let prefix = scene.key("markers/");
    let call = |page: Option<&Page>| {
        let call = CheckCall::get("").query("prefix", prefix.clone());
        match page {
            // Without a delimiter, the last key of a page is the marker of the next one.
            Some(page) => call.query("marker", page.keys().last().copied().unwrap_or_default()),
            None => call,
        }
    };
    pages(scene, &keys, 4, call).await?;
    Ok("each of 25 keys once, in pages of 4".into())
}

/// A listing begins after a key.
pub async fn list_start_after(scene: &Scene<'_>) -> Checked {
    let keys = folder(scene, "after").await?;
    for after in [5, 12] {
        let call = CheckCall::list(&scene.key("after/")).query("start-after", keys[after].clone());
        let page = scene.page(0, call).await?;
        require(page.keys() == keys[after + 1..], || {
            format!("{} of 25 keys are listed after number {}", page.entries.len(), after + 1)
        })?;
    }
    Ok("only keys after the given one".into())
}

/// A prefix and a delimiter give objects and common prefixes.
pub async fn list_delimiter(scene: &Scene<'_>) -> Checked {
    let names = ["tree/a", "tree/b/1", "tree/b/2", "tree/b/c/3", "tree/d e/4", "tree/z"];
    scene.put_all(&names.map(|name| scene.key(name))).await?;
    let listing = async |prefix: &str| {
        let page = scene.page(0, CheckCall::list(&scene.key(prefix)).query("delimiter", "/")).await?;
        let short = |key: &str| key.strip_prefix(scene.root.as_str()).unwrap_or(key).to_string();
        let keys: Vec<String> = page.keys().into_iter().map(short).collect();
        Ok::<_, Problem>((keys, page.prefixes.iter().map(|prefix| short(prefix)).collect::<Vec<_>>()))
    };
    for (prefix, keys, prefixes) in [
        ("tree/", &["tree/a", "tree/z"][..], &["tree/b/", "tree/d e/"][..]),
        ("tree/b/", &["tree/b/1", "tree/b/2"], &["tree/b/c/"]),
        ("tree/b", &[], &["tree/b/"]),
        ("tree/none/", &[], &[]),
    ] {
        let (found, common) = listing(prefix).await?;
        require(found == keys && common == prefixes, || {
            format!(
                "prefix {prefix:?} gives keys {found:?} and prefixes {common:?}, not {keys:?} and {prefixes:?}"
            )
        })?;
    }
    Ok("objects and common prefixes".into())
}

/// Names of objects with characters that need encoding, in URLs or in XML.
const SPECIAL: [&str; 14] = [
    "a b",
    "a+b",
    "a%2Fb",
    "a%b",
    "a&b<c>",
    "quote\"'",
    "q?x=1&y=2#z",
    "gr\u{fc}n/\u{65e5}\u{672c}/\u{1f600}",
    "a//b",
    "tilde~(paren)!*'",
    "comma,semi;colon:at@",
    "back\\slash",
    "dollar$=caret^`|{}[]",
    "trailing ",
];

/// Keys with special characters are kept exactly.
pub async fn special_keys(scene: &Scene<'_>) -> Checked {
    for name in SPECIAL {
        scene.client.begin_trace(&scene.root);
        let key = scene.key(&format!("special/{name}"));
        scene.put(&key, name).await?;
        scene.reads(1, &key, name.as_bytes(), "after its PUT").await?;
        let page = scene.page(0, CheckCall::list(&key)).await?;
        require(page.keys() == [key.as_str()], || match page.keys().first() {
            Some(key) => format!("key {name:?} is listed as {:?}", key.replace(&scene.key("special/"), "")),
            None => format!("key {name:?} is not listed"),
        })?;
        scene.delete(&key).await?;
        let gone = scene.get_until(1, &key, |answer| answer.status == 404).await?;
        require(gone.status == 404, || {
            format!("a GET of {name:?} after its DELETE was answered {}", gone.outcome())
        })?;
    }
    Ok(format!("{} keys with special characters", SPECIAL.len()))
}

/// Maximum length of a key in bytes.
const MAX_KEY: usize = 1024;

/// Keys may have 1,024 bytes.
pub async fn long_keys(scene: &Scene<'_>) -> Checked {
    // A segment of 255 bytes is the longest that file systems allow.
    let mut key = scene.key("long");
    while key.len() < MAX_KEY {
        let room = MAX_KEY - key.len();
        if room < 2 {
            key.push('x');
        } else {
            key.push('/');
            key.push_str(&"k".repeat((room - 1).min(200)));
        }
    }
    scene.put(&key, "content").await?;
    scene.reads(1, &key, b"content", "after its PUT").await?;
    let page = scene.page(0, CheckCall::list(&scene.key("long"))).await?;
    require(page.keys() == [key.as_str()], || format!("{} keys are listed", page.entries.len()))?;
    scene.delete(&key).await?;
    Ok("1,024 bytes".into())
}
