/* Behaviour under rising load: ramps, the search for the capacity, sweeps of part sizes. */
const ramped = allRows.filter((r) => r.step !== null);
const stepGroups = () => {
  const groups = new Map();
  ramped.filter((r) => shown(r.subject)).forEach((r) => {
    const phase = r.phase.replace(/_\d+$/, ""), key = [r.subject, phase, r.operation].join("\u0000");
    if (!groups.has(key)) groups.set(key, { name: [several ? subjectName(r.subject) : "", phase === r.operation ? "" : phase, r.operation].filter(Boolean).join(" "), subject: r.subject, rows: [] });
    groups.get(key).rows.push(r);
  });
  return [...groups.values()];
};
const searches = data.runs.filter((r) => r.capacity).map((r) => r.capacity);
const atLeast = (r, x) => { const last = r.curve.filter((p) => p[0] <= x).pop(); return last && last[0] > x * 0.9 ? last[1] : null; };
const stepTable = () => [["series", "phase", "offered/s", "achieved/s", "MB/s", "in flight", "p50 ms", "p99 ms"]].concat(stepGroups().flatMap((g) => g.rows.map((r) => [g.name, r.phase, r.offered_per_s, r.per_s, r.bytes_per_s / 1e6, r.in_flight, atLeast(r, 2), atLeast(r, 100)])));

if (ramped.length && !searches.length) {
  const moves = ramped.some((r) => r.bytes_per_s > 0);
  const throughput = (r) => (moves ? r.bytes_per_s / 1e6 : r.per_s);
  const unit = moves ? "MB/s" : "operations/s";
  /* Knees of all runs: equal ones once, and their labels at different heights, so that those of close knees do not overlap. A background keeps them readable on curves and points. */
  const kneeMarks = () => [...new Map(data.runs.flatMap((run) => run.ramps.filter((r) => r.knee_in_flight).map((r) => [num(r.knee_in_flight), r.knee_in_flight])))]
    .map(([text, at], i) => ({ xAxis: at, label: { formatter: "knee " + text, backgroundColor: css("--card"), padding: [1, 3], position: ["insideEndTop", "insideMiddleTop", "insideStartTop"][i % 3] } }));
  const withKnees = (series) => { const marks = kneeMarks(); if (series.length && marks.length) series[0].markLine = mark(marks); return series; };
  /* Published ramps, by machine and store. */
  const others = data.references.filter((r) => moves && r.in_flight && r.mb_per_s && ramped.some((x) => x.operation === r.operation));
  const publishedRamps = () => [...new Set(others.map((r) => r.label.replace(/ \S+ \(published.*$/, "")))].map((name, i) => ({ name: name + " (published, not measured here)", type: "line", symbol: "emptyDiamond", symbolSize: 6, lineStyle: { type: "dotted", width: 1 }, itemStyle: { color: color(i + 2), opacity: 0.7 }, data: others.filter((r) => r.label.startsWith(name + " ") && !/ (ALL|warmup) /.test(r.label)).map((r) => [r.in_flight, r.mb_per_s]) }));
  const rampChart = (id, title, note, name, pick, more) => chart({ section: "Rising load", id, title, note, open: id === "ramp-throughput", wide: id === "ramp-throughput",
    option: () => base({ xAxis: axis("operations in flight (time average)", { type: "value", min: 0 }), yAxis: valueAxis(name, more),
      legend: several || (others.length > 0 && id === "ramp-throughput"),
      series: (id === "ramp-throughput" ? publishedRamps() : []).concat(withKnees(stepGroups().flatMap((g, i) => pick(g).map(([label, data, type]) => ({ name: [g.name, label].filter(Boolean).join(" "), type: "line", symbolSize: 7, data, itemStyle: { color: color(several ? g.subject : i) }, lineStyle: { type: type || "solid" } }))))), tooltip: Object.assign(base({}).tooltip, { trigger: "item", formatter: (p) => `${escapeText(p.seriesName)}<br>${num(p.value[0])} in flight<br>${num(p.value[1])} ${name}` }) }),
    table: stepTable });
  rampChart("ramp-throughput", "Throughput against concurrency", "Beyond the bend of the curve, more operations in flight only add latency. Dashed: the knee.", unit, (g) => [["", g.rows.map((r) => [r.in_flight, throughput(r)])]]);
  rampChart("ramp-efficiency", "Efficiency against concurrency", "Throughput per operation in flight.", unit + " each", (g) => [["", g.rows.map((r) => [r.in_flight, r.in_flight > 0 ? throughput(r) / r.in_flight : null])]]);
  rampChart("ramp-latency", "Latency against concurrency", "Median (solid) and 99th percentile (dashed).", "ms", (g) => [["p50", g.rows.map((r) => [r.in_flight, atLeast(r, 2)]), "solid"], ["p99", g.rows.map((r) => [r.in_flight, atLeast(r, 100)]).filter((p) => p[1] !== null), "dashed"]]);
}
if (searches.length) {
  /* The curve has one point for each load: the mean of its steps. A search by rate shows only its open loops. */
  const curve = (g, x) => {
    const open = g.rows.some((r) => r.offered_per_s !== null), loads = new Map();
    g.rows.filter((r) => !open || r.offered_per_s !== null).forEach((r) => {
      const ms = atLeast(r, x), load = open ? Number(r.offered_per_s.toPrecision(3)) : r.concurrency;
      if (ms !== null) loads.set(load, (loads.get(load) || []).concat([[r.per_s, ms]]));
    });
    const mean = (steps, i) => steps.reduce((sum, s) => sum + s[i], 0) / steps.length;
    return [...loads.entries()].sort((a, b) => a[0] - b[0]).map(([, steps]) => [mean(steps, 0), mean(steps, 1)]);
  };
  const objectives = searches.flatMap((c) => c.objectives).join(", ");
  chart({ section: "Rising load", id: "capacity", wide: true, open: true, title: "Latency against throughput", note: "Each point is a load of the search" + (objectives ? ` for the highest rate that meets ${objectives}` : "") + ". Dashed: the capacity. The latency axis is logarithmic, so it has no zero.",
    option: () => { const marks = searches.filter((c) => c.per_s).map((c) => ({ xAxis: c.per_s, label: { formatter: num(c.per_s) + "/s" } }));
      return base({ xAxis: axis("successful operations/s", { type: "value", min: 0 }), yAxis: logAxis("ms", { nameGap: 48 }), legend: true, grid: { left: 66, right: 44, top: 30, bottom: 48 },
        series: stepGroups().flatMap((g) => [["p50", 2, 0], ["p90", 10, 1], ["p99", 100, 2]].map(([q, x, i]) => ({ name: `${g.name} ${q}`, type: "line", symbolSize: 6, itemStyle: { color: color(i) }, data: curve(g, x), markLine: i === 0 && marks.length ? mark(marks) : undefined })).filter((s) => s.data.length)) }); },
    table: stepTable });
  /* Closed loops of the search: the mean throughput of each number of operations in flight. */
  const byConcurrency = (steps) => {
    const loads = new Map();
    steps.filter((s) => s.in_flight && s.achieved_per_s > 0).forEach((s) => loads.set(s.in_flight, (loads.get(s.in_flight) || []).concat([s.achieved_per_s])));
    return [...loads.entries()].sort((a, b) => a[0] - b[0]).map(([n, rates]) => [n, rates.reduce((sum, x) => sum + x, 0) / rates.length]);
  };
  const closed = data.runs.filter((run) => run.capacity && byConcurrency(run.capacity.steps).length > 1);
  const closedName = (run) => (data.subjects.find((s) => s.run === run.id) || { name: run.id }).name;
  if (closed.length) chart({ section: "Rising load", id: "capacity-concurrency", wide: true, open: true, title: "Throughput against concurrency", note: "Closed loops of the search: successful operations per second by operations in flight. Where the curve is flat, more in flight only add latency; where it falls, the store does less under more load.",
    option: () => base({ xAxis: axis("operations in flight", { type: "log", min: 1 }), yAxis: valueAxis("operations/s"), legend: closed.length > 1,
      series: closed.map((run, i) => ({ name: closedName(run), type: "line", symbolSize: 6, itemStyle: { color: color(i) }, data: byConcurrency(run.capacity.steps) })) }),
    table: () => [["store", "operations in flight", "operations/s"]].concat(closed.flatMap((run) => byConcurrency(run.capacity.steps).map(([n, rate]) => [closedName(run), n, rate]))) });
}
const sweptName = (run, s) => (data.subjects.find((x) => x.run === run.id && x.store === s.store) || { name: s.store }).name;
const sweeps = data.runs.flatMap((run) => run.sweeps.map((s) => Object.assign({ name: sweptName(run, s) }, s))).filter((s) => Object.keys(s.points[0].at).length);
if (sweeps.length) {
  const words = (field) => field.replace(/_/g, " ");
  const values = (s, field) => [...new Set(s.points.map((p) => p.at[field]))];
  /* Swept fields: the load is the columns. */
  const loads = ["concurrency", "rate", "parts_in_flight"];
  const fields = (s) => Object.keys(s.points[0].at).sort((a, b) => loads.includes(a) - loads.includes(b));
  const uploads = (s) => s.points.every((p) => "part_size" in p.at);
  const figures = (s) => uploads(s)
    ? [["throughput of an upload in MB/s", (p) => (p.bytes_per_s || 0) / 1e6]]
    : [["operations/s", (p) => p.achieved_per_s], ["MB/s", (p) => p.throughput_bytes_per_s / 1e6], ["p50 in ms", (p) => p.p50_ms], ["p99 in ms", (p) => p.p99_ms]].filter(([, of]) => s.points.some((p) => of(p)));
  const views = sweeps.flatMap((s) => figures(s).map(([name, of]) => ({ s, name, of })));
  const title = (v) => [sweeps.some((s) => s.name !== v.s.name) ? v.s.name : "", sweeps.some((s) => s.operation !== v.s.operation || s.sweep !== v.s.sweep) ? v.s.operation : "", v.name].filter(Boolean).join(" ");
  chart({ section: "Sweep", id: "sweep", wide: true, open: true, title: views.some((v) => uploads(v.s)) ? "Upload settings" : "Every combination", note: (sweeps.some((s) => s.recommended) ? "Framed: the recommended setting." : "Framed: the highest rate and throughput, the lowest latency.") + (sweeps.some((s) => s.points.some((p) => p.client_limited)) ? " *: limited by this client." : ""),
    choices: () => views.map(title),
    option: () => { const { s, name, of } = views[spec("sweep").choice], names = fields(s), [y, x] = names.length > 1 ? names : [null, names[0]];
      const xs = values(s, x), ys = y ? values(s, y) : [""], found = s.points.map(of), lowest = name.endsWith("ms");
      const best = s.recommended ? s.points.findIndex((p) => JSON.stringify(p.at) === JSON.stringify(s.recommended.at)) : found.indexOf((lowest ? Math.min : Math.max)(...found.filter((v) => v !== null)));
      const stops = dark() ? ["#14354a", "#1f6f9f", "#56b4e9"] : ["#eaf3f9", "#a9cfe6", "#7fb8dc"], top = Math.max(...found, 1e-9);
      const ink = (value) => inkOn(echarts.color.lerp(Math.min(value / top, 1), stops));
      return base({ legend: undefined, grid: { left: y ? 84 : 24, right: 24, top: 10, bottom: 90 }, tooltip: Object.assign(base({}).tooltip, { trigger: "item", formatter: (p) => `${escapeText([y ? words(y) + " " + ys[p.value[1]] : "", words(x) + " " + xs[p.value[0]]].filter(Boolean).join(", "))}<br>${num(p.value[2])} ${name}` }),
        xAxis: axis(words(x), { type: "category", data: xs }), yAxis: axis(y ? words(y) : "", { type: "category", data: ys, nameGap: 66, inverse: true }),
        visualMap: { min: 0, max: top, text: [num(top), "0"], orient: "horizontal", left: "center", bottom: 0, textStyle: { color: css("--soft"), fontSize: 10 }, inRange: { color: stops } },
        series: [{ type: "heatmap", label: { show: true, formatter: (p) => num(p.value[2]) + (s.points[p.dataIndex].client_limited ? "*" : "") }, emphasis: { disabled: true },
          data: s.points.map((p, i) => ({ value: [xs.indexOf(p.at[x]), y ? ys.indexOf(p.at[y]) : 0, found[i]], label: { color: ink(found[i]) }, itemStyle: i === best ? { borderColor: "#d55e00", borderWidth: 3 } : undefined })) }] }); },
    table: () => [["store", "operation", ...fields(sweeps[0]).map(words), "operations", "failed", "retries", "operations/s", "MB/s", "p50 ms", "p99 ms"]].concat(sweeps.flatMap((s) => s.points.map((p) => [s.name, s.operation, ...fields(s).map((f) => p.at[f]), p.operations, p.failed, p.retries, p.achieved_per_s, p.throughput_bytes_per_s / 1e6, p.p50_ms, p.p99_ms]))) });
}
