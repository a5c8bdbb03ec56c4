//! Damaged files of a run directory: reading them returns an error with the file's name or what there is, never a panic, and takes no
//! memory that the file does not account for.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use crate::support::made::made;
use plimsoll::rng::Stream;
use plimsoll::run_dir::json;
use plimsoll::run_dir::read::intervals;
use plimsoll::run_dir::seconds::series;
use plimsoll::summary::series::Clocked;

thread_local! {
    static NOW: Cell<usize> = const { Cell::new(0) };
    static PANICS: Cell<usize> = const { Cell::new(0) };
    static MOST: Cell<usize> = const { Cell::new(0) };
}

/// Counts what a thread has allocated.
struct Counting;

// SAFETY: every call goes to the system's allocator as it is; the counters are beside it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = NOW.try_with(|now| {
            now.set(now.get() + layout.size());
            let _ = MOST.try_with(|most| most.set(most.get().max(now.get())));
        });
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        let _ = NOW.try_with(|now| now.set(now.get().saturating_sub(layout.size())));
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Bytes that a part allocates at most beyond what there is before it.
fn most(part: impl FnOnce()) -> usize {
    let before = NOW.get();
    MOST.set(before);
    part();
    MOST.get().saturating_sub(before)
}

/// One damaged copy: bytes exchanged, lengths made huge, a piece cut out, repeated or cut off.
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

fn told(path: &Path, what: Result<(), std::io::Error>) -> bool {
    if let Err(error) = &what {
        assert!(error.to_string().contains("intervals.arrows"), "{}: {error}", path.display());
    }
    what.is_err()
}

#[test]
fn ten_thousand_damaged_interval_logs_give_an_error_with_their_name_or_what_there_is() {
    let out = scratch();
    let run = made(&out, "run", |m| {
        m.seconds = 12;
        m.per_s = 20;
        m.failed = 1;
    });
    let log = run.join("intervals.arrows");
    let whole = std::fs::read(&log).unwrap();
    let result = json::read(&run).unwrap();
    let wanted = [Clocked::Service, Clocked::Response, Clocked::FirstByte];
    let read = || series(&run, &result, &wanted).map(drop);
    // An intact log needs as much as this; each histogram of a second is a few hundred kilobytes while it is read.
    let usual = most(|| drop(intervals(&run).unwrap())).max(most(|| read().unwrap()));
    let draws = Stream::new(20_261_121, "damaged");
    std::panic::set_hook(Box::new(|panic| {
        PANICS.set(PANICS.get() + 1);
        eprintln!("{panic}");
    }));
    let mut errors = 0;
    for number in 0..10_000 {
        let bytes = damaged(&whole, draws, number);
        std::fs::write(&log, &bytes).unwrap();
        let used = most(|| {
            let done = catch_unwind(AssertUnwindSafe(|| told(&log, read())));
            errors += u32::from(done.unwrap_or_else(|_| panic!("number {number} panicked")));
            if number % 10 == 0 {
                let done = catch_unwind(AssertUnwindSafe(|| told(&log, intervals(&run).map(drop))));
                done.unwrap_or_else(|_| panic!("number {number} panicked as rows"));
            }
        });
        assert_eq!(PANICS.get(), 0, "number {number}: a panic was caught");
        let allowed = 2 * usual + 64 * bytes.len() + (8 << 20);
        assert!(used <= allowed, "number {number}: {used} bytes for a file of {}", bytes.len());
    }
    std::fs::remove_dir_all(&out).unwrap();
    assert!(errors > 1_000, "{errors} of 10000 were found to be damaged");
}
