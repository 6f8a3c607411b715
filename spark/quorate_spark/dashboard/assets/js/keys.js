/** The keyboard: every move has a key, and no key works while somebody types. */
import { html } from "./html.js";
import { glyph, STATUS } from "./icons.js";
import { walk } from "./map.js";

const rows = () => [...document.querySelectorAll("main tr[data-href], main a.row")];

function move(way) {
  const all = rows(), i = all.indexOf(document.activeElement);
  all[i < 0 ? (way > 0 ? 0 : all.length - 1) : Math.max(0, Math.min(all.length - 1, i + way))]?.focus();
}

/** Listen on the document; `acts` are the page's moves. */
export function bindKeys(acts) {
  let chord = false;
  const find = () => {
    const box = acts.$("main [data-param]");
    if (box) { box.focus(); box.select(); }
    else { acts.go("sets"); requestAnimationFrame(() => requestAnimationFrame(() => acts.$("main [data-param]")?.focus())); }
  };
  const keys = {
    "/": find, "?": acts.help, d: acts.theme, u: acts.zone, c: acts.permalink, j: () => move(1), k: () => move(-1),
    "[": () => acts.step("event", -1), "]": () => acts.step("event", 1), "{": () => acts.step("election", -1), "}": () => acts.step("election", 1),
    Escape: () => acts.live(), g: () => { chord = true; },
  };
  document.addEventListener("keydown", event => {
    if (event.defaultPrevented || event.metaKey || event.ctrlKey || event.altKey) return;
    const { target, key } = event;
    if (target.matches("input, select, textarea")) { if (key === "Escape") target.blur(); return; }
    if (acts.$("#help").open) return;
    if (walk(event)) return event.preventDefault();
    if (chord) {
      chord = false;
      const page = acts.nav.find(n => n[2] === key);
      if (page) { acts.go(page[0]); return event.preventDefault(); }
    }
    if (key === " " && !target.matches("button, a, summary")) acts.play();
    else if (key === "Enter" && target.matches("tr[data-href]")) location.hash = target.dataset.href;
    else if (Object.hasOwn(keys, key)) keys[key]();
    else return;
    event.preventDefault();
  });
}

const line = (keys, does) => html`<tr><td>${keys.split(" ").map(k => html`<kbd>${k}</kbd> `)}</td><td>${does}</td></tr>`;

export const helpText = nav => html`<header><h2>Keys</h2><button data-do="close">Close</button></header>
  <div class="columns"><table><tbody>${nav.map(([, name, key]) => line(`g ${key}`, name))}${line("/", "filter, or find a set")}${line("j k", "next, previous row")}${line("Enter", "open")}</tbody></table>
  <table><tbody>${line("[ ]", "one event back, forward")}${line("{ }", "previous, next election")}${line("Space", "play or pause")}${line("Esc", "back to live")}${line("c", "copy a link to this offset")}${line("u", "UTC or local time")}${line("d", "light or dark")}${line("?", "this")}${line("← → ↑ ↓", "move in the map, pan the timeline")}${line("+ − 0", "zoom the timeline, show all")}</tbody></table></div>
  <div class="key-legend">${Object.entries(STATUS).map(([k, name]) => html`<span>${glyph(`s-${k}`, `${k}-c`)} ${name}</span>`)}<span>${glyph("s-differs", "differs-c")} has not taken the epoch yet</span></div>`;
