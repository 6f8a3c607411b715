/**
 * Persistent sessions of MQTT: which clients there are, who has each, since when one is away and when its session ends.
 *
 * Every page of them is asked for: the browser never holds more than it shows, however many sessions there are.
 */
import { num, plural, span } from "../format.js";
import { html } from "../html.js";
import { glyph } from "../icons.js";
import { panel } from "../panel.js";
import { eventLink, memberLink } from "../words.js";

const PAGE = 50;
const STATES = { connected: ["s-full", "full-c"], away: ["m-fenced", "fenced-c"] };

export function needs(view) {
  const { q, state, member, start } = view.route.params;
  return { sessions: { path: "sessions", query: { q, state, member, from: start, limit: PAGE }, every: 500, slot: "sessions" } };
}

export const stateGlyph = s => glyph(...STATES[s.state]);
export const expiry = s => (s.expiry_s === null ? "never expires" : s.expiry_s ? `kept for ${span(s.expiry_s * 1000)}` : "ends with its connection");
/** How long an absent client still has; a session that is due ends when the leader decides so. */
export const ends = (view, s) => (s.ends === null ? "" : s.ends <= view.t ? "due" : `in ${span(s.ends - view.t)}`);
export const owner = (view, s) => html`${memberLink(view, s.member)}${s.there ? "" : html` <span class="mute">not there</span>`}`;

function row(view, s) {
  const to = view.href("session", s.client), more = s.subscriptions - s.filters.length;
  return html`<tr data-href="${to}" tabindex="-1" data-key="c${s.client}" class="${s.state === "away" ? "off" : ""}"><th scope="row"><a href="${to}">${s.client}</a></th><td>${stateGlyph(s)} ${s.state}</td><td>${owner(view, s)}</td><td class="n">${eventLink(view, s.epoch)}</td><td class="n">${view.since(s.since ?? s.opened)}</td><td>${expiry(s)}</td><td class="n">${ends(view, s) || "–"}</td><td class="wrap">${s.subscriptions ? html`${s.filters.map((f, i) => html`${i ? ", " : ""}<span class="mono">${f}</span>`)}${more ? ` and ${num(more)} more` : ""}` : html`<span class="mute">none</span>`}</td><td class="wrap">${s.will === null ? html`<span class="mute">none</span>` : html`<span class="mono">${s.will}</span>`}</td></tr>`;
}

function table(view, d) {
  const { q, state, member, start } = view.route.params;
  const looked = d.looked === null ? "" : `${plural(d.looked, "session")} looked at. `;
  const none = q || state || member ? html`No session is meant by that${d.next === null ? "" : " among those looked at"}. <a href="${view.href("sessions")}">All sessions</a>` : d.total ? "There is no session from here on." : view.live ? html`No client has a session. One appears with its first <code>SessionOpened</code>, by an MQTT broker that keeps its sessions here; the cluster needs feature level 2.` : "No client had a session at this offset.";
  const body = d.sessions.length ? html`<div class="scroll"><table class="rows mb cards-s"><thead><tr><th>Client</th><th>State</th><th>Member</th><th class="n">Epoch</th><th class="n">For</th><th>Expiry</th><th class="n">Ends</th><th>Subscriptions</th><th>Will</th></tr></thead><tbody>${d.sessions.map(s => row(view, s))}</tbody></table></div>` : html`<p class="empty">${none}</p>`;
  return html`${body}<p class="foot">${looked}${d.next === null ? "" : html`<a href="${view.here({ start: d.next })}">${d.looked === null ? "More sessions" : "Look on"}</a> `}${start ? html`<a href="${view.here({ start: null })}">From the first</a>` : ""}</p>`;
}

function filters(view, d) {
  const { state, member } = view.route.params;
  return html`<div class="chips" role="group" aria-label="Only some sessions">${Object.entries(d.states).filter(([, n]) => n).map(([name, n]) => html`<button data-do="param" data-name="state" data-value="${state === name ? "" : name}" aria-pressed="${state === name ? "true" : "false"}">${glyph(...STATES[name])} ${name} <b>${num(n)}</b></button>`)}${member ? html`<button data-do="param" data-name="member" data-value="" aria-pressed="true">at ${member}</button>` : ""}</div>`;
}

/** Wills that nobody has said are published: the oldest, and who is to publish each. */
function waiting(view, d) {
  if (!d.waiting.length) return "";
  const one = w => html`<tr data-key="w${w.will}"><th scope="row"><span class="mono">${w.topic}</span></th><td><a href="${view.href("session", w.client)}">${w.client}</a></td><td>${w.member ? owner(view, w) : html`<span class="mute">nobody yet</span>`}</td><td class="n">${eventLink(view, w.will)}</td><td class="n">${view.since(w.since)}</td></tr>`;
  const more = d.wills - d.waiting.length;
  return html`<h3>Wills to be published</h3><div class="scroll"><table class="rows mb cards-s"><thead><tr><th>Topic</th><th>Client</th><th>By</th><th class="n">Epoch</th><th class="n">For</th></tr></thead><tbody>${d.waiting.map(one)}</tbody></table></div>${more ? html`<p class="foot">and ${num(more)} more</p>` : ""}`;
}

export function render(view) {
  const { q = "" } = view.route.params;
  const tools = html`<input type="search" data-param="q" placeholder="client, member or filter" value="${q}" aria-label="Find a session"><kbd>/</kbd>`;
  const note = d => `${plural(d.total, "session")}, ${plural(d.subscriptions, "subscription")}${d.wills ? `, ${plural(d.wills, "will")} not known to be published` : ""}`;
  return html`<h1 class="hide">Sessions</h1>${panel(view, { id: "sessions", title: "Sessions", need: "sessions", tools, note, empty: html`The log is empty. A session appears with its first <code>SessionOpened</code>.` }, d => html`${filters(view, d)}${table(view, d)}${waiting(view, d)}`)}`;
}
