"""The Python package, installed as users install it, on runs of the binary from the same build."""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys

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
    with pytest.raises(plimsoll.RunError, match="schema 1 to 3"):
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


def test_a_function_measures_and_returns_the_run(tmp_path, capfd):
    with plimsoll.serve(inject="latency=1ms") as server:
        run = plimsoll.run("mixed", store=server.store("bucket"), create_bucket=True, size="1KiB", rate="100/s", duration="2s",
                           warmup="0s", objects=20, out=tmp_path, slo=["get.p50 < 0.1ms", "errors < 50%"],
                           environment=server.environment)
    outcomes = {each["objective"]: each["outcome"] for each in run.result["objectives"]}
    assert outcomes["get.p50 < 0.1ms"] == "fail", "a missed objective is a result"
    assert run.path.parent == tmp_path and plimsoll.load(run.path).id == run.id
    assert "measure: mixed" in capfd.readouterr().err
    shown = run._repr_html_()
    assert run.id in shown and "fail: get.p50 &lt; 0.1ms" in shown and shown.count("<tr>") >= 3


def test_a_measurement_that_cannot_begin_raises_the_message_of_the_program(tmp_path):
    with pytest.raises(plimsoll.ProgramError, match="rate must be positive|--rate") as raised:
        plimsoll.run("get", store="memory:", rate="0/s", out=tmp_path, progress=False)
    assert raised.value.code == 2
    with pytest.raises(plimsoll.ProgramError, match="127.0.0.1:1") as raised:
        plimsoll.run("get", store="s3://bucket?endpoint=http://127.0.0.1:1", out=tmp_path, progress=False,
                     environment={"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_REGION": "us-east-1"})
    assert raised.value.code == 3
    with pytest.raises(plimsoll.ProgramError, match="inject"):
        plimsoll.serve(inject="latency=never")


def test_a_server_serves_clients_and_ends_with_the_block():
    boto3 = pytest.importorskip("boto3")
    with plimsoll.serve() as server:
        s3 = boto3.client("s3", **server.boto3)
        s3.create_bucket(Bucket="bucket")
        s3.put_object(Bucket="bucket", Key="k", Body=b"v")
        assert s3.get_object(Bucket="bucket", Key="k")["Body"].read() == b"v"
    assert server._process.returncode == 0
    assert server.secret_key not in repr(server)


def code_of(page, language):
    """Returns the blocks of code of a page in a language."""
    text = pathlib.Path(ROOT, "docs", page).read_text()
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.M | re.S)


def test_the_fixtures_of_the_documentation_work(tmp_path):
    conftest, test, faulty = code_of("use-in-tests.md", "python")
    (tmp_path / "conftest.py").write_text(conftest)
    (tmp_path / "test_upload.py").write_text(test + """

def test_each_test_has_a_bucket_of_its_own(s3_server, s3_bucket, s3_environment):
    s3 = boto3.client("s3")
    assert s3.list_objects_v2(Bucket=s3_bucket)["KeyCount"] == 0
    assert len(s3.list_buckets()["Buckets"]) == 2
""")
    (tmp_path / "faulty").mkdir()
    (tmp_path / "faulty" / "conftest.py").write_text(faulty)
    (tmp_path / "faulty" / "test_faulty.py").write_text(test)
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", tmp_path], cwd=tmp_path,
                          capture_output=True, text=True, env=environment(AWS_MAX_ATTEMPTS="10", PLIMSOLL_BIN=PLIMSOLL))
    assert done.returncode == 0 and "3 passed" in done.stdout, done.stdout + done.stderr


def test_the_helper_for_go_works(tmp_path):
    if not shutil.which("go"):
        pytest.skip("Go is not installed")
    [helper] = code_of("use-in-tests.md", "go")
    (tmp_path / "go.mod").write_text("module store\n")
    (tmp_path / "s3_test.go").write_text(helper.replace('"strings"', '"net/http"\n\t"strings"') + """
func TestServer(t *testing.T) {
	answer, err := http.Get(StartS3(t, "--quiet"))
	if err != nil || answer.StatusCode != 403 {
		t.Fatal(answer, err)
	}
}
""")
    programs = environment(PATH=f"{os.path.dirname(PLIMSOLL)}:{os.environ['PATH']}", GOFLAGS="-count=1", GOTOOLCHAIN="local")
    done = subprocess.run(["go", "test", "./..."], cwd=tmp_path, capture_output=True, text=True, env=programs)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_helper_for_rust_works(tmp_path):
    if not shutil.which("rustc"):
        pytest.skip("Rust is not installed")
    [helper] = code_of("use-in-tests.md", "rust")
    (tmp_path / "s3.rs").write_text(helper + """
#[test]
fn the_server_answers() {
    use std::io::{Read, Write};
    let server = S3Server::start(&["--quiet"]);
    let mut stream = std::net::TcpStream::connect(server.url.strip_prefix("http://").unwrap()).unwrap();
    stream.write_all(b"GET / HTTP/1.1\\r\\nHost: a\\r\\nConnection: close\\r\\n\\r\\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
}
""")
    programs = environment(PATH=f"{os.path.dirname(PLIMSOLL)}:{os.environ['PATH']}")
    built = subprocess.run(["rustc", "--test", "--edition", "2024", "-D", "warnings", "s3.rs"], cwd=tmp_path,
                           capture_output=True, text=True, env=programs)
    assert built.returncode == 0, built.stderr
    done = subprocess.run(["./s3"], cwd=tmp_path, capture_output=True, text=True, env=programs)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_server_ends_with_its_process():
    code = "import os, plimsoll; server = plimsoll.serve(); print(server._process.pid, flush=True); os._exit(1)"
    pid = int(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout)
    # The server ends when its standard input closes; a zombie has no command line.
    while os.path.exists(f"/proc/{pid}") and b"serve" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes():
        pass


def test_an_interrupt_ends_a_measurement_and_deletes_its_objects(tmp_path):
    boto3 = pytest.importorskip("boto3")
    with plimsoll.serve() as server:
        # A test that was started in the background would ignore the signal.
        options = dict(store=server.store("bucket"), create_bucket=True, duration="10m", warmup="0s", objects=10,
                       out=str(tmp_path), environment=server.environment)
        code = (f"import plimsoll, signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
                f"plimsoll.run('get', **{options!r})")
        child = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True)
        for line in child.stderr:
            if line.startswith("measure"):
                child.send_signal(signal.SIGINT)
        assert child.wait() != 0
        assert boto3.client("s3", **server.boto3).list_objects_v2(Bucket="bucket")["KeyCount"] == 0
    partial = plimsoll.load(next(tmp_path.iterdir()))
    assert partial.result["run"]["partial"] is True


def test_comparisons_are_tables_in_notebooks(runs):
    shown = plimsoll.compare(runs[0], runs[1])[0]._repr_html_()
    assert shown.startswith("<table><caption>") and "verdict" not in shown and "get p50" in shown


def test_names_of_stores_are_escaped_in_notebooks(runs):
    result = json.loads(json.dumps(runs[0].result))
    result["windows"][-1]["store"] = "<script>"
    assert "<script>" not in plimsoll.Run(runs[0].path, result)._repr_html_()


def test_the_package_is_typed():
    pytest.importorskip("mypy")
    checked = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--ignore-missing-imports", "--cache-dir", os.devnull,
                              os.path.join(ROOT, "python/plimsoll")], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout


@pytest.mark.parametrize("example", sorted(pathlib.Path(ROOT, "examples/python").glob("*.py")), ids=lambda path: path.stem)
def test_an_example_runs(example, tmp_path):
    for needed in re.findall(r"^import (duckdb|pandas)|to_(pandas)", example.read_text(), re.M):
        pytest.importorskip("".join(needed))
    done = subprocess.run([sys.executable, example], cwd=tmp_path, capture_output=True, text=True, env=environment())
    assert done.returncode == 0 and done.stdout, done.stderr
