/* Adds the cards to the page. Each one is drawn when it scrolls into view, and the others whenever the page is idle, so that a picture of the whole page shows them all. */
cards.forEach(make);
const seen = new IntersectionObserver((entries) => entries.forEach((e) => { const s = spec(e.target.id); if (e.isIntersecting && s && !s.fresh) draw(s); }), { rootMargin: "300px" });
/* Stale cards outside the view are drawn when they scroll near it. An observer reports a card again only if it is observed anew. */
const idle = window.requestIdleCallback || ((f) => setTimeout(f, 100));
const drawRest = () => { const s = cards.find((card) => !card.fresh); if (s) { draw(s); idle(drawRest); } };
const watch = () => { cards.forEach((s) => { if (!s.fresh) { seen.unobserve(s.card); seen.observe(s.card); } }); idle(drawRest); };
watch();
document.querySelectorAll(".swatch").forEach((s) => { s.style.background = color(Number(s.dataset.subject)); });
if (several) {
  data.subjects.forEach((s, i) => {
    const label = document.createElement("label"), box = document.createElement("input");
    box.type = "checkbox"; box.checked = true;
    box.onchange = () => { if (box.checked) hidden.delete(i); else hidden.add(i); redraw(); watch(); };
    const swatch = document.createElement("span");
    swatch.className = "swatch"; swatch.style.background = color(i); swatch.style.margin = "0";
    label.append(box, swatch, s.name);
    document.getElementById("pick").append(label);
  });
}
document.getElementById("theme").onclick = () => { chosen = !dark(); applyTheme(); redraw(); watch(); };
darkQuery.addEventListener("change", () => { applyTheme(); redraw(); watch(); });
/* Tables show the most important rows first; a button shows the rest. Without JavaScript, all rows are visible. */
document.querySelectorAll(".more").forEach((button) => {
  const table = button.parentElement.previousElementSibling.querySelector("table"), few = button.textContent;
  table.classList.add("short");
  button.onclick = () => { const short = table.classList.toggle("short"); button.setAttribute("aria-expanded", String(!short)); button.textContent = short ? few : "Show fewer"; };
});
addEventListener("beforeprint", () => document.querySelectorAll("table.short").forEach((t) => t.classList.remove("short")));
let resizing = 0;
addEventListener("resize", () => { cancelAnimationFrame(resizing); resizing = requestAnimationFrame(() => { cards.forEach((s) => s.instance && s.instance.resize()); redraw(); watch(); }); });
/* Paper is white, whatever the theme of the screen. */
let onScreen;
addEventListener("beforeprint", () => { onScreen = chosen; chosen = false; applyTheme(); if (dark() !== (onScreen ?? darkQuery.matches)) cards.forEach((s) => { s.fresh = false; }); drawAll(); });
addEventListener("afterprint", () => { chosen = onScreen; applyTheme(); redraw(); watch(); });
document.querySelectorAll("[data-copy]").forEach((b) => { b.onclick = () => { const text = b.previousElementSibling.textContent; (navigator.clipboard ? navigator.clipboard.writeText(text) : Promise.reject()).then(() => { b.textContent = "Copied"; }, () => { const r = document.createRange(); r.selectNodeContents(b.previousElementSibling); const sel = getSelection(); sel.removeAllRanges(); sel.addRange(r); b.textContent = "Selected"; }); }; });
window.plimsoll.drawAll = drawAll;
window.plimsoll.pick = (i) => document.querySelectorAll("#pick input")[i].click();
window.plimsoll.ready = performance.now();
