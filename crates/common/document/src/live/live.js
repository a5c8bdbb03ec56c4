"use strict";
/* A live page: fetches itself again every few seconds, replaces the parts that have changed, and sends forms without
   leaving the page. */
(() => {
  const root = document.documentElement, body = document.body;
  const darkQuery = matchMedia("(prefers-color-scheme: dark)");
  let chosen = null;
  const dark = () => (chosen === null ? darkQuery.matches : chosen);
  const applyTheme = () => { root.dataset.theme = dark() ? "dark" : "light"; };
  const button = (id) => document.getElementById(id);
  applyTheme();
  darkQuery.addEventListener("change", applyTheme);
  button("theme").hidden = false;
  button("theme").onclick = () => { chosen = !dark(); applyTheme(); };

  /* Long tables show their first rows. */
  const fold = (part) => part.querySelectorAll(".more").forEach((more) => {
    const table = more.parentElement.previousElementSibling.querySelector("table"), few = more.textContent;
    table.classList.add("short");
    more.onclick = () => { const short = table.classList.toggle("short"); more.setAttribute("aria-expanded", String(!short)); more.textContent = short ? few : "Show fewer"; };
  });
  fold(document);

  /* Replaces the content of a part. The focus stays in its place, tables stay open and where they were scrolled to. */
  const FOCUSABLE = "a, button, input, select, summary, [tabindex]";
  function replace(part, fresh) {
    const source = fresh.innerHTML;
    if (part.innerHTML === source || part.dataset.source === source) return;
    const focused = [...part.querySelectorAll(FOCUSABLE)].indexOf(document.activeElement);
    const open = [...part.querySelectorAll(".more")].map((more) => more.getAttribute("aria-expanded") === "true");
    const scrolled = [...part.querySelectorAll(".scroll")].map((box) => box.scrollLeft);
    part.replaceChildren(...document.importNode(fresh, true).childNodes);
    part.dataset.source = source;
    fold(part);
    part.querySelectorAll(".more").forEach((more, i) => { if (open[i]) more.click(); });
    part.querySelectorAll(".scroll").forEach((box, i) => { box.scrollLeft = scrolled[i] || 0; });
    if (focused >= 0) [...part.querySelectorAll(FOCUSABLE)][focused]?.focus({ preventScroll: true });
  }

  const every = Number(body.dataset.every) * 1000, stale = document.getElementById("stale");
  let paused = false, lastGood = new Date(), asked = 0;
  const parse = (text) => new DOMParser().parseFromString(text, "text/html");

  async function update() {
    if (paused || document.hidden) return;
    const number = ++asked;
    let page = null;
    try {
      const answer = await fetch(location.pathname + location.search, { signal: AbortSignal.timeout(30000), cache: "no-store" });
      page = parse(await answer.text());
    } catch { /* There is no page. */ }
    /* An older answer must not replace a newer one, and a page that pauses does not change. */
    if (number !== asked || paused) return;
    if (page && page.getElementById("state")) {
      document.querySelectorAll("[data-part]").forEach((part) => { const fresh = page.getElementById(part.id); if (fresh) replace(part, fresh); });
      lastGood = new Date();
      stale.hidden = true;
      root.classList.remove("stale");
      return;
    }
    const text = `No answer since ${lastGood.toLocaleTimeString()}: ${body.dataset.program} may have ended. The figures are from that time.`;
    if (stale.textContent !== text) stale.textContent = text;
    stale.hidden = false;
    root.classList.add("stale");
  }
  if (every > 0) {
    const loop = () => setTimeout(() => update().finally(loop), every);
    loop();
    document.addEventListener("visibilitychange", update);
    const pause = button("pause");
    pause.hidden = false;
    pause.onclick = () => { paused = !paused; pause.setAttribute("aria-pressed", String(paused)); if (!paused) update(); };
  }

  /* Sliders show and send the text of their position. */
  document.querySelectorAll("input[type=range]").forEach((slider) => {
    const stops = slider.dataset.stops.split("|");
    slider.oninput = () => { slider.setAttribute("aria-valuetext", stops[slider.value]); slider.nextElementSibling.value = stops[slider.value]; };
    slider.oninput();
    slider.onchange = () => slider.form.requestSubmit();
  });
  function fieldsOf(form, button) {
    const fields = new URLSearchParams(new FormData(form));
    form.querySelectorAll("input[type=range]").forEach((slider) => fields.set(slider.name, slider.dataset.stops.split("|")[slider.value]));
    if (button && button.name) fields.set(button.name, button.value);
    return fields;
  }

  /* The account stays in its fields, and is sent only with changes. */
  const account = document.querySelector("form[data-account]");
  function authorization() {
    const [key, secret] = [...account.elements].filter((e) => e.tagName === "INPUT").map((e) => e.value);
    const bytes = new TextEncoder().encode(`${key}:${secret}`);
    return "Basic " + btoa(String.fromCharCode(...bytes));
  }

  /* Sends a form, and puts the answer into the page. */
  async function send(form, button) {
    const result = document.getElementById(form.dataset.into), fields = fieldsOf(form, button), changes = form.method === "post";
    let problem = `No answer: ${body.dataset.program} may have ended.`;
    try {
      const request = changes ? { method: "POST", body: fields, headers: { Authorization: authorization() } } : {};
      const answer = await fetch(form.getAttribute("action") + (changes ? "" : "?" + fields), request);
      const text = await answer.text(), fresh = parse(text).getElementById(form.dataset.into);
      problem = fresh ? "" : `The answer has the status ${answer.status}: ${text.slice(0, 200)}`;
      if (fresh) replace(result, fresh);
    } catch { /* There is no answer. */ }
    if (problem) { result.textContent = problem; delete result.dataset.source; }
    document.getElementById("said").textContent = (result.querySelector(".result") || result).textContent.trim();
    if (changes) update();
  }

  /* A form waits for its answer. What is asked meanwhile is asked afterwards, but changes are not. */
  const changing = [...document.querySelectorAll("form[method=post] button")];
  document.querySelectorAll("form").forEach((form) => {
    let busy = false, again = false;
    form.onsubmit = async (event) => {
      event.preventDefault();
      if (form === account) return;
      const changes = form.method === "post", result = document.getElementById(form.dataset.into);
      if (busy) { again = !changes; return; }
      busy = true;
      if (changes) changing.forEach((button) => { button.disabled = true; });
      result.setAttribute("aria-busy", "true");
      do { again = false; await send(form, event.submitter); } while (again);
      result.removeAttribute("aria-busy");
      if (changes) changing.forEach((button) => { button.disabled = false; });
      busy = false;
    };
  });
  window.plimsoll = { update };
})();
