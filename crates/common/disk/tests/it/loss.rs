//! Effects of power losses, case by case, and programs that survive all of them.

use plimsoll_disk::draws::Draws;
use plimsoll_disk::rules::Fate;
use plimsoll_disk::{Disk, DiskFaults, Model};

use crate::ext4::{disk_after, execute, listing, parse, sizes};
use crate::script::Step;

/// Programs, and what POSIX promises of them: files with their sizes, directories with a slash.
const POSIX_CASES: [(&str, &str); 9] = [
    ("create a, write a 1, fsync a", ""),
    ("create a, write a 1, fsync .", "a 0"),
    ("create a, write a 1, fsync a, fsync .", "a 5000"),
    ("create a, write a 1, fsync a, fsync ., rename a b", "a 5000"),
    ("create a, write a 1, fsync a, fsync ., rename a b, fsync .", "b 5000"),
    ("mkdir x, create x/a, write x/a 1, fsync x/a, fsync x", ""),
    ("mkdir x, create x/a, write x/a 1, fsync x/a, fsync x, fsync .", "x/, x/a 5000"),
    ("mkdir x, fsync ., create a, write a 1, fsync a, fsync ., rename a x/a, fsync x", "x/, x/a 5000"),
    ("create a, write a 1, fsync a, fsync ., append a 2, truncate a 100", "a 5000"),
];

fn text(disk: &Disk) -> String {
    let listing = listing(disk.tree());
    let line = |(path, size): (&str, Option<usize>)| match size {
        Some(size) => format!("{path} {size}"),
        None => format!("{path}/"),
    };
    let entries = sizes(&listing).into_iter().map(|(path, size)| (path, size.map(|(bytes, _)| bytes)));
    entries.map(line).collect::<Vec<_>>().join(", ")
}

#[test]
fn posix_promises_what_was_synced_and_nothing_more() {
    for (program, expected) in POSIX_CASES {
        let disk = disk_after(Model::Posix, &parse(program));
        assert_eq!(text(&disk.after_power_loss(Fate::Nothing, 0).0), expected, "{program}");
    }
}

#[test]
fn nothing_gets_lost_that_the_disk_has_written_back() {
    for model in Model::ALL {
        let program = "create a, write a 1, mkdir x, rename a x/b";
        let mut disk = disk_after(model, &parse(program));
        disk.write_back();
        for step in parse("create x/c, write x/c 2") {
            execute(&mut disk, &step).unwrap();
        }
        assert_eq!(text(&disk.after_power_loss(Fate::Nothing, 0).0), "x/, x/b 5000", "{model:?}");
    }
}

/// Returns all states that a power loss may leave, as far as 300 seeds find them.
fn states(model: Model, program: &str) -> Vec<String> {
    let disk = disk_after(model, &parse(program));
    let mut found: Vec<_> = (0..300).map(|seed| text(&disk.after_power_loss(Fate::Some, seed).0)).collect();
    found.sort();
    found.dedup();
    found
}

/// Differences that T. Pillai et al. found between file systems ("All File Systems Are Not Created Equal", OSDI 2014,
/// table 1): the order of directory operations, and of appends and renames.
#[test]
fn ext4_orders_directory_operations_and_posix_does_not() {
    let synced = "create a, write a 1, fsync a, create b, write b 2, fsync b, fsync .";
    let program = format!("{synced}, rename a c, rename b d");
    let only_the_second = "a 5000, d 5000".to_string();
    assert!(!states(Model::Ext4, &program).contains(&only_the_second));
    assert!(states(Model::Posix, &program).contains(&only_the_second));
}

/// The problem of files without bytes after a rename, which `auto_da_alloc` prevents for existing targets only.
#[test]
fn a_rename_without_a_sync_may_leave_a_file_without_bytes() {
    let onto_existing = "create b, write b 1, fsync b, create a, write a 2, rename a b, create z, fsync z";
    assert_eq!(states(Model::Ext4, onto_existing), ["b 5000, z 0"]);
    let onto_free = "create a, write a 2, rename a b, create z, fsync z";
    assert!(states(Model::Ext4, onto_free).contains(&"b 0, z 0".to_string()));
}

#[test]
fn an_overwrite_may_be_torn_within_a_sector_boundary_only() {
    for model in Model::ALL {
        let disk = disk_after(model, &parse("create a, write a 1, fsync a, fsync ., write a 2"));
        let (mut old, mut new, mut torn) = (false, false, false);
        for seed in 0..300 {
            let after = listing(disk.after_power_loss(Fate::Some, seed).0.tree());
            let content = after["a"].clone().unwrap();
            assert_eq!(content.len(), 5_000);
            for sector in content.chunks(512) {
                assert!(sector.iter().all(|byte| byte == &sector[0]), "a sector is written as a whole");
            }
            old |= content.iter().all(|byte| *byte == 1);
            new |= content.iter().all(|byte| *byte == 2);
            torn |= content.contains(&1) && content.contains(&2);
        }
        assert!(old && new && torn, "{model:?}");
    }
}

/// Replaces `key` as a careful program does, and leaves out the steps whose text contains `without`.
fn replace(key: &str, byte: u8, without: &str) -> Vec<Step> {
    let steps =
        format!("create {key}.tmp, write {key}.tmp {byte}, fsync {key}.tmp, rename {key}.tmp {key}, fsync .");
    let kept = steps.split(", ").filter(|step| without.is_empty() || !step.contains(without));
    parse(&kept.collect::<Vec<_>>().join(", "))
}

/// Returns true if some cut of a program that replaces two files again and again loses an acknowledged content.
fn loses(model: Model, without: &str, seeds: u64) -> bool {
    (0..seeds).any(|seed| {
        let mut draws = Draws::new(seed, "replace");
        let mut disk = Disk::new(model, 1 << 30);
        let (mut acknowledged, mut in_flight) = ([0u8; 2], [0u8; 2]);
        let mut left = draws.below(60);
        'work: for byte in 1.. {
            let which = draws.below(2) as usize;
            in_flight[which] = byte;
            for step in replace(["a", "b"][which], byte, without) {
                if left == 0 {
                    break 'work;
                }
                left -= 1;
                let _ = execute(&mut disk, &step);
            }
            acknowledged[which] = byte;
        }
        let fate = Fate::draw(&mut draws);
        let after = listing(disk.after_power_loss(fate, seed).0.tree());
        ["a", "b"].iter().enumerate().any(|(which, name)| {
            let found = match after.get(*name).cloned().flatten() {
                None => 0,
                Some(content) if content.len() == 5_000 && content.iter().all(|b| *b == content[0]) => {
                    content[0]
                }
                Some(_) => return true,
            };
            found != acknowledged[which] && found != in_flight[which]
        })
    })
}

#[test]
fn a_program_that_follows_the_rules_never_loses() {
    for model in Model::ALL {
        assert!(!loses(model, "", 4_000), "{model:?}");
    }
}

#[test]
fn a_program_without_one_of_its_syncs_loses() {
    for model in Model::ALL {
        for without in ["fsync a.tmp", "fsync ."] {
            assert!(loses(model, without, 4_000), "{model:?} without '{without}'");
        }
    }
}

#[test]
fn an_error_of_a_sync_loses_its_data_for_good() {
    let mut disk = Disk::new(Model::Ext4, 1 << 30);
    disk.set_faults(DiskFaults { failing_sync: Some(0), ..DiskFaults::default() });
    let steps = parse("create a, write a 1, fsync a, fsync a");
    let results: Vec<_> = steps.iter().map(|step| execute(&mut disk, step).is_ok()).collect();
    assert_eq!(results, [true, true, false, true]);
    assert_eq!(text(&disk), "a 5000", "programs still see the data");
    assert_eq!(text(&disk.after_power_loss(Fate::Nothing, 0).0), "a 0");
}

#[test]
fn a_full_disk_refuses_data_and_keeps_what_it_has() {
    let mut disk = Disk::new(Model::Ext4, 8_192);
    let steps = parse("create a, write a 1, fsync a, create b, write b 2, unlink a, write b 2");
    let results: Vec<_> = steps.iter().map(|step| execute(&mut disk, step).is_ok()).collect();
    assert_eq!(results, [true, true, true, true, false, true, true]);
    assert_eq!(disk.space(), (8_192, 8_192));
}

#[test]
fn a_bit_flips_in_one_file_only() {
    let mut disk =
        disk_after(Model::Ext4, &parse("create a, write a 1, create b, write b 1, fsync a, fsync b"));
    let (path, offset) = disk.flip_a_bit(3, &|path| path == "b").unwrap();
    let after = listing(disk.tree());
    let differing: Vec<_> = after["b"].iter().flatten().enumerate().filter(|(_, byte)| **byte != 1).collect();
    assert_eq!((path.as_str(), differing.len(), differing[0].0 as u64), ("b", 1, offset));
    assert!(after["a"].iter().flatten().all(|byte| *byte == 1));
}
