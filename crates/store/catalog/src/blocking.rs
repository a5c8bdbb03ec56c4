//! Waits for a future on a thread without a runtime.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use plimsoll_base::clock::now_ns;

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Unpark>) {
        self.0.unpark();
    }
}

/// Blocks the thread until a future is ready, and returns its output. The future must not need a runtime.
///
/// The future has no budget of tokio: a task of a runtime that has used its budget is woken only when its thread
/// returns to the runtime, and this thread does not return before the future is ready.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let Some(output) = block_on_until(None, future) else { unreachable!("there is no deadline") };
    output
}

/// Does the same for at most a time; `None` if the future takes longer.
pub fn block_on_for<T>(time: Duration, future: impl Future<Output = T>) -> Option<T> {
    block_on_until(Some(now_ns() + time.as_nanos() as u64), future)
}

fn block_on_until<T>(deadline_ns: Option<u64>, future: impl Future<Output = T>) -> Option<T> {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(tokio::task::coop::unconstrained(future));
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return Some(output);
        }
        // The deadline is compared after the poll, so a result that is ready in time counts.
        match deadline_ns.map(|deadline_ns| deadline_ns.saturating_sub(now_ns())) {
            // A wake-up since the poll is not lost: `park` then returns at once. It may also return for no reason.
            None => std::thread::park(),
            Some(0) => return None,
            Some(left_ns) => std::thread::park_timeout(Duration::from_nanos(left_ns)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression test: with a catalog in PostgreSQL and more than 112 blobs, all background work stopped for ever. One
    /// step of a task took more locks than the budget of tokio allows, and then waited to be woken by its own thread.
    #[test]
    fn a_task_that_blocks_is_not_stopped_by_the_budget_of_its_runtime() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let lock = tokio::sync::Mutex::new(0);
        let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
        runtime.block_on(async {
            for number in 0..1000 {
                *block_on(lock.lock()) += 1;
                sender.send(number).unwrap();
                assert_eq!(block_on(receiver.recv()), Some(number));
            }
        });
        assert_eq!(*runtime.block_on(lock.lock()), 1000);
    }
}
