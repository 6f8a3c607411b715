/**
 * The frame of a panel: heading, stamp, tools, and the body or whatever stands in for it.
 *
 * States: loading (bones in the final shape), empty (what will appear, and what makes it appear), failed without data
 * (who answered what, what else is unaffected, retry, copy), failed with data (the last good data and one line), fine.
 * Every panel prints the offset it reflects and how old that is.
 */
import { age, clock, num, off, span, zoneName } from "./format.js";
import { html, nothing } from "./html.js";
import { glyph } from "./icons.js";

/** Younger than this, an age is not counted out loud. */
const FRESH_MS = 3_000;
const STALE_MS = 5_000;

const bone = (width, height = 12) => html`<span class="bone" data-css="width:${width}%;height:${height}px"></span>`;
const BONES = {
  rows: () => html`<div class="skeleton" aria-busy="true">${[62, 84, 71, 90, 58, 77].map(w => bone(w))}</div>`,
  text: () => html`<div class="skeleton" aria-busy="true">${bone(46, 26)}${bone(64)}${bone(52)}</div>`,
  tiles: () => html`<div class="skeleton tiles-s" aria-busy="true">${Array.from({ length: 24 }, () => bone(100, 46))}</div>`,
  chart: () => html`<div class="skeleton" aria-busy="true">${[96, 90, 99, 84, 93, 88, 97, 91].map(w => bone(w, 18))}</div>`,
};

/** What a stamp says of an answer: `{offset, age, tone, title}`. */
export function stampOf(view, entry) {
  const answer = entry.answer, who = { fold: "this service's own fold", spark: `Spark, batch ${answer.batch ?? "?"}`, node: "a node, asked just now" }[answer.source] ?? answer.source;
  const reflects = answer.offset > 0 ? `Reflects every event before offset ${num(answer.offset)}; ${who}` : `The log is empty; ${who}`;
  const past = entry.need.body ? entry.need.body.at : entry.at;
  if (past !== null) {
    const ago = answer.time === null ? "before all" : `${span(view.now - answer.time)} ago`;
    return { offset: answer.offset, age: ago, tone: "past", title: answer.time === null ? reflects : `${reflects}; ${clock(answer.time, true)} ${zoneName()}` };
  }
  if (view.recorded) return { offset: answer.offset, age: "recorded", tone: "", title: reflects };
  let old = Date.now() - answer.received + (answer.age_ms ?? 0);
  if (answer.source === "fold" || answer.source === "spark") { // Asked again when there is something new.
    if (view.connection.state !== "open") old = Date.now() - view.connection.heard;
    else if (view.head.offset !== null && answer.offset < view.head.offset) old = Date.now() - view.head.moved;
    else old = Date.now() - view.connection.heard + (view.lag?.age_ms ?? 0);
  }
  return { offset: answer.offset, age: old < FRESH_MS ? `< ${FRESH_MS / 1000} s` : `${age(old)} old`, tone: old > STALE_MS ? "late" : "", title: old > STALE_MS ? `${reflects}; amber above ${STALE_MS / 1000} s` : reflects };
}

export const stamp = s => html`<span class="stamp ${s.tone}" title="${s.title}" data-offset="${s.offset}">${s.tone === "late" ? glyph("s-shrunk") : s.tone === "past" ? glyph("m-master") : ""}<b>${off(s.offset)}</b><i>${s.age}</i></span>`;

const spared = html`The other panels do not depend on it.`;
const failed = (view, error) => html`<div class="failed" role="alert">${glyph("s-lost", "lost-c")}<div><strong>This panel could not be read.</strong>
  <p><code>${error.where}</code> ${error.status ? html`answered ${error.status}` : "did not answer"}: ${error.message}. ${spared}</p>
  <p><button data-do="retry">Try again</button><button data-do="copy" data-copy="${error.text}">Copy details</button></p></div></div>`;
const overdue = (view, entry) => html`<p class="soft" role="alert">${glyph("s-shrunk")} Not refreshed for ${age(Date.now() - entry.errorSince)}: ${entry.error.message}. Below is offset ${num(entry.answer.offset)}. <button class="plain" data-do="retry">Try again</button></p>`;

/** A body that breaks takes no other panel with it. */
function contained(entry, body) {
  try { return body(); }
  catch (error) {
    console.error(error);
    return failed(null, { where: entry.need.path, status: 200, message: `what this page cannot show (${error.message})`, text: String(error.stack ?? error) });
  }
}

/**
 * A panel. `need`: name or names of what it shows; the stamp is that of the oldest. `body` gets the data in that order.
 * `empty` is shown while the log holds nothing.
 */
export function panel(view, { id, title, need, note = "", tools = "", cls = "", bones = "rows", empty = "Nothing is in the log yet." }, body) {
  const entries = [need].flat().map(name => view.need(name));
  const missing = entries.filter(e => !e.answer), hard = missing.find(e => e.error);
  let inner, mark = html`<span class="stamp">reading…</span>`, said = nothing;
  if (missing.length) inner = hard ? failed(view, hard.error) : BONES[bones]();
  else {
    const oldest = entries.reduce((a, b) => (b.answer.offset < a.answer.offset ? b : a));
    mark = stamp(stampOf(view, oldest));
    said = typeof note === "function" ? note(...entries.map(e => e.answer.data)) : note;
    const soft = entries.find(e => e.error);
    const shown = () => (oldest.answer.offset === 0 && empty ? html`<p class="empty">${empty}</p>` : body(...entries.map(e => e.answer.data)));
    inner = html`${soft ? overdue(view, soft) : ""}${contained(oldest, shown)}`;
  }
  return html`<section class="panel ${cls}" id="p-${id}" data-key="${id}" aria-labelledby="h-${id}"><header><h2 id="h-${id}">${title}</h2>${said && String(said) ? html`<p class="note">${said}</p>` : ""}<div class="right">${tools}${hard ? "" : mark}</div></header>${inner}</section>`;
}
