'use strict';
// What scrolls sideways can be reached by keyboard; what is folded has no width until it is opened.
function reach() {
  for (const box of document.querySelectorAll('.scroll, pre, .qlab-frames figure')) {
    if (box.scrollWidth > box.clientWidth) {
      box.tabIndex = 0;
      box.setAttribute('role', 'group');
      box.setAttribute('aria-label', 'Scrolls sideways');
    }
  }
}
document.fonts.ready.then(reach);
addEventListener('resize', reach);
document.addEventListener('toggle', reach, true);

// Search over all pages. The index is a script, since a page from disk may load nothing else.
{
  const root = document.currentScript.dataset.root;
  const form = document.querySelector('search form');
  const field = form.querySelector('input');
  const found = form.querySelector('#found');
  const [said, list] = [found.querySelector('p'), found.querySelector('ol')];
  const plain = text => text.toLowerCase().normalize('NFKD').replace(/\p{M}/gu, '');
  const entries = SEARCH.map(([path, page, anchor, heading, text]) => ({
    address: root + path + (anchor && '#' + anchor), page, heading, text, head: plain(page + ' ' + heading), all: plain(text),
  }));

  function search() {
    const words = plain(field.value).split(/\s+/).filter(Boolean);
    const hits = [];
    for (const entry of words.length ? entries : []) {
      if (!words.every(word => entry.head.includes(word) || entry.all.includes(word))) continue;
      const at = words.map(word => entry.all.indexOf(word)).filter(at => at >= 0);
      const heads = words.filter(word => entry.head.includes(word)).length;
      hits.push({entry, heads, first: at.length ? Math.min(...at) : 0});
    }
    hits.sort((a, b) => b.heads - a.heads);
    said.textContent = hits.length ? `${hits.length} found` : `Nothing found for ${field.value}`;
    list.replaceChildren(...hits.slice(0, 30).map(({entry, first}) => {
      const item = document.createElement('li'), link = document.createElement('a'), excerpt = document.createElement('p');
      link.href = entry.address;
      link.textContent = entry.heading && entry.heading !== entry.page ? `${entry.page}: ${entry.heading}` : entry.page;
      const from = first > 40 ? entry.text.indexOf(' ', first - 40) + 1 : 0;
      const cut = entry.text.slice(from, from + 160);
      excerpt.textContent = (from ? '… ' : '') + cut + (from + cut.length < entry.text.length ? '…' : '');
      item.append(link, excerpt);
      return item;
    }));
    found.hidden = !words.length;
  }

  form.hidden = false;
  field.addEventListener('input', search);
  form.addEventListener('submit', event => {
    event.preventDefault();
    list.querySelector('a')?.click();
  });
  form.addEventListener('keydown', event => {
    if (event.key === 'Escape') { field.value = ''; search(); field.focus(); }
  });
  list.addEventListener('click', () => { field.value = ''; search(); });
}
