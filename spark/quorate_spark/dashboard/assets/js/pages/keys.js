/**
 * Keys below a prefix, a segment at a time, and the leases that some of them go with; and subjects of schemas.
 *
 * Every page of them is asked for: the browser never holds more than it shows, however many keys there are.
 */
import { bytes, num, plural, span } from "../format.js";
import { html } from "../html.js";
import { panel } from "../panel.js";
import { formatChoice, keepFormat, PUBLIC, valueLine } from "../values.js";
import { eventLink } from "../words.js";

const PAGE = 100, LEASES = 50, SUBJECTS = 50;
const POLL_MS = 2_000;
/** With less than this share of its time left a lease is amber: its holder has missed a word. */
const LATE = 1 / 3;

export function needs(view) {
  const { q, lease, flat, start, lstart, sstart } = view.route.params;
  return {
    keys: { path: "keys", query: { prefix: view.route.key, q, lease, flat, from: start, limit: PAGE }, every: 500, slot: "keys" },
    leases: leasesNeed(view, { lease, from: lstart, limit: LEASES }),
    ...(wholly(view) ? { subjects: { path: "subjects", query: { from: sstart, limit: SUBJECTS }, every: 500, slot: "subjects" } } : {}),
  };
}

/** Is nothing meant but all of it? Subjects are not below a prefix, and go with no lease. */
const wholly = view => !(view.route.key || view.route.params.q || view.route.params.lease);

export const leasesNeed = (view, query) => ({ path: "leases", query, every: 500, poll: view.recorded ? null : POLL_MS, slot: "leases" });
export const leaseLink = (view, lease) => (lease ? html`<a class="lease" href="${view.href("keys", "", { lease, ...keepFormat(view) })}">${lease}</a>` : "");

function keyRow(view, k) {
  const to = view.href("key", k.name, keepFormat(view));
  return html`<tr data-href="${to}" tabindex="-1" data-key="k${k.name}"><th scope="row"><a href="${to}">${k.shown}</a></th><td class="val">${valueLine(view, k.value)}</td><td class="n">${bytes(k.value.size)}</td><td class="n">${num(k.mod_revision)}</td><td class="n">${num(k.version)}</td><td>${leaseLink(view, k.lease)}</td><td class="n">${view.moment(k.t)}</td><td>${k.by}</td></tr>`;
}

function belowRow(view, b) {
  const to = view.href("keys", b.prefix, keepFormat(view));
  return html`<tr data-href="${to}" tabindex="-1" data-key="b${b.prefix}"><th scope="row"><a href="${to}">${b.shown}</a></th><td class="mute" colspan="7">${plural(b.keys, "key")} below</td></tr>`;
}

/** Where we are: each prefix above leads there. */
export const path = (view, d) => html`<p class="path"><a href="${view.href("keys", "", keepFormat(view))}">All keys</a>${d.above.map(([prefix, name]) => html` <a href="${view.href("keys", prefix, keepFormat(view))}">${name}</a>`)}</p>`;

function table(view, d) {
  const { q, start, lease } = view.route.params;
  const where = d.prefix || lease ? html`<a href="${view.href("keys")}">All keys</a>` : "";
  const none = q ? html`No key matches “${q}”${d.next === null ? "" : " among those looked at"}. <button class="plain" data-do="param" data-name="q" data-value="">Clear the search</button>` : start ? html`There is no key from here on.` : lease ? html`No key goes with this lease. ${where}` : d.prefix ? html`There is no key below ${d.shown}. ${where}` : view.live ? html`No key is stored. One appears with <code>quorate kv put KEY VALUE</code>, or a client of etcd’s; the cluster needs feature level 2 (<code>quorate feature raise 2</code>).` : html`No key is stored at this offset.`;
  const more = d.next === null ? "" : html`<a href="${view.here({ start: d.next })}">${d.looked === null ? "More keys" : "Look on"}</a> `;
  const looked = d.looked === null ? "" : `${plural(d.looked, "key")} looked at. `;
  const first = start ? html`<a href="${view.here({ start: null })}">From the first</a>` : "";
  return html`${d.prefix ? path(view, d) : ""}${d.entries.length ? html`<div class="scroll"><table class="rows kv cards-s"><thead><tr><th>Key</th><th>Value</th><th class="n">Size</th><th class="n">Revision</th><th class="n">Version</th><th>Lease</th><th class="n">Put</th><th>By</th></tr></thead><tbody>${d.entries.map(e => (e.kind === "key" ? keyRow(view, e) : belowRow(view, e)))}</tbody></table></div>` : html`<p class="empty">${none}</p>`}<p class="foot">${looked}${more}${first}</p><p class="foot">${PUBLIC}</p>`;
}

function left(view, l) {
  if (!l.live) return "–";
  const ms = l.live.left_ms - Math.max(0, view.now - l.live.polled), late = ms < l.ttl_s * 1000 * LATE;
  return html`<span class="${late ? "warn-t" : ""}" title="${late ? "Amber below a third of its time: its holder is late" : ""}">${ms <= 0 ? "due" : span(Math.ceil(ms / 1000) * 1000)}</span>`;
}

function leaseRow(view, l) {
  const to = view.href("keys", "", { lease: l.lease, ...keepFormat(view) });
  return html`<tr data-href="${to}" tabindex="-1" data-key="l${l.lease}"><th scope="row">${leaseLink(view, l.lease)}</th><td class="n">${left(view, l)}</td><td class="n">${span(l.ttl_s * 1000)}</td><td class="n">${l.remaining_s ? span(l.remaining_s * 1000) : "–"}</td><td class="n">${view.moment(l.granted_ms)}</td><td class="n">${eventLink(view, l.offset)}</td><td>${l.by}</td><td class="wrap">${l.keys ? html`${l.names.map((k, i) => html`${i ? ", " : ""}<a href="${view.href("key", k.name, keepFormat(view))}">${k.shown}</a>`)}${l.keys > l.names.length ? ` and ${num(l.keys - l.names.length)} more` : ""}` : html`<span class="mute">none</span>`}</td></tr>`;
}

export function leaseTable(view, d) {
  const { lstart } = view.route.params;
  const last = d.last ? html`<p class="foot">${d.leases.length ? "Its last word" : "It is not there"}: ${d.last.text}, ${view.moment(d.last.t)}, ${eventLink(view, d.last.offset)}.</p>` : "";
  if (!d.leases.length) return html`${last || html`<p class="empty">${lstart ? "There is no lease from here on." : html`No lease is granted. One begins with <code>quorate lease grant SECONDS</code>; keys put under it go when it ends.`}</p>`}`;
  return html`<div class="scroll"><table class="rows lt cards-s"><thead><tr><th>Lease</th><th class="n">Left</th><th class="n">Lives for</th><th class="n">Written down</th><th class="n">Granted</th><th class="n">Event</th><th>By</th><th>Keys</th></tr></thead><tbody>${d.leases.map(l => leaseRow(view, l))}</tbody></table></div>${last}${d.next === null ? "" : html`<p class="foot"><a href="${view.here({ lstart: d.next })}">More leases</a></p>`}`;
}

export const leaseNote = view => (view.live && !view.recorded ? "what is left is measured by the leader, not in the log" : "what is left of a lease is soft state: true only now, not in the log");

const subjectRow = (view, s) => html`<tr data-key="s${s.subject}"><th scope="row">${s.subject}</th><td class="n">${num(s.version)}</td><td class="n">${s.id}</td><td class="n">${num(s.versions)}</td><td>${s.compatibility}${s.own ? "" : html` <span class="mute">as for all</span>`}</td><td class="n">${view.moment(s.t)}</td><td class="n">${eventLink(view, s.offset)}</td><td>${s.by}</td></tr>`;

function subjectTable(view, d) {
  const { sstart } = view.route.params;
  if (!d.subjects.length) return html`<p class="empty">${sstart ? "There is no subject from here on." : view.live ? html`No schema is registered. A subject appears with <code>quorate schemas register SUBJECT FILE</code>, or a client of Confluent’s.` : "No schema is registered at this offset."}</p>`;
  const more = d.next === null ? "" : html`<a href="${view.here({ sstart: d.next })}">More subjects</a> `;
  const first = sstart ? html`<a href="${view.here({ sstart: null })}">From the first</a>` : "";
  return html`<div class="scroll"><table class="rows sj cards-s"><thead><tr><th>Subject</th><th class="n">Newest version</th><th class="n">Schema id</th><th class="n">Versions</th><th>Compatibility</th><th class="n">Changed</th><th class="n">Event</th><th>By</th></tr></thead><tbody>${d.subjects.map(s => subjectRow(view, s))}</tbody></table></div><p class="foot">${more}${first}</p>`;
}

export function render(view) {
  const { q = "", flat, lease } = view.route.params;
  const note = d => (lease ? `${plural(d.total, "key")} of lease ${lease}` : `${plural(d.total, "key")}${d.prefix ? " below" : ""}`);
  const ways = html`<span class="choice" role="group" aria-label="How keys are listed"><button data-do="param" data-name="flat" data-value="" aria-pressed="${flat ? "false" : "true"}">Segments</button><button data-do="param" data-name="flat" data-value="1" aria-pressed="${flat ? "true" : "false"}">All</button></span>`;
  const tools = html`<input type="search" data-param="q" placeholder="part of a key" value="${q}" aria-label="Search keys">${q || lease ? "" : ways}${formatChoice(view)}`;
  return html`<h1 class="hide">Keys</h1>${panel(view, { id: "keys", title: "Keys", need: "keys", tools, note, empty: "The log is empty. A key appears with its first KeyPut." }, d => table(view, d))}
  ${panel(view, { id: "leases", title: lease ? "Lease" : "Leases", need: "leases", tools: lease ? html`<a href="${view.href("keys", "", keepFormat(view))}">all leases</a>` : "", note: d => `${lease ? "" : `${plural(d.total, "lease")}; `}${leaseNote(view)}`, empty: "The log is empty. A lease appears with its LeaseGranted." }, d => leaseTable(view, d))}
  ${wholly(view) ? panel(view, { id: "subjects", title: "Subjects", need: "subjects", note: d => `${plural(d.total, "subject")} of schemas; those of the log’s own events come with the build`, empty: "The log is empty. A subject appears with its first SchemaRegistered." }, d => subjectTable(view, d)) : ""}`;
}
