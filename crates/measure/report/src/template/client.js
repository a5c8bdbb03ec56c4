/* Start lag of the client. */
const watched = allRows.filter((r) => r.start_lag_p99 !== null && r.start_lag_allowed);
if (watched.length) {
  const share = (r) => (100 * r.start_lag_p99) / r.start_lag_allowed;
  chart({ section: "Client", id: "client", title: "Start lag of the client", note: "99th percentile of the start lag, as a share of the allowed maximum (5% of the median service time, at least 1 ms). Above 100%, the figures describe the client, not the store. " + data.runs.map((r) => `${r.id}: ${num(r.cpu_us_per_operation)} µs CPU per operation`).join("; ") + ".",
    option: () => { const rows = watched.filter((r) => shown(r.subject)); return base({ legend: undefined, grid: { left: 16, right: 40, top: 24, bottom: 44, containLabel: true }, xAxis: valueAxis("% of the allowed maximum", { nameGap: 30 }), yAxis: axis("", { type: "category", inverse: true, data: rows.map(rowName), axisLabel: { color: css("--soft"), fontSize: 11, width: 190, overflow: "truncate" }, splitLine: { show: false } }),
      series: [{ type: "bar", barMaxWidth: 18, data: rows.map((r) => ({ value: share(r), itemStyle: { color: share(r) > 100 ? "#d55e00" : "#009e73" } })), markLine: mark([{ xAxis: 100, label: { formatter: "limit", position: "start" } }]) }] }); },
    table: () => [["row", "start lag p99 ms", "allowed ms", "% of allowed", "remarks"]].concat(watched.map((r) => [rowName(r), r.start_lag_p99, r.start_lag_allowed, share(r), r.stamps.join("; ")])) });
}
