//! The trigger that records which keys change while the catalog of a database is moved.

use super::connection::Link;
use crate::CatalogError;

/// Number of the lock that the only move of a catalog holds.
const LOCK: &str = "7093012548290168";
/// Returns true if there is a trigger.
pub const HAS_TRIGGER: &str = "SELECT EXISTS (SELECT 1 FROM pg_trigger WHERE tgname = 'plimsoll_changes' \
     AND tgrelid = to_regclass('plimsoll_catalog'))";
/// Removes what a move has left.
pub const CLEAN: &str = "DROP TRIGGER IF EXISTS plimsoll_changes ON plimsoll_catalog; \
     DROP FUNCTION IF EXISTS plimsoll_record_change; DROP TABLE IF EXISTS plimsoll_changes";
/// Creates the trigger, which does the same whoever writes.
pub const RECORD: &str = "CREATE TABLE plimsoll_changes (key bytea NOT NULL); \
     CREATE FUNCTION plimsoll_record_change() RETURNS trigger LANGUAGE plpgsql \
       SECURITY DEFINER SET search_path FROM CURRENT AS $$ BEGIN \
       INSERT INTO plimsoll_changes VALUES (CASE TG_OP WHEN 'DELETE' THEN OLD.key ELSE NEW.key END); \
       RETURN NULL; END $$; \
     CREATE TRIGGER plimsoll_changes AFTER INSERT OR UPDATE OR DELETE ON plimsoll_catalog \
       FOR EACH ROW EXECUTE FUNCTION plimsoll_record_change()";
/// Lets the trigger do nothing, which needs no lock of the table.
pub const DISARM: &str = "CREATE OR REPLACE FUNCTION plimsoll_record_change() RETURNS trigger LANGUAGE plpgsql \
     AS $$ BEGIN RETURN NULL; END $$; TRUNCATE plimsoll_changes";
/// Returns true if the table has the name of a catalog that was moved.
pub const IS_MOVED: &str = "SELECT to_regclass('plimsoll_catalog') IS NULL \
     AND to_regclass('plimsoll_catalog_moved') IS NOT NULL";
/// Takes the keys that were recorded.
pub const TAKE: &str = "DELETE FROM plimsoll_changes RETURNING key";

/// Returns the statement that takes the lock of the only process that moves a catalog, until its connection ends.
pub fn try_lock() -> String {
    format!("SELECT pg_try_advisory_lock({LOCK})")
}

/// Removes the trigger of a move whose process has ended before.
///
/// # Errors
/// If the database does not answer.
pub fn remove_abandoned(link: &Link) -> Result<(), CatalogError> {
    link.once(async |client| {
        let has_trigger: bool = client.query_one(HAS_TRIGGER, &[]).await?.try_get(0)?;
        // Whoever moves the catalog holds the lock. Without its trigger, the copy would miss what changes.
        if has_trigger && client.query_one(&try_lock(), &[]).await?.try_get(0)? {
            // Others use the table: a later start tries again.
            let _ = client.batch_execute(&format!("SET lock_timeout = '2s'; {CLEAN}")).await;
        }
        Ok(())
    })
}
