use super::*;
use crate::BUILT_IN;
use crate::to_toml::to_toml;

#[test]
fn built_in_experiments_survive_a_round_trip() {
    for (name, text) in BUILT_IN {
        let experiment = parse(name, text, &[]).unwrap();
        let again = parse("resolved", &to_toml(&experiment), &[]).unwrap();
        assert_eq!(experiment, again, "{name}");
    }
}

#[test]
fn a_prepare_phase_writes_the_objects_of_a_phase_that_deletes() {
    let text = "name='x'\n[[phase]]\nname='gone'\noperations={delete=1}\nobjects={count=50}\nduration='1s'\n";
    let experiment = parse("f", text, &[]).unwrap();
    let [spare, gone] = &experiment.phases[..] else { panic!() };
    assert_eq!(
        (spare.name.as_str(), spare.role, spare.limit.operations),
        ("gone.spare", Role::Prepare, Some(50))
    );
    assert_eq!(gone.limit.operations, Some(50), "the phase ends when all objects are deleted");
    assert_eq!(experiment, parse("f", &to_toml(&experiment), &[]).unwrap());
}

/// Invalid fields of a phase, with the line of the error and a part of its message.
const WRONG_PHASES: &[(&str, u32, &str)] = &[
    (
        "operations = { get = 1 }",
        3,
        "phase 'p': no phase writes the objects that this phase reads; add a prepare phase",
    ),
    (
        "operations = { put = 0 }",
        5,
        "phase 'p': operations must give at least one operation a weight above 0",
    ),
    ("operations = { post = 1 }", 5, "unknown operation 'post'; the operations are put, get,"),
    ("operations = { put = 99991, get = 9 }\nobjects = { dataset = 'd' }", 5, "use smaller weights"),
    ("operations = { put = 1, delete = 2 }", 5, "give put at least the weight of delete"),
    ("rate = '5'", 6, "rate: '5' is not a rate; use operations per unit of time"),
    ("rate = 5", 6, "5 has no unit; write a rate, such as \"500/s\""),
    ("rate = '5/s'\nconcurrency = 3", 6, "either concurrency (closed loop) or rate (open loop), not both"),
    ("in_flight = 3", 6, "add rate = \"500/s\" or remove them"),
    ("arrival = 'poisson'", 6, "add rate"),
    ("rate = '5/s'\narrival = 'burst'", 7, "unknown arrival 'burst'; use constant or poisson"),
    ("concurrency = 0", 6, "must be between 1 and"),
    ("concurrency = 'many'", 6, "write a whole number, such as 64"),
    ("concurrency = { from = 1, step = 1, every = '1s', stop = 'soon' }", 6, "use plateau or never"),
    ("concurrency = { from = 1, step = 1, every = '1s', stop = 'never' }", 6, "needs concurrency.to"),
    ("concurrency = { from = 1, step = 0, every = '1s' }", 6, "concurrency.step must be above 0"),
    ("concurrency = { from = 9, step = 1, to = 3, every = '1s' }", 6, "must not be below concurrency.from"),
    ("concurrency = { from = 1, step = 1, every = '1s' }\nduration = '9s'", 7, "determine its length"),
    ("concurrency = { start = 1 }", 6, "unknown field `start`"),
    ("duration = '30'", 6, "is not a duration; use a number with a unit"),
    ("duration = 3", 6, "expected a string; put the value in quotes"),
    ("duration = '0s'", 6, "duration must be above 0"),
    ("stop_after = 0", 6, "stop_after must be above 0"),
    ("timeout = '0s'", 6, "timeout must be above 0"),
    (
        "objects = { from = 'q' }",
        6,
        "must name an earlier prepare phase (or an earlier measured phase that puts each of its objects once); there are no prepare phases",
    ),
    ("objects = { size = '6 GiB' }", 6, "add objects.part_size"),
    ("objects = { size = 5 }", 6, "5 has no unit; write a size, such as \"1 MiB\""),
    ("objects = { size = { uniform = ['2 KiB', '1 KiB'] } }", 6, "smaller size first"),
    ("objects = { size = { uniform = ['2 KiB'] } }", 6, "write a size, such as"),
    ("objects = { size = { lognormal = { median = '1 KiB', sigma = -1.0 } } }", 6, "must be above 0"),
    ("objects = { size = { weighted = { '1 KiB' = 0 } } }", 6, "at least one size with a weight above 0"),
    ("objects = { size = { list = [] } }", 6, "needs at least one size"),
    ("objects = { size = { normal = 3 } }", 6, "{ lognormal = "),
    ("objects = { size = '100 GiB', part_size = '6 GiB' }", 6, "at most 5 GiB"),
    ("objects = { size = '1 TiB', part_size = '5 MiB' }", 6, "use at least 105 MiB"),
    ("objects = { count = 0 }", 6, "objects.count must be above 0"),
    ("objects = { popularity = 'uniform' }", 6, "applies only to phases that read"),
    (
        "objects = { popularity = 'zipf' }",
        6,
        "use uniform, sequential, reversed, shuffled, shifted, ranges, zipfian, latest or hotspot",
    ),
    ("objects = { popularity = { zipfian = 0.0 } }", 6, "must be above 0 and at most 10"),
    (
        "objects = { popularity = { hotspot = { object_share = 2.0, operation_share = 0.5 } } }",
        6,
        "between 0 and 1",
    ),
    ("objects = { naming = 'uuid' }", 6, "use sequential, hex or a table"),
    ("objects = { naming = { template = 'a' } }", 6, "{index} exactly once"),
    ("objects = { naming = { template = '{prefix}/{index}' } }", 6, "prefixes = 16"),
    ("objects = { dataset = 's3://b/x' }", 5, "are read-only; remove put and delete"),
    ("verify = 'maybe'", 6, "use on, off or readback"),
    ("objects = { size = '1 GiB', parts_in_flight = 4 }", 6, "add objects.part_size"),
    ("objects = { size = '1 GiB', part_size = '8 MiB', parts_in_flight = 0 }", 6, "between 1 and 256"),
    ("objects = { checksum = 'crc16' }", 6, "crc32c"),
    (
        "objects = { size = { uniform = ['1 B', '9 MiB'] } }\nsize_classes = ['1 MiB', '64 KiB']",
        7,
        "ascending order",
    ),
    ("objects = { size = { uniform = ['1 B', '9 MiB'] } }\nsize_classes = ['large']", 7, "size_classes: "),
    ("size_classes = ['64 KiB']", 6, "all objects of the phase have one size"),
    ("objects = { compressible = 1.0 }", 6, "from 0 to 0.99"),
    ("objects = { compressible = nan }", 6, "from 0 to 0.99"),
    ("objects = { dedup = 0.5 }", 6, "from 1 to the number of objects (1000)"),
    ("objects = { count = 2, dedup = 3 }", 6, "from 1 to the number of objects (2)"),
    ("objects = { file = 'Cargo.toml', dedup = 3 }", 6, "remove objects.dedup"),
    ("objects = { records = { at = 't/', count = 9 }, compressible = 0.5 }", 6, "does not apply to records"),
    ("objects = { file = '/no/such/file' }", 6, "/no/such/file"),
    ("objects = { file = '/' }", 6, "not a regular file"),
    ("think_time = '1s'\nrate = '5/s'", 6, "applies only to a closed loop"),
    ("sweep = { part_size = [], parts_in_flight = [1] }", 6, "a sweep needs values"),
    ("sweep = { }\nstop_after = 1", 6, "a sweep needs values"),
    ("sweep = { size = ['1 KiB'], rate = ['5/s'], part_size = ['8 MiB'] }", 6, "at most 2 fields"),
    ("sweep = { concurrency = [1, 8, 1] }\nstop_after = 1", 6, "concurrency 1 is listed twice"),
    ("sweep = { size = ['1 KB', 'big'] }\nstop_after = 1", 6, "sweep.size: "),
    ("sweep = { concurrency = [1] }\nconcurrency = 2\nstop_after = 1", 7, "the sweep sets concurrency"),
    ("sweep = { size = ['1 KiB'] }\nstop_after = 1\nobjects.size = '1 KiB'", 8, "the sweep sets size"),
    ("sweep = { part_size = ['8 MiB'], parts_in_flight = [1] }", 3, "add stop_after"),
    ("role = 'main'", 6, "use prepare, warmup or measure"),
    ("concurency = 3", 6, "unknown field `concurency`"),
    ("objects = { sizes = '1 KiB' }", 6, "unknown field `sizes`"),
    (
        "operations = { get = 1 }\nobjects = { dataset = 'd', size = '1 KiB' }",
        6,
        "applies only to phases that put or delete objects",
    ),
    ("retries = -1", 6, "a whole number, 0 or more"),
];

/// Invalid experiment files, with the line of the error and a part of its message.
const WRONG_FILES: &[(&str, u32, &str)] = &[
    ("name = 'x'", 1, "at least one [[phase]]"),
    ("name = ", 1, "e.toml:1"),
    ("name = 'x'\nrepeats = 0\n[[phase]]\nname='p'\noperations={put=1}", 2, "between 1 and 10000"),
    ("name = 'x'\norder = 'random'\n[[phase]]\nname='p'\noperations={put=1}", 2, "interleaved or sequential"),
    ("name = 'x'\nblock = '0s'\n[[phase]]\nname='p'\noperations={put=1}", 2, "block must be above 0"),
    ("[[phase]]\nname='p'\noperations={put=1}", 1, "missing field `name`"),
    (
        "name='x'\n[[phase]]\nname='p'\noperations={put=1}\n[[phase]]\nname='p'\noperations={put=1}",
        6,
        "taken by an earlier phase",
    ),
    ("name='x'\n[[phase]]\nname='a/b'\noperations={put=1}", 3, "letters, digits"),
    ("name='x'\n[[phase]]\noperations={put=1}", 2, "missing field `name`"),
];

/// Each of these files has one error; the message names its line and the fix.
#[test]
fn errors_name_the_line_and_the_fix() {
    let error = |text: &str| parse("e.toml", text, &[]).unwrap_err().to_string();
    // The phase begins on line 3, and its body on line 5.
    let phase = |body: &str| error(&format!("name = 'x'\n\n[[phase]]\nname = 'p'\n{body}\n"));
    let put = "operations = { put = 1 }\n";
    for (body, line, expected) in WRONG_PHASES {
        let body = if body.contains("operations") && !body.contains("hotspot") {
            body.to_string()
        } else {
            format!("{put}{body}")
        };
        let message = phase(&body);
        assert!(
            message.starts_with(&format!("e.toml:{line}: ")) && message.contains(expected),
            "{body}\n -> {message}"
        );
    }
    for (text, line, expected) in WRONG_FILES {
        let message = error(text);
        assert!(
            message.starts_with(&format!("e.toml:{line}: ")) && message.contains(expected),
            "{text}\n -> {message}"
        );
    }
}

#[test]
fn set_changes_any_value_and_errors_name_it() {
    let text = "name='x'\n[[phase]]\nname='p'\noperations={put=1}\nobjects={count=5}\n";
    let with =
        |sets: &[&str]| parse("e.toml", text, &sets.iter().map(|s| (*s).to_string()).collect::<Vec<_>>());
    let changed =
        with(&["seed=9", "phase.p.objects.size=1MiB", "phase.p.concurrency=3", "stores=['memory:']"])
            .unwrap();
    let phase = &changed.phases[0];
    assert_eq!((changed.seed, phase.workload.seed, changed.stores.len()), (9, 9, 1));
    assert_eq!(
        (phase.workload.written.size.largest(), phase.workload.written.count, phase.load.slots()),
        (1 << 20, 5, 3)
    );
    for (set, expected) in [
        (
            "phase.p.objects.size=big",
            "--set phase.p.objects.size=big: phase 'p': objects.size: 'big' is not a size",
        ),
        ("phase.q.rate=5/s", "there is no phase 'q'; the phases are p"),
        ("phase.p.colour=red", "--set phase.p.colour=red: unknown field `colour`"),
        ("seed=abc", "--set seed=abc: invalid type"),
        ("seed", "is not in the form path=value"),
    ] {
        let message = with(&[set]).unwrap_err().to_string();
        assert!(message.contains(expected), "{set} -> {message}");
    }
    // An error in a value that no --set changed names the line of the file.
    let broken =
        parse("e.toml", &text.replace("count=5", "count=0"), &["seed=1".into()]).unwrap_err().to_string();
    assert!(broken.starts_with("e.toml:5:"), "{broken}");
}

/// Every distribution and every naming scheme survives the conversion to the file in a run directory and back.
#[test]
fn every_kind_of_field_survives_a_round_trip() {
    for (objects, popularity) in [
        ("size = { uniform = ['1 KiB', '3 KiB'] }", "'sequential'"),
        ("size = { lognormal = { median = '10 KiB', sigma = 0.7, max = '1 MiB' } }", "{ zipfian = 1.2 }"),
        ("size = { weighted = { '4 KiB' = 3, '1 MiB' = 1 } }, naming = 'hex'", "'latest'"),
        ("naming = { prefixes = 7 }", "{ hotspot = { object_share = 0.1, operation_share = 0.9 } }"),
        ("naming = { template = 'a-{hex}/{prefix}/{index}.x', prefixes = 3 }", "'uniform'"),
        ("size = '20 MiB', part_size = '6 MiB', parts_in_flight = 3, checksum = 'auto'", "'zipfian'"),
        ("compressible = 0.3, dedup = 4", "'uniform'"),
    ] {
        let text = format!(
            "name='x'\nrepeats=2\nblock='3s'\n[[phase]]\nname='o'\nrole='prepare'\noperations={{put=1}}\nobjects={{ {objects} }}\n\
             [[phase]]\nname='m'\noperations={{get=1}}\nobjects={{ from='o', popularity={popularity} }}\n\
             [[phase]]\nname='w'\noperations={{put=1}}\nobjects={{ {objects} }}\nduration='5s'\nverify='readback'\nthink_time='10ms'\n\
             [[phase]]\nname='r'\noperations={{get=1}}\nobjects={{ from='o' }}\nrate={{ from='1/s', step='2/s', to='9/s', every='1s', stop='never' }}\n"
        );
        let experiment = parse("f", &text, &[]).unwrap_or_else(|e| panic!("{objects}: {e}"));
        assert_eq!(experiment, parse("f", &to_toml(&experiment), &[]).unwrap(), "{objects}");
    }
    let text =
        "name='x'\n[[phase]]\nname='m'\noperations={get=1}\nobjects={ dataset='s3://b/p/', count=9 }\n";
    let experiment = parse("f", text, &[]).unwrap();
    assert_eq!(experiment, parse("f", &to_toml(&experiment), &[]).unwrap());
}

#[test]
fn sizes_are_divided_into_classes_if_they_vary() {
    let classes = |body: &str| {
        let text = format!("name='x'\n[[phase]]\nname='p'\noperations={{put=1}}\n{body}\n");
        let experiment = parse("f", &text, &[]).unwrap();
        assert_eq!(experiment, parse("f", &to_toml(&experiment), &[]).unwrap(), "{body}");
        experiment.phases[0].size_classes.as_ref().map(|classes| classes.sizes().len())
    };
    let mixed = "objects={ size={ uniform=['1 KiB', '3 MiB'] } }";
    assert_eq!(classes("objects={ size='1 KiB' }"), None);
    assert_eq!(classes(mixed), Some(17));
    assert_eq!(classes(&format!("{mixed}\nsize_classes=['10 KiB', '1 MiB']")), Some(2));
}

/// Resolving a plan of ten million operations with random sizes takes less than a second; `make bench` measures it.
#[test]
fn a_large_plan_needs_no_list_of_operations() {
    let text = "name='x'\n[[phase]]\nname='o'\nrole='prepare'\noperations={put=1}\n\
                objects={ count=10_000_000, size={ lognormal={ median='10 KiB', sigma=1.0 } } }\n";
    let experiment = parse("f", text, &[]).unwrap();
    assert_eq!(experiment.phases[0].limit.operations, Some(10_000_000));
}

/// A file whose phases write objects of two sizes and read them at two concurrencies.
const SWEPT: &str = "name = 'x'
[[phase]]
name = 'objects'
role = 'prepare'
operations = { put = 1 }
objects = { count = 4 }
sweep = { size = ['1 KiB', '64 KiB'] }
[[phase]]
name = 'warmup'
role = 'warmup'
operations = { get = 1 }
objects = { from = 'objects' }
stop_after = 1
sweep = { size = ['1 KiB', '64 KiB'], concurrency = [1, 8] }
[[phase]]
name = 'get'
operations = { get = 1 }
objects = { from = 'objects' }
stop_after = 1
sweep = { size = ['1 KiB', '64 KiB'], concurrency = [1, 8] }
";

#[test]
fn consecutive_phases_with_the_same_sweep_run_point_by_point_and_read_objects_of_their_size() {
    let experiment = parse("e.toml", SWEPT, &[]).unwrap();
    let names: Vec<&str> = experiment.phases.iter().map(|phase| phase.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "objects-1KiB",
            "objects-64KiB",
            "warmup-1KiB-x1",
            "get-1KiB-x1",
            "warmup-1KiB-x8",
            "get-1KiB-x8",
            "warmup-64KiB-x1",
            "get-64KiB-x1",
            "warmup-64KiB-x8",
            "get-64KiB-x8",
        ]
    );
    let last = experiment.phases.last().unwrap();
    assert_eq!(last.sweep.as_ref().unwrap().at["size"], "64 KiB");
    assert_eq!(parse("again", &to_toml(&experiment), &[]).unwrap(), experiment);
    let written = to_toml(&experiment);
    assert!(written.contains("from = \"objects-64KiB\""), "{written}");
    for (set, expected) in [
        ("phase.get.sweep={ concurrency = [1, 8] }", "give both the same values"),
        ("phase.get.sweep={ size = ['2 KiB'] }", "give both the same values"),
        ("phase.objects.sweep={ part_size = ['8 MiB'] }", "give both the same values"),
    ] {
        let message = parse("e.toml", SWEPT, &[set.to_string()]).unwrap_err().to_string();
        assert!(message.contains(expected), "{set}: {message}");
    }
}

/// Returns the experiment of a text.
fn documented(text: &str) -> Experiment {
    parse("document", text, &[]).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

#[test]
fn the_defaults_in_the_examples_of_the_document_are_those_of_the_code() {
    let document = include_str!("../../../../docs/experiments.md");
    let mut checked = 0;
    for claim in plimsoll_testing::defaults::claims(document) {
        // The ramp is below. The role is in a table, and the example needs it.
        if claim.line.starts_with("concurrency") || claim.line.starts_with("role") {
            continue;
        }
        assert_eq!(documented(&claim.with), documented(&claim.without), "{}", claim.line);
        checked += 1;
    }
    assert_eq!(checked, 3);
    let ramp = |to: &str| {
        let ramp = format!("{{ from = 8, step = 32, every = '5m', stop = 'plateau'{to} }}");
        documented(&format!(
            "name='x'\n[[phase]]\nname='p'\noperations={{put=1}}\nobjects={{count=1,size='1 KiB'}}\nconcurrency={ramp}"
        ))
    };
    assert_eq!(ramp(", to = 512"), ramp(""));
}

#[test]
fn the_defaults_in_the_tables_of_the_document_are_those_of_the_code() {
    use plimsoll_testing::defaults::{literal, rows};
    let document = include_str!("../../../../docs/experiments.md");
    let phase = |fields: &str, objects: &str| {
        documented(&format!(
            "name='x'\n[[phase]]\nname='p'\noperations={{put=1}}\nobjects={{size='1 MiB'{objects}}}\n{fields}"
        ))
    };
    let mut checked = 0;
    for row in rows(document, "default") {
        let (field, default) = (row[0].trim_matches('`'), row[2].split(';').next().unwrap_or_default());
        let default = default.trim_matches('`');
        if default.is_empty() || default == "none" {
            continue;
        }
        let base = if ["arrival", "in_flight"].contains(&field) { "rate='10/s'\n" } else { "" };
        let with = format!("{base}{field} = {}", literal(default));
        assert_eq!(phase(&with, ""), phase(base, ""), "{field}");
        checked += 1;
    }
    assert_eq!(checked, 9);
    let (_, objects) = document.split_once("Defaults are in parentheses.").unwrap();
    let (objects, _) = objects.split_once("**Datasets").unwrap();
    let stated = objects.lines().filter_map(|line| {
        let (start, default) = line.strip_suffix(") |")?.rsplit_once('(')?;
        Some((start.split('`').nth(1)?, default.trim_matches('`')))
    });
    for (field, default) in stated {
        let base = if field == "parts_in_flight" { ", part_size='5 MiB'" } else { "" };
        let with = format!("{base}, {field} = {}", literal(default));
        if field == "popularity" {
            let read = |popularity: &str| {
                let write = "name='x'\n[[phase]]\nname='p'\nrole='prepare'\noperations={put=1}\nobjects={count=9,size='1 KiB'}";
                documented(&format!(
                    "{write}\n[[phase]]\nname='r'\noperations={{get=1}}\nobjects={{from='p'{popularity}}}"
                ))
            };
            assert_eq!(read(&with), read(""), "{field}");
            continue;
        }
        assert_eq!(phase("", &with), phase("", base), "{field}");
    }
}

#[test]
fn errors_about_scans_and_ranges_in_order_name_the_fix() {
    let refused = |phase: &str| {
        let objects = "[[phase]]\nname = 'o'\nrole = 'prepare'\noperations = { put = 1 }\n";
        parse("e.toml", &format!("name = 'e'\n{objects}[[phase]]\nname = 'p'\n{phase}"), &[])
            .unwrap_err()
            .to_string()
    };
    for (phase, expected) in [
        ("trace = { files = ['x'], select = ['a'] }", "trace.select needs a trace.reader"),
        ("trace = { files = ['x'], reader = 'spark' }", "use one of duckdb, pyarrow"),
        (
            "trace = { files = ['x'], reader = 'duckdb', speed = 2.0 }",
            "a scan has no log; remove trace.speed",
        ),
        ("trace = { files = ['missing.parquet'], reader = 'duckdb' }", "missing.parquet: No such file"),
        (
            "operations = { get_range = 1, head = 1 }\nobjects = { from = 'o', range = '1 B', popularity = 'ranges' }",
            "only get_range reads ranges",
        ),
        (
            "operations = { get_range = 1 }\nobjects = { dataset = 's3://b/p', range = '1 B', popularity = 'ranges' }",
            "the sizes of existing objects are not known",
        ),
    ] {
        let message = refused(phase);
        assert!(message.contains(expected), "{phase}\n -> {message}");
    }
}
