// How many texts are on screen, and those whose contrast with what lies under them is too weak: [seen, weak].
() => {
  const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const rgba = colour => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data]; };
  const over = (top, under) => top.slice(0, 3).map((v, i) => v * top[3] / 255 + under[i] * (1 - top[3] / 255));
  const ground = el => { const stack = [];
    for (let e = el; e; e = e.parentElement) { const c = rgba(getComputedStyle(e).backgroundColor); stack.push(c);
      if (c[3] === 255) break; }
    return stack.reduceRight((under, c) => over(c, under), [255, 255, 255]); };
  const lum = c => { const l = c.map(v => v / 255).map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
    return .2126 * l[0] + .7152 * l[1] + .0722 * l[2]; };
  const weak = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let seen = 0;
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const el = node.parentElement, style = getComputedStyle(el);
    if (!node.nodeValue.trim() || el.closest('svg, noscript, dialog, .hide, .skip, .tile, #toast') || !el.checkVisibility()) continue;
    seen++;
    const under = ground(el), text = over(rgba(style.color), under);
    const [a, b] = [lum(text), lum(under)].sort((x, y) => y - x), ratio = (a + .05) / (b + .05);
    const size = parseFloat(style.fontSize), big = size >= 24 || (size >= 18.7 && style.fontWeight >= 700);
    if (ratio < (big ? 3 : 4.5)) weak.push(`${node.nodeValue.trim().slice(0, 40)} (${el.className}): ${ratio.toFixed(2)}`);
  }
  return [seen, weak];
}
