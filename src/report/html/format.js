// Numbers as the Rust side writes them: whole-number arithmetic, so that no digit differs.

const grouped = (n) => String(n).replace(/\B(?=(\d{3})+(?!\d))/g, ",");

/** Pico-dollars as dollars with four decimals, rounded half up. */
function dollars(pusd) {
  const units = (BigInt(pusd) + 50_000_000n) / 100_000_000n;
  return `$${grouped(units / 10_000n)}.${String(units % 10_000n).padStart(4, "0")}`;
}

/** part / whole in millionths, rounded half up; null over nothing. */
function millionths(part, whole) {
  if (!whole) return null;
  return Number((2n * BigInt(part) * 1_000_000n + BigInt(whole)) / (2n * BigInt(whole)));
}

/** Millionths as a percentage with one decimal. */
function percent(micro) {
  if (micro === null) return "-";
  const tenths = Math.floor((micro + 500) / 1000);
  return `${Math.floor(tenths / 10)}.${tenths % 10}%`;
}

/** A change from `base` to `value` in signed millionths. */
function change(value, base) {
  const micro = millionths(Math.abs(value - base), base);
  return micro === null || value >= base ? micro : -micro;
}

function signedPercent(micro) {
  if (micro === null) return "-";
  const text = percent(Math.abs(micro));
  return text === "0.0%" ? text : (micro < 0 ? "-" : "+") + text;
}

/** 950, 50k, 1.2M. */
function short(n) {
  if (n < 1000) return String(n);
  const [unit, suffix] = n < 1e6 ? [1e3, "k"] : [1e6, "M"];
  return `${Number((n / unit).toFixed(2))}${suffix}`;
}

/** A time span in its two largest units. */
function span(ms) {
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  if (ms < 3_600_000) return `${Math.floor(ms / 60_000)} min ${Math.floor((ms % 60_000) / 1000)} s`;
  return `${Math.floor(ms / 3_600_000)} h ${Math.floor((ms % 3_600_000) / 60_000)} min`;
}

const moment = (ms) => new Date(ms).toISOString().slice(0, 19).replace("T", " ") + " UTC";

const causeName = (index) => data.causes[index].replaceAll("_", " ");

/** What happened, in words; the kinds are those of runs.rs. */
const EVENT_WORDS = {
  offload: (n, chars) => `offload of ${n} result${n === 1 ? "" : "s"}, ${grouped(chars)} characters kept out`,
  pass: (n, chars) => `pass: ${n} result${n === 1 ? "" : "s"} elided, ${grouped(chars)} characters saved`,
  cut: (n, chars) => `${n} fresh result${n === 1 ? "" : "s"} cut by ${grouped(chars)} characters`,
  reclaimed: (tokens) => `${grouped(tokens)} tokens of stale tool output reclaimed`,
  dropped: (messages, after) => `${messages} messages left out, ${grouped(after)} tokens stay`,
  compaction: (before, after) => `compaction, ${grouped(before)} to ${grouped(after)} tokens`,
  "compaction failed": (reason) => `no compaction: ${reason}`,
  "thinking withheld": (blocks) => `${blocks} thinking blocks no longer sent`,
  rejection: (reason) => `refused: ${reason.replaceAll("_", " ")}`,
  recovery: (action) => `recovered: ${action.replaceAll("_", " ")}`,
  violation: (rule) => `plan of ${rule} not applied`,
};

const eventWords = ([kind, facts]) => EVENT_WORDS[data.events[kind]](...facts);

/** An element with properties and children. */
function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in made) made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}
