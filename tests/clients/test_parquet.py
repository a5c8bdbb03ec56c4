"""Parquet files that Plimsoll writes and reads, against Apache Arrow."""

import json
import subprocess

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from support import PLIMSOLL, environment


def run(*arguments):
    done = subprocess.run([PLIMSOLL, *map(str, arguments)], capture_output=True, text=True, env=environment())
    assert done.returncode == 0, done.stderr
    return done.stdout


def plain(table):
    """Returns a table without dictionaries and without what the file format adds to the schema."""
    def decoded(column):
        return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column

    columns = {name: decoded(table[name].combine_chunks()) for name in table.column_names}
    return pa.table(columns)


def test_an_exported_run_has_the_rows_of_its_arrow_streams(tmp_path):
    run("run", "mixed", "--store", "embedded:", "--operations", 3000, "--out", tmp_path / "runs", "--record", "operations")
    directory = next((tmp_path / "runs").iterdir())
    run("export", "--format", "parquet", directory)
    for name in ["intervals", "operations"]:
        with pa.OSFile(str(directory / f"{name}.arrows")) as source:
            expected = plain(pa.ipc.open_stream(source).read_all())
        found = plain(pq.read_table(directory / f"{name}.parquet"))
        assert found.select(expected.column_names).equals(expected), name
        assert found.num_rows > 0
        if name == "intervals":
            check_the_columns_for_people(found, directory)
    assert found["intended_ns"].null_count == found.num_rows, "a closed loop has no intended starts"


def check_the_columns_for_people(intervals, directory):
    windows = pq.read_table(directory / "windows.parquet")
    result = json.loads((directory / "result.json").read_text())
    assert windows.num_rows == len(result["windows"])
    assert windows.schema.field("started").type == pa.timestamp("us", tz="UTC")
    for row, window in zip(windows.to_pylist(), result["windows"]):
        assert row["service_p50_ms"] == window["service_ms"]["p50"]
        assert abs(row["started"].timestamp() - window["start_unix_s"]) < 1e-3
        assert (row["operation"], row["saturated"]) == (window["operation"], window["saturated"])
    assert intervals.schema.field("time").type == pa.timestamp("us", tz="UTC")
    second = intervals.to_pylist()[0]
    started = result["windows"][0]["start_unix_s"]
    assert abs(second["time"].timestamp() - started) < 60
    assert second["service_p50_ms"] is None or second["service_min_ms"] <= second["service_p50_ms"] <= second["service_max_ms"]
    assert pc.max(intervals["service_max_ms"]).as_py() > 0


def test_the_windows_and_intervals_of_a_sweep_have_its_values(tmp_path):
    run("run", "get", "--store", "embedded:", "--operations", 200, "--objects", 5, "--warmup", "0s",
        "--sweep", "size=1KiB,4KiB", "--out", tmp_path / "runs")
    directory = next((tmp_path / "runs").iterdir())
    run("export", "--format", "parquet", directory)
    windows = pq.read_table(directory / "windows.parquet").to_pylist()
    assert {row["sweep_size"] for row in windows if row["role"] == "measure"} == {"1 KiB", "4 KiB"}
    intervals = pq.read_table(directory / "intervals.parquet").to_pylist()
    assert {row["sweep_size"] for row in intervals if row["role"] == "measure"} == {"1 KiB", "4 KiB"}


@pytest.mark.parametrize("kind", ["s", "ms", "us", "ns", "float64", "float32"])
def test_logs_of_r2_bench_are_read_whatever_the_types_of_their_columns(tmp_path, kind):
    starts = [i / 16 for i in range(100)]
    ends = [start + 0.03125 for start in starts]
    if kind.startswith("float"):
        # Times since the beginning of the test, which a float of 32 bits has exactly.
        times = [pa.array(values, pa.type_for_alias(kind)) for values in (starts, ends)]
    else:
        unit = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}[kind]
        times = [pa.array([round((1_700_000_000 + v) * unit) for v in values], pa.int64()).cast(pa.timestamp(kind))
                 for values in (starts, ends)]
    table = pa.table({
        "start_ts": times[0], "end_ts": times[1], "ts": times[1],
        "latency_ms": pa.array([31.25] * 100, pa.float32()),
        "bytes": pa.array([1 << 20] * 100, pa.uint64()),
        "retry_count": pa.array([None, 1] * 50, pa.int16()),
        "http_status": pa.array([206] * 100, pa.uint16()),
        "concurrency": pa.array([4] * 100, pa.uint32()),
        "phase_id": pa.array(["ramp_1", "ramp_2"] * 50).dictionary_encode(),
        "tags": pa.array([["ignored"]] * 100),
    })
    pq.write_table(table, tmp_path / "log.parquet", row_group_size=33, store_schema=False)
    run("import", "r2-bench", tmp_path / "log.parquet", "--out", tmp_path / "runs")
    result = json.loads(next((tmp_path / "runs").glob("*/result.json")).read_text())
    windows = result["windows"]
    assert [(window["phase"], window["step"]) for window in windows] == [("ramp", 0), ("ramp", 1)]
    assert sum(window["operations"] for window in windows) == pc.count(table["bytes"]).as_py()
    # Timestamps of whole milliseconds round both ends.
    tolerance = {"s": 1000, "ms": 1.1}.get(kind, 0.05)
    assert all(abs(window["service_ms"]["p50"] - 31.25) < tolerance for window in windows)
