/**
 * Markup as values, and the patcher that brings the document to them.
 *
 * Rules: whatever is put into html`…` is escaped unless it is Markup itself, so no view can forget it. Geometry goes into
 * `data-css`, not `style`: the service's content security policy refuses style attributes, and the patcher sets them
 * through the object model. A child with `data-key` keeps its node when its neighbours change; what stands inside
 * `data-keep` belongs to somebody else (map.js) and is left alone.
 */

const ESCAPES = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };

export class Markup {
  constructor(text) { this.text = text; }
  toString() { return this.text; }
}

const written = value => {
  if (value instanceof Markup) return value.text;
  if (Array.isArray(value)) return value.map(written).join("");
  if (value === null || value === undefined || value === false || value === true) return "";
  return String(value).replace(/[&<>"']/g, c => ESCAPES[c]);
};

/** Template tag: escaped text, arrays joined; null, undefined and booleans are nothing. */
export function html(parts, ...values) {
  let out = parts[0];
  for (let i = 0; i < values.length; i++) out += written(values[i]) + parts[i + 1];
  return new Markup(out);
}

export const nothing = new Markup("");

/** Each cell says its column's heading: on a phone a row is a card, and there is no head above it. */
function headed(table) {
  const heads = [];
  for (const th of table.tHead?.rows[table.tHead.rows.length - 1]?.cells ?? []) for (let i = 0; i < th.colSpan; i++) heads.push(th.dataset.head ?? th.textContent);
  for (const body of table.tBodies) for (const row of body.rows) {
    if (row.cells.length === heads.length) [...row.cells].forEach((cell, i) => { if (i) cell.dataset.head = heads[i]; });
  }
}

/** Nodes of a markup, with their geometry and the headings of their cells set. */
function build(markup) {
  const template = document.createElement("template");
  template.innerHTML = written(markup);
  for (const el of template.content.querySelectorAll("[data-css]")) el.style.cssText = el.dataset.css;
  for (const table of template.content.querySelectorAll("table.rows")) headed(table);
  return template.content;
}

/** The one element of a markup. */
export const element = markup => build(markup).firstElementChild;

/** Bring `root` to `markup`, keeping nodes, focus and scroll wherever the shape is the same. */
export function morph(root, markup) {
  const text = written(markup);
  if (root._shown === text) return;
  root._shown = text;
  children(root, build(markup));
}

function children(into, from) {
  const keyed = new Map();
  for (const el of into.children) if (el.dataset.key !== undefined) keyed.set(el.dataset.key, el);
  let at = into.firstChild;
  for (let wanted = from.firstChild, next; wanted; wanted = next) {
    next = wanted.nextSibling;
    const key = wanted.dataset?.key;
    const match = key === undefined ? (same(at, wanted) ? at : null) : keyed.get(key);
    if (!match || match.nodeName !== wanted.nodeName) { into.insertBefore(wanted, at); continue; }
    if (key !== undefined) keyed.delete(key);
    if (match === at) at = at.nextSibling;
    else into.insertBefore(match, at);
    patch(match, wanted);
  }
  while (at) { const gone = at; at = at.nextSibling; gone.remove(); }
}

const same = (a, b) => a && a.nodeType === b.nodeType && a.nodeName === b.nodeName && a.dataset?.key === undefined;

function patch(old, wanted) {
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.nodeValue !== wanted.nodeValue) old.nodeValue = wanted.nodeValue;
    return;
  }
  if (old.hasAttribute("data-keep")) return;
  for (const { name } of [...old.attributes]) {
    if (name !== "style" && !wanted.hasAttribute(name)) old.removeAttribute(name);
  }
  for (const { name, value } of wanted.attributes) {
    if (name === "style" || old.getAttribute(name) === value) continue;
    old.setAttribute(name, value);
    if (name === "data-css") old.style.cssText = value;
    if (name === "value" && old !== document.activeElement) old.value = value;
  }
  if (old.dataset.css === undefined && old.hasAttribute("style")) old.style.cssText = "";
  if (old.checked !== undefined && old.checked !== wanted.checked) old.checked = wanted.checked;
  if (old.selected !== undefined && old.selected !== wanted.selected) old.selected = wanted.selected;
  children(old, wanted);
}
