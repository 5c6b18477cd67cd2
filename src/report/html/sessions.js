// The list of sessions, each of which opens to show what every policy made of it.

const ROWS_AT_FIRST = 100;

/** Cells by session and model, then by policy. */
const cellGroups = new Map();

function indexCells() {
  const { session, model, policy } = data.cells;
  for (let i = 0; i < session.length; i++) {
    const key = `${session[i]}/${model[i]}`;
    if (!cellGroups.has(key)) cellGroups.set(key, new Map());
    cellGroups.get(key).set(policy[i], Object.fromEntries(Object.entries(data.cells).map(([name, column]) => [name, column[i]])));
  }
}

const cellOf = (session, model, policy) => cellGroups.get(`${session}/${model}`)?.get(policy);

/** Shortens ids to the fewest characters, at least 8, that tell all of them apart. */
let shortId = (id) => id;

function learnIds() {
  const ids = [...data.sessions].sort();
  let keep = 8;
  for (let i = 1; i < ids.length; i++) {
    let shared = 0;
    while (shared < ids[i].length && ids[i][shared] === ids[i - 1][shared]) shared++;
    keep = Math.max(keep, shared + 1);
  }
  shortId = (id) => (id.length <= keep + 1 ? id : `${id.slice(0, keep)}…`);
}

const finished = (cell) => cell.stopped === null;

/** Change of cost against the baseline; null where one of the two stopped early, or it is the baseline itself. */
function costChange(cell, base) {
  if (!base || cell === base || !finished(cell) || !finished(base)) return null;
  return change(cell.cost_pusd, base.cost_pusd);
}

const tone = (micro) => (micro === null || micro === 0 ? "" : micro < 0 ? "good" : "bad");

function changeCell(micro) {
  return element("td", { className: tone(micro), textContent: micro === null ? "" : signedPercent(micro), "data-v": micro ?? 0 });
}

/** Tokens that were not read although they had been sent before. */
function avoidable({ misses }) {
  const known = ["new_content", "cold_start"].map((name) => data.causes.indexOf(name));
  return misses.filter(([cause]) => !known.includes(cause)).reduce((sum, [, , tokens]) => sum + tokens, 0);
}

function sessionRow(key, cells) {
  const [session, model] = key.split("/").map(Number);
  const base = cells.get(data.baseline);
  const ranked = [...cells.values()].sort((a, b) => finished(b) - finished(a) || a.cost_pusd - b.cost_pusd);
  const best = ranked[0];
  const first = base ?? best;
  const id = data.sessions[session];
  const open = element("button", { type: "button", className: "open", "aria-expanded": "false", title: id, textContent: shortId(id) });
  const number = (n) => element("td", { textContent: grouped(n), "data-v": n });
  const money = (pusd) => element("td", { textContent: dollars(pusd), "data-v": pusd });
  const stopped = [...cells.values()].filter((cell) => !finished(cell)).length;
  const row = element("tr", {},
    element("th", { scope: "row" }, open),
    ...(data.models.length > 1 ? [element("td", { className: "text", textContent: data.models[model] })] : []),
    number(first.requests), number(first.peak), money(first.cost_pusd), number(avoidable(first)),
    element("td", { className: "text", textContent: data.policies[best.policy] }),
    money(best.cost_pusd), changeCell(costChange(best, base)), number(stopped));
  row.dataset.text = `${id} ${data.models[model]} ${data.policies[best.policy]}`;
  open.addEventListener("click", () => toggleDetail(row, open, key, cells, base));
  return row;
}

function toggleDetail(row, button, key, cells, base) {
  const isOpen = button.getAttribute("aria-expanded") === "true";
  button.setAttribute("aria-expanded", String(!isOpen));
  if (isOpen) detailOf(row).remove();
  else row.after(detailRow(row.cells.length, key, cells, base));
}

const columnHead = (title, isText) => element("th", { scope: "col", className: isText ? "text" : "", textContent: title });

function policyHead(cell) {
  const swatch = element("span", { className: "swatch" });
  swatch.style.background = lineColour(cell.policy);
  return element("th", { scope: "row" }, swatch, data.policies[cell.policy]);
}

const scrolling = (table, label) => element("div", { className: "scroll", tabIndex: 0, role: "region", "aria-label": label }, table);

/** Tokens that each policy did not read, and what was paid for them, by the causes that occur. */
function missTable(cells) {
  const causes = [...new Set(cells.flatMap(({ misses }) => misses.map(([cause]) => cause)))].sort((a, b) => a - b);
  const head = element("tr", {}, columnHead("tokens not read", true), ...causes.map((cause) => columnHead(causeName(cause))));
  const rows = cells.map((cell) => {
    const byCause = new Map(cell.misses.map(([cause, , tokens, pusd]) => [cause, `${grouped(tokens)} (${dollars(pusd)})`]));
    return element("tr", {}, policyHead(cell), ...causes.map((cause) => element("td", { textContent: byCause.get(cause) ?? "0" })));
  });
  return element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows));
}

const DETAIL_COLUMNS = [
  ["cost", (cell) => dollars(cell.cost_pusd)],
  ["vs baseline", null],
  ["hit rate", (cell) => percent(millionths(cell.read, cell.prompt))],
  ["requests", (cell) => grouped(cell.requests)],
  ["prompt", (cell) => grouped(cell.prompt)],
  ["read", (cell) => grouped(cell.read)],
  ["written", (cell) => grouped(cell.written)],
  ["uncached", (cell) => grouped(cell.uncached)],
  ["peak", (cell) => grouped(cell.peak)],
  ["offloads", (cell) => grouped(cell.offloads)],
  ["passes", (cell) => grouped(cell.passes)],
  ["compactions", (cell) => grouped(cell.compactions)],
  ["refused", (cell) => grouped(cell.rejections + cell.overflows)],
  ["violations", (cell) => grouped(cell.violations)],
];

function detailRow(width, key, cells, base) {
  const all = [...cells.values()];
  const columns = DETAIL_COLUMNS.filter(([, text], i) => i < 9 || all.some((cell) => text(cell) !== "0"));
  const stops = all.some((cell) => !finished(cell));
  const head = element("tr", {}, columnHead("policy", true), ...columns.map(([title]) => columnHead(title)),
    ...(stops ? [columnHead("end", true)] : []));
  const rows = all.map((cell) => {
    const end = finished(cell) ? "" : `stopped at ${cell.stopped[0]}: ${cell.stopped[1].replaceAll("_", " ")}`;
    return element("tr", {}, policyHead(cell),
      ...columns.map(([, text]) => (text ? element("td", { textContent: text(cell) }) : changeCell(costChange(cell, base)))),
      ...(stops ? [element("td", { className: "text", textContent: end })] : []));
  });
  const table = element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows));
  const [session] = key.split("/").map(Number);
  const title = element("p", { className: "meta", textContent: `Session ${data.sessions[session]}` });
  const content = [title, scrolling(table, "Policies on this session"), scrolling(missTable(all), "Tokens not read")];
  const substituted = all.find((cell) => cell.substituted)?.substituted;
  if (substituted) content.push(element("p", { className: "hint", textContent: `Recorded on ${substituted}, which is not known.` }));
  if (curve.groups.has(key)) {
    const show = element("button", { type: "button", textContent: "Show its token curve" });
    show.addEventListener("click", () => {
      curve.open(key);
      curve.section.scrollIntoView();
      curve.session.focus({ preventScroll: true });
    });
    content.push(show);
  }
  return element("tr", { className: "detail" }, element("td", { colSpan: width }, element("div", {}, ...content)));
}

function fillSessionTable() {
  const table = document.getElementById("session-table");
  const section = document.getElementById("sessions");
  const more = document.getElementById("session-more");
  if (cellGroups.size === 0) return;
  const baseline = data.baseline_word;
  const titles = [["session", true], ...(data.models.length > 1 ? [["model", true]] : []), ["requests"], [`peak of ${baseline}`],
    [`cost of ${baseline}`], [`avoidable misses of ${baseline}`], ["cheapest", true], ["its cost"], [`vs ${baseline}`], ["policies stopped"]];
  const head = titles.map(([title, isText]) => element("th", { scope: "col", className: isText ? "text" : "number" },
    element("button", { type: "button", textContent: title })));
  table.append(element("thead", {}, element("tr", {}, ...head)),
    element("tbody", {}, ...[...cellGroups].map(([key, cells]) => sessionRow(key, cells))));
  section.hidden = false;
  let limit = ROWS_AT_FIRST;
  table.addEventListener("shown", ({ detail: { shown, matching } }) => {
    more.hidden = shown === matching;
    more.textContent = `Show all ${grouped(matching)}`;
  });
  more.addEventListener("click", () => {
    limit = Infinity;
    table.dispatchEvent(new Event("rows"));
  });
  enhanceTable(table, () => limit);
}
