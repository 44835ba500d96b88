// Matrices of numbers as coloured cells: links over time, and when each rank has each shard.
const RAMP = {light: [[219, 231, 243], [91, 147, 199], [15, 45, 82]], dark: [[36, 56, 76], [91, 147, 199], [232, 244, 255]]};
function colour(share) {
  const stops = RAMP[isDark() ? 'dark' : 'light'], at = Math.max(0, Math.min(1, share)) * 2, low = Math.min(1, Math.floor(at));
  return stops[low].map((from, channel) => Math.round(from + (stops[low + 1][channel] - from) * (at - low)));
}
const lettersOn = strong => { const [r, g, b] = colour(strong); return 0.3 * r + 0.59 * g + 0.11 * b > 140 ? '#000' : '#fff'; };
// `levels` are bytes by row; `share` says how strong one is, or null for none.
function cells(rows, columns, levels, share, wide, tall, numbers) {
  const canvas = make('canvas', {width: columns * wide, height: rows * tall, tabindex: 0});
  function paint() {
    const context = canvas.getContext('2d');
    context.clearRect(0, 0, canvas.width, canvas.height);
    for (let row = 0; row < rows; row++) for (let column = 0; column < columns; column++) {
      const strong = share(levels[row * columns + column]);
      if (strong === null) continue;
      context.fillStyle = `rgb(${colour(strong)})`;
      const gap = Math.min(wide, tall) > 6 ? 1 : 0;
      context.fillRect(column * wide, row * tall, wide - gap, tall - gap);
      if (!numbers) continue;
      context.fillStyle = lettersOn(strong);
      context.textAlign = 'center';
      context.fillText(numbers[row * columns + column], (column + 0.5) * wide, (row + 0.5) * tall + 4);
    }
  }
  const at = event => {
    const box = canvas.getBoundingClientRect();
    return [Math.min(rows - 1, Math.max(0, Math.floor((event.clientY - box.top) / box.height * rows))),
      Math.min(columns - 1, Math.max(0, Math.floor((event.clientX - box.left) / box.width * columns)))];
  };
  function picture() {
    const drawn = draw('svg', {xmlns: SVG, width: canvas.width, height: canvas.height});
    for (let row = 0; row < rows; row++) for (let column = 0; column < columns;) {
      const level = levels[row * columns + column], from = column;
      while (column < columns && levels[row * columns + column] === level) column++;
      const strong = share(level);
      if (strong !== null) drawn.append(draw('rect', {x: from * wide, y: row * tall, width: (column - from) * wide, height: tall - 1, fill: `rgb(${colour(strong)})`}));
      if (strong !== null && numbers) for (let place = from; place < column; place++) drawn.append(draw('text', {x: (place + 0.5) * wide, y: (row + 0.5) * tall + 4, 'text-anchor': 'middle', 'font-size': 10, fill: lettersOn(strong)}, numbers[row * columns + place]));
    }
    return new XMLSerializer().serializeToString(drawn);
  }
  listeners.push(changes => { if ('theme' in changes) paint(); });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', paint);
  paint();
  return {canvas, at, picture};
}
// A matrix with its axes: what they count, and their first and last names.
function withAxes(canvas, down, across) {
  const end = (names, at, kind) => make('span', {class: `quiet ${kind}`}, names[at]);
  return make('div', {class: 'matrix'},
    make('div', {class: 'axis down'}, end(down.names, 0, ''), make('span', {class: 'title'}, down.title), end(down.names, down.names.length - 1, '')),
    canvas, make('span'),
    make('div', {class: 'axis'}, end(across.names, 0, ''), make('span', {class: 'title'}, across.title), end(across.names, across.names.length - 1, '')));
}
function ramp(low, high) {
  const bar = cells(1, 60, Uint8Array.from({length: 60}, (_, place) => place), level => level / 59, 2, 10).canvas;
  bar.removeAttribute('tabindex');
  return make('div', {class: 'scale'}, low, bar, high);
}

function timelinePanel() {
  const found = values.timeline, levels = fromBase64(found.levels), rows = found.names.length;
  const told = make('p', {class: 'told', 'aria-live': 'polite'});
  const grid = cells(rows, found.bins, levels, level => level ? level / 255 : null, 4, Math.max(5, Math.min(14, Math.floor(420 / Math.max(1, rows)))));
  let row = -1;
  const tell = (place, moment) => {
    const time = moment === null ? '' : ` at ${duration(found.seconds * (moment + 0.5) / found.bins)}: ${percent(levels[place * found.bins + moment] / 255)} busy`;
    told.textContent = `${found.names[place]}${time}; ${percent(found.shares[place])} of the whole time`;
  };
  grid.canvas.addEventListener('pointermove', event => tell(...grid.at(event)));
  const spot = place => { row = Math.max(0, Math.min(rows - 1, place)); tell(row, null); choose({line: found.lines[row]}); };
  grid.canvas.addEventListener('click', event => spot(grid.at(event)[0]));
  grid.canvas.addEventListener('keydown', event => {
    if (event.key === 'ArrowDown' || event.key === 'ArrowUp') { event.preventDefault(); spot(row + (event.key === 'ArrowDown' ? 1 : -1)); }
  });
  grid.canvas.setAttribute('aria-label', 'links over time; arrow keys choose a link');
  const csv = () => [['link', 'share', ...Array.from({length: found.bins}, (_, n) => digits(found.seconds * n / found.bins, 6))],
    ...found.names.map((name, place) => [name, found.shares[place], ...Array.from(levels.subarray(place * found.bins, (place + 1) * found.bins), level => digits(level / 255, 3))])];
  return make('section', {id: 'timeline'},
    make('div', {class: 'bar'}, make('h2', {}, 'Links over time'), make('span', {class: 'quiet'}, `${values.size}, ${count(values.slices, 'slice')}, ${duration(found.seconds)}; a row a link, a click shows it`),
      button('Save SVG', '', () => save('links-over-time.svg', 'image/svg+xml', grid.picture())), button('Save CSV', '', () => saveCsv('links-over-time', csv()))),
    make('div', {class: 'scroll'}, withAxes(grid.canvas, {title: 'link', names: found.names}, {title: 'time', names: ['0', duration(found.seconds)]})), ramp('idle', 'busy'), told,
    found.leftOut ? make('p', {class: 'quiet'}, `Shown: ${found.leftOut}.`) : null);
}

function arrivalsPanel() {
  const found = values.arrivals, levels = fromBase64(found.cells), {rows, columns} = found;
  const told = make('p', {class: 'told', 'aria-live': 'polite'});
  const side = Math.max(2, Math.min(22, Math.floor(380 / columns)));
  const grid = cells(rows, columns, levels, level => level ? (level - 1) / 254 : null, side, side);
  const seconds = level => found.from + (found.to - found.from) * (level - 1) / 254;
  const tell = (row, column) => {
    const level = levels[row * columns + column];
    told.textContent = `${values.ranks[row]}, ${values.ranks[column]}: ` + (level ? duration(seconds(level)) : 'nothing moves');
  };
  grid.canvas.addEventListener('pointermove', event => tell(...grid.at(event)));
  grid.canvas.addEventListener('click', event => {
    const [row, column] = grid.at(event);
    tell(row, column);
    if (scenes) choose({show: 'scene', root: column, target: row, scene: 0, frame: -1, line: 0});
  });
  grid.canvas.setAttribute('aria-label', found.what);
  const csv = () => [['rank', ...values.ranks.slice(0, columns)], ...Array.from({length: rows}, (_, row) =>
    [values.ranks[row], ...Array.from(levels.subarray(row * columns, (row + 1) * columns), level => level ? seconds(level).toPrecision(3) : '')])];
  const shows = scenes ? {tree: '; a click shows the tree', step: '; a click shows the steps', route: '; a click shows the route'}[scenes.kind] : '';
  return make('section', {id: 'arrivals'},
    make('div', {class: 'bar'}, make('h2', {}, 'Arrival'), button('Save SVG', '', () => save('arrival.svg', 'image/svg+xml', grid.picture())),
      button('Save CSV', '', () => saveCsv('arrival', csv()))),
    make('p', {class: 'quiet'}, `${values.size}: ${found.what}${shows}`),
    withAxes(grid.canvas, {title: 'rank', names: values.ranks.slice(0, rows)}, {title: columns === rows ? 'shard of rank' : 'rank', names: values.ranks.slice(0, columns)}), ramp(duration(found.from), duration(found.to)), told);
}
