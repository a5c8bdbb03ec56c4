/* Charts for decisions: bills by provider, break-even points, transition ages, choice of a store. */
const decided = data.chart || {};
const money = (x) => { if (x === null || x === undefined || !isFinite(x)) return "–"; const a = Math.abs(x); return (x < 0 ? "-$" : "$") + (a >= 1e6 ? (a / 1e6).toPrecision(3) + "M" : a >= 1e3 ? Math.round(a).toString().replace(/\B(?=(\d{3})+$)/g, ",") : a >= 0.1 || a === 0 ? a.toFixed(2) : Number(a.toPrecision(3)).toString()); };
const moneyAxis = (name, more) => axis(name, Object.assign({ axisLabel: { color: css("--soft"), fontSize: 11, formatter: money, hideOverlap: true } }, more));
/* Amounts of data in decimal units. */
const bytes = (x) => { const units = ["B", "kB", "MB", "GB", "TB", "PB", "EB"]; let i = 0; while (Math.abs(x) >= 1000 && i < 6) { x /= 1000; i++; } return `${Number(x.toPrecision(3))} ${units[i]}`; };
if (decided.bills && decided.bills.providers.length) {
  const b = decided.bills;
  chart({ section: "Bills", id: "bills", wide: true, title: "Monthly bill by part", note: "Bills for the same workload, cheapest first.", rows: b.providers.length > 9 ? Math.ceil(0.55 * b.providers.length) : 0,
    option: () => base({ legend: true, grid: { left: 16, right: 60, top: 10, bottom: 44, containLabel: true },
      tooltip: Object.assign(base({}).tooltip, { axisPointer: { type: "shadow" }, valueFormatter: money }),
      xAxis: moneyAxis("US dollars per month", { type: "value", min: 0 }),
      yAxis: axis("", { type: "category", inverse: true, data: b.providers, axisLabel: { color: css("--soft"), fontSize: 11, width: 190, overflow: "truncate" }, splitLine: { show: false } }),
      series: b.parts.map((part, i) => ({ name: part, type: "bar", stack: "all", barMaxWidth: 26, itemStyle: { color: color(i) }, data: b.amounts.map((a) => a[i]) })) }),
    table: () => [["provider", ...b.parts, "total"]].concat(b.providers.map((p, k) => [p, ...b.amounts[k], b.amounts[k].reduce((x, y) => x + y, 0)])) });
}
if (decided.beside && decided.beside.offers.length) {
  const b = decided.beside;
  chart({ section: "Bills", id: "beside", wide: true, title: "Published and actual prices", note: "The same monthly bill at the prices of the published document and at actual prices.",
    option: () => base({ legend: true, grid: { left: 16, right: 60, top: 10, bottom: 44, containLabel: true },
      tooltip: Object.assign(base({}).tooltip, { axisPointer: { type: "shadow" }, valueFormatter: money }),
      xAxis: moneyAxis("US dollars per month", { type: "value", min: 0 }),
      yAxis: axis("", { type: "category", inverse: true, data: b.offers, splitLine: { show: false } }),
      series: ["published", "real"].map((key, i) => ({ name: b.names[i], type: "bar", barMaxWidth: 22, itemStyle: { color: color(i === 0 ? 7 : 0) }, data: b[key] })) }),
    table: () => [["offer", ...b.names]].concat(b.offers.map((o, k) => [o, b.published[k], b.real[k]])) });
}
if (decided.trend) {
  const t = decided.trend, unit = { ms: "ms", per_s: "operations/s", bytes_per_s: "MB/s", share: "%" }[t.unit] || t.unit, scale = { bytes_per_s: 1e-6, share: 100 }[t.unit] || 1;
  const at = (x) => (x === null ? null : x * scale);
  chart({ section: "Trend", id: "trend", wide: true, title: t.figure, note: "One point per run, with its 95% confidence interval. Dashed: changes of the level.",
    option: () => base({ legend: true, grid: { left: 66, right: 40, top: 24, bottom: 54, containLabel: false },
      tooltip: Object.assign(base({}).tooltip, { trigger: "item", formatter: (p) => { const q = t.lines[Number(p.seriesId.split("-")[1])].points[p.dataIndex]; return `${escapeText(q[4])}<br>${num(at(q[1]))} ${unit}` + (q[2] === null ? "" : `<br>${num(at(q[2]))} to ${num(at(q[3]))}`); } }),
      xAxis: axis("", { type: "time", splitLine: { show: false }, axisLabel: { color: css("--soft"), fontSize: 11, hideOverlap: true } }), yAxis: valueAxis(unit),
      series: data.subjects.flatMap((s, i) => !shown(i) ? [] : [
        { id: "line-" + i, name: s.name, type: "line", symbolSize: t.lines[i].points.length > 200 ? 2 : 6, itemStyle: { color: color(i) }, lineStyle: { color: color(i), type: dash(i) }, data: t.lines[i].points.map((p) => [p[0], at(p[1])]), markLine: t.lines[i].changes.length ? mark(t.lines[i].changes.map((c) => ({ xAxis: c.at, label: { formatter: (c.percent > 0 ? "+" : "") + num(c.percent) + "%" } }))) : undefined },
        { id: "ends-" + i, name: s.name, type: "custom", silent: true, data: t.lines[i].points.filter((p) => p[2] !== null).map((p) => [p[0], at(p[2]), at(p[3])]), renderItem: (_, api) => { const [x, l] = api.coord([api.value(0), api.value(1)]), [, h] = api.coord([api.value(0), api.value(2)]); return { type: "line", shape: { x1: x, y1: l, x2: x, y2: h }, style: { stroke: color(i), opacity: 0.5 } }; } }]) }),
    table: () => [["run", "store", "started", unit, "low", "high"]].concat(data.subjects.flatMap((s, i) => t.lines[i].points.map((p) => [p[4], s.name, p[0], at(p[1]), at(p[2]), at(p[3])]))) });
}
if (decided.breakeven) {
  const b = decided.breakeven, shownAmount = b.bytes ? bytes : num;
  chart({ section: "Bills", id: "breakeven", wide: true, title: `Monthly bill by ${b.axis}`, note: "Both axes are logarithmic. At a dashed line, the cheapest provider changes.",
    option: () => base({ legend: true, grid: { left: 86, right: 40, top: 24, bottom: 54, containLabel: false },
      tooltip: Object.assign(base({}).tooltip, { valueFormatter: money, axisPointer: { label: { formatter: (p) => shownAmount(p.value) } } }),
      xAxis: logAxis(b.axis, { axisLabel: { color: css("--soft"), fontSize: 11, formatter: shownAmount, hideOverlap: true } }), yAxis: logAxis("US dollars per month", { nameGap: 66, axisLabel: { color: css("--soft"), fontSize: 11, formatter: money } }),
      series: data.subjects.map((s, i) => ({ name: s.name, type: "line", showSymbol: false, lineStyle: { color: color(i), type: dash(i) }, itemStyle: { color: color(i) }, data: shown(i) ? b.lines[i].filter((p) => p[1] > 0) : [], markLine: i === 0 ? mark(b.crossings.map((c) => ({ xAxis: c[0], label: { formatter: c[1], position: "insideEndTop" } }))) : undefined })) }),
    table: () => [[b.axis, ...data.subjects.map((s) => s.name)]].concat((b.lines[0] || []).map((p, k) => [p[0], ...b.lines.map((l) => (l[k] ? l[k][1] : null))])) });
}
for (const c of decided.curves || []) {
  const both = [["trace", c.trace], ["experiment", c.model]];
  chart({ section: "Distributions", id: "curve-" + c.name.replace(/ /g, "-"), title: c.name[0].toUpperCase() + c.name.slice(1), note: "Share of the values up to each value.",
    option: () => base({ legend: true, grid: { left: 60, right: 24, top: 14, bottom: 54, containLabel: false },
      xAxis: (c.log ? logAxis : axis)(c.unit, c.log ? { axisLabel: { color: css("--soft"), fontSize: 11, formatter: c.unit === "bytes" ? bytes : num, hideOverlap: true } } : { type: "value", axisLabel: { color: css("--soft"), fontSize: 11, formatter: c.unit === "bytes" ? bytes : num, hideOverlap: true } }),
      yAxis: axis("share", { type: "value", min: 0, max: 1 }),
      series: both.map(([name, points], i) => ({ name, type: "line", step: "end", showSymbol: false, lineStyle: { color: color(i), type: dash(i), width: i === 0 ? 3 : 1.5 }, itemStyle: { color: color(i) }, data: points })) }),
    table: () => [["of", c.unit, "share"]].concat(...both.map(([name, points]) => points.map((p) => [name, p[0], p[1]]))) });
}
if (decided.tiering) {
  const t = decided.tiering, days = (d) => (d === 0 ? "none" : `${d} d`);
  const marks = mark([{ xAxis: t.ages.indexOf(t.asked), label: { formatter: "requested" } }].concat(t.best === null || t.best === t.asked ? [] : [{ xAxis: t.ages.indexOf(t.best), label: { formatter: "best" } }]).filter((m) => m.xAxis >= 0));
  chart({ section: "Transition age", id: "tiering", wide: true, title: "Monthly bill by transition age", note: "Left: all objects in the cold store. Right: all objects in the hot store.",
    option: () => base({ legend: true, grid: { left: 86, right: 40, top: 24, bottom: 54, containLabel: false }, tooltip: Object.assign(base({}).tooltip, { valueFormatter: money }),
      xAxis: axis("days in the hot store", { type: "category", boundaryGap: false, data: t.ages.map(days), splitLine: { show: false } }), yAxis: moneyAxis("US dollars per month", { type: "value", min: 0, nameGap: 66 }),
      series: [[t.hot, "hot_usd", 1], [t.cold, "cold_usd", 0]].map(([name, key, i]) => ({ name, type: "line", stack: "all", areaStyle: { opacity: 0.35 }, showSymbol: false, itemStyle: { color: color(i) }, lineStyle: { color: color(i), width: 1 }, data: t[key], markLine: i === 1 ? marks : undefined })) }),
    table: () => [["days", t.hot, t.cold, "total"]].concat(t.ages.map((d, k) => [d, t.hot_usd[k], t.cold_usd[k], t.total_usd[k]])) });
  if (t.p99_low.some((x) => x !== null)) chart({ section: "Transition age", id: "blend", wide: true, title: "p99 of reads from both stores", note: "From the mixture of both latency distributions. If only percentiles are known, the p99 is between the two lines.",
    option: () => base({ legend: true, grid: { left: 66, right: 40, top: 24, bottom: 54, containLabel: false },
      xAxis: axis("days in the hot store", { type: "category", boundaryGap: false, data: t.ages.map(days), splitLine: { show: false } }), yAxis: valueAxis("ms"),
      series: [["at least", "p99_low"], ["at most", "p99_high"]].map(([name, key], i) => ({ name, type: "line", step: "end", showSymbol: false, itemStyle: { color: color(i) }, lineStyle: { color: color(i), type: dash(i * 8) }, data: t[key], markLine: i === 0 ? marks : undefined })) }),
    table: () => [["days", "p99 at least ms", "p99 at most ms"]].concat(t.ages.map((d, k) => [d, t.p99_low[k], t.p99_high[k]])) });
}
if (decided.advice && decided.advice.points.length) {
  const a = decided.advice, tone = { pass: "#009e73", FAIL: "#d55e00", "inconclusive": "#e69f00" };
  const line = a.points.filter((p) => p.front).sort((x, y) => x.usd - y.usd).map((p) => [p.usd, p.ms]);
  const usd = a.points.map((p) => p.usd), middle = Math.sqrt(Math.min(...usd) * Math.max(...usd));
  const symbol = { measured: "circle", EMULATED: "diamond", IMPORTED: "triangle", PUBLISHED: "rect" };
  chart({ section: "Choice of a store", id: "front", wide: true, title: `Monthly bill and ${a.ranked_by}`, note: "Lower and further left is better. Green: meets the objectives; orange: misses one; amber: undecided. Circles: measured at the provider; diamonds: measured on an emulation; triangles: imported; squares: published by others. The line is the Pareto front.",
    option: () => base({ legend: undefined, grid: { left: 76, right: 40, top: 24, bottom: 56, containLabel: false },
      tooltip: Object.assign(base({}).tooltip, { trigger: "item", formatter: (p) => { const q = a.points[p.dataIndex]; return q && p.seriesIndex === 1 ? `${escapeText(q.name)}<br>${money(q.usd)} per month<br>${num(q.ms)} ms${q.low === null ? "" : ` [${num(q.low)} – ${num(q.high)}]`}<br>${q.known_by}; ${q.outcome}` : ""; } }),
      xAxis: logAxis("US dollars per month", { axisLabel: { color: css("--soft"), fontSize: 11, formatter: money, hideOverlap: true } }), yAxis: logAxis("ms", { nameGap: 48 }),
      series: [{ type: "line", showSymbol: false, step: "end", lineStyle: { color: css("--soft"), type: "dashed", width: 1 }, data: line, silent: true },
        { type: "scatter", symbolSize: 15, data: a.points.map((p) => ({ value: [p.usd, p.ms], symbol: symbol[p.known_by] || "circle", itemStyle: { color: tone[p.outcome] }, label: { show: true, formatter: p.name, position: p.usd > middle ? "left" : "right", color: css("--ink"), fontSize: 11 } })), labelLayout: { hideOverlap: false, moveOverlap: "shiftY" } },
        { type: "custom", silent: true, data: a.points.filter((p) => p.low !== null).map((p) => [p.usd, p.low, p.high]), renderItem: (_, api) => { const [x, l] = api.coord([api.value(0), api.value(1)]), [, h] = api.coord([api.value(0), api.value(2)]); return { type: "line", shape: { x1: x, y1: l, x2: x, y2: h }, style: { stroke: css("--soft"), lineWidth: 1 } }; } }] }),
    table: () => [["store", "known by", "US dollars per month", "ms", "low", "high", "outcome", "front"]].concat(a.points.map((p) => [p.name, p.known_by, p.usd, p.ms, p.low, p.high, p.outcome, p.front ? "yes" : ""])) });
  const moved = a.changes.filter((c) => c.factor !== null);
  if (moved.length) chart({ section: "Choice of a store", id: "sensitivity", wide: true, rows: moved.length, title: "Sensitivity to assumptions", note: "Change of an assumption that would make another store the cheapest. The axis is logarithmic. Short bars mark the assumptions that matter most.",
    option: () => base({ legend: undefined, grid: { left: 16, right: 150, top: 10, bottom: 50, containLabel: true }, tooltip: Object.assign(base({}).tooltip, { trigger: "item", formatter: (p) => `${escapeText(moved[p.dataIndex].assumption)} × ${num(moved[p.dataIndex].factor)}: ${escapeText(moved[p.dataIndex].to)}` }),
      xAxis: axis("factor", { type: "log", axisLabel: { color: css("--soft"), fontSize: 11, formatter: (x) => (x < 1 ? "/ " + num(1 / x) : "× " + num(x)) } }), yAxis: axis("", { type: "category", inverse: true, data: moved.map((c) => `${c.assumption} ${c.up ? "more" : "less"}`), splitLine: { show: false } }),
      series: [{ type: "custom", data: moved.map((c, i) => [1, i, c.factor]), encode: { x: [0, 2], y: 1 }, renderItem: (_, api) => { const c = moved[api.value(1)], [x0, y] = api.coord([1, api.value(1)]), [x1] = api.coord([api.value(2), api.value(1)]); return { type: "group", children: [{ type: "rect", shape: { x: Math.min(x0, x1), y: y - 9, width: Math.abs(x1 - x0), height: 18 }, style: { fill: color(c.up ? 0 : 1), opacity: 0.7 } }, { type: "text", style: { text: c.to, x: Math.max(x0, x1) + 6, y: y - 6, fill: css("--ink"), fontSize: 11 } }] }; }, markLine: mark([{ xAxis: 1, label: { show: false } }]) }] }),
    table: () => [["assumption", "factor", "cheapest then"]].concat(a.changes.map((c) => [`${c.assumption} ${c.up ? "more" : "less"}`, c.factor, c.to])) });
}
