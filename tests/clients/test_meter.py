"""`plimsoll meter` counts exactly what real clients send: its counts are compared with those of a proxy that sees every
request between the meter and the store, and classifies them by its own reading of the S3 API."""
import collections
import http.client
import http.server
import json
import os
import shutil
import subprocess
import sys
import threading
import tomllib
import urllib.parse

import numpy
import pyarrow
import pyarrow.parquet
import pytest

from support import ACCESS, PLIMSOLL, ROOT, SECRET, Server, environment

BUCKET = "real"
BUILT_IN = os.path.join(ROOT, "crates/measure/experiment/experiments")


def operation(method, target, headers):
    """Returns the name of the operation of a request in path style, from the pages of the S3 API reference."""
    path, _, query = target.partition("?")
    query = dict(urllib.parse.parse_qsl(query, keep_blank_values=True))
    bucket, _, key = path.lstrip("/").partition("/")
    copies = "x-amz-copy-source" in headers
    if not bucket:
        return "ListBuckets"
    if not key:
        if method == "GET":
            for name, found in [("location", "GetBucketLocation"), ("uploads", "ListMultipartUploads"),
                                ("versions", "ListObjectVersions"), ("versioning", "GetBucketVersioning")]:
                if name in query:
                    return found
            return "ListObjectsV2" if query.get("list-type") == "2" else "ListObjects"
        return {"HEAD": "HeadBucket", "PUT": "CreateBucket", "DELETE": "DeleteBucket", "POST": "DeleteObjects"}[method]
    if "uploadId" in query:
        part = "UploadPartCopy" if copies else "UploadPart"
        return {"PUT": part, "POST": "CompleteMultipartUpload", "DELETE": "AbortMultipartUpload",
                "GET": "ListParts"}[method]
    if "uploads" in query:
        return "CreateMultipartUpload"
    if method == "PUT" and copies:
        return "CopyObject"
    return {"PUT": "PutObject", "GET": "GetObject", "HEAD": "HeadObject", "DELETE": "DeleteObject"}[method]


class Recorder:
    """A proxy in front of a server that records each request with its operation, status and bytes."""

    def __init__(self, url):
        self.seen, lock, host = [], threading.Lock(), urllib.parse.urlsplit(url).netloc
        seen = self.seen

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def handle_one(self):
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                if getattr(self, "upstream", None) is None:
                    self.upstream = http.client.HTTPConnection(host)
                self.upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
                for name, value in self.headers.items():
                    self.upstream.putheader(name, value)
                self.upstream.endheaders(body)
                answer = self.upstream.getresponse()
                content = answer.read()
                with lock:
                    seen.append((operation(self.command, self.path, self.headers), answer.status, len(body),
                                 len(content), {name.lower(): value for name, value in self.headers.items()}))
                self.send_response_only(answer.status)
                for name, value in answer.getheaders():
                    if name.lower() not in ("connection", "transfer-encoding"):
                        self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = handle_one

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture(scope="module")
def server():
    with Server() as server:
        yield server


@pytest.fixture
def recorder(server):
    recorder = Recorder(server.url)
    yield recorder
    recorder.server.shutdown()


@pytest.fixture
def tree(tmp_path):
    tree = tmp_path / "tree"
    (tree / "deep" / "er").mkdir(parents=True)
    for i in range(12):
        (tree / "deep" / f"{i} ä+%.bin").write_bytes(os.urandom(i * 1000))
    (tree / "deep" / "er" / "large").write_bytes(os.urandom(20 << 20))
    return tree


def meter(*arguments, cwd, **env):
    """Runs `plimsoll meter` and returns its JSON."""
    ours = environment(PATH=f"{ROOT}/.venv/bin:{os.environ['PATH']}", RESTIC_PASSWORD="password", **env)
    done = subprocess.run([PLIMSOLL, "meter", "--json", *arguments], cwd=cwd, env=ours, capture_output=True, text=True,
                          timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


DUCKDB = """
import os
import duckdb
from duckdb_extensions import import_extension
import_extension('httpfs')
db = duckdb.connect()
db.execute(f"LOAD httpfs; CREATE SECRET (TYPE s3, URL_STYLE 'path', USE_SSL false, REGION 'us-east-1',"
    f" KEY_ID '{os.environ['AWS_ACCESS_KEY_ID']}', SECRET '{os.environ['AWS_SECRET_ACCESS_KEY']}',"
    f" ENDPOINT '{os.environ['DUCKDB_S3_ENDPOINT']}')")
db.execute("COPY (SELECT range AS a, random() AS b FROM range(3000000)) TO 's3://real/duck/a.parquet'")
assert db.execute("SELECT count(*), min(a) FROM 's3://real/duck/*.parquet'").fetchall() == [(3000000, 0)]
"""
PYARROW = """
import os
import pyarrow, pyarrow.dataset as ds, pyarrow.fs as fs
store = fs.S3FileSystem(endpoint_override=os.environ['AWS_ENDPOINT_URL_S3'])
table = pyarrow.table({'a': list(range(1000000))})
ds.write_dataset(table, 'real/arrow', filesystem=store, format='parquet', max_rows_per_file=250000,
    max_rows_per_group=250000)
assert ds.dataset('real/arrow', filesystem=store).to_table().num_rows == 1000000
store.delete_dir('real/arrow')
"""
S3FS = """
import s3fs
store = s3fs.S3FileSystem()
store.put('tree', 'real/s3fs', recursive=True)
assert len(store.find('real/s3fs')) == 13
assert store.size('real/s3fs/deep/er/large') == 20 << 20
store.cp('real/s3fs/deep/er/large', 'real/s3fs/copy')
store.get('real/s3fs/', 'back', recursive=True)
store.rm('real/s3fs', recursive=True)
"""
CLIENTS = {
    "aws": "aws s3 sync --only-show-errors tree s3://real/aws && aws s3 sync --only-show-errors s3://real/aws back"
           " && aws s3 cp --only-show-errors s3://real/aws/deep/er/large s3://real/aws/copy"
           " && aws s3 rm --only-show-errors --recursive s3://real/aws && diff -r tree back",
    "s5cmd": "s5cmd cp tree/ s3://real/s5cmd/ && s5cmd ls 's3://real/s5cmd/*' && s5cmd cp 's3://real/s5cmd/*' back/"
             " && s5cmd rm 's3://real/s5cmd/*' && diff -r tree back",
    "rclone": "rclone copy tree meter:real/rclone && rclone check tree meter:real/rclone --download"
              " && rclone copy meter:real/rclone back && rclone purge meter:real/rclone && diff -r tree back",
    "restic": "restic init && restic backup tree && restic check --read-data && restic restore latest --target back"
              " && restic forget --keep-last 1 --prune",
    "duckdb": "python client.py",
    "pyarrow": "python client.py",
    # It needs another version of botocore than boto3.
    "s3fs": f"{ROOT}/.venv/s3fs/bin/python client.py && diff -r tree/deep back/deep",
}
PROGRAMS = {"duckdb": DUCKDB, "pyarrow": PYARROW, "s3fs": S3FS}


@pytest.mark.parametrize("client", CLIENTS)
def test_counts_equal_those_of_the_server(client, server, recorder, tree, tmp_path):
    if client == "restic" and not shutil.which("restic"):
        pytest.skip("restic is not installed")
    (tmp_path / "client.py").write_text(PROGRAMS.get(client, ""))
    store = f"s3://{BUCKET}?endpoint={recorder.url}"
    subprocess.run([PLIMSOLL, "bucket", "create", f"s3://{BUCKET}?endpoint={server.url}"], env=environment(),
                   capture_output=True)
    found = meter("--upstream", store, "--", "sh", "-c", CLIENTS[client], cwd=tmp_path)
    requests, failed, billed = collections.Counter(), collections.Counter(), collections.Counter()
    written = read = 0
    for name, status, sent, received, headers in recorder.seen:
        requests[name] += 1
        failed[name] += status >= 400
        billed[name] += status < 500
        if status < 400 and name in ("PutObject", "UploadPart"):
            written += sent
        if status < 400 and name == "GetObject":
            read += received
        assert headers["authorization"].startswith(f"AWS4-HMAC-SHA256 Credential={ACCESS}/"), headers
        assert "x-amz-trailer" not in headers and "aws-chunked" not in headers.get("content-encoding", "")
    if client == "pyarrow":
        # It asks for a bucket that cannot exist, which the meter refuses.
        requests["HeadBucket"] += 1
        failed["HeadBucket"] += 1
        billed["HeadBucket"] += 1
    counted = {name: (of["requests"], of["failed"]) for name, of in found["operations"].items()}
    assert counted == {name: (requests[name], failed[name]) for name in requests}
    assert (found["written"], found["read"], found["refused"]) == (written, read, 0)
    assert sum(counts for counts, _ in counted.values()) >= 3 and written > 5_000_000 and read > 0
    # A bill at list prices, from the counts of the proxy: tier 1 and tier 2 of S3 Standard; deletions and server
    # errors are free.
    first = {"PutObject", "CopyObject", "UploadPart", "UploadPartCopy", "CreateMultipartUpload",
             "CompleteMultipartUpload", "ListObjects", "ListObjectsV2", "ListMultipartUploads", "ListParts", "ListBuckets"}
    free = {"DeleteObject", "DeleteObjects", "AbortMultipartUpload"}
    picodollars = sum(count * (0 if name in free else 5_000_000 if name in first else 400_000)
                      for name, count in billed.items())
    assert round(float(found["one_run_usd"]["aws-s3"]) * 1e12) == picodollars


def test_memory_keeps_what_a_command_writes_and_bills_it(tree, tmp_path):
    command = "aws s3 sync --only-show-errors tree s3://bucket/a && aws s3 cp --only-show-errors s3://bucket/a/deep/er/large back"
    found = meter("--bucket", "bucket", "--runs-per-month", "30", "--provider", "aws-s3", "--without-allowances", "--",
                  "sh", "-c", command, cwd=tmp_path)
    size = sum(file.stat().st_size for file in tree.rglob("*") if file.is_file())
    assert (found["left"], found["written"], found["read"]) == ([13, size], size, 20 << 20)
    assert [prefix["prefix"] for prefix in found["prefixes"]] == ["bucket/a/", "bucket/"]
    [bill] = found["bills"]
    lines = {line["item"]: line for line in bill["lines"]}
    assert lines["storage"]["quantity"].startswith(str(size / 2**30)[:8])
    parts = sum(found["operations"][name]["requests"] for name in
                ("PutObject", "ListObjectsV2", "CreateMultipartUpload", "UploadPart", "CompleteMultipartUpload"))
    tier1 = [line for item, line in lines.items() if "PUT" in item]
    assert [line["quantity"] for line in tier1] == [f"{30 * parts / 1000:g}"]


REPEATED = {"PutObject", "GetObject", "HeadObject", "DeleteObject", "ListObjects", "ListObjectsV2"}


def test_a_recorded_backup_is_replayed_with_the_same_requests_and_sizes(tmp_path):
    if not shutil.which("restic"):
        pytest.skip("restic is not installed")

    def recorded(name):
        return [json.loads(line) for line in (tmp_path / name).read_text().splitlines()]

    # Small files, so that no read overtakes the write of its object.
    (tmp_path / "tree").mkdir()
    for i in range(12):
        (tmp_path / "tree" / f"{i}").write_bytes(os.urandom(i * 1000))
    backup = "restic backup tree && restic check --read-data && restic forget --keep-last 1 --prune"
    counted = meter("--record", "first.log", "--prepare", "restic init", "--", "sh", "-c", backup, cwd=tmp_path)
    first = recorded("first.log")
    assert len(first) == sum(of["requests"] for of in counted["operations"].values())
    replay = (f'{PLIMSOLL} replay first.log --keep --out runs'
              ' --store "s3://meter?endpoint=$AWS_ENDPOINT_URL_S3"')
    meter("--record", "second.log", "--", "sh", "-c", replay, cwd=tmp_path)
    kept = [line for line in first if line["status"] < 400 and line["operation"] in REPEATED]

    def shape(lines):
        # Listings of the run's prefix have other keys.
        return collections.Counter(
            ("List", 0) if line["operation"].startswith("List")
            else (line["operation"], line["bytes_in"] if line["operation"] == "PutObject" else line["bytes_out"],
                  line.get("range_start"))
            for line in lines)

    # Before the replay, the run writes the objects that the backup found.
    assert len(kept) > 20 and shape(recorded("second.log")[-len(kept):]) == shape(kept)
    assert "Signature" not in (tmp_path / "first.log").read_text()


SCANS = {
    "pyarrow": """
import os, sys, pyarrow.fs, pyarrow.parquet
columns = sys.argv[1:]
store = pyarrow.fs.S3FileSystem(endpoint_override=os.environ["AWS_ENDPOINT_URL_S3"])
pyarrow.parquet.read_table("meter/table.parquet", filesystem=store, columns=columns or None)
""",
    "duckdb": """
import os, sys, duckdb
columns = sys.argv[1:]
from duckdb_extensions import import_extension
import_extension("httpfs")
key, secret, url = (os.environ[name] for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL_S3"))
duckdb.sql("LOAD httpfs")
duckdb.sql(f"CREATE SECRET s (TYPE s3, KEY_ID '{key}', SECRET '{secret}', ENDPOINT '{url.split('//')[1]}', USE_SSL false, "
           "URL_STYLE 'path', REGION 'us-east-1')")
# One thread, because several request the row groups in an order that depends on the time. Not the maxima, which are in
# the metadata.
duckdb.sql("SET threads = 1")
counts = ", ".join(f"count(DISTINCT {name})" for name in columns) if columns else "*"
duckdb.sql(f"SELECT {counts} FROM read_parquet('s3://meter/table.parquet')").fetchall()
""",
}


def numbers(rows, columns):
    random = numpy.random.default_rng(7)
    table = {f"c{i}": random.integers(0, 1 << 40, rows) for i in range(columns)}
    return table | {"s0": [f"value {i}" for i in random.integers(0, 10_000, rows)]}


def nested(rows):
    return {"c0": [[i, i + 1] for i in range(rows)], "c1": [{"a": i, "b": [i / 3]} for i in range(rows)],
            "c2": [None if i % 3 else i for i in range(rows)], "s0": [f"value {i % 50}" for i in range(rows)]}


# A table, the rows of its row groups, and the columns that a scan reads: metadata within and beyond the first read of
# either program, chunks that are neighbours and others, and a file that fits into the first read.
TABLES = {
    "small": (numbers(1000, 4), 1000, ["c1", "c3"]),
    "row groups": (numbers(200_000, 4), 50_000, ["c1", "c3", "s0"]),
    "all columns": (numbers(200_000, 4), 50_000, []),
    "many columns": (numbers(20_000, 60), 2_000, ["c1", "c3", "c4", "c30", "s0"]),
    "nested": (nested(50_000), 20_000, ["c1", "s0"]),
}


def requests_of(log):
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    return [(line["operation"], line.get("range_start"), line["bytes_out"]) for line in lines
            if line["operation"] in ("GetObject", "HeadObject") and line["status"] < 400]


def record_scan(reader, name, tmp_path):
    """Records the scan of a table by a program. Returns the requests of the program."""
    table, group, columns = TABLES[name]
    pyarrow.parquet.write_table(pyarrow.table(table), tmp_path / "table.parquet", row_group_size=group)
    (tmp_path / "scan.py").write_text(SCANS[reader])
    meter("--record", "first.log", "--prepare", "aws s3 cp table.parquet s3://meter/", "--", sys.executable, "scan.py",
          *columns, cwd=tmp_path)
    first = requests_of(tmp_path / "first.log")
    assert sum(name == "GetObject" for name, *_ in first) >= 2, first
    return first


@pytest.mark.parametrize("reader", SCANS)
@pytest.mark.parametrize("name", ["small", "row groups", "many columns"])
def test_a_recorded_parquet_scan_is_replayed_with_the_same_ranges(reader, name, tmp_path):
    first = collections.Counter(record_scan(reader, name, tmp_path))
    replay = (f'{PLIMSOLL} replay first.log --keep --out runs --store "s3://meter?endpoint=$AWS_ENDPOINT_URL_S3"')
    meter("--record", "second.log", "--", "sh", "-c", replay, cwd=tmp_path)
    second = collections.Counter(requests_of(tmp_path / "second.log"))
    assert not first - second, (first, second)
    # The replay checks its bucket before, and reads nothing else.
    assert all(name != "GetObject" for name, *_ in second - first), (first, second)


@pytest.mark.parametrize("reader", SCANS)
@pytest.mark.parametrize("name", TABLES)
def test_a_parquet_scan_has_the_requests_of_the_program_itself(reader, name, tmp_path):
    first = record_scan(reader, name, tmp_path)
    columns = TABLES[name][2]
    scan = (f"{PLIMSOLL} run parquet table.parquet --reader {reader} --warmup 0s --concurrency 1 --keep --no-report"
            f" --operations {len(first)} --out runs" + (f" --columns {','.join(columns)}" if columns else "")
            + ' --store "s3://meter?endpoint=$AWS_ENDPOINT_URL_S3"')
    meter("--record", "second.log", "--", "sh", "-c", scan, cwd=tmp_path)
    second = requests_of(tmp_path / "second.log")[-len(first):]
    assert collections.Counter(first) == collections.Counter(second)
    if reader == "duckdb":
        assert first == second, "one thread requests them in one order"
    # No request is missing: the next one is the first of the next scan.
    again = scan.replace(f"--operations {len(first)}", f"--operations {len(first) + 1}")
    meter("--record", "third.log", "--", "sh", "-c", again, cwd=tmp_path)
    assert requests_of(tmp_path / "third.log")[-1] == second[0]


def test_the_packs_of_restic_have_the_size_of_the_built_in_backup(tmp_path):
    if not shutil.which("restic"):
        pytest.skip("restic is not installed")
    [size] = [phase["objects"]["size"] for phase in tomllib.load(open(os.path.join(BUILT_IN, "backup.toml"), "rb"))["phase"]
              if phase["name"] == "backup"]
    assert size == "16 MiB"
    pack = 16 << 20
    (tmp_path / "data").write_bytes(os.urandom(5 * pack))
    meter("--record", "log", "--prepare", "restic init", "--", "sh", "-c",
          "restic backup data && restic check --read-data", cwd=tmp_path)
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    written = [line["bytes_in"] for line in lines if line["operation"] == "PutObject" and "data/" in line["key"]]
    # A pack is full when it reaches the size; the packs that are open at the end, one for each kind of blob, are smaller.
    full = [bytes for bytes in written if bytes >= pack]
    assert len(full) >= len(written) - 3 and len(full) >= 3, written
    assert max(full) < pack + (9 << 20), "the largest blob has 8 MiB"
    read = collections.Counter(line["bytes_out"] for line in lines if line["operation"] == "GetObject" and "data/" in line["key"])
    assert not collections.Counter(full) - read, "a check reads packs whole"


def test_a_record_never_replaces_a_file(tmp_path):
    (tmp_path / "mine").write_text("precious")
    command = ["aws", "s3", "ls", "s3://meter"]
    done = subprocess.run([PLIMSOLL, "meter", "--record", "mine", "--", *command], cwd=tmp_path, env=environment(),
                          capture_output=True, text=True)
    assert done.returncode == 2 and "--record mine: File exists" in done.stderr, done.stderr
    assert (tmp_path / "mine").read_text() == "precious"
    done = subprocess.run([PLIMSOLL, "meter", "--record", "none", "--", "true"], cwd=tmp_path, env=environment(),
                          capture_output=True, text=True)
    assert done.returncode == 2 and not (tmp_path / "none").exists(), done.stderr


def test_a_change_beyond_the_bound_ends_with_code_1(tree, tmp_path):
    upload = ["--", "aws", "s3", "cp", "--only-show-errors", "--recursive", "tree", "s3://meter/"]
    (tmp_path / "base.json").write_text(json.dumps(meter(*upload, cwd=tmp_path)))
    (tree / "one more").write_bytes(b"1")

    def judged(*bounds):
        flags = [flag for bound in bounds for flag in ("--fail-if", bound)]
        return subprocess.run([PLIMSOLL, "meter", "--baseline", "base.json", *flags, *upload], cwd=tmp_path,
                              env=environment(PATH=f"{ROOT}/.venv/bin:{os.environ['PATH']}"), capture_output=True, text=True)

    within = judged("requests > +10%", "cost.aws-s3 > +10%")
    assert within.returncode == 0 and within.stderr.count("pass  --fail-if") == 2, within.stderr
    beyond = judged("requests.PutObject > +0%", "failed > +0%")
    assert beyond.returncode == 1 and "1 of 2 bounds exceeded" in beyond.stderr, beyond.stderr
    assert "'requests.PutObject > +0%': 13 after 12, +8.33%" in beyond.stderr


def test_what_is_wrong_is_one_line(server, tmp_path):
    def fails(*arguments):
        done = subprocess.run([PLIMSOLL, "meter", *arguments], env=environment(), capture_output=True, text=True,
                              cwd=tmp_path)
        return done.returncode, done.stderr.splitlines()[-1]

    code, line = fails("--", "sh", "-c", "exit 7")
    assert code == 2 and "no request arrived" in line and line.endswith("the command ended with exit status 7"), line
    code, line = fails("--", "python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:1/')")
    assert code == 2 and "no request arrived" in line, line
    code, line = fails("--", "no-such-program")
    assert code == 2 and "'no-such-program' cannot be started" in line, line
    code, line = fails("--prepare", "exit 3", "--", "true")
    assert code == 2 and "--prepare: the command ended with exit status 3" in line, line
    for flags in (["--prepare", "kill -INT $$", "--", "true"], ["--", "sh", "-c", "aws s3 ls s3://meter; kill -INT $$"]):
        code, line = fails(*flags)
        assert code == 130 and "ended with signal 2" in line, line
    code, line = fails("--upstream", f"s3://{BUCKET}/prefix?endpoint={server.url}", "--", "true")
    assert code == 2 and "omit the prefix" in line, line
    code, line = fails("--bucket", "No", "--", "true")
    assert code == 2 and "'No' is not the name of a bucket" in line, line


def test_another_bucket_and_another_key_are_refused(server, tmp_path):
    script = ("aws s3 ls s3://other; aws s3api copy-object --bucket real --key a --copy-source other/b;"
              " AWS_SECRET_ACCESS_KEY=wrong aws s3 ls s3://real; aws s3 ls s3://real/;"
              " AWS_MAX_ATTEMPTS=1 aws s3api put-bucket-policy --bucket real --policy '{}';"
              " AWS_MAX_ATTEMPTS=1 aws s3api put-object-legal-hold --bucket real --key a --legal-hold Status=ON; true")
    subprocess.run([PLIMSOLL, "bucket", "create", f"s3://{BUCKET}?endpoint={server.url}"], env=environment(),
                   capture_output=True)
    found = meter("--upstream", f"s3://{BUCKET}?endpoint={server.url}", "--", "sh", "-c", script, cwd=tmp_path)
    operations = {name: (of["requests"], of["failed"]) for name, of in found["operations"].items()}
    assert operations == {"ListObjectsV2": (2, 1), "CopyObject": (1, 1)} and found["refused"] == 3
    assert SECRET not in json.dumps(found)


PRESIGNED = """
import os, urllib.request
import boto3
from botocore.config import Config
s3 = boto3.client('s3', endpoint_url=os.environ['AWS_ENDPOINT_URL_S3'],
    config=Config(s3={'addressing_style': 'path'}, signature_version='s3v4', retries={'max_attempts': 0}))
s3.put_object(Bucket='real', Key='src', Body=b'source data')
def put(key, **more):
    def add(request, **_):
        for name, value in more.items():
            request.url += ('&' if '?' in request.url else '?') + name.replace('_', '-') + '=' + value
    s3.meta.events.register('before-sign.s3.PutObject', add)
    url = s3.generate_presigned_url('put_object', Params={'Bucket': 'real', 'Key': key})
    s3.meta.events.unregister('before-sign.s3.PutObject', add)
    try:
        return urllib.request.urlopen(urllib.request.Request(url, data=b'', method='PUT')).status
    except urllib.error.HTTPError as error:
        return error.code
print(put('dst', **{'X-Amz-Copy-Source': 'real%2Fsrc'}), put('z', **{'x-amz-copy-source': 'other%2Fsecret'}),
      put('m', **{'X-Amz-Meta-Foo': 'bar'}))
assert s3.get_object(Bucket='real', Key='dst')['Body'].read() == b'source data'
assert s3.head_object(Bucket='real', Key='m')['Metadata'] == {'foo': 'bar'}
try:
    s3.head_object(Bucket='real', Key='z')
    raise SystemExit('the copy from another bucket was passed on')
except s3.exceptions.ClientError as error:
    assert error.response['ResponseMetadata']['HTTPStatusCode'] == 404
"""


def test_regression_headers_in_the_query_of_a_presigned_url_were_dropped(server, tmp_path):
    """A presigned copy became an empty object, and its source could be in any bucket."""
    (tmp_path / "client.py").write_text(PRESIGNED)
    subprocess.run([PLIMSOLL, "bucket", "create", f"s3://{BUCKET}?endpoint={server.url}"], env=environment(),
                   capture_output=True)
    found = meter("--upstream", f"s3://{BUCKET}?endpoint={server.url}", "--", "python", "client.py", cwd=tmp_path)
    assert found["operations"]["CopyObject"] == {"requests": 2, "failed": 1, "bytes": 0}


def test_regression_mistakes_in_names_were_found_after_the_command(tmp_path):
    base = {"command": [], "exit_status": 0, "operations": {"PutObject": {"requests": 1}}, "written": 0, "read": 0,
            "copied": 0, "one_run_usd": {"aws-s3": "0.1"}}
    (tmp_path / "base.json").write_text(json.dumps(base))
    for flags, message in [
        (["--provider", "aws-s4"], "aws-s4"), (["--output", "nowhere/x.json"], "--output nowhere/x.json"),
        (["--baseline", "base.json", "--fail-if", "requests.GetObjetc > +0%"], "'GetObjetc' is no operation"),
        (["--baseline", "base.json", "--fail-if", "cost.aws-s4 > +0%"], "has no cost at 'aws-s4'"),
        (["--baseline", "base.json", "--fail-if", "cost.wasabi > +0%"], "the baseline has no cost at 'wasabi'"),
    ]:
        done = subprocess.run([PLIMSOLL, "meter", *flags, "--", "touch", "ran"], cwd=tmp_path, env=environment(),
                              capture_output=True, text=True)
        assert done.returncode == 2 and message in done.stderr, done.stderr
        assert not (tmp_path / "ran").exists()
    huge = 2**64 - 1
    base["operations"] = {"A": {"requests": huge, "failed": huge}, "B": {"requests": huge, "failed": huge}}
    (tmp_path / "base.json").write_text(json.dumps(base))
    done = subprocess.run([PLIMSOLL, "meter", "--baseline", "base.json", "--fail-if", "requests > +0%", "--", "aws", "s3",
                           "ls", "s3://meter"], cwd=tmp_path, capture_output=True, text=True,
                          env=environment(PATH=f"{ROOT}/.venv/bin:{os.environ['PATH']}"))
    assert done.returncode == 0, done.stderr


def test_secrets_of_the_command_stay_out_of_the_report(tmp_path):
    script = ["sh", "-c", "aws s3 ls s3://meter", "x", "--password", "hunter2secret", "-u", "user:pppppppp"]
    report = json.dumps(meter("--", *script, cwd=tmp_path))
    assert "hunter2secret" not in report and "pppppppp" not in report and "[redacted]" in report


def test_a_store_that_does_not_answer_is_named(tmp_path):
    done = subprocess.run([PLIMSOLL, "meter", "--upstream", f"s3://{BUCKET}?endpoint=http://127.0.0.1:1", "--", "sh", "-c",
                           "aws s3 ls s3://real || true"],
                          env=environment(PATH=f"{ROOT}/.venv/bin:{os.environ['PATH']}", AWS_MAX_ATTEMPTS="1"),
                          capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0 and "had no response from the store: could not connect to 127.0.0.1:1" in done.stdout
    assert " 1 of them failed" in done.stdout
    found = meter("--upstream", f"s3://{BUCKET}?endpoint=http://127.0.0.1:1", "--", "sh", "-c",
                  "aws s3 ls s3://real || true", cwd=tmp_path, AWS_MAX_ATTEMPTS="1")
    assert "could not connect" in found["warnings"][0]
