/**
 * The time bar: the whole log on one line, on every page. Its axis is time, its cursor an offset.
 *
 * Density of events, ◆ elections, red where some set had no master, dashed where the leader changed. What lies after the
 * cursor is dimmed. Dragging snaps to the offsets at which the buckets end; the last one is live.
 */
import { clock, day, hours, num, off, span, zoneName } from "./format.js";
import { html, morph } from "./html.js";
import { glyph, icon } from "./icons.js";

const HEIGHT = 40;
const BASE = 31.5;
const STEPS_S = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 86400, 172800, 604800];

const trackWidth = view => Math.max(200, view.width - (view.wide ? 2 * 24 + 150 + 240 + 48 : 32));
export const dockNeeds = view => ({ density: { path: "density", query: { buckets: Math.floor(trackWidth(view) / 4) }, live: true, every: 1000 } });

let shown = null;

/** Offset (as for `at`) under a time. */
export function offsetAt(density, t) {
  const { from, to, ends } = density, i = Math.floor((t - from) / Math.max(1, to - from) * ends.length);
  return ends[Math.max(0, Math.min(ends.length - 1, i))];
}
/** A time at which the page's offset was reached, by the buckets; exact once an answer for it is here. */
export function timeOf(density, offset) {
  const { from, to, ends } = density, i = ends.findIndex(end => end >= offset);
  return i < 0 ? to : from + (i + 0.5) / ends.length * (to - from);
}

function bars(density, w) {
  const { events } = density, n = events.length, busy = events.filter(Boolean).sort((a, b) => a - b);
  const cap = busy[Math.floor(busy.length * 0.97)] || 1, step = w / n;
  let path = "";
  events.forEach((count, i) => {
    if (!count) return;
    const h = Math.max(1, Math.min(1, Math.sqrt(count / cap)) * 15);
    path += `M${(i * step).toFixed(1)} ${(26 - h).toFixed(1)}h${(step * 0.66).toFixed(1)}v${h.toFixed(1)}h-${(step * 0.66).toFixed(1)}z`;
  });
  return path;
}

function axis(from, to, x, w) {
  const step = 1000 * (STEPS_S.find(s => w / Math.max(1, (to - from) / 1000 / s) >= 64) ?? STEPS_S.at(-1)), out = [];
  for (let t = Math.ceil(from / step) * step; t < to; t += step) {
    if (x(t) > 16 && x(t) < w - 16) out.push(html`<text x="${x(t).toFixed(1)}" y="40" text-anchor="middle">${step < 60_000 ? clock(t) : step < 86_400_000 ? hours(t) : day(t).slice(5)}</text>`);
  }
  return out;
}

/** Where the leader changed; named where there is room for the name. */
function leaders(density, x, w) {
  const list = density.leaders.map(l => ({ id: l.id, x: x(l.t ?? l.from) }));
  return list.map((l, i) => html`<path class="leader" d="M${l.x.toFixed(1)} 0v31"/>${i && l.x < w - 24 && (list[i + 1]?.x ?? w) - l.x > 28 ? html`<text x="${(l.x + 3).toFixed(1)}" y="8">n${l.id}</text>` : ""}`);
}

function picture(view, density, w) {
  const { from } = density, to = Math.max(shown.to, from + 1), x = t => (t - from) / (to - from) * w, covered = x(density.to);
  const step = covered / density.events.length;
  let elections = "", refused = "";
  density.elections.forEach((n, i) => { if (n) { const d = `M${((i + 0.5) * step).toFixed(1)} 3l2.6 2.9-2.6 2.9-2.6-2.9z`; density.failed[i] === n ? refused += d : elections += d; } });
  const at = view.live ? view.t : Math.min(view.t ?? density.to, to), cx = Math.max(0, Math.min(w, x(at)));
  const range = view.range;
  return html`<svg width="${w}" height="${HEIGHT}" aria-hidden="true">
    ${range ? html`<rect class="view" x="${Math.max(0, x(range[0])).toFixed(1)}" y="1" width="${Math.max(3, Math.min(w, x(range[1])) - Math.max(0, x(range[0]))).toFixed(1)}" height="30"/>` : ""}
    <path class="bars" d="${bars(density, covered)}"/><rect class="after" x="${cx.toFixed(1)}" y="0" width="${Math.max(0, w - cx).toFixed(1)}" height="31"/>
    ${density.gaps.map(g => html`<rect class="gap" x="${x(g.t0).toFixed(1)}" y="27.5" width="${Math.max(1.6, x(g.t1 ?? to) - x(g.t0)).toFixed(1)}" height="3"/>`)}
    ${leaders(density, x, w)}
    <path class="election" d="${elections}"/><path class="gap" d="${refused}"/><path class="base" d="M0 ${BASE}h${w}"/>${axis(from, to, x, w)}
    <path class="cursor" d="M${cx.toFixed(1)} 0v33"/><path class="knob" d="M${(cx - 5).toFixed(1)} ${BASE}h10v4l-5 4-5-4z"/></svg>`;
}

export function drawDock(view, root) {
  const density = view.need("density")?.answer?.data, w = trackWidth(view);
  if (!density || !density.end_offset || density.from === null) {
    return morph(root, html`<div class="when"><b>${density ? "no events" : "reading…"}</b></div><div class="track"></div>`);
  }
  // The axis ends a little ahead of the newest event and moves in steps of a 400th: nothing crawls while nothing happens.
  const now = Math.max(density.to, view.recorded ? density.to : view.now), grain = Math.max(1000, (now - density.from) / 400);
  if (!shown || shown.from !== density.from || now > shown.to || shown.to - now > 4 * grain) shown = { from: density.from, to: view.recorded ? density.to : now + grain };
  shown.density = density;
  shown.width = w;
  const word = view.live ? { lost: "Last seen", open: view.recorded ? "Recorded" : "Live" }[view.connection.state] ?? "Live" : "As of";
  const text = `offset ${num(view.offset ?? 0)}, ${view.t === null ? "before all" : clock(view.t)} ${zoneName()}${view.live ? ", live" : view.t === null ? "" : `, ${span(view.now - view.t)} ago`}`;
  return morph(root, html`<div class="when" title="${view.t === null ? "" : `${day(view.t)} ${zoneName()}`}"><span>${word}</span><b>${view.t === null ? "–" : clock(view.t)}</b><i data-page-offset="${view.offset}">${view.offset === null ? "" : off(view.offset)}</i></div>
  <div class="track" role="slider" tabindex="0" aria-label="Offset shown on every panel" aria-valuemin="0" aria-valuemax="${view.head.offset ?? 0}" aria-valuenow="${view.offset ?? 0}" aria-valuetext="${text}">${picture(view, density, w)}</div>
  <div class="moves"><button class="icon" data-step="election" data-way="-1" title="Previous election ({)" aria-label="Previous election">${icon("i-prev")}${glyph("m-master")}</button><button class="icon" data-step="event" data-way="-1" title="One event back ([)" aria-label="One event back">${icon("i-prev")}</button><button class="icon" data-do="play" title="Play (space)" aria-label="${view.playing ? "Pause" : "Play"}">${icon(view.playing ? "i-pause" : "i-play")}</button><button class="icon" data-step="event" data-way="1" title="One event forward (])" aria-label="One event forward">${icon("i-next")}</button><button class="icon" data-step="election" data-way="1" title="Next election (})" aria-label="Next election">${glyph("m-master")}${icon("i-next")}</button><button class="live" data-do="live" aria-pressed="${view.live ? "true" : "false"}">Live</button></div>`);
}

/** Pointer and keys on the bar; `seek(offset | null)` moves the page, `step(kind, way)` as the buttons do. */
export function bindDock(root, { seek, step }) {
  const point = event => {
    const box = root.querySelector(".track svg")?.getBoundingClientRect();
    if (!box || !shown) return;
    const f = Math.max(0, Math.min(1, (event.clientX - box.left) / shown.width)), t = shown.from + f * (shown.to - shown.from);
    seek(f > 0.995 || t > shown.density.to ? null : offsetAt(shown.density, t));
  };
  root.addEventListener("pointerdown", event => {
    const track = event.target.closest(".track");
    if (!track?.firstElementChild) return;
    track.setPointerCapture(event.pointerId);
    track.focus({ preventScroll: true });
    point(event);
    track.onpointermove = point;
    track.onpointerup = track.onpointercancel = () => { track.onpointermove = null; };
    event.preventDefault();
  });
  root.addEventListener("click", event => {
    const button = event.target.closest("[data-step]");
    if (button) step(button.dataset.step, Number(button.dataset.way));
  });
  root.addEventListener("keydown", event => {
    if (!event.target.matches(".track")) return;
    const act = { ArrowLeft: () => step("event", -1), ArrowRight: () => step("event", 1), PageUp: () => step("election", -1), PageDown: () => step("election", 1), Home: () => seek(0), End: () => seek(null) }[event.key];
    if (act) { act(); event.preventDefault(); event.stopPropagation(); }
  });
}
