"""Compares a fast and a slow server, and asks DuckDB for the slowest seconds of both."""
import duckdb
import plimsoll

with plimsoll.serve(inject="latency=1ms") as fast, plimsoll.serve(inject="latency=3ms") as slow:
    runs = [plimsoll.run("get", store=server.store("bucket"), create_bucket=True, concurrency=4, duration="3s", warmup="0s",
                         environment=server.environment, progress=False) for server in (fast, slow)]

seconds = runs[1].intervals
print(duckdb.sql("""
    select operation, count(*) as seconds, min(operations) as fewest, max(operations) as most
    from seconds where role = 'measure' group by operation
"""))
comparison = plimsoll.compare(*runs, primary="get.p50")[0]
print(f"{comparison.primary.verdict}: p50 {comparison.primary.base:.2f} ms and {comparison.primary.other:.2f} ms")
