"""Measures three sizes, and prints the figures with their confidence intervals as a pandas table."""
import plimsoll

with plimsoll.serve(inject="latency=lognormal(2ms;0.4)") as server:
    run = plimsoll.run("get", store=server.store("bucket"), create_bucket=True, sweep="size=1KiB,16KiB,64KiB", duration="2s",
                       warmup="0s", environment=server.environment, progress=False)

windows = run.windows.to_pandas()
measured = windows[windows["role"] == "measure"].set_index("phase")
print(measured[["operations", "achieved_per_s", "service_ms.p50", "service_ms.p90"]].round(2).to_string())
