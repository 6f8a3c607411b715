/**
 * Facts laid over answers: how the stream's news becomes the next answer without asking.
 *
 * A patch takes an entry with a live answer and the `facts`, which follow on all before `facts.since`; it answers true
 * when the entry now reflects `facts.offset`, false when it must be asked again. Sets that were not touched keep their
 * object, so that the map redraws only the tiles of those that were.
 */

const next = (entry, facts, data) => {
  entry.answer = { ...entry.answer, offset: facts.offset, time: facts.time ?? entry.answer.time, age_ms: 0, received: Date.now(), data };
  return true;
};
/** Has the entry all that came before these facts? Some may have been skipped (`resync`). */
const follows = (entry, facts) => entry.answer.offset >= facts.since;
const whole = entry => !Object.keys(entry.need.query ?? {}).length;

function health(entry, facts) {
  if (!facts.health || !follows(entry, facts)) return false;
  return next(entry, facts, { status: entry.answer.data.status, ...facts.health });
}

function quorum(entry, facts) {
  if (!facts.quorum || !follows(entry, facts)) return false;
  const live = new Map(entry.answer.data.nodes.map(n => [n.id, n.live]));
  return next(entry, facts, { ...facts.quorum, nodes: facts.quorum.nodes.map(n => ({ ...n, live: live.get(n.id) })) });
}

function sets(entry, facts) {
  if (!facts.sets || !follows(entry, facts)) return false;
  const names = entry.need.query?.name?.split(",");
  if (!names && !whole(entry)) return false;
  const old = entry.answer.data, by = new Map(old.sets.map(s => [s.name, s]));
  for (const set of facts.sets) {
    if (names && !names.includes(set.name)) continue;
    const live = new Map((by.get(set.name)?.members ?? []).map(m => [m.id, m.live]));
    by.set(set.name, { ...set, members: set.members.map(m => ({ ...m, live: m.live ?? live.get(m.id) })) });
  }
  for (const name of facts.removed ?? []) by.delete(name);
  const list = [...by.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
  return next(entry, facts, { ...old, sets: list, removed: [], total: names ? old.total : list.length });
}

function log(entry, facts) {
  const { q, before: end, offset, limit = 100 } = entry.need.query ?? {};
  if (q || end !== undefined || offset !== undefined || !facts.events || !follows(entry, facts)) return false;
  const old = entry.answer.data, newest = old.events[0]?.offset ?? -1;
  const fresh = facts.events.filter(e => e.offset > newest).sort((a, b) => b.offset - a.offset);
  const types = old.types && { ...old.types };
  if (types) for (const e of fresh) types[e.type] = (types[e.type] ?? 0) + 1;
  const events = [...fresh, ...old.events].slice(0, limit);
  return next(entry, facts, { ...old, events, next: events.length === Number(limit) ? events.at(-1).offset : old.next, types, matched: old.matched === null ? null : old.matched + fresh.length });
}

/** Facts that do not touch what an entry shows leave it as it is, only newer; the others have it asked again. */
const untouched = touches => (entry, facts) => {
  if (!facts.events || !follows(entry, facts) || facts.events.some(e => touches(e, entry.need.query ?? {}))) return false;
  return next(entry, facts, entry.answer.data);
};
const keys = untouched((e, q) => e.key.startsWith(`key/${q.prefix ?? ""}`));
const key = untouched((e, q) => e.key === `key/${q.name}`);
const leases = untouched(e => e.key.startsWith("lease/") || e.key.startsWith("key/"));

const members = untouched(e => e.key.startsWith("member/") || e.key.startsWith("broker-set/"));
const member = untouched((e, q) => e.key === `member/${q.name}` || (q.name.includes(":") && e.key === `broker-set/${q.name.slice(0, q.name.lastIndexOf(":"))}`));

const held = e => /^(shard|segment|member)\//.test(e.key);
const shards = untouched(held), shard = untouched(held);
const sessions = untouched(e => /^(session|session-owner|will|member)\//.test(e.key));
const session = untouched((e, q) => e.key === `session/${q.client}` || /^(session-owner|member)\//.test(e.key));

export const PATCHES = { health, quorum, sets, members, member, shards, shard, sessions, session, keys, key, leases, log };

/** The streams' state comes with the stream itself, every second. */
export function streams(entry, lag) {
  if (lag.streams) entry.answer = { ...entry.answer, offset: lag.offset, age_ms: lag.age_ms, received: Date.now(), data: { ...entry.answer.data, end_offset: lag.end_offset, streams: lag.streams } };
}

/** Soft state: what heartbeats and nodes said this second; laid over the facts, never part of them. Null: nobody tells. */
export function soften(entry, soft) {
  const data = entry.answer.data;
  if (entry.need.path === "quorum" && soft.nodes) {
    const nodes = data.nodes.map(n => ({ ...n, live: soft.nodes[n.id] ?? n.live }));
    entry.answer = { ...entry.answer, data: { ...data, nodes } };
  } else if (entry.need.path === "sets" && soft.members !== undefined) {
    const list = data.sets.map(s => {
      const told = soft.members ? soft.members[s.name] : s.members.some(m => m.live) && {};
      return told ? { ...s, members: s.members.map(m => ({ ...m, live: told[m.id] })) } : s;
    });
    entry.answer = { ...entry.answer, data: { ...data, sets: list } };
  } else if (entry.need.path === "health" && soft.health && soft.offset === entry.answer.offset) {
    entry.answer = { ...entry.answer, data: soft.health };
  }
}
