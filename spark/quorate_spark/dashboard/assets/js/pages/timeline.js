/**
 * The timeline: who led, what changed, and a lane for every set that changed in the window.
 *
 * A lane is a band while the set is in full sync; what is missing bites from the top, hatched when one replica is left;
 * red is time without a master; a digit is the master. A click sets the offset, a drag pans, the wheel with Ctrl zooms.
 */
import { clock, hours, num, plural, span, zoneName } from "../format.js";
import { html } from "../html.js";
import { ask } from "../api.js";
import { panel } from "../panel.js";

const LANE = 16, ROW = 23, TOP = 26;
const RANGES = [["15m", "15 min", 9e5], ["1h", "1 h", 36e5], ["2h", "2 h", 72e5], ["all", "all", null]];
const STEPS_S = [1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 14400, 43200, 86400, 172800, 604800];
const LANES = 300;
const SHORTEST_MS = 2_000;
/** Windows are asked for in steps of so small a part of themselves, so that following the clock asks seldom. */
const GRAIN = 240;

let drawn = null, hover = null;

const bounds = view => {
  const density = view.data("density");
  if (!density?.end_offset || density.from === null) return null;
  return [density.from - 1000, Math.max(view.recorded ? density.to : view.now, density.from) + 1000];
};

/** The window `[from, to]` and the name of its range (null for one chosen by hand). */
function windowOf(view) {
  const all = bounds(view), { from, to, range } = view.route.params;
  if (!all) return null;
  if (/^\d+$/.test(from ?? "") && /^\d+$/.test(to ?? "") && Number(to) > Number(from)) return { from: Number(from), to: Number(to), name: null };
  const name = range ?? (all[1] - all[0] > 72e5 ? "2h" : "all"), length = RANGES.find(r => r[0] === name)?.[2] ?? null;
  if (length === null) return { from: all[0], to: all[1], name: "all" };
  const end = view.live || view.t === null ? all[1] : Math.min(all[1], view.t + length * 0.25);
  return { from: Math.max(all[0], end - length), to: Math.max(end, all[0] + SHORTEST_MS), name };
}

export const range = view => { const w = windowOf(view); return w ? [w.from, w.to] : null; };

export function needs(view) {
  const w = windowOf(view), quorum = { path: "quorum" };
  if (!w) return { quorum, timeline: { path: "timeline", query: { limit: LANES }, slot: "timeline" } };
  const grain = Math.max(100, Math.round((w.to - w.from) / GRAIN)), from = Math.floor(w.from / grain) * grain, to = Math.ceil(w.to / grain) * grain + grain;
  return { quorum, timeline: { path: "timeline", query: { from, to, show: view.route.params.show ?? null, limit: LANES }, every: 400, slot: "timeline" } };
}

// ── drawing ───────────────────────────────────────────────────────────────────────────────────────────────────────────

class Scale {
  constructor(view, w) {
    const narrow = view.width < 700;
    Object.assign(this, { left: narrow ? 84 : 112, width: view.width - (narrow ? 38 : 54), t0: w.from, t1: w.to });
    this.w = this.width - this.left;
    this.end = Math.min(w.to, view.t ?? w.from);
  }
  raw(t) { return this.left + (t - this.t0) / (this.t1 - this.t0) * this.w; }
  x(t) { return Math.max(this.left, Math.min(this.width, this.raw(t))); }
  time(px) { return this.t0 + (px - this.left) / this.w * (this.t1 - this.t0); }
  sees(a, b) { return b >= this.t0 && a <= this.t1; }
}
const f = n => n.toFixed(1);

function axis(s) {
  const step = 1000 * (STEPS_S.find(n => (s.t1 - s.t0) / (n * 1000) <= s.w / 78) ?? STEPS_S.at(-1));
  let grid = "";
  const names = [];
  for (let t = Math.ceil(s.t0 / step) * step; t <= s.t1; t += step) {
    grid += `M${f(s.raw(t))} 20V9999`;
    names.push(html`<text x="${f(s.raw(t))}" y="12" text-anchor="middle">${step < 60_000 ? clock(t) : hours(t)}</text>`);
  }
  return { grid, names };
}

const heading = (y, words) => html`<text class="heading" x="0" y="${y + 11}">${words}</text>`;
const name = (y, words, href) => (href ? html`<a href="${href}"><text class="lab" x="0" y="${y + 12}">${words.length > 16 ? words.slice(0, 15) + "…" : words}<title>${words}</title></text></a>` : html`<text class="lab" x="0" y="${y + 12}">${words}</text>`);

function leaders(view, data, s, y0) {
  const ids = [...new Set([...(view.data("quorum")?.nodes ?? []).map(n => n.id), ...data.leaders.map(l => l.id)])].sort((a, b) => a - b);
  let y = y0 + 19;
  const rows = ids.map(id => {
    const at = y;
    y += 20;
    return html`${name(at, `n${id}`)}<path class="thin" d="M${s.left} ${at + 8}H${f(s.x(s.end))}"/>${data.leaders.filter(l => l.id === id && s.sees(l.from, l.to ?? s.end)).map(l => {
      const a = s.x(l.from), b = s.x(l.to ?? s.end);
      return html`<rect class="leads" x="${f(a)}" y="${at + 2}" width="${f(Math.max(2, b - a))}" height="12"><title>n${l.id} leads, term ${l.term}, from ${clock(l.from)}${l.to ? ` to ${clock(l.to)}` : ""}</title></rect>${b - a > 90 ? html`<text class="in" x="${f(a + 5)}" y="${at + 11.5}">leads, term ${l.term}</text>` : ""}`;
    })}`;
  });
  const gaps = data.leaders.map((l, i) => {
    const before = data.leaders[i - 1];
    return before?.to && s.sees(before.to, l.from) ? html`<rect class="gap" x="${f(s.x(before.to))}" y="${y0 + 19}" width="${f(Math.max(2, s.x(l.from) - s.x(before.to)))}" height="${20 * ids.length - 2}"><title>no leader for ${span(l.from - before.to)}</title></rect>` : "";
  });
  return { markup: html`${heading(y0, "Controllers")}${rows}${gaps}`, y: y + 6 };
}

const MARKS = [["config", ["config"]], ["topics", ["topic"]], ["brokers", ["registered", "fenced", "unfenced"]], ["nodes", ["node"]]];

function marks(data, s, y0) {
  let y = y0 + 19;
  const rows = MARKS.map(([words, kinds]) => {
    let ticks = "", out = "";
    for (const m of data.marks) {
      if (!kinds.includes(m.kind) || m.t < s.t0 || m.t > s.t1) continue;
      const x = f(s.raw(m.t) - 3);
      if (m.kind === "fenced") out += `M${x} ${y + 5}l6 6m0-6l-6 6`;
      else ticks += `M${f(s.raw(m.t))} ${y + 3}v10`;
    }
    const at = y;
    y += 17;
    return html`${name(at, words)}<path class="tick" d="${ticks}"/><path class="tick out" d="${out}"/>`;
  });
  return { markup: html`${heading(y0, "Changes")}${rows}`, y: y + 8 };
}

function lane(view, l, s, y) {
  const start = l.masters[0]?.t ?? l.sync[0]?.t ?? s.end, a0 = s.x(start), b0 = s.x(s.end);
  let bite = "", one = "", line = "", taken = -99;
  l.sync.forEach((q, i) => {
    const to = l.sync[i + 1]?.t ?? s.end;
    if (q.n >= l.size || !s.sees(q.t, to)) return;
    const a = s.x(q.t), w = Math.max(0.8, s.x(to) - a), h = (1 - q.n / l.size) * LANE;
    const d = `M${f(a)} ${y + 1}h${f(w)}v${f(h)}h-${f(w)}z`;
    if (q.n <= 1) one += d; else bite += d;
    line += `M${f(a)} ${f(y + 1 + h)}h${f(w)}`;
  });
  const gaps = l.gaps.map(g => {
    if (!s.sees(g.t0, g.t1 ?? s.end)) return "";
    const a = s.x(g.t0), b = s.x(g.t1 ?? s.end);
    return html`<rect class="gap" x="${f(a)}" y="${y}" width="${f(Math.max(2.4, b - a))}" height="${LANE + 2}"><title>no master ${g.t1 ? `for ${span(g.t1 - g.t0)}` : `since ${clock(g.t0)}`}</title></rect>${b - a > 66 ? html`<text class="in" x="${f(a + 5)}" y="${y + 13}">no master</text>` : ""}`;
  });
  const masters = l.masters.map((m, i) => {
    const to = l.masters[i + 1]?.t ?? s.end;
    if (m.id === null || !s.sees(m.t, to)) return "";
    const a = s.x(m.t), room = s.x(to) - a > 13 && a - taken > 10;
    if (room) taken = a;
    return html`${m.t >= s.t0 ? html`<path class="change" d="M${f(a)} ${y - 1}v${LANE + 4}"/>` : ""}${room ? html`<text class="id" x="${f(a + 4)}" y="${y + 13.5}">${m.id}</text>` : ""}`;
  });
  return html`<g data-key="${l.set}">${name(y, l.set, view.href("set", l.set))}${b0 > a0 ? html`<rect class="full" x="${f(a0)}" y="${y + 1}" width="${f(b0 - a0)}" height="${LANE}"/>` : ""}<path class="bite" d="${bite}"/><path class="bite one" d="${one}"/><path class="biteline" d="${line}"/>${gaps}${masters}</g>`;
}

function picture(view, data) {
  const w = windowOf(view);
  if (!w) return html`<p class="empty">The log is empty.</p>`;
  const s = new Scale(view, w), { grid, names } = axis(s);
  const top = leaders(view, data, s, TOP), middle = marks(data, s, top.y);
  let y = middle.y + 19;
  const rows = [], lanes = data.lanes.map(l => {
    const at = y;
    rows.push([at - 2, at + ROW - 2, l]);
    y += ROW;
    return lane(view, l, s, at);
  });
  const rest = [];
  if (data.quiet) rest.push(`${plural(data.quiet, "more set")} without ${(view.route.params.show ?? "all") === "all" ? "a change" : "an election"} in this range`);
  if (data.more) rest.push(`${plural(data.more, "lane")} beyond the first ${num(LANES)}: narrow the range`);
  const bottom = y + (rest.length ? 22 : 0), at = view.t === null ? -1 : s.raw(view.t), inside = at >= s.left - 1 && at <= s.width + 1;
  drawn = { scale: s, rows, bottom };
  const after = !view.live && at < s.width ? html`<rect class="after" x="${f(Math.max(s.left, at))}" y="18" width="${f(Math.max(0, s.width - Math.max(s.left, at)))}" height="${bottom - 18}"/>` : "";
  return html`<p class="read">${reading(view) ?? html`<span class="mute">${view.moment(s.t0)} to ${view.moment(s.t1)} ${zoneName()}, ${span(s.t1 - s.t0)}. Click to set the offset, drag to pan, Ctrl and wheel to zoom.</span>`}</p>
  <div class="tl" id="tl" tabindex="0" role="group" aria-label="Timeline. Arrows pan, plus and minus zoom, 0 shows all"><svg width="${s.width + 6}" height="${bottom + 4}" role="img" aria-label="Lanes of ${plural(new Set(data.leaders.map(l => l.id)).size, "controller")} and ${plural(data.lanes.length, "broker set")}"><path class="gridline" d="${grid}"/><g class="axis">${names}</g>${top.markup}${middle.markup}${heading(middle.y, "Broker sets")}${lanes}${rest.length ? html`<text class="heading" x="${s.left}" y="${y + 13}">${rest.join("; ")}</text>` : ""}${after}${hover && hover.x >= s.left ? html`<path class="hair" d="M${f(hover.x)} 18V${bottom}"/>` : ""}${inside ? html`<path class="cursor" d="M${f(at)} 16V${bottom}"/><path class="knob" d="M${f(at - 5)} 15h10v4l-5 4-5-4z"/>` : ""}</svg></div>${key}`;
}

/** What is under the pointer. */
function reading(view) {
  if (!hover || !drawn || hover.x < drawn.scale.left) return null;
  const t = drawn.scale.time(hover.x), found = drawn.rows.find(([a, b]) => hover.y >= a && hover.y < b)?.[2];
  if (!found) return html`<b>${clock(t, drawn.scale.t1 - drawn.scale.t0 < 6e5)}</b>`;
  const gap = found.gaps.find(g => g.t0 <= t && (g.t1 ?? Infinity) >= t), master = found.masters.findLast(m => m.t <= t), sync = found.sync.findLast(q => q.t <= t);
  return html`<b>${clock(t, drawn.scale.t1 - drawn.scale.t0 < 6e5)}</b> <b>${found.set}</b> ${gap ? `no master ${gap.t1 ? `for ${span(gap.t1 - gap.t0)}` : `since ${clock(gap.t0)}`}` : master && master.id !== null ? `master broker ${master.id}, ${sync?.n ?? 0} of ${found.size} in sync` : ""}`;
}

const key = html`<p class="key"><span><svg width="22" height="12" aria-hidden="true"><rect class="full" width="22" height="12"/></svg> full sync set, number: master</span><span><svg width="22" height="12" aria-hidden="true"><rect class="full" width="22" height="12"/><rect class="bite" width="22" height="4"/><path class="biteline" d="M0 4h22"/></svg> shrunk: the bite is what is missing</span><span><svg width="22" height="12" aria-hidden="true"><rect class="full" width="22" height="12"/><rect class="bite one" width="22" height="8"/><path class="biteline" d="M0 8h22"/></svg> one replica</span><span><svg width="22" height="12" aria-hidden="true"><rect class="gap" width="22" height="12"/></svg> no master</span><span><svg width="14" height="12" aria-hidden="true"><path class="tick out" d="M4 3l6 6m0-6l-6 6"/></svg> broker fenced</span></p>`;

export function render(view) {
  const w = windowOf(view), show = view.route.params.show ?? "all";
  const tools = html`<span class="choice" role="group" aria-label="Range">${RANGES.map(([id, words]) => html`<button data-do="range" data-value="${id}" aria-pressed="${w?.name === id ? "true" : "false"}">${words}</button>`)}</span><span class="choice" role="group" aria-label="Lanes">${[["all", "all changes"], ["elections", "only elections"]].map(([id, words]) => html`<button data-do="param" data-name="show" data-value="${id === "all" ? "" : id}" aria-pressed="${show === id ? "true" : "false"}">${words}</button>`)}</span>`;
  return html`<h1 class="hide">Timeline</h1>${panel(view, { id: "lanes", title: "Timeline", need: "timeline", bones: "chart", tools, empty: "No lane yet: the log is empty." }, d => picture(view, d))}`;
}

// ── moving ────────────────────────────────────────────────────────────────────────────────────────────────────────────

export const acts = { range: (el, view, go) => go(view.here({ from: null, to: null, range: el.dataset.value })) };

export function mounted(view, main) {
  const el = main.querySelector("#tl");
  if (!el) return;
  el._view = view;
  if (!el._bound) bind(el);
}

function bind(el) {
  el._bound = true;
  const redraw = () => dispatchEvent(new Event("resize"));
  const point = event => { const box = el.querySelector("svg").getBoundingClientRect(); return { x: event.clientX - box.left, y: event.clientY - box.top }; };
  const show = (from, to) => {
    const all = bounds(el._view);
    if (!all) return;
    const length = Math.max(SHORTEST_MS, Math.min(all[1] - all[0], to - from)), start = Math.max(all[0], Math.min(all[1] - length, from));
    history.replaceState(null, "", el._view.here({ from: Math.round(start), to: Math.round(start + length), range: null }));
    dispatchEvent(new HashChangeEvent("hashchange"));
  };
  const now = () => drawn.scale;
  const zoom = (k, t) => { const { t0, t1 } = now(), length = Math.max(SHORTEST_MS, (t1 - t0) * k), share = (t - t0) / (t1 - t0); show(t - length * share, t - length * share + length); };
  const pan = part => { const { t0, t1 } = now(), d = (t1 - t0) * part; show(t0 + d, t1 + d); };
  el.addEventListener("wheel", event => {
    if (!event.ctrlKey && Math.abs(event.deltaX) > Math.abs(event.deltaY)) pan(event.deltaX / now().w);
    else if (event.ctrlKey || event.altKey || event.shiftKey) zoom(Math.exp((event.deltaY || event.deltaX) * 0.002), now().time(point(event).x));
    else return;
    event.preventDefault();
  }, { passive: false });
  let drag = null;
  el.addEventListener("pointerdown", event => {
    if (event.target.closest("a")) return;
    drag = { x: event.clientX, t0: now().t0, t1: now().t1, moved: false };
    el.setPointerCapture(event.pointerId);
  });
  el.addEventListener("pointermove", event => {
    hover = point(event);
    if (drag && (drag.moved ||= Math.abs(event.clientX - drag.x) > 4)) {
      const d = (event.clientX - drag.x) / now().w * (drag.t1 - drag.t0);
      show(drag.t0 - d, drag.t1 - d);
    } else redraw();
  });
  el.addEventListener("pointerup", async event => {
    const click = drag && !drag.moved, { x } = point(event);
    drag = null;
    if (!click || x < now().left) return;
    const t = now().time(x), end = el._view.head.time;
    if (end !== null && t >= end) return el._view.seek(null);
    try {
      const { offset } = (await ask({ path: "seek", query: { t: Math.round(t) } }, null)).data;
      el._view.seek(offset);
    } catch (error) { el._view.toast(error.message); }
  });
  el.addEventListener("pointerleave", () => { hover = null; redraw(); });
  el.addEventListener("keydown", event => {
    const { t0, t1 } = now(), t = el._view.t, middle = t !== null && t > t0 && t < t1 ? t : (t0 + t1) / 2;
    const act = { ArrowLeft: () => pan(-0.15), ArrowRight: () => pan(0.15), "+": () => zoom(0.6, middle), "=": () => zoom(0.6, middle), "-": () => zoom(1.6, middle), 0: () => show(...bounds(el._view)) }[event.key];
    if (!act) return;
    act();
    event.preventDefault();
    event.stopPropagation();
  });
}
