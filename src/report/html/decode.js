// Requests of a run: columns of variable-length integers in base64, as pack.rs writes them.

/** Reads `length` numbers per column, one column after the other. */
class ColumnReader {
  constructor(base64, length) {
    const binary = atob(base64);
    this.bytes = Uint8Array.from(binary, (c) => c.charCodeAt(0));
    this.at = 0;
    this.length = length;
  }

  number() {
    let value = 0;
    let scale = 1;
    for (;;) {
      const byte = this.bytes[this.at++];
      // Not shifted: numbers may be longer than 32 bits.
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) return value;
      scale *= 128;
    }
  }

  /** A column; a zero is followed by the number of further zeros. */
  column() {
    const out = new Float64Array(this.length);
    for (let i = 0; i < this.length; i++) {
      const value = this.number();
      if (value === 0) i += this.number();
      else out[i] = value;
    }
    return out;
  }
}

const unzigzag = (n) => (n % 2 === 0 ? n / 2 : -(n + 1) / 2);

/** All columns of a run, and its events by request. */
function decodeRun(element, [, , , length, costUnit, firstAt]) {
  const text = element.textContent;
  const end = text.indexOf("\n");
  const reader = new ColumnReader(text.slice(0, end), length);
  const skipped = reader.column();
  const gap = reader.column();
  const uncached = reader.column();
  const unexpected = reader.column();
  const written5m = reader.column();
  const written1h = reader.column();
  const output = reader.column();
  const cost = reader.column();
  const [cause, missed, passes, compactions, rejections] = Array.from({ length: 5 }, () => reader.column());
  const run = { length, uncached, output, cause, missed, passes, compactions, rejections };
  run.request = new Float64Array(length);
  run.read = new Float64Array(length);
  run.written = new Float64Array(length);
  run.prompt = new Float64Array(length);
  run.costPusd = cost.map((units) => units * costUnit);
  run.gapMs = Array.from(gap, (n) => (n === 0 ? null : unzigzag(n - 1)));
  run.atMs = [];
  let at = firstAt;
  for (let i = 0; i < length; i++) {
    run.request[i] = (i ? run.request[i - 1] : 0) + skipped[i] + 1;
    run.read[i] = (i ? run.read[i - 1] + run.written[i - 1] : 0) + unzigzag(unexpected[i]);
    run.written[i] = written5m[i] + written1h[i];
    run.prompt[i] = run.read[i] + run.written[i] + uncached[i];
    if (i > 0) at = at === null || run.gapMs[i] === null ? null : at + run.gapMs[i];
    run.atMs.push(at);
  }
  run.events = new Map();
  for (const [request, kind, ...facts] of JSON.parse(text.slice(end + 1))) {
    if (!run.events.has(request)) run.events.set(request, []);
    run.events.get(request).push([kind, facts]);
  }
  return run;
}
