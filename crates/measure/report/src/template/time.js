/* Charts over the time of a run. */
const allLines = data.runs.flatMap((run, r) => run.lines.map((line) => Object.assign(line, { run: r })));
const operations = new Set(allLines.map((l) => l.operation));
const lineName = (l) => [subjectName(l.subject), operations.size > 1 ? l.operation : ""].filter(Boolean).join(" ");
const lineColor = (l) => (several ? l.subject : [...operations].indexOf(l.operation));
/* With several subjects, colours tell the subjects and dashes the operations. */
const lineDash = (l) => (several ? DASHES[[...operations].indexOf(l.operation) % DASHES.length] : dash(lineColor(l)));
const points = (l, values) => l.at_s.map((t, i) => [t, values[i]]);
const manyLines = allLines.length > 1;

/* Phases as bands behind the curves, for axes with a width in pixels and a range in seconds; only those of the first visible
   run are drawn. */
function phaseBands(width, [from, to]) {
  const run = data.runs.find((_, r) => allLines.some((l) => l.run === r && shown(l.subject)));
  if (!run) return undefined;
  const bands = [];
  run.bands.filter((b) => b.role !== "prepare").forEach((b) => {
    const last = bands[bands.length - 1];
    if (last && last.name === b.name && b.from_s <= last.to_s + 3) last.to_s = Math.max(last.to_s, b.to_s);
    /* Phases that begin in the same second share a band without a name. */
    else if (last && b.from_s <= last.from_s) Object.assign(last, { name: "", to_s: Math.max(last.to_s, b.to_s) });
    else {
      if (last) last.to_s = Math.min(last.to_s, b.from_s);
      bands.push(Object.assign({}, b));
    }
  });
  if (bands.length > 40) return undefined;
  /* A label that is wider than its band is left out; the tooltip of the card's table names all phases. */
  const fits = (b) => ((Math.min(b.to_s, to) - Math.max(b.from_s, from)) / (to - from)) * width > 6.5 * b.name.length + 8;
  return { silent: true, label: { color: css("--soft"), fontSize: 10, position: "insideTop", overflow: "truncate" }, data: bands.map((b, i) => [{ name: fits(b) ? b.name : "", xAxis: b.from_s, itemStyle: { color: i % 2 ? "rgba(127,140,160,0.05)" : "rgba(127,140,160,0.12)" } }, { xAxis: b.to_s }]) };
}
function errorMarks() {
  return allLines.filter((l) => shown(l.subject)).flatMap((l) => l.at_s.filter((_, i) => Object.values(l.errors).some((n) => n[i] > 0)).map((t) => t));
}
/* The range of a time axis: whole seconds, or multiples of ten seconds in runs of over a minute. */
function timeRange() {
  const at = allLines.flatMap((l) => [l.at_s[0], l.at_s[l.at_s.length - 1]]).filter((t) => t !== undefined), [first, last] = [Math.min(...at), Math.max(...at)];
  const unit = last - first > 60 ? 10 : 1, from = Math.floor(first / unit) * unit;
  return [from, Math.max(Math.ceil(last / unit) * unit, from + unit)];
}
const timeAxis = () => axis("seconds of the run, m:ss", { type: "value", minInterval: 1, min: timeRange()[0], max: timeRange()[1], axisLabel: { color: css("--soft"), fontSize: 11, formatter: clock, hideOverlap: true, showMaxLabel: false } });

function overTime(width, name, pick, more) {
  const bands = phaseBands(width - 90, timeRange()), errors = more && more.errors ? errorMarks() : [];
  const lines = allLines.filter((l) => shown(l.subject) && pick(l).some((v) => v !== null));
  const series = lines.map((l, i) => ({
    name: lineName(l), type: "line", showSymbol: l.at_s.length < 3, connectNulls: false, data: points(l, pick(l)),
    lineStyle: { width: 1.6, type: lineDash(l) }, itemStyle: { color: color(lineColor(l)) },
    markArea: i === 0 ? bands : undefined, emphasis: { disabled: lines.length > 8 },
  }));
  if (errors.length && series.length) {
    const step = Math.ceil(errors.length / 400);
    series.push({ name: "seconds with errors", type: "scatter", symbol: "triangle", symbolSize: 7, itemStyle: { color: "#d55e00" }, data: errors.filter((_, i) => i % step === 0).map((t) => [t, 0]), tooltip: { show: false } });
  }
  const y = valueAxis(name, more && more.axis);
  if (more && more.published && series.length) {
    const marks = publishedLines(more.published, operations), at = marks.data.map((m) => m.yAxis);
    series[0].markLine = marks;
    /* The axis includes the reference lines. */
    if (at.length && y.type === "log") Object.assign(y, { min: (v) => floorLog(Math.min(v.min, ...at)), max: (v) => ceilLog(Math.max(v.max, ...at)) });
    else if (at.length) y.max = (v) => Math.max(v.max, ...at) * 1.05;
  }
  return base({ xAxis: timeAxis(), yAxis: y, series, dataZoom: [{ type: "inside", filterMode: "none" }],
    legend: manyLines || errors.length > 0 });
}
const timeTable = (columns) => () => [["series", "second"].concat(columns.map((c) => c[0]))].concat(allLines.flatMap((l) => l.at_s.map((t, i) => [lineName(l), t].concat(columns.map((c) => c[1](l)[i])))));

if (allLines.some((l) => l.mb_per_s.some((v) => v !== null))) {
  chart({ section: "Over time", id: "throughput", title: "Throughput", note: "Object megabytes per second (decimal). Shaded: phases. Triangles: seconds with errors.",
    option: (width) => overTime(width, "MB/s", (l) => l.mb_per_s, { errors: true, published: "mb_per_s" }), table: timeTable([["MB/s", (l) => l.mb_per_s]]) });
}
if (allLines.length) {
  chart({ section: "Over time", id: "rate", title: "Rate", note: "Successful operations per second.",
    option: (width) => overTime(width, "operations/s", (l) => l.per_s, { errors: true, published: "per_s" }), table: timeTable([["operations/s", (l) => l.per_s]]) });
  /* Percentiles with enough operations in at least one point. */
  const quantiles = [["p50", (l) => l.p50], ["p90", (l) => l.p90], ["p99", (l) => l.p99], ["p99.9", (l) => l.p99_9]].filter((q) => allLines.some((l) => q[1](l).some((v) => v !== null)));
  const published = { p50: "p50_ms", p99: "p99_ms" };
  if (quantiles.length) chart({ section: "Over time", id: "percentiles", wide: true, title: "Latency percentiles", note: "Percentiles of the operations of each point, from merged histograms. The axis is logarithmic, so it has no zero. A gap means that there are too few operations for the percentile.",
    choices: () => quantiles.map((q) => q[0]),
    option: (width) => {
      const [name, pick] = quantiles[spec("percentiles").choice];
      return overTime(width, "ms", pick, { axis: logAxis("ms", { nameGap: 48 }), published: published[name] });
    },
    table: timeTable(quantiles) });
  chart({ section: "Over time", id: "heatmap", wide: true, title: "Latency heatmap", note: "Operations per cell on a logarithmic colour scale. The latency axis is logarithmic, so it has no zero.",
    choices: () => allLines.map(lineName),
    option: () => {
      const l = allLines[spec("heatmap").choice], h = l.heat;
      const most = h.cells.reduce((m, c) => Math.max(m, c[2]), 1);
      return base({
        grid: { left: 66, right: 24, top: 14, bottom: 90 }, legend: undefined,
        tooltip: Object.assign(base({}).tooltip, { trigger: "item", formatter: (p) => `${clock(h.at_s[p.value[0]])}<br>${num(h.edges_ms[p.value[1]])} – ${num(h.edges_ms[p.value[1] + 1])} ms<br>${num(p.value[3])} operations` }),
        xAxis: axis("seconds of the run, m:ss", { type: "category", data: h.at_s.map(clock), axisLabel: { color: css("--soft"), fontSize: 11 } }),
        yAxis: axis(`${l.clocked} time, ms`, { type: "category", data: h.edges_ms.slice(0, -1).map((e) => num(e)), nameGap: 48, axisLabel: { color: css("--soft"), fontSize: 11 } }),
        visualMap: { min: 0, max: Math.log10(most) || 1, dimension: 2, orient: "horizontal", left: "center", bottom: 0, itemHeight: 160, textStyle: { color: css("--soft"), fontSize: 10 }, text: [`${num(most)} operations`, "1"], formatter: (v) => num(Math.pow(10, v)), inRange: { color: dark() ? ["#14354a", "#1f6f9f", "#56b4e9", "#f0e442"] : ["#eaf3f9", "#7fb8dc", "#0b5c8a", "#06263a"] } },
        series: [{ type: "heatmap", data: h.cells.map((c) => [c[0], c[1], Math.log10(c[2]), c[2]]), progressive: 0 }],
      });
    },
    table: () => [["series", "second", "from ms", "to ms", "operations"]].concat(allLines.flatMap((l) => l.heat.cells.map((c) => [lineName(l), l.heat.at_s[c[0]], l.heat.edges_ms[c[1]], l.heat.edges_ms[c[1] + 1], c[2]]))) });
}
const classes = [...new Set(allLines.flatMap((l) => Object.keys(l.errors)))];
if (classes.length) {
  chart({ section: "Over time", id: "errors", wide: true, title: "Errors by class", note: "Failed operations of each point in time.",
    option: () => {
      const bars = classes.map((c, i) => {
        const at = new Map();
        allLines.filter((l) => shown(l.subject) && l.errors[c]).forEach((l) => l.at_s.forEach((t, j) => at.set(t, (at.get(t) || 0) + l.errors[c][j])));
        return { name: c, type: "bar", stack: "errors", itemStyle: { color: color(i + 1) }, barMaxWidth: 12, data: [...at.entries()].sort((a, b) => a[0] - b[0]) };
      });
      return base({ xAxis: timeAxis(), yAxis: valueAxis("failed operations"), series: bars, legend: true });
    },
    table: () => [["series", "second", "class", "failed"]].concat(allLines.flatMap((l) => Object.entries(l.errors).flatMap(([c, n]) => l.at_s.map((t, i) => [lineName(l), t, c, n[i]]).filter((r) => r[3] > 0)))) });
}
