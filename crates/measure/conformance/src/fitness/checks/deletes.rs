//! Deletes of one object or several.

use super::super::call::CheckCall;
use super::super::problem::{Checked, Problem, require};
use super::super::scene::Scene;

/// A DELETE of a missing key succeeds.
pub async fn delete_missing(scene: &Scene<'_>) -> Checked {
    let answer = scene.delete(&scene.key("never written")).await?;
    Ok(format!("answered {}", answer.status))
}

/// DeleteObjects deletes several keys, also missing ones and those with special characters.
pub async fn delete_many(scene: &Scene<'_>) -> Checked {
    let mut keys: Vec<String> = (0..20).map(|i| scene.key(&format!("many/{i}"))).collect();
    keys.extend(["many/a b+c", "many/<&>\"'", "many/\u{65e5}\u{672c}"].map(|name| scene.key(name)));
    scene.put_all(&keys).await?;
    let kept = scene.key("many/kept");
    scene.put(&kept, "content").await?;
    let written = keys.len();
    keys.push(scene.key("many/missing"));
    let Some(owned) = scene.space.own_all(&keys) else {
        return Err(Problem::Inconclusive("foreign key".into()));
    };
    let answer = scene.expect(0, CheckCall::delete_many(owned)).await?;
    let root = answer.xml().unwrap_or_default();
    if let Some(error) = root.children.iter().find(|child| child.name == "Error") {
        let (key, code) = (error.text_of("Key").unwrap_or(""), error.text_of("Code").unwrap_or(""));
        let name = key.strip_prefix(scene.root.as_str()).unwrap_or(key);
        return Err(Problem::violated(format!("DeleteObjects gives the error {code} for {name:?}")));
    }
    for key in &keys {
        scene.settle(key, None).await?;
    }
    let page = scene.page(1, CheckCall::list(&scene.key("many/"))).await?;
    require(page.keys() == [kept.as_str()], || {
        format!(
            "after DeleteObjects of {written} keys, {} are listed instead of the one that is left",
            page.entries.len()
        )
    })?;
    scene.reads(1, &kept, b"content", "after DeleteObjects of others").await?;
    Ok(format!("{written} keys and a missing one in a request"))
}
