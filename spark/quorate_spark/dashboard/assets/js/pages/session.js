/** One session of MQTT: who has its client, what that subscribed to, its will, and every event about it. */
import { bytes, num, plural, span } from "../format.js";
import { html } from "../html.js";
import { panel } from "../panel.js";
import { cutNote, formatChoice, PUBLIC, valueLine } from "../values.js";
import { eventLink, eventRow } from "../words.js";
import { ends, expiry, owner, stateGlyph } from "./sessions.js";

const PAGE = 50;

export const needs = view => ({ session: { path: "session", query: { client: view.route.key, before: view.route.params.before, limit: PAGE }, every: 500, slot: "session" } });

function lead(view, d) {
  const s = d.session, last = d.changes[0];
  if (!s) return last ? html`It is not there: ${last.text}, <b>${view.since(last.t)}</b> ago.` : view.live ? "There is no such session, and never was." : `At offset ${num(view.at)} there is no such session, and never was.`;
  const at = s.since === null ? html`Connected to ${owner(view, s)} since ${view.moment(s.opened)}, <b>${view.since(s.opened)}</b>` : html`Away since ${view.moment(s.since)}, <b>${view.since(s.since)}</b>; ${owner(view, s)} had it last`;
  return html`${at}. The session ${s.since === null || s.ends === null ? `${s.expiry_s ? "is " : ""}${expiry(s)}` : `ends ${ends(view, s)}`}. Opened by ${eventLink(view, s.epoch)}.`;
}

function subscriptions(d) {
  if (!d.subscriptions.length) return html`<p class="empty">${d.session ? "It subscribed to nothing." : "It is not there."}</p>`;
  return html`<div class="scroll"><table class="rows mb cards-s"><thead><tr><th>Filter</th><th class="n">QoS</th><th>Options</th></tr></thead><tbody>${d.subscriptions.map(one => html`<tr data-key="f${one.filter}"><th scope="row" class="mono">${one.filter}</th><td class="n">${num(one.qos)}</td><td class="wrap">${one.options.join(", ")}</td></tr>`)}</tbody></table></div>`;
}

function will(view, w) {
  if (!w) return html`<p class="empty">It has none, or that was decided.</p>`;
  const fact = (name, value) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`;
  return html`<dl class="facts tight">${fact("Topic", html`<span class="mono">${w.topic}</span>`)}${fact("QoS", `${w.qos}${w.retain ? ", retained" : ""}`)}${fact("Delay", w.delay_s ? span(w.delay_s * 1000) : "none")}${fact("Payload", html`<span class="mono">${valueLine(view, w.payload)}</span> <span class="mute">${bytes(w.payload.size)}</span>`)}</dl><p class="foot">${cutNote(w.payload)}${PUBLIC}</p>`;
}

function history(view, d) {
  const { before } = view.route.params;
  if (!d.changes.length) return html`<p class="empty">The log tells nothing of it ${before ? "before that" : "up to this offset"}.</p>`;
  return html`<div class="events nokey">${d.changes.map(e => eventRow(view, e, { key: false }))}</div><p class="foot">${d.next === null ? "" : html`<a href="${view.here({ before: d.next })}">Older events</a> `}${before ? html`<a href="${view.here({ before: null })}">Newest first</a>` : ""}</p>`;
}

export function render(view) {
  const d = view.data("session"), s = d?.session;
  const head = d ? html`<div class="headline"><p class="crumb"><a href="${view.href("sessions")}">Sessions</a></p><h1>${s ? stateGlyph(s) : ""} ${d.client || "(no name)"}</h1><p class="lead">${lead(view, d)}</p></div>` : html`<h1 class="hide">Session</h1>`;
  return html`${head}<div class="grid">${panel(view, { id: "subscriptions", title: "Subscriptions", need: "session", cls: "c5", note: x => plural(x.subscriptions.length, "subscription") }, x => subscriptions(x))}
  ${panel(view, { id: "history", title: "History", need: "session", cls: "c7", note: "every event about it, newest first" }, x => history(view, x))}</div>
  ${panel(view, { id: "will", title: "Will", need: "session", tools: formatChoice(view) }, x => will(view, x.will))}`;
}
