/** Broker sets as a table, worst first, with a filter. */
import { num, plural } from "../format.js";
import { html } from "../html.js";
import { glyph, inSync, memberGlyphs, SEVERITY, STATUS, statusGlyph } from "../icons.js";
import { panel } from "../panel.js";

const SHOWN = 300;

export const needs = () => ({ sets: { path: "sets" } });

const matches = (set, words) => words.every(w => set.name.toLowerCase().includes(w) || set.status === w || set.members.some(m => m.addr.includes(w) || m.zone.toLowerCase() === w || m.host.toLowerCase() === w));

function row(view, s) {
  const master = s.members.find(m => m.id === s.master), apart = s.diverged.length > 0;
  return html`<tr data-href="${view.href("set", s.name)}" tabindex="-1" data-key="${s.name}"><th scope="row"><a href="${view.href("set", s.name)}">${s.name}</a></th><td>${statusGlyph(s.status, false)} ${STATUS[s.status]}${s.flapping && s.status !== "flap" ? html` ${glyph("s-flap", "flap-c", "flapping")}` : ""}${apart ? html` ${glyph("s-differs", "differs-c")} differs` : ""}</td><td>${memberGlyphs(s)}</td><td class="c">${s.master ?? "–"}${master?.zone ? html` <span class="mute">${master.zone}</span>` : ""}</td><td class="n">${s.epoch}</td><td class="n">${inSync(s)} of ${s.members.length}</td><td class="n">${s.sync_epoch}</td><td class="n">${s.master === null || s.master_since === null ? "–" : view.since(s.master_since)}</td><td class="n">${num(s.elections)}</td></tr>`;
}

export function render(view) {
  const q = view.route.params.q ?? "", words = q.toLowerCase().split(/\s+/).filter(Boolean), only = view.route.params.only;
  const find = list => list.filter(s => matches(s, words) && (!only || s.status === only)).sort((a, b) => SEVERITY[a.status] - SEVERITY[b.status] || (a.name < b.name ? -1 : 1));
  const tools = html`<input type="search" data-param="q" placeholder="name, address, zone, host or state" value="${q}" aria-label="Find a broker set"><kbd>/</kbd>`;
  return html`<h1 class="hide">Broker sets</h1>${panel(view, { id: "sets", title: "Broker sets", need: "sets", tools, note: d => `${words.length || only ? `${num(find(d.sets).length)} of ` : ""}${plural(d.sets.length, "set")}, worst first`, empty: html`No broker has registered. A set appears with its first <code>BrokerIdApplied</code>.` }, d => {
    const list = find(d.sets);
    if (!list.length) return html`<p class="empty">${d.sets.length ? html`No set matches “${q}”. <a href="${view.href("sets")}">Clear the filter</a>` : "No broker has registered."}</p>`;
    return html`<div class="scroll"><table class="rows sets cards-s"><thead><tr><th>Set</th><th>State</th><th>Members</th><th class="c">Master</th><th class="n">Epoch</th><th class="n">In sync</th><th class="n">Sync epoch</th><th class="n">Master for</th><th class="n">Elections</th></tr></thead><tbody>${list.slice(0, SHOWN).map(s => row(view, s))}</tbody></table></div>${list.length > SHOWN ? html`<p class="foot">${SHOWN} of ${num(list.length)} shown. Narrow the filter.</p>` : ""}`;
  })}`;
}
