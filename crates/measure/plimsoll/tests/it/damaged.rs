//! Damaged interval logs. Reading one must return an error with the name of the file, or the readable rows. It must not
//! panic, and its memory must be bounded by the size of the file.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use crate::support::made::made;
use plimsoll_base::rng::Stream;
use plimsoll_judge::run_dir::json;
use plimsoll_judge::run_dir::read::intervals;
use plimsoll_judge::run_dir::seconds::series;
use plimsoll_judge::summary::series::LatencyKind;

thread_local! {
    static ALLOCATED: Cell<usize> = const { Cell::new(0) };
    static PANICS: Cell<usize> = const { Cell::new(0) };
    static PEAK: Cell<usize> = const { Cell::new(0) };
}

/// An allocator that counts the bytes that each thread has allocated.
struct Counting;

// SAFETY: every call is forwarded unchanged to the system allocator. The counters do not affect the allocations.
#[expect(unsafe_code, reason = "the only way to count allocations")]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATED.try_with(|now| {
            now.set(now.get() + layout.size());
            let _ = PEAK.try_with(|peak| peak.set(peak.get().max(now.get())));
        });
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        let _ = ALLOCATED.try_with(|now| now.set(now.get().saturating_sub(layout.size())));
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Returns the peak of the bytes that `part` allocates, above the bytes allocated before it.
fn peak(part: impl FnOnce()) -> usize {
    let before = ALLOCATED.get();
    PEAK.set(before);
    part();
    PEAK.get().saturating_sub(before)
}

/// Returns a damaged copy: changed bytes, extreme lengths, and pieces that are removed, repeated or cut off.
fn damaged(whole: &[u8], draws: Stream, number: u64) -> Vec<u8> {
    let mut out = whole.to_vec();
    let mut draw = (number << 8..).map(|i| draws.below(i, u64::MAX));
    let mut next = |below: usize| (draw.next().unwrap_or(0) % below.max(1) as u64) as usize;
    for _ in 0..=next(4) {
        let at = next(out.len());
        match next(6) {
            0 => out[at] ^= 1 << next(8),
            1 => out[at] = [0, 1, 0x7f, 0x80, 0xff][next(5)],
            2 => {
                let word = [u32::MAX, i32::MAX as u32, 0, 1 << 30, 8][next(5)].to_le_bytes();
                let at = at & !3;
                let end = (at + 4).min(out.len());
                out[at..end].copy_from_slice(&word[..end - at]);
            }
            3 => out.truncate(at.max(1)),
            4 => drop(out.drain(at..(at + 1 + next(64)).min(out.len()))),
            _ => {
                let piece = out[at..(at + 1 + next(256)).min(out.len())].to_vec();
                out.splice(at..at, piece);
            }
        }
        if out.is_empty() {
            break;
        }
    }
    out
}

fn scratch() -> std::path::PathBuf {
    let path = std::env::temp_dir().join(format!("plimsoll-damaged-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).unwrap();
    path
}

/// Checks that an error names the interval log. Returns true if there is an error.
fn is_error(path: &Path, read: Result<(), std::io::Error>) -> bool {
    if let Err(error) = &read {
        assert!(error.to_string().contains("intervals.arrows"), "{}: {error}", path.display());
    }
    read.is_err()
}

#[test]
fn damaged_interval_logs_return_an_error_or_the_readable_rows() {
    let out = scratch();
    let run = made(&out, "run", |m| {
        m.seconds = 12;
        m.per_s = 20;
        m.failed = 1;
    });
    let log = run.join("intervals.arrows");
    let whole = std::fs::read(&log).unwrap();
    let result = json::read(&run).unwrap();
    let clocks = [LatencyKind::Service, LatencyKind::Response, LatencyKind::FirstByte];
    let read = || series(&run, &result, &clocks).map(drop);
    // Memory to read an intact log. Each histogram of a second takes a few hundred kilobytes while it is read.
    let usual = peak(|| drop(intervals(&run).unwrap())).max(peak(|| read().unwrap()));
    let draws = Stream::new(20_261_121, "damaged");
    std::panic::set_hook(Box::new(|panic| {
        PANICS.set(PANICS.get() + 1);
        eprintln!("{panic}");
    }));
    let mut errors = 0;
    for number in 0..10_000 {
        let bytes = damaged(&whole, draws, number);
        std::fs::write(&log, &bytes).unwrap();
        let used = peak(|| {
            let done = catch_unwind(AssertUnwindSafe(|| is_error(&log, read())));
            errors += u32::from(done.unwrap_or_else(|_| panic!("number {number} panicked")));
            if number % 10 == 0 {
                let done = catch_unwind(AssertUnwindSafe(|| is_error(&log, intervals(&run).map(drop))));
                done.unwrap_or_else(|_| panic!("number {number} panicked in `intervals`"));
            }
        });
        assert_eq!(PANICS.get(), 0, "number {number}: a panic was caught");
        let allowed = 2 * usual + 64 * bytes.len() + (8 << 20);
        assert!(
            used <= allowed,
            "number {number}: reading a file of {} bytes took {used} bytes",
            bytes.len()
        );
    }
    std::fs::remove_dir_all(&out).unwrap();
    assert!(errors > 1_000, "only {errors} of 10000 damaged logs returned an error");
}
