/** Members: services that registered, and brokers beside them; who may be given work, who was heard when, and how it is. */
import { bytes, num, plural, span } from "../format.js";
import { html } from "../html.js";
import { glyph } from "../icons.js";
import { panel } from "../panel.js";
import { eventLink } from "../words.js";

const PAGE = 50;
const POLL_MS = 2_000;
/** Silent for longer than this share of its timeout a member is amber; fuller than this its disk is. */
const LATE = 2 / 3, FULL = 90;
export const STATES = { active: ["s-full", "full-c"], draining: ["s-shrunk", "shrunk-c"], fenced: ["m-fenced", "fenced-c"] };

export const poll = view => (view.recorded ? null : POLL_MS);

export function needs(view) {
  const { q, state, role, start } = view.route.params;
  return { members: { path: "members", query: { q, state, role, from: start, limit: PAGE }, every: 500, poll: poll(view), slot: "members" } };
}

export const stateOf = m => html`${glyph(...STATES[m.state])} ${m.state}${m.draining && m.state !== "draining" ? ", draining" : ""}${m.may_leave ? html` <span class="mute">may leave</span>` : ""}`;
export const words = map => Object.entries(map).map(([name, value]) => `${name} ${value}`).join(", ");

/** How long ago it was heard, counted on; amber when that is long, and it says above what. */
export function heard(view, m) {
  if (!m.live) return "–";
  const ms = Math.max(0, view.now - m.live.heard_ms), late = m.timeout_ms > 0 && ms > m.timeout_ms * LATE;
  return html`<span class="${late ? "warn-t" : ""}" title="${late ? `Amber above two thirds of its timeout, ${span(m.timeout_ms)}` : ""}">${span(Math.floor(ms / 1000) * 1000)}</span>`;
}

export function health(m) {
  const h = m.live?.health;
  if (!h) return "–";
  const full = h.disk_total_bytes ? Math.floor(h.disk_used_bytes / h.disk_total_bytes * 100) : null, over = full !== null && full > FULL;
  const said = [
    full === null ? "" : html`<span class="${over ? "warn-t" : ""}" title="${over ? `Amber above ${FULL} %` : ""}">disk ${full} % of ${bytes(h.disk_total_bytes)}</span>`,
    h.cpu_percent ? `cpu ${h.cpu_percent} %` : "", h.memory_percent ? `memory ${h.memory_percent} %` : "",
    h.io_errors ? html`<span class="bad-t">${plural(h.io_errors, "I/O error")}</span>` : "",
  ].filter(Boolean);
  return said.length ? said.map((one, i) => html`${i ? ", " : ""}${one}`) : html`<span class="mute">not said</span>`;
}

function row(view, m) {
  const to = view.href("member", m.name);
  return html`<tr data-href="${to}" tabindex="-1" data-key="m${m.name}" class="${m.state === "fenced" ? "off" : ""}"><th scope="row"><a href="${to}">${m.name}</a></th><td>${stateOf(m)}</td><td>${m.roles.join(", ")}</td><td class="n">${m.broker ? html`<span class="mute">broker</span>` : eventLink(view, m.epoch)}</td><td class="wrap addr">${words(m.addresses)}</td><td class="wrap mute">${words(m.labels)}</td><td class="n">${m.since ? view.since(m.since) : "–"}</td><td class="n">${heard(view, m)}</td><td>${health(m)}</td></tr>`;
}

function table(view, d) {
  const { q, state, role, start } = view.route.params, any = d.states.active + d.states.fenced + d.states.draining;
  if (!d.members.length) return html`<p class="empty">${q || state || role || start ? html`No member is meant by that. <a href="${view.href("members")}">All members</a>` : any ? "There is no member from here on." : view.live ? html`No member has registered, and no broker. One appears with its first <code>MemberRegistered</code>; the cluster needs feature level 2.` : "Nobody had registered at this offset."}</p>`;
  return html`<div class="scroll"><table class="rows mb cards-s"><thead><tr><th>Member</th><th>State</th><th>Roles</th><th class="n">Epoch</th><th>Addresses</th><th>Labels</th><th class="n">For</th><th class="n">Heard ago</th><th>Health</th></tr></thead><tbody>${d.members.map(m => row(view, m))}</tbody></table></div><p class="foot">${d.next === null ? "" : html`<a href="${view.here({ start: d.next })}">More members</a> `}${start ? html`<a href="${view.here({ start: null })}">From the first</a>` : ""}</p>`;
}

function filters(view, d) {
  const { state, role } = view.route.params;
  const choice = (name, value, words, n, on) => html`<button data-do="param" data-name="${name}" data-value="${on ? "" : value}" aria-pressed="${on ? "true" : "false"}">${words} <b>${num(n)}</b></button>`;
  return html`<div class="chips" role="group" aria-label="Only some members">${Object.entries(d.states).filter(([, n]) => n).map(([s, n]) => choice("state", s, html`${glyph(...STATES[s])} ${s}`, n, state === s))}${Object.entries(d.roles).map(([r, n]) => choice("role", r, r, n, role === r))}</div>`;
}

export const softNote = view => (view.live && !view.recorded ? "when one was heard, and its health, are the leader’s word, not in the log" : "when one was heard, and its health, are soft state: true only now, not in the log");

export function render(view) {
  const { q = "", state, role } = view.route.params;
  const tools = html`<input type="search" data-param="q" placeholder="name, role, address or label" value="${q}" aria-label="Find a member"><kbd>/</kbd>`;
  const note = d => `${q || state || role ? `${num(d.total)} of ` : ""}${plural(d.states.active + d.states.fenced + d.states.draining, "member")}; ${softNote(view)}`;
  return html`<h1 class="hide">Members</h1>${panel(view, { id: "members", title: "Members", need: "members", tools, note, empty: html`The log is empty. A member appears with its first <code>MemberRegistered</code>.` }, d => html`${filters(view, d)}${table(view, d)}`)}`;
}
