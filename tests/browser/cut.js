// What a reader of a narrow window does not see: elements that begin or end beyond its edges, drawings apart.
() => {
  const width = document.documentElement.clientWidth, cut = [];
  for (const el of document.querySelectorAll("body *")) {
    if (!el.checkVisibility() || el.closest(".hide, .skip, dialog, #toast, svg")) continue;
    const box = el.getBoundingClientRect();
    if (box.width && (box.right > width + 1 || box.left < -1)) {
      cut.push(`${el.tagName.toLowerCase()}.${[...el.classList].join(".")} ${Math.round(box.left)} to ${Math.round(box.right)}: ${el.textContent.trim().slice(0, 40)}`);
    }
  }
  return cut;
}
