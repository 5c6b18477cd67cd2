// Tables that sort by a click on a column's title and show the rows that hold what is typed.

/** Rows that are sorted and filtered; a row of class `detail` belongs to the one above it. */
const mainRows = (table) => [...table.tBodies[0].rows].filter((row) => !row.classList.contains("detail"));

const detailOf = (row) => {
  const next = row.nextElementSibling;
  return next?.classList.contains("detail") ? next : null;
};

const sortKey = (cell) => (cell.dataset.v === undefined ? cell.textContent.trim() : Number(cell.dataset.v));

function sortBy(table, header) {
  const index = header.cellIndex;
  const isText = header.classList.contains("text");
  // Numbers begin with the largest, names with the first.
  const first = isText ? "ascending" : "descending";
  const second = isText ? "descending" : "ascending";
  const order = header.getAttribute("aria-sort") === first ? second : first;
  for (const other of header.parentElement.cells) other.removeAttribute("aria-sort");
  header.setAttribute("aria-sort", order);
  const sign = order === "ascending" ? 1 : -1;
  const rows = mainRows(table).map((row) => [sortKey(row.cells[index]), row, detailOf(row)]);
  rows.sort(([a], [b]) => sign * (typeof a === "number" ? a - b : a.localeCompare(b, "en", { numeric: true })));
  table.tBodies[0].append(...rows.flatMap(([, row, detail]) => (detail ? [row, detail] : [row])));
  table.dispatchEvent(new Event("rows"));
}

/** `limit()` says how many rows may show at once. */
function enhanceTable(table, limit = () => Infinity) {
  const tools = document.querySelector(`[data-for="${table.id}"]`);
  const input = tools.querySelector("input");
  const output = tools.querySelector("output");
  tools.hidden = false;
  for (const header of table.tHead.rows[0].cells) {
    header.querySelector("button")?.addEventListener("click", () => sortBy(table, header));
  }
  const show = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    const rows = mainRows(table);
    let matching = 0;
    let shown = 0;
    for (const row of rows) {
      const text = (row.dataset.text ?? row.textContent).toLowerCase();
      const matches = words.every((word) => text.includes(word));
      matching += matches;
      row.hidden = !matches || shown >= limit();
      shown += !row.hidden;
      const detail = detailOf(row);
      if (detail) detail.hidden = row.hidden;
    }
    output.textContent = shown === rows.length ? `${rows.length} rows` : `${shown} of ${rows.length} rows`;
    table.dispatchEvent(new CustomEvent("shown", { detail: { shown, matching } }));
  };
  input.addEventListener("input", show);
  table.addEventListener("rows", show);
  show();
}
