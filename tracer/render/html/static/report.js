// What the page does beyond being read: sums behind cells, the temperature lens, copying citations, self-assessment.
// Everything is computed from the exact numbers in #data; nothing is fetched, nothing leaves the browser.
"use strict";
(() => {
  const root = document.documentElement;
  const byId = (id) => document.getElementById(id);
  root.classList.add("js");
  for (const element of document.querySelectorAll(".needs-script")) element.hidden = false;

  // ------------------------------------------------------------------------------------------------ language
  const sayLanguage = () => { root.lang = byId("lang-zh").checked ? "zh" : "en"; };
  for (const id of ["lang-en", "lang-zh"]) byId(id).addEventListener("change", sayLanguage);
  sayLanguage();

  const word = (name, values = {}) => {
    const found = document.createElement("span");
    for (const child of document.querySelector(`[data-word="${name}"]`).cloneNode(true).childNodes) found.append(child.cloneNode(true));
    const fill = (node) => {
      if (node.nodeType === Node.TEXT_NODE) for (const [key, value] of Object.entries(values)) node.textContent = node.textContent.replace(key, value);
      node.childNodes.forEach(fill);
    };
    fill(found);
    return found;
  };

  const make = (tag, attributes = {}, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  };

  // ------------------------------------------------------------------------------------------------- numbers
  const source = byId("data");
  const data = source ? JSON.parse(source.textContent) : null;
  if (data) for (const name of ["q", "k", "v", "kernel", "rest"]) data[name] = data[name].map((row) => row.split(" "));
  // Factors carry two digits more than products, products two more than sums: what is shown can be computed from what is shown.
  const FACTOR = 10, PRODUCT = 8, RESULT = 6;
  const fixed = (value, decimals) => {
    if (Number.isNaN(value)) return "NaN";
    if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
    const text = value.toFixed(decimals);
    return (Number(text) === 0 ? text.replace("-", "") : text).replace("-", "−");
  };
  const named = { nan: NaN, inf: Infinity, "-inf": -Infinity };
  const plain = (text) => (text in named ? named[text] : Number(text));
  const exact = data && data.rounding === "float32" ? (text) => Math.fround(plain(text)) : plain;

  const numbers = data && {
    q: data.q.map((row) => row.map(exact)), k: data.k.map((row) => row.map(exact)), v: data.v.map((row) => row.map(exact)),
    kernel: data.kernel.map((row) => row.map(exact)), scale: Number(data.scale),
    max: data.row_max.map(plain), total: data.total.map(plain), rest: data.rest.map((row) => row.map(plain)), outside: data.outside.map(plain),
  };
  const visible = (i, j) => data.visible[i][j] === "1";
  const products = (i, j) => numbers.q[i].map((value, d) => value * numbers.k[j][d]);
  const total = (values) => values.reduce((sum, value) => sum + value, 0);
  const score = (i, j) => total(products(i, j)) * numbers.scale;
  const share = (i, j) => (visible(i, j) ? Math.exp(score(i, j) - numbers.max[i]) : 0);
  const weight = (i, j) => share(i, j) / numbers.total[i];
  const keysOf = (i) => data.k.map((_, j) => j).filter((j) => visible(i, j));
  const rowAt = (i) => data.rows[0] + i, keyAt = (j) => data.keys[0] + j;
  const token = (position) => make("bdi", { class: "r-token" }, data.tokens[String(position)] ?? "");

  // --------------------------------------------------------------------------------------------------- panel
  const panel = byId("panel"), body = byId("panel-body");
  const heading = (symbol, index, value, ...rest) => make("p", { class: "result" }, make("strong", {}, `${symbol}[${index}]${value ? ` = ${value}` : ""}`), " ", ...rest);
  const line = (label, value, name) => {
    const result = make("output", name ? { "data-result": name } : {}, value);
    return make("p", { class: "result" }, label, " ", make("strong", {}, result));
  };
  const table = (titles, rows) => {
    const head = make("tr", {}, ...titles.map((title) => make("th", { scope: "col" }, title)));
    const lines = rows.map((cells) => make("tr", {}, make("th", { scope: "row" }, ...[cells[0]].flat()), ...cells.slice(1).map((cell) => make("td", {}, cell))));
    return make("div", { class: "scroll", tabindex: 0, role: "region", "aria-labelledby": "panel-title" }, make("table", { class: "grid terms" }, make("thead", {}, head), make("tbody", {}, ...lines)));
  };
  const digits = () => make("p", { class: "small" }, word("panel_digits", { "#1": FACTOR, "#2": PRODUCT, "#3": RESULT }));
  const about = (i, j) => ["(", word("panel_query"), ` ${rowAt(i)} `, token(rowAt(i)), " × ", word("panel_key"), ` ${keyAt(j)} `, token(keyAt(j)), ")"];
  const dot = (i, j) => {
    const each = products(i, j);
    const rows = each.map((value, d) => [`d=${d}`, fixed(numbers.q[i][d], FACTOR), fixed(numbers.k[j][d], FACTOR), fixed(value, PRODUCT)]);
    return [table(["", "Q", "Kᵀ", word("panel_product")], rows), line(word("panel_sum"), fixed(total(each), RESULT), "dot"), line(word("panel_scaled"), `× ${data.scale}`)];
  };
  const chain = (i, j) => [
    line("S", fixed(score(i, j), RESULT), "score"), line("m", fixed(numbers.max[i], RESULT)),
    line("S − m", fixed(score(i, j) - numbers.max[i], RESULT)), line("E = exp(S − m)", fixed(share(i, j), RESULT), "share"),
  ];

  const explain = {
    s(i, j) {
      const seen = visible(i, j);
      return [heading("S", `${rowAt(i)}, ${keyAt(j)}`, seen ? fixed(score(i, j), RESULT) : "", ...about(i, j)), ...dot(i, j), seen ? line("S", fixed(score(i, j), RESULT), "score") : make("p", {}, word("panel_hidden")), digits()];
    },
    m(i, j) {
      return [heading("M", `${rowAt(i)}, ${keyAt(j)}`, visible(i, j) ? "0" : "−∞", ...about(i, j)), make("p", {}, word(visible(i, j) ? "panel_visible" : "panel_not_visible"))];
    },
    r(i, column) {
      const keys = keysOf(i);
      if (!keys.length) return [make("p", {}, word("panel_empty_row"))];
      const rows = keys.map((j) => [[`${keyAt(j)} `, token(keyAt(j))], fixed(score(i, j), RESULT), fixed(share(i, j), PRODUCT)]);
      const lines = [heading("m, Σ", rowAt(i), "", word("panel_query"), ` ${rowAt(i)} `, token(rowAt(i))), table([word("panel_key"), "S", "exp(S − m)"], rows)];
      const others = data.tk > data.k.length && numbers.outside[i] > 0 ? numbers.outside[i] * numbers.total[i] : 0;
      if (others > 0) lines.push(line(word("panel_others", { "#": data.tk - data.k.length }), fixed(others, RESULT)));
      lines.push(make("p", {}, "m: ", word("panel_max")), line("m", fixed(numbers.max[i], RESULT), "max"));
      lines.push(line(word("panel_row_sum"), fixed(numbers.total[i], RESULT), "total"), line("m + ln Σ", fixed(numbers.max[i] + Math.log(numbers.total[i]), RESULT), "lse"), digits());
      return lines;
    },
    e(i, j) {
      if (!visible(i, j)) return explain.s(i, j);
      return [heading("E", `${rowAt(i)}, ${keyAt(j)}`, fixed(share(i, j), RESULT), ...about(i, j)), ...chain(i, j), digits()];
    },
    a(i, j) {
      if (j >= data.k.length) return [heading("A", `${rowAt(i)}, …`, fixed(numbers.outside[i], RESULT)), line(word("panel_others", { "#": data.tk - data.k.length }), fixed(numbers.outside[i], RESULT), "weight")];
      if (!visible(i, j)) return explain.s(i, j);
      return [heading("A", `${rowAt(i)}, ${keyAt(j)}`, fixed(weight(i, j), RESULT), ...about(i, j)), ...chain(i, j), line("Σ", fixed(numbers.total[i], RESULT)), line("A = E / Σ", fixed(weight(i, j), RESULT), "weight"), digits()];
    },
    o(i, e) {
      const keys = keysOf(i), rest = numbers.rest.length ? numbers.rest[i][e] : 0;
      const rows = keys.map((j) => [[`${keyAt(j)} `, token(keyAt(j))], fixed(weight(i, j), FACTOR), fixed(numbers.v[j][e], FACTOR), fixed(weight(i, j) * numbers.v[j][e], PRODUCT)]);
      if (rest) rows.push([word("panel_others", { "#": data.tk - data.k.length }), fixed(numbers.outside[i], FACTOR), "", fixed(rest, PRODUCT)]);
      const value = total(keys.map((j) => weight(i, j) * numbers.v[j][e])) + rest;
      const start = heading("O", `${rowAt(i)}, ${e}`, fixed(value, RESULT), word("panel_query"), ` ${rowAt(i)} `, token(rowAt(i)));
      if (!keys.length && !rest) return [start, make("p", {}, word("panel_empty_row"))];
      return [start, table([word("panel_key"), "A", `V[·, ${e}]`, word("panel_product")], rows), line(word("panel_sum"), fixed(value, RESULT), "output"),
        line(word("panel_kernel"), fixed(numbers.kernel[i][e], PRODUCT), "kernel"), line(word("panel_apart"), fixed(numbers.kernel[i][e] - value, PRODUCT)), digits()];
    },
    q: (i, d) => captured("Q", rowAt(i), d, data.q[i][d], "c-q"),
    kt: (d, j) => captured("K", keyAt(j), d, data.k[j][d], "c-k"),
    v: (j, e) => captured("V", keyAt(j), e, data.v[j][e], "c-v"),
  };
  const captured = (symbol, position, d, text, card) => [
    heading(symbol, `${position}, ${d}`, "", token(position)), line(word("panel_exact"), String(exact(text)).replace("-", "−"), "exact"),
    make("p", {}, word("panel_captured"), " ", make("a", { href: `#${card}` }, make("code", {}, card.slice(2)))),
  ];

  // The cells that a cell is made of: grid, row, column (−1: all of them).
  const factors = {
    s: (i, j) => [["q", i, -1], ["kt", -1, j]], m: () => [], r: (i) => [["s", i, -1]], e: (i, j) => [["s", i, j], ["r", i, 0]],
    a: (i, j) => [["e", i, j], ["r", i, 1]], o: (i, e) => [["a", i, -1], ["v", -1, e]], q: () => [], kt: () => [], v: () => [],
  };

  let chosen = null;
  const choose = (cell, moved) => {
    const grid = cell.closest("[data-grid]");
    const i = cell.parentNode.rowIndex - 1, j = cell.cellIndex - 1;
    if (chosen) { chosen.removeAttribute("aria-selected"); chosen.tabIndex = -1; }
    for (const old of document.querySelectorAll(".factor")) old.classList.remove("factor");
    for (const other of grid.querySelectorAll("td[tabindex='0']")) other.tabIndex = -1;
    cell.tabIndex = 0;
    cell.setAttribute("aria-selected", "true");
    chosen = cell;
    if (moved) cell.focus();
    body.replaceChildren(...explain[grid.dataset.grid](i, j));
    panel.hidden = false;
    for (const [name, row, column] of factors[grid.dataset.grid](i, j)) {
      const rows = document.querySelector(`[data-grid=${name}]`)?.tBodies[0].rows ?? [];
      for (const each of row < 0 ? rows : [rows[row]].filter(Boolean)) {
        for (const one of column < 0 ? each.querySelectorAll("td") : [each.cells[column + 1]].filter(Boolean)) one.classList.add("factor");
      }
    }
  };
  const STEPS = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0], Home: [0, -1e6], End: [0, 1e6] };
  for (const grid of document.querySelectorAll("[data-grid]")) {
    grid.setAttribute("role", "grid");
    grid.setAttribute("aria-readonly", "true");
    const first = grid.querySelector("tbody td");
    if (first) first.tabIndex = 0;
    grid.addEventListener("click", (event) => { const cell = event.target.closest("tbody td"); if (cell) choose(cell, true); });
    grid.addEventListener("keydown", (event) => {
      const cell = event.target.closest("tbody td"), step = STEPS[event.key];
      if (!cell) return;
      if (event.key === "Enter" || event.key === " ") { event.preventDefault(); choose(cell, true); }
      if (!step) return;
      event.preventDefault();
      const rows = grid.tBodies[0].rows, row = rows[Math.min(Math.max(cell.parentNode.sectionRowIndex + step[0], 0), rows.length - 1)];
      choose(row.cells[Math.min(Math.max(cell.cellIndex + step[1], 1), row.cells.length - 1)], true);
    });
  }
  const wide = window.matchMedia("(min-width:90rem)");
  if (panel) {
    panel.hidden = !wide.matches;
    byId("panel-close").addEventListener("click", () => { panel.hidden = true; if (chosen) chosen.focus(); });
    document.addEventListener("keydown", (event) => { if (event.key === "Escape" && !panel.hidden && !wide.matches) { panel.hidden = true; if (chosen) chosen.focus(); } });
  }

  // ---------------------------------------------------------------------------------------- formulas, source
  for (const symbol of document.querySelectorAll("[data-goto]")) symbol.addEventListener("click", () => { location.hash = symbol.dataset.goto; });
  const light = (card, on) => { for (const each of document.querySelectorAll(`.mark[data-card="${card}"]`)) each.classList.toggle("lit", on); };
  for (const each of document.querySelectorAll("[data-card]")) {
    for (const [event, on] of [["mouseenter", true], ["mouseleave", false], ["focus", true], ["blur", false]]) each.addEventListener(event, () => light(each.dataset.card, on));
  }

  // ------------------------------------------------------------------------------- opening what a link leads to
  const reveal = () => {
    const target = location.hash ? byId(decodeURIComponent(location.hash.slice(1))) : null;
    for (let each = target; each; each = each.parentElement) if (each.tagName === "DETAILS") each.open = true;
    if (target) target.scrollIntoView();
  };
  window.addEventListener("hashchange", reveal);
  if (location.hash) reveal();
  const opened = [];
  window.addEventListener("beforeprint", () => { for (const each of document.querySelectorAll("details:not([open]):not(.cite)")) { opened.push([each, each.getAttribute("name")]); each.removeAttribute("name"); each.open = true; } });
  window.addEventListener("afterprint", () => { for (const [each, name] of opened.splice(0)) { each.open = false; if (name) each.setAttribute("name", name); } });

  // --------------------------------------------------------------------------------------------- temperature
  const slider = byId("lens");
  if (slider && data) {
    const select = byId("lens-query");
    data.q.forEach((_, i) => select.append(make("option", { value: i }, `${rowAt(i)} ${data.tokens[String(rowAt(i))]}`)));
    select.value = String(data.q.length - 1);
    const draw = () => {
      const temperature = 10 ** (slider.value / 2), i = Number(select.value), keys = keysOf(i);
      const shares = keys.map((j) => Math.exp((score(i, j) - numbers.max[i]) / temperature)), sum = total(shares);
      byId("lens-value").textContent = temperature.toFixed(2);
      const ranked = keys.map((j, at) => [j, shares[at] / sum]).sort((a, b) => b[1] - a[1]).slice(0, 12).sort((a, b) => a[0] - b[0]);
      byId("lens-bars").replaceChildren(...ranked.map(([j, value]) => {
        const meter = make("progress", { max: 1, value, "aria-label": `A[${rowAt(i)}, ${keyAt(j)}]` });
        return make("tr", {}, make("th", { scope: "row" }, make("span", { class: "pos" }, `${keyAt(j)} `), token(keyAt(j))), make("td", { class: "num" }, fixed(value, 4)), make("td", {}, meter));
      }));
      const entropy = total(shares.map((value) => value / sum).filter((value) => value > 0).map((value) => -value * Math.log(value)));
      byId("lens-entropy").textContent = fixed(entropy, 4);
    };
    slider.addEventListener("input", draw);
    select.addEventListener("change", draw);
    byId("lens-reset").addEventListener("click", () => { slider.value = "0"; draw(); });
    draw();
  }

  // -------------------------------------------------------------------------------------------------- citing
  for (const quote of document.querySelectorAll(".cite .quote")) quote.after(" ", make("button", { type: "button", class: "copy" }, word("copy")));
  document.addEventListener("click", (event) => {
    const button = event.target.closest?.("button.copy");
    if (!button) return;
    const quote = button.parentNode.querySelector(".quote");
    const done = () => { button.replaceChildren(word("copied")); };
    const select = () => { const range = document.createRange(); range.selectNodeContents(quote); const selection = getSelection(); selection.removeAllRanges(); selection.addRange(range); };
    if (navigator.clipboard) navigator.clipboard.writeText(quote.textContent).then(done, select); else select();
  });

  // ----------------------------------------------------------------------------------------- self-assessment
  const KEY = "tracer-report-skills";
  const kept = () => { try { return JSON.parse(localStorage.getItem(KEY)) ?? {}; } catch { return {}; } };
  const keep = (marks) => { try { localStorage.setItem(KEY, JSON.stringify(marks)); } catch { /* a browser may forbid storage: the marks then last until the page closes */ } };
  const fields = [...document.querySelectorAll("[data-skill]")];
  const marks = kept();
  for (const field of fields) {
    for (const input of field.querySelectorAll("input")) {
      if (marks[field.dataset.skill] === input.value) input.checked = true;
      input.addEventListener("change", () => { keep({ ...kept(), [field.dataset.skill]: input.value }); });
    }
  }
  byId("skills-clear")?.addEventListener("click", () => {
    for (const field of fields) for (const input of field.querySelectorAll("input")) input.checked = false;
    try { localStorage.removeItem(KEY); } catch { /* nothing was kept */ }
  });
})();
