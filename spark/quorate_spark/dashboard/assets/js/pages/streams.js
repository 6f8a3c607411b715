/** Streams: how far this page's own fold, every Spark query and every projection have come, and what is down. */
import { age, num, plural } from "../format.js";
import { html } from "../html.js";
import { glyph } from "../icons.js";
import { panel } from "../panel.js";

export const needs = () => ({ streams: { path: "streams", live: true, poll: 5000 } });

const KIND = { dashboard: "this page", spark: "Spark query", projection: "projection" };
const STATE = { following: "ok", running: "ok", recorded: "mute", behind: "warn", connecting: "warn", "catching up": "warn", down: "bad", refused: "bad" };
/** A reader with more events before it is amber, and says so. */
const LAG_MANY = 1000;
const MARK = { ok: ["s-full", "full-c"], warn: ["s-shrunk", "shrunk-c"], bad: ["s-lost", "lost-c"], mute: ["s-new", "new-c"] };
const ABSENT = {
  spark: html`Spark is not connected: start <code>quorate dashboard --serving URL</code> with the store the Spark application writes. Elections are taken from this page's own fold meanwhile.`,
  projections: html`No projection is connected: start <code>quorate dashboard --projections HOST:PORT</code>. Nothing on this page depends on them.`,
};

function sentence(list) {
  const own = list.filter(s => s.kind === "dashboard"), others = list.filter(s => s.kind !== "dashboard"), down = others.filter(s => STATE[s.state] === "bad"), late = others.filter(s => STATE[s.state] === "warn");
  const page = own.every(s => s.state === "recorded") ? "This page shows a recorded log" : own.every(s => STATE[s.state] === "ok") ? "This page follows the log" : `This page is ${own.map(s => s.state).join(", ")}`;
  if (!others.length) return `${page}; no Spark query and no projection is connected.`;
  if (down.length) return `${page}; ${down.length === others.length ? "everything else is down" : `${down.map(s => s.name).slice(0, 3).join(", ")} ${down.length === 1 ? "is" : "are"} down`}.`;
  if (late.length) return `${page}; ${late.map(s => s.name).slice(0, 3).join(", ")} ${late.length === 1 ? "is" : "are"} behind.`;
  return `${page}, and so ${others.length === 1 ? "does" : "do all"} ${plural(others.length, "other stream")}.`;
}

function row(s, end) {
  const tone = STATE[s.state] ?? "mute", [id, cls] = MARK[tone], lag = s.lag ?? null, share = end && s.offset !== null ? Math.max(0, Math.min(1, s.offset / end)) : 0;
  return html`<tr data-key="${s.kind}/${s.name}" class="${tone}"><th scope="row">${s.name}</th><td class="mute">${KIND[s.kind] ?? s.kind}</td><td>${glyph(id, cls)} <span class="${tone === "ok" ? "" : `${tone}-t`}">${s.state}</span></td><td class="n">${s.offset === null ? "–" : num(s.offset)}</td><td class="n ${lag > LAG_MANY ? "warn-t" : ""}" title="${lag > LAG_MANY ? `Amber above ${num(LAG_MANY)} events` : ""}">${lag === null ? "–" : num(lag)}${lag > LAG_MANY ? ` (over ${num(LAG_MANY)})` : ""}</td><td class="n">${s.age_ms === null || s.age_ms === undefined ? "–" : s.age_ms < 1000 ? "< 1 s" : age(s.age_ms)}</td><td class="n">${s.batch === null || s.batch === undefined ? "–" : num(s.batch)}</td><td class="barcell"><span class="lengthbar" data-css="width:${(share * 100).toFixed(1)}%"></span></td><td class="wrap mute">${s.message}</td></tr>`;
}

export function render(view) {
  const note = view.live ? "" : "of now, whatever the offset: how far a stream has come is not in the log";
  return html`<h1 class="hide">Streams</h1>${panel(view, { id: "streams", title: "Streams", need: "streams", note, empty: "" }, d => html`<p class="big">${sentence(d.streams)}</p>
  <div class="scroll"><table class="rows streams cards-s"><thead><tr><th>Name</th><th>Kind</th><th>State</th><th class="n">Offset</th><th class="n">Behind</th><th class="n">Age</th><th class="n">Batch</th><th class="barcell">Of the log</th><th>Message</th></tr></thead><tbody>${d.streams.map(s => row(s, d.end_offset))}</tbody></table></div>
  ${(d.unconfigured ?? []).map(name => html`<p class="foot">${ABSENT[name] ?? `${name} is not connected.`}</p>`)}`)}`;
}
