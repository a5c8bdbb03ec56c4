//! The built-in experiments that describe programs: their sizes follow from the published figures that they cite.

use super::load;
use plimsoll_workload::schedule::{Load, Phase};
use plimsoll_workload::size::Size;

/// One phase of a built-in experiment.
fn phase(experiment: &str, name: &str) -> Phase {
    let loaded = load(experiment, &[]).unwrap();
    loaded.phases.into_iter().find(|phase| phase.name == name).unwrap()
}

fn slots(phase: &Phase) -> usize {
    match phase.load {
        Load::Closed { concurrency } => concurrency,
        Load::Open { .. } => panic!("an open loop"),
    }
}

#[test]
fn a_checkpoint_has_14_bytes_for_each_parameter_of_llama_3_8b() {
    const PARAMETERS: u64 = 8_030_261_248;
    const RANKS: u64 = 8;
    const CONNECTIONS: u64 = 25;
    let (save, restore) = (phase("checkpoint", "save"), phase("checkpoint", "restore"));
    let sizes: Vec<u64> = (0..16).map(|index| save.workload.written.size_of(index, 0)).collect();
    assert_eq!(sizes[..8], [PARAMETERS * 2 / RANKS; 8], "16 bits for each parameter");
    assert_eq!(sizes[8..], [PARAMETERS * 12 / RANKS; 8], "three values of 32 bits for each parameter");
    assert_eq!((slots(&save) as u64, slots(&restore) as u64), (RANKS, RANKS * CONNECTIONS));
    assert_eq!(save.workload.written.upload.in_flight as u64, CONNECTIONS);
    let ranges: u64 = sizes.iter().map(|bytes| bytes.div_ceil(8 << 20)).sum();
    assert_eq!(restore.limit.operations, Some(ranges), "each range once");
    // The last operation reads the end of the last object.
    let last = restore.workload.sequence().at(ranges - 1);
    assert_eq!((last.index, last.range_start + last.length), (15, sizes[15]));
}

#[test]
fn a_model_is_loaded_once() {
    let loading = phase("model-load", "load");
    let files = loading.workload.read.clone().unwrap();
    let sizes: Vec<u64> = (0..files.count).map(|index| files.size_of(index, 0)).collect();
    // The index of the files has 16,060,522,496 B of tensors; the rest are the headers of the four files.
    assert_eq!(sizes.iter().sum::<u64>(), 16_060_522_496 + 33_880);
    assert_eq!(loading.limit.operations, Some(sizes.iter().map(|bytes| bytes.div_ceil(8 << 20)).sum()));
}

#[test]
fn a_block_of_a_kv_cache_has_256_tokens_and_the_mix_of_mooncake() {
    const LAYERS: u64 = 32;
    const HEADS: u64 = 8;
    const HEAD: u64 = 128;
    let cache = phase("kv-cache", "cache");
    assert_eq!(cache.workload.written.size, Size::Fixed(256 * 2 * LAYERS * HEADS * HEAD * 2));
    use plimsoll_workload::OperationKind::{Get, Head, Put};
    let share = |kind| f64::from(cache.workload.mix.share(kind)) / f64::from(cache.workload.mix.total());
    let (blocks, distinct) = (288_500.0, 182_790.0);
    assert!((share(Put) - distinct / blocks / 2.0).abs() < 0.001, "a write for each block that is new");
    assert!((share(Get) - (blocks - distinct) / blocks / 2.0).abs() < 0.001, "a read for each other block");
    assert!((share(Head) - 0.5).abs() < 0.001, "a head for each block");
}
