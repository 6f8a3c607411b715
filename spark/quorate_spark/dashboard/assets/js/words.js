/** Words for events, elections and verdicts: one place, so that every page says the same thing the same way. */
import { bytes, num, off, span } from "./format.js";
import { html } from "./html.js";

export const setLink = (view, name) => html`<a href="${view.href("set", name)}">${name}</a>`;
export const eventLink = (view, offset) => html`<a class="o" href="${view.href("log", "", { sel: offset })}">${off(offset)}</a>`;
export const electionLink = (view, offset, words) => html`<a class="o" href="${view.href("election", offset)}">${words ?? off(offset)}</a>`;
export const node = id => `n${id}`;

/** `broker-set/trade-01` is read as `trade-01`; other kinds keep their kind. */
export const shortKey = key => key.replace(/^broker-set\//, "").replace(/^(topic|config|node|leader|cluster)\//, "$1 ");

const KINDS = {
  "connection closed": "master’s connection closed", "heartbeat expired": "master fell silent", "shut down": "master shut down",
  admin: "asked by an operator", broker: "asked by a broker", "inactive master scan": "a replica came back", "master lost": "master lost",
};
export const kindWords = kind => KINDS[kind] ?? kind;

const RULES = {
  "first election": "first to ask", "old master is alive": "the old master was alive", designated: "named by the operator", "address changed": "the master moved",
  "only candidate": "only one left to stand", "higher epoch": "highest epoch", "higher max offset": "highest offset",
  "higher priority": "best priority", "lower broker id": "lowest broker id",
  "offsets unknown": "the offset decides, and offsets of that moment are not in the log", "no quorum": "without a quorum nobody can be elected",
  "nobody eligible": "nobody who is alive may be elected", "master lives": "the master lives",
};
export const ruleWords = rule => RULES[rule] ?? rule;

/** What happened, in the server's words, without the name that stands beside it. */
export function what(event) {
  const name = `${shortKey(event.key)}: `;
  return event.text.startsWith(name) ? event.text.slice(name.length) : event.text;
}

export const eventRow = (view, event, { href, key = true, cls = "" } = {}) => html`<a class="row ${event.tone} ${cls}" data-key="e${event.offset}" href="${href ?? view.href("log", "", { sel: event.offset })}"><span class="t">${view.moment(event.t)}</span><span class="ty">${event.type}</span>${key ? html`<span class="k">${shortKey(event.key)}</span>` : ""}<span class="w">${what(event)}</span></a>`;

/** The heading of an election. */
export function headline(el) {
  const { before, after } = el;
  if (el.type === "ElectionFailed") return before.master === null ? `${el.set}: again nobody could be elected` : `${el.set} lost its master and nobody could follow`;
  if (before.master === null && before.epoch === 0) return `${el.set} got its first master, broker ${after.master}`;
  if (before.master === null) return `${el.set} has a master again, broker ${after.master}`;
  if (el.trigger === "admin") return `${el.set} was handed from broker ${before.master} to broker ${after.master}`;
  return `${el.set} elected broker ${after.master} in place of broker ${before.master}`;
}

/** Why a candidate stands where it stands. */
export function verdict(c, el) {
  const winner = el.candidates.find(x => x.verdict === "elected");
  if (c === winner) return `elected: ${ruleWords(el.decided_by)}`;
  switch (c.out_by) {
    case "not alive": return c.id === el.before.master ? "out: it is the master that was lost" : "out: fenced";
    case "not in sync state set": {
      const best = Math.max(...el.candidates.map(x => x.max_offset));
      return c.max_offset >= 0 && best > c.max_offset ? `out: not in the sync set, ${bytes(best - c.max_offset)} behind` : "out: not in the sync set";
    }
    case "learner": return "out: a learner is never elected";
    case "not asked for": return "out: another was asked for";
    case "lower epoch": return `out: epoch ${c.epoch}, broker ${winner?.id} has ${winner?.epoch}`;
    case "lower max offset": return `out: ${bytes(winner.max_offset - c.max_offset)} behind broker ${winner.id}`;
    case "lower priority": return `out: priority ${num(c.priority)}, broker ${winner.id} has ${num(winner.priority)}`;
    case "higher broker id": return "out: as good, but a higher id";
    default: return `out: ${c.out_by}`;
  }
}

/** What the winner of the controllers' election saw. */
export function leaderCause(q) {
  const before = q.previous === null || q.previous === undefined ? "the leader before" : node(q.previous);
  switch (q.cause) {
    case "first start": return "First start of the cluster.";
    case "connection closed": return `The connection to ${before} closed; ${span(q.leaderless_ms)} without a word from it.`;
    case "silent": return `${before} was silent for ${span(q.leaderless_ms)}.`;
    case "handed over": return `${before} handed over.`;
    default: return `${q.cause}.`;
  }
}
