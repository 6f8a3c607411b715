/** Values, which are any bytes: as text where they are text, else in hexadecimal; or as the reader wants them. */
import { bytes } from "./format.js";
import { html } from "./html.js";

const FORMATS = [["text", "Text"], ["hex", "Hex"], ["base64", "Base64"]];
/** Said wherever values are shown. */
export const PUBLIC = "A stored value is public: whoever reads the log reads it.";

const hex = base64 => Array.from(atob(base64), c => c.charCodeAt(0).toString(16).padStart(2, "0")).join(" ");
const format = view => view.route.params.as ?? "text";

/** A value in the format that the address names; what is no text is told in hexadecimal. */
export function valueText(view, value) {
  const as = format(view);
  if (as === "base64") return value.base64;
  return as === "hex" || value.text === null ? hex(value.base64) : value.text;
}

/** The same in one line of a table. */
export function valueLine(view, value) {
  if (value === null) return "";
  if (!value.size) return html`<span class="mute">empty</span>`;
  return html`${format(view) === "text" && value.text === null ? html`<span class="mute">hex</span> ` : ""}${valueText(view, value)}${value.cut ? "…" : ""}`;
}

export const formatChoice = view => html`<span class="choice" role="group" aria-label="How values are shown">${FORMATS.map(([id, name]) => html`<button data-do="param" data-name="as" data-value="${id === "text" ? "" : id}" aria-pressed="${format(view) === id ? "true" : "false"}">${name}</button>`)}</span>`;
export const keepFormat = view => ({ as: view.route.params.as });
export const cutNote = value => (value.cut ? `The beginning of ${bytes(value.size)}. ` : "");
