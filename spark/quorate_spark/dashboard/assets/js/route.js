/**
 * The address: `#/page/key?at=N&q=…&sel=…&fail=…&unclean=1`. All of the page's state that a colleague should see is in it.
 *
 * `at` is an offset as the service means it: the events before it are reflected. Without `at` the page is live.
 */

const decoded = text => { try { return decodeURIComponent(text); } catch { return text; } };

/** `{hash, page, key, at, params}`; `at` is null when live or not a whole number, `params` holds everything else. */
export function parse(hash) {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const [page, ...rest] = path.split("/");
  const params = Object.fromEntries(new URLSearchParams(query));
  const at = /^\d+$/.test(params.at ?? "") ? Number(params.at) : null;
  delete params.at;
  return { hash, page: page || "now", key: decoded(rest.join("/")), at, params };
}

/** The address of a page; empty and null parameters are left out, commas, slashes and colons stay readable. */
export function format(page, key = "", at = null, params = {}) {
  const query = new URLSearchParams();
  if (at !== null) query.set("at", at);
  for (const [name, value] of Object.entries(params)) if (value !== null && value !== undefined && value !== "") query.set(name, value);
  const text = query.toString().replace(/%2C/g, ",").replace(/%2F/g, "/").replace(/%3A/g, ":");
  return `#/${page}${key === "" ? "" : "/" + encodeURIComponent(key)}${text ? "?" + text : ""}`;
}
