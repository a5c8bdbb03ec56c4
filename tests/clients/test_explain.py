"""`plimsoll cost explain` on bills whose every amount is known: written here from the rules and prices of the providers, in
decimals, and on tables that others published."""
import csv
import gzip
import json
import random
import subprocess
import urllib.parse
from decimal import ROUND_HALF_UP, Decimal

import pyarrow
import pyarrow.orc
import pyarrow.parquet
import pytest

from support import PLIMSOLL, environment

GIB = 2**30
# Prices of us-east-1, from AWS's page of S3 prices; a price of storage has tiers in GiB-months.
STORAGE = [(51_200, "0.023"), (460_800, "0.022"), (None, "0.021")]
PRICES = {
    "TimedStorage-SIA-ByteHrs": "0.0125", "TimedStorage-SIA-SmObjects": "0.0125", "Requests-Tier1": "0.000005",
    "Requests-Tier2": "0.0000004", "Requests-SIA-Tier1": "0.00001", "Requests-SIA-Tier2": "0.000001",
    "Retrieval-SIA": "0.01", "TimedStorage-GIR-ByteHrs": "0.004",
}
# The table of NixOS/infra issue 1056: costs of 14 days by usage type, and the only day that is readable.
NIXOS = {
    "TimedStorage-INT-FA-ByteHrs": ("4226.8048462018", ""), "DataTransfer-Out-Bytes": ("2857.3985549263", "282.668033647"),
    "TimedStorage-ByteHrs": ("930.4473028613", "68.172998192"),
    "TimedStorage-SIA-ByteHrs": ("647.3122396221", "215.1720639255"), "Requests-Tier4": ("623.88603", "0.2553"),
    "Requests-Tier2": ("456.7779304", "49.4088764"), "StorageAnalytics-ObjCount": ("61.6184525257", "4.3932964774"),
    "Monitoring-Automation-INT": ("55.1711418548", ""), "Inventory-ObjectsListed": ("36.0297616875", "2.7668085725"),
    "EarlyDelete-SIA": ("32.6479389031", ""), "Requests-Tier1": ("23.072555", "1.4011"),
    "Retrieval-SIA": ("15.0415632741", "6.5549013326"), "Requests-INT-Tier2": ("3.6567556", ""),
    "Requests-SIA-Tier2": ("2.25709", "0.933031"),
}


def explain(*arguments, cwd, code=0):
    done = subprocess.run([PLIMSOLL, "cost", "explain", *map(str, arguments)], cwd=cwd, env=environment(),
                          capture_output=True, text=True)
    assert done.returncode == code, done.stderr + done.stdout
    return done


def found(*arguments, cwd):
    return json.loads(explain(*arguments, "--json", cwd=cwd).stdout)


def tiered(quantity, tiers):
    """Returns the cost of a quantity in tiers of widths and prices."""
    cost, left = Decimal(0), quantity
    for width, price in tiers:
        here = left if width is None else min(left, width)
        cost, left = cost + here * Decimal(price), left - here
    return cost


def lines(path, rows, fields=None):
    fields = fields or ["lineItem/UsageStartDate", "lineItem/LineItemType", "lineItem/ProductCode", "lineItem/UsageType",
                        "lineItem/Operation", "lineItem/UsageAmount", "lineItem/UnblendedCost", "pricing/unit",
                        "lineItem/ResourceId", "lineItem/CurrencyCode"]
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(fields)
        writer.writerows(rows)


def usage(kind, quantity, cost, unit, operation="", bucket="b", day="2026-10-01T00:00:00Z"):
    cost = Decimal(cost).quantize(Decimal("1e-10"), ROUND_HALF_UP)
    return [day, "Usage", "AmazonS3", kind, operation, str(quantity), f"{cost:f}", unit, bucket, "USD"]


def test_the_table_of_nixos_to_the_cent(tmp_path):
    names = list(NIXOS)
    total = sum(Decimal(cost) for cost, _ in NIXOS.values())
    rows = [["Usage type total", *(NIXOS[name][0] for name in names), total]]
    lines(tmp_path / "total.csv", rows, ["Usage type", *(f"{name}($)" for name in names), "Total costs($)"])
    bill = found("total.csv", cwd=tmp_path)
    assert Decimal(bill["total_usd"]) == Decimal(bill["object_storage_usd"]) == total
    billed = {line["usage"]: line["billed_usd"] for line in bill["lines"]}
    assert {name: Decimal(usd) for name, usd in billed.items()} == {name: Decimal(cost) for name, (cost, _) in NIXOS.items()}
    shown = explain("total.csv", cwd=tmp_path).stdout
    assert "The bill is $9,972.12, all for object storage" in shown
    for cost in ("$4,226.80", "$2,857.40", "$930.45", "$647.31", "$623.89", "$456.78", "$61.62", "$55.17", "$36.03"):
        assert cost in shown


def test_the_saving_of_nixos_that_cost_380_instead_of_215_dollars_a_day(tmp_path):
    """The day before the change: 545.7 TB in Standard-IA, $215.17. The same data in Intelligent-Tiering is billed as in
    Standard for 30 days."""
    names = [name for name in NIXOS if NIXOS[name][1]]
    rows = [["2026-05-13", *(NIXOS[name][1] for name in names), ""]]
    lines(tmp_path / "day.csv", rows, ["Usage type", *(f"{name}($)" for name in names), "Total costs($)"])
    bill = found("day.csv", cwd=tmp_path)
    gib = Decimal("215.1720639255") * 31 / Decimal("0.0125")
    [stored] = [line for line in bill["lines"] if line["usage"] == "TimedStorage-SIA-ByteHrs"]
    assert abs(Decimal(stored["implied"]) / GIB - gib) < Decimal("0.001")
    [change] = [change for change in bill["changes"]
                if (change["from"], change["to"]) == ("standard-ia", "intelligent-tiering")]
    first_day = Decimal(change["first_month_usd"]) / 31
    assert first_day.quantize(Decimal("0.01")) == Decimal("379.66")
    assert (Decimal(change["now_usd"]) / 31).quantize(Decimal("0.01")) == Decimal("215.17")
    assert abs(Decimal(change["first_month_usd"]) - tiered(gib, STORAGE)) < Decimal("0.01")
    assert abs(Decimal(change["later_usd"]) - gib * Decimal("0.004")) < Decimal("0.01")
    # With the inventory, the transitions and the monitoring count: 53,819,565 objects, as the pull request says.
    inventory = tmp_path / "inventory.csv"
    size = int(gib * GIB / 53_819_565)
    inventory.write_text("".join(f'"nix-cache","nar/{n}","{size}","2025-01-01T00:00:00.000Z","STANDARD_IA"\n'
                                 for n in range(53_819)))
    bill = found("day.csv", "--inventory", inventory, cwd=tmp_path)
    [change] = [change for change in bill["changes"]
                if (change["from"], change["to"]) == ("standard-ia", "intelligent-tiering")]
    assert change["once_usd"] == str(Decimal(53_819) / 1000 * Decimal("0.01"))
    shown = explain("day.csv", cwd=tmp_path).stdout
    assert "costs $379.66 a day instead of $215.17 for the first 30 days" in " ".join(shown.split())


@pytest.fixture
def bill(tmp_path):
    """A month of S3 in one region with known amounts: rows, and the amounts by usage type."""
    rng = random.Random(5)
    quantities = {
        "TimedStorage-ByteHrs": Decimal("612345.678901"), "TimedStorage-SIA-ByteHrs": Decimal("80123.5"),
        "TimedStorage-SIA-SmObjects": Decimal("17.25"), "Requests-Tier1": Decimal(12_345_678),
        "Requests-Tier2": Decimal(987_654_321), "Requests-SIA-Tier1": Decimal(1_000), "Requests-SIA-Tier2": Decimal(77),
        "Retrieval-SIA": Decimal("1234.5"), "TimedStorage-GIR-ByteHrs": Decimal("5000.000001"),
    }
    costs = {name: quantity * Decimal(PRICES[name]) for name, quantity in quantities.items() if name in PRICES}
    costs["TimedStorage-ByteHrs"] = tiered(quantities["TimedStorage-ByteHrs"], STORAGE)
    rows = []
    for name, quantity in quantities.items():
        unit = "Requests" if "Requests" in name else "GB" if name.startswith("Retrieval") else "GB-Mo"
        # The month is billed in daily lines of several buckets, whose sums are the month.
        shares = [rng.random() for _ in range(31)]
        left, cost_left = quantity, costs[name]
        for day, share in enumerate(shares, 1):
            places = Decimal(1) if unit == "Requests" else Decimal("1e-6")
            last = day == 31
            part = left if last else (quantity * Decimal(share / sum(shares))).quantize(places)
            cost = cost_left if last else (costs[name] * part / quantity).quantize(Decimal("1e-10"))
            left, cost_left = left - part, cost_left - cost
            rows.append(usage(name, part, cost, unit, operation=rng.choice(["A", "B"]),
                              bucket=rng.choice(["b", "c"]), day=f"2026-10-{day:02}T00:00:00Z"))
    rng.shuffle(rows)
    return rows, costs


def test_a_bill_at_list_prices_has_no_residual(bill, tmp_path):
    rows, costs = bill
    lines(tmp_path / "cur.csv", rows)
    explained = found("cur.csv", cwd=tmp_path)
    for line in explained["lines"]:
        assert abs(Decimal(line["listed_usd"]) - costs[line["usage"]]) < Decimal("1e-6"), line
    by_bucket = {resource["name"]: Decimal(resource["usd"]) for resource in explained["resources"]}
    assert by_bucket == {name: sum(Decimal(row[6]) for row in rows if row[8] == name) for name in ("b", "c")}
    residual = sum(Decimal(residual["usd"]) for residual in explained["residuals"])
    assert abs(residual) < Decimal("0.005") and [r["reason"] for r in explained["residuals"]] in ([], ["rounding"])
    assert Decimal(explained["listed_usd"]) + residual == Decimal(explained["total_usd"])


def test_what_list_prices_do_not_explain_has_a_name(bill, tmp_path):
    rows, costs = bill
    rows = rows + [
        ["2026-10-31T00:00:00Z", "EdpDiscount", "AmazonS3", "", "", "0", "-1000.5", "", "", "USD"],
        ["2026-10-31T00:00:00Z", "Credit", "AmazonS3", "", "", "0", "-7.25", "", "", "USD"],
        ["2026-10-31T00:00:00Z", "Tax", "AmazonS3", "", "", "0", "99", "", "", "USD"],
        usage("Futures-Unknown", 3, "12.5", "Count"),
        usage("EUC1-Requests-Tier1", 1000, "0.1", "Requests"),
        ["2026-10-31T00:00:00Z", "Usage", "AmazonEC2", "BoxUsage:m5.large", "RunInstances", "1", "44", "Hrs", "i-1", "USD"],
    ]
    lines(tmp_path / "cur.csv", rows)
    explained = found("cur.csv", cwd=tmp_path)
    named = {(r["name"], r["reason"]): Decimal(r["usd"]) for r in explained["residuals"] if r["reason"] != "rounding"}
    assert named == {
        ("EdpDiscount", "discount"): Decimal("-1000.5"), ("Credit", "credit or refund"): Decimal("-7.25"),
        ("Tax", "tax"): Decimal(99), ("Futures-Unknown", "no price in the books"): Decimal("12.5"),
        ("EUC1-Requests-Tier1 in eu-central-1", "another price than in the books"): Decimal("0.0946"),
        ("AmazonEC2", "another service"): Decimal(44),
    }
    total = Decimal(explained["listed_usd"]) + sum(Decimal(r["usd"]) for r in explained["residuals"])
    assert total == Decimal(explained["total_usd"])


def test_every_form_of_a_bill_is_the_same_bill(bill, tmp_path):
    rows, _ = bill
    lines(tmp_path / "legacy.csv", rows)
    names = ["line_item_usage_start_date", "line_item_line_item_type", "line_item_product_code", "line_item_usage_type",
             "line_item_operation", "line_item_usage_amount", "line_item_unblended_cost", "pricing_unit",
             "line_item_resource_id", "line_item_currency_code"]
    lines(tmp_path / "cur2.csv", rows, names)
    (tmp_path / "cur2.csv.gz").write_bytes(gzip.compress((tmp_path / "cur2.csv").read_bytes()))
    columns = {name: [row[at] for row in rows] for at, name in enumerate(names)}
    for name in ("line_item_usage_amount", "line_item_unblended_cost"):
        columns[name] = [float(cell) for cell in columns[name]]
    pyarrow.parquet.write_table(pyarrow.table({**columns, "tags": [{"a": 1}] * len(rows)}), tmp_path / "cur2.parquet")
    decimals = {**columns, "line_item_unblended_cost": [Decimal(row[6]) for row in rows]}
    pyarrow.parquet.write_table(pyarrow.table(decimals), tmp_path / "decimal.parquet")
    focus = [["AWS", "Usage", row[0], "Amazon Simple Storage Service", row[3], row[4], row[5], row[7], row[6], "USD",
              "us-east-1", row[8]] for row in rows]
    lines(tmp_path / "focus.csv", focus, ["ProviderName", "ChargeCategory", "ChargePeriodStart", "ServiceName", "x_UsageType",
                                          "x_Operation", "ConsumedQuantity", "ConsumedUnit", "BilledCost", "BillingCurrency",
                                          "RegionId", "ResourceId"])
    objects = [dict(zip(names, row)) for row in rows]
    (tmp_path / "lines.json").write_text("".join(json.dumps(row) + "\n" for row in objects))
    (tmp_path / "document.json").write_text(json.dumps({"result": objects}, indent=1))

    def essence(name):
        bill = found(name, cwd=tmp_path)
        return [(line["usage"], line["listed_usd"], round(Decimal(line["billed_usd"]), 8)) for line in bill["lines"]]

    first = essence("legacy.csv")
    assert len(first) == 9
    for name in ("cur2.csv", "cur2.csv.gz", "cur2.parquet", "decimal.parquet", "focus.csv", "lines.json", "document.json"):
        assert essence(name) == first, name


def test_the_bill_of_a_metered_run_has_no_residual(tmp_path):
    (tmp_path / "tree").mkdir()
    for n in range(50):
        (tmp_path / "tree" / str(n)).write_bytes(b"x" * n * 1000)
    done = subprocess.run(
        [PLIMSOLL, "meter", "--json", "--", "sh", "-c", "aws s3 sync --only-show-errors tree s3://meter/a &&"
         " aws s3 sync --only-show-errors s3://meter/a back && aws s3 rm --only-show-errors --recursive s3://meter/a"],
        cwd=tmp_path, env=environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    tier1 = {"PutObject", "ListObjectsV2", "ListObjects", "CreateMultipartUpload", "UploadPart", "CompleteMultipartUpload"}
    rows = []
    for name, counted in json.loads(done.stdout)["operations"].items():
        kind = "Requests-Tier1" if name in tier1 else "Requests-Tier2"
        if not name.startswith("Delete"):
            rows.append(usage(kind, counted["requests"], counted["requests"] * Decimal(PRICES[kind]), "Requests", name))
    assert len(rows) >= 3
    lines(tmp_path / "cur.csv", rows)
    explained = found("cur.csv", cwd=tmp_path)
    assert explained["residuals"] == [] and explained["listed_usd"] == explained["total_usd"]
    assert Decimal(explained["total_usd"]) == Decimal(json.loads(done.stdout)["one_run_usd"]["aws-s3"])


def test_an_inventory_says_where_the_cost_is(bill, tmp_path):
    rows, costs = bill
    lines(tmp_path / "cur.csv", rows)
    rng, expected, texts = random.Random(1), {}, []
    keys = {"bucket": [], "key": [], "size": [], "storage_class": []}
    for n in range(20_000):
        prefix = rng.choice(["logs/", "images/ä b/", ""])
        size, cls = rng.choice([100, 200_000, 5_000_000]), rng.choice(["STANDARD", "STANDARD_IA"])
        key = f"{prefix}{n}"
        name = ("b/" + prefix.split("/")[0] + "/" if prefix else "b/", cls)
        sums = expected.setdefault(name, [0, 0, 0])
        sums[0] += 1
        sums[1] += size
        sums[2] += size < 128 * 1024
        texts.append(f'"b","{urllib.parse.quote_plus(key, safe="/")}","{size}","2025-01-01T00:00:00.000Z","{cls}"\n')
        for column, value in zip(keys.values(), ("b", key, size, cls)):
            column.append(value)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "1.csv.gz").write_bytes(gzip.compress("".join(texts[:9_000]).encode()))
    (tmp_path / "data" / "2.csv").write_text("".join(texts[9_000:]))
    (tmp_path / "data" / "manifest.json").write_text(json.dumps({
        "fileFormat": "CSV", "fileSchema": "Bucket, Key, Size, LastModifiedDate, StorageClass",
        "files": [{"key": f"inventories/b/data/{name}"} for name in ("1.csv.gz", "2.csv")]}))
    # S3 stores the files of all days in one place; those of another manifest do not count.
    (tmp_path / "data" / "yesterday.csv").write_text("".join(texts))
    pyarrow.parquet.write_table(pyarrow.table(keys), tmp_path / "inventory.parquet")
    table = pyarrow.table(keys)
    places = ["data", "inventory.parquet"]
    # Writers differ in stripes, dictionaries and compression.
    for number, options in enumerate([{"compression": "zlib"}, {"compression": "uncompressed"}, {"compression": "zstd"},
                                      {"compression": "zlib", "stripe_size": 100_000, "compression_block_size": 65_536},
                                      {"compression": "zlib", "dictionary_key_size_threshold": 1.0},
                                      {"compression": "zlib", "file_version": "0.11"}]):
        pyarrow.orc.write_table(table, tmp_path / f"{number}.orc", **options)
        places.append(f"{number}.orc")
    for place in places:
        report = found("cur.csv", "--inventory", place, cwd=tmp_path)
        prefixes = {(row["prefix"], row["class"]): [row["objects"], row["bytes"], row["small_objects"]]
                    for row in report["prefixes"]}
        assert prefixes == expected
        assert "requests" not in report
        for cls, names in (("STANDARD", ["TimedStorage-ByteHrs"]),
                           ("STANDARD_IA", ["TimedStorage-SIA-ByteHrs", "TimedStorage-SIA-SmObjects"])):
            stored = sum(Decimal(row["storage_usd"]) for row in report["prefixes"] if row["class"] == cls)
            # The inventory is of a small part of what the bill stores.
            held = sum(row["bytes"] for row in report["prefixes"] if row["class"] == cls)
            billed = {"STANDARD": Decimal("612345.678901"), "STANDARD_IA": Decimal("80123.5")}[cls] * GIB
            assert abs(stored - sum(costs[name] for name in names) * held / billed) < Decimal("0.0001")


def test_requests_of_a_log_are_priced_by_prefix(bill, tmp_path):
    lines(tmp_path / "cur.csv", bill[0])
    log = "time,operation,key,size,bytes,status,bucket\n" + "".join(
        f"1700000{n:03},{name},{prefix}/{n},1000,1000,200,b\n"
        for n, (name, prefix) in enumerate([("GET", "a")] * 300 + [("PUT", "b")] * 50))
    (tmp_path / "access.log").write_text(log)
    report = found("cur.csv", "--log", "access.log", cwd=tmp_path)["requests"]
    assert (report["offer"], report["region"]) == ("aws-s3", "us-east-1")
    rows = [(row["prefix"], row["requests"], Decimal(row["usd"][0])) for row in report["rows"]]
    assert rows == [("b/b/", 50, 50 * Decimal("0.000005")), ("b/a/", 300, 300 * Decimal("0.0000004"))]
    lines(tmp_path / "day.csv", [["2026-05-13", "1"]], ["Usage type", "Requests-Tier1($)"])
    error = explain("day.csv", "--log", "access.log", cwd=tmp_path, code=2).stderr
    assert "--log: the bill has no storage with a quantity" in error


def test_regression_a_class_with_dearer_reads_saved_the_reads(tmp_path):
    """100 TiB in Standard-IA that are read once a month: in Glacier Instant Retrieval, the reads cost three times as much."""
    lines(tmp_path / "cur.csv", [usage("TimedStorage-SIA-ByteHrs", 102_400, 1280, "GB-Mo"),
                                 usage("Retrieval-SIA", 102_400, 1024, "GB")])
    report = found("cur.csv", cwd=tmp_path)
    of = {change["to"]: change for change in report["changes"]}
    instant = of["glacier-instant"]
    saved = Decimal(instant["now_usd"]) + Decimal(instant["retrievals_usd"]) - Decimal(instant["later_usd"])
    assert saved == 1280 + 1024 - (Decimal("409.6") + 102_400 * Decimal("0.03")) == Decimal("-1177.6")
    assert instant["break_even_reads"] == pytest.approx((0.0125 - 0.004) / (0.03 - 0.01))
    # What is read in Intelligent-Tiering is billed for frequent access again.
    tiering = of["intelligent-tiering"]
    first = tiered(Decimal(102_400), STORAGE)
    assert tiering["break_even_reads"] == pytest.approx(float((1280 - Decimal("409.6")) / (first - Decimal("409.6"))))


def test_regression_a_part_of_a_month_and_other_services_are_not_a_month_of_s3(tmp_path):
    lines(tmp_path / "part.csv", [usage("TimedStorage-ByteHrs", "1612.9", "37.1", "GB-Mo", day=f"2026-10-{n:02}T00:00:00Z")
                                  for n in range(1, 4)])
    report = found("part.csv", cwd=tmp_path)
    assert report["changes"] == [] and report["elsewhere"] == []
    assert "covers a part of a month" in explain("part.csv", cwd=tmp_path).stdout
    lines(tmp_path / "all.csv", [["2026-10-01", 700, 200, 50, 50, 1000]],
          ["Usage type", "BoxUsage:m5.large($)", "USE1-EBS:VolumeUsage.gp3($)", "TimedStorage-ByteHrs($)", "NoUsageType($)",
           "Total costs($)"])
    assert "The bill is $1,000.00, with $50.00 for object storage" in explain("all.csv", cwd=tmp_path).stdout
    lines(tmp_path / "fee.csv", [usage("Requests-Tier1", 1000, "0.005", "Requests"),
                                 ["", "Fee", "AmazonS3", "", "", "1", "77", "", "", "USD"]])
    assert found("fee.csv", cwd=tmp_path)["total_usd"] == "77.005"
    lines(tmp_path / "euro.csv", [["Cloud Storage", "Nearline Data Retrieval", "10", "gibibyte", "0.1"]],
          ["Service description", "SKU description", "Usage amount", "Usage unit", "Cost (\u20ac)"])
    assert "the bill is in EUR" in explain("euro.csv", cwd=tmp_path, code=2).stderr
    for day in ("a", "b"):
        (tmp_path / "inventories" / day).mkdir(parents=True)
        (tmp_path / "inventories" / day / "manifest.json").write_text('{"fileFormat": "ORC", "files": []}')
    error = explain("fee.csv", "--inventory", "inventories", cwd=tmp_path, code=2).stderr
    assert "more than one manifest.json" in error


def test_rules_that_cost_more_than_they_save(tmp_path):
    """A billion small objects: Intelligent-Tiering moves nothing below 128 KiB, and Standard-IA bills 128 KiB each."""
    lines(tmp_path / "cur.csv", [usage("TimedStorage-ByteHrs", 100_000, tiered(Decimal(100_000), STORAGE), "GB-Mo")])
    inventory = "".join(f'"b","k{n}","{size}","2025-01-01T00:00:00.000Z","STANDARD"\n'
                        for n, size in enumerate([10_000] * 1000 + [1_000_000] * 500))
    (tmp_path / "inventory.csv").write_text(inventory)
    report = found("cur.csv", "--inventory", "inventory.csv", cwd=tmp_path)
    of = {(change["to"], change["which"]): change for change in report["changes"]}
    small = of["standard-ia", "below 128 KiB"]
    stored = Decimal(1000 * 10_000) / GIB
    assert Decimal(small["now_usd"]) == pytest.approx(stored * Decimal("0.023"), abs=Decimal(1) / 10**9)
    assert Decimal(small["later_usd"]) == pytest.approx(Decimal(1000 * 131072) / GIB * Decimal("0.0125"), abs=Decimal(1) / 10**9)
    assert small["payback_months"] is None and small["once_usd"] == "0.01"
    tiering = of["intelligent-tiering", "below 128 KiB"]
    assert tiering["later_usd"] == tiering["now_usd"] and tiering["payback_months"] is None
    large = of["glacier-instant", "from 128 KiB"]
    saved = Decimal(500 * 1_000_000) / GIB * (Decimal("0.023") - Decimal("0.004"))
    assert large["break_even_reads"] == pytest.approx(float(saved / (Decimal(500 * 1_000_000) / GIB * Decimal("0.03"))), rel=1e-6)
    assert large["payback_months"] == pytest.approx(float(Decimal("0.01") / saved), rel=1e-6)


def test_regression_a_month_with_one_day_halved_a_month(tmp_path):
    """The month that is compared is the last with most of its days: not the average with the one that has begun."""
    fields = ["lineItem/UsageStartDate", "lineItem/UsageEndDate", "lineItem/LineItemType", "lineItem/ProductCode",
              "lineItem/UsageType", "lineItem/UsageAmount", "lineItem/UnblendedCost", "pricing/unit"]

    def stored(start, end, gib_months):
        return [start, end, "Usage", "AmazonS3", "TimedStorage-ByteHrs", gib_months,
                Decimal(gib_months) * Decimal("0.023"), "GB-Mo"]
    october = stored("2026-10-01T00:00:00Z", "2026-11-01T00:00:00Z", "31000")
    november = stored("2026-11-01T00:00:00Z", "2026-11-02T00:00:00Z", "1000")
    lines(tmp_path / "two.csv", [october, november], fields)
    [change] = [change for change in found("two.csv", cwd=tmp_path)["changes"] if change["to"] == "standard-ia"]
    assert change["bytes"] == 31_000 * GIB
    # A bill of the first day is not one of a month.
    lines(tmp_path / "first.csv", [november], fields)
    report = found("first.csv", cwd=tmp_path)
    assert (report["changes"], report["elsewhere"]) == ([], [])
    # One line of a day does not make a monthly bill one of a part of a month, and a class that began later counts fully.
    later = ["2026-10-01T00:00:00Z", "2026-11-01T00:00:00Z", "Usage", "AmazonS3", "TimedStorage-SIA-ByteHrs", "500", "6.25",
             "GB-Mo"]
    september = stored("2026-09-01T00:00:00Z", "2026-10-01T00:00:00Z", "31000")
    stray = ["2026-10-17T05:00:00Z", "2026-10-17T06:00:00Z", "Usage", "AmazonS3", "Requests-Tier1", "1000", "0.005", "Requests"]
    lines(tmp_path / "stray.csv", [september, october, later, stray], fields)
    of = {(c["from"], c["to"]): c["bytes"] for c in found("stray.csv", cwd=tmp_path)["changes"]}
    assert of["standard-ia", "glacier-instant"] == 500 * GIB and of["standard", "glacier-instant"] == 31_000 * GIB


def test_regression_each_line_had_an_allowance_and_tiers_of_its_own(tmp_path):
    # R2 grants a million requests of class A in a month, whatever their kinds.
    groups = [{"dimensions": {"actionType": name, "date": "2026-09-01"}, "sum": {"requests": 900_000}}
              for name in ("PutObject", "ListObjects", "CopyObject")]
    (tmp_path / "r2.json").write_text(json.dumps({"data": {"viewer": {"accounts": [{"r2OperationsAdaptiveGroups": groups}]}}}))
    assert Decimal(found("r2.json", cwd=tmp_path)["listed_usd"]) == Decimal("1.7") * Decimal("4.5")
    # AWS grants 100 GB of egress in all regions together; tiers are those of a region.
    lines(tmp_path / "cur.csv", [usage("DataTransfer-Out-Bytes", 80, 0, "GB"), usage("USW2-DataTransfer-Out-Bytes", 80, 0, "GB"),
                                 usage("TimedStorage-INT-FA-ByteHrs", 40_000, 0, "GB-Mo", "A"),
                                 usage("TimedStorage-INT-FA-ByteHrs", 40_000, 0, "GB-Mo", "B")])
    bill = found("cur.csv", cwd=tmp_path)
    listed = {}
    for line in bill["lines"]:
        listed[line["topic"]] = listed.get(line["topic"], 0) + Decimal(line["listed_usd"])
    assert listed == {"egress": 60 * Decimal("0.09"), "storage": tiered(Decimal(80_000), STORAGE)}
    assert len(bill["residuals"]) == 2


def test_regression_an_inventory_whose_first_class_is_empty_was_all_standard(tmp_path):
    lines(tmp_path / "cur.csv", [usage("TimedStorage-SIA-ByteHrs", 100, "1.25", "GB-Mo"),
                                 usage("USW2-TimedStorage-SIA-ByteHrs", 100, "1.25", "GB-Mo")])
    (tmp_path / "inventory.csv").write_text('"b","a","1000","2025-01-01T00:00:00.000Z",""\n'
                                            '"b","c","2000","2025-01-01T00:00:00.000Z","STANDARD_IA"\n')
    report = found("cur.csv", "--inventory", "inventory.csv", cwd=tmp_path)
    assert {(row["class"], row["bytes"]) for row in report["prefixes"]} == {("STANDARD", 1000), ("STANDARD_IA", 2000)}
    shown = " ".join(explain("cur.csv", "--inventory", "inventory.csv", cwd=tmp_path).stdout.split())
    assert "the number and the sizes of the objects in Standard-IA are unknown, because the inventory has none, or" in shown
    assert "without an inventory" not in shown
    assert "not used: --prefix-depth" in explain("cur.csv", "--prefix-depth", "2", cwd=tmp_path).stdout
