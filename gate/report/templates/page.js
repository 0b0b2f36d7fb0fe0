(() => {
  "use strict";
  const list = document.getElementById("list");
  if (!list) return;
  const form = document.getElementById("filters");
  const rows = [...list.children];
  const texts = new Map();
  const textOf = (row) => {
    if (!texts.has(row)) texts.set(row, row.textContent.toLowerCase());
    return texts.get(row);
  };
  const colour = (pre) => {
    const text = pre.textContent;
    const parts = document.createDocumentFragment();
    let at = 0;
    for (const [, length, kind] of pre.dataset.runs.matchAll(/(\d+)([a-z ])/g)) {
      const piece = text.slice(at, at + Number(length));
      at += Number(length);
      if (kind === " ") { parts.append(piece); continue; }
      const span = document.createElement("span");
      span.className = kind;
      span.textContent = piece;
      parts.append(span);
    }
    parts.append(text.slice(at));
    pre.replaceChildren(parts);
    delete pre.dataset.runs;
  };
  list.addEventListener("toggle", (event) => {
    if (event.target.open) for (const pre of event.target.querySelectorAll("pre[data-runs]")) colour(pre);
  }, true);
  const filter = () => {
    const state = form.elements.state.value, reason = form.elements.reason.value;
    const text = form.elements.text.value.trim().toLowerCase();
    let shown = 0;
    for (const row of rows) {
      const fits = (!state || row.dataset.state === state)
        && (!reason || row.dataset.reasons.split(" ").includes(reason))
        && (!text || textOf(row).includes(text));
      row.hidden = !fits;
      shown += fits;
    }
    document.getElementById("shown").textContent = `${shown} of ${rows.length} tasks`;
    document.getElementById("none").hidden = shown > 0;
  };
  form.addEventListener("input", filter);
  form.addEventListener("submit", (event) => event.preventDefault());
  document.getElementById("reset").addEventListener("click", () => { form.reset(); filter(); });
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = event.target.matches("input[type=search], select");
    if (event.key === "/" && !typing) { event.preventDefault(); form.elements.text.focus(); }
    if (event.key === "Escape" && typing) { form.elements.text.value = ""; filter(); event.target.blur(); }
    const step = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1 }[event.key];
    const row = event.target.closest && event.target.closest("details.task");
    if (step && !typing && row && event.target.parentElement === row) {
      const open = rows.filter((each) => !each.hidden);
      const next = open[open.indexOf(row) + step];
      if (next) { event.preventDefault(); next.firstElementChild.focus(); }
    }
  });
  filter();
})();
