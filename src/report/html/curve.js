// The token curve: one line per policy, or what one policy read, wrote and paid in full, with the request under the
// pointer told in full below it.

const SVG = "http://www.w3.org/2000/svg";
const MARGIN = { left: 52, right: 14, top: 22, bottom: 38 };
const MARK_GAP = 9;
const MOST_LINES = 10;

function svg(tag, attributes = {}, ...children) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

const lineColour = (policy) => `var(--line-${data.lines[policy].colour})`;

/** A step of 1, 2 or 5 times a power of ten that cuts `max` into at most `count` parts. */
function niceStep(max, count) {
  for (let power = 1; ; power *= 10) {
    for (const factor of [1, 2, 5]) if (max / (factor * power) <= count) return factor * power;
  }
}

/** What stands on a line: where, in what shape, and how it is called. */
const MARKS = {
  pass: { label: "pass", path: "M-5,-4 L5,-4 L0,5 Z" },
  compaction: { label: "compaction", path: "M-4,-4 H4 V4 H-4 Z" },
  expiry: { label: "cache life over", path: "M0,-5 L5,0 L0,5 L-5,0 Z", hollow: true },
  rejection: { label: "refused", path: "M-4,-4 L4,4 M-4,4 L4,-4", hollow: true },
  stop: { label: "stopped", path: "M-4.5,0 A4.5,4.5 0 1,0 4.5,0 A4.5,4.5 0 1,0 -4.5,0" },
};

/** Marks of a run as [kind, index]. What shortened the prompt stands before the drop, and so points at it. */
function marksOf(run, stoppedAt) {
  const ttlExpired = data.causes.indexOf("ttl_expired") + 1;
  const marks = [];
  for (let i = 0; i < run.length; i++) {
    if (run.passes[i]) marks.push(["pass", Math.max(i - 1, 0)]);
    if (run.compactions[i]) marks.push(["compaction", Math.max(i - 1, 0)]);
    if (run.cause[i] === ttlExpired) marks.push(["expiry", i]);
    if (run.rejections[i]) marks.push(["rejection", i]);
  }
  if (stoppedAt) marks.push(["stop", run.length - 1]);
  return marks;
}

class TokenCurve {
  constructor() {
    const byId = (id) => document.getElementById(`curve-${id}`);
    this.section = document.getElementById("curve");
    [this.session, this.view, this.legend, this.picture, this.caption, this.slider, this.number, this.detail] =
      ["session", "view", "legend", "picture", "caption", "request", "number", "detail"].map(byId);
    [this.closer, this.whole] = ["closer", "whole"].map(byId);
    this.groups = new Map();
    data.runs.forEach((entry, index) => {
      const key = `${entry[0]}/${entry[2]}`;
      if (!this.groups.has(key)) this.groups.set(key, []);
      this.groups.get(key).push(index);
    });
    this.decoded = new Map();
    this.hidden = new Set();
    if (this.groups.size === 0) return;
    this.section.hidden = false;
    this.fillSessions();
    this.listen();
    this.chooseFirstLines();
    this.open(this.session.value);
  }

  fillSessions() {
    const length = (key) => Math.max(...this.groups.get(key).map((index) => data.runs[index][3]));
    const keys = [...this.groups.keys()].sort((a, b) => length(b) - length(a));
    for (const key of keys) {
      const [session, model] = key.split("/").map(Number);
      const onModel = data.models.length > 1 ? ` on ${data.models[model]}` : "";
      const text = `${shortId(data.sessions[session])}${onModel}, ${grouped(length(key))} requests`;
      this.session.append(element("option", { value: key, textContent: text }));
    }
  }

  /** Of many policies the first ones and the cheapest are shown to begin with. */
  chooseFirstLines() {
    if (data.policies.length <= MOST_LINES) return;
    const cost = (policy) => Number(data.totals.find((total) => total.policy === policy).cost_usd);
    const rest = data.policies.map((_, policy) => policy).slice(1).sort((a, b) => cost(a) - cost(b));
    rest.slice(5).forEach((policy) => this.hidden.add(policy));
  }

  listen() {
    this.session.addEventListener("change", () => this.open(this.session.value));
    this.view.addEventListener("change", () => this.draw());
    this.slider.addEventListener("input", () => this.select(Number(this.slider.value)));
    this.picture.addEventListener("pointerdown", (event) => {
      this.point(event);
      this.dragged = { from: event.clientX, request: this.request };
      if (event.pointerType === "mouse") this.picture.setPointerCapture(event.pointerId);
    });
    this.picture.addEventListener("pointermove", (event) => this.point(event));
    this.picture.addEventListener("pointerup", (event) => this.drop(event));
    this.closer.addEventListener("click", () => {
      const quarter = Math.max(Math.round((this.last - this.first) / 8), 1);
      this.zoom(this.request - quarter, this.request + quarter);
    });
    this.whole.addEventListener("click", () => {
      this.zoom(...this.ends);
      this.closer.focus();
    });
    for (const button of document.querySelectorAll("#curve-choice button")) {
      button.addEventListener("click", () => {
        this.hidden = new Set(button.dataset.show === "all" ? [] : data.policies.keys());
        this.draw();
      });
    }
    let width = 0;
    new ResizeObserver(() => {
      if (this.picture.clientWidth !== width) this.draw();
      width = this.picture.clientWidth;
    }).observe(this.picture);
  }

  run(index) {
    if (!this.decoded.has(index)) {
      this.decoded.set(index, decodeRun(document.getElementById(`run-${index}`), data.runs[index]));
    }
    return this.decoded.get(index);
  }

  /** Shows a session on a model; `key` names both. */
  open(key) {
    this.session.value = key;
    this.decoded.clear();
    this.lines = this.groups.get(key).map((index) => {
      const run = this.run(index);
      const [session, policy, model, , , , window] = data.runs[index];
      const stopped = cellOf(session, model, policy)?.stopped;
      return { policy, run, window, marks: marksOf(run, stopped && stopped[0]) };
    });
    const first = Math.min(...this.lines.map(({ run }) => run.request[0] ?? 1));
    const last = Math.max(...this.lines.map(({ run }) => run.request[run.length - 1] ?? 1));
    this.ends = [first, last];
    const view = this.view.value;
    this.view.replaceChildren(element("option", { value: "", textContent: "prompt of each policy" }));
    for (const { policy } of this.lines) {
      const textContent = `${data.policies[policy]}: read, written, uncached`;
      this.view.append(element("option", { value: policy, textContent }));
    }
    this.view.value = this.lines.some((line) => String(line.policy) === view) ? view : "";
    this.request = undefined;
    this.zoom(first, last);
  }

  /** Shows the requests between two of them. */
  zoom(first, last) {
    this.first = Math.max(first, this.ends[0]);
    this.last = Math.min(Math.max(last, this.first + 1), this.ends[1]);
    this.whole.hidden = this.first === this.ends[0] && this.last === this.ends[1];
    Object.assign(this.slider, { min: this.first, max: this.last });
    if (this.request !== undefined) this.request = Math.min(Math.max(this.request, this.first), this.last);
    this.draw();
  }

  /** The end of a drag across the picture, if it was one. */
  drop(event) {
    const { from, request } = this.dragged ?? {};
    this.dragged = undefined;
    if (from === undefined || event.pointerType !== "mouse" || Math.abs(event.clientX - from) < 8) return;
    this.zoom(Math.min(request, this.request), Math.max(request, this.request));
  }

  shown() {
    const only = this.view.value;
    return this.lines.filter(({ policy }) => (only === "" ? !this.hidden.has(policy) : String(policy) === only));
  }

  draw() {
    this.drawLegend();
    const lines = this.shown();
    this.size = { width: Math.max(this.picture.clientWidth, 260), height: this.picture.clientHeight || 380 };
    const peak = Math.max(1, ...lines.map(({ run }) => run.prompt
      .subarray(placeOf(run, this.first), placeOf(run, this.last + 1))
      .reduce((most, n) => Math.max(most, n), 0)));
    const window = lines[0]?.window ?? 0;
    const showsWindow = window > 0 && 3 * peak >= 2 * window;
    const top = Math.max(peak, showsWindow ? window : 0);
    this.max = top * 1.04;
    this.picture.setAttribute("viewBox", `0 0 ${this.size.width} ${this.size.height}`);
    this.picture.replaceChildren(this.axes());
    if (showsWindow) this.picture.append(this.windowLine(window));
    if (this.view.value === "") lines.forEach((line) => this.picture.append(this.line(line)));
    else lines.forEach((line) => this.picture.append(this.stack(line)));
    lines.forEach((line) => this.picture.append(this.marks(line)));
    this.overlay = svg("g");
    this.picture.append(this.overlay);
    this.caption.textContent = this.captionText(lines);
    this.select(this.request ?? this.worst(lines));
  }

  /** The request that missed most: the one to look at first. */
  worst(lines) {
    let worst = [0, this.first];
    for (const { run } of lines) {
      run.missed.forEach((missed, i) => {
        const isShown = run.request[i] >= this.first && run.request[i] <= this.last;
        if (i > 0 && isShown && missed > worst[0]) worst = [missed, run.request[i]];
      });
    }
    return worst[1];
  }

  captionText(lines) {
    const [session, model] = this.session.value.split("/").map(Number);
    const what = this.view.value === "" ? `${lines.length} of ${this.lines.length} policies` : "by price of its tokens";
    const kinds = new Set(lines.flatMap((line) => line.marks.map(([kind]) => kind)));
    const signs = { pass: "▼", compaction: "■", expiry: "◇", rejection: "✕", stop: "●" };
    const marks = [...kinds].map((kind) => `${signs[kind]} ${MARKS[kind].label}`).join("  ");
    return `Prompt tokens of each request, session ${data.sessions[session]} on ${data.models[model]}, ${what}. ${marks}`;
  }

  drawLegend() {
    const isStack = this.view.value !== "";
    document.getElementById("curve-choice").hidden = isStack || this.lines.length < 3;
    if (isStack) {
      const classes = ["read from the cache", "written to the cache", "uncached"];
      this.legend.replaceChildren(...classes.map((name, i) => {
        const swatch = element("span", { className: "swatch" });
        swatch.style.background = `var(--class-${i})`;
        return element("span", {}, swatch, name);
      }));
      return;
    }
    this.legend.replaceChildren(...this.lines.map(({ policy }) => {
      const stroke = svg("line", { x1: 0, y1: 4, x2: 28, y2: 4, "stroke-width": 2.5, "stroke-dasharray": data.lines[policy].dashes });
      stroke.style.stroke = lineColour(policy);
      const pressed = String(!this.hidden.has(policy));
      const button = element("button", { type: "button", "aria-pressed": pressed }, svg("svg", { viewBox: "0 0 28 8", "aria-hidden": "true" }, stroke), data.policies[policy]);
      button.dataset.policy = policy;
      button.addEventListener("click", () => {
        if (!this.hidden.delete(policy)) this.hidden.add(policy);
        this.draw();
        // The legend was made anew: stay where the user was.
        this.legend.querySelector(`[data-policy="${policy}"]`).focus();
      });
      return button;
    }));
  }

  x(request) {
    const span = Math.max(this.last - this.first, 1);
    return MARGIN.left + ((this.size.width - MARGIN.left - MARGIN.right) * (request - this.first)) / span;
  }

  y(tokens) {
    const bottom = this.size.height - MARGIN.bottom;
    return bottom - ((bottom - MARGIN.top) * tokens) / this.max;
  }

  axes() {
    const group = svg("g");
    const { width, height } = this.size;
    const step = niceStep(this.max, 6);
    for (let tokens = 0; tokens <= this.max; tokens += step) {
      const y = this.y(tokens);
      const line = svg("line", { x1: MARGIN.left, x2: width - MARGIN.right, y1: y, y2: y });
      line.style.stroke = "var(--rule)";
      group.append(line, svg("text", { x: MARGIN.left - 8, y: y + 4, "text-anchor": "end" }, short(tokens)));
    }
    const across = niceStep(Math.max(this.last - this.first, 1), width < 500 ? 4 : 10);
    for (let request = Math.floor(this.first / across) * across; request <= this.last; request += across) {
      if (request < this.first && request > 0) continue;
      const at = Math.max(request, this.first);
      group.append(svg("text", { x: this.x(at), y: height - MARGIN.bottom + 17, "text-anchor": "middle" }, grouped(at)));
    }
    group.append(svg("text", { x: width - MARGIN.right, y: height - 5, "text-anchor": "end" }, "request"));
    group.append(svg("text", { x: 4, y: 12 }, "tokens"));
    return group;
  }

  windowLine(window) {
    const y = this.y(window);
    const line = svg("line", { x1: MARGIN.left, x2: this.size.width - MARGIN.right, y1: y, y2: y, "stroke-dasharray": "3 4" });
    line.style.stroke = "var(--limit)";
    return svg("g", {}, line, svg("text", { class: "limit", x: MARGIN.left + 6, y: y - 5 }, `window ${short(window)}`));
  }

  /** Indices of the requests that a line needs: of each column of pixels the first, lowest, highest and last. */
  thinned(run) {
    const columns = Math.floor(this.size.width - MARGIN.left - MARGIN.right);
    const [begin, length] = [placeOf(run, this.first), placeOf(run, this.last + 1)];
    if (length - begin <= 2 * columns) return Array.from({ length: length - begin }, (_, i) => begin + i);
    const kept = [];
    for (let start = begin; start < length; ) {
      const column = Math.floor(this.x(run.request[start]));
      let end = start;
      let low = start;
      let high = start;
      while (end < length && Math.floor(this.x(run.request[end])) === column) {
        if (run.prompt[end] < run.prompt[low]) low = end;
        if (run.prompt[end] > run.prompt[high]) high = end;
        end++;
      }
      kept.push(...[...new Set([start, low, high, end - 1])].sort((a, b) => a - b));
      start = end;
    }
    return kept;
  }

  line({ policy, run }) {
    const kept = this.thinned(run);
    const d = kept.map((i, n) => `${n ? "L" : "M"}${this.x(run.request[i]).toFixed(1)},${this.y(run.prompt[i]).toFixed(1)}`).join("");
    const dense = kept.length > 2 * this.size.width;
    const only = kept.length === 1;
    const path = svg("path", { d: only ? `${d}h0.01` : d, fill: "none", "stroke-width": dense ? 1.2 : 2, "stroke-linejoin": "round", "stroke-linecap": only ? "round" : "butt" });
    if (!dense) path.setAttribute("stroke-dasharray", data.lines[policy].dashes);
    path.style.stroke = lineColour(policy);
    path.dataset.policy = policy;
    return path;
  }

  /** Areas from the bottom: read, written, uncached. */
  stack({ run }) {
    const group = svg("g");
    const kept = this.thinned(run);
    let below = kept.map(() => 0);
    [run.read, run.written, run.uncached].forEach((part, index) => {
      const above = kept.map((i, n) => below[n] + part[i]);
      const point = (i, n, heights) => `${this.x(run.request[i]).toFixed(1)},${this.y(heights[n]).toFixed(1)}`;
      const forth = kept.map((i, n) => point(i, n, above));
      const back = kept.map((i, n) => point(i, n, below)).reverse();
      const area = svg("polygon", { points: [...forth, ...back].join(" ") });
      area.style.fill = `var(--class-${index})`;
      group.append(area);
      below = above;
    });
    return group;
  }

  marks({ policy, run, marks }) {
    const group = svg("g");
    const lastX = {};
    for (const [kind, i] of marks) {
      const x = this.x(run.request[i]);
      if (run.request[i] < this.first || run.request[i] > this.last) continue;
      if (x - (lastX[kind] ?? -Infinity) < MARK_GAP) continue;
      lastX[kind] = x;
      const { path, hollow } = MARKS[kind];
      const mark = svg("path", { d: path, transform: `translate(${x.toFixed(1)},${this.y(run.prompt[i]).toFixed(1)})`, "stroke-width": hollow ? 2 : 1.2 });
      mark.style.fill = hollow && kind === "rejection" ? "none" : hollow ? "var(--paper)" : lineColour(policy);
      mark.style.stroke = hollow ? lineColour(policy) : "var(--paper)";
      group.append(mark);
    }
    return group;
  }

  point(event) {
    const box = this.picture.getBoundingClientRect();
    const inner = box.width - MARGIN.left - MARGIN.right;
    const share = (event.clientX - box.left - MARGIN.left) / Math.max(inner, 1);
    const request = Math.round(this.first + share * (this.last - this.first));
    this.select(Math.min(Math.max(request, this.first), this.last), event.clientY - box.top);
  }

  /** Tells of a request; `height` is where the pointer is. */
  select(request, height) {
    this.request = request;
    this.slider.value = request;
    const found = this.shown().map((line) => ({ ...line, i: indexOfRequest(line.run, request) }));
    const there = found.filter(({ i }) => i >= 0);
    const distance = ({ run, i }) => Math.abs(this.y(run.prompt[i]) - height);
    const near = height === undefined ? there[0] : there.reduce((a, b) => (a && distance(a) <= distance(b) ? a : b), undefined);
    this.drawPointer(request, there, near);
    this.tell(request, there, near);
  }

  drawPointer(request, there, near) {
    const x = this.x(request);
    const bottom = this.size.height - MARGIN.bottom;
    const line = svg("line", { x1: x, x2: x, y1: MARGIN.top, y2: bottom });
    line.style.stroke = "var(--muted)";
    this.overlay.replaceChildren(line);
    if (this.dragged) {
      const other = this.x(this.dragged.request);
      const chosen = { x: Math.min(x, other), width: Math.abs(x - other), y: MARGIN.top, height: bottom - MARGIN.top };
      this.overlay.append(svg("rect", { class: "chosen", ...chosen }));
    }
    for (const { policy, run, i } of there) {
      const dot = svg("circle", { cx: x, cy: this.y(run.prompt[i]), r: near?.policy === policy ? 5 : 3 });
      dot.style.fill = lineColour(policy);
      dot.style.stroke = "var(--paper)";
      this.overlay.append(dot);
    }
    if (near) {
      const right = x > this.size.width / 2;
      const text = `${data.policies[near.policy]}: ${grouped(near.run.prompt[near.i])}`;
      this.overlay.append(svg("text", { class: "tip", x: x + (right ? -9 : 9), y: 13, "text-anchor": right ? "end" : "start" }, text));
    }
  }

  tell(request, there, near) {
    const at = there[0] && there[0].run.atMs[there[0].i];
    const gap = there[0] && there[0].run.gapMs[there[0].i];
    const parts = [`${grouped(request)} of ${grouped(this.ends[1])}`];
    if (at !== null && at !== undefined) parts.push(moment(at));
    if (gap !== null && gap !== undefined) parts.push(`${span(gap)} after the one before`);
    this.number.textContent = parts.join(" · ");
    const rows = there.map(({ policy, run, i }) => {
      const swatch = element("span", { className: "swatch" });
      swatch.style.background = lineColour(policy);
      const missed = run.cause[i] ? `${grouped(run.missed[i])}, ${causeName(run.cause[i] - 1)}` : "";
      const events = (run.events.get(request) ?? []).map(eventWords).join("; ");
      const numbers = [run.prompt, run.read, run.written, run.uncached, run.output].map((column) => grouped(column[i]));
      return element("tr", { className: near?.policy === policy ? "near" : "" },
        element("th", { scope: "row" }, swatch, data.policies[policy]),
        ...[...numbers, dollars(run.costPusd[i])].map((text) => element("td", { textContent: text })),
        element("td", { className: "text", textContent: missed }),
        element("td", { className: "text wrap", textContent: events }));
    });
    this.detail.tBodies[0].replaceChildren(...rows);
  }
}

/** Index of the first request of a run from number `request` on. */
function placeOf(run, request) {
  let [low, high] = [0, run.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (run.request[middle] < request) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Index of a request, -1 where the run does not have it. */
function indexOfRequest(run, request) {
  const place = placeOf(run, request);
  return run.request[place] === request ? place : -1;
}
