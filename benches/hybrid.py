#!/usr/bin/env python3
"""The scenario of a published design for a hybrid of S3 Express One Zone and R2, as a page: what the design promised, what
it costs, and what the gateway does with it.

    python3 benches/hybrid.py --output docs/hybrid.html
"""
import argparse
import html
import json
import os
import subprocess
import tempfile
import time

from servers import GATEWAY, PLIMSOLL

# 12 million segments of 4 MB a day; 80% of the reads go to segments of the last seven days; 1.5 PB are read in a month.
PUT, GET, SIZE, KEEP, DAYS = 360_000_000, 375_000_000, 4_000_000, 90, 7
OBJECTS = 1_000_000


def run(*arguments):
    result = subprocess.run(arguments, capture_output=True, text=True)
    if result.returncode:
        raise SystemExit(result.stderr)
    return json.loads(result.stdout)


def tiering():
    return run(PLIMSOLL, "cost", "tiering", "--hot", "aws-s3-express@us-east-1", "--cold", "cloudflare-r2", "--hot-days", f"{DAYS}d",
               "--hot-reads", "80%", "--put", str(PUT), "--get", str(GET), "--object-size", f"{SIZE} B", "--keep", f"{KEEP}d",
               "--egress", "100%", "--verify-moves", "--json")


def plan(base, only_if_cheaper):
    path = f"{base}/gateway.toml"
    with open(path, "w") as f:
        f.write(f'[catalog]\nurl = "dir:{base}/catalog"\n[tier.hot]\nurl = "s3://hot?endpoint=http://127.0.0.1:1"\n'
                'offer = "aws-s3-express@us-east-1"\n[tier.cold]\nurl = "s3://cold?endpoint=http://127.0.0.1:1"\n'
                f'offer = "cloudflare-r2"\n[retain]\ndeleted = "0s"\n[write]\ntier = "hot"\n[[move]]\nfrom = "hot"\nto = "cold"\nwhen = "age >= {DAYS}d"\n'
                f'payback_period = "{KEEP - DAYS}d"\nonly_if_cheaper = {str(only_if_cheaper).lower()}\n')
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - (DAYS + 0.5) * 86400))
    with open(f"{base}/listing.csv", "w") as f:
        f.write("Key,Size,LastModified\n")
        f.writelines(f"segments/{number},{SIZE},{at}\n" for number in range(OBJECTS))
    return run(GATEWAY, "plan", path, "--listing", f"{base}/listing.csv", "--json")


def usd(text):
    value = float(text)
    return f"-${-value:,.0f}" if value < 0 else f"${value:,.0f}"


def table(head, rows):
    cells = lambda row, tag: "".join(f"<{tag}>{html.escape(str(cell))}</{tag}>" for cell in row)  # noqa: E731
    return f"<table><tr>{cells(head, 'th')}</tr>" + "".join(f"<tr>{cells(row, 'td')}</tr>" for row in rows) + "</table>"


STYLE = """body{font:16px/1.5 system-ui,sans-serif;max-width:52rem;margin:2rem auto;padding:0 1rem;color:#222;background:#fff}
table{border-collapse:collapse;margin:1rem 0}th,td{text-align:left;padding:.3rem .8rem;border-bottom:1px solid #ddd}
td:not(:first-child),th:not(:first-child){text-align:right;font-variant-numeric:tabular-nums}
@media(prefers-color-scheme:dark){body{color:#ddd;background:#181818}th,td{border-color:#444}}"""


def page(tiers, plain, gated):
    asked = tiers["asked"]
    ages = {age["hot_days"]: age for age in tiers["ages"]}
    cold, hot = ages[0], ages[max(ages)]
    saved = float(hot["total_usd"]) - float(asked["total_usd"])
    costs = table(["a month", "S3 Express", "R2", "total", "of which moves"], [
        [name, usd(float(age["hot_usd"])), usd(float(age["cold_usd"])), usd(age["total_usd"]), usd(age["migration_usd"])]
        for name, age in (("everything in S3 Express One Zone", hot), (f"moved to R2 after {DAYS} days", asked), ("everything in R2", cold))])
    calls = [[tier["tier"], ", ".join(f"{count:,} {name}" for name, count in tier["requests"].items()), usd(tier["moves_usd"]),
              usd(tier["month_before_usd"]), usd(tier["month_after_usd"])] for tier in plain["tiers"]]
    payback = f"{plain['payback_months']:.1f} months" if plain["payback_months"] else "never"
    return f"""<!doctype html><html lang="en"><meta charset="utf-8"><title>A hybrid of two stores: promise and cost</title>
<style>{STYLE}</style><h1>A hybrid of two stores: promise and cost</h1>
<p>A published design keeps video segments in S3 Express One Zone and moves them to Cloudflare R2 after {DAYS} days. Its
example has 12 million segments of 4 MB a day, 80% of the reads in the first {DAYS} days, and 1.5 PB of reads a month; here,
segments are kept for {KEEP} days.</p>
<h2>The promise</h2>{table(["", "before", "after"], [["egress a month", "$189,000", "$11,800"], ["storage a month", "", "$2,100 more"], ["saved a month", "", "$174,900, or 92%"]])}
<p>The design gives no cost of the moves. 80% of the reads still come from S3 Express, so at least 80% of the egress remains:
the promised fall of the egress by 94% cannot follow from moving 20% of the reads.</p>
<h2>The cost</h2>{costs}
<p><code>plimsoll cost tiering</code>, with all reads as egress, and moves that are verified by reading each object back. The
hybrid saves {usd(saved)} against S3 Express alone, and costs {usd(float(asked["total_usd"]) - float(cold["total_usd"]))} more than R2
alone. Each moved byte leaves AWS once at the price of egress, which the design does not count.</p>
<h2>The gateway</h2>
<p><code>plimsoll-gateway plan</code> for {OBJECTS:,} segments that are {DAYS} days old, about two hours of arrivals:</p>
{table(["tier", "requests of the moves", "moves", "storage a month before", "after"], calls)}
<p>The moves cost {usd(plain["now_usd"])} and save {usd(float(plain["month_before_usd"]) - float(plain["month_after_usd"]))} of storage a month:
they have paid for themselves after {payback}. With <code>only_if_cheaper = true</code> and the {KEEP - DAYS} days that a segment has
left, the gateway moves {gated["moves"]:,} of them.</p>
<p>Prices of {time.strftime("%Y-%m-%d")}. A plan uses list prices without volume discounts and free allowances.</p></html>
"""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", default="docs/hybrid.html")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=os.environ.get("DATA", "/var/tmp")) as base:
        text = page(tiering(), plan(base, False), plan(base, True))
    with open(options.output, "w") as f:
        f.write(text)


if __name__ == "__main__":
    main()
