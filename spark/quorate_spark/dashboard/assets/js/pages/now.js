/** Now: one sentence an operator could read out, then what it rests on. */
import { num, plural, span } from "../format.js";
import { html } from "../html.js";
import { glyph } from "../icons.js";
import { drawMap, legend, memberKey } from "../map.js";
import { panel } from "../panel.js";
import { eventLink, eventRow, node, setLink } from "../words.js";

const EVENTS = 40;
const SHOWN_REASONS = 6;
/** A slower p99 of the journal's sync is amber, and says so. */
const FSYNC_SLOW_MS = 5;

export const needs = () => ({ health: { path: "health" }, quorum: { path: "quorum" }, sets: { path: "sets" }, log: { path: "log", query: { limit: EVENTS } } });

const LEVEL = { healthy: "ok-t", degraded: "warn-t", unhealthy: "bad-t", empty: "mute-t" };
const GLYPH = { diverged: ["s-differs", "differs-c"], quorum: ["s-lost", "lost-c"], alarm: ["s-lost", "lost-c"] };

function reason(view, r) {
  const [id, cls] = GLYPH[r.kind] ?? [`s-${r.kind}`, `${r.kind}-c`];
  const names = r.keys.slice(0, 3).map((k, i) => html`${i ? ", " : ""}${r.kind === "quorum" || r.kind === "alarm" ? k : setLink(view, k)}`);
  return html`<tr><td>${glyph(id, cls)}</td><th scope="row">${names}${r.keys.length > 3 ? ` and ${num(r.keys.length - 3)} more` : ""}</th><td>${r.text}</td><td class="n">${r.since === null || r.since === undefined ? "" : view.since(r.since)}</td><td class="n">${r.offset === null || r.offset === undefined ? "" : r.election ? html`<a class="o" href="${view.href("election", r.offset)}" aria-label="Why: the election at ${r.offset}">why</a>` : eventLink(view, r.offset)}</td></tr>`;
}

function health(view, h) {
  const rest = h.sentence;
  const level = h.level[0].toUpperCase() + h.level.slice(1);
  const more = Math.max(0, h.reasons.length - SHOWN_REASONS) + (h.more ?? 0);
  return html`<p class="big"><span class="level ${LEVEL[h.level]}">${level}:</span> ${rest}</p>
    ${h.reasons.length ? html`<table class="reasons"><tbody>${h.reasons.slice(0, SHOWN_REASONS).map(r => reason(view, r))}</tbody></table>` : ""}
    ${more ? html`<p class="foot">${plural(more, "more reason")}: <a href="${view.href("sets")}">all broker sets, worst first</a>.</p>` : ""}`;
}

function quorumRow(view, q, n, i) {
  const leads = n.id === q.leader, live = view.live && n.live?.reachable ? n.live : null;
  const name = html`<th scope="row">${leads ? glyph("m-master") : ""}${node(n.id)}</th><td>${leads ? `leader, term ${q.term}` : n.role}</td><td class="mute">${live?.zone || ""}</td><td class="mute ver">${n.version}</td>`;
  if (!view.live || view.recorded) return html`<tr class="${leads ? "leads" : ""}">${name}${i ? "" : html`<td class="nosoft" colspan="4" rowspan="${q.nodes.length}">log end, lag, fsync and round trip are soft state: true only now, not in the log</td>`}</tr>`;
  if (!live) return html`<tr class="off">${name}<td class="nosoft" colspan="4">${n.live ? "does not answer" : "not asked yet"}</td></tr>`;
  const slow = live.fsync_p99_ms > FSYNC_SLOW_MS;
  return html`<tr class="${leads ? "leads" : ""}">${name}<td class="n">${live.end === null || live.end === undefined ? "–" : num(live.end)}</td><td class="n">${leads ? "–" : num(live.lag ?? 0)}</td><td class="n ${slow ? "warn-t" : ""}" title="${slow ? `Amber above ${FSYNC_SLOW_MS} ms` : ""}">${slow ? glyph("s-shrunk", "shrunk-c", "slow") : ""}${live.fsync_p99_ms === null || live.fsync_p99_ms === undefined ? "–" : `${live.fsync_p99_ms.toFixed(1)} ms`}${slow ? ` (over ${FSYNC_SLOW_MS})` : ""}</td><td class="n">${live.rtt_ms === null || live.rtt_ms === undefined ? "–" : `${live.rtt_ms.toFixed(1)} ms`}</td></tr>`;
}

function quorum(view, q) {
  const why = q.leader === null
    ? html`<div class="why"><p><b>No controller leads.</b> Nothing can be decided until one does.</p></div>`
    : html`<div class="why"><p><b>${node(q.leader)}</b> leads since <b>${view.moment(q.since)}</b>, ${view.since(q.since)}, term ${q.term} ${eventLink(view, q.offset)}</p><p>${q.why}</p></div>`;
  return html`<div class="quorum"><div class="scroll"><table class="rows q cards-s"><thead><tr><th>Node</th><th>Role</th><th>Zone</th><th class="ver">Version</th><th class="n">Log end</th><th class="n">Behind</th><th class="n">Fsync p99</th><th class="n">Round trip</th></tr></thead><tbody>${q.nodes.map((n, i) => quorumRow(view, q, n, i))}</tbody></table></div>${why}</div>`;
}

export function render(view) {
  const many = (view.data("sets")?.sets.length ?? 0) > 500;
  return html`<h1 class="hide">Now</h1>
  ${panel(view, { id: "health", title: "Health", need: "health", cls: "health", bones: "text", empty: html`<span class="big">The log is empty.</span>The quorum has not committed an event. The first will be <code>ClusterCreated</code>. Start the nodes with <code>quorate up --nodes 3</code>.` }, h => health(view, h))}
  <div class="grid ${many ? "many" : ""}">
  ${panel(view, { id: "quorum", title: "Controllers", need: "quorum", cls: "c12", note: q => (q.nodes.length ? `${plural(q.nodes.length, "voter")}, ${q.may_fail} may fail` : ""), empty: "No node has started." }, q => quorum(view, q))}
  ${panel(view, { id: "map", title: "Broker sets", need: "sets", cls: "c7 map-panel", bones: "tiles", note: d => `${plural(d.sets.length, "set")}, ${plural(d.sets.reduce((n, s) => n + s.members.length, 0), "broker")}`, empty: html`No broker has registered. A broker appears here at its first <code>BrokerRegistered</code>.` }, d => (d.sets.length ? html`${legend(view, d.sets)}<div id="map" data-keep></div>${d.sets.length > 8 && d.sets.length <= 96 ? memberKey : ""}` : html`<p class="empty">No broker has registered. A broker appears here at its first <code>BrokerRegistered</code>.</p>`))}
  ${panel(view, { id: "events", title: "Last events", need: "log", cls: "c5 event-panel", tools: html`<a href="${view.href("log")}">all</a>`, empty: "None yet. They appear here as they are committed." }, d => html`<div class="events">${d.events.slice(0, many ? 8 : view.wide ? 12 : 8).map(e => eventRow(view, e))}</div>`)}
  </div>`;
}

export function mounted(view, main) {
  const root = main.querySelector("#map"), sets = view.data("sets")?.sets;
  if (root && sets) drawMap(root, sets, { only: view.route.params.only, href: name => view.href("set", name) });
}
