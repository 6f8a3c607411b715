/** Diff: all that is different between two offsets. B is the page's own offset, so the time bar moves it. */
import { clock, day, num, off, plural, span, zoneName } from "../format.js";
import { html } from "../html.js";
import { arrow } from "../icons.js";
import { panel } from "../panel.js";
import { setLink } from "../words.js";

const BACK = [10, 100, 1000];

/** The two offsets: B is `to`, else the page's, else the newest; A is `from`, else 100 events before B. */
function ends(view) {
  const { from, to } = view.route.params, number = text => (/^\d+$/.test(text ?? "") ? Number(text) : null);
  const b = number(to) ?? view.at ?? view.head.offset;
  const a = number(from) ?? (b === null ? null : Math.max(0, b - 100));
  return { a: a !== null && b !== null ? Math.min(a, b) : a, b, open: number(to) === null && view.at === null };
}

export function needs(view) {
  const { a, b, open } = ends(view);
  return b === null ? { diff: { path: "about", live: true } } : { diff: { path: "diff", query: { from: a, to: open ? null : b }, live: true, every: 700, slot: "diff" } };
}

const KINDS = { "broker-set": "Broker sets", topic: "Topics", config: "Settings", node: "Nodes", leader: "Leader", "feature-level": "Feature level", key: "Keys", lease: "Leases", member: "Members", shard: "Shards", segment: "Segments", session: "Sessions", "session-owner": "Lost members that had clients", will: "Wills to publish", subject: "Subjects", schema: "Schemas", cluster: "Cluster" };
const field = name => name.replace(/^members\.(\d+)\.?/, "broker $1 ").replace(/_/g, " ").trim();

function value(v, name) {
  if (v === null || v === undefined) return html`<span class="mute">none</span>`;
  if (typeof v === "number" && v > 1e11 && /(_ms|since|_at)$/.test(name)) return clock(v, true);
  if (Array.isArray(v)) return v.length ? v.every(x => typeof x === "number") ? `{${v.join(", ")}}` : v.join(", ") : "{}";
  if (typeof v === "object") return JSON.stringify(v);
  return v === true ? "yes" : v === false ? "no" : String(v);
}

function entity(view, e) {
  const name = e.kind === "member" ? html`<a href="${view.href("member", e.name)}">${e.name}</a>` : e.kind === "key" ? html`<a href="${view.href("key", e.name)}">${e.name}</a>` : e.kind === "session" ? html`<a href="${view.href("session", e.name)}">${e.name}</a>` : e.kind === "shard" || e.kind === "segment" ? html`<a href="${view.href("shard", e.name.split("/")[0])}">${e.name}</a>` : e.kind === "broker-set" && e.change !== "removed" ? setLink(view, e.name) : e.name;
  const rows = e.fields.length ? e.fields : [{ field: "", before: null, after: null }];
  return html`<tbody data-key="${e.kind}/${e.name}">${rows.map((f, i) => html`<tr data-key="${f.field}">${i ? "" : html`<th scope="rowgroup" rowspan="${rows.length}">${name}<span class="mute">${e.change === "changed" ? "" : ` ${e.change}`}</span></th>`}<td class="wrap">${field(f.field)}</td><td class="wrap before">${e.change === "added" ? "" : value(f.before, f.field)}</td><td class="c">${f.field ? arrow : ""}</td><td class="wrap after-v">${e.change === "removed" ? "" : value(f.after, f.field)}</td></tr>`)}</tbody>`;
}

function body(view, d) {
  if (!d.changed) return "";
  const kinds = [...new Set(d.changed.map(e => e.kind))], count = kind => d.changed.filter(e => e.kind === kind).length;
  const apart = d.from_time !== null && d.to_time !== null ? `, ${span(d.to_time - d.from_time)} apart` : "";
  const types = Object.entries(d.types).sort((a, b) => b[1] - a[1]);
  return html`<p class="big">${d.events ? `${plural(d.events, "event")}${apart}: ${d.changed.length ? `${plural(d.changed.length + d.more, "thing is", "things are")} different.` : "nothing is different in the end."}` : "The same offset on both sides."}</p>
  <p class="foot">${types.map(([type, n], i) => html`${i ? ", " : ""}<a href="${view.href("log", "", { q: `type:${type}` })}">${type}</a> ${num(n)}`)}</p>
  ${kinds.map(kind => html`<h3>${KINDS[kind] ?? kind} <span class="mute">${num(count(kind))}</span></h3><div class="scroll"><table class="rows changes"><thead><tr><th>Name</th><th>What</th><th>Before ${off(d.from)}</th><th class="c"></th><th>After ${off(d.to)}</th></tr></thead>${d.changed.filter(e => e.kind === kind).map(e => entity(view, e))}</table></div>`)}
  ${d.more ? html`<p class="foot">${plural(d.more, "more thing")} not shown: bring A and B closer.</p>` : ""}`;
}

export function render(view) {
  const { a, b, open } = ends(view);
  const back = html`<span class="choice" role="group" aria-label="How far back A is">${BACK.map(n => html`<button data-do="param" data-name="from" data-value="${b === null ? "" : Math.max(0, b - n)}" aria-pressed="${b !== null && a === Math.max(0, b - n) ? "true" : "false"}">${num(n)} events</button>`)}<button data-do="param" data-name="from" data-value="0" aria-pressed="${a === 0 ? "true" : "false"}">all</button></span>`;
  const boxes = html`<label class="end">A <input class="short" type="text" inputmode="numeric" data-param="from" value="${view.route.params.from ?? ""}" placeholder="${a ?? ""}" aria-label="Offset A, before"></label><label class="end">B <input class="short" type="text" inputmode="numeric" data-param="to" value="${view.route.params.to ?? ""}" placeholder="${open ? "newest" : b ?? ""}" aria-label="Offset B, after"></label>`;
  const time = t => (t === null || t === undefined ? "before all" : `${day(t)} ${clock(t)}`);
  return html`<h1 class="hide">Diff</h1>${panel(view, { id: "diff", title: "Diff", need: "diff", tools: html`${boxes}${back}`, note: d => (d.changed ? `${time(d.from_time)} to ${time(d.to_time)} ${zoneName()}` : ""), empty: "The log is empty: there is nothing to compare." }, d => body(view, d))}`;
}
