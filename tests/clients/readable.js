/* Returns the problems of a page's texts: cut off, too little contrast, overlaps; in the page and in its charts. */
(() => {
  const problems = [];
  const channel = (c) => { const s = c / 255; return s <= 0.04045 ? s / 12.92 : ((s + 0.055) / 1.055) ** 2.4; };
  const parse = (text) => (text.match(/[\d.]+/g) || []).map(Number);
  const luminance = (c) => 0.2126 * channel(c[0]) + 0.7152 * channel(c[1]) + 0.0722 * channel(c[2]);
  const behind = (e) => {
    for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c.length === 3 || c[3] > 0) return c; }
    return [255, 255, 255];
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const e = node.parentElement, text = node.textContent.trim();
    if (!text || ["SCRIPT", "STYLE", "OPTION", "NOSCRIPT"].includes(e.tagName) || !e.checkVisibility()) continue;
    const range = document.createRange(); range.selectNodeContents(node);
    const box = range.getBoundingClientRect();
    if (box.width === 0 || box.right < 0) continue;
    const scrolls = e.closest(".scroll, .alternative, pre");
    if (!scrolls && (box.left < -1 || box.right > innerWidth + 1)) problems.push(`cut off: ${text.slice(0, 60)}`);
    const [a, b] = [luminance(parse(getComputedStyle(e).color)), luminance(behind(e))].sort((x, y) => y - x);
    const contrast = (a + 0.05) / (b + 0.05);
    if (contrast < 4.5) problems.push(`contrast ${contrast.toFixed(2)}: ${text.slice(0, 60)}`);
  }
  const boxes = [...document.querySelectorAll(".tile, .tile dl > div, .answer, article.card, .figures td, .figures tbody th")]
    .filter((e) => e.checkVisibility()).map((e) => [e, e.getBoundingClientRect()]);
  boxes.forEach(([e, p], i) => boxes.slice(i + 1, i + 40).forEach(([f, q]) => {
    if (e.contains(f) || f.contains(e)) return;
    const wide = Math.min(p.right, q.right) - Math.max(p.left, q.left), high = Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top);
    if (wide > 1 && high > 1) problems.push(`overlap: ${e.textContent.slice(0, 30)} / ${f.textContent.slice(0, 30)}`);
  }));
  document.querySelectorAll(".stamp").forEach((e) => {
    const frame = (e.closest(".scroll") || document.body).getBoundingClientRect();
    if (e.checkVisibility() && e.getBoundingClientRect().right > frame.right + 1) problems.push(`cut off: ${e.textContent.slice(0, 60)}`);
  });
  cards.filter((card) => card.instance).forEach((card) => problems.push(...ofChart(card)));
  return problems;

  /* The texts of a chart are shapes on a canvas; zrender knows their boxes. */
  function ofChart(card) {
    const zr = card.instance.getZr(), width = zr.getWidth(), height = zr.getHeight(), found = [];
    const shapes = zr.storage.getDisplayList(true).filter((s) => !s.ignore && !s.invisible && (s.style.opacity ?? 1) > 0);
    const texts = shapes.filter((s) => s.type === "tspan" && s.style.text && String(s.style.text).trim()).map((s) => {
      const box = s.getBoundingRect().clone();
      if (s.transform) box.applyTransform(s.transform);
      return { text: String(s.style.text).trim().slice(0, 40), box, fill: s.style.fill };
    });
    const visible = texts.filter(({ box }) => box.width > 0);
    visible.forEach(({ text, box, fill }, i) => {
      if (box.x < -1 || box.y < -1 || box.x + box.width > width + 1 || box.y + box.height > height + 1) found.push(`cut off: ${text}`);
      visible.slice(i + 1).forEach(({ text: other, box: b }) => {
        const wide = Math.min(box.x + box.width, b.x + b.width) - Math.max(box.x, b.x);
        const high = Math.min(box.y + box.height, b.y + b.height) - Math.max(box.y, b.y);
        if (wide > 1 && high > 3) found.push(`overlap: ${text} / ${other}`);
      });
      const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
      const under = shapes.filter((s) => s.type !== "tspan" && typeof s.style.fill === "string" && s.style.fill !== "none" && s.contain(x, y))
        .map((s) => mixed(parsed(s.style.fill), (s.style.opacity ?? 1) * (s.style.fillOpacity ?? 1)));
      const color = under.reduce((below, { color: c, alpha }) => below.map((v, k) => v * (1 - alpha) + c[k] * alpha), behind(card.plot).slice(0, 3));
      const [a, b] = [luminance(parsed(fill)), luminance(color)].sort((p, q) => q - p);
      if ((a + 0.05) / (b + 0.05) < 4.5) found.push(`contrast ${((a + 0.05) / (b + 0.05)).toFixed(2)}: ${text}`);
    });
    return found.map((problem) => `${card.id}: ${problem}`);
  }
  function mixed(c, opacity) { return { color: c, alpha: (c.length > 3 ? c[3] : 1) * opacity }; }
  function parsed(color) {
    const probe = document.createElement("canvas").getContext("2d");
    probe.fillStyle = color;
    const text = probe.fillStyle;
    return text[0] === "#" ? [1, 3, 5].map((i) => parseInt(text.slice(i, i + 2), 16)) : parse(text);
  }
})()
