//! The connection slots of a worker as seen from its dispatcher: which wait, which work, which must be called off.

use std::cell::{Cell, RefCell};
use std::task::{Context, Waker};

/// Why an operation is called off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallOff {
    /// Its deadline passed.
    Deadline,
    /// The phase no longer waits for it.
    Undrained,
}

/// One connection slot's state.
#[derive(Default)]
struct Slot {
    waker: RefCell<Option<Waker>>,
    waiting: Cell<bool>,
    deadline_ns: Cell<u64>,
    called_off: Cell<Option<CallOff>>,
}

/// All connection slots of a worker.
pub struct Slots {
    slots: Vec<Slot>,
    /// Waiting connection slots; the one that waited shortest is woken first, so that few connections stay warm.
    waiting: RefCell<Vec<usize>>,
    working: Cell<usize>,
    stopped: Cell<bool>,
}

impl Slots {
    /// `count` connection slots, none at work.
    pub fn new(count: usize) -> Slots {
        let slots = (0..count).map(|_| Slot::default()).collect();
        Slots { slots, waiting: RefCell::default(), working: Cell::new(0), stopped: Cell::new(false) }
    }

    /// Connection slots at work.
    pub fn working(&self) -> usize {
        self.working.get()
    }

    /// Whether connection slots are to go home.
    pub fn stopped(&self) -> bool {
        self.stopped.get()
    }

    /// Remembers whom to wake for connection slot `id`.
    pub fn remember(&self, id: usize, cx: &Context<'_>) {
        let mut waker = self.slots[id].waker.borrow_mut();
        if !waker.as_ref().is_some_and(|w| w.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
    }

    /// Connection `id` has nothing to do.
    pub fn wait(&self, id: usize, cx: &Context<'_>) {
        self.remember(id, cx);
        if !self.slots[id].waiting.replace(true) {
            self.waiting.borrow_mut().push(id);
        }
    }

    /// Connection `id` has got work; whether it had been waiting for it.
    pub fn got_work(&self, id: usize) -> bool {
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

    /// Connection `id` is done with its work.
    pub fn finished(&self, id: usize) {
        self.slots[id].deadline_ns.set(0);
        self.slots[id].called_off.set(None);
        self.working.set(self.working.get() - 1);
    }

    fn wake(&self, id: usize) {
        if let Some(waker) = self.slots[id].waker.borrow().as_ref() {
            waker.wake_by_ref();
        }
    }

    /// Wakes one waiting connection slot with a number below `slots`; it leaves the waiting list at once, so that a second call wakes
    /// another.
    pub fn wake_one(&self, slots: usize) {
        let mut waiting = self.waiting.borrow_mut();
        if let Some(at) = waiting.iter().rposition(|id| *id < slots) {
            let id = waiting.remove(at);
            drop(waiting);
            self.slots[id].waiting.set(false);
            self.slots[id].called_off.set(None);
            self.wake(id);
        }
    }

    /// Wakes all waiting connection slots with a number below `slots`.
    pub fn wake_all(&self, slots: usize) {
        let ids: Vec<usize> = self.waiting.borrow().iter().copied().filter(|id| *id < slots).collect();
        ids.into_iter().for_each(|id| self.wake(id));
    }

    /// The operation of connection slot `id` must end by `deadline_ns`.
    pub fn set_deadline(&self, id: usize, deadline_ns: u64) {
        self.slots[id].deadline_ns.set(deadline_ns);
    }

    /// Whether the operation of connection slot `id` is called off.
    pub fn called_off(&self, id: usize) -> Option<CallOff> {
        self.slots[id].called_off.get()
    }

    /// Calls off operations whose deadline has passed.
    pub fn expire(&self, now_ns: u64) {
        for (id, slot) in self.slots.iter().enumerate() {
            let deadline = slot.deadline_ns.get();
            if deadline != 0 && deadline <= now_ns && slot.called_off.get().is_none() {
                slot.called_off.set(Some(CallOff::Deadline));
                self.wake(id);
            }
        }
    }

    /// Calls off everything in flight.
    pub fn call_off_all(&self) {
        for (id, slot) in self.slots.iter().enumerate() {
            if slot.deadline_ns.get() != 0 && slot.called_off.get().is_none() {
                slot.called_off.set(Some(CallOff::Undrained));
                self.wake(id);
            }
        }
    }

    /// Sends all connection slots home once they are done.
    pub fn stop(&self) {
        self.stopped.set(true);
        (0..self.slots.len()).for_each(|id| self.wake(id));
    }
}
