"""Measures a server with stalls, and shows with Polars how they raise the percentiles of every ten seconds."""
import plimsoll
import polars as pl

with plimsoll.serve(inject="latency=2ms,stall=500ms/3s") as server:
    run = plimsoll.run("get", store=server.store("bucket"), create_bucket=True, size="1KiB", rate="200/s", duration="6s",
                       warmup="0s", environment=server.environment, progress=False)

gets = run.intervals.filter((pl.col("role") == "measure") & (pl.col("operation") == "get"))
# Histograms of seconds are merged; percentiles are never averaged.
for part in (gets.head(3), gets.tail(3), gets):
    merged = plimsoll.Histogram.merge(map(plimsoll.Histogram.decode, part["response"]))
    print(f"{len(part)} s: p50 {merged.quantile(0.5):.1f} ms, p99 {merged.quantile(0.99):.0f} ms")
