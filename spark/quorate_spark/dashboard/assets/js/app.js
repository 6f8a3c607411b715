/**
 * The page: address → needs → answers → markup. Everything shown is a function of (log, offset, clock, address).
 *
 * One view value is made per drawing and given to the page's functions: `needs(view)` says what to ask, `render(view)`
 * makes markup of it, `mounted(view, main)` (if any) draws what is not markup. Nothing else touches the document.
 */
import { ask } from "./api.js";
import { bindDock, dockNeeds, drawDock, timeOf } from "./dock.js";
import { age, clock, day, moment, num, off, plural, span, useLocalTime, zoneName } from "./format.js";
import { html, morph } from "./html.js";
import { glyph } from "./icons.js";
import { bindKeys, helpText } from "./keys.js";
import * as diff from "./pages/diff.js";
import * as election from "./pages/election.js";
import * as elections from "./pages/elections.js";
import * as journal from "./pages/journal.js";
import * as key from "./pages/key.js";
import * as keys from "./pages/keys.js";
import * as log from "./pages/log.js";
import * as member from "./pages/member.js";
import * as members from "./pages/members.js";
import * as now from "./pages/now.js";
import * as session from "./pages/session.js";
import * as sessions from "./pages/sessions.js";
import * as set from "./pages/set.js";
import * as sets from "./pages/sets.js";
import * as shard from "./pages/shard.js";
import * as streams from "./pages/streams.js";
import * as timeline from "./pages/timeline.js";
import * as whatif from "./pages/whatif.js";
import { format, parse } from "./route.js";
import { Store } from "./store.js";

/** Of nobody's prototype: an address may say `constructor`. */
const PAGES = { __proto__: null, now, timeline, elections, election, sets, set, members, member, journal, shard, sessions, session, keys, key, log, whatif, diff, streams };
export const NAV = [["now", "Now", "n"], ["timeline", "Timeline", "t"], ["elections", "Elections", "e"], ["sets", "Broker sets", "s"], ["members", "Members", "m"], ["journal", "Journal", "j"], ["sessions", "Sessions", "c"], ["keys", "Keys", "k"], ["log", "Log", "l"], ["whatif", "What if", "w"], ["diff", "Diff", "d"], ["streams", "Streams", "r"]];
const PARENT = { __proto__: null, election: "elections", set: "sets", key: "keys", member: "members", shard: "journal", session: "sessions" };
const PLAY_MS = 200;
/** So many events unread, or so long, and the page calls itself behind. */
const LAG_EVENTS = 50;
const LAG_MS = 5_000;

const $ = selector => document.querySelector(selector);
const store = new Store(() => draw());
const ui = { playing: false };
let route = parse(location.hash), queued = false, view = null;

// ── view ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Time of the page's offset: from whichever answer for it is there, else from the time bar. */
function pageTime() {
  if (route.at === null) return store.now;
  if (route.at === 0) return null;
  for (const entry of store.wanted.values()) if (entry.at === route.at && entry.answer.offset === route.at && entry.answer.time) return entry.answer.time;
  const density = store.need("density")?.answer?.data;
  return density?.ends?.length ? timeOf(density, route.at) : null;
}

function makeView() {
  const live = route.at === null, t = store.head.offset === null && live ? null : pageTime();
  const held = [...store.wanted.values()].filter(e => !e.need.live && e.answer && e.need.path !== "whatif").map(e => e.answer.offset);
  return {
    route, live, at: route.at, t, now: store.now, head: store.head, lag: store.lag, about: store.about, playing: ui.playing,
    recorded: store.about?.mode === "recorded", nodes: store.about?.mode === "nodes",
    offset: live ? (held.length ? Math.min(...held) : store.head.offset) : route.at,
    connection: { state: store.live.state, since: store.live.since, next: store.live.next, why: store.live.why, heard: store.heard },
    width: document.documentElement.clientWidth, wide: innerWidth >= 900,
    need: name => store.need(name),
    data: name => store.need(name)?.answer?.data ?? null,
    href: (page, key = "", params = {}) => format(page, key, route.at, params),
    here: params => format(route.page, route.key, route.at, { ...route.params, ...params }),
    seek, toast,
    moment: time => moment(time, store.now),
    since: time => (t === null ? "" : span(t - time)),
  };
}

export function draw() {
  if (queued) return;
  queued = true;
  requestAnimationFrame(() => { queued = false; render(); });
}

function render() {
  const page = PAGES[route.page] ?? null;
  view = makeView();
  const needs = { ...dockNeeds(view), ...(page?.needs(view) ?? {}) };
  store.want(needs, route.at, `${route.page}/${route.key}`);
  view = makeView();
  view.range = page?.range?.(view) ?? null;
  const root = document.documentElement, top = PARENT[route.page] ?? route.page;
  root.dataset.when = view.live ? "live" : "past";
  root.dataset.connection = view.connection.state;
  morph($("#brand"), html`${glyph("m-master")}Quorate <span title="cluster id">${store.about?.cluster_id ?? ""}</span>`);
  morph($("#nav"), html`${NAV.map(([id, name, key]) => html`<a href="${view.href(id)}" ${id === top ? html`aria-current="page"` : ""} title="g ${key}">${name}${id === "streams" ? troubled() : ""}</a>`)}`);
  morph($("#stream"), chip());
  morph($("#banner"), banner());
  document.title = `${view.live ? "" : off(view.at) + " "}${NAV.find(n => n[0] === top)?.[1] ?? "Not found"} · Quorate`;
  const main = $("#main");
  main.dataset.page = route.page;
  main.dataset.address = route.hash;  // not location.hash, which may be the next one already
  main.setAttribute("aria-busy", store.busy ? "true" : "false");
  morph(main, page ? page.render(view) : html`<p class="empty whole"><span class="big">There is no page “${route.page}”.</span><a href="${view.href("now")}">Now</a> is where to begin.</p>`);
  page?.mounted?.(view, main);
  drawDock(view, $("#dock"));
}

function troubled() {
  const down = (store.lag?.streams ?? []).filter(s => s.state === "down" || s.state === "refused");
  return down.length ? html` ${glyph("s-shrunk", "shrunk-c", `${plural(down.length, "stream")} down`)}` : "";
}

const behind = () => {
  const { lag } = store;
  if (!lag || view.recorded || view.connection.state !== "open") return null;
  return lag.behind > LAG_EVENTS || lag.age_ms > LAG_MS || ["connecting", "catching up", "refused"].includes(lag.state) ? lag : null;
};

function chip() {
  const { connection, head } = view;
  if (connection.state === "lost") return html`<span class="chip bad">disconnected <b>${age(Date.now() - Math.max(connection.since, store.heard))}</b></span>`;
  if (head.offset === null) return html`<span class="chip">connecting…</span>`;
  const lag = behind();
  if (lag) return html`<span class="chip warn">behind${lag.behind ? html` by <b>${num(lag.behind)}</b>` : ""}</span>`;
  const where = view.recorded ? "recorded" : view.live ? "live" : "log end";
  return html`<span class="chip ${view.live && !view.recorded ? "ok" : ""}">${where} <b>${head.offset === 0 ? "no events" : off(head.offset)}</b></span>`;
}

function banner() {
  const { connection, head } = view;
  if (store.beyond !== null && !view.live) return html`<p class="late"><strong>Offset ${num(view.at)} is not written yet.</strong> The log ends at ${num(store.beyond)}. <button class="plain" data-do="live">Show the newest</button></p>`;
  if (connection.state === "lost") {
    const http = view.about?.nodes?.[0]?.http, left = Math.max(0, Math.ceil((connection.next - Date.now()) / 1000));
    return html`<p class="bad"><strong>Connection lost${store.heard ? ` ${age(Date.now() - store.heard)} ago` : ""}.</strong> ${head.offset === null ? "Nothing was read yet." : html`What you see is offset ${num(view.offset ?? head.offset)}${view.live ? ", and it may be wrong by now" : ""}.`} Next try ${left ? `in ${left} s` : "now"}. <button class="plain" data-do="retry">Try now</button>${http ? html` or ask a node: <code>quorate status --node ${http}</code>` : ""}</p>`;
  }
  const lag = behind();
  if (lag && view.live) return html`<p class="late"><strong>The page is behind the log${lag.age_ms > 1000 ? ` by ${span(lag.age_ms)}` : ""}.</strong> It shows offset ${num(lag.offset)} of ${num(lag.end_offset ?? lag.offset)}${lag.behind ? `; ${plural(lag.behind, "event")} wait` : ""}. ${lag.state === "following" ? "" : `The service is ${lag.state}${lag.message ? `: ${lag.message}` : ""}. `}<a href="${view.href("streams")}">Streams</a></p>`;
  if (!view.live && head.offset !== null) return html`<p class="past"><strong>${view.t === null ? "Before the first event." : `${view.moment(view.t)} ${zoneName()}, ${span(view.now - view.t)} ago.`}</strong> Everything on this page is as of offset ${num(view.at)} of ${num(head.offset)}. <button class="plain" data-do="live">Back to live</button> <kbd>Esc</kbd></p>`;
  return "";
}

// ── moving ────────────────────────────────────────────────────────────────────────────────────────────────────────────

function go(address, { replace = false } = {}) {
  if (replace) { history.replaceState(null, "", address); navigated(); }
  else { location.hash = address; navigated(); }  // now, not with the event: a next move begins from here
}

function navigated() {
  const before = route;
  if (location.hash === before.hash) return;
  route = parse(location.hash);
  if (route.page !== before.page || route.key !== before.key) scrollTo(0, 0);
  PAGES[route.page]?.entered?.(route, before);
  draw();
}

/** Move every panel to an offset; null is live. */
function seek(offset, { replace = true } = {}) {
  const end = store.head.offset, at = offset === null || (end !== null && offset >= end) ? null : Math.max(0, offset);
  if (at !== route.at) go(format(route.page, route.key, at, route.params), { replace });
}

async function step(kind, way) {
  const here = route.at ?? store.head.offset;
  if (here === null) return;
  if (kind === "event") return seek(here + way);
  const query = way < 0 ? { before: Math.max(0, here - 1), limit: 1 } : { after: Math.max(0, here - 1), limit: 1 };
  try {
    const [found] = (await ask({ path: "elections", query }, null)).data.elections;
    if (found) seek(found.offset + 1);
    else if (way > 0) seek(null);
    else toast("No election before this offset");
  } catch (error) { toast(error.message); }
}

async function play() {
  ui.playing = !ui.playing;
  if (ui.playing && route.at === null) seek(Math.max(0, (store.head.offset ?? 0) - 100));
  draw();
  while (ui.playing) {
    await new Promise(done => setTimeout(done, PLAY_MS));
    if (!ui.playing || store.together) continue;
    if (route.at === null || route.at + 1 >= store.head.offset) { ui.playing = false; seek(null); }
    else seek(route.at + 1);
    draw();
  }
}

// ── acting ────────────────────────────────────────────────────────────────────────────────────────────────────────────

function toast(text) {
  const el = $("#toast");
  el.textContent = text;
  el.classList.add("on");
  clearTimeout(toast.timer);
  toast.timer = setTimeout(() => el.classList.remove("on"), 1800);
}

async function copy(text, said) {
  try { await navigator.clipboard.writeText(text); toast(said); }
  catch { toast("The browser refused to copy"); }
}

const remembered = name => { try { return localStorage.getItem(name); } catch { return null; } };
const remember = (name, value) => { try { localStorage.setItem(name, value); } catch { /* a private window */ } };

function theme() {
  const root = document.documentElement, dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  remember("theme", root.dataset.theme);
}

function zone(to = remembered("zone") === "local" ? "utc" : "local") {
  remember("zone", to);
  useLocalTime(to === "local");
  $("#zone").textContent = to === "local" ? "local" : "UTC";
  draw();
}

function permalink() {
  const offset = view.offset;
  if (offset === null) return;
  copy(location.href.split("#")[0] + format(route.page, route.key, offset, route.params), `Link to offset ${num(offset)} copied`);
}

function help() {
  const dialog = $("#help");
  if (dialog.open) return dialog.close();
  morph(dialog, helpText(NAV));
  dialog.showModal();
}

const ACTS = {
  live: () => { ui.playing = false; seek(null, { replace: false }); },
  play, retry: () => store.retry(), theme, zone: () => zone(), help, link: permalink,
  close: () => $("#help").close(), skip: () => $("#main").focus(),
  copy: el => copy(el.dataset.copy, "Copied"),
  seek: el => seek(Number(el.dataset.to), { replace: false }),
  param: el => go(view.here({ start: null, [el.dataset.name]: el.type === "checkbox" ? (el.checked ? el.dataset.value : null) : el.dataset.value })),
};

function bind() {
  document.addEventListener("click", event => {
    const el = event.target.closest("[data-do]");
    if (el) {
      const act = ACTS[el.dataset.do] ?? PAGES[route.page]?.acts?.[el.dataset.do];
      if (act) { if (el.type !== "checkbox") event.preventDefault(); act(el, makeView(), go); }
      return;
    }
    const row = event.target.closest("tr[data-href]");
    if (row && !event.target.closest("a, button")) go(row.dataset.href);
  });
  document.addEventListener("input", event => {
    const name = event.target.dataset.param;
    if (name) go(view.here({ [name]: event.target.value, sel: null, start: null }), { replace: true });
  });
  document.addEventListener("change", event => {
    const name = event.target.dataset.pick;
    if (name) go(view.here({ [name]: event.target.value }));
  });
  document.addEventListener("scroll", event => { if (event.target.classList?.contains("list")) draw(); }, true);
  addEventListener("hashchange", navigated);
  addEventListener("resize", draw);
  bindDock($("#dock"), { seek, step });
  bindKeys({ go: page => go(view.href(page)), nav: NAV, seek, step, play, theme, zone: () => zone(), help, permalink, live: ACTS.live, $ });
}

const savedTheme = remembered("theme");
if (savedTheme === "light" || savedTheme === "dark") document.documentElement.dataset.theme = savedTheme;
zone(remembered("zone") === "local" ? "local" : "utc");
bind();
store.start();
render();
document.fonts?.ready.then(draw);
setInterval(() => { if (!document.hidden) draw(); }, 1000);
document.addEventListener("visibilitychange", () => { if (!document.hidden) draw(); });
