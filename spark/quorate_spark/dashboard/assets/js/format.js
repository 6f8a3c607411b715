/** Numbers, times, spans and bytes as text. Times are epoch milliseconds; the zone is UTC until the reader asks for his own. */

let local = false;
export const useLocalTime = yes => { local = yes; };
export const zoneName = () => (local ? "local time" : "UTC");

const two = n => String(n).padStart(2, "0");
const parts = t => {
  const d = new Date(t);
  return local
    ? [d.getFullYear(), d.getMonth() + 1, d.getDate(), d.getHours(), d.getMinutes(), d.getSeconds(), d.getMilliseconds()]
    : [d.getUTCFullYear(), d.getUTCMonth() + 1, d.getUTCDate(), d.getUTCHours(), d.getUTCMinutes(), d.getUTCSeconds(), d.getUTCMilliseconds()];
};

const grouped = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
export const num = n => grouped.format(n);
/** `@3,086`: a place in the log. */
export const off = n => `@${num(n)}`;
/** `04:05:41`, with milliseconds when asked. */
export function clock(t, millis = false) {
  const [, , , h, m, s, ms] = parts(t);
  return `${two(h)}:${two(m)}:${two(s)}${millis ? "." + String(ms).padStart(3, "0") : ""}`;
}
export const hours = t => clock(t).slice(0, 5);
export function day(t) {
  const [y, m, d] = parts(t);
  return `${y}-${two(m)}-${two(d)}`;
}
/** `04:05:41` on the day of `now`, with the date otherwise. */
export const moment = (t, now) => (day(t) === day(now) ? clock(t) : `${day(t)} ${clock(t)}`);

/** `17 ms`, `9.2 s`, `48 s`, `3 min 05 s`, `14 min`, `2 h 14 min`, `3 d 4 h`: as `quorate.model.words.span` says it. */
export function span(ms) {
  const n = Math.max(0, Math.round(ms)), s = Math.round(n / 1000), m = Math.floor(s / 60), h = Math.floor(s / 3600);
  if (n < 9950) return n < 1000 ? `${n} ms` : `${(Math.round(n / 100) / 10).toFixed(1)} s`;
  if (m < 10) return m ? `${m} min ${two(s % 60)} s` : `${s} s`;
  if (h < 48) return h ? `${h} h ${two(m % 60)} min` : `${m} min`;
  return `${Math.floor(h / 24)} d ${h % 24} h`;
}
/** Whole seconds at least, for ages that tick. */
export const age = ms => (ms < 10_000 ? `${Math.max(1, Math.floor(ms / 1000))} s` : span(ms));
export const millis = n => `${n < 10 && n % 1 ? n.toFixed(1) : num(n)} ms`;

export function bytes(n) {
  for (const [unit, size] of [["TiB", 2 ** 40], ["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]]) {
    if (Math.abs(n) >= size) return `${(n / size).toFixed(n / size < 10 ? 2 : 1)} ${unit}`;
  }
  return `${num(n)} B`;
}
export const plural = (n, one, many = one + "s") => `${num(n)} ${n === 1 ? one : many}`;
export const listed = words => (words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} and ${words.at(-1)}`);
export const ids = numbers => `{${numbers.join(", ")}}`;
