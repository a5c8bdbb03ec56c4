/* Latency distributions over the whole run. */
const allRows = data.runs.flatMap((run) => run.rows);
const plainRows = allRows.filter((r) => r.step === null);
const distributed = plainRows.length ? plainRows : allRows;
const rowName = (r) => [several ? subjectName(r.subject) : "", r.phase === r.operation ? "" : r.phase, r.operation, r.key_group || ""].filter(Boolean).join(" ");
const rowColor = (r) => (several ? r.subject : distributed.indexOf(r));
const visibleRows = () => distributed.filter((r) => shown(r.subject));
const clockedOf = (rows) => [...new Set(rows.map((r) => (r.load === "open" ? "response" : "service")))].join(" and ") + " time, ms";

if (distributed.some((r) => r.curve.length > 1)) {
  chart({ section: "Latency", id: "curve", title: "Percentile plot", note: "Latency by percentile; rare, slow operations are on the right. Both axes are logarithmic. A curve ends if fewer than ten operations are beyond it.",
    option: () => base({ legend: distributed.length > 1,
      xAxis: axis("percentile", { type: "log", min: 1, max: 10000, axisLabel: { color: css("--soft"), fontSize: 11, formatter: (x) => (x <= 1 ? "0" : String(Number((100 * (1 - 1 / x)).toFixed(2)))) + "%" } }),
      yAxis: logAxis(clockedOf(visibleRows()), { nameGap: 48 }),
      tooltip: Object.assign(base({}).tooltip, { formatter: (ps) => `${(100 * (1 - 1 / ps[0].value[0])).toFixed(3)}%<br>` + ps.map((p) => `${p.marker}${escapeText(p.seriesName)}: <b>${num(p.value[1])} ms</b>`).join("<br>") }),
      series: visibleRows().map((r) => ({ name: rowName(r), type: "line", showSymbol: false, data: r.curve, lineStyle: { width: 2, type: dash(rowColor(r)) }, itemStyle: { color: color(rowColor(r)) } })) }),
    table: () => [["row", "percentile", "ms"]].concat(distributed.flatMap((r) => r.curve.map((p) => [rowName(r), 100 * (1 - 1 / p[0]), p[1]]))) });
}
if (distributed.some((r) => r.bars.length)) {
  chart({ section: "Latency", id: "histogram", title: "Histogram", note: "Share of operations by latency. Bars have equal width on the logarithmic axis.",
    option: () => base({ legend: distributed.length > 1, xAxis: logAxis(clockedOf(visibleRows())), yAxis: valueAxis("% of operations"),
      series: visibleRows().map((r) => { const n = r.bars.reduce((s, b) => s + b[2], 0) || 1; return { name: rowName(r), type: "line", step: "end", showSymbol: false, areaStyle: { opacity: distributed.length > 3 ? 0.05 : 0.18 }, lineStyle: { width: 1.5, type: dash(rowColor(r)) }, itemStyle: { color: color(rowColor(r)) }, data: steps(r.bars, n) }; }) }),
    table: () => [["row", "from ms", "to ms", "operations"]].concat(distributed.flatMap((r) => r.bars.map((b) => [rowName(r), b[0], b[1], b[2]]))) });
}
/* Converts bars to the corners of a stepped line, with zero between bars that are not adjacent. */
function steps(bars, n) {
  const out = [];
  bars.forEach((b, i) => {
    const before = bars[i - 1];
    if (!before || b[0] > before[1] * 1.001) out.push([b[0], 0]);
    out.push([b[1], (100 * b[2]) / n]);
    const after = bars[i + 1];
    if (!after || after[0] > b[1] * 1.001) out.push([b[1] * 1.0001, 0]);
  });
  return out;
}
if (distributed.some((r) => r.quartiles)) {
  chart({ section: "Latency", id: "boxes", title: "Box plots", note: "Box: middle half of the operations, with the median. Whiskers: 1st and 99th percentile, or minimum and maximum of fewer than 1,000 operations. The axis is logarithmic, so it has no zero.",
    option: () => { const rows = visibleRows().filter((r) => r.quartiles); return base({ legend: undefined, grid: { left: 16, right: 24, top: 10, bottom: 44, containLabel: true },
      tooltip: Object.assign(base({}).tooltip, { trigger: "item", formatter: (p) => `${escapeText(rowName(rows[p.dataIndex]))}<br>` + ["1%", "25%", "50%", "75%", "99%"].map((q, i) => `${q}: ${num(rows[p.dataIndex].quartiles[i])} ms`).join("<br>") }),
      xAxis: logAxis(clockedOf(rows)), yAxis: axis("", { type: "category", inverse: true, data: rows.map(rowName), axisLabel: { color: css("--soft"), fontSize: 11, width: 190, overflow: "truncate" }, splitLine: { show: false } }),
      series: [{ type: "boxplot", data: rows.map((r) => ({ value: r.quartiles, itemStyle: { color: "transparent", borderColor: color(rowColor(r)), borderWidth: 1.6 } })), boxWidth: [6, 22] }] }); },
    table: () => [["row", "1%", "25%", "50%", "75%", "99%"]].concat(distributed.filter((r) => r.quartiles).map((r) => [rowName(r)].concat(r.quartiles))) });
}
if (distributed.some((r) => r.parts.some((p) => p[2] !== null))) {
  const names = ["connect", "TLS", "first byte", "body"].filter((n) => distributed.some((r) => r.parts.some((p) => p[0] === n)));
  chart({ section: "Latency", id: "parts", title: "Time by part of the operation", note: "Medians of connect, TLS handshake, first byte (from the start of the operation) and body; faint: 99th percentiles. Percentiles do not add up. Connections are rarely opened, so the first two have few samples.",
    option: () => base({ legend: distributed.length > 1, xAxis: axis("", { type: "category", data: names, splitLine: { show: false } }), yAxis: valueAxis("ms"),
      series: visibleRows().flatMap((r) => [["p50", 2, 1], ["p99", 3, 0.35]].map(([q, i, opacity]) => ({ name: rowName(r), type: "bar", barMaxWidth: 22, itemStyle: { color: color(rowColor(r)), opacity }, tooltip: { valueFormatter: (v) => `${num(v)} ms (${q})` }, data: names.map((n) => { const p = r.parts.find((x) => x[0] === n); return p ? p[i] : null; }) }))) }),
    table: () => [["row", "part", "samples", "p50 ms", "p99 ms"]].concat(distributed.flatMap((r) => r.parts.map((p) => [rowName(r)].concat(p)))) });
}
