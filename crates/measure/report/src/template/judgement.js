/* Comparisons with their confidence intervals. */
const compared = data.comparisons.flatMap((c) => c.rows.filter((r) => r.change !== null && r.unit !== "share").map((r) => {
  /* A latency is inverted: in one chart, right of 1 is always better. */
  const [speed, low, high] = r.unit === "ms" ? [1 / r.change, 1 / r.change_high, 1 / r.change_low] : [r.change, r.change_low, r.change_high];
  return Object.assign({ speed, low, high, label: [data.comparisons.length > 1 ? c.other.name : "", r.phase === r.operation ? "" : r.phase, r.operation, r.metric].filter(Boolean).join(" ") }, r);
}));
if (compared.length) {
  const tone = (r) => (r.verdict === "faster" ? "#0072b2" : r.verdict === "slower" ? "#d55e00" : css("--soft"));
  chart({ section: "Comparison", id: "forest", wide: true, rows: compared.length, title: "Speed with 95% intervals", note: "How many times as fast: " + data.comparisons.map((c) => `${c.other.name} as ${c.base.name}`).join("; ") + ". For a latency, this is the inverse of its ratio, so right of 1 is always faster. If the interval contains 1, no difference was shown. Blue: faster. Orange: slower. The axis is logarithmic.",
    option: () => base({ legend: undefined, grid: { left: 16, right: 40, top: 10, bottom: 44, containLabel: true },
      tooltip: Object.assign(base({}).tooltip, { trigger: "item", formatter: (p) => { const r = compared[p.dataIndex]; return `${escapeText(r.label)}<br>${r.speed.toFixed(3)} times as fast [${r.low.toFixed(3)} – ${r.high.toFixed(3)}]<br>${r.verdict}`; } }),
      xAxis: axis("times as fast", { type: "log", axisLabel: { color: css("--soft"), fontSize: 11, formatter: (x) => String(Number(x.toPrecision(3))) }, min: (v) => Math.min(0.9, v.min * 0.97), max: (v) => Math.max(1.1, v.max * 1.03) }),
      yAxis: axis("", { type: "category", inverse: true, data: compared.map((r) => r.label), axisLabel: { color: css("--soft"), fontSize: 11, width: 260, overflow: "truncate" }, splitLine: { show: false } }),
      series: [{ type: "custom", data: compared.map((r, i) => [r.speed, i, r.low, r.high]), encode: { x: [0, 2, 3], y: 1 },
        renderItem: (_, api) => { const r = compared[api.value(1)], at = (x) => api.coord([x, api.value(1)]), [x, y] = at(api.value(0)), [l] = at(api.value(2)), [h] = at(api.value(3)), stroke = tone(r), line = (x1, y1, x2, y2) => ({ type: "line", shape: { x1, y1, x2, y2 }, style: { stroke, lineWidth: 2 } });
          return { type: "group", children: [line(l, y, h, y), line(l, y - 5, l, y + 5), line(h, y - 5, h, y + 5), { type: "rect", shape: { x: x - 5, y: y - 5, width: 10, height: 10 }, style: { fill: stroke } }] }; },
        markLine: mark([{ xAxis: 1, label: { show: false } }]) }] }),
    table: () => [["figure", "times as fast", "low", "high", "ratio of the figures", "verdict", "probability", "primary"]].concat(compared.map((r) => [r.label, r.speed, r.low, r.high, r.change, r.verdict, r.probability, r.primary ? "yes" : ""])) });
}
