"use strict";
/* Common parts of all charts: data, colours, themes, cards with their buttons, and drawing. */
const data = JSON.parse(document.getElementById("data").textContent);
window.plimsoll = { charts: 0, drawn: 0, empty: [], errors: [] };
window.addEventListener("error", (e) => window.plimsoll.errors.push(String(e.message)));

/* Six colours by Okabe and Ito, and two more, which are distinguishable with any colour vision (test_colours.py); further
   subjects differ in their dashes. */
const PALETTE = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8800ff", "#884422"];
const DASHES = ["solid", "dashed", "dotted", [12, 4, 2, 4]];
const color = (i) => PALETTE[i % PALETTE.length];
const dash = (i) => DASHES[Math.floor(i / PALETTE.length) % DASHES.length];

const root = document.documentElement;
const darkQuery = matchMedia("(prefers-color-scheme: dark)");
let chosen = null;
const dark = () => (chosen === null ? darkQuery.matches : chosen);
const applyTheme = () => { root.dataset.theme = dark() ? "dark" : "light"; };
applyTheme();
const css = (name) => getComputedStyle(root).getPropertyValue(name).trim();

const hidden = new Set();
const shown = (subject) => !hidden.has(subject);
const subjectName = (i) => data.subjects[i].name;
const several = data.subjects.length > 1;

/* Formats a number with about three significant digits. */
function num(x) {
  if (x === null || x === undefined || !isFinite(x)) return "–";
  const a = Math.abs(x);
  if (a === 0) return "0";
  if (a >= 1e6) return x.toExponential(2).replace("e+", "e");
  if (a >= 1000) return String(Math.round(x)).replace(/\B(?=(\d{3})+$)/g, ",");
  return a >= 100 ? x.toFixed(0) : a >= 10 ? x.toFixed(1) : a >= 1 ? x.toFixed(2) : Number(x.toPrecision(2)).toString();
}
const tick = (x) => (Math.abs(x) >= 1000 ? num(x) : String(Number(Number(x).toPrecision(6))));
const clock = (s) => (s >= 3600 ? Math.floor(s / 3600) + ":" : "") + (s >= 3600 ? String(Math.floor(s / 60) % 60).padStart(2, "0") : Math.floor(s / 60)) + ":" + String(Math.floor(s) % 60).padStart(2, "0");

function axis(name, more) {
  return Object.assign({
    name, nameLocation: "middle", nameGap: 30, nameTextStyle: { color: css("--soft"), fontSize: 11 },
    axisLabel: { color: css("--soft"), fontSize: 11, formatter: more && more.type === "category" ? undefined : tick, hideOverlap: true },
    axisLine: { lineStyle: { color: css("--line") } }, axisTick: { show: false },
    splitLine: { lineStyle: { color: css("--line") } },
  }, more);
}
/* A logarithmic axis limited to the range of the data. */
const logAxis = (name, more) => axis(name, Object.assign({ type: "log", min: (v) => floorLog(v.min), max: (v) => ceilLog(v.max) }, more));
const nice = [1, 2, 5, 10];
function floorLog(x) { const e = Math.pow(10, Math.floor(Math.log10(x))); return e * nice.filter((n) => n * e <= x * 1.0001).pop(); }
function ceilLog(x) { const e = Math.pow(10, Math.floor(Math.log10(x))); return e * nice.find((n) => n * e >= x * 0.9999); }
const valueAxis = (name, more) => axis(name, Object.assign({ type: "value", min: 0, nameGap: 48 }, more));
function base(more) {
  return Object.assign({
    animation: false, backgroundColor: "transparent", textStyle: { color: css("--ink"), fontFamily: "inherit" },
    grid: { left: 66, right: 24, top: 20, bottom: 48, containLabel: false }, legend: several,
    tooltip: { trigger: "axis", confine: true, backgroundColor: css("--card"), borderColor: css("--line"), textStyle: { color: css("--ink"), fontSize: 12 }, valueFormatter: num },
  }, more);
}
/* Black or white, whichever is readable on a colour: at a luminance of 0.179, both have the same contrast. */
function inkOn(background) {
  const part = (c) => (c <= 10.3 ? c / 3295 : ((c / 255 + 0.055) / 1.055) ** 2.4), [r, g, b] = echarts.color.parse(background);
  return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b) > 0.179 ? "#000" : "#fff";
}
/* Dashed lines with labels, for knees and published figures. */
const mark = (items) => ({ silent: true, symbol: "none", label: { color: css("--soft"), fontSize: 10, position: "insideEndTop" }, lineStyle: { color: css("--soft"), type: "dashed", width: 1 }, data: items });

/* Published results as dashed lines at the value of `figure`. A line has a short label, which the key below the chart explains. */
const publishedLines = (figure, operations) => mark(data.references.filter((r) => r[figure] > 0 && operations.has(r.operation)).slice(0, 12).map((r) => ({ yAxis: r[figure], label: { formatter: "P" + (data.references.indexOf(r) + 1) }, published: r.label })));

const cards = [];
const spec = (id) => cards.find((c) => c.id === id);
function escapeText(text) { const span = document.createElement("span"); span.textContent = text; return span.innerHTML; }

/* Adds a chart: { section, id, title, note, wide, rows: number of named rows, whose count sets the height, option(width):
   ECharts option for a width in pixels, whose `legend` says if the series need names, table(): [header, ...rows] }. */
function chart(spec) { cards.push(spec); window.plimsoll.charts++; }

/* Sections that answer the question of a run; they are above the table of figures. */
const FIRST = ["Comparison", "Rising load", "Sweep"];

/* Height in pixels of a chart of `rows` named rows and an axis below them. */
const heightOf = (rows) => 90 + 36 * rows;

function make(spec) {
  let host = document.querySelector(`[data-section="${spec.section}"] .grid`);
  if (!host) {
    const section = document.createElement("section");
    section.dataset.section = spec.section;
    section.innerHTML = `<h2>${escapeText(spec.section)}</h2><div class="grid"></div>`;
    const first = document.getElementById("first");
    (first && FIRST.includes(spec.section) ? first : document.getElementById("charts")).append(section);
    host = section.querySelector(".grid");
  }
  const card = document.createElement("article");
  card.className = spec.wide ? "card wide" : "card";
  card.id = spec.id;
  card.innerHTML = `<h3>${escapeText(spec.title)}</h3><p>${escapeText(spec.note || "")}</p><div class="choice"></div><div class="plot" role="img" aria-label="${escapeText(spec.title)}; the Table button shows its numbers"></div><div class="legend"></div><ul class="key"></ul><div class="actions"></div>`;
  host.append(card);
  spec.card = card;
  spec.plot = card.querySelector(".plot");
  if (spec.rows) spec.plot.style.height = heightOf(spec.rows) + "px";
  if (spec.choices) {
    const select = document.createElement("select");
    select.setAttribute("aria-label", spec.title + ": selection");
    spec.choices().forEach((name, i) => select.add(new Option(name, i)));
    select.onchange = () => { spec.choice = Number(select.value); draw(spec); };
    spec.choice = 0;
    if (select.options.length > 1) card.querySelector(".choice").append(select);
  }
  const act = (name, action) => {
    const button = document.createElement("button");
    button.type = "button"; button.textContent = name;
    button.setAttribute("aria-label", `${spec.title}: ${name}`);
    button.onclick = action;
    card.querySelector(".actions").append(button);
  };
  act("PNG", () => save(spec.id + ".png", picture(spec, "canvas", (still) => still.getDataURL({ type: "png", pixelRatio: 2 }))));
  act("SVG", () => save(spec.id + ".svg", URL.createObjectURL(new Blob([picture(spec, "svg", (still) => still.renderToSVGString())], { type: "image/svg+xml" }))));
  act("CSV", () => save(spec.id + ".csv", URL.createObjectURL(new Blob([csv(spec.table())], { type: "text/csv" }))));
  act("Table", () => toggleTable(spec));
  if (spec.open) toggleTable(spec);
}
function save(name, url) { const a = document.createElement("a"); a.href = url; a.download = name; a.click(); }
/* Draws a chart for a file. Its legend is a list below the axes, one name per line. */
function picture(spec, renderer, convert) {
  const width = 900, option = spec.option(width), names = legendEntries(option).map((s) => s.name), line = 20, height = (spec.rows ? heightOf(spec.rows) : 420) + line * names.length;
  const still = echarts.init(renderer === "svg" ? null : document.createElement("div"), null, { renderer, ssr: renderer === "svg", width, height });
  const legend = names.length ? { type: "plain", orient: "vertical", left: 60, bottom: 6, itemGap: line - 14, data: names, textStyle: { color: css("--ink"), fontSize: 12 } } : undefined;
  const grid = Object.assign({}, option.grid, { bottom: (option.grid.bottom || 48) + line * names.length });
  still.setOption(Object.assign(option, { legend, grid, backgroundColor: css("--card"), textStyle: { color: css("--ink"), fontFamily: "sans-serif" } }));
  const drawn = convert(still);
  still.dispose();
  return drawn;
}
/* The first series of each name, if the chart needs names. */
const legendEntries = (option) => (option.legend ? (option.series || []).filter((s, i, all) => s.name && all.findIndex((o) => o.name === s.name) === i) : []);
/* The legend is a part of the page, so that names are never cut off. A name switches its series. */
function drawLegend(spec, entries) {
  const box = spec.card.querySelector(".legend");
  box.replaceChildren(...entries.map((s) => {
    const button = document.createElement("button"), swatch = document.createElement("i");
    const line = s.type === "line" ? (s.lineStyle && s.lineStyle.type) || "solid" : null;
    if (line) swatch.style.borderTop = `3px ${typeof line === "string" ? line : "dashed"} ${s.itemStyle.color}`;
    else { swatch.className = s.symbol || "block"; swatch.style.color = s.itemStyle.color; }
    button.type = "button";
    button.append(swatch, s.name);
    button.setAttribute("aria-pressed", String(!spec.off.has(s.name)));
    button.onclick = () => { if (!spec.off.delete(s.name)) spec.off.add(s.name); draw(spec); };
    return button;
  }));
}
function csv(rows) { return rows.map((r) => r.map((c) => { const t = c === null || c === undefined ? "" : String(c); return /[",\n]/.test(t) ? `"${t.replace(/"/g, '""')}"` : t; }).join(",")).join("\n") + "\n"; }
function toggleTable(spec) {
  const old = spec.card.querySelector(".alternative");
  if (old) { old.remove(); return; }
  const rows = spec.table(), most = 500;
  const cell = (tag) => (c) => `<${tag}>${escapeText(typeof c === "number" ? num(c) : c === null || c === undefined ? "–" : String(c))}</${tag}>`;
  const box = document.createElement("div");
  box.className = "alternative"; box.tabIndex = 0;
  box.innerHTML = `<table><thead><tr>${rows[0].map(cell("th")).join("")}</tr></thead><tbody>${rows.slice(1, most + 1).map((r) => `<tr>${r.map(cell("td")).join("")}</tr>`).join("")}</tbody></table>` + (rows.length - 1 > most ? `<p class="note">first ${most} of ${rows.length - 1} rows; the CSV file has all rows</p>` : "");
  spec.card.append(box);
}
function draw(spec) {
  const option = spec.option(spec.plot.clientWidth), entries = legendEntries(option);
  spec.off = spec.off || new Set();
  option.legend = { show: false, selected: Object.fromEntries([...spec.off].map((name) => [name, false])) };
  if (!spec.instance) {
    spec.instance = echarts.init(spec.plot, null, { renderer: "canvas" });
    window.plimsoll.drawn++;
  }
  const points = (option.series || []).reduce((n, s) => n + (s.data ? s.data.length : 0), 0);
  if (points === 0 && hidden.size === 0) window.plimsoll.empty.push(spec.id);
  spec.instance.setOption(option, { notMerge: true });
  drawLegend(spec, entries);
  const marks = (option.series || []).flatMap((s) => (s.markLine ? s.markLine.data : [])).filter((m) => m.published);
  spec.card.querySelector(".key").innerHTML = marks.map((m) => `<li><b>${m.label.formatter}</b> ${escapeText(m.published)}</li>`).join("");
  spec.fresh = true;
}
function drawAll() { cards.forEach((spec) => { if (!spec.fresh) draw(spec); }); }
function redraw() {
  cards.forEach((spec) => {
    spec.fresh = false;
    const box = spec.plot.getBoundingClientRect();
    if (spec.instance && box.bottom > 0 && box.top < innerHeight) draw(spec);
  });
}
