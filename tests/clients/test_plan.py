"""`plimsoll-gateway plan`: while the gateway runs, and compared with what the moves then cost."""
import csv
import datetime
import gzip
import json
import os
import re
import subprocess
import time
import urllib.parse
import urllib.request
from decimal import Decimal

import pyarrow
import pyarrow.orc
import pyarrow.parquet
import pytest

from support import GATEWAY, PLIMSOLL, Server
from test_tiers import BLOB, PACK, client, files, run, settings, wait, wait_for_visits

pytestmark = pytest.mark.skipif(not os.path.exists(GATEWAY), reason="plimsoll-gateway is not built")

RULES = PACK + """
[[move]]
from = "hot"
to = "cold"
when = "size >= 300 KB"
keep_source = "0s"
"""


def priced(directory, rules=RULES, hot="aws-s3", cold="cloudflare-r2", name="gateway.toml"):
    """Writes settings with prices. Returns the name of the file."""
    text = open(settings(directory, moves=rules)).read()
    path = str(directory / name)
    for tier, offer in (("hot", hot), ("cold", cold)):
        if offer:
            text = text.replace(f'/{tier}"\n', f'/{tier}"\noffer = "{offer}"\n')
    with open(path, "w") as f:
        f.write(text)
    return path


def plan(path, *more):
    return subprocess.run([GATEWAY, "plan", path, *more], capture_output=True, text=True)


def counted(url):
    text = urllib.request.urlopen(url).read().decode()
    found = {"hot": {}, "cold": {}}
    for labels, value in re.findall(r"^plimsoll_gateway_tier_requests_total\{(.*)\} (\d+)", text, re.M):
        label = dict(re.findall(r'(\w+)="([^"]*)"', labels))
        found[label["tier"]][label["call"]] = int(value)
    return found


def test_a_plan_has_the_requests_that_the_gateway_then_sends(tmp_path):
    path = priced(tmp_path, name="rules.toml")
    # The gateway runs without these rules, so that nothing moves yet.
    with Server(priced(tmp_path, rules=""), command=(GATEWAY, "run")) as server:
        s3 = client(server)
        s3.create_bucket(Bucket="tiers")
        for number in range(300):
            s3.put_object(Bucket="tiers", Key=f"small/{number:03}", Body=b"x" * (1000 + number * 30))
        for number in range(5):
            s3.put_object(Bucket="tiers", Key=f"large/{number}", Body=b"y" * (BLOB + number * 1_000_000))
        before = files(tmp_path, "hot")
        done = plan(path, "--json")
        assert done.returncode == 0, done.stderr
        planned = json.loads(done.stdout)
        assert files(tmp_path, "hot") == before and not files(tmp_path, "cold")
        assert not list(tmp_path.glob("catalog/snapshot-*"))
    assert (planned["objects"], planned["moves"], planned["packed"], planned["pack_files"]) == (305, 5, 300, 2)
    assert planned["headline"].startswith("The rules would move 5 blobs and pack 300 bodies into 2 pack files with ")
    with Server(path, "--move-every", "50ms", "--metrics-listen", "127.0.0.1:0", command=(GATEWAY, "run")) as server:
        wait(lambda: len(files(tmp_path, "cold")) == 5 and len(files(tmp_path, "hot")) == 2, "everything is moved")
        expected = {tier["tier"]: tier["requests"] for tier in planned["tiers"]}
        wait(lambda: counted(server.metrics) == expected, "the requests are those of the plan")
    after = {tier["tier"]: tier["after"] for tier in planned["tiers"]}
    for tier in ("hot", "cold"):
        sizes = [os.path.getsize(f) for f in files(tmp_path, tier)]
        assert after[tier] == {"blobs": len(sizes), "bytes": sum(sizes)}


def test_a_plan_shows_the_effect_of_other_settings_as_a_page(tmp_path):
    path = priced(tmp_path, name="rules.toml")
    # The gateway runs without these rules, so that nothing moves yet.
    with Server(priced(tmp_path, rules=""), command=(GATEWAY, "run")) as server:
        s3 = client(server)
        s3.create_bucket(Bucket="tiers")
        for number in range(300):
            s3.put_object(Bucket="tiers", Key=f"small/{number:03}", Body=b"x" * 10_000)
    done = plan(path, "--what-if", "pack.file_size=16MiB", "--format", "html", "--output", str(tmp_path / "plan.html"))
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "plan.html").read_text()
    assert "pack 300 bodies into 1 pack files" in page and "pack.file_size=16MiB" in page and "as in the file" in page
    shown = plan(path).stdout
    assert "into 3 pack files" in shown and "as separate blobs" in shown


def test_a_plan_needs_prices(tmp_path):
    done = plan(priced(tmp_path, hot=None))
    assert done.returncode == 2 and "no catalog" in done.stderr
    with Server(priced(tmp_path, hot=None), command=(GATEWAY, "run")):
        pass
    done = plan(priced(tmp_path, hot=None))
    assert done.returncode == 0 and "tier hot has no price" in done.stdout, "a directory needs no offer"
    path = priced(tmp_path, hot=None, cold=None)
    text = open(path).read()
    for tier in ("hot", "cold"):
        text = text.replace(f"file://{tmp_path}/{tier}", f"s3://{tier}?endpoint=http://127.0.0.1:9")
    with open(path, "w") as f:
        f.write(text)
    done = plan(path)
    for tier in ("hot", "cold"):
        assert done.returncode == 2 and f"tier {tier}: there are no prices for this store; set offer" in done.stderr
    done = plan(priced(tmp_path, hot="aws-s4"))
    assert done.returncode == 2 and "aws-s4" in done.stderr
    done = plan(priced(tmp_path, hot="none"))
    assert done.returncode == 0 and "tier hot has no price" in done.stdout
    done = plan(priced(tmp_path), "--what-if", "pack.file_size=1GB GB")
    assert done.returncode == 2 and "pack.file_size" in done.stderr
    done = plan(priced(tmp_path), "--what-if", "pack.colour=red")
    assert done.returncode == 2 and "unknown field `colour`" in done.stderr


def test_moves_that_do_not_pay_are_not_made(tmp_path):
    # S3 Express to S3 saves 0.087 per GiB and month; the requests of a move cost 0.000006.
    rules = "[[move]]" + RULES.split("[[move]]")[1].replace("300 KB", "1 B") + 'only_if_cheaper = true\npayback_period = "30d"\n'
    path = priced(tmp_path, rules, hot="aws-s3-express", cold="aws-s3")
    with run(path) as server:
        s3 = client(server)
        s3.create_bucket(Bucket="tiers")
        s3.put_object(Bucket="tiers", Key="small", Body=b"x" * 20_000)
        s3.put_object(Bucket="tiers", Key="large", Body=b"x" * BLOB)
        wait(lambda: len(files(tmp_path, "cold")) == len(files(tmp_path, "hot")) == 1, "the large blob is moved")
        wait_for_visits(server)
        assert len(files(tmp_path, "hot")) == 1 and os.path.getsize(files(tmp_path, "cold")[0]) >= BLOB
    failed = subprocess.run([GATEWAY, "run", priced(tmp_path, RULES + "only_if_cheaper = true\n", hot=None)],
                            capture_output=True, text=True,
                            env=dict(os.environ, PLIMSOLL_ACCESS_KEY="a", PLIMSOLL_SECRET_KEY="b"))
    assert failed.returncode == 2 and "move 1: only_if_cheaper needs tiers with prices" in failed.stderr


def test_moves_wait_for_the_budget_of_the_next_day(tmp_path):
    rules = "[budget]\nbytes_per_day = \"700 KB\"\n[[move]]" + RULES.split("[[move]]")[1]
    path = priced(tmp_path, rules)
    with Server(path, "--move-every", "50ms", command=(GATEWAY, "run")) as server:
        s3 = client(server)
        s3.create_bucket(Bucket="tiers")
        for number in range(4):
            s3.put_object(Bucket="tiers", Key=str(number), Body=b"x" * BLOB)
        wait(lambda: len(files(tmp_path, "cold")) == len(files(tmp_path, "hot")) == 2, "two blobs are moved")
    # A restart on the same day does not begin a new budget.
    with run(path) as server:
        wait_for_visits(server)
        assert len(files(tmp_path, "cold")) == 2 and len(files(tmp_path, "hot")) == 2
    for text, problem in (("dollars_per_day = \"ten\"", "budget.dollars_per_day: 'ten'"), ("bytes = 1", "unknown field")):
        failed = plan(priced(tmp_path, rules.replace('bytes_per_day = "700 KB"', text)))
        assert failed.returncode == 2 and problem in failed.stderr


def written_inventories(directory, objects):
    """Writes objects and a delete marker as S3 does, in each format. Returns a directory, a manifest and two files."""
    when = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
    columns = {"bucket": [], "key": [], "version_id": [], "is_delete_marker": [], "size": [], "last_modified_date": []}
    for key, size in [*objects, ("gone", None)]:
        for name, value in zip(columns, ("listed", key, "v", size is None, size, when)):
            columns[name].append(value)
    (directory / "data").mkdir(parents=True)
    table = pyarrow.table(columns).cast(pyarrow.schema([
        ("bucket", "string"), ("key", "string"), ("version_id", "string"), ("is_delete_marker", "bool"), ("size", "int64"),
        ("last_modified_date", pyarrow.timestamp("ms", "UTC"))]))
    pyarrow.orc.write_table(table, directory / "data" / "one.orc", compression="zlib")
    pyarrow.parquet.write_table(table, directory / "data" / "one.parquet")
    rows = [(bucket, urllib.parse.quote_plus(key), version, str(marker).lower(), "" if size is None else str(size),
             f"{at:%Y-%m-%dT%H:%M:%S}.000Z") for bucket, key, version, marker, size, at in zip(*columns.values())]
    with gzip.open(directory / "data" / "one.csv.gz", "wt") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL).writerows(rows)
    for day, name in ((1, "one.orc"), (2, "one.csv.gz")):
        (directory / f"2026-01-0{day}").mkdir()
        schema = "Bucket, Key, VersionId, IsDeleteMarker, Size, LastModifiedDate"
        (directory / f"2026-01-0{day}" / "manifest.json").write_text(json.dumps(
            {"fileFormat": name.split(".")[1].upper(), "fileSchema": schema, "files": [{"key": f"x/data/{name}"}]}))
    return (directory / "2026-01-01", directory / "2026-01-02" / "manifest.json", directory / "data" / "one.parquet",
            directory / "data" / "one.csv.gz")


def test_a_listing_has_the_plan_of_the_adopted_objects(tmp_path):
    path = priced(tmp_path, RULES)
    for number in range(40):
        for key, size in ((f"photos/{number}.jpg", BLOB), (f"small/{number}", 2000 + number)):
            file = tmp_path / "hot" / key
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(b"x" * size)
    old = time.time() - 40 * 86400
    for name in files(tmp_path, "hot"):
        os.utime(name, (old, old))
    listed = json.loads(plan(path, "--listing", "tier:hot", "--json").stdout)
    lines = [f"2026-01-02 03:04:05 {os.path.getsize(name):>10} {os.path.relpath(name, tmp_path / 'hot')}"
             for name in files(tmp_path, "hot")]
    (tmp_path / "ls.txt").write_text("\n".join(lines))
    text = json.loads(plan(path, "--listing", str(tmp_path / "ls.txt"), "--json").stdout)
    inventories = written_inventories(tmp_path / "inventory", [(os.path.relpath(name, tmp_path / "hot"), os.path.getsize(name))
                                                             for name in files(tmp_path, "hot")])
    found = [plan(path, "--listing", str(inventory), "--json") for inventory in inventories]
    assert all("1 delete markers or rows without a size are left out" in one.stderr for one in found), found
    assert not (tmp_path / "catalog").exists(), "a plan of a listing needs no catalog"
    subprocess.run([GATEWAY, "adopt", path, "--tier", "hot", "--bucket", "listed", "--owner", "o"], check=True)
    adopted = json.loads(plan(path, "--json").stdout)
    assert (adopted["objects"], adopted["moves"], adopted["packed"]) == (80, 40, 40)
    names = ("objects", "moves", "packed", "pack_files", "bytes", "now_usd", "month_before_usd", "month_after_usd")
    for other in (listed, text, *(json.loads(one.stdout) for one in found)):
        assert {name: other[name] for name in names} == {name: adopted[name] for name in names}
        assert [tier["requests"] for tier in other["tiers"]] == [tier["requests"] for tier in adopted["tiers"]]
    for options, problem in ((("--listing", "/missing"), "No such file"), (("--listing", "tier:warm"), "there is no tier warm"),
                             (("--listing", path), "this is no inventory: expected that of S3")):
        result = plan(path, *options)
        assert result.returncode == 2 and problem in result.stderr, result.stderr


def test_a_plan_costs_what_tiering_estimates_for_a_month(tmp_path):
    """The scenario of a hybrid of two stores: objects of 4 MB move after seven days, and 80% of the reads are for younger ones.
    R2 bills whole millions of requests, so the numbers are millions."""
    path = tmp_path / "gateway.toml"
    path.write_text(f"""
[catalog]
url = "dir:{tmp_path}/catalog"
[tier.hot]
url = "s3://fast--use1-az4--x-s3"
offer = "aws-s3-express@us-east-1"
[tier.cold]
url = "s3://archive?endpoint=http://127.0.0.1:1"
offer = "cloudflare-r2"
[write]
tier = "hot"
[[move]]
from = "hot"
to = "cold"
when = "age >= 7d"
""")
    count, size = 1_000_000, 4_000_000
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 7.5 * 86400))
    with open(tmp_path / "listing.csv", "w") as file:
        file.write("Key,Size,LastModified\n")
        file.writelines(f"segments/{number:06},{size},{at}\n" for number in range(count))
    listed = plan(str(path), "--listing", str(tmp_path / "listing.csv"), "--json")
    assert listed.returncode == 0, listed.stderr
    planned = json.loads(listed.stdout)
    assert (planned["objects"], planned["moves"]) == (count, count)
    estimated = subprocess.run(
        [PLIMSOLL, "cost", "tiering", "--hot", "aws-s3-express@us-east-1", "--cold", "cloudflare-r2", "--hot-days", "7d",
         "--hot-reads", "80%", "--put", "1M", "--get", "5M", "--egress", "0 B", "--object-size", "4MB", "--keep", "30d",
         "--verify-moves", "--without-allowances", "--json"], capture_output=True, text=True)
    assert estimated.returncode == 0, estimated.stderr
    asked = json.loads(estimated.stdout)["asked"]
    assert planned["now_usd"] == asked["migration_usd"], (planned["now_usd"], asked)


def test_an_executed_move_costs_what_migrate_estimates(tmp_path):
    """The requests that the gateway sent and the bytes that it moved, at prices written here, are the estimate to the cent and
    to a billionth of a dollar. The gateway is in the region of S3: the data leaves S3, and what is read back leaves Google."""
    rules = RULES.split("[[move]]")[1].replace("300 KB", "1 B")
    names = dict(hot="aws-s3@us-east-1", cold="google-cloud-storage@us-central1")
    path = priced(tmp_path, "[[move]]" + rules, name="rules.toml", **names)
    count = 40
    with Server(priced(tmp_path, "", **names), command=(GATEWAY, "run")) as server:
        s3 = client(server)
        s3.create_bucket(Bucket="tiers")
        for number in range(count):
            s3.put_object(Bucket="tiers", Key=f"{number:02}", Body=bytes([number]) * BLOB)
    prices = {("hot", "GetObject"): "0.0000004", ("hot", "HeadObject"): "0.0000004", ("hot", "DeleteObject"): "0",
              ("cold", "PutObject"): "0.000005", ("cold", "GetObject"): "0.0000004", ("cold", "HeadObject"): "0.0000004"}
    with Server(path, "--move-every", "50ms", "--metrics-listen", "127.0.0.1:0", command=(GATEWAY, "run")) as server:
        wait(lambda: len(files(tmp_path, "cold")) == count and not files(tmp_path, "hot"), "everything is moved")
        wait(lambda: counted(server.metrics)["hot"].get("DeleteObject") == count, "the sources are deleted")
        sent = counted(server.metrics)
    moved = sum(os.path.getsize(file) for file in files(tmp_path, "cold"))
    executed = sum(Decimal(prices[tier, call]) * number for tier, calls in sent.items() for call, number in calls.items())
    executed += Decimal(moved) / 2**30 * (Decimal("0.09") + Decimal("0.12"))
    estimated = subprocess.run(
        [PLIMSOLL, "cost", "migrate", "--from", names["hot"], "--to", names["cold"], "--storage", f"{moved}B", "--object-size",
         f"{moved // count}B", "--verify-moves", "--without-allowances", "--json"], capture_output=True, text=True)
    assert estimated.returncode == 0, estimated.stderr
    assert abs(Decimal(json.loads(estimated.stdout)["once_usd"]) - executed) < Decimal("1e-9"), (sent, estimated.stdout)
