// Throughput or time by size: lines of plans, and what is proved to be the most.
function curvesPanel() {
  const {sizes, series, bound} = values.curves;
  const right = values.curves.series.some(one => one.key) ? 40 : 12;
  const W = 760, H = 300, left = 62, top = 12, low = 34;
  const picture = draw('svg', {class: 'chart', viewBox: `0 0 ${W} ${H}`, role: 'img', 'aria-label': 'throughput by size'});
  const told = make('p', {class: 'told', 'aria-live': 'polite'});
  const kinds = values.curves.ratio ? ['ratio', 'rate', 'time'] : ['time', 'rate'];
  const shownKind = () => kinds.includes(state.chart) ? state.chart : kinds[0];
  const isTime = () => shownKind() !== 'rate';
  const boundName = values.curves.boundName || 'proved bound';
  const unit = rateUnit(Math.max(...[...series.map(one => one.seconds), bound || []].flatMap(seconds => seconds.map((one, place) => sizes[place] / one))));
  const quickest = place => Math.min(...series.map(one => one.seconds[place]));
  const value = (place, seconds) => shownKind() === 'ratio' ? seconds / quickest(place) : isTime() ? seconds * 1e6 : sizes[place] / seconds / 1000 ** unit;
  const lines = () => [...series.map((one, number) => [one.name, `s${Math.min(number, 5)}`, one.seconds, number]),
    ...(bound ? [[boundName, 'bound', bound]] : [])];
  const x = place => left + (W - left - right) * place / Math.max(1, sizes.length - 1);
  const tabs = kinds.map(key => [key, {rate: RATES[unit], time: 'us', ratio: 'times the quickest'}[key]]).map(([key, words]) => [key, button(words, '', () => choose({chart: key}))]);
  let guide = null;

  function scale(all) {
    if (!isTime()) {
      const most = Math.max(...all), step = 10 ** Math.floor(Math.log10(most)), every = [1, 2, 5, 10].map(n => n * step / 2).find(n => most / n <= 6);
      const ticks = Array.from({length: Math.ceil(most / every) + 1}, (_, n) => n * every);
      const end = ticks[ticks.length - 1];
      return [n => H - low - (H - low - top) * n / end, ticks];
    }
    if (shownKind() === 'ratio') {
      const from = Math.log2(Math.min(...all)) - 0.1, to = Math.max(from + 1, Math.log2(Math.max(...all)) + 0.1);
      const y = n => H - low - (H - low - top) * (Math.log2(n) - from) / (to - from);
      return [y, Array.from({length: Math.floor(to) - Math.ceil(from) + 1}, (_, n) => 2 ** (Math.ceil(from) + n))];
    }
    const from = Math.floor(Math.log10(Math.min(...all))), to = Math.ceil(Math.log10(Math.max(...all)));
    const y = n => H - low - (H - low - top) * (Math.log10(n) - from) / Math.max(1, to - from);
    return [y, Array.from({length: to - from + 1}, (_, n) => 10 ** (from + n))];
  }
  function paint() {
    for (const [key, tab] of tabs) tab.setAttribute('aria-pressed', key === shownKind());
    const shown = lines(), all = shown.flatMap(([, , seconds]) => seconds.map((one, place) => value(place, one)));
    const [y, ticks] = scale(all);
    picture.replaceChildren();
    for (const tick of ticks) picture.append(draw('path', {class: 'grid', d: `M${left} ${y(tick)}H${W - right}`}), text(left - 8, y(tick) + 4, digits(tick), 'end quiet'));
    sizes.forEach((size, place) => { if (place % Math.ceil(sizes.length / 11) === 0) picture.append(text(x(place), H - 14, bytes(size), 'quiet')); });
    const ends = [];
    series.forEach((one, number) => {
      if (!one.low) return;
      const side = seconds => seconds.flatMap((time, place) => [[x(place), y(value(place, time))]]);
      picture.append(draw('path', {class: `band b${Math.min(number, 5)}`, d: path([...side(one.low), ...side(one.high).reverse()].flat()) + 'Z'}));
    });
    shown.forEach(([name, kind, seconds, number]) => {
      const points = seconds.flatMap((one, place) => [x(place), y(value(place, one))].map(n => Math.round(n * 10) / 10));
      picture.append(draw('path', {class: `series ${kind}`, d: path(points)}, draw('title', {}, name)));
      if (kind !== 'bound') for (let n = 0; n < points.length; n += 2) picture.append(dot(kind, number, points[n], points[n + 1]));
      if (number !== undefined && series[number].key) ends.push([points[points.length - 1], series[number].key]);
    });
    ends.sort((one, other) => one[0] - other[0]);
    ends.forEach((end, place) => { end[0] = Math.max(end[0] + 4, place ? ends[place - 1][0] + 11 : top); });
    ends.reverse().forEach((end, place) => { end[0] = Math.min(end[0], place ? ends[place - 1][0] - 11 : H - low + 8); });
    for (const [at, key] of ends) picture.append(text(W - right + 10, at, key, 'start'));
    guide = draw('path', {class: 'guide'});
    picture.append(guide);
  }
  // a shape for each plan, so that lines are told apart without their colours
  const SHAPES = [[-3.4, -3.4, 0, -1, 3.4, -3.4, 1, 0, 3.4, 3.4, 0, 1, -3.4, 3.4, -1, 0], [-4, -1.5, 4, -1.5, 4, 1.5, -4, 1.5], [0, -3.6, 3.6, 0, 0, 3.6, -3.6, 0], [-3, -3, 3, -3, 3, 3, -3, 3], [0, -4, 3.8, 3, -3.8, 3], [0, 4, 3.8, -3, -3.8, -3]];
  const dot = (kind, number, cx, cy) => draw('path', {class: `dot ${kind}`, d: path(SHAPES[(number + 2) % SHAPES.length].map((n, at) => n + (at % 2 ? cy : cx))) + 'Z'});
  function tell(event) {
    const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(picture.getScreenCTM().inverse());
    const place = Math.max(0, Math.min(sizes.length - 1, Math.round((point.x - left) / (W - left - right) * (sizes.length - 1))));
    guide.setAttribute('d', `M${x(place)} ${top}V${H - low}`);
    told.textContent = `${bytes(sizes[place])}: ` + lines().map(([name, , seconds]) =>
      `${name} ${duration(seconds[place])}, ${rate(sizes[place] / seconds[place])}`).join('; ');
  }
  picture.addEventListener('pointermove', tell);
  const legend = make('div', {class: 'legend'}, lines().map(([name, kind, , number]) => make('span', {},
    draw('svg', {class: 'chart', width: 26, height: 12}, draw('path', {class: kind === 'bound' ? 'bound' : `series ${kind}`, d: 'M0 6h26'}),
      kind === 'bound' ? null : dot(kind, number, 13, 6)), name)));
  for (const key of legend.querySelectorAll('svg')) key.style.width = '26px';
  listeners.push(changes => { if ('chart' in changes) paint(); });
  paint();
  const rows = () => [['bytes', ...series.flatMap(one => [`${one.name} seconds`, ...(one.slices ? [`${one.name} slices`] : [])]), ...(bound ? ['bound seconds'] : [])],
    ...sizes.map((size, place) => [size, ...series.flatMap(one => [one.seconds[place], ...(one.slices ? [one.slices[place]] : [])]), ...(bound ? [bound[place]] : [])])];
  return make('section', {id: 'curves'},
    make('div', {class: 'bar'}, make('h2', {}, values.curves.title || 'By size'), tabs.map(([, tab]) => tab),
      button('Save SVG', '', () => saveSvg('by-size', picture)), button('Save CSV', '', () => saveCsv('by-size', rows()))),
    picture, legend, told,
    make('p', {class: 'quiet'}, values.curves.note));
}
