/** One election: trigger, candidates with their verdicts, the rule, fault to acknowledgement, before and after. */
import { bytes, clock, ids, millis, num, off, span, zoneName } from "../format.js";
import { html } from "../html.js";
import { glyph } from "../icons.js";
import { panel } from "../panel.js";
import { eventLink, setLink } from "../words.js";

export function needs(view) {
  const offset = Number(view.route.key);
  if (!Number.isSafeInteger(offset) || offset < 0 || (!view.live && view.at <= offset)) return {};
  const el = view.data("election"), all = { election: { path: `elections/${offset}`, every: 1000 } };
  if (!el) return all;
  const failing = [...new Set([el.before.master, ...(el.candidates.filter(c => !c.alive).map(c => c.id))])].filter(id => id !== null).map(id => `broker/${el.set}/${id}`);
  const ask = (fail, unclean) => ({ path: "whatif", body: { at: el.base, fail, unclean }, live: true, alone: true, source: "node", every: 60_000 });
  if (!view.nodes) return all;
  return { ...all, asIs: ask(failing, null), unclean: ask(failing, true), ...(el.after.master === null ? {} : { deadToo: ask([...new Set([...failing, `broker/${el.set}/${el.after.master}`])], null) }) };
}

function absent(view, entry) {
  const offset = Number(view.route.key);
  if (!view.live && view.at <= offset) return html`<p class="empty whole"><span class="big">At offset ${num(view.at)} this election has not happened yet.</span>It is event ${num(offset)}. <button class="plain" data-do="seek" data-to="${offset + 1}">Go to offset ${num(offset + 1)}</button></p>`;
  if (entry && entry.error?.status !== 404) return null;
  return html`<p class="empty whole"><span class="big">There is no election at offset ${view.route.key}.</span>What is there is in the <a href="${view.href("log", "", { sel: view.route.key })}">log</a>; elections have a <a href="${view.href("elections")}">list</a>.</p>`;
}

function trigger(view, el) {
  const fact = (name, value) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`;
  const heard = el.last_heartbeat_at ? html`${clock(el.last_heartbeat_at, true)} ${el.detected_at ? html`<span class="mute">${span(el.detected_at - el.last_heartbeat_at)} before it was noticed</span>` : ""}` : "–";
  return html`<dl class="facts">${fact("What", el.kind_words)}${fact("Asked by", el.asker)}${fact("Last heartbeat", heard)}${fact("Decided at", `${clock(el.proposed_at, true)} ${zoneName()}`)}${fact("By", el.principal.replace(/^node\//, "n"))}${fact("Events", html`${el.base !== el.offset ? html`${eventLink(view, el.base)} to ` : ""}${eventLink(view, el.offset)}, term ${el.term}`)}</dl><p class="foot">${el.explanation}</p>`;
}

// ── candidates ────────────────────────────────────────────────────────────────────────────────────────────────────────

function cell(col, c, best) {
  if (col.id === "alive") return c.alive ? "yes" : "no";
  if (col.id === "sync") return c.in_sync ? "yes" : "no";
  if (col.id === "learner") return c.learner ? "learner" : "yes";
  if (col.id === "named") return c.verdict === "elected" ? "yes" : "no";
  if (col.id === "epoch") return c.epoch < 0 ? html`<span class="mute">unknown</span>` : num(c.epoch);
  if (col.id === "offset") return c.max_offset < 0 ? html`<span class="mute">unknown</span>` : html`${num(c.max_offset)}<small>${c.max_offset === best ? "most" : `−${bytes(best - c.max_offset)}`}</small>`;
  if (col.id === "priority") return c.priority === null ? html`<span class="mute">unset</span>` : num(c.priority);
  return num(c.id);
}

function candidates(view, el) {
  const columns = el.columns, decided = columns.findIndex(col => col.decided), best = Math.max(...el.candidates.map(c => c.max_offset));
  const fell = c => (c.verdict === "elected" ? Infinity : columns.findIndex(col => col.out_by === c.out_by));
  const tone = (c, i) => (i > fell(c) ? "past" : i === fell(c) ? "fell" : decided >= 0 && i > decided ? "past" : i === decided && c.verdict === "elected" ? "deciding" : "");
  const rows = [...el.candidates].sort((a, b) => (b.verdict === "elected") - (a.verdict === "elected") || fell(b) - fell(a) || a.id - b.id);
  const mark = (c, i) => (i === fell(c) ? glyph("s-lost", "lost-c", "fell here") : "");
  const shown = (c, col, i) => html`${mark(c, i)}${i > fell(c) ? html`<span class="hide">not evaluated: </span>` : ""}${cell(col, c, best)}`;
  const failed = el.type === "ElectionFailed", caveat = el.caveat ? html`<p class="soft ${failed ? "bad" : ""}">${failed ? glyph("s-lost", "lost-c") : glyph("s-last", "last-c")} ${el.caveat}</p>` : "";
  const name = c => html`${glyph(c.verdict === "elected" ? "m-master" : c.alive ? "m-sync" : "m-fenced")} ${c.id} <span class="mute">${c.zone || c.addr}</span>`;
  if (!view.wide) return html`${caveat}<div class="cards">${rows.map(c => html`<div class="cand ${c.verdict}"><p><b>broker ${c.id}</b> <span class="mute">${c.zone || c.addr}</span><strong>${c.verdict_words}</strong></p><dl>${columns.map((col, i) => html`<div class="${tone(c, i)}"><dt>${i + 1} ${col.name}</dt><dd>${shown(c, col, i)}</dd></div>`)}</dl></div>`)}</div>`;
  return html`${caveat}<div class="scroll"><table class="rows cand"><thead><tr><th>Broker</th>${columns.map((col, i) => html`<th class="n ${i === decided ? "decided" : ""}"><span>${i + 1}</span> ${col.name}${i === decided ? html`<em>decided here</em>` : ""}</th>`)}<th>Verdict</th></tr></thead><tbody>${rows.map(c => html`<tr class="${c.verdict}"><th scope="row">${name(c)}</th>${columns.map((col, i) => html`<td class="n ${tone(c, i)}">${shown(c, col, i)}</td>`)}<td class="verdict">${c.verdict_words}</td></tr>`)}</tbody></table></div>`;
}

// ── waterfall ─────────────────────────────────────────────────────────────────────────────────────────────────────────

const winnerFirst = el => (a, b) => (b.broker === el.after.master) - (a.broker === el.after.master) || (a.at ?? Infinity) - (b.at ?? Infinity);

/** Phases with both ends known: `{id, name, who, from, to}`. */
function phases(el) {
  const list = [], add = (id, name, who, from, to) => { if (from && to) list.push({ id, name, who, from, to }); };
  add("detect", "Detected", el.principal.replace(/^node\//, "n"), el.fault_at, el.detected_at);
  add("propose", "Proposed", "", el.detected_at || el.proposed_at, el.proposed_at);
  add("commit", "Committed", "majority", el.proposed_at, el.committed_at);
  add("notify", "Notified", "", el.committed_at, el.notified_at);
  for (const a of [...el.acks].sort(winnerFirst(el))) add(a.broker === el.after.master ? "ack" : "ack-other", `Acknowledged by ${a.broker}`, a.broker === el.after.master ? "new master" : "replica", a.notified_at, a.at);
  return list;
}

function waterfall(view, el) {
  const steps = phases(el);
  if (!el.fault_at || !steps.length) return html`<p class="empty">Nothing was lost here, so there is no fault to count from. ${el.acks.length ? "" : "Nothing is acknowledged at this offset."}</p>`;
  const t0 = el.fault_at, end = Math.max(...steps.map(s => s.to)), first = steps[0].id === "detect" ? steps[0].to - steps[0].from : 0, rest = Math.max(1, end - t0 - first);
  const cutting = first > 4 * rest && first > 400, lead = cutting ? 0.16 : 0, total = Math.max(1, end - t0);
  const place = t => (!cutting ? (t - t0) / total : t <= t0 + first ? (t - t0) / first * lead : lead + (t - t0 - first) / rest * (1 - lead));
  const pct = f => `${(f * 100).toFixed(2)}%`;
  const median = s => { const m = el.medians?.[s.id]; return m === null || m === undefined || el.medians_of < 3 || (cutting && s.id === "detect") ? null : place(s.from + m); };
  const about = el.fault_estimated ? "about " : "";
  const row = s => {
    const a = place(s.from), b = place(s.to), tick = median(s);
    return html`<div class="wr ${s.id}" role="row"><span role="rowheader">${s.name} <i>${s.who}</i></span><span class="n" role="cell">${s.id === "detect" ? about : ""}${millis(s.to - s.from)}</span><span class="n mute" role="cell">+${millis(s.to - t0)}</span><span class="lane" role="cell"><span class="hide">${tick === null ? "" : `median ${millis(el.medians[s.id])}`}</span><u data-css="left:${pct(a)};width:max(2px,${pct(b - a)})"></u>${cutting && s.id === "detect" ? html`<s data-css="left:${pct(lead / 2)}"></s>` : ""}${tick !== null && tick <= 1 ? html`<b data-css="left:${pct(tick)}"></b>` : ""}</span></div>`;
  };
  const waiting = el.acks.filter(a => !a.at).map(a => a.broker), foot = [];
  if (cutting) foot.push(`The first bar is cut: ${(first / (end - t0) * 100).toFixed(1)} % of the time went by before the controllers could know.`);
  if (el.fault_estimated) foot.push("The fault is taken to be the last heartbeat: an estimate.");
  if (waiting.length) foot.push(`Broker ${waiting.join(", ")} did not acknowledge.`);
  else if (!el.acks.length && el.type === "MasterElected") foot.push("Not acknowledged at this offset.");
  if (el.type === "ElectionFailed") foot.push("Nobody was elected, so there was nobody to tell.");
  return html`<div class="waterfall" role="table" aria-label="From the fault to the new master, in milliseconds"><div class="wr hd" role="row"><span role="columnheader">Phase</span><span role="columnheader" class="n">Took</span><span role="columnheader" class="n">At</span><span class="ends" role="columnheader"><i>fault ${clock(t0, true)}</i><i>+${millis(end - t0)}</i></span></div>${steps.map(row)}</div>${foot.length ? html`<p class="foot">${foot.join(" ")}</p>` : ""}`;
}

// ── before, after, otherwise ──────────────────────────────────────────────────────────────────────────────────────────

function difference(view, el) {
  const row = (name, a, b) => html`<tr class="${String(a) === String(b) ? "same" : "changed"}"><th scope="row">${name}</th><td class="n">${a}</td><td class="n">${b}</td></tr>`;
  const { before, after } = el, who = id => (id === null ? "none" : `broker ${id}`);
  return html`<table class="rows ba"><thead><tr><th></th><th class="n">Before ${off(before.offset)}</th><th class="n">After ${off(after.offset)}</th></tr></thead><tbody>${row("Master", who(before.master), who(after.master))}${row("Master epoch", before.epoch, after.epoch)}${row("Sync set", ids(before.sync), ids(after.sync))}${row("Sync set epoch", before.sync_epoch, after.sync_epoch)}${row("Alive", ids(before.alive), ids(after.alive))}</tbody></table><p class="foot">${setLink(view, el.set)} · <a href="${view.href("diff", "", { from: before.offset, to: after.offset })}">all that changed</a></p>`;
}

function otherwise(view, el) {
  const line = (name, label) => {
    const entry = view.need(name);
    if (!entry) return "";
    if (!entry.answer) return html`<tr><th scope="row">${label}</th><td class="c">…</td><td class="wrap mute">${entry.error ? entry.error.message : "asking a node"}</td></tr>`;
    const found = entry.answer.data.rows.find(r => r.set === el.set), winners = found?.winners ?? [];
    const actual = el.after.master, same = winners.length === 1 ? winners[0] === actual : !winners.length && actual === null;
    const who = !found ? "unchanged" : winners.length ? `broker ${winners.join(" or ")}` : "none";
    const note = !found ? "the set is not concerned" : same ? "the same" : found.why;
    return html`<tr class="${same ? "same" : "changed"}"><th scope="row">${label}</th><td class="c">${who}</td><td class="wrap">${note}</td></tr>`;
  };
  const command = `quorate why ${el.set} --offset ${el.offset}`;
  const asked = view.recorded ? html`<p class="empty">A recorded log has no node to ask. With nodes, they answer here by the function they decide with.</p>` : html`<table class="rows pol"><thead><tr><th>If</th><th class="c">Elects</th><th>Difference</th></tr></thead><tbody>${line("asIs", "as it was")}${line("unclean", "unclean election on")}${line("deadToo", `broker ${el.after.master} dead too`)}</tbody></table>`;
  return html`${asked}<p class="foot"><code>${command}</code> <button class="plain" data-do="copy" data-copy="${command}">copy</button></p>`;
}

export function render(view) {
  const entry = view.need("election"), gone = absent(view, entry);
  if (gone) return gone;
  const el = view.data("election");
  if (!el) return panel(view, { id: "trigger", title: "Election", need: "election" }, () => "");
  const total = el.phases?.total, about = el.fault_estimated ? "about " : "";
  const turn = html`<nav class="turn" aria-label="Neighbouring elections">${el.earlier === null ? "" : html`<a href="${view.href("election", el.earlier)}">earlier: ${off(el.earlier)}</a>`}${el.later === null ? "" : html`<a href="${view.href("election", el.later)}">later: ${off(el.later)}</a>`}</nav>`;
  return html`<div class="headline"><p class="crumb"><a href="${view.href("elections")}">Elections</a> <span>${off(el.offset)}</span></p><h1>${el.headline}</h1><p class="lead">${el.because} ${total && el.type === "MasterElected" ? html`The set had no master for ${about}<b>${span(total)}</b>.` : ""}</p>${turn}</div>
  ${panel(view, { id: "trigger", title: "Trigger", need: "election" }, d => trigger(view, d))}
  ${panel(view, { id: "candidates", title: "Candidates", need: "election", note: "each rule removes candidates, left to right, until one is left" }, d => candidates(view, d))}
  ${panel(view, { id: "waterfall", title: "From the fault to the new master", need: "election", note: d => (d.medians_of >= 3 ? `bar: this election; tick: median of ${num(d.medians_of)} of its kind` : "bar: this election") }, d => waterfall(view, d))}
  <div class="grid">${panel(view, { id: "difference", title: "Before and after", need: "election", cls: "c6" }, d => difference(view, d))}
  ${panel(view, { id: "otherwise", title: "Would another policy choose otherwise?", need: "election", cls: "c6" }, d => otherwise(view, d))}</div>`;
}
