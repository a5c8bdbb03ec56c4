//! Verifies the log and the index of a catalog in a directory.

use std::sync::atomic::Ordering;

use plimsoll_catalog::embedded::Engine;
use plimsoll_catalog::embedded::reader::GroupReader;
use plimsoll_catalog::embedded::segment::{DIRECTORY, file_name};

/// Verifies the log of an embedded catalog.
pub fn verify(engine: &Engine, found: &mut Vec<String>) {
    for damage in engine.damage() {
        found.push(format!("{} at offset {}: {}", damage.file, damage.offset, damage.problem));
    }
    match engine.verify_index() {
        Ok(0) => {}
        // Nothing is lost, but the disk has changed bytes, which the operator must know.
        Ok(_) => found.push("a table of the index was damaged; it was built again from the log".into()),
        Err(error) => found.push(error.to_string()),
    }
    for segment in engine.segments() {
        let name = format!("{DIRECTORY}/{}", file_name(segment.id));
        let verified = GroupReader::new(&segment, 0).and_then(|mut reader| {
            // The rest of the last file is being written.
            reader.length = reader.length.min(segment.bytes.load(Ordering::Acquire));
            loop {
                let at = reader.offset;
                match reader.next_group()? {
                    Some(group) => {
                        for (record, _, offset, _) in group.records() {
                            if record.is_none_or(|record| !record.intact) {
                                found.push(format!("{name} at offset {offset}: a record is damaged"));
                            }
                        }
                    }
                    None if at >= reader.length => return Ok(()),
                    None => {
                        found.push(format!("{name} at offset {at}: the header of a group is damaged"));
                        // The search goes on behind the damage, because later groups may be damaged, too.
                        if !reader.skip_damage()? {
                            return Ok(());
                        }
                    }
                }
            }
        });
        // A file that cannot be read does not end the verification of the next ones.
        if let Err(error) = verified {
            found.push(format!("{name}: {error}"));
        }
    }
}
