/**
 * The live stream: server-sent events over fetch, resumed where they broke off.
 *
 * Why not EventSource: it hides the status of a refusal and when it will try again, and both are shown on the page.
 * States: `connecting`, `open`, `lost` (with `since`, `next`, `why`). A connection that says nothing for SILENCE_MS is
 * taken for dead (the service speaks every two seconds, whatever the nodes do).
 */

const SILENCE_MS = 6_000;
const FIRST_RETRY_MS = 500;
const LAST_RETRY_MS = 8_000;

export class Live {
  /** `heard(event, data, offset)` for each event, `changed()` when the state changes. */
  constructor(heard, changed) {
    Object.assign(this, { heard, changed, state: "connecting", since: Date.now(), next: null, why: "", last: null, tries: 0 });
  }

  start() { this.#connect(); }

  /** Now, without waiting for the next try. */
  retry() {
    clearTimeout(this.timer);
    if (this.state !== "open") this.#connect();
  }

  async #connect() {
    const ended = new AbortController();
    this.control?.abort();
    this.control = ended;
    this.#watch();
    try {
      const headers = this.last === null ? {} : { "Last-Event-ID": String(this.last) };
      const reply = await fetch("api/live", { signal: ended.signal, headers, cache: "no-store" });
      if (!reply.ok) throw new Error(`the service answered ${reply.status}`);
      await this.#read(reply.body.pipeThrough(new TextDecoderStream()).getReader());
      throw new Error("the service closed the stream");
    } catch (error) {
      if (this.control === ended) this.#lost(ended.signal.aborted ? "nothing was heard" : error.message);
    }
  }

  async #read(reader) {
    let rest = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      this.#watch();
      const blocks = (rest + value).replace(/\r\n/g, "\n").split("\n\n");
      rest = blocks.pop();
      for (const block of blocks) this.#block(block);
    }
  }

  #block(text) {
    let event = "message", data = "";
    for (const line of text.split("\n")) {
      const [, name, value] = /^(\w+): ?(.*)$/.exec(line) ?? [];
      if (name === "event") event = value;
      else if (name === "data") data += value;
      else if (name === "id" && /^\d+$/.test(value)) this.last = Number(value);
    }
    if (!data) return;
    if (this.state !== "open") this.#now("open", "");
    this.heard(event, JSON.parse(data));
  }

  #watch() {
    clearTimeout(this.silence);
    this.silence = setTimeout(() => this.control?.abort(), SILENCE_MS);
  }

  #now(state, why) {
    if (state !== this.state) this.since = Date.now();
    Object.assign(this, { state, why, tries: state === "open" ? 0 : this.tries + 1 });
    this.changed();
  }

  #lost(why) {
    clearTimeout(this.silence);
    const wait = Math.min(LAST_RETRY_MS, FIRST_RETRY_MS * 2 ** Math.min(this.tries, 6));
    this.next = Date.now() + wait;
    this.#now("lost", why);
    this.timer = setTimeout(() => this.#connect(), wait);
  }
}
