/** Glyphs: the silhouette tells the state, colour only repeats it. The symbols are in index.html. */
import { html } from "./html.js";

export const STATUS = {
  lost: "no master", last: "one replica in sync", flap: "flapping", shrunk: "sync set shrunk", new: "no master yet", full: "in full sync",
};
export const SEVERITY = Object.fromEntries(Object.keys(STATUS).map((name, i) => [name, i]));
export const TONE = { lost: "bad", last: "warn", flap: "warn", shrunk: "warn", new: "mute", full: "ok" };
export const MEMBER = { master: "master", sync: "in sync", behind: "alive, not in sync", fenced: "fenced" };

export const glyph = (id, cls = "", label = "") => label
  ? html`<svg class="g ${cls}" role="img" aria-label="${label}"><use href="#${id}"/></svg>`
  : html`<svg class="g ${cls}" aria-hidden="true"><use href="#${id}"/></svg>`;
export const icon = id => html`<svg class="i" aria-hidden="true"><use href="#${id}"/></svg>`;
export const arrow = html`<svg class="arrow" role="img" aria-label="to"><use href="#i-to"/></svg>`;
export const statusGlyph = (status, labelled = true) => glyph(`s-${status}`, `${status}-c`, labelled ? STATUS[status] : "");

export function memberState(set, member) {
  if (!member.alive) return "fenced";
  if (member.id === set.master) return "master";
  return set.sync.includes(member.id) ? "sync" : "behind";
}
export const memberGlyph = (set, member) => {
  const state = memberState(set, member);
  return glyph(`m-${state}`, `${state}-c`, `broker ${member.id} ${MEMBER[state]}`);
};
export const memberGlyphs = set => html`<span class="members">${set.members.map(m => memberGlyph(set, m))}</span>`;
/** Members of the sync set that are alive: those a failover can count on. */
export const inSync = set => set.sync.filter(id => set.members.some(m => m.id === id && m.alive)).length;
