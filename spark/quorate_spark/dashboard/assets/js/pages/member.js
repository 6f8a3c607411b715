/** One member: what it says of itself, when it was heard, how it is, and every event about it. */
import { num, span } from "../format.js";
import { html } from "../html.js";
import { glyph } from "../icons.js";
import { panel } from "../panel.js";
import { eventLink, eventRow, setLink } from "../words.js";
import { health, heard, poll, softNote, stateOf, STATES } from "./members.js";

const PAGE = 50;

export const needs = view => ({ member: { path: "member", query: { name: view.route.key, before: view.route.params.before, limit: PAGE }, every: 500, poll: poll(view), slot: "member" } });

function lead(view, d) {
  const m = d.member, last = d.changes[0];
  if (!m) return last ? html`It is not there: ${last.text}, <b>${view.since(last.t)}</b> ago.` : view.live ? "There is no such member, and never was." : `At offset ${num(view.at)} there is no such member, and never was.`;
  const since = m.since ? html` since ${view.moment(m.since)}, <b>${view.since(m.since)}</b>` : "";
  if (m.broker) return html`A broker of RocketMQ, ${m.state}${since}${m.why ? html`: ${m.why}` : ""}. What the log says of it is told at ${setLink(view, m.labels["broker-set"])}.`;
  return html`${m.state[0].toUpperCase() + m.state.slice(1)}${since}${m.state === "fenced" ? "; it is given no work" : ""}${m.may_leave ? "; it leads nothing any more, and may leave" : ""}. ${m.why ? html`Last word: ${m.why}${m.why_offset === null ? "" : html`, ${eventLink(view, m.why_offset)}`}.` : ""}`;
}

function facts(view, m) {
  const fact = (name, value) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`, list = map => Object.entries(map).map(([k, v]) => html`<div>${k} <span class="mono">${v}</span></div>`);
  const none = html`<span class="mute">none</span>`;
  return html`<dl class="facts tight">${fact("State", stateOf(m))}${m.broker ? "" : fact("Epoch", html`${eventLink(view, m.epoch)}, incarnation ${m.incarnation}`)}${fact("Roles", m.roles.join(", ") || none)}${fact("Addresses", Object.keys(m.addresses).length ? list(m.addresses) : none)}${fact("Labels", Object.keys(m.labels).length ? list(m.labels) : none)}${m.timeout_ms ? fact("Timeout", span(m.timeout_ms)) : ""}${fact("Heard ago", heard(view, m))}${fact("Health", health(m))}</dl>`;
}

function history(view, d) {
  const { before } = view.route.params;
  if (!d.changes.length) return html`<p class="empty">${d.member?.broker ? html`Its events are those of ${setLink(view, d.member.labels["broker-set"])}.` : `The log tells nothing of it ${before ? "before that" : "up to this offset"}.`}</p>`;
  return html`<div class="events nokey">${d.changes.map(e => eventRow(view, e, { key: false }))}</div><p class="foot">${d.next === null ? "" : html`<a href="${view.here({ before: d.next })}">Older events</a> `}${before ? html`<a href="${view.here({ before: null })}">Newest first</a>` : ""}</p>`;
}

export function render(view) {
  const d = view.data("member"), m = d?.member;
  const head = d ? html`<div class="headline"><p class="crumb"><a href="${view.href("members")}">Members</a></p><h1>${m ? glyph(...STATES[m.state]) : ""} ${d.name || "(no name)"}</h1><p class="lead">${lead(view, d)}</p></div>` : html`<h1 class="hide">Member</h1>`;
  return html`${head}<div class="grid">${panel(view, { id: "self", title: "What it says of itself", need: "member", cls: "c5", note: "" }, x => (x.member ? html`${facts(view, x.member)}<p class="foot">${softNote(view)}</p>` : html`<p class="empty">It is not there.</p>`))}
  ${panel(view, { id: "history", title: "History", need: "member", cls: "c7", note: "every event about it, newest first" }, x => history(view, x))}</div>`;
}
