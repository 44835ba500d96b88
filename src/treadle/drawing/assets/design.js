// The page of a design: steps against bandwidth time, times by size, cables by racks.
function paretoPanel() {
  const {width, height, points, front, limit, left, low, top, right, xTicks, yTicks, names} = values.pareto;
  const told = make('p', {class: 'told', 'aria-live': 'polite'});
  const picture = draw('svg', {class: 'chart', viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': 'steps against bandwidth time'});
  for (const [at, words] of xTicks) picture.append(draw('path', {class: 'grid', d: `M${at} ${top}V${low}`}), text(at, low + 18, words, 'quiet'));
  for (const [at, words] of yTicks) picture.append(draw('path', {class: 'grid', d: `M${left} ${at}H${right}`}), text(left - 8, at + 4, words, 'end quiet'));
  picture.append(text((left + right) / 2, height - 8, 'steps: what small data take', 'quiet'),
    draw('text', {x: 14, y: (top + low) / 2, class: 'quiet', transform: `rotate(-90 14 ${(top + low) / 2})`}, 'T_B in M/B: what large data take'),
    draw('path', {class: 'bound', d: `M${limit[0]} ${top}V${limit[1]}H${right}`}, draw('title', {}, `lower bound: ${values.pareto.scope}`)));
  if (front.length) picture.append(draw('path', {class: 'series s0', d: `M${front[0][0]} ${top}` + front.map(([x, y], place) => (place ? `H${x}` : '') + `V${y}`).join('') + `H${right}`}));
  const marks = points.map(([x, y, own, shape, labelX, labelY, label]) => {
    const words = own.map(place => { const [name, , nodes, ports, steps, time, note] = names[place]; return `${name} (${nodes} nodes, ${count(ports, 'port')}): ${count(steps, 'step')}, ${digits(time)} M/B${note && note !== name ? `; ${note}` : ''}`; }).join('; ');
    const mark = shape === 'frontier' ? draw('circle', {class: 'mark frontier', cx: x, cy: y, r: 7})
      : shape === 'known' ? draw('rect', {class: 'mark known', x: x - 5, y: y - 5, width: 10, height: 10}) : draw('circle', {class: 'mark other', cx: x, cy: y, r: 3.5});
    mark.append(draw('title', {}, words));
    const group = draw('g', {class: 'row', tabindex: 0}, mark, label ? text(labelX, labelY, label, 'start') : text(x, y, ''));
    const show = () => { told.textContent = words; choose({point: own[0]}); };
    group.addEventListener('pointerenter', () => { told.textContent = words; });
    group.addEventListener('click', show);
    group.addEventListener('keydown', event => { if (event.key === 'Enter') show(); });
    picture.append(group);
    return [mark, own];
  });
  const paint = () => marks.forEach(([mark, own]) => mark.classList.toggle('chosen', own.includes(state.point)));
  listeners.push(changes => { if ('point' in changes) paint(); });
  paint();
  const key = (shape, words) => make('span', {}, draw('svg', {class: 'chart key', width: 26, height: 14}, shape), words);
  return make('section', {id: 'pareto'},
    make('div', {class: 'bar'}, make('h2', {}, 'Steps against bandwidth time'), button('Save SVG', '', () => saveSvg('steps-against-bandwidth', picture)),
      button('Save CSV', '', () => saveCsv('steps-against-bandwidth', [['fabric', 'kind', 'nodes', 'ports', 'steps', 'T_B (M/B)', 'note'], ...names]))),
    picture, make('div', {class: 'legend'}, key(draw('circle', {class: 'mark frontier', cx: 13, cy: 7, r: 6}), 'frontier: no known fabric is better in both'),
      key(draw('rect', {class: 'mark known', x: 8, y: 2, width: 10, height: 10}), 'what people know'), key(draw('circle', {class: 'mark other', cx: 13, cy: 7, r: 3.5}), 'others that the finder looked at'),
      key(draw('path', {class: 'bound', d: 'M0 7h26'}), `lower bound (${values.pareto.scope})`)), told);
}
function cablesPanel() {
  const {places, labels, lines, single, rackNames, leftOut} = values.cables;
  const at = new Map(places.map(([item, , x, y]) => [item, [x, y]])), rackOf = new Map(places.map(([item, rack]) => [item, rack]));
  const picture = draw('svg', {class: 'chart ring', viewBox: '0 0 520 520', role: 'img', 'aria-label': 'cables'});
  const told = make('p', {class: 'told', 'aria-live': 'polite'});
  const most = Math.max(...lines.map(line => line[2]), 1);
  const curves = lines.map(([one, other, number]) => {
    const [x, y] = at.get(one), [u, v] = at.get(other), pull = rackOf.get(one) === rackOf.get(other) && single ? 0.78 : 0.25;
    const curve = draw('path', {class: 'cable', d: `M${x} ${y}Q${260 + ((x + u) / 2 - 260) * pull} ${260 + ((y + v) / 2 - 260) * pull} ${u} ${v}`, 'stroke-width': single ? 0.8 : 0.5 + 3 * number / most});
    picture.append(curve);
    return curve;
  });
  for (const [rack, x, y] of labels) picture.append(text(x, y + 4, rackNames[rack], 'quiet'));
  const radius = Math.min(single ? 9 : 16, Math.max(3, 560 / places.length));
  const spots = places.map(([item, , x, y, name]) => {
    const spot = draw('g', {class: 'row', tabindex: 0}, draw('circle', {class: 'spot', cx: x, cy: y, r: radius}, draw('title', {}, name)));
    const words = single ? String(item) : name;
    if (radius > (single ? 6.5 : 13)) spot.append(text(x, y + 3.5, words, 'tiny'));
    const pick = () => choose({node: state.node === item ? -1 : item});
    spot.addEventListener('click', pick);
    spot.addEventListener('keydown', event => { if (event.key === 'Enter') pick(); });
    spot.addEventListener('pointerenter', () => paint(item));
    spot.addEventListener('pointerleave', () => paint(state.node));
    picture.append(spot);
    return [item, spot];
  });
  function paint(item) {
    let out = 0, into = 0, both = 0;
    const found = [];
    curves.forEach((curve, place) => {
      const [one, other, number, duplex] = lines[place], own = one === item || other === item;
      const way = !own ? '' : duplex ? 'both' : one === item ? 'out' : 'into';
      curve.setAttribute('class', `cable ${way}`);
      if (way) picture.insertBefore(curve, null), found.push(nameAt(one === item ? other : one));
      both += way === 'both' ? number : 0;
      out += way === 'out' ? number : 0;
      into += way === 'into' ? number : 0;
    });
    spots.forEach(([own, spot]) => { spot.classList.toggle('chosen', own === item); picture.append(spot); });
    told.textContent = !at.has(item) ? `${single ? 'A node' : 'A rack'} under the pointer shows its cables.`
      : `${nameAt(item)}${single ? `, rack ${rackNames[rackOf.get(item)]}` : ''}: ` + [[both, 'both ways'], [out, 'out'], [into, 'in']].filter(([number]) => number).map(([number, words]) => `${count(number, 'cable')} ${words}`).join(', ')
        + (found.length <= 16 ? `; to ${[...new Set(found)].join(', ')}` : '');
  }
  const nameAt = item => places.find(one => one[0] === item)[4];
  listeners.push(changes => { if ('node' in changes) paint(state.node); });
  paint(state.node);
  const key = (kind, words) => make('span', {}, draw('svg', {class: 'chart key', width: 26, height: 12}, draw('path', {class: `cable ${kind}`, d: 'M0 6h26'})), words);
  return make('section', {id: 'ring'},
    make('div', {class: 'bar'}, make('h2', {}, 'Cables'), make('span', {class: 'quiet'}, single ? 'nodes by racks' : 'racks; wider: more cables'), button('Save SVG', '', () => saveSvg('cables', picture)),
      button('Save CSV', '', () => saveCsv('cables', [['one', 'other', 'cables', 'both ways'], ...lines.map(([one, other, number, duplex]) => [nameAt(one), nameAt(other), number, duplex ? 'yes' : 'no'])]))),
    picture, make('div', {class: 'legend'}, key('both', 'both ways'), lines.some(line => !line[3]) ? [key('out', 'out'), key('into', 'in')] : null), told, leftOut ? make('p', {class: 'quiet'}, leftOut) : null);
}
function racksPanel() {
  const {matrix, rackNames, leftOut} = values.cables, n = matrix.length, most = Math.max(1, ...matrix.flat());
  const told = make('p', {class: 'told', 'aria-live': 'polite'});
  const words = (row, column) => row === column ? `${count(matrix[row][column], 'cable')} within ${rackNames[row]}` : `${count(matrix[row][column], 'cable')} between ${rackNames[row]} and ${rackNames[column]}`;
  const side = Math.max(4, Math.min(34, Math.floor(560 / n)));
  const grid = cells(n, n, Uint8Array.from(matrix.flat(), value => Math.ceil(255 * value / most)), level => level ? level / 255 : null, side, side, n <= 24 ? matrix.flat() : null);
  grid.canvas.setAttribute('aria-label', 'cables from rack to rack');
  grid.canvas.addEventListener('pointermove', event => { told.textContent = words(...grid.at(event)); });
  let cell = [0, 0];
  grid.canvas.addEventListener('keydown', event => {
    const step = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1]}[event.key];
    if (!step) return;
    event.preventDefault();
    cell = cell.map((value, axis) => Math.max(0, Math.min(n - 1, value + step[axis])));
    told.textContent = words(...cell);
  });
  return make('section', {id: 'racks'},
    make('div', {class: 'bar'}, make('h2', {}, 'Cables from rack to rack'), button('Save SVG', '', () => save('racks.svg', 'image/svg+xml', grid.picture())),
      button('Save CSV', '', () => saveCsv('racks', [['', ...rackNames], ...matrix.map((row, place) => [rackNames[place], ...row])]))),
    withAxes(grid.canvas, {title: 'rack', names: rackNames}, {title: 'rack', names: rackNames}), ramp('0', String(most)), told, leftOut ? make('p', {class: 'quiet'}, leftOut) : null);
}
const wide = table => ['fabrics', 'times', 'networks'].includes(table.id);
fillPage(
  make('div', {class: 'column'}, paretoPanel(), curvesPanel(), values.tables.filter(wide).map(tablePanel)),
  make('div', {class: 'column'}, factsTable('The design', values.facts), cablesPanel(), racksPanel(), values.tables.filter(table => !wide(table)).map(tablePanel)));
