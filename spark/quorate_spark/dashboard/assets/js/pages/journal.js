/** The journal: shards, how well each is kept, and who leads its newest segment. */
import { num, plural } from "../format.js";
import { html } from "../html.js";
import { glyph } from "../icons.js";
import { panel } from "../panel.js";
import { eventLink, memberLink } from "../words.js";

const PAGE = 50;
/** How well a thing is kept: glyph, its colour, and the word for it. */
export const KEPT = { red: ["s-lost", "lost-c", "no leader, or too few in sync"], yellow: ["s-shrunk", "shrunk-c", "under-replicated"], green: ["s-full", "full-c", "whole"], deleting: ["s-new", "new-c", "to be deleted"] };
export const kept = level => html`${glyph(KEPT[level][0], KEPT[level][1])} ${KEPT[level][2]}`;

export function needs(view) {
  const { q, level, start } = view.route.params;
  return { shards: { path: "shards", query: { q, level, from: start, limit: PAGE }, every: 500, slot: "shards" } };
}

export const labels = s => [s.spread ? `spread over ${s.spread}` : "", ...Object.entries(s.require).map(([name, value]) => (value ? `${name} ${value}` : `has ${name}`))].filter(Boolean).join(", ");

function row(view, s) {
  const to = view.href("shard", s.name);
  return html`<tr data-href="${to}" tabindex="-1" data-key="s${s.name}" class="${s.level === "deleting" ? "off" : ""}"><th scope="row"><a href="${to}">${s.name}</a></th><td>${kept(s.level)}</td><td class="n">${num(s.segments)}</td><td class="wrap">${s.why || html`<span class="mute">–</span>`}</td><td class="n">${s.replication}</td><td class="n">${s.min_in_sync}</td><td>${s.leader ? memberLink(view, s.leader) : html`<span class="mute">none</span>`}</td><td class="wrap mute">${labels(s)}</td><td class="n">${eventLink(view, s.epoch)}</td></tr>`;
}

function table(view, d) {
  const { q, level, start } = view.route.params, any = Object.values(d.levels).some(Boolean);
  if (!d.shards.length) return html`<p class="empty">${q || level || start ? html`No shard is meant by that. <a href="${view.href("journal")}">All shards</a>` : any ? "There is no shard from here on." : view.live ? html`There is no shard. One appears with <code>quorate journal create SHARD</code>, or a service that keeps its log here; the cluster needs feature level 2, and members of the role journal.` : "There was no shard at this offset."}</p>`;
  return html`<div class="scroll"><table class="rows mb cards-s"><thead><tr><th>Shard</th><th>State</th><th class="n">Segments</th><th>At risk</th><th class="n">Copies</th><th class="n">Min in sync</th><th>Leads the newest</th><th>Placement</th><th class="n">Created</th></tr></thead><tbody>${d.shards.map(s => row(view, s))}</tbody></table></div><p class="foot">${d.next === null ? "" : html`<a href="${view.here({ start: d.next })}">More shards</a> `}${start ? html`<a href="${view.here({ start: null })}">From the first</a>` : ""}</p>`;
}

function filters(view, d) {
  const { level } = view.route.params;
  return html`<div class="chips" role="group" aria-label="Only some shards">${Object.entries(d.levels).filter(([, n]) => n).map(([name, n]) => html`<button data-do="param" data-name="level" data-value="${level === name ? "" : name}" aria-pressed="${level === name ? "true" : "false"}">${kept(name)} <b>${num(n)}</b></button>`)}</div>`;
}

export function render(view) {
  const { q = "", level } = view.route.params, d = view.data("shards");
  const tools = html`<input type="search" data-param="q" placeholder="name, leader or label" value="${q}" aria-label="Find a shard"><kbd>/</kbd>`;
  const note = x => `${q || level ? `${num(x.total)} of ` : ""}${plural(Object.values(x.levels).reduce((a, n) => a + n, 0), "shard")}, ${plural(x.segments, "segment")}`;
  return html`<h1 class="hide">Journal</h1>${d ? html`<div class="headline"><p class="lead">${d.sentence}</p></div>` : ""}${panel(view, { id: "journal", title: "Shards", need: "shards", tools, note, empty: html`The log is empty. A shard appears with its first <code>ShardCreated</code>.` }, x => html`${filters(view, x)}${table(view, x)}`)}`;
}
