/**
 * The log: filter, decode, copy the command that reads the same record with kcat.
 *
 * The list loads as it is scrolled: pages hang together by `next`. It draws only the rows in sight.
 */
import { clock, day, num, off, plural, zoneName } from "../format.js";
import { html } from "../html.js";
import { panel } from "../panel.js";
import { eventLink, shortKey, what } from "../words.js";

const ROW = 26, PAGE = 200, CHIPS = 9;
let pages = 1;

/** A link to an event far down starts the list near it. */
const start = view => {
  const { sel, before } = view.route.params;
  if (before !== undefined) return Number(before);
  const end = view.at ?? view.head.offset;
  return sel !== undefined && !view.route.params.q && end !== null && Number(sel) < end - PAGE ? Number(sel) + 12 : undefined;
};

export function entered(route, before) {
  if (route.page !== before.page || route.params.q !== before.params.q || route.params.before !== before.params.before || route.at !== before.at) pages = 1;
}

export function needs(view) {
  const { q, sel } = view.route.params, all = {};
  let before = start(view);
  for (let i = 0; i < pages; i++) {
    all[`log${i}`] = { path: "log", query: { q: q || null, before, limit: PAGE }, every: 300, slot: i ? null : "log" };
    const next = view.data(`log${i}`)?.next;
    if (next === null || next === undefined) break;
    before = next;
  }
  if (/^\d+$/.test(sel ?? "")) all.record = { path: "log", query: { offset: sel }, live: true, every: 60_000 };
  return all;
}

function loaded(view) {
  const events = [];
  let next = null;
  for (let i = 0; i < pages; i++) {
    const data = view.data(`log${i}`);
    if (!data || (i && data.events[0] && data.events[0].offset >= events.at(-1)?.offset)) break;
    events.push(...data.events);
    next = data.next;
  }
  return { events, next };
}

function row(view, e, sel) {
  const chosen = e.offset === sel;
  return html`<a class="row lr ${e.tone} ${chosen ? "chosen" : ""}" data-key="e${e.offset}" href="${view.here({ sel: e.offset })}" ${chosen ? html`aria-current="true"` : ""}><span class="o">${num(e.offset)}</span><span class="t">${clock(e.t, true)}</span><span class="ty">${e.type}</span><span class="k">${shortKey(e.key)}</span><span class="w">${what(e)}</span><span class="p">${e.principal}</span><span class="ca">${e.cause?.text ?? ""}</span></a>`;
}

function list(view, data) {
  const { events, next } = loaded(view), sel = /^\d+$/.test(view.route.params.sel ?? "") ? Number(view.route.params.sel) : null;
  const box = document.querySelector(".list"), height = box?.clientHeight || 560, top = box?.scrollTop ?? 0;
  const from = Math.max(0, Math.floor(top / ROW) - 6), to = Math.min(events.length, from + Math.ceil(height / ROW) + 14);
  const q = view.route.params.q ?? "";
  const chips = Object.entries(data.types ?? {}).sort((a, b) => b[1] - a[1]).slice(0, CHIPS);
  const narrowed = q.includes("type:"), older = view.route.params.before !== undefined || start(view) !== undefined;
  return html`<div class="chips" role="group" aria-label="Filter by type">${narrowed || !chips.length ? "" : chips.map(([type, n]) => html`<button data-do="param" data-name="q" data-value="${`${q} type:${type}`.trim()}">${type} <b>${num(n)}</b></button>`)}${q ? html`<button data-do="param" data-name="q" data-value="">Clear the filter</button>` : ""}${older ? html`<a class="button" href="${view.here({ before: null, sel: null })}">Newest first</a>` : ""}</div>
  <div class="lhead lr" aria-hidden="true"><span class="o">Offset</span><span class="t">Time</span><span class="ty">Type</span><span class="k">Key</span><span class="w">What</span><span class="p">Principal</span><span class="ca">Cause</span></div>
  <div class="list" tabindex="-1" role="group" aria-label="Events, newest first">${events.length ? html`<div data-css="height:${from * ROW}px"></div>${events.slice(from, to).map(e => row(view, e, sel))}<div data-css="height:${Math.max(0, events.length - to) * ROW}px"></div>${next === null ? "" : html`<p class="foot">older events are being read…</p>`}` : html`<p class="empty">No event up to offset ${num(view.offset ?? 0)} matches. <button class="plain" data-do="param" data-name="q" data-value="">Clear the filter</button></p>`}</div>`;
}

/** Pretty JSON as markup; times get a readable twin. */
function json(value, name = "", indent = "") {
  if (Array.isArray(value)) {
    if (value.every(x => typeof x !== "object" || x === null)) return html`[${value.map((x, i) => html`${i ? ", " : ""}${json(x)}`)}]`;
    return html`[\n${value.map((x, i) => html`${i ? ",\n" : ""}${indent}  ${json(x, "", `${indent}  `)}`)}\n${indent}]`;
  }
  if (value && typeof value === "object") {
    const entries = Object.entries(value);
    if (!entries.length) return html`{}`;
    return html`{\n${entries.map(([k, v], i) => html`${i ? ",\n" : ""}${indent}  <i>${k}</i>: ${json(v, k, `${indent}  `)}`)}\n${indent}}`;
  }
  if (typeof value === "number" && /_ms$/.test(name) && value > 1e11) return html`<b>${value}</b> <i>${clock(value, true)}</i>`;
  return typeof value === "string" ? html`<b>"${value}"</b>` : html`<b>${String(value)}</b>`;
}

function record(view, data) {
  const e = data.events[0];
  if (!e) return html`<p class="empty">There is no such event.</p>`;
  if (!view.live && e.offset >= view.at) return html`<p class="empty">Not written yet at offset ${num(view.at)}.</p>`;
  const { about } = view, at = about?.nodes?.[0];
  const fact = (name, value) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`;
  const kcat = at?.kafka ? `kcat -C -b ${at.kafka} -t ${about.topic} -p 0 -o ${e.offset} -c 1${at.http ? ` -s value=avro -r http://${at.http}` : ""}` : null;
  const dump = `quorate log dump --from ${e.offset} --to ${e.offset + 1} -o json`, elected = ["MasterElected", "ElectionFailed"].includes(e.type);
  return html`<p class="recline">${e.type} <span class="mute">${e.key}</span></p><p>${e.text}</p>${elected ? html`<p><a href="${view.href("election", e.offset)}">Open as an election</a></p>` : ""}
  <dl class="facts tight">${fact("Time", `${day(e.t)} ${clock(e.t, true)} ${zoneName()}`)}${fact("Principal", e.principal)}${fact("Cause", html`${e.cause?.text ?? ""} ${e.cause?.offset === null || e.cause?.offset === undefined ? "" : eventLink(view, e.cause.offset)}`)}${e.request ? fact("Request", e.request) : ""}${fact("Term", e.term)}${fact("Schema", `id ${e.schema}`)}</dl>
  <pre class="json" tabindex="0" aria-label="Value of the record">${json(e.value)}</pre>
  ${kcat ? html`<pre class="command">${kcat}</pre>` : ""}
  <p class="acts">${kcat ? html`<button data-do="copy" data-copy="${kcat}">Copy kcat command</button>` : ""} <button data-do="copy" data-copy="${dump}">Copy quorate command</button> <button data-do="seek" data-to="${e.offset + 1}">Show every panel as of ${off(e.offset + 1)}</button></p>`;
}

export function render(view) {
  const { q = "", sel } = view.route.params;
  const tools = html`<input type="search" class="wide" data-param="q" placeholder="type:MasterElected set:broker-a by:alice" value="${q}" aria-label="Filter events"><kbd>/</kbd>`;
  const note = d => (d.matched === null ? "" : `${num(d.matched)}${q && view.offset ? ` of ${num(view.offset)}` : ""} ${d.matched === 1 ? "event" : "events"}`);
  const open = view.need("record");
  return html`<h1 class="hide">Log</h1><div class="logpage ${open ? "open" : ""}">${panel(view, { id: "log", title: "Log", need: "log0", tools, note, empty: "No event has been committed." }, d => list(view, d))}
  ${open ? panel(view, { id: "record", title: `Record ${off(Number(sel))}`, need: "record", cls: "rec", tools: html`<a href="${view.here({ sel: null })}">close</a>` }, d => record(view, d)) : ""}</div>`;
}

let revealed = null;

export function mounted(view, main) {
  const box = main.querySelector(".list"), sel = view.route.params.sel;
  if (!box) { revealed = null; return; }
  const { events, next } = loaded(view);
  if (next !== null && box.scrollTop + box.clientHeight > events.length * ROW - 1200 && view.data(`log${pages - 1}`)) { pages++; dispatchEvent(new Event("resize")); }
  if (sel === undefined || revealed === sel || !events.length) return;
  revealed = sel;
  const i = events.findIndex(e => e.offset === Number(sel));
  if (i >= 0 && (i * ROW < box.scrollTop || i * ROW > box.scrollTop + box.clientHeight - 2 * ROW)) box.scrollTop = i * ROW - box.clientHeight / 3;
}
