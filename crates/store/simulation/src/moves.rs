//! Several gateways over one catalog and two tiers: they are killed, fall silent and wake up late, while clients read
//! and write, objects move, and small ones are packed. Each seed ends with a check of
//! the invariants in `docs/tiers.md`.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};

use object_store::ObjectStore;
use plimsoll_server::config::acl::CannedAcl;
use plimsoll_server::reserve::Memory;
use plimsoll_server::service::{ListQuery, NewBucket, ObjectService};

use super::backend::{Faults, Shared, SimulatedTier, land, lock};
use super::catalog::{KEEP_MS, SimulatedCatalog, User, object, rows};
use super::process::{SimulatedStore, background, read, work_once};
use super::world::{Gateway, World, run};
use super::{Random, time};
use plimsoll_server::error::ErrorCode;

use plimsoll_bodies::blob::Blobs;
use plimsoll_bodies::cache::{Cache, CacheSettings};
use plimsoll_bodies::location::{BlobHead, State};
use plimsoll_bodies::tier::{Backend, Tier, Tiers};
use plimsoll_catalog::guard::Guard;
use plimsoll_catalog::memory::MemoryCatalog;
use plimsoll_maintenance::background::{deletion, execute};
use plimsoll_maintenance::mover::condition::Condition;
use plimsoll_maintenance::mover::pass::Pass;
use plimsoll_maintenance::mover::rules::{Packing, Rule, Rules};
use plimsoll_maintenance::mover::{Outcome, give_up_unfinished, reversible, roll_back};
use plimsoll_objects::live::Live;
use plimsoll_objects::{Bodies, Store, keys};
use plimsoll_store_testing::{BUCKET, bodies, delete, put};

fn rules(random: &mut Random) -> Rules {
    let rule = |from, to, when: &str| Rule {
        from,
        to,
        when: Condition::parse(when).unwrap(),
        keep_source_ms: KEEP_MS,
        min_stay_ms: 0,
        gate: None,
    };
    let mut moves = Vec::new();
    if random.chance(80) {
        moves.push(rule(0, 1, ["age >= 0s", "age >= 20s", "suffix = '1'"][random.below(3) as usize]));
    }
    if random.chance(50) {
        moves.push(rule(1, 0, ["age >= 0s", "suffix = '2'"][random.below(2) as usize]));
    }
    let packing = Packing {
        tier: random.chance(60).then_some(1),
        max_body: 150,
        file_size: 500,
        max_wait_ms: 5000,
        ..Packing::default()
    };
    Rules { moves, packing, ..Rules::default() }
}

/// Returns the status of a failed request that is no violation: the tier or the catalog did not answer.
fn is_allowed(error: &plimsoll_server::error::ApiError) -> bool {
    matches!(error.code, ErrorCode::ServiceUnavailable | ErrorCode::InternalError | ErrorCode::NoSuchBucket)
}

impl World {
    fn new(seed: u64, faults: Faults) -> World {
        let mut random = Random(seed << 20);
        let shared = Shared::new(Random(random.draw()), Faults::default());
        let tiers = [SimulatedTier::new(0, &shared), SimulatedTier::new(1, &shared)];
        let rules = rules(&mut random);
        let (history, step) = Default::default();
        let catalog = Arc::new(MemoryCatalog::shared());
        let retain_ms = if random.chance(50) { 2 * KEEP_MS } else { 0 };
        let (gateways, backup, is_restored, newer, lost) = Default::default();
        let mut world = World {
            random,
            shared,
            history,
            catalog,
            tiers,
            gateways,
            rules,
            step,
            retain_ms,
            backup,
            is_restored,
            newer,
            lost,
        };
        let operator = world.store(User::Operator);
        let new = NewBucket { region: "r", owner: "o", acl: CannedAcl::Private };
        run(operator.create_bucket(BUCKET, new)).unwrap();
        for _ in 0..1 + world.random.below(3) {
            let gateway = world.start();
            world.gateways.push(gateway);
        }
        lock(&world.shared).faults = faults;
        world
    }

    fn store(&self, user: User) -> SimulatedStore {
        let tier = |tier: &SimulatedTier| {
            let backend = Backend::new(Arc::new(tier.clone()) as Arc<dyn ObjectStore>);
            (tier.number as u16, Tier::new("tier", backend))
        };
        let cache = Cache::open(&CacheSettings { memory: 0, disk: None }).unwrap();
        let blobs = Blobs::new(Tiers::new(self.tiers.iter().map(tier).collect()), cache);
        let bodies = Bodies { retain_ms: self.retain_ms, ..bodies(blobs, 64) };
        let catalog = Arc::new(SimulatedCatalog::new(&self.catalog, &self.shared, user));
        Arc::new(Store::open(catalog, bodies, Memory::new(u64::MAX)).unwrap())
    }

    /// Starts a process, which works in the background while it is the leader.
    pub(super) fn start(&self) -> Gateway {
        let store = self.store(User::Gateway);
        let (of_task, rules) = (Arc::clone(&store), self.rules.clone());
        let task = Box::pin(async move { background(&of_task, &rules).await });
        Gateway { store, tasks: vec![task], is_silent: false, ahead_ms: 0 }
    }

    fn now(&self) -> u64 {
        *self.step.lock().unwrap()
    }

    /// Starts a request of a client to a gateway.
    fn request(&mut self, index: usize) {
        let key = format!("key-{}", self.random.below(6));
        let store = Arc::clone(&self.gateways[index].store);
        let (history, step, start) = (Arc::clone(&self.history), Arc::clone(&self.step), self.now());
        let kind = self.random.below(10);
        if kind < 4 {
            let body = if kind == 0 { None } else { Some(self.body()) };
            let number = history.lock().unwrap().begin(&key, start, body.clone());
            self.gateways[index].tasks.push(Box::pin(async move {
                let written = match &body {
                    Some(body) => put(&*store, &key, body).await,
                    None => delete(&*store, &key).await,
                };
                let mut history = history.lock().unwrap();
                match written {
                    Ok(()) => history.acknowledge(&key, number, *step.lock().unwrap()),
                    Err(error) if is_allowed(&error) => {}
                    Err(error) => history.violate(format!("a write of {key} failed: {error}")),
                }
            }));
            return;
        }
        self.gateways[index].tasks.push(Box::pin(async move {
            let found = read(&store, &key).await;
            history.lock().unwrap().found(&key, start, *step.lock().unwrap(), found);
        }));
    }

    fn body(&mut self) -> Vec<u8> {
        let (size, seed) = (8 + self.random.below(300), self.random.draw());
        seed.to_be_bytes().into_iter().cycle().take(size as usize).collect()
    }

    /// Lets something happen to the processes, the tiers or the clock.
    fn disturb(&mut self) {
        if self.newer.is_some() {
            match self.random.below(100) {
                0..3 => self.reconcile(),
                3..13 => self.wait(),
                _ => {}
            }
        }
        if self.random.chance(4) {
            self.set_clock();
        }
        if self.retain_ms > 0 && self.random.chance(5) {
            self.back_up_or_restore();
        }
        if self.random.chance(5) {
            self.lose_copy();
        }
        let index = self.random.below(self.gateways.len() as u64) as usize;
        match self.random.below(100) {
            0..50 => self.request(index),
            50..56 => self.gateways[index] = self.start(),
            56..66 => self.gateways[index].is_silent ^= true,
            66..70 => {
                let until_ms = time::now_ms() + self.random.below(20_000);
                lock(&self.shared).down_until_ms[index % 2] = until_ms;
            }
            70..74 => self.roll_back(),
            74..78 => self.duplicate(index),
            78..96 => time::advance(self.random.below(4000)),
            96..99 => time::advance(self.random.below(40_000)),
            _ => self.wait(),
        }
        land(&self.shared, &self.tiers);
    }

    /// Sets the clock of a gateway: right, or wrong by a minute up to ten years.
    fn set_clock(&mut self) {
        const DAY_MS: i64 = 86_400_000;
        const AHEAD_MS: [i64; 6] = [0, 0, 60_000, -DAY_MS, 40 * DAY_MS, 3650 * DAY_MS];
        let index = self.random.below(self.gateways.len() as u64) as usize;
        self.gateways[index].ahead_ms = AHEAD_MS[self.random.below(6) as usize];
    }

    /// Starts the work of a leader, or of a former one, a second time.
    fn duplicate(&mut self, index: usize) {
        // All work begins after the tiers have confirmed their owner.
        if self.gateways[index].store.epoch() == 0 || self.newer.is_some() {
            return;
        }
        let (store, rules) = (Arc::clone(&self.gateways[index].store), self.rules.clone());
        self.gateways[index].tasks.push(Box::pin(async move {
            let _ = give_up_unfinished(&*store).await;
            let _ = deletion::delete_due(&*store).await;
            if let Ok(batch) = Pass::default().next(&*store, &rules) {
                execute(&*store, batch).await;
            }
        }));
    }

    /// Lets up to an hour pass. Requests have ended before bytes are deleted for the second time: those of processes
    /// that are awake, because they have timeouts, and the others, because such processes are killed.
    fn wait(&mut self) {
        for index in 0..self.gateways.len() {
            if self.gateways[index].is_silent {
                self.gateways[index] = self.start();
            }
        }
        for _ in 0..self.random.below(60) {
            time::advance(60_000);
            land(&self.shared, &self.tiers);
            for index in 0..self.gateways.len() {
                for task in (0..self.gateways[index].tasks.len()).rev() {
                    self.poll(index, task);
                }
            }
        }
    }

    /// Rolls back a move, which is possible while its window lasts.
    fn roll_back(&mut self) {
        let store = self.store(User::Operator);
        let Ok(moves) = reversible(&store, &|_, _| true) else { return };
        if let Some(one) = moves.into_iter().next() {
            let rolled_back = run(roll_back(&store, one));
            if matches!(rolled_back, Ok(Outcome::Changed)) {
                lock(&self.shared).violate("a move within its window was not rolled back".into());
            }
        }
    }

    /// Executes one step.
    fn step(&mut self) {
        if self.random.chance(12) {
            self.disturb();
        }
        let awake: Vec<usize> = (0..self.gateways.len()).filter(|i| !self.gateways[*i].is_silent).collect();
        let Some(index) = awake.get(self.random.below(awake.len().max(1) as u64) as usize) else { return };
        let task = self.random.below(self.gateways[*index].tasks.len() as u64) as usize;
        self.poll(*index, task);
    }

    /// Lets a task of a process work until it waits.
    fn poll(&mut self, index: usize, task: usize) {
        *self.step.lock().unwrap() += 1;
        time::set_ahead_ms(self.gateways[index].ahead_ms);
        let tasks = &mut self.gateways[index].tasks;
        let mut context = Context::from_waker(Waker::noop());
        if tasks[task].as_mut().poll(&mut context).is_ready() {
            drop(tasks.swap_remove(task));
        }
        time::set_ahead_ms(0);
    }

    fn violation(&self) -> Option<String> {
        lock(&self.shared).violation.clone().or_else(|| self.history.lock().unwrap().violation.clone())
    }

    /// Ends all processes and faults, lets one process do what is due, and checks the result.
    fn settle(&mut self) -> Result<(), String> {
        self.gateways.clear();
        if self.newer.is_some() {
            self.reconcile();
        }
        lock(&self.shared).faults = Faults::default();
        self.repair();
        let quiet = Rules { packing: Packing { file_size: 500, ..Packing::default() }, ..Rules::default() };
        let store = self.store(User::Gateway);
        // Late writes land, sessions and windows end, and bytes are deleted twice.
        for _ in 0..4 {
            time::advance(2 * KEEP_MS);
            land(&self.shared, &self.tiers);
            run(work_once(&store, &quiet)).map_err(|error| format!("work at rest failed: {error}"))?;
        }
        self.check(&store)?;
        let before = rows(&*self.catalog, b"");
        run(async {
            give_up_unfinished(&store).await.unwrap();
            deletion::discard_unfinished(&*store).await.unwrap();
            deletion::delete_due(&*store).await.unwrap();
        });
        if rows(&*self.catalog, b"") != before {
            return Err("a repeated step has changed the catalog".into());
        }
        self.violation().map_or(Ok(()), Err)
    }

    /// Checks that every object is readable, and that nothing is left over.
    fn check(&mut self, store: &SimulatedStore) -> Result<(), String> {
        let mut expected = Vec::new();
        let names = self.history.lock().unwrap().keys();
        for key in names {
            let now = self.now() + 1;
            let found = run(read(store, &key));
            match &found {
                Ok(Some(_)) => expected.push(key.clone()),
                Ok(None) => {}
                Err(error) => return Err(format!("{key} cannot be read at rest: {error}")),
            }
            self.history.lock().unwrap().found(&key, now, now, found);
        }
        let bucket = run(store.bucket(BUCKET)).unwrap();
        let query = ListQuery {
            prefix: "",
            delimiter: "",
            after: "",
            after_version: "",
            most: 1000,
            versions: false,
        };
        let page = run(store.list(&bucket, &query)).unwrap();
        let listed: Vec<String> = page.objects.into_iter().map(|object| object.key).collect();
        if listed != expected {
            return Err(format!("the listing has {listed:?} instead of {expected:?}"));
        }
        for prefix in [keys::INTENTS, keys::GARBAGE, keys::RETAINED] {
            let left = rows(&*self.catalog, prefix);
            if !left.is_empty() {
                return Err(format!("{} rows of unfinished work are left at rest", left.len()));
            }
        }
        self.check_tiers()
    }

    /// Checks that the catalog and the tiers have the same objects.
    fn check_tiers(&self) -> Result<(), String> {
        let mut known = BTreeSet::new();
        for (key, row) in rows(&*self.catalog, keys::BLOBS) {
            let head = BlobHead::decode(&row.head).ok_or("a blob is malformed")?;
            if head.state != State::Complete {
                return Err(format!("blob {key:?} is {:?} at rest", head.state));
            }
            known.extend(head.locations.iter().map(object));
        }
        for (_, row) in rows(&*self.catalog, keys::PACK_FILES) {
            if Live::decode(&row.head).is_none_or(|live| live.open || live.live == 0) {
                return Err("a pack file is open or empty at rest".into());
            }
        }
        for tier in &self.tiers {
            let names = tier.names();
            let of_tier: BTreeSet<String> = known
                .iter()
                .filter(|(number, _)| *number == tier.number)
                .map(|(_, name)| name.clone())
                .collect();
            if let Some(lost) = of_tier.difference(&names).next() {
                return Err(format!("tier {}: {lost} is missing", tier.number));
            }
            // What is newer than a restored catalog is an orphan.
            if let Some(orphan) = names.difference(&of_tier).next().filter(|_| !self.is_restored) {
                return Err(format!("tier {}: {orphan} is an orphan", tier.number));
            }
        }
        Ok(())
    }
}

/// Simulates one seed. Returns the violation, if there is one.
fn simulate(seed: u64, without: Option<Guard>) -> Result<(), String> {
    let _time = time::Replaced::start(seed, 1_800_000_000_000, without);
    let rate = |percent| if seed.is_multiple_of(4) { 0 } else { percent };
    let faults =
        Faults { refused: rate(2), lost: rate(2), late: rate(3), damaged: rate(5), transactions: rate(2) };
    let mut world = World::new(seed, faults);
    for _ in 0..150 + world.random.below(600) {
        world.step();
        if let Some(violation) = world.violation() {
            return Err(violation);
        }
    }
    world.settle()
}

/// Simulates a number of seeds on all processors. Returns the first violation.
fn first_violation(first: u64, seeds: u64, without: Option<Guard>) -> Option<(u64, String)> {
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    let found = Mutex::new(None::<(u64, String)>);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let found = &found;
            scope.spawn(move || {
                for seed in (first + thread..first + seeds).step_by(threads as usize) {
                    if found.lock().unwrap().is_some() {
                        return;
                    }
                    if let Err(violation) = simulate(seed, without) {
                        *found.lock().unwrap() = Some((seed, violation));
                    }
                }
            });
        }
    });
    found.into_inner().unwrap()
}

#[test]
fn gateways_that_fail_lose_nothing_and_leave_nothing_behind() {
    if let Some((seed, violation)) = first_violation(super::first_seed(), super::seeds(2000), None) {
        panic!("seed {seed}: {violation}");
    }
}

/// Proof of the simulation: without one of the guards, it must find damage. The search begins shortly before the first
/// seed that shows it, to save time.
#[test]
fn every_guard_is_needed() {
    for (guard, first) in [
        (Guard::Intent, 2100),
        (Guard::Epoch, 0),
        (Guard::Verification, 330),
        (Guard::RollbackWindow, 0),
        (Guard::SecondDelete, 140),
        (Guard::Retention, 0),
        (Guard::Copy, 110),
        (Guard::Owner, 1160),
        (Guard::Clock, 0),
    ] {
        let found = first_violation(first, 10_000 - first, Some(guard));
        let (seed, violation) =
            found.unwrap_or_else(|| panic!("10,000 seeds without {guard:?} show nothing"));
        println!("{guard:?}: seed {seed}: {violation}");
    }
}
