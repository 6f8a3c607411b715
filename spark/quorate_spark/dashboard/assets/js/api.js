/**
 * One question to the service, one answer or one typed failure.
 *
 * An answer is `{offset, time, node, source, batch, age_ms, data}` plus `received` (browser clock). Answers about the past
 * never change, so they are kept and asked for once. Every question has a deadline.
 */

const DEADLINE_MS = 10_000;
const KEPT = 400;
/** And so many characters: a state of 2,000 sets has two million. */
const KEPT_CHARS = 32 << 20;
const kept = new Map();
let held = 0;
let key = null;

/** Which log this is (`about.key`): said with every question about the past, so that browsers may keep its answer for good. */
export const setKey = known => { key = known; };

export class Failure extends Error {
  /** `status` 0: nothing answered. `code` as in the service's errors; `where` the path that was asked. */
  constructor(status, code, message, where, end = null) {
    super(message);
    Object.assign(this, { status, code, where, end });
  }
  get text() { return `${this.status || "no answer"} ${this.code} ${this.where}: ${this.message}`; }
}

const address = (path, query, at) => {
  const text = new URLSearchParams(Object.entries(query ?? {}).filter(([, v]) => v !== null && v !== undefined && v !== ""));
  if (at !== null) text.set("at", at);
  if (at !== null && key) text.set("key", key);
  return `api/${path}${text.size ? "?" + text : ""}`;
};

/** Ask; `need` is `{path, query?, body?, live?}`, `at` null for now. Raises Failure, or AbortError when `signal` fires. */
export async function ask(need, at, signal) {
  const past = need.live || at === null ? null : at;
  const where = address(need.path, need.query, need.body ? null : past);
  const id = need.body ? `${where} ${JSON.stringify(need.body)}` : where;
  const fixed = past !== null && need.source !== "node";
  if (fixed && kept.has(id)) return kept.get(id).answer;
  const found = await once(where, need.body, signal);
  if (fixed) keep(id, found);
  return found.answer;
}

function keep(id, found) {
  held += found.size - (kept.get(id)?.size ?? 0);
  kept.set(id, found);
  for (const [oldest, { size }] of kept) {
    if (kept.size <= KEPT && held <= KEPT_CHARS) break;
    kept.delete(oldest);
    held -= size;
  }
}

async function once(where, body, signal) {
  const limit = AbortSignal.timeout(DEADLINE_MS);
  const post = body ? { method: "POST", body: JSON.stringify(body), headers: { "content-type": "application/json" } } : {};
  let reply, answer, size;
  try {
    reply = await fetch(where, { ...post, signal: signal ? AbortSignal.any([signal, limit]) : limit });
    const text = await reply.text();
    size = text.length;
    answer = JSON.parse(text);
  } catch (error) {
    if (signal?.aborted) throw error;
    if (reply) throw new Failure(reply.status, "unreadable", "the answer was not JSON", where);
    throw new Failure(0, limit.aborted ? "deadline" : "unreachable", limit.aborted ? `nothing within ${DEADLINE_MS / 1000} s` : "the dashboard service cannot be reached", where);
  }
  if (reply.ok) return { answer: { ...answer, received: Date.now() }, size };
  const { code = "error", message = reply.statusText, end_offset: end = null } = answer.error ?? {};
  throw new Failure(reply.status, code, message, where, end);
}
