//! A tier belongs to one catalog.

use plimsoll_objects::owner::Identity;
use plimsoll_objects::owner::claim::{Claim, inspect, take, take_free};
use plimsoll_store_testing::World;

#[tokio::test]
async fn a_tier_follows_its_catalog_and_refuses_others_and_older_states() {
    let world = World::new(1, 0).await;
    let tier = world.store.blobs.tiers().get(0).unwrap().clone();
    let at = |id, position| Identity { id: [id; 16], position, at_ms: 0 };
    assert!(matches!(inspect(&tier, &at(1, 0)).await, Ok(Claim::Free)));
    take_free(&tier, &at(1, 0)).await.unwrap();
    take_free(&tier, &at(1, 0)).await.unwrap();
    let found = |claim| if let Ok(Claim::Own(found)) = claim { found } else { panic!("not the owner") };
    let created = found(inspect(&tier, &at(1, 0)).await);
    take(&tier, &at(1, 1), "a", Some(&created)).await.unwrap();
    // The answer of the first attempt was lost.
    take(&tier, &at(1, 1), "a", Some(&created)).await.unwrap();
    let copied = take(&tier, &at(1, 1), "b", Some(&created)).await.unwrap_err().to_string();
    assert!(copied.contains("a copy of this catalog uses tier 0"), "{copied}");
    take(&tier, &at(1, 5), "a", Some(&created)).await.unwrap();
    let older = take(&tier, &at(1, 4), "a", Some(&created)).await.unwrap_err().to_string();
    assert!(older.contains("position 4") && older.contains("seen position 5"), "{older}");
    assert!(take_free(&tier, &at(2, 0)).await.is_err());
    let foreign = take(&tier, &at(2, 9), "a", None).await.unwrap_err().to_string();
    assert!(
        foreign.contains("belongs to another catalog") && foreign.contains(&at(1, 0).text()),
        "{foreign}"
    );
    assert!(matches!(inspect(&tier, &at(1, 5)).await, Ok(Claim::Own(_))));
    assert!(matches!(inspect(&tier, &at(1, 6)).await, Ok(Claim::Own(_))));
}
