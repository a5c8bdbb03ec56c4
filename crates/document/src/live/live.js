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

  /* Replaces the content of a part. The focus stays on the same region, and an opened table stays open. */
  function replace(part, fresh) {
    if (part.innerHTML === fresh.innerHTML || part.dataset.source === fresh.innerHTML) return;
    const source = fresh.innerHTML;
    const inside = part.contains(document.activeElement) && document.activeElement !== part;
    const name = inside ? document.activeElement.getAttribute("aria-label") : null;
    const open = [...part.querySelectorAll(".more")].map((more) => more.getAttribute("aria-expanded") === "true");
    part.replaceChildren(...document.importNode(fresh, true).childNodes);
    part.dataset.source = source;
    fold(part);
    part.querySelectorAll(".more").forEach((more, i) => { if (open[i]) more.click(); });
    const again = name && [...part.querySelectorAll("[aria-label]")].find((e) => e.getAttribute("aria-label") === name);
    if (again) again.focus({ preventScroll: true });
  }

  const every = Number(body.dataset.every) * 1000, stale = document.getElementById("stale");
  let paused = false, lastGood = new Date();
  const parse = (text) => new DOMParser().parseFromString(text, "text/html");

  async function update() {
    if (paused || document.hidden) return;
    try {
      const answer = await fetch(location.pathname + location.search, { signal: AbortSignal.timeout(30000), cache: "no-store" });
      if (!answer.ok) throw new Error(String(answer.status));
      const page = parse(await answer.text());
      if (!page.getElementById("state")) throw new Error("another page");
      document.querySelectorAll("[data-part]").forEach((part) => { const fresh = page.getElementById(part.id); if (fresh) replace(part, fresh); });
      lastGood = new Date();
      stale.hidden = true;
      root.classList.remove("stale");
    } catch {
      const text = `No answer since ${lastGood.toLocaleTimeString()}: ${body.dataset.program} may have ended. The figures are from that time.`;
      if (stale.textContent !== text) stale.textContent = text;
      stale.hidden = false;
      root.classList.add("stale");
    }
  }
  if (every > 0) {
    const loop = () => setTimeout(() => update().finally(loop), every);
    loop();
    document.addEventListener("visibilitychange", update);
    const pause = button("pause");
    pause.hidden = false;
    pause.onclick = () => { paused = !paused; pause.setAttribute("aria-pressed", String(paused)); if (!paused) update(); };
  }

  /* Sliders show the text of their position. */
  document.querySelectorAll("input[type=range]").forEach((slider) => {
    const stops = slider.dataset.stops.split("|");
    slider.oninput = () => { slider.setAttribute("aria-valuetext", stops[slider.value]); slider.nextElementSibling.value = stops[slider.value]; };
    slider.oninput();
    slider.onchange = () => slider.form.requestSubmit();
  });

  /* The account stays in its fields, and is sent only with changes. */
  const account = document.querySelector("form[data-account]");
  function authorization() {
    const [key, secret] = [...account.elements].filter((e) => e.tagName === "INPUT").map((e) => e.value);
    const bytes = new TextEncoder().encode(`${key}:${secret}`);
    return "Basic " + btoa(String.fromCharCode(...bytes));
  }

  document.querySelectorAll("form").forEach((form) => {
    form.onsubmit = async (event) => {
      event.preventDefault();
      if (form === account) return;
      const result = document.getElementById(form.dataset.into);
      const number = (result.requests || 0) + 1;
      result.requests = number;
      const fields = new URLSearchParams(new FormData(form, event.submitter));
      const changes = form.method === "post";
      result.setAttribute("aria-busy", "true");
      let page;
      try {
        const request = changes
          ? { method: "POST", body: fields, headers: { Authorization: authorization() } }
          : {};
        const answer = await fetch(form.getAttribute("action") + (changes ? "" : "?" + fields), request);
        page = parse(await answer.text());
      } catch { page = parse(""); }
      const fresh = page.getElementById(form.dataset.into);
      /* The answer of an older request must not replace that of a newer one. */
      if (number !== result.requests) return;
      if (fresh) replace(result, fresh);
      else { result.textContent = `No answer: ${body.dataset.program} may have ended.`; delete result.dataset.source; }
      result.removeAttribute("aria-busy");
      if (changes) update();
    };
  });
  window.plimsoll = { update };
})();
