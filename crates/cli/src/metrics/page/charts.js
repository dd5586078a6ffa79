// Pictures of what the page knows, as SVG that follows the width of its place.

const SVG = "http://www.w3.org/2000/svg";
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/** Bytes in three digits and a binary unit. */
export function size(bytes) {
  let unit = 0;
  while (bytes >= 1000 && unit < UNITS.length - 1) {
    bytes /= 1024;
    unit += 1;
  }
  const digits = unit === 0 || bytes >= 100 ? 0 : bytes >= 10 ? 1 : 2;
  return `${bytes.toFixed(digits)} ${UNITS[unit]}`;
}

/** Seconds as people say them. */
export function span(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
}

function shape(name, attributes, text) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

/** A bar of which a part is filled, and a warning from `full` on; the number stands beside it, so it is nothing to a
 *  screen reader. */
export function bar(part, full = Infinity) {
  const filled = Math.min(1, Math.max(0, part || 0));
  const svg = shape("svg", { class: filled >= full ? "bar full" : "bar", "aria-hidden": "true" });
  svg.append(shape("rect", { width: `${filled * 100}%`, height: "100%" }));
  return svg;
}

/** Steps of a scale that ends at or above the most. */
function steps(most) {
  const unit = 1024 ** Math.max(0, Math.floor(Math.log2(Math.max(most, 1)) / 10));
  const raw = most / unit / 4;
  const power = 10 ** Math.floor(Math.log10(Math.max(raw, 1e-3)));
  const step = [1, 2, 2.5, 5, 10].find((it) => it * power >= raw) * power * unit;
  const values = [];
  for (let value = 0; value < most + step; value += step) values.push(value);
  return values;
}

/** Memory over time. Pointer and arrow keys choose a moment, which `tell` is told of. */
export class History {
  constructor(place, tell) {
    this.place = place;
    this.tell = tell;
    this.points = [];
    this.chosen = null;
    place.addEventListener("pointermove", (event) => this.point(event));
    place.addEventListener("pointerleave", () => this.choose(null));
    place.addEventListener("blur", () => this.choose(null));
    place.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.draw()).observe(place);
  }

  show(points) {
    this.points = points;
    if (this.chosen !== null && this.chosen >= points.length) this.chosen = null;
    this.draw();
  }

  choose(at) {
    this.chosen = at;
    this.draw();
  }

  key(event) {
    const last = this.points.length - 1;
    const from = this.chosen ?? last;
    const to = { ArrowLeft: from - 1, ArrowRight: from + 1, Home: 0, End: last, Escape: null }[event.key];
    if (to === undefined || last < 0) return;
    event.preventDefault();
    this.choose(to === null ? null : Math.min(last, Math.max(0, to)));
  }

  point(event) {
    if (!this.scale) return;
    const x = event.clientX - this.place.getBoundingClientRect().left;
    let nearest = null;
    for (let at = 0; at < this.points.length; at += 1) {
      const away = Math.abs(this.scale.x(this.points[at].t) - x);
      if (nearest === null || away < nearest.away) nearest = { at, away };
    }
    this.choose(nearest && nearest.at);
  }

  draw() {
    const width = this.place.clientWidth;
    const height = this.place.firstElementChild?.clientHeight || 200;
    if (!width || !this.points.length) return;
    const left = 68, right = 8, top = 8, bottom = 24;
    const [first, last] = [this.points[0].t, this.points.at(-1).t];
    const values = steps(Math.max(...this.points.map((it) => Math.max(it.used_bytes, it.capacity_bytes)), 1));
    const x = (t) => left + ((t - first) / Math.max(last - first, 1e-9)) * (width - left - right);
    const y = (bytes) => height - bottom - (bytes / values.at(-1)) * (height - top - bottom);
    this.scale = { x };
    const svg = shape("svg", { viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
    for (const value of values) {
      svg.append(shape("line", { class: "grid", x1: left, x2: width - right, y1: y(value), y2: y(value) }));
      svg.append(shape("text", { x: left - 6, y: y(value) + 4, "text-anchor": "end" }, size(value)));
    }
    svg.append(shape("text", { x: left, y: height - 6 }, span(first)));
    svg.append(shape("text", { x: width - right, y: height - 6, "text-anchor": "end" }, span(last)));
    const used = this.points.map((it) => `${x(it.t)},${y(it.used_bytes)}`).join(" ");
    svg.append(shape("polygon", { class: "area", points: `${x(first)},${y(0)} ${used} ${x(last)},${y(0)}` }));
    svg.append(shape("polyline", { class: "used", points: used }));
    svg.append(shape("path", { class: "capacity", d: this.stairs(x, y) }));
    const chosen = this.chosen === null ? null : this.points[this.chosen];
    if (chosen) svg.append(shape("line", { class: "cursor", x1: x(chosen.t), x2: x(chosen.t), y1: top, y2: height - bottom }));
    this.place.replaceChildren(svg);
    this.tell(chosen, this.points.at(-1));
  }

  /** A capacity is what it was until it changes. */
  stairs(x, y) {
    const [first, ...rest] = this.points;
    return rest.reduce((path, it) => `${path}H${x(it.t)}V${y(it.capacity_bytes)}`, `M${x(first.t)},${y(first.capacity_bytes)}`);
  }
}
