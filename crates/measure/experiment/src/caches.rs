//! The fields `cache` and `objects.working_set` of a phase, which declare the state of the store's caches.

use super::Problem;
use super::spec::PhaseSpec;
use plimsoll_base::units::parse_size;
use plimsoll_workload::popularity::Popularity;
use plimsoll_workload::schedule::cache::CacheState;
use plimsoll_workload::schedule::{Limit, Phase, Role};
use plimsoll_workload::size::Size;
use plimsoll_workload::{Dataset, OperationKind, Workload};

/// Restricts the objects that a phase reads to the first ones of `objects.working_set` bytes.
///
/// # Errors
/// If the size is invalid, or the phase does not read objects of one size that an earlier phase writes.
pub(super) fn resolve_working_set(
    written: &PhaseSpec,
    read: Option<&mut Dataset>,
) -> Result<Option<u64>, Problem> {
    const FIELD: &str = "objects.working_set";
    let Some(text) = &written.objects.working_set else { return Ok(None) };
    let wrong = |text: String| Problem::new(FIELD, format!("{FIELD}: {text}"));
    let bytes = parse_size(text).map_err(|e| wrong(e.to_string()))?;
    let Some(read) = read.filter(|_| written.objects.from.is_some()) else {
        return Err(wrong("the phase must read the objects of an earlier phase; set objects.from".into()));
    };
    let Size::Fixed(size) = read.size else {
        return Err(wrong("the objects must have one size, such as size = \"64 KiB\"".into()));
    };
    let count = bytes / size.max(1);
    if count == 0 {
        return Err(wrong(format!("{text} is smaller than one object of {size} bytes")));
    }
    if count > read.count {
        return Err(wrong(format!(
            "{text} are {count} objects, but the phase '{}' writes only {}",
            read.name, read.count
        )));
    }
    read.count = count;
    Ok(Some(bytes))
}

/// Returns the limit of a warm-up phase that reads each object once: its popularity is `sequential`, and the experiment
/// sets no limit. `None` for other phases.
pub(super) fn of_one_pass(
    written: &PhaseSpec,
    role: Role,
    popularity: &Popularity,
    read: Option<&Dataset>,
) -> Option<Limit> {
    let unlimited = written.duration.is_none() && written.stop_after.is_none();
    let in_turn = role == Role::Warmup && *popularity == Popularity::Sequential && unlimited;
    let read = read.filter(|read| in_turn && read.existing.is_none() && read.at.is_none())?;
    Some(Limit { duration_ns: None, operations: Some(read.count) })
}

/// Limits a cold phase to the objects of one repeat, so that the repeats together read each of `count` objects once.
/// Returns `None` if there are fewer objects than repeats.
pub(super) fn limit_cold(limit: &mut Limit, count: u64, repeats: u32) -> Option<()> {
    let each = Some(count / u64::from(repeats.max(1))).filter(|each| *each > 0)?;
    limit.operations = Some(limit.operations.map_or(each, |most| most.min(each)));
    Some(())
}

/// Resolves the field `cache`. A cold phase reads its objects in turn, and ends before it would read one again.
///
/// # Errors
/// If the value is unknown, or the phase contradicts it.
pub(super) fn resolve_cache(
    written: &PhaseSpec,
    repeats: u32,
    workload: &mut Workload,
    limit: &mut Limit,
    before: &[Phase],
) -> Result<Option<CacheState>, Problem> {
    let Some(name) = &written.cache else { return Ok(None) };
    let wrong = |text: &str| Problem::new("cache", format!("cache = \"{name}\": {text}"));
    let state = CacheState::from_name(name).ok_or_else(|| wrong("unknown value; use cold or warm"))?;
    let Some(read) = workload.read.as_ref().filter(|read| read.at.is_none()) else {
        return Err(wrong("only phases that read objects have this field; remove it"));
    };
    match state {
        CacheState::Cold => {
            if workload.mix.share(OperationKind::Get) != workload.mix.total() {
                return Err(wrong("a cold phase reads each object once; write operations = { get = 1 }"));
            }
            if read.existing.is_some() {
                return Err(wrong("the number of existing objects is not known; set objects.from"));
            }
            let given = written.objects.popularity.is_some();
            if given && workload.popularity != Popularity::Sequential {
                return Err(wrong("a cold phase reads its objects in turn; remove objects.popularity"));
            }
            let reads_same =
                |phase: &&Phase| phase.workload.read.as_ref().is_some_and(|own| own.name == read.name);
            if let Some(phase) = before.iter().find(reads_same) {
                return Err(wrong(&format!(
                    "the phase '{}' reads these objects before; write others",
                    phase.name
                )));
            }
            workload.popularity = Popularity::Sequential;
            if written.duration.is_none() && written.stop_after.is_none() {
                limit.duration_ns = None;
            }
            limit_cold(limit, read.count, repeats)
                .ok_or_else(|| wrong("there are fewer objects than repeats; write more objects"))?;
        }
        CacheState::Warm if read.existing.is_none() => {
            let reads_all = |phase: &Phase| {
                let own = phase.workload.read.as_ref();
                let same = own.is_some_and(|own| own.name == read.name && own.count >= read.count);
                let all = phase.limit.operations.is_some_and(|n| n >= read.count);
                let whole = phase.workload.mix.share(OperationKind::Get) == phase.workload.mix.total();
                same && all && whole && phase.workload.popularity == Popularity::Sequential
            };
            if !before.iter().any(|phase| phase.role == Role::Warmup && reads_all(phase)) {
                return Err(wrong(
                    "no warm-up phase reads every object before; add one with role = \"warmup\", operations = { get = \
                     1 }, the same objects.from and popularity = \"sequential\"",
                ));
            }
        }
        CacheState::Warm => {}
    }
    Ok(Some(state))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resolve::parse;
    use crate::short::Short;
    use crate::spec::SweepSpec;
    use crate::to_toml::to_toml;
    use crate::{Experiment, resolve};

    const OBJECTS: &str = "name = 'e'\nseed = 1\n[[phase]]\nname = 'objects'\nrole = 'prepare'\noperations = { put = 1 }\n\
        objects = { count = 100, size = '1 MiB' }\n";

    fn parsed(phases: &str) -> Result<Experiment, String> {
        parse("e.toml", &format!("{OBJECTS}{phases}"), &[]).map_err(|e| e.to_string())
    }

    fn phase(fields: &str) -> String {
        format!(
            "[[phase]]\nname = 'get'\noperations = {{ get = 1 }}\nobjects = {{ from = 'objects' }}\n{fields}\n"
        )
    }

    const PASS: &str = "[[phase]]\nname = 'pass'\nrole = 'warmup'\noperations = { get = 1 }\n\
        objects = { from = 'objects', popularity = 'sequential' }\n";

    #[test]
    fn a_cold_phase_reads_each_object_once() {
        let experiment = parsed(&phase("cache = 'cold'")).unwrap();
        let get = &experiment.phases[1];
        assert_eq!(get.limit, Limit { duration_ns: None, operations: Some(100) });
        let mut sequence = get.workload.sequence();
        let mut read: Vec<u64> = (0..100).map(|number| sequence.at(number).index).collect();
        read.sort_unstable();
        read.dedup();
        assert_eq!(read.len(), 100);
        assert_eq!(parse("again", &to_toml(&experiment), &[]).unwrap(), experiment);
        let three = format!("repeats = 3\n{OBJECTS}{}", phase("cache = 'cold'\nduration = '5s'"));
        let three = parse("e.toml", &three, &[]).unwrap();
        assert_eq!(three.phases[1].limit.operations, Some(33), "each pass reads other objects");
        assert!(three.phases[1].limit.duration_ns.is_some());
    }

    #[test]
    fn a_warm_phase_needs_a_pass_over_its_objects() {
        let experiment = parsed(&format!("{PASS}{}", phase("cache = 'warm'"))).unwrap();
        assert_eq!(experiment.phases[1].limit, Limit { duration_ns: None, operations: Some(100) });
        assert_eq!(parse("again", &to_toml(&experiment), &[]).unwrap(), experiment);
        let few = format!("{PASS}stop_after = 99\n{}", phase("cache = 'warm'"));
        for phases in [phase("cache = 'warm'"), few] {
            assert!(parsed(&phases).unwrap_err().contains("no warm-up phase reads every object before"));
        }
    }

    #[test]
    fn contradictions_are_refused() {
        let put = "[[phase]]\nname = 'put'\noperations = { put = 1 }\ncache = 'cold'\n";
        let of_working_set = |text: &str| {
            let get =
                phase("").replace("from = 'objects'", &format!("from = 'objects', working_set = '{text}'"));
            parsed(&get)
        };
        assert_eq!(of_working_set("10 MiB").unwrap().phases[1].workload.read.as_ref().unwrap().count, 10);
        for (found, expected) in [
            (parsed(&phase("cache = 'lukewarm'")), "use cold or warm"),
            (parsed(put), "only phases that read objects"),
            (parsed(&format!("{PASS}{}", phase("cache = 'cold'"))), "'pass' reads these objects before"),
            (parsed(&phase("cache = 'cold'").replace("get = 1", "head = 1")), "operations = { get = 1 }"),
            (of_working_set("101 MiB"), "writes only 100"),
            (of_working_set("1 KiB"), "smaller than one object"),
        ] {
            let message = found.unwrap_err();
            assert!(message.contains(expected), "{expected}: {message}");
        }
    }

    #[test]
    fn short_forms_declare_caches() {
        let short = |cache: Option<&str>, sizes: &[&str]| Short {
            form: "get".into(),
            size: Some("1MiB".into()),
            objects: 40,
            warmup: Some("2s".into()),
            duration: Some("10s".into()),
            cache: cache.map(str::to_string),
            sweep: (!sizes.is_empty()).then(|| SweepSpec {
                working_set: Some(sizes.iter().map(ToString::to_string).collect()),
                ..SweepSpec::default()
            }),
            ..Short::default()
        };
        let names = |short: Short| {
            let experiment = resolve::resolve(short.to_spec()).unwrap();
            assert_eq!(parse("again", &to_toml(&experiment), &[]).unwrap(), experiment);
            let about =
                |p: &Phase| (p.name.clone(), p.cache, p.workload.read.as_ref().map(|read| read.count));
            experiment.phases.iter().map(about).collect::<Vec<_>>()
        };
        let of = |name: &str, cache, count| (name.to_string(), cache, count);
        let (warm, cold) = (Some(CacheState::Warm), Some(CacheState::Cold));
        assert_eq!(
            names(short(Some("warm"), &[])),
            [of("objects", None, None), of("warmup", None, Some(40)), of("get", warm, Some(40))]
        );
        let others = [of("others", None, None), of("warmup", None, Some(64)), of("get", cold, Some(40))];
        assert_eq!(names(short(Some("cold"), &[])), [&[of("objects", None, None)], &others[..]].concat());
        assert_eq!(
            names(short(None, &["10MiB", "20MiB"])),
            [
                of("objects", None, None),
                of("warmup-10MiB", None, Some(10)),
                of("get-10MiB", warm, Some(10)),
                of("warmup-20MiB", None, Some(20)),
                of("get-20MiB", warm, Some(20)),
            ]
        );
    }
}
