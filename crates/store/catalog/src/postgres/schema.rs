//! The table of the catalog and its statements.
//!
//! The table has one row for each key. `version` is different after each write, so that the parts of a value can be
//! read one after the other. Transactions are serializable: those that lock the rows which they have read share an
//! advisory lock, and the others hold it alone.

use crate::format;

/// Settings of every connection: an acknowledged commit is durable, and a gateway that hangs loses its lock.
pub const SETTINGS: &str = "SET synchronous_commit = on; SET default_transaction_isolation = 'read committed'; \
     SET statement_timeout = '30s'; SET lock_timeout = '30s'; \
     SET idle_in_transaction_session_timeout = '30s'; SET client_min_messages = warning";

/// Number of the lock under which the table is created.
const CREATE_LOCK: &str = "7093012548290167";

/// Columns of the table.
pub const COLUMNS: &str = "(key bytea PRIMARY KEY, head bytea NOT NULL, properties bytea NOT NULL, body bytea NOT NULL, \
     version bigint NOT NULL DEFAULT nextval('plimsoll_catalog_version'))";

/// Lets the bodies of a table be stored as they are. A change of the setting waits for all readers, so it is only made
/// if it is another one.
pub fn store_externally(table: &str) -> String {
    format!(
        "DO $$ BEGIN IF (SELECT attstorage <> 'e' FROM pg_attribute \
           WHERE attrelid = '{table}'::regclass AND attname = 'body') \
         THEN ALTER TABLE {table} ALTER COLUMN body SET STORAGE EXTERNAL; END IF; END $$"
    )
}

/// Creates the table unless it exists. Fails if the catalog was moved, or if a copy is not complete.
pub fn create() -> String {
    // Looked at again under the lock: since `prepare` has looked, a move may have given the table its other name, and
    // an empty catalog would begin.
    format!(
        "BEGIN; SELECT pg_advisory_xact_lock({CREATE_LOCK}); SET LOCAL client_min_messages = warning; \
         SET LOCAL lock_timeout = '10s'; \
         DO $$ BEGIN IF to_regclass('plimsoll_catalog') IS NULL \
           AND to_regclass('plimsoll_catalog_moved') IS NOT NULL \
         THEN RAISE EXCEPTION 'the catalog was moved'; END IF; \
         IF to_regclass('plimsoll_catalog') IS NULL AND to_regclass('plimsoll_catalog_unfinished') IS NOT NULL \
         THEN RAISE EXCEPTION 'a copy is not complete'; END IF; END $$; \
         CREATE SEQUENCE IF NOT EXISTS plimsoll_catalog_version; \
         CREATE TABLE IF NOT EXISTS plimsoll_catalog {COLUMNS}; {}; COMMIT",
        store_externally("plimsoll_catalog")
    )
}

/// Makes an unfinished copy the catalog.
pub fn complete() -> String {
    // Under the lock of `create`: a start must not create an empty table in the place of the copy.
    format!(
        "BEGIN; SELECT pg_advisory_xact_lock({CREATE_LOCK}); \
         ALTER TABLE plimsoll_catalog_unfinished RENAME TO plimsoll_catalog; {}; COMMIT",
        record_format()
    )
}

/// Gives the table of a catalog that was moved another name, at the end of a transaction. `text` says where it is.
pub fn rename_moved(text: &str) -> String {
    // The place is a path or a name of the settings, and may contain a quote.
    let text = text.replace('\'', "''");
    // Under the lock of `create`, which sees either the catalog or the one that was moved.
    format!(
        "SELECT pg_advisory_xact_lock({CREATE_LOCK}); \
         ALTER TABLE plimsoll_catalog RENAME TO plimsoll_catalog_moved; \
         COMMENT ON TABLE plimsoll_catalog_moved IS '{text}'; COMMIT"
    )
}

/// Gives such a table its name again.
pub fn rename_back() -> String {
    format!(
        "BEGIN; SELECT pg_advisory_xact_lock({CREATE_LOCK}); \
         ALTER TABLE plimsoll_catalog_moved RENAME TO plimsoll_catalog; {}; COMMIT",
        record_format()
    )
}

/// Records the format in the comment of the table.
pub fn record_format() -> String {
    format!("COMMENT ON TABLE plimsoll_catalog IS '{}'", format::comment())
}

/// Returns the comment of the table of a catalog that was moved; `NULL` if there is none.
pub const MOVED: &str = "SELECT obj_description(to_regclass('plimsoll_catalog_moved'), 'pg_class')";

/// Returns true if there is an unfinished copy of a catalog.
pub const UNFINISHED: &str = "SELECT to_regclass('plimsoll_catalog_unfinished') IS NOT NULL";

/// Returns true if the table exists.
pub const EXISTS: &str = "SELECT to_regclass('plimsoll_catalog') IS NOT NULL";

/// Returns the comment of the table, which has the format of the catalog.
pub const COMMENT: &str = "SELECT obj_description('plimsoll_catalog'::regclass, 'pg_class')";

/// Starts a transaction, and waits until all others have ended.
pub const BEGIN: &str = "BEGIN; SET LOCAL plimsoll.writes = 'on'; \
     SELECT pg_advisory_xact_lock('plimsoll_catalog'::regclass::oid::bigint)";

/// Starts a transaction beside others that were started so, and waits until those of [`BEGIN`] have ended.
pub const BEGIN_SHARED: &str = "BEGIN; SET LOCAL plimsoll.writes = 'on'; \
     SELECT pg_advisory_xact_lock_shared('plimsoll_catalog'::regclass::oid::bigint)";

/// Locks rows that the transaction writes, and fails with a division by zero unless `$3` of them have the versions that
/// were read. Rows are locked in the order of their keys.
pub const CHECK_WRITTEN: &str = "SELECT 1 / (count(*) = $3)::int FROM (SELECT 1 FROM plimsoll_catalog c \
     JOIN unnest($1::bytea[], $2::bigint[]) AS u(key, version) ON c.key = u.key AND c.version = u.version \
     ORDER BY c.key FOR NO KEY UPDATE OF c) s";

/// Checks rows that are only written by transactions of [`BEGIN`], so that they need no lock.
pub const CHECK_STABLE: &str = "SELECT 1 / (count(*) = $3)::int FROM plimsoll_catalog c \
     JOIN unnest($1::bytea[], $2::bigint[]) AS u(key, version) ON c.key = u.key AND c.version = u.version";

/// Does the same as [`CHECK_WRITTEN`] with rows that the transaction only reads.
pub const CHECK_READ: &str = "SELECT 1 / (count(*) = $3)::int FROM (SELECT 1 FROM plimsoll_catalog c \
     JOIN unnest($1::bytea[], $2::bigint[]) AS u(key, version) ON c.key = u.key AND c.version = u.version \
     ORDER BY c.key FOR SHARE OF c) s";

/// Fails with a division by zero if a row exists.
pub const CHECK_ABSENT: &str =
    "SELECT 1 / (count(*) = 0)::int FROM plimsoll_catalog WHERE key = ANY($1::bytea[])";

/// Writes rows that do not exist. Without a transaction, which was to begin before, it writes nothing.
pub const INSERT: &str = "INSERT INTO plimsoll_catalog (key, head, properties, body) \
     SELECT * FROM unnest($1::bytea[], $2::bytea[], $3::bytea[], $4::bytea[]) \
     WHERE current_setting('plimsoll.writes', true) = 'on'";

/// Largest body in bytes that is read together with its row.
pub const SMALL: i32 = 64 << 10;

/// Reads rows by their keys, each with its body if it has at most `$2` bytes.
pub const GET: &str = "SELECT key, head, properties, octet_length(properties), octet_length(body), version, \
     CASE WHEN octet_length(body) <= $2 THEN body END FROM plimsoll_catalog WHERE key = ANY($1::bytea[])";

/// Reads rows by their keys, without their values.
pub const GET_ALL: &str = "SELECT key, head, NULL::bytea, octet_length(properties), octet_length(body), version, \
     NULL::bytea FROM plimsoll_catalog WHERE key = ANY($1::bytea[])";

/// Reads the value of a row with a version.
pub const VALUE: &str = "SELECT head, properties, body FROM plimsoll_catalog WHERE key = $1 AND version = $2";

/// Reads rows without their values from a key on.
pub const PAGE: &str = "SELECT key, head, NULL::bytea, octet_length(properties), octet_length(body), version, \
     NULL::bytea FROM plimsoll_catalog WHERE key >= $1 ORDER BY key LIMIT $2";

/// Writes several rows, in a transaction.
pub const PUT: &str = "INSERT INTO plimsoll_catalog (key, head, properties, body) \
     SELECT * FROM unnest($1::bytea[], $2::bytea[], $3::bytea[], $4::bytea[]) \
     WHERE current_setting('plimsoll.writes', true) = 'on' ON CONFLICT (key) DO UPDATE SET head = EXCLUDED.head, properties = EXCLUDED.properties, \
     body = EXCLUDED.body, version = EXCLUDED.version";

/// Removes several rows, in a transaction.
pub const DELETE: &str = "DELETE FROM plimsoll_catalog WHERE key = ANY($1::bytea[]) \
     AND current_setting('plimsoll.writes', true) = 'on'";

/// Statement that returns the time of the database in Unix milliseconds.
pub const CLOCK: &str = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint";
