/**
 * What if: pick what fails and the policy; a node answers by the function the controllers decide with.
 *
 * Zones and hosts are labels of brokers and nodes; where none are set, only nodes and single brokers can be picked. In the
 * past the offsets of that moment are not known, so where they would decide the answer is "2 or 3".
 */
import { num, plural } from "../format.js";
import { html } from "../html.js";
import { glyph } from "../icons.js";
import { drawMap, legend } from "../map.js";
import { panel } from "../panel.js";
import { node, setLink } from "../words.js";

const ROWS = 60, OPTIONS = 2000, SINGLES = 8;
const picked = view => (view.route.params.fail ?? "").split(",").filter(Boolean);
const labels = (sets, name) => [...new Set(sets.flatMap(s => s.members.map(m => m[name])).filter(Boolean))].sort();

/** Single failures worth trying: every zone, every node, and hosts while they are few. */
function singles(view) {
  const sets = view.data("sets")?.sets ?? [], nodes = view.data("quorum")?.nodes ?? [];
  return [...labels(sets, "zone").map(z => [`zone/${z}`, z]), ...nodes.map(n => [`node/${n.id}`, node(n.id)]), ...labels(sets, "host").map(h => [`host/${h}`, `host ${h}`])].slice(0, SINGLES);
}

const question = (view, fail, poll) => ({ path: "whatif", body: { at: view.at, fail, unclean: view.route.params.unclean === "1" ? true : null }, live: true, alone: true, source: "node", every: 2000, poll: view.live ? poll : null });

export function needs(view) {
  const all = { sets: { path: "sets" }, quorum: { path: "quorum" } }, fail = picked(view);
  if (!view.nodes) return all;
  if (fail.length || view.route.params.unclean === "1") all.outcome = { ...question(view, fail, 5000), slot: `outcome ${view.at}` };
  if ((view.data("sets")?.sets.length ?? Infinity) <= 500) for (const [id] of singles(view)) all[`single ${id}`] = { ...question(view, [id], 30_000), every: 30_000 };
  return all;
}

// ── what fails ────────────────────────────────────────────────────────────────────────────────────────────────────────

function choices(view, sets, quorum) {
  const failed = new Set(picked(view)), { set: name = "", unclean } = view.route.params, set = sets.find(s => s.name === name);
  const box = (id, label, note = "") => html`<label class="pick"><input type="checkbox" data-do="fail" data-value="${id}" ${failed.has(id) ? "checked" : ""}><span>${label}</span>${note ? html`<i>${note}</i>` : ""}</label>`;
  const masters = zone => sets.filter(s => s.members.some(m => m.zone === zone && m.id === s.master)).length;
  const zones = labels(sets, "zone"), others = [...failed].filter(id => !id.startsWith("node/") && !zones.includes(id.slice(5)) && !(set && id.startsWith(`broker/${set.name}/`)));
  const state = m => (!m.alive ? "fenced already" : m.id === set.master ? "master" : set.sync.includes(m.id) ? "in sync" : "not in sync");
  return html`${zones.length ? html`<fieldset><legend>Zones</legend>${zones.map(z => box(`zone/${z}`, z, plural(masters(z), "master")))}</fieldset>` : ""}
  <fieldset><legend>Controllers</legend>${quorum.nodes.map(n => box(`node/${n.id}`, node(n.id), view.live && n.live?.reachable === false ? "does not answer" : n.id === quorum.leader ? "leader" : n.role))}</fieldset>
  <fieldset><legend>One broker</legend><select data-pick="set" aria-label="Broker set"><option value="">choose a set</option>${sets.slice(0, OPTIONS).map(s => html`<option value="${s.name}" ${s.name === name ? "selected" : ""}>${s.name}</option>`)}</select>${set ? set.members.map(m => box(`broker/${set.name}/${m.id}`, `broker ${m.id}`, state(m))) : ""}${others.map(id => box(id, id.replace(/^(broker|host)\//, "")))}</fieldset>
  <fieldset><legend>Policy</legend><label class="pick"><input type="checkbox" data-do="param" data-name="unclean" data-value="1" ${unclean === "1" ? "checked" : ""}><span>allow unclean election</span></label></fieldset>
  ${failed.size || unclean ? html`<p><a href="${view.href("whatif")}">Clear</a></p>` : ""}`;
}

export const acts = {
  fail(el, view, go) {
    const failed = new Set(el.dataset.only === undefined ? picked(view) : []);
    if (!failed.delete(el.dataset.value)) failed.add(el.dataset.value);
    go(view.here({ fail: [...failed].join(",") }));
  },
};

// ── what follows ──────────────────────────────────────────────────────────────────────────────────────────────────────

/** Rows by what they mean for the set: its master stays, another is elected, or there is none. */
function sorted(rows) {
  const of = (...kinds) => rows.filter(r => kinds.includes(r.kind));
  return { lost: of("no master"), elect: of("elected"), keep: of("shrunk", "unaffected") };
}

function words(data) {
  const { lost, elect, keep } = sorted(data.rows), parts = [], { voters, voters_left: left, survives, leader_lost: headless } = data.quorum;
  if (!survives) parts.push(`The quorum is lost: ${left.length} of ${voters.length} controllers are left, so nobody can be elected.`);
  parts.push(`${lost.length ? `${plural(lost.length, "set has", "sets have")} no master` : "No set is left without a master"}${elect.length ? `, ${plural(elect.length, "set elects", "sets elect")} another` : ""}${keep.length ? `, ${plural(keep.length, "set keeps", "sets keep")} ${keep.length === 1 ? "its" : "their"} master with fewer replicas` : ""}.`);
  if (survives && left.length < voters.length) parts.push(`The quorum holds, ${left.length} of ${voters.length}${headless ? ", under a new leader" : ""}.`);
  return parts.join(" ");
}

function outcomeRow(view, r, sets) {
  const who = r.winners, lives = sets.get(r.set)?.members.find(m => m.id === r.master);
  const then = !who.length ? html`<b class="bad-t">no master</b>` : r.unclean ? html`<b class="warn-t">broker ${who.join(" or ")}, unclean</b>` : `broker ${who.join(" or ")}`;
  return html`<tr data-key="${r.set}"><th scope="row">${glyph(who.length ? "m-master" : "s-lost", who.length ? "" : "lost-c")} ${setLink(view, r.set)}</th><td class="c">${r.master ?? "none"}${lives?.zone ? html` <span class="mute">${lives.zone}</span>` : ""}</td><td>${then}</td><td class="wrap" title="${r.explanation}">${r.why}</td></tr>`;
}

function outcome(view, data, list) {
  const { lost, elect, keep } = sorted(data.rows), sets = new Map(list.map(s => [s.name, s])), rows = [...lost, ...elect];
  return html`<p class="big">${words(data)}</p><div id="map" data-keep></div>
  ${rows.length ? html`<div class="scroll"><table class="rows wt cards-s"><thead><tr><th>Set</th><th class="c">Master now</th><th>Then</th><th>Because</th></tr></thead><tbody>${rows.slice(0, ROWS).map(r => outcomeRow(view, r, sets))}</tbody></table></div>${rows.length > ROWS ? html`<p class="foot">${ROWS} of ${num(rows.length)} shown.</p>` : ""}` : ""}
  ${keep.length ? html`<p class="foot">${plural(keep.length, "set keeps", "sets keep")} the master with fewer replicas: ${keep.slice(0, 12).map((r, i) => html`${i ? ", " : ""}${setLink(view, r.set)}`)}${keep.length > 12 ? ` and ${num(keep.length - 12)} more` : ""}.</p>` : ""}`;
}

function singleRow(view, id, label) {
  const entry = view.need(`single ${id}`), data = entry?.answer?.data;
  const name = html`<th scope="row"><button class="plain" data-do="fail" data-only data-value="${id}">${label}</button></th>`;
  if (!data) return html`<tr>${name}<td colspan="4" class="mute">${entry?.error ? entry.error.message : "asking…"}</td></tr>`;
  const { lost, elect, keep } = sorted(data.rows), held = data.quorum.survives;
  return html`<tr>${name}<td class="n">${lost.length ? html`<b class="bad-t">${num(lost.length)}</b>` : "0"}</td><td class="n">${num(elect.length)}</td><td class="n">${num(keep.length)}</td><td>${held ? "holds" : html`<b class="bad-t">lost</b>`}</td></tr>`;
}

export function render(view) {
  const recorded = html`<p class="empty"><span class="big">A recorded log has no node to ask.</span>With nodes (<code>quorate dashboard --nodes …</code>) one of them answers here, by the function it decides with.</p>`;
  const note = view.live ? "by the rule the controllers decide with, offsets from the heartbeats of this moment" : "the state of that offset; heartbeats of then are not in the log";
  const prompt = html`<p class="big">Tick what fails.</p>`;
  const list = singles(view);
  return html`<h1 class="hide">What if</h1><div class="wi">${panel(view, { id: "choose", title: "Fail", need: ["sets", "quorum"], empty: "There is nothing to fail yet." }, (s, q) => choices(view, s.sets, q))}
  <div class="wimain">${view.recorded ? panel(view, { id: "outcome", title: "Outcome", need: "sets" }, () => recorded) : view.need("outcome")
    ? panel(view, { id: "outcome", title: "Outcome", need: ["outcome", "sets"], note }, (d, s) => outcome(view, d, s.sets))
    : panel(view, { id: "outcome", title: "Outcome", need: "sets", note }, d => html`${prompt}${legend(view, d.sets)}<div id="map" data-keep></div>`)}
  ${view.recorded || !view.need(`single ${list[0]?.[0]}`) ? "" : panel(view, { id: "single", title: "Every single failure", need: "sets", note: "press one to try it" }, () => html`<div class="scroll"><table class="rows"><thead><tr><th>Fails</th><th class="n">No master</th><th class="n">Elect another</th><th class="n">Fewer replicas</th><th>Quorum</th></tr></thead><tbody>${list.map(([id, label]) => singleRow(view, id, label))}</tbody></table></div>`)}</div></div>`;
}

/** The sets as they would be, by the rows of the answer. */
function after(list, rows) {
  const by = new Map(rows.map(r => [r.set, r]));
  return list.map(s => {
    const r = by.get(s.name);
    if (!r) return s;
    const members = s.members.map(m => ({ ...m, alive: r.after.alive.includes(m.id) })), sync = r.after.sync_state_set, left = sync.filter(id => r.after.alive.includes(id)).length;
    const status = !r.winners.length && r.after.master === null ? "lost" : left <= 1 && members.length > 1 ? "last" : left < members.length ? "shrunk" : "full";
    return { ...s, members, master: r.after.master ?? r.winners[0] ?? null, sync, status, flapping: false };
  });
}

export function mounted(view, main) {
  const root = main.querySelector("#map"), sets = view.data("sets")?.sets, rows = view.data("outcome")?.rows;
  if (!root || !sets) return;
  const moved = new Set((rows ?? []).filter(r => ["elected", "no master"].includes(r.kind)).map(r => r.set));
  drawMap(root, rows ? after(sets, rows) : sets, { only: view.route.params.only, changed: moved, href: name => view.href("set", name) });
}
