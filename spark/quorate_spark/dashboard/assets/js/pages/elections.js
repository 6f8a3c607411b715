/** Elections: how long sets had no master, by kind, and every election with what decided it. */
import { clock, num, plural, span } from "../format.js";
import { html } from "../html.js";
import { arrow, glyph } from "../icons.js";
import { panel } from "../panel.js";
import { electionLink, setLink } from "../words.js";

const PAGE = 200;

export const needs = view => ({ elections: { path: "elections", query: { limit: PAGE, kind: view.route.params.kind, before: view.route.params.before }, every: 500 } });

// The scale of durations: from 1 ms to 1,000 s, each tenfold as wide as the one before.
const LOW = 0, HIGH = 6;
const place = ms => Math.max(0, Math.min(1, (Math.log10(Math.max(1, ms)) - LOW) / (HIGH - LOW)));
const TICKS = [[1, "1 ms"], [10, "10 ms"], [100, "100 ms"], [1e3, "1 s"], [1e4, "10 s"], [1e5, "100 s"], [1e6, "1,000 s"]];

export function electionRow(view, e, withSet = true) {
  const ok = e.type === "MasterElected", to = view.href("election", e.offset);
  return html`<tr tabindex="-1" data-href="${to}" data-key="x${e.offset}" class="${ok ? "" : "bad"}"><td class="n k-off">${electionLink(view, e.offset)}</td><td class="n k-time">${view.moment(e.t)}</td>${withSet ? html`<th scope="row" class="k-set">${setLink(view, e.set)}</th>` : ""}<td class="c k-m">${e.from ?? "–"} ${arrow} ${ok ? e.to : glyph("s-lost", "lost-c", "nobody")}</td><td class="n x">${e.epoch}</td><td class="k-tr">${e.kind_words}</td><td class="k-ru ${ok ? "" : "bad-t"}">${e.rule_words}${e.unclean ? html` <b class="warn-t">unclean</b>` : ""}</td><td class="n k-un">${!ok ? "" : e.unavailable_ms === null ? html`<span class="mute">not acknowledged</span>` : html`${e.fault_estimated ? html`<span class="mute">about</span> ` : ""}${span(e.unavailable_ms)}`}</td>${withSet ? html`<td class="barcell">${ok && e.unavailable_ms !== null ? html`<span class="lengthbar" data-css="width:${(place(e.unavailable_ms) * 100).toFixed(1)}%"></span>` : ""}</td>` : ""}</tr>`;
}

export const electionTable = (view, list, withSet = true) => html`<div class="scroll"><table class="rows el"><thead><tr><th class="n">Offset</th><th class="n">Time</th>${withSet ? html`<th>Set</th>` : ""}<th class="c">Master</th><th class="n x">Epoch</th><th>Cause</th><th>Decided by</th><th class="n">Unavailable</th>${withSet ? html`<th class="barcell"><span class="axis5"><i data-css="left:0">1 ms</i><i data-css="left:50%">1 s</i><i data-css="right:0">1,000 s</i></span></th>` : ""}</tr></thead><tbody>${list.map(e => electionRow(view, e, withSet))}</tbody></table></div>`;

function strip(view, data) {
  const narrow = view.width < 700, width = view.width - (narrow ? 32 : 48), left = narrow ? 150 : 200, right = narrow ? 12 : 310, w = width - left - right, x = ms => left + place(ms) * w;
  const kinds = data.kinds, rows = kinds.map((k, i) => {
    const y = 20 + i * 24, dots = data.elections.filter(e => e.kind === k.kind && e.unavailable_ms !== null);
    const said = k.p50_ms === null ? `none acknowledged${k.failed ? `, ${num(k.failed)} refused` : ""}` : `median ${span(k.p50_ms)}, worst ${span(k.max_ms)}, ${num(k.n)} of them${k.failed ? `, ${num(k.failed)} refused` : ""}`;
    return html`<g><text class="lab" x="0" y="${y + 16}">${k.kind_words}</text><path class="thin" d="M${left} ${y + 12}H${left + w}"/>${dots.map((e, n) => html`<circle class="dot" cx="${x(e.unavailable_ms).toFixed(1)}" cy="${(y + 12 + ((n * 7) % 5 - 2) * 1.9).toFixed(1)}" r="3"/>`)}${k.p50_ms === null ? "" : html`<path class="median" d="M${x(k.p50_ms).toFixed(1)} ${y + 3}v18"/>`}${narrow ? "" : html`<text class="val" x="${width}" y="${y + 16}" text-anchor="end">${said}</text>`}</g>`;
  });
  const grid = TICKS.map(([ms]) => `M${x(ms).toFixed(1)} 16V${20 + kinds.length * 24}`).join("");
  return html`<svg class="strip" width="${width}" height="${26 + kinds.length * 24}" role="img" aria-label="Time without a master by cause, on a logarithmic scale: ${kinds.map(k => `${k.kind_words}: median ${k.p50_ms === null ? "none" : span(k.p50_ms)}, ${k.n} elections`).join("; ")}"><path class="gridline" d="${grid}"/>${TICKS.filter((_, i) => !narrow || i % 2 === 0).map(([ms, name]) => html`<text x="${x(ms).toFixed(1)}" y="10" text-anchor="${ms === 1e6 ? "end" : ms === 1 ? "start" : "middle"}">${name}</text>`)}${rows}</svg>`;
}

export function render(view) {
  const { kind, before } = view.route.params;
  const tools = kind || before ? html`<a href="${view.href("elections")}">all elections</a>` : "";
  return html`<h1 class="hide">Elections</h1>
  ${panel(view, { id: "durations", title: "How long a set had no master", need: "elections", note: "from the fault to the new master’s acknowledgement; each dot an election, blue the median", bones: "chart", empty: "No election yet." }, d => (d.kinds.length ? strip(view, d) : html`<p class="empty">No election up to this offset but first ones.</p>`))}
  ${panel(view, { id: "elections", title: "Elections", need: "elections", tools, note: d => (d.elections.length ? `newest first; first elections of a set left out${before ? `; before ${num(Number(before))}` : ""}` : ""), empty: "No election yet. The first broker that asks becomes the first master of its set." }, d => (d.elections.length ? html`${electionTable(view, d.elections)}${d.next === null ? html`<p class="foot">${plural(d.elections.length, "election")} shown, down to the first.</p>` : html`<p class="foot"><a href="${view.here({ before: d.next })}">Older elections</a></p>`}` : html`<p class="empty">None up to this offset.</p>`))}`;
}
