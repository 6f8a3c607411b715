/** Names and links, the same on every page. What happened and why is said by the server. */
import { off } from "./format.js";
import { html } from "./html.js";

export const setLink = (view, name) => html`<a href="${view.href("set", name)}">${name}</a>`;
export const eventLink = (view, offset) => html`<a class="o" href="${view.href("log", "", { sel: offset })}">${off(offset)}</a>`;
export const memberLink = (view, name) => html`<a href="${view.href("member", name)}">${name}</a>`;
export const electionLink = (view, offset, words) => html`<a class="o" href="${view.href("election", offset)}">${words ?? off(offset)}</a>`;
export const node = id => `n${id}`;

/** `broker-set/trade-01` is read as `trade-01`; other kinds keep their kind. */
export const shortKey = key => key.replace(/^broker-set\//, "").replace(/^(topic|config|node|leader|cluster|key|lease|member|shard|segment|session)\//, "$1 ");

/** What happened, in the server's words, without the name that stands beside it. */
export function what(event) {
  const name = `${shortKey(event.key)}: `;
  return event.text.startsWith(name) ? event.text.slice(name.length) : event.text;
}

export const eventRow = (view, event, { href, key = true, cls = "" } = {}) => html`<a class="row ${event.tone} ${cls}" data-key="e${event.offset}" href="${href ?? view.href("log", "", { sel: event.offset })}"><span class="t">${view.moment(event.t)}</span><span class="ty">${event.type}</span>${key ? html`<span class="k">${shortKey(event.key)}</span>` : ""}<span class="w">${what(event)}</span></a>`;
