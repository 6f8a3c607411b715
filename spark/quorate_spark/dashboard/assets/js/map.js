/**
 * The map of broker sets: one tile per set, grouped by the prefix of its name.
 *
 * Rules: a tile never moves while sets neither come nor go; trouble changes its look. A tile is drawn anew only when
 * what it shows has changed, so that 2,000 sets cost nothing while nothing happens to them. Size follows the count:
 * up to 8 sets names and members, up to 96 number, members and epoch, up to 500 22 px, more 11 px.
 */
import { num } from "./format.js";
import { element, html } from "./html.js";
import { glyph, inSync, memberGlyph, memberGlyphs, memberState, SEVERITY, STATUS } from "./icons.js";

const sizeOf = n => (n <= 8 ? "l" : n <= 96 ? "m" : n <= 500 ? "s" : "xs");
const cut = name => { const i = name.lastIndexOf("-"); return i > 0 ? [name.slice(0, i), name.slice(i + 1)] : ["", name]; };

function label(set) {
  const master = set.master === null ? "no master" : `master broker ${set.master}`;
  return `${set.name}: ${STATUS[set.status]}, ${master}, epoch ${set.epoch}, ${inSync(set)} of ${set.members.length} in sync${set.flapping && set.status !== "flap" ? ", flapping" : ""}`;
}

function inside(set, size) {
  const flap = set.flapping ? glyph("s-flap") : "";
  const count = html`${inSync(set)}/${set.members.length}`;
  if (size === "m") return html`<b>${cut(set.name)[1]}</b><i>${flap}e${set.epoch}</i>${memberGlyphs(set)}<em>${count}</em>`;
  if (size === "l") return html`<b>${set.name}</b><i>${flap}epoch ${set.epoch}</i><span class="who">${set.members.map(m => html`<span>${memberGlyph(set, m)} ${m.id}${m.zone ? html` <u>${m.zone}</u>` : ""}</span>`)}</span><em>${STATUS[set.status]}</em>`;
  return set.flapping ? html`<s></s>` : "";
}

const tile = (set, size, options) => element(html`<a class="tile ${set.status} ${set.flapping ? "flapping" : ""} ${options.only && options.only !== set.status ? "dim" : ""} ${options.changed?.has(set.name) ? "changed" : ""}" data-css="--missing:${Math.round((1 - inSync(set) / Math.max(1, set.members.length)) * 100)}%" data-name="${set.name}" href="${options.href(set.name)}" tabindex="-1" aria-label="${label(set)}" ${size.endsWith("s") ? html`title="${label(set)}"` : ""}>${inside(set, size)}</a>`);

const sign = (set, options) => `${set.touched}|${set.status}|${set.flapping}|${set.epoch}|${set.master}|${set.sync}|${set.members.map(m => memberState(set, m)[0] + m.id + m.zone)}|${options.only ?? ""}|${options.changed?.has(set.name) ?? ""}|${options.href(set.name)}`;

/** Draw `sets` into `root` (an element with data-keep); options: `only` status, `changed` names, `href` of a name. */
export function drawMap(root, sets, options) {
  const size = sizeOf(sets.length), names = sets.map(s => s.name).join("\n");
  if (root._names !== names || root._size !== size) return layOut(root, sets, size, names, options);
  for (const set of sets) {
    const known = root._tiles.get(set.name), now = sign(set, options);
    if (known.sign === now) continue;
    const fresh = tile(set, size, options), focused = document.activeElement === known.node;
    fresh.tabIndex = known.node.tabIndex;
    known.node.replaceWith(fresh);
    if (focused) fresh.focus({ preventScroll: true });
    Object.assign(known, { node: fresh, sign: now });
  }
}

function layOut(root, sets, size, names, options) {
  const groups = new Map(), tiles = new Map();
  for (const set of sets) {
    const prefix = size === "l" ? "" : cut(set.name)[0];
    if (!groups.has(prefix)) groups.set(prefix, []);
    groups.get(prefix).push(set);
  }
  root.className = `map ${size}`;
  root.replaceChildren(...[...groups].map(([prefix, list]) => {
    const group = element(html`<div class="group">${groups.size > 1 || prefix ? html`<span class="label" title="${prefix}">${prefix || "other"}<i>${num(list.length)}</i></span>` : ""}<div class="tiles"></div></div>`);
    group.lastElementChild.append(...list.map(set => {
      const node = tile(set, size, options);
      tiles.set(set.name, { node, sign: sign(set, options) });
      return node;
    }));
    return group;
  }));
  if (tiles.size) tiles.values().next().value.node.tabIndex = 0;
  Object.assign(root, { _names: names, _size: size, _tiles: tiles });
}

const SHORT = { lost: "no master", last: "one replica", flap: "flapping", shrunk: "shrunk", new: "starting", full: "full sync" };

/** How many of each; the counts sum to all sets, and each filters the map. */
export function legend(view, sets, page = view.route.page) {
  const counts = Object.fromEntries(Object.keys(SEVERITY).map(k => [k, 0])), only = view.route.params.only;
  for (const set of sets) counts[set.status]++;
  const shown = Object.entries(counts).filter(([k, n]) => n || k !== "new");
  return html`<div class="legend" role="group" aria-label="Broker sets by state">${shown.map(([k, n]) => html`<button data-do="param" data-name="only" data-value="${only === k ? "" : k}" aria-pressed="${only === k ? "true" : "false"}" class="${n ? "" : "zero"}">${glyph(`s-${k}`, `${k}-c`)}<b>${num(n)}</b> ${SHORT[k]}</button>`)}</div>`;
}

export const memberKey = html`<p class="key"><span>${glyph("m-master", "master-c")} master</span><span>${glyph("m-sync", "sync-c")} in sync</span><span>${glyph("m-behind", "behind-c")} alive, not in sync</span><span>${glyph("m-fenced", "fenced-c")} fenced</span></p>`;

/** Arrow keys walk from tile to tile; one tile of a map is in the order of focus at a time. */
export function walk(event) {
  const me = event.target.closest?.(".tile");
  if (!me || !event.key.startsWith("Arrow")) return false;
  const all = [...me.closest(".map").querySelectorAll(".tile")], i = all.indexOf(me), here = me.getBoundingClientRect();
  let next = null;
  if (event.key === "ArrowRight") next = all[i + 1];
  else if (event.key === "ArrowLeft") next = all[i - 1];
  else {
    const way = event.key === "ArrowDown" ? 1 : -1;
    let best = Infinity;
    for (const other of all) {
      const box = other.getBoundingClientRect(), down = (box.top - here.top) * way;
      if (down < 4) continue;
      const far = down * 40 + Math.abs(box.left - here.left);
      if (far < best) { best = far; next = other; }
    }
  }
  if (!next) return true;
  me.tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
  return true;
}
