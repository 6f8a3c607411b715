/** One key: its value, the lease it goes with, and every change of it. */
import { bytes, num } from "../format.js";
import { html } from "../html.js";
import { panel } from "../panel.js";
import { cutNote, formatChoice, keepFormat, PUBLIC, valueLine, valueText } from "../values.js";
import { eventLink } from "../words.js";
import { leaseLink, leaseNote, leasesNeed, leaseTable, path } from "./keys.js";

const PAGE = 50;

export function needs(view) {
  const all = { key: { path: "key", query: { name: view.route.key, before: view.route.params.before, limit: PAGE }, every: 500, slot: "key" } };
  const lease = view.data("key")?.key?.lease;
  if (lease) all.leases = leasesNeed(view, { lease });
  return all;
}

function lead(view, d) {
  const k = d.key, last = d.changes[0];
  if (k) return html`Put ${view.moment(k.t)}, <b>${view.since(k.t)}</b> ago${k.by ? html`, by ${k.by}` : ""}; revision ${num(k.mod_revision)}, version ${num(k.version)} since revision ${num(k.create_revision)}.`;
  if (last) return html`It is not there. Deleted ${view.moment(last.t)}, <b>${view.since(last.t)}</b> ago: ${last.text}.`;
  return view.live ? "There is no such key, and never was." : `At offset ${num(view.at)} there is no such key, and never was.`;
}

const WHAT = { created: "created", put: "put", deleted: "deleted" };

function change(view, c) {
  const words = c.what === "deleted" ? html`<td class="wrap mute">${c.text}</td><td class="n"></td>` : html`<td class="val">${valueLine(view, c.value)}</td><td class="n">${bytes(c.value.size)}</td>`;
  return html`<tr data-href="${view.href("log", "", { sel: c.offset })}" tabindex="-1" data-key="c${c.offset}"><th scope="row">${eventLink(view, c.offset)}</th><td class="n">${view.moment(c.t)}</td><td>${WHAT[c.what]}</td>${words}<td class="n">${num(c.revision)}</td><td>${leaseLink(view, c.lease)}</td><td>${c.by}</td><td>${c.cause}</td></tr>`;
}

function history(view, d) {
  const { before } = view.route.params;
  if (!d.changes.length) return html`<p class="empty">The log tells nothing of this key ${before ? "before that" : "up to this offset"}.</p>`;
  return html`<div class="scroll"><table class="rows kh cards-s"><thead><tr><th>Offset</th><th class="n">Time</th><th>What</th><th>Value</th><th class="n">Size</th><th class="n">Revision</th><th>Lease</th><th>By</th><th>Cause</th></tr></thead><tbody>${d.changes.map(c => change(view, c))}</tbody></table></div><p class="foot">${d.next === null ? "" : html`<a href="${view.here({ before: d.next })}">Older changes</a> `}${before ? html`<a href="${view.here({ before: null })}">Newest first</a>` : ""}</p>`;
}

function whole(view, d) {
  if (!d.key) return html`<p class="empty">${d.changes.length ? "No value: the key was deleted." : "No value: there is no such key."}</p>`;
  const { value } = d.key;
  return html`${value.size ? html`<pre class="json value" tabindex="0" aria-label="Value of the key">${valueText(view, value)}</pre>` : html`<p class="empty">The value is empty: 0 bytes.</p>`}<p class="foot">${cutNote(value)}${value.text === null && !view.route.params.as ? "It is no text, and shown in hexadecimal. " : ""}${PUBLIC}</p>`;
}

export function render(view) {
  const d = view.data("key");
  const head = d ? html`<div class="headline">${path(view, d)}<h1>${d.shown || "(empty name)"}</h1><p class="lead">${lead(view, d)}</p></div>` : html`<h1 class="hide">Key</h1>`;
  return html`${head}${panel(view, { id: "value", title: "Value", need: "key", tools: formatChoice(view), note: x => (x.key ? bytes(x.key.value.size) : "") }, x => whole(view, x))}
  ${view.need("leases") ? panel(view, { id: "leases", title: "Its lease", need: "leases", note: leaseNote(view) }, x => leaseTable(view, x)) : ""}
  ${panel(view, { id: "history", title: "History", need: "key", note: "every change, newest first" }, x => history(view, x))}`;
}
