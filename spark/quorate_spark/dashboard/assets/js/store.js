/**
 * What the page knows: the answers on screen, the end of the log, the connection.
 *
 * Rules: an answer on screen is never blanked; it is replaced by a newer one or marked old. At a new offset all panels
 * change together, when the last of their answers is there. While the cursor moves on, only the latest offset is asked
 * for. Live, the stream's facts are laid over the answers they concern (patches.js), and only what cannot be patched is
 * asked again, each at its own pace.
 *
 * A need is `{path, query?, body?, live?, every?, poll?, alone?}`: `live` never asks for the past; `every` ms at least
 * between two questions (default 250); `poll` asks again after so many ms; `alone` does not wait for the others;
 * `slot`: until it is answered, the last answer of the same slot of the page stays on screen (under its own stamp).
 */
import { ask, Failure, setKey } from "./api.js";
import { Live } from "./live.js";
import { PATCHES, soften, streams } from "./patches.js";

const RETRY_MS = 3_000;
const REMEMBERED = 80;

class Entry {
  constructor(need) {
    Object.assign(this, { need, answer: null, at: undefined, error: null, errorSince: null, dirty: true, asked: 0, asking: false });
  }
  /** When must it be asked again for offset `at`? Infinity: not before something changes. */
  due(at) {
    const past = this.need.live ? null : at;
    if (this.asking) return Infinity;
    const failed = this.error && this.failedAt === past;
    if (failed && !(this.error.status > 0 && this.error.status < 500)) return this.asked + RETRY_MS;
    if (failed && past !== null) return Infinity; // What is refused of the past always is.
    if (!failed && this.at !== past) return 0;
    if (this.dirty) return this.asked + (this.need.every ?? 250);
    return past === null && this.need.poll ? this.asked + this.need.poll : Infinity;
  }
  /** Is its answer of now, or what failed? */
  get ofNow() { return this.at === null || (this.error !== null && this.failedAt === null); }
  take(answer, at) { Object.assign(this, { answer, at, error: null, errorSince: null }); }
  fail(error, at) { Object.assign(this, { error, failedAt: at, errorSince: this.errorSince ?? Date.now() }); }
}

export class Store {
  constructor(redraw) {
    Object.assign(this, { redraw, about: null, at: null, head: { offset: null, time: null, moved: 0 }, lag: null, skew: 0, heard: 0 });
    this.entries = new Map();
    this.wanted = new Map();
    this.slots = new Map();
    this.control = new AbortController();
    this.live = new Live((event, data) => this.#heard(event, data), redraw);
  }

  start() { this.live.start(); this.#about(); }

  /** Now, by the service's clock (a recorded log stands still at its end). */
  get now() {
    if (this.about?.mode === "recorded" && this.head.time !== null) return this.head.time;
    return Date.now() + this.skew;
  }

  /** What is on screen needs these (name to need) at this offset (null: now). */
  want(needs, at, page) {
    if (page !== this.page) { this.control.abort(); this.control = new AbortController(); this.page = page; this.slots.clear(); }
    this.at = at;
    this.wanted.clear();
    for (const [name, need] of Object.entries(needs)) {
      const entry = this.#entry(need), slot = need.slot && `${page} ${need.slot}`;
      if (slot && !entry.answer && this.slots.get(slot)?.answer) entry.stand = this.slots.get(slot);
      if (slot && entry.answer) this.slots.set(slot, entry);
      this.wanted.set(name, entry);
    }
    this.#pump();
  }

  /** The entry to show under a name; while a new question of the same slot is under way, the one before it. */
  need(name) {
    const entry = this.wanted.get(name);
    return entry && !entry.answer && entry.stand?.answer ? entry.stand : entry;
  }

  /** Is something on screen still of another offset, or not there yet? */
  get busy() {
    return (!this.about && !this.refused) || [...this.wanted.values()].some(e => !e.need.alone && (e.answer ? e.at !== (e.need.live ? null : this.at) && !e.error : !e.error));
  }

  /** Where the log ends, when the page's offset is said to lie beyond it; else null. */
  get beyond() {
    for (const { error, failedAt } of this.wanted.values()) if (error?.code === "beyond_end" && failedAt === this.at) return error.end;
    return null;
  }

  /** Ask at once for whatever failed, and connect. */
  retry() {
    for (const entry of this.entries.values()) if (entry.error) Object.assign(entry, { asked: 0, failedAt: undefined, dirty: true });
    this.live.retry();
    if (!this.about) this.#about();
    this.#pump();
  }

  /** One question at a time; after a failure the next one when its time has come, or somebody presses the button. */
  async #about() {
    if (this.asksAbout) return;
    this.asksAbout = true;
    clearTimeout(this.again);
    try {
      this.about = (await ask({ path: "about" }, null)).data;
      setKey(this.about.key);
      this.refused = null;
      if (this.head.offset === null) this.#moved(this.about.end_offset, this.about.last_time ?? null);
    } catch (error) {
      this.refused = error;
      this.again = setTimeout(() => this.#about(), RETRY_MS);
    }
    this.asksAbout = false;
    this.redraw();
  }

  #entry(need) {
    const id = JSON.stringify([need.path, need.query, need.body]);
    let entry = this.entries.get(id);
    if (entry) this.entries.delete(id);
    else entry = new Entry(need);
    this.entries.set(id, entry);
    if (this.entries.size > REMEMBERED) {
      const used = new Set(this.wanted.values());
      for (const [old, e] of this.entries) if (e !== entry && !used.has(e)) { this.entries.delete(old); break; }
    }
    return entry;
  }

  #pump() {
    clearTimeout(this.timer);
    const at = this.at, now = Date.now(), all = [...this.wanted.values()];
    for (const entry of all) if (entry.need.alone && entry.due(at) <= now) this.#alone(entry, at);
    if (!this.together) {
      const due = all.filter(e => !e.need.alone && e.due(at) <= now);
      if (due.length) this.#together(due, at);
    }
    const next = Math.min(...all.map(e => e.due(at)));
    if (next < Infinity) this.timer = setTimeout(() => this.#pump(), Math.max(30, next - Date.now()));
  }

  async #alone(entry, at) {
    await this.#asked(entry, at, answer => { entry.take(answer, entry.need.live ? null : at); });
    this.redraw();
    this.#pump();
  }

  async #together(due, at) {
    this.together = true;
    const swaps = [];
    await Promise.all(due.map(entry => this.#asked(entry, at, answer => {
      const past = entry.need.live ? null : at;
      if (entry.answer && entry.at !== past) swaps.push(() => entry.take(answer, past));
      else { entry.take(answer, past); this.redraw(); }
    })));
    for (const swap of swaps) swap();
    this.together = false;
    this.redraw();
    this.#pump();
  }

  async #asked(entry, at, taken) {
    Object.assign(entry, { asking: true, dirty: false, asked: Date.now() });
    const signal = this.control.signal;
    try {
      const answer = await ask(entry.need, at, signal), past = entry.need.live ? null : at;
      taken(answer);
      if (past === null && answer.source === "fold" && answer.offset < this.head.offset) entry.dirty = true; // Facts overtook it.
    } catch (error) {
      if (signal.aborted) { entry.dirty = true; entry.asked = 0; return; }
      entry.fail(error instanceof Failure ? error : new Failure(0, "broken", String(error), entry.need.path), entry.need.live ? null : at);
    } finally {
      entry.asking = false;
    }
  }

  #moved(offset, time) {
    if (this.head.offset !== null && offset <= this.head.offset) return;
    this.head = { offset, time: time ?? this.head.time, moved: Date.now() };
  }

  #heard(event, data) {
    this.heard = Date.now();
    if (data.now) this.skew = data.now - Date.now();
    if (event === "hello" && this.key && data.key !== this.key) return location.reload();
    if (event === "hello") this.#hello(data);
    else if (event === "facts") this.#facts(data);
    else if (event === "soft") for (const entry of this.#shownLive()) soften(entry, data);
    else if (event === "lag") this.#lagged(data);
    else if (event === "resync") this.#dirty();
    return this.redraw();
  }

  /** The stream begins, perhaps again: what is older than its beginning has missed facts, which may not be sent. */
  #hello(data) {
    this.key = data.key;
    this.#moved(data.offset, data.time);
    this.head.time ??= data.time;
    for (const entry of this.entries.values()) if (entry.ofNow && (entry.error || entry.answer.offset < data.offset)) entry.dirty = true;
    this.#pump();
  }

  #facts(data) {
    this.#moved(data.offset, data.time);
    if (!this.refused && !this.about?.end_offset && !this.about?.first_time) this.#about();
    for (const entry of this.wanted.values()) {
      if (entry.error?.code === "beyond_end" && this.head.offset >= entry.failedAt) entry.error = null;
      if (entry.at !== null || !entry.answer) { if (entry.need.live || this.at === null) entry.dirty = true; continue; }
      if (entry.answer.offset >= data.offset) continue; // It reflects these already.
      const patched = PATCHES[entry.need.path]?.(entry, data);
      if (!patched) entry.dirty = true;
    }
    for (const entry of this.entries.values()) if (entry.ofNow && ![...this.wanted.values()].includes(entry)) entry.dirty = true;
    this.#pump();
  }

  #lagged(data) {
    this.lag = data;
    for (const entry of this.#shownLive()) if (entry.need.path === "streams") streams(entry, data);
  }

  #shownLive() { return [...this.wanted.values()].filter(e => e.at === null && e.answer); }

  #dirty() {
    for (const entry of this.entries.values()) entry.dirty = true;
    this.#pump();
  }
}
