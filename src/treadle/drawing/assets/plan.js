// The page: panels for what the plan has.
function kindsPanel() {
  const hasLoads = values.load !== null;
  const head = ['links', 'each', ...(hasLoads ? ['mean', 'most', 'full'] : [])];
  const rows = values.kinds.map(kind => {
    const show = () => choose({line: kind.lines.length ? kind.lines[0] : 0});
    return make('tr', {tabindex: 0, onclick: show, onkeydown: event => event.key === 'Enter' && show()},
      make('td', {}, kind.name), make('td', {class: 'n'}, kind.links.toLocaleString('en')), make('td', {class: 'n'}, rate(kind.bytesPerS)),
      hasLoads ? [make('td', {class: 'n'}, percent(kind.mean)), make('td', {class: 'n'}, percent(kind.most)), make('td', {class: 'n'}, kind.full.toLocaleString('en'))] : null);
  });
  return make('section', {id: 'kinds'}, make('div', {class: 'bar'}, make('h2', {}, 'Links by kind'),
    button('Save CSV', '', () => saveCsv('links-by-kind', [['kind', 'links', 'bytes/s', 'mean', 'most', 'full'],
      ...values.kinds.map(kind => [kind.name, kind.links, kind.bytesPerS, kind.mean ?? '', kind.most ?? '', kind.full ?? ''])]))),
  make('div', {class: 'scroll'}, make('table', {}, make('thead', {}, make('tr', {}, make('th', {}, 'from \u2192 to'), head.map(words => make('th', {class: 'n'}, words)))),
    make('tbody', {}, rows))),
  hasLoads ? make('p', {class: 'quiet'}, 'Busy: share of the time at large sizes; full: links that are busy all of it.') : null);
}
function factsPanel() {
  const table = make('table', {}, make('tbody', {}, values.facts.map(([key, words]) => make('tr', {}, make('td', {class: 'quiet'}, key), make('td', {}, words)))));
  const most = Math.max(1, ...values.hops);
  const hops = values.hops.length ? make('table', {}, make('tbody', {}, values.hops.map((ranks, hop) => make('tr', {},
    make('td', {class: 'quiet'}, hop ? `after hop ${hop}` : 'root'), make('td', {class: 'n'}, ranks.toLocaleString('en')),
    make('td', {}, draw('svg', {width: 120, height: 12, viewBox: '0 0 120 12'}, draw('rect', {class: 'fhalf', width: Math.max(1, 120 * ranks / most), height: 10, y: 1, rx: 3}))))))) : null;
  return make('section', {id: 'facts'}, make('div', {class: 'bar'}, make('h2', {}, 'The plan')), table,
    hops ? [make('p', {}, make('h2', {}, 'One tree'), make('span', {class: 'quiet'}, ' ranks that it reaches first')), hops] : null);
}
const left = make('div', {class: 'column'}, fabricPanel(), values.curves ? curvesPanel() : null, values.timeline ? timelinePanel() : null);
const right = make('div', {class: 'column'}, factsPanel(), kindsPanel(), values.arrivals ? arrivalsPanel() : null);
fillPage(left, right);
