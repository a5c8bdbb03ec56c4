//! States of a worker's connection slots: waiting, working, or working on an operation that is cancelled.

use std::cell::{Cell, RefCell};
use std::task::{Context, Waker};

/// Reason why an operation is cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelReason {
    /// The deadline of the operation passed.
    Deadline,
    /// The drain ended before the operation did.
    DrainEnded,
}

/// State of one connection slot.
#[derive(Default)]
struct Slot {
    waker: RefCell<Option<Waker>>,
    waiting: Cell<bool>,
    deadline_ns: Cell<u64>,
    cancelled: Cell<Option<CancelReason>>,
    free_since_ns: Cell<u64>,
}

/// States of all connection slots of a worker.
pub struct Slots {
    slots: Vec<Slot>,
    /// Waiting slots. The one that started to wait last is woken first, so that the load uses as few
    /// connections as possible and keeps them warm.
    waiting: RefCell<Vec<usize>>,
    working: Cell<usize>,
    stopped: Cell<bool>,
}

impl Slots {
    /// Creates `count` idle connection slots.
    pub fn new(count: usize) -> Slots {
        let slots = (0..count).map(|_| Slot::default()).collect();
        Slots { slots, waiting: RefCell::default(), working: Cell::new(0), stopped: Cell::new(false) }
    }

    /// Returns the number of slots that are executing an operation.
    pub fn working(&self) -> usize {
        self.working.get()
    }

    /// Returns true if the slots must exit.
    pub fn stopped(&self) -> bool {
        self.stopped.get()
    }

    /// Stores the waker of slot `id`.
    pub fn set_waker(&self, id: usize, cx: &Context<'_>) {
        let mut waker = self.slots[id].waker.borrow_mut();
        if !waker.as_ref().is_some_and(|w| w.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
    }

    /// Marks slot `id` as waiting for an operation.
    pub fn wait(&self, id: usize, cx: &Context<'_>) {
        self.set_waker(id, cx);
        if !self.slots[id].waiting.replace(true) {
            self.waiting.borrow_mut().push(id);
        }
    }

    /// Marks slot `id` as working. Returns true if it was waiting before.
    pub fn start_work(&self, id: usize) -> bool {
        self.working.set(self.working.get() + 1);
        let waited = self.slots[id].waiting.replace(false);
        if waited {
            let mut waiting = self.waiting.borrow_mut();
            if let Some(at) = waiting.iter().rposition(|w| *w == id) {
                waiting.remove(at);
            }
        }
        waited
    }

    /// Marks slot `id` as no longer working and clears its deadline.
    pub fn finish_work(&self, id: usize) {
        self.slots[id].deadline_ns.set(0);
        self.slots[id].cancelled.set(None);
        self.working.set(self.working.get() - 1);
    }

    /// Records that slot `id` has been free since this time, in nanoseconds on the monotonic clock.
    pub fn set_free_since(&self, id: usize, at_ns: u64) {
        self.slots[id].free_since_ns.set(at_ns);
    }

    /// Returns the time that [`Slots::set_free_since`] recorded; `None` before the first operation of slot `id`.
    pub fn free_since(&self, id: usize) -> Option<u64> {
        Some(self.slots[id].free_since_ns.get()).filter(|at_ns| *at_ns > 0)
    }

    fn wake(&self, id: usize) {
        if let Some(waker) = self.slots[id].waker.borrow().as_ref() {
            waker.wake_by_ref();
        }
    }

    /// Wakes one waiting slot with a number below `slots` and removes it from the waiting list, so that the
    /// next call wakes another slot.
    pub fn wake_one(&self, slots: usize) {
        let mut waiting = self.waiting.borrow_mut();
        if let Some(at) = waiting.iter().rposition(|id| *id < slots) {
            let id = waiting.remove(at);
            drop(waiting);
            self.slots[id].waiting.set(false);
            self.slots[id].cancelled.set(None);
            self.wake(id);
        }
    }

    /// Wakes all waiting slots with a number below `slots`.
    pub fn wake_all(&self, slots: usize) {
        let ids: Vec<usize> = self.waiting.borrow().iter().copied().filter(|id| *id < slots).collect();
        ids.into_iter().for_each(|id| self.wake(id));
    }

    /// Sets the deadline of the operation of slot `id`, in nanoseconds on the monotonic clock.
    pub fn set_deadline(&self, id: usize, deadline_ns: u64) {
        self.slots[id].deadline_ns.set(deadline_ns);
    }

    /// Returns the reason why the operation of slot `id` is cancelled; `None` if it is not.
    pub fn cancelled(&self, id: usize) -> Option<CancelReason> {
        self.slots[id].cancelled.get()
    }

    /// Cancels the operations whose deadline has passed at `now_ns`.
    pub fn expire(&self, now_ns: u64) {
        for (id, slot) in self.slots.iter().enumerate() {
            let deadline = slot.deadline_ns.get();
            if deadline != 0 && deadline <= now_ns && slot.cancelled.get().is_none() {
                slot.cancelled.set(Some(CancelReason::Deadline));
                self.wake(id);
            }
        }
    }

    /// Cancels all operations in flight, at the end of the drain.
    pub fn cancel_all(&self) {
        for (id, slot) in self.slots.iter().enumerate() {
            if slot.deadline_ns.get() != 0 && slot.cancelled.get().is_none() {
                slot.cancelled.set(Some(CancelReason::DrainEnded));
                self.wake(id);
            }
        }
    }

    /// Makes all slots exit after their current operation.
    pub fn stop(&self) {
        self.stopped.set(true);
        (0..self.slots.len()).for_each(|id| self.wake(id));
    }
}
