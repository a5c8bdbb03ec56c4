"""The Python package, installed as users install it, on runs of the binary from the same build."""

import json
import shutil
import subprocess

import pytest

from support import PLIMSOLL, ROOT, environment

plimsoll = pytest.importorskip("plimsoll")
pl = pytest.importorskip("polars")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs")
    for number in range(2):
        done = subprocess.run([PLIMSOLL, "run", "mixed", "--store", "embedded:", "--duration", "9s", "--warmup", "0s", "--rate", "200/s",
                               "--out", str(out / str(number)), "--record", "operations"], capture_output=True, text=True, env=environment())
        assert done.returncode == 0, done.stderr
    return [plimsoll.load(next((out / str(number)).iterdir())) for number in range(2)]


def test_frames_and_histograms_agree_with_the_result(runs):
    run = runs[0]
    windows = run.windows.filter((pl.col("role") == "measure") & (pl.col("operation") == "get"))
    seconds = run.intervals.filter((pl.col("role") == "measure") & (pl.col("operation") == "get"))
    assert seconds["operations"].sum() == windows["operations"].sum()
    merged = plimsoll.Histogram.merge(map(plimsoll.Histogram.decode, seconds["response"]))
    assert merged == run.latency("get"), "the seconds add up to the window"
    assert len(merged) == seconds["operations"].sum()
    shown = windows["response_ms.p50"][0]
    assert abs(merged.quantile(0.5) - shown) <= 0.001 * shown + 0.001
    assert merged.within(merged.quantile(0.9)) >= 0.9 > merged.within(merged.quantile(0.5) * 0.5)
    assert run.operations.height == run.intervals["operations"].sum()
    assert run.latency("get", which="service").quantile(0.5) <= merged.quantile(0.99)
    assert run.windows.to_arrow().num_rows == run.windows.height
    assert {"p50", "rate"} <= set(run.confidence["metric"])


def test_comparisons_match_the_binary(runs):
    found = plimsoll.compare(runs[0], runs[1], primary="put.p90")[0]
    done = subprocess.run([PLIMSOLL, "compare", "--json", "--primary", "put.p90", str(runs[0].path), str(runs[1].path)],
                          capture_output=True, text=True, check=True)
    rows = json.loads(done.stdout)["comparisons"][0]["rows"]
    assert [row.verdict for row in found.rows] == [row["verdict"] for row in rows]
    assert (found.primary.operation, found.primary.metric) == ("put", "p90")
    assert found.frame().height == len(rows)


def test_results_of_schema_1_are_read_under_the_new_names(tmp_path):
    figure = {"store": "s", "phase": "get", "operation": "get", "metric": "p99", "unit": "ms", "needs_s": 30.0}
    window = {"store": "s", "service_ms": {"n": 3, "p50": 1.0, "needs": {"p99": 1000}, "above": {}}}
    old = {"schema": 1, "run": {"id": "r"}, "windows": [window], "confidence": [figure]}
    (tmp_path / "result.json").write_text(json.dumps(old))
    run = plimsoll.load(tmp_path)
    assert run.confidence["duration_needed_s"].to_list() == [30.0]
    assert run.windows.columns == ["store", "service_ms.n", "service_ms.p50", "failed"]


def test_invalid_input_raises_a_clear_error(runs, tmp_path):
    with pytest.raises(plimsoll.RunError, match="no such file"):
        plimsoll.load(tmp_path)
    (tmp_path / "result.json").write_text('{"schema": 7}')
    with pytest.raises(plimsoll.RunError, match="schema 1 to 2"):
        plimsoll.load(tmp_path)
    with pytest.raises(plimsoll.RunError, match="does not exist"):
        plimsoll.compare(runs[0], tmp_path / "nowhere")
    with pytest.raises(ValueError, match="HdrHistogram"):
        plimsoll.Histogram.decode(b"0123456789")
    assert plimsoll.Histogram.decode(b"").quantile(0.5) is None


def test_a_truncated_log_is_read_up_to_the_truncation(runs, tmp_path):
    cut = tmp_path / "cut"
    shutil.copytree(runs[0].path, cut)
    log = (cut / "intervals.arrows").read_bytes()
    (cut / "intervals.arrows").write_bytes(log[: len(log) // 2])
    height = plimsoll.load(cut).intervals.height
    assert 0 < height < runs[0].intervals.height


def test_the_example_draws_a_chart(runs, tmp_path):
    pytest.importorskip("matplotlib")
    out = tmp_path / "ycsb.png"
    done = subprocess.run(["python", f"{ROOT}/examples/redraw.py", "ycsb", str(runs[0].path), str(runs[1].path), "-o", str(out)],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert out.read_bytes().startswith(b"\x89PNG")
