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
  const RESULT = 6;
  // What is shown can be computed from what is shown, to one in its last place: the more terms a sum has, and the larger their
  // factors are, the more decimals these are given to.
  const places = (terms = 1, factors = [], result = RESULT) => {
    const largest = factors.reduce((most, value) => (Number.isFinite(value) ? Math.max(most, Math.abs(value)) : most), 1);
    const product = result + Math.max(2, Math.ceil(Math.log10(terms)));
    return { factor: product + Math.max(2, Math.ceil(Math.log10(2 * largest))), product, result };
  };
  const fixed = (value, decimals) => {
    if (Number.isNaN(value)) return "NaN";
    if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
    const text = value.toFixed(decimals);
    return (Number(text) === 0 ? text.replace("-", "") : text).replace("-", "−");
  };
  const named = { nan: NaN, inf: Infinity, "-inf": -Infinity };
  const plain = (text) => (text in named ? named[text] : Number(text));
  const upper = new DataView(new ArrayBuffer(4)); // a bfloat16 is the upper half of a float32
  const READ = {
    F64: (bytes, at) => bytes.getFloat64(8 * at, true), F32: (bytes, at) => bytes.getFloat32(4 * at, true),
    BF16: (bytes, at) => { upper.setUint16(0, bytes.getUint16(2 * at, true)); return upper.getFloat32(0); },
  };
  const matrix = (held) => {
    const bytes = new DataView(Uint8Array.from(atob(held.base64), (letter) => letter.charCodeAt(0)).buffer), read = READ[held.dtype];
    return Array.from({ length: held.rows }, (_, i) => Array.from({ length: held.columns }, (_, j) => read(bytes, i * held.columns + j)));
  };

  const numbers = data && {
    q: matrix(data.q), k: matrix(data.k), v: matrix(data.v), kernel: matrix(data.kernel), scale: Number(data.scale),
    max: data.row_max.map(plain), total: data.total.map(plain), outside: data.outside.map(plain),
    rest: data.rest && matrix(data.rest), lens: data.lens && data.lens.map(matrix),
  };
  const visible = (i, j) => data.visible[i][j] === "1";
  const products = (i, j) => numbers.q[i].map((value, d) => value * numbers.k[j][d]);
  const total = (values) => values.reduce((sum, value) => sum + value, 0);
  const score = (i, j) => total(products(i, j)) * numbers.scale;
  const share = (i, j) => (visible(i, j) ? Math.exp(score(i, j) - numbers.max[i]) : 0);
  const weight = (i, j) => share(i, j) / numbers.total[i];
  const keysOf = (i) => numbers.k.map((_, j) => j).filter((j) => visible(i, j));
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
  const digits = (to) => make("p", { class: "small" }, word("panel_digits", { "#1": to.factor, "#2": to.product, "#3": to.result }));
  const others = (i) => word("panel_others", { "#": data.others[i] });
  const about = (i, j) => ["(", word("panel_query"), ` ${rowAt(i)} `, token(rowAt(i)), " × ", word("panel_key"), ` ${keyAt(j)} `, token(keyAt(j)), ")"];
  const dot = (i, j, to) => {
    const each = products(i, j);
    const rows = each.map((value, d) => [`d=${d}`, fixed(numbers.q[i][d], to.factor), fixed(numbers.k[j][d], to.factor), fixed(value, to.product)]);
    return [table(["", "Q", "Kᵀ", word("panel_product")], rows), line(word("panel_sum"), fixed(total(each), to.result), "dot"), line(word("panel_scaled"), `× ${data.scale}`)];
  };
  const chain = (i, j, to) => [
    line("S", fixed(score(i, j), to.factor), "score"), line("m", fixed(numbers.max[i], to.factor), "max"),
    line("S − m", fixed(score(i, j) - numbers.max[i], to.factor), "below"), line("E = exp(S − m)", fixed(share(i, j), to.product), "share"),
  ];

  const explain = {
    s(i, j) {
      const seen = visible(i, j), to = places(numbers.q[i].length, [...numbers.q[i], ...numbers.k[j]]);
      return [heading("S", `${rowAt(i)}, ${keyAt(j)}`, seen ? fixed(score(i, j), to.result) : "", ...about(i, j)), ...dot(i, j, to), seen ? line("S", fixed(score(i, j), to.result), "score") : make("p", {}, word("panel_hidden")), digits(to)];
    },
    m(i, j) {
      return [heading("M", `${rowAt(i)}, ${keyAt(j)}`, visible(i, j) ? "0" : "−∞", ...about(i, j)), make("p", {}, word(visible(i, j) ? "panel_visible" : "panel_not_visible"))];
    },
    r(i, column) {
      const keys = keysOf(i), start = heading("m, Σ", rowAt(i), "", word("panel_query"), ` ${rowAt(i)} `, token(rowAt(i)));
      if (!keys.length && !data.others[i]) return [start, make("p", {}, word("panel_empty_row"))];
      const to = places(keys.length + 1);
      const rows = keys.map((j) => [[`${keyAt(j)} `, token(keyAt(j))], fixed(score(i, j), to.factor), fixed(share(i, j), to.product)]);
      const lines = [start, table([word("panel_key"), "S", "exp(S − m)"], rows)];
      if (data.others[i]) lines.push(line(others(i), fixed(numbers.outside[i] * numbers.total[i], to.product), "others"));
      lines.push(make("p", {}, "m: ", word("panel_max")), line("m", fixed(numbers.max[i], to.factor), "max"));
      lines.push(line(word("panel_row_sum"), fixed(numbers.total[i], to.result), "total"), line("m + ln Σ", fixed(numbers.max[i] + Math.log(numbers.total[i]), to.result), "lse"), digits(to));
      return lines;
    },
    e(i, j) {
      if (!visible(i, j)) return explain.s(i, j);
      const to = places();
      return [heading("E", `${rowAt(i)}, ${keyAt(j)}`, fixed(share(i, j), to.result), ...about(i, j)), ...chain(i, j, to), digits(to)];
    },
    a(i, j) {
      const to = places();
      if (j >= numbers.k.length) return [heading("A", `${rowAt(i)}, …`, fixed(numbers.outside[i], to.result)), line(others(i), fixed(numbers.outside[i], to.result), "weight")];
      if (!visible(i, j)) return explain.s(i, j);
      return [heading("A", `${rowAt(i)}, ${keyAt(j)}`, fixed(weight(i, j), to.result), ...about(i, j)), ...chain(i, j, to), line("Σ", fixed(numbers.total[i], to.product), "total"), line("A = E / Σ", fixed(weight(i, j), to.result), "weight"), digits(to)];
    },
    o(i, e) {
      const keys = keysOf(i), rest = numbers.rest ? numbers.rest[i][e] : 0;
      const to = places(keys.length + 1, keys.map((j) => numbers.v[j][e]), RESULT + 2); // the kernel differs further down
      const rows = keys.map((j) => [[`${keyAt(j)} `, token(keyAt(j))], fixed(weight(i, j), to.factor), fixed(numbers.v[j][e], to.factor), fixed(weight(i, j) * numbers.v[j][e], to.product)]);
      if (data.others[i]) rows.push([others(i), fixed(numbers.outside[i], to.factor), "", fixed(rest, to.product)]);
      const value = total(keys.map((j) => weight(i, j) * numbers.v[j][e])) + rest;
      const start = heading("O", `${rowAt(i)}, ${e}`, fixed(value, RESULT), word("panel_query"), ` ${rowAt(i)} `, token(rowAt(i)));
      if (!keys.length && !data.others[i]) return [start, make("p", {}, word("panel_empty_row"))];
      return [start, table([word("panel_key"), "A", `V[·, ${e}]`, word("panel_product")], rows), line(word("panel_sum"), fixed(value, to.result), "output"),
        line(word("panel_kernel"), fixed(numbers.kernel[i][e], to.result), "kernel"), line(word("panel_apart"), fixed(numbers.kernel[i][e] - value, to.result), "apart"), digits(to)];
    },
    q: (i, d) => captured("Q", rowAt(i), d, numbers.q[i][d], "c-q"),
    kt: (d, j) => captured("K", keyAt(j), d, numbers.k[j][d], "c-k"),
    v: (j, e) => captured("V", keyAt(j), e, numbers.v[j][e], "c-v"),
  };
  const captured = (symbol, position, d, value, card) => [
    heading(symbol, `${position}, ${d}`, "", token(position)), line(word("panel_exact"), String(value).replaceAll("-", "−"), "exact"),
    make("p", {}, word("panel_captured"), " ", make("a", { href: `#${card}` }, make("code", {}, card.slice(2)))),
  ];

  // The cells that a cell is made of: grid, row, column (−1: all of them).
  const factors = {
    s: (i, j) => [["q", i, -1], ["kt", -1, j]], m: () => [], r: (i) => [["s", i, -1]], e: (i, j) => [["s", i, j], ["r", i, 0]],
    a: (i, j) => [["e", i, j], ["r", i, 1]], o: (i, e) => [["a", i, -1], ["v", -1, e]], q: () => [], kt: () => [], v: () => [],
  };

  const copyButton = () => make("button", { type: "button", class: "copy" }, word("copy"));
  const citation = (text) => make("details", { class: "cite" }, make("summary", {}, word("cite")), make("p", {}, make("code", { class: "quote" }, text), " ", copyButton()));

  let chosen = null;
  const choose = (cell, moved) => {
    const grid = cell.closest("[data-grid]");
    const i = cell.parentNode.rowIndex - 1, j = cell.cellIndex - 1;
    if (chosen) chosen.removeAttribute("aria-selected");
    for (const old of document.querySelectorAll(".factor")) old.classList.remove("factor");
    for (const other of grid.querySelectorAll("td[tabindex='0']")) other.tabIndex = -1;
    cell.tabIndex = 0;
    cell.setAttribute("aria-selected", "true");
    chosen = cell;
    if (moved) cell.focus();
    const said = explain[grid.dataset.grid](i, j);
    body.replaceChildren(...said, citation(`${data.where} · ${said[0].querySelector("strong").textContent}`));
    panel.hidden = false;
    for (const [name, row, column] of factors[grid.dataset.grid](i, j)) {
      const rows = document.querySelector(`[data-grid=${name}]`)?.tBodies[0].rows ?? [];
      for (const each of row < 0 ? rows : [rows[row]].filter(Boolean)) {
        for (const one of column < 0 ? each.querySelectorAll("td") : [each.cells[column + 1]].filter(Boolean)) one.classList.add("factor");
      }
    }
  };
  const STEPS = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0], Home: [0, -1e6], End: [0, 1e6] };
  const WHOLE = { Home: [-1e6, -1e6], End: [1e6, 1e6] }; // with Ctrl: the first and the last cell of the grid
  for (const grid of document.querySelectorAll("[data-grid]")) {
    grid.setAttribute("role", "grid");
    grid.setAttribute("aria-readonly", "true");
    const first = grid.querySelector("tbody td");
    if (first) first.tabIndex = 0;
    grid.addEventListener("click", (event) => { const cell = event.target.closest("tbody td"); if (cell) choose(cell, true); });
    grid.addEventListener("keydown", (event) => {
      const cell = event.target.closest("tbody td"), step = (event.ctrlKey || event.metaKey ? WHOLE : STEPS)[event.key];
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

  // ------------------------------------------------------------------------------- opening what a link leads to
  const wanted = () => {
    const name = location.hash.slice(1);
    try { return decodeURIComponent(name); } catch { return name; } // an address may end in any letters
  };
  const reveal = () => {
    const target = location.hash ? byId(wanted()) : null;
    for (let each = target; each; each = each.parentElement) if (each.tagName === "DETAILS") each.open = true;
    if (target) target.scrollIntoView();
  };
  window.addEventListener("hashchange", reveal);

  // ---------------------------------------------------------------------------------------- formulas, source
  const goTo = (id) => { if (wanted() === id) reveal(); else location.hash = id; };
  for (const symbol of document.querySelectorAll("[data-goto]")) symbol.addEventListener("click", () => goTo(symbol.dataset.goto));
  const light = (card, on) => { for (const each of document.querySelectorAll(`.mark[data-card="${card}"]`)) each.classList.toggle("lit", on); };
  for (const each of document.querySelectorAll("[data-card]")) {
    for (const [event, on] of [["mouseenter", true], ["mouseleave", false], ["focus", true], ["blur", false]]) each.addEventListener(event, () => light(each.dataset.card, on));
  }

  // --------------------------------------------------------------------------------------------------- paper
  // Everything is opened but what a reader has to ask for: answers stay hidden on paper too, unless they were opened.
  const opened = [];
  window.addEventListener("beforeprint", () => { for (const each of document.querySelectorAll("details:not([open]):not(.cite, .answer, .choice)")) { opened.push([each, each.getAttribute("name")]); each.removeAttribute("name"); each.open = true; } });
  window.addEventListener("afterprint", () => { for (const [each, name] of opened.splice(0)) { each.open = false; if (name) each.setAttribute("name", name); } });

  // --------------------------------------------------------------------------------------------- temperature
  const slider = byId("lens");
  if (slider && data) {
    const select = byId("lens-query");
    numbers.q.forEach((_, i) => select.append(make("option", { value: i }, `${rowAt(i)} ${data.tokens[String(rowAt(i))]}`)));
    select.value = String(numbers.q.length - 1);
    const bar = (name, scored, value, label) => make("tr", {}, make("th", { scope: "row" }, ...name), make("td", { class: "num" }, scored), make("td", { class: "num" }, fixed(value, 4)), make("td", {}, make("progress", { max: 1, value: Number.isFinite(value) ? value : 0, "aria-label": label })));
    const draw = () => {
      const temperature = 10 ** (slider.value / 2), i = Number(select.value), keys = keysOf(i), step = Math.round((slider.value - slider.min) / slider.step);
      const below = keys.map((j) => (score(i, j) - numbers.max[i]) / temperature), shares = below.map(Math.exp);
      // Of the keys outside a window two sums per temperature are known: of eˣ and of x·eˣ.
      const [left, leftMean] = numbers.lens ? numbers.lens.map((sums) => sums[i][step]) : [0, 0];
      const sum = total(shares) + left, mean = total(shares.map((value, at) => (value > 0 ? value * below[at] : 0))) + leftMean;
      byId("lens-value").textContent = temperature.toFixed(2);
      const rows = keys.map((j, at) => bar([make("span", { class: "pos" }, `${keyAt(j)} `), token(keyAt(j))], fixed(score(i, j), 4), shares[at] / sum, `A[${rowAt(i)}, ${keyAt(j)}]`));
      if (data.others[i]) rows.push(bar([others(i)], "", left / sum, `A[${rowAt(i)}, …]`));
      byId("lens-bars").replaceChildren(...rows);
      byId("lens-count").textContent = String(keys.length + data.others[i]);
      byId("lens-total").textContent = rows.length ? fixed((total(shares) + left) / sum, 4) : "—";
      byId("lens-empty").hidden = rows.length > 0;
      byId("lens-entropy").textContent = rows.length ? fixed(Math.log(sum) - mean / sum, 4) : "—";
    };
    slider.addEventListener("input", draw);
    select.addEventListener("change", draw);
    byId("lens-reset").addEventListener("click", () => { slider.value = "0"; draw(); });
    draw();
  }

  // -------------------------------------------------------------------------------------------------- citing
  for (const quote of document.querySelectorAll(".cite .quote")) quote.after(" ", copyButton());
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

  if (location.hash) reveal();
})();
