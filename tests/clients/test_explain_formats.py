"""`plimsoll cost explain`: formats of bills of other providers, and files that are no bill."""
import json
import random
import subprocess
from decimal import Decimal

import pyarrow
import pyarrow.orc
import pytest

from support import PLIMSOLL, environment
from test_explain import GIB, explain, found, lines, usage


def test_focus_without_usage_types_is_read_by_its_descriptions(tmp_path):
    """Rows as in the sample data of the specification."""
    names = ["ProviderName", "ChargeCategory", "ChargePeriodStart", "ServiceName", "ChargeDescription", "ConsumedQuantity",
             "ConsumedUnit", "BilledCost", "BillingCurrency", "RegionId"]
    of = lambda description, quantity, unit, cost: [
        "AWS", "Usage", "2026-10-01 00:00:00", "Amazon Simple Storage Service", description, quantity, unit, cost, "USD",
        "us-west-2"]
    lines(tmp_path / "focus.csv", [
        of("$0.023 per GB - first 50 TB / month of storage used", "100", "GB-Months", "2.3"),
        of("$0.004 per 10,000 GET and all other requests", "162", "Requests", "0.0000648"),
        of("$0.005 per 1,000 PUT, COPY, POST, or LIST requests", "18", "Requests", "0.00009"),
        of("$0.090 per GB - first 10 TB / month data transfer out beyond the global free tier", "10", "GB", "0.9"),
        of("$0.004 per 10,000 GET and all other requests to Intelligent-Tiering", "559", "Requests", "0.0002236"),
        ["Microsoft", "Usage", "2026-10-01", "Storage Accounts", "Hot LRS Data Stored", "1", "GB", "0.02", "USD", "eastus"],
    ], names)
    explained = found("focus.csv", "--without-allowances", cwd=tmp_path)
    parts = {line["usage"]: (line["topic"], line["listed_usd"] == line["billed_usd"]) for line in explained["lines"]}
    assert parts == {"TimedStorage-ByteHrs": ("storage", True), "Requests-Tier2": ("requests", True),
                     "Requests-Tier1": ("requests", True), "DataTransfer-Out-Bytes": ("egress", True),
                     "$0.004 per 10,000 GET and all other requests to Intelligent-Tiering": ("unknown", False)}
    assert {r["name"]: r["reason"] for r in explained["residuals"]}["Storage Accounts"] == "another service"


def test_google_s_export_and_its_credits(tmp_path):
    # A month of 30 days: 1 GiB stored for 31 days is 31/30 GiB-months.
    def row(sku, amount, unit, price, pricing=None, location="us-central1"):
        return {"service": {"description": "Cloud Storage"}, "sku": {"description": sku},
                "usage_start_time": "2026-10-01T00:00:00Z", "location": {"location": location, "region": location},
                "cost": price, "currency": "USD", "usage": {"amount": amount, "unit": unit, **(pricing or {})},
                "credits": [], "cost_type": "regular"}
    rows = [
        row("Standard Storage US Regional", 1000 * GIB * 31 * 86400, "byte-seconds", 1000 * 31 / 30 * 0.02),
        row("Regional Standard Class A Operations", 1_005_000, "requests", 5.0),
        row("Nearline Data Retrieval", 0, "bytes", 1.0,
            {"amount_in_pricing_units": 100, "pricing_unit": "gibibyte"}),
        {**row("Regional Standard Class B Operations", 50_000, "requests", 0.02),
         "credits": [{"name": "Free tier", "amount": -0.02}]},
    ]
    (tmp_path / "google.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    explained = found("google.jsonl", "--without-allowances", cwd=tmp_path)
    listed = {line["usage"]: Decimal(line["listed_usd"]) for line in explained["lines"]}
    assert listed["Standard Storage US Regional"] == pytest.approx(Decimal(1000 * 31) / 30 * Decimal("0.02"), abs=Decimal(1) / 10**6)
    assert listed["Nearline Data Retrieval"] == Decimal("1")
    assert listed["Regional Standard Class B Operations"] == Decimal("0.02")
    assert {r["name"]: r["usd"] for r in explained["residuals"] if r["reason"] == "credit or refund"} == {"Free tier": "-0.02"}


def test_usage_of_r2_is_priced_with_its_allowances(tmp_path):
    day = {"dimensions": {"date": "2026-09-29", "bucketName": "b"}, "max": {"payloadSize": 3 * 10**12, "metadataSize": 0}}
    document = {"data": {"viewer": {"accounts": [{
        "r2OperationsAdaptiveGroups": [
            {"dimensions": {"actionType": "PutObject"}, "sum": {"requests": 3_000_000}},
            {"dimensions": {"actionType": "GetObject"}, "sum": {"requests": 12_000_000}},
            {"dimensions": {"actionType": "DeleteObject"}, "sum": {"requests": 9_000_000}}],
        "r2StorageAdaptiveGroups": [{**day, "dimensions": {**day["dimensions"], "date": f"2026-09-{n:02}"}}
                                    for n in range(1, 31)]}]}}}
    (tmp_path / "r2.json").write_text(json.dumps(document))
    bill = found("r2.json", cwd=tmp_path)
    listed = {line["usage"]: Decimal(line["listed_usd"]) for line in bill["lines"]}
    assert listed == {"storage": (3000 - 10) * Decimal("0.015"), "PutObject": 2 * Decimal("4.5"),
                      "GetObject": 2 * Decimal("0.36"), "DeleteObject": 0}
    shown = explain("r2.json", cwd=tmp_path).stdout
    assert f"The usage costs ${sum(listed.values()):.2f} at list prices" in shown


def test_what_is_no_bill_is_an_error(tmp_path):
    (tmp_path / "x.csv").write_text("a,b,c\n1,2,3\n")
    assert "this is not a bill that Plimsoll knows" in explain("x.csv", cwd=tmp_path, code=2).stderr
    lines(tmp_path / "huge.csv", [usage("Requests-Tier1", 1, 1, "Requests")[:6] + ["9" * 20, "Requests", "b", "USD"]])
    assert "the cost is too large for a bill" in explain("huge.csv", cwd=tmp_path, code=2).stderr
    (tmp_path / "empty.csv").write_text("")
    assert "the bill contains no charge" in explain("empty.csv", cwd=tmp_path, code=2).stderr
    lines(tmp_path / "cur.csv", [usage("Requests-Tier1", "many", 1, "Requests")])
    assert "cur.csv:2: 'many'" in explain("cur.csv", cwd=tmp_path, code=2).stderr
    lines(tmp_path / "eur.csv", [usage("Requests-Tier1", 1, 1, "Requests")[:-1] + ["EUR"]])
    assert "the bill is in EUR" in explain("eur.csv", cwd=tmp_path, code=2).stderr
    lines(tmp_path / "cur.csv", [usage("Requests-Tier1", 1, 1, "Requests")])
    (tmp_path / "inventory.orc").write_bytes(b"ORC\x00")
    error = explain("cur.csv", "--inventory", "inventory.orc", cwd=tmp_path, code=2).stderr
    assert "inventory.orc: invalid ORC file: " in error
    # No damage may end in anything but an error or figures.
    pyarrow.orc.write_table(pyarrow.table({"bucket": ["b"] * 500, "key": [f"k/{n}" for n in range(500)],
                                           "size": [n * n for n in range(500)], "storage_class": ["STANDARD"] * 500}),
                            tmp_path / "good.orc", compression="zlib")
    good, rng = (tmp_path / "good.orc").read_bytes(), random.Random(3)
    for _ in range(150):
        bad = bytearray(good)
        for _ in range(rng.randint(1, 4)):
            bad[rng.randrange(len(bad))] = rng.randrange(256)
        (tmp_path / "inventory.orc").write_bytes(bad[:rng.choice([len(bad), rng.randrange(len(bad))])])
        done = subprocess.run([PLIMSOLL, "cost", "explain", "cur.csv", "--inventory", "inventory.orc"], cwd=tmp_path,
                              env=environment(), capture_output=True, text=True, timeout=60)
        assert done.returncode in (0, 2) and "panicked" not in done.stderr, done.stderr


def test_regression_amounts_that_no_number_holds_are_errors(tmp_path):
    lines(tmp_path / "huge.csv", [usage("Requests-Tier1", 1, 1, "Requests")[:6] + ["1e2147483647", "Requests", "b", "USD"]])
    assert "'1e2147483647'" in explain("huge.csv", cwd=tmp_path, code=2).stderr
    row = usage("Requests-Tier1", 1, 1, "Requests")
    (tmp_path / "comma.csv").write_text(";".join(["lineItem/UsageType", "lineItem/UnblendedCost"]) + "\n"
                                        + ";".join([row[3], "1,234"]) + "\n")
    assert "has a comma in a file with semicolons" in explain("comma.csv", cwd=tmp_path, code=2).stderr
    # Files that would take memory without a limit.
    (tmp_path / "quote.csv").write_text('lineItem/UsageType,lineItem/UnblendedCost\n"' + "x" * (17 << 20))
    assert "a row of more than 16 MiB" in explain("quote.csv", cwd=tmp_path, code=2).stderr
    (tmp_path / "fields.json").write_text(json.dumps({f"f{n}": n for n in range(2_001)}))
    assert "more than 2000 fields" in explain("fields.json", cwd=tmp_path, code=2).stderr
    (tmp_path / "long.json").write_text("[" + " " * (33 << 20))
    assert "a JSON document of more than 32 MiB" in explain("long.json", cwd=tmp_path, code=2).stderr


def test_regression_r2_analytics_by_the_hour_counted_as_days(tmp_path):
    """The average of the daily peaks is billed: 30 days of 3 TB, in rows by the hour with smaller values between."""
    rows = [{"dimensions": {"datetimeHour": f"2026-09-{day:02}T{hour:02}:00:00Z", "bucketName": "b"},
             "max": {"payloadSize": 3 * 10**12 if hour == 7 else 10**12, "metadataSize": 0}}
            for day in range(1, 31) for hour in range(24)]
    document = lambda rows: json.dumps({"data": {"viewer": {"accounts": [{"r2StorageAdaptiveGroups": rows}]}}})
    (tmp_path / "r2.json").write_text(document(rows))
    [line] = found("r2.json", "--without-allowances", cwd=tmp_path)["lines"]
    assert Decimal(line["listed_usd"]) == 3000 * Decimal("0.015")
    (tmp_path / "r2.json").write_text(document([{"dimensions": {"bucketName": "b"}, "max": {"payloadSize": 10**12}}]))
    assert "storage without a date" in explain("r2.json", cwd=tmp_path, code=2).stderr


def test_regression_other_currencies_of_google_were_dollars(tmp_path):
    names = ["Service description", "SKU description", "Usage amount", "Usage unit"]
    row = ["Cloud Storage", "Nearline Data Retrieval", "10", "gibibyte", "0.1"]
    for cost, currency in (("Cost (\u00a5)", "\u00a5"), ("Cost (A$)", "A$"), ("Unrounded cost (CA$)", "CA$")):
        lines(tmp_path / "google.csv", [row], [*names, cost])
        assert f"the bill is in {currency}" in explain("google.csv", cwd=tmp_path, code=2).stderr
    text = lambda code: f"Invoice number,1\nCurrency,{code}\n" + ",".join([*names, "Cost"]) + "\n" + ",".join(row) + "\n"
    (tmp_path / "table.csv").write_text(text("JPY"))
    assert "the bill is in JPY" in explain("table.csv", cwd=tmp_path, code=2).stderr
    (tmp_path / "table.csv").write_text(text("USD"))
    assert found("table.csv", cwd=tmp_path)["total_usd"] == "0.10"


def test_google_s_console_names_places_instead_of_regions(tmp_path):
    names = ["Month", "Service description", "SKU description", "Usage amount", "Usage unit", "Cost ($)"]
    lines(tmp_path / "google.csv", [
        ["2026-10", "Cloud Storage", "Standard Storage Frankfurt", "100", "gibibyte month", "2.3"],
        ["2026-11", "Cloud Storage", "Standard Storage Atlantis", "100", "gibibyte month", "2"]], names)
    bill = found("google.csv", "--without-allowances", cwd=tmp_path)
    listed = {line["usage"]: (line["month"], line["region"], line["listed_usd"]) for line in bill["lines"]}
    assert listed == {"Standard Storage Frankfurt": ("2026-10-01", "europe-west3", "2.30"),
                      "Standard Storage Atlantis": ("2026-11-01", "", None)}
