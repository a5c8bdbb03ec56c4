"""Compares what bills contain on top of a store with a second, independent calculation: replicas, machines elsewhere, NAT
gateways and keys."""

import json
import random
import subprocess
from fractions import Fraction as F

import pytest

from support import PLIMSOLL, environment
from test_bills import BOOKS, DAY, bill, charged_at

MULTI = {"us": "us-", "eu": "europe-", "asia": "asia-"}
DUAL = {"nam4": ("us-central1", "us-east1"), "eur4": ("europe-north1", "europe-west4"), "asia1": ("asia-northeast1", "asia-northeast2")}
CONTINENTS = {"us": "northamerica", "nam4": "northamerica", "eu": "europe", "eur4": "europe", "asia1": "asia"}


def priced(name, region, work, *arguments):
    """Returns the first bill, or the reason for which there is none."""
    unread = ",".join(f"{days}d={float(share * 100)}%" for days, share in (work.get("unread") or {}).items())
    egress = [] if work["egress"] is None else ["--egress", f"{work['egress']}B"]
    done = subprocess.run([PLIMSOLL, "cost", "--json", "--as-of", DAY, "--provider", f"{name}@{region}", "--storage",
                           f"{work['storage']}B", "--put", str(work["put"]), "--get", str(work["get"]), "--object-size",
                           f"{work['object_size']}B", *egress, *(["--unread", unread] if unread else []), *arguments],
                          capture_output=True, text=True, env=environment())
    return (json.loads(done.stdout)["bills"][0], None) if done.returncode == 0 else (None, done.stderr)


def near(found, exact):
    assert found is not None and abs(F(found["total_usd"]) - exact) <= F(len(found["lines"]), 10**12), (found, float(exact))


@pytest.mark.parametrize("seed", range(24))
def test_bills_with_a_replica_match_the_second_calculation(seed):
    """A replica is stored and written at the prices of its region; each byte is transferred, and with time control paid again.
    The shares of data that is not read are those of the bucket."""
    draw = random.Random(3000 + seed)
    names = [n for n in BOOKS.stores() if BOOKS.offers[n].get("provider") == "aws-s3"]
    name, (source, to) = draw.choice(names), draw.sample(BOOKS.offers["aws-s3"]["regions"], 2)
    work = {"storage": draw.randint(10**9, 10**16), "egress": 0, "put": draw.randint(1, 10**9), "get": draw.randint(0, 10**6),
            "delete": 0, "list": 0, "object_size": draw.randint(1, 10**7), "keep": None}
    if seed >= 20:
        name, work["object_size"] = "aws-s3-intelligent-tiering", draw.randint(10**6, 10**7)
        work["unread"] = {30: F(draw.randint(50, 90), 100), 90: F(draw.randint(1, 50), 100)}
    rates = ["AWS-Out-Bytes " + to] + (["S3RTC-Out-Bytes"] if seed % 2 else [])
    found, _ = priced(name, source, work, "--replicate-to", to, *(["--replication-time-control"] if seed % 2 else []))
    paid = [charged_at("aws-s3-lines", source, item, work["put"] * work["object_size"]) for item in rates]
    near(found, bill(name, work, source) + bill(name, work | {"get": 0}, to) + sum(paid))


def is_inside(location, region):
    """True if a region is the location of a store, or one of Google's regions in it. London and Zurich are not in `eu`."""
    multi = location in MULTI and region.startswith(MULTI[location]) and not (location == "eu" and region in ("europe-west2", "europe-west6"))
    return location == region or region in DUAL.get(location, ()) or multi


def way(network, own, name, store, work):
    """Returns the cost of the way between machines and a store, beyond the store's own bill."""
    written, read = work["put"] * work["object_size"], work["get"] * work["object_size"]
    if BOOKS.offers[name].get("network") != network:
        return charged_at(network, own, "egress", written)
    if is_inside(store, own):
        return F(0)
    if network == "aws-network":
        return (charged_at("aws-s3-lines", store, f"AWS-Out-Bytes {own}", read) if read else 0) + (
            charged_at("aws-s3-lines", own, f"AWS-Out-Bytes {store}", written) if written else 0)
    continent = lambda region: CONTINENTS.get(region.split("-")[0], region.split("-")[0])
    if continent(store) != continent(own):
        raise LookupError(f"{store} {own}")
    return charged_at(network, store, "cross-region", read) + charged_at(network, own, "cross-region", written)


def test_bills_of_machines_elsewhere_match_the_second_calculation():
    """Machines at 60 places, each with a store of another or the same provider: equal, or both have no price."""
    draw, compared, refused = random.Random(38), 0, 0
    places = [(n, r) for n in ("aws-network", "google-network", "azure-network") for r in BOOKS.offers[n]["regions"]]
    places = [(n, r) for n, r in places if r not in MULTI and r not in DUAL]
    stores = [n for n in BOOKS.stores() if not n.startswith("aws-dynamodb")]
    for _ in range(60):
        network, own = draw.choice(places)
        same = [n for n in stores if BOOKS.offers[n].get("network") == network]
        name = draw.choice(same if draw.random() < 0.6 else stores)
        regions = BOOKS.offers[name]["regions"]
        store = own if own in regions and draw.random() < 0.3 else draw.choice(regions)
        work = {"storage": draw.randint(10**14, 10**16), "put": draw.randint(1, 10**8), "get": draw.randint(1, 10**8), "delete": 0,
                "list": 0, "object_size": draw.randint(200_000, 300_000), "keep": None}
        stays = BOOKS.offers[name].get("network") == network
        told = work | {"egress": 0 if stays else work["get"] * work["object_size"]}
        nat = network == "aws-network" and draw.random() < 0.3
        found, reason = priced(name, store, work | {"egress": None}, "--machines", f"{network.removesuffix('-network')}@{own}",
                               *(["--nat-gateway"] if nat else []))
        try:
            exact = bill(name, told, store) + way(network, own, name, store, work)
            if nat:
                both = (work["put"] + work["get"]) * work["object_size"]
                exact += charged_at("aws-nat-gateway", own, "NatGateway-Hours", 730)
                exact += charged_at("aws-nat-gateway", own, "NatGateway-Bytes", both)
        except LookupError as e:
            assert found is None and "no price is known" in reason, (name, store, own, reason, e)
            refused += 1
            continue
        assert found is not None, (name, store, network, own, reason)
        near(found, exact)
        compared += 1
    assert compared >= 30 and refused >= 3, (compared, refused)


@pytest.mark.parametrize("region", ["us-east-1", "ap-southeast-1"])
def test_a_bill_with_keys_matches_the_second_calculation(region):
    work = {"storage": 10**13, "egress": 0, "put": 3_000_000, "get": 20_000_000, "delete": 0, "list": 0, "object_size": 10**6, "keep": None}
    found, _ = priced("aws-s3", region, work, "--sse-kms")
    near(found, bill("aws-s3", work, region) + charged_at("aws-kms", region, "KMS-Requests", 23_000_000) + 1)
