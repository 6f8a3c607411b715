/** One broker set: what is configured, what is assigned, what is reported; its sync set over time; its elections. */
import { bytes, clock, hours, num, plural, span } from "../format.js";
import { html } from "../html.js";
import { glyph, memberState, MEMBER, STATUS, statusGlyph, TONE } from "../icons.js";
import { panel } from "../panel.js";
import { electionLink, eventRow } from "../words.js";
import { electionTable } from "./elections.js";

const WINDOWS = [["15m", "15 min", 9e5], ["1h", "1 h", 36e5], ["2h", "2 h", 72e5], ["all", "all", null]];
const EVENTS = 13;

function windowOf(view) {
  const density = view.data("density"), first = density?.from ?? null, end = view.t;
  if (first === null || end === null) return null;
  const name = view.route.params.range ?? (end - first > 72e5 ? "2h" : "all"), length = WINDOWS.find(w => w[0] === name)?.[2] ?? null;
  return { name, from: length === null ? first : Math.max(first, end - length), to: Math.max(end, first + 1000) };
}

export function needs(view) {
  const name = view.route.key, range = windowOf(view), grain = range ? Math.max(1000, Math.floor((range.to - range.from) / 200)) : 1;
  const from = range ? Math.floor(range.from / grain) * grain : undefined;
  const all = {
    set: { path: "sets", query: { name }, poll: view.recorded ? null : 2000 },
    lane: { path: "timeline", query: { set: name, from, limit: 1 }, every: 500, slot: "lane" },
    elections: { path: "elections", query: { set: name, limit: 12, first: 1 }, every: 500 },
    log: { path: "log", query: { q: `set:${name}`, limit: EVENTS }, every: 300 },
  };
  if (view.live && view.nodes) all.announced = { path: "announced", query: { set: name, after: view.route.params.after }, poll: 10_000, live: true, alone: true, slot: "announced" };
  return all;
}

/** What a broker said of itself when it registered; stock brokers say nothing. */
function saidOf(m) {
  const topics = m.topics ?? [], all = [...Object.entries(m.capabilities ?? {}).map(([name, value]) => `${name}=${value}`), ...(topics.length ? [plural(topics.length, "topic")] : [])];
  return all.length ? html` <span class="mute" title="${topics.join(", ")}">${all.join(", ")}</span>` : "";
}

function memberRow(view, set, m) {
  const state = memberState(set, m), live = view.live ? m.live : null, told = live && live.max_offset !== null && live.max_offset !== undefined;
  const apart = set.diverged.includes(m.id), heard = live?.heartbeat_age_ms;
  return html`<tr class="${m.alive ? "" : "off"}"><th scope="row">${glyph(`m-${state}`, `${state}-c`)} ${m.id}</th><td>${MEMBER[state]}${m.learner ? ", learner" : ""}${m.alive ? "" : html`, <span class="mute">${m.why || "never registered"}, ${view.since(m.since)}</span>`}</td><td class="addr">${m.addr}${m.zone || m.host ? html` <span class="mute">${[m.zone, m.host].filter(Boolean).join(" ")}</span>` : ""}${saidOf(m)}</td><td class="n">${m.priority === null ? "–" : num(m.priority)}</td>
    <td class="first">${set.master === null ? "none" : m.id === set.master ? "master" : "slave"}</td><td class="n">${set.epoch}</td><td class="first">${m.reported ? html`${apart ? html`<span class="differs">${glyph("s-differs", "differs-c", "differs")}</span> ` : ""}${m.reported.role}` : "–"}</td><td class="n ${apart ? "differs" : ""}">${m.reported ? m.reported.epoch : "–"}</td>
    <td class="n first">${told ? num(live.max_offset) : "–"}</td><td class="n">${told && live.behind !== null && live.behind !== undefined ? (live.behind ? bytes(live.behind) : "0") : "–"}</td><td class="n">${heard === null || heard === undefined ? "–" : span(heard)}</td></tr>`;
}

const members = (view, set) => html`<div class="scroll"><table class="rows mt cards-s"><thead><tr class="over"><th colspan="4"></th><th colspan="2" class="first">Assigned</th><th colspan="2" class="first">Acknowledged</th><th colspan="3" class="first">By heartbeat</th></tr><tr><th>Broker</th><th>State</th><th>Address</th><th class="n">Priority</th><th class="first" data-head="Assigned role">Role</th><th class="n" data-head="Assigned epoch">Epoch</th><th class="first" data-head="Acknowledged role">Role</th><th class="n" data-head="Acknowledged epoch">Epoch</th><th class="n first">Max offset</th><th class="n">Behind</th><th class="n">Last heard</th></tr></thead><tbody>${set.members.map(m => memberRow(view, set, m))}</tbody></table></div>`;

function steps(view, set, lane) {
  const range = windowOf(view);
  if (!lane || !range) return html`<p class="empty">Nothing is known of its sync set in this range.</p>`;
  const width = view.width - (view.width < 700 ? 32 : 48), left = 22, w = width - left, n = Math.max(1, set.members.length, lane.size), unit = n > 5 ? 12 : 20, top = 18, h = n * unit;
  const x = t => left + Math.max(0, Math.min(1, (t - range.from) / (range.to - range.from))) * w, y = k => top + h - k * unit;
  let area = "", line = "", bites = "";
  lane.sync.forEach((s, i) => {
    const to = lane.sync[i + 1]?.t ?? range.to;
    if (to < range.from || s.t > range.to) return;
    const a = x(s.t).toFixed(1), b = x(to).toFixed(1);
    area += `M${a} ${y(0)}V${y(s.n)}H${b}V${y(0)}z`;
    line += `${line ? "L" : "M"}${a} ${y(s.n)}H${b}`;
    if (s.n < n) bites += `M${a} ${y(n)}H${b}V${y(s.n)}H${a}z`;
  });
  const levels = Array.from({ length: n + 1 }, (_, k) => html`<path class="gridline" d="M${left} ${y(k)}H${width}"/><text x="${left - 7}" y="${y(k) + 4}" text-anchor="end">${k}</text>`);
  const count = Math.max(2, Math.floor(w / 110)), axis = Array.from({ length: count }, (_, i) => {
    const t = range.from + (i + 0.5) / count * (range.to - range.from);
    return html`<text x="${x(t).toFixed(1)}" y="${y(0) + 16}" text-anchor="middle">${range.to - range.from < 12e5 ? clock(t) : hours(t)}</text><path class="gridline" d="M${x(t).toFixed(1)} ${y(0)}v4"/>`;
  });
  const gaps = lane.gaps.map(g => html`<rect class="gap" x="${x(g.t0).toFixed(1)}" y="${y(n)}" width="${Math.max(2.4, x(g.t1 ?? range.to) - x(g.t0)).toFixed(1)}" height="${h}"/>`);
  let taken = -99;
  const masters = lane.masters.map((m, i) => {
    const to = lane.masters[i + 1]?.t ?? range.to;
    if (m.id === null || to < range.from) return "";
    const a = x(m.t), room = x(to) - a > 12 && a - taken > 10;
    if (room) taken = a;
    return html`${m.t > range.from ? html`<path class="change" d="M${a.toFixed(1)} ${top - 14}V${y(0)}"/>` : ""}${room ? html`<text class="id" x="${(a + 3).toFixed(1)}" y="${top - 5}">${m.id}</text>` : ""}`;
  });
  return html`<svg class="steps" width="${width}" height="${top + h + 22}" role="img" aria-label="Replicas in sync over time, of ${n}; now ${set.sync.length}"><path class="full" d="${area}"/><path class="bite" d="${bites}"/>${levels}${axis}<path class="edge" d="${line}"/>${masters}${gaps}</svg>`;
}

const PERMISSION = { 2: "write", 4: "read", 6: "read and write" };

function topicRow(t) {
  const more = [t.filter_type === "SINGLE_TAG" ? "" : t.filter_type, t.order ? "ordered" : "", ...Object.entries(t.attributes).map(([name, value]) => `${name}=${value}`)];
  return html`<tr><th scope="row">${t.topic}</th><td class="n">${num(t.read_queues)}</td><td class="n">${num(t.write_queues)}</td><td>${PERMISSION[t.permission] ?? t.permission}</td><td>${more.filter(Boolean).join(", ")}</td></tr>`;
}

function topics(view, d) {
  const { after } = view.route.params;
  return html`<div class="scroll"><table class="rows cards-s"><thead><tr><th>Topic</th><th class="n">Read queues</th><th class="n">Write queues</th><th>Permission</th><th>More</th></tr></thead><tbody>${d.topics.map(topicRow)}</tbody></table></div><p class="foot">${d.next === null ? "" : html`<a href="${view.here({ after: d.next })}">More topics</a> `}${after ? html`<a href="${view.here({ after: null })}">The first</a>` : ""}</p>`;
}

/** Only where brokers have told a node, as their name server. */
const announced = (view, d) => (d?.topics.length ? panel(view, { id: "topics", title: "Topics its brokers announced", need: "announced", note: "soft state of the node that was asked, their name server: not in the log" }, x => topics(view, x)) : "");

export function render(view) {
  const name = view.route.key, entry = view.need("set"), set = view.data("set")?.sets.find(s => s.name === name);
  if (!set && (entry?.answer || entry?.error?.status === 404)) return html`<p class="empty whole"><span class="big">${view.live ? `There is no broker set ${name}.` : `At offset ${num(view.at)} ${name} does not exist.`}</span><a href="${view.href("sets")}">All broker sets</a></p>`;
  if (!set) return panel(view, { id: "members", title: "Members", need: "set" }, () => "");
  const range = windowOf(view), lost = set.status === "lost";
  const line = set.master === null
    ? html`${set.lost_at ? html`No master since ${view.moment(set.lost_at)}, <b>${view.since(set.lost_at)}</b>.` : "It has not had a master."} ${set.last_failed === null ? "" : electionLink(view, set.last_failed, "Why none was elected")}`
    : html`Broker ${set.master} is master since ${view.moment(set.master_since)}, ${view.since(set.master_since)}, epoch ${set.epoch}; ${lost ? html`<b>it does not serve.</b>` : `${set.sync.length} of ${set.members.length} in sync.`} ${electionLink(view, set.master_offset, `Why broker ${set.master}`)}`;
  const tools = html`<span class="choice" role="group" aria-label="Range">${WINDOWS.map(([id, words]) => html`<button data-do="param" data-name="range" data-value="${id}" aria-pressed="${range?.name === id ? "true" : "false"}">${words}</button>`)}</span>`;
  return html`<div class="headline"><p class="crumb"><a href="${view.href("sets")}">Broker sets</a> <span>${set.cluster}</span></p><h1>${statusGlyph(set.status, false)} ${name} <span class="${TONE[set.status]}-t">${STATUS[set.status]}${set.flapping && set.status !== "flap" ? ", flapping" : ""}</span></h1><p class="lead">${line}</p></div>
  ${panel(view, { id: "members", title: "Members", need: "set", note: view.live ? "assigned by the log, acknowledged by the broker, reported by its heartbeat" : "heartbeats are soft state: not in the log" }, () => members(view, set))}
  ${panel(view, { id: "sync", title: "Sync set", need: ["lane", "set"], tools, bones: "chart", note: `epoch ${set.sync_epoch}; height: replicas in sync, number: master` }, (d, s) => steps(view, s.sets.find(x => x.name === name) ?? set, d.lanes.find(l => l.set === name)))}
  <div class="grid">${panel(view, { id: "elections", title: "Elections of this set", need: "elections", cls: "c7", note: set.elections ? plural(set.elections, "election") : "" }, d => (d.elections.length ? html`${electionTable(view, d.elections, false)}` : html`<p class="empty">None up to this offset.</p>`))}
  ${panel(view, { id: "events", title: "Its last events", need: "log", cls: "c5", tools: html`<a href="${view.href("log", "", { q: `set:${name}` })}">all</a>` }, d => html`<div class="events nokey">${d.events.map(e => eventRow(view, e, { key: false, href: view.href("log", "", { q: `set:${name}`, sel: e.offset }) }))}</div>`)}</div>
  ${view.need("announced") ? announced(view, view.data("announced")) : ""}`;
}
