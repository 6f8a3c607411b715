// What a reader who cannot see, or has no mouse, would stumble over: a list of faults.
() => {
  const faults = [], say = (what, el) => faults.push(`${what}: ${el.outerHTML.slice(0, 120)}`);
  const name = el => (el.getAttribute('aria-label') || (el.getAttribute('aria-labelledby') || '').split(' ')
    .map(id => document.getElementById(id)?.textContent ?? '').join(' ') || el.labels?.[0]?.textContent
    || el.textContent || el.title || '').trim();
  const shown = el => el.checkVisibility({ visibilityProperty: true });
  const all = selector => [...document.querySelectorAll(selector)].filter(shown);
  for (const el of all('a[href], button, input, select, [role=slider], [role=img], section, dialog[open]')) {
    if (!name(el)) say('no name', el); }
  for (const el of all('a[href] a, button button, a button, button a')) say('control within a control', el);
  for (const el of all('svg')) if (el.getAttribute('aria-hidden') !== 'true' && !el.getAttribute('aria-label')) say('picture without words', el);
  const ids = [...document.querySelectorAll('[id]')].map(e => e.id);
  for (const id of new Set(ids)) if (ids.filter(i => i === id).length > 1) faults.push(`id twice: ${id}`);
  for (const el of document.querySelectorAll('[aria-labelledby]')) if (!document.getElementById(el.getAttribute('aria-labelledby'))) say('label is gone', el);
  for (const el of document.querySelectorAll('[tabindex]')) if (el.tabIndex > 0) say('tabindex above 0', el);
  for (const el of all('table')) if (el.querySelector('thead') && !el.querySelector('thead th')) say('table without headings', el);
  for (const el of all('[role=row]')) if (!el.closest('[role=table]')) say('row without table', el);
  const slider = document.querySelector('[role=slider]');
  for (const a of ['aria-valuemin', 'aria-valuemax', 'aria-valuenow', 'aria-valuetext']) if (!slider?.hasAttribute(a)) faults.push(`slider without ${a}`);
  const levels = all('h1, h2, h3').map(e => +e.tagName[1]);
  if (levels.filter(l => l === 1).length !== 1) faults.push(`headings of level 1: ${levels}`);
  levels.forEach((l, i) => { if (i && l > levels[i - 1] + 1) faults.push(`headings skip a level: ${levels}`); });
  for (const role of ['header', 'nav', 'main', 'footer']) if (document.querySelectorAll(role).length < 1) faults.push(`no ${role}`);
  if (!document.documentElement.lang) faults.push('no language');
  if (!document.title) faults.push('no title');
  for (const el of all('[aria-pressed]')) if (!['true', 'false'].includes(el.getAttribute('aria-pressed'))) say('pressed what', el);
  return faults;
}
