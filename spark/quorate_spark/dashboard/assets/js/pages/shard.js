/** One shard: its segments, the newest first, each with its copies, who leads and why; and the last events about it. */
import { num, plural } from "../format.js";
import { html } from "../html.js";
import { glyph } from "../icons.js";
import { panel } from "../panel.js";
import { eventLink, eventRow, memberLink } from "../words.js";
import { kept, KEPT, labels } from "./journal.js";

const PAGE = 50;

export const needs = view => ({ shard: { path: "shard", query: { name: view.route.key, below: view.route.params.below, limit: PAGE }, every: 500, slot: "shard" } });

function lead(view, d) {
  const s = d.shard, last = d.changes[0];
  if (!s) return last ? html`It is not there: ${last.text}, <b>${view.since(last.t)}</b> ago.` : view.live ? "There is no such shard, and never was." : `At offset ${num(view.at)} there is no such shard, and never was.`;
  const how = s.level === "deleting" ? "It is to go; its copies are to be deleted" : s.why || "Every segment has its leader and all its copies in sync";
  return html`${how[0].toUpperCase()}${how.slice(1)}. ${plural(s.segments, "segment")} of ${plural(s.replication, "copy", "copies")} each, at least ${num(s.min_in_sync)} in sync${labels(s) ? `; ${labels(s)}` : ""}. Created by ${eventLink(view, s.epoch)}.`;
}

/** What a copy is: it leads, is in sync, lags; or its member is not there. */
function copy(view, c) {
  const [id, cls, word] = !c.there ? ["m-fenced", "fenced-c", `${c.leads ? "leads, but is" : c.in_sync ? "in sync, but" : ""} not there`] : c.leads ? ["m-master", "master-c", "leads"] : c.in_sync ? ["m-sync", "sync-c", "in sync"] : ["m-behind", "behind-c", "not in sync"];
  return html`<div>${glyph(id, cls)} ${memberLink(view, c.member)} <span class="mute">${word}</span></div>`;
}

function row(view, s) {
  return html`<tr data-href="${view.href("log", "", { q: `key:segment/${s.name}` })}" tabindex="-1" data-key="g${s.name}"><th scope="row"><a href="${view.href("log", "", { q: `key:segment/${s.name}` })}">${s.name}</a></th><td class="wrap">${kept(s.level)}${s.reasons.length ? html`<div class="mute">${s.reasons.join(", ")}</div>` : ""}</td><td class="wrap">${s.copies.map(c => copy(view, c))}</td><td class="n">${num(s.start)}</td><td class="n">${s.end === null ? html`<span class="mute">open</span>` : num(s.end)}</td><td class="n">${eventLink(view, s.leader_epoch)}</td><td class="n">${num(s.set_epoch)}</td><td class="wrap">${s.why || html`<span class="mute">it led first</span>`}</td></tr>`;
}

function table(view, d) {
  const { below } = view.route.params;
  if (!d.segments.length) return html`<p class="empty">${d.shard ? "There is no segment from here on." : "It is not there."}</p>`;
  return html`<div class="scroll"><table class="rows mb cards-s"><thead><tr><th>Segment</th><th>State</th><th>Copies</th><th class="n">From</th><th class="n">To</th><th class="n">Leader epoch</th><th class="n">Set epoch</th><th>Why that leader</th></tr></thead><tbody>${d.segments.map(s => row(view, s))}</tbody></table></div><p class="foot">${d.next === null ? "" : html`<a href="${view.here({ below: d.next })}">Older segments</a> `}${below ? html`<a href="${view.here({ below: null })}">The newest</a>` : ""}</p>`;
}

export function render(view) {
  const d = view.data("shard"), s = d?.shard;
  const head = d ? html`<div class="headline"><p class="crumb"><a href="${view.href("journal")}">Journal</a></p><h1>${s ? glyph(...KEPT[s.level].slice(0, 2)) : ""} ${d.name || "(no name)"}</h1><p class="lead">${lead(view, d)}</p></div>` : html`<h1 class="hide">Shard</h1>`;
  return html`${head}${panel(view, { id: "segments", title: "Segments", need: "shard", note: x => (x.shard ? `${num(x.shard.segments)}, the newest first` : "") }, x => table(view, x))}
  ${panel(view, { id: "history", title: "Last events", need: "shard", note: "of the shard and of the newest segment shown" }, x => (x.changes.length ? html`<div class="events">${x.changes.map(e => eventRow(view, e))}</div>` : html`<p class="empty">The log tells nothing of it up to this offset.</p>`))}`;
}
