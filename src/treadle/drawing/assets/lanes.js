// Tasks over time: a row a stream, a bar a task. The wheel zooms, dragging moves, so do keys and buttons.
function lanesPanel() {
  const {choices, names, details, kinds} = values.lanes;
  const gutter = 132, axis = 26, tall = 30, least = 1 / 20000;
  const chosen = () => choices[Math.max(0, Math.min(choices.length - 1, state.row))];
  const canvas = make('canvas', {tabindex: 0, class: 'lanes', 'aria-label': 'tasks over time; arrow keys move, plus and minus zoom'});
  const told = make('p', {class: 'told', 'aria-live': 'polite'}), span = make('span', {class: 'quiet'}), merged = make('p', {class: 'quiet'});
  const cache = new Map();
  // [from, to, name, kind, detail, count] of every task of every lane, seconds
  function tasks(choice) {
    if (!cache.has(choice)) cache.set(choice, choice.lanes.map(([, packed]) => {
      const found = [];
      for (let at = 0, now = 0; at < packed.length; at += 6) {
        const from = now + packed[at];
        now = from + packed[at + 1];
        found.push([from / 1e9, now / 1e9, ...packed.slice(at + 2, at + 6)]);
      }
      return found;
    }));
    return cache.get(choice);
  }
  const view = () => {
    const from = Math.max(0, Math.min(1 - least, state.from / 1e6));
    return [from, Math.max(from + least, Math.min(1, state.to / 1e6))];
  };
  function look(from, to) {
    const wide = Math.min(1, Math.max(least, to - from)), start = Math.min(1 - wide, Math.max(0, from));
    choose({from: Math.round(start * 1e6), to: Math.round((start + wide) * 1e6)});
  }
  const zoom = (factor, around) => { const [from, to] = view(); look(around - (around - from) * factor, around + (to - around) * factor); };
  const middle = () => (view()[0] + view()[1]) / 2;
  const words = task => `${task[5] > 1 ? `${task[5]} tasks, ` : ''}${names[task[2]]}: ${kinds[task[3]][0]}, ${duration(task[1] - task[0])} from ${duration(task[0])}${task[4] >= 0 ? `; ${details[task[4]]}` : ''}`;

  // shapes of what is in view, for the canvas and for the file
  function shapes(width) {
    const choice = chosen(), [from, to] = view().map(share => share * choice.seconds);
    const x = time => gutter + (width - gutter - 8) * (time - from) / (to - from), found = [];
    tasks(choice).forEach((lane, place) => {
      const y = axis + place * tall;
      found.push({y: y + 19, x: gutter - 8, label: choice.lanes[place][0], ink: 'quiet', anchor: 'end'});
      for (const task of lane) {
        if (task[1] < from || task[0] > to) continue;
        const low = Math.max(gutter, x(task[0])), high = Math.min(width - 8, x(task[1]));
        const kind = kinds[task[3]];
        found.push({x: low, y: y + 3, width: Math.max(0.6, high - low), height: tall - 6, kind: kind[2]});
        if (high - low > 9 * kind[1].length + 4) found.push({x: (low + high) / 2, y: y + 19, label: kind[1], on: kind[2], anchor: 'middle'});
      }
    });
    const each = 10 ** Math.floor(Math.log10((to - from) / 2)), step = [1, 2, 5, 10].map(n => n * each).find(n => (to - from) / n <= 8);
    for (let n = Math.ceil(from / step - 1e-9); n * step <= to + step * 1e-6; n++) {
      found.push({line: x(n * step), bottom: axis + choice.lanes.length * tall});
      found.push({x: Math.min(width - 26, x(n * step)), y: 14, label: n ? duration(Number((n * step).toPrecision(9))) : '0', ink: 'quiet', anchor: 'middle'});
    }
    return found;
  }
  const tint = name => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  const height = () => axis + chosen().lanes.length * tall + 4;
  function paint() {
    const choice = chosen(), wide = canvas.clientWidth || 900, dots = window.devicePixelRatio || 1, tints = new Map();
    const colour = name => { if (!tints.has(name)) tints.set(name, tint(name)); return tints.get(name); };
    canvas.width = Math.round(wide * dots);
    canvas.height = Math.round(height() * dots);
    canvas.style.height = `${height()}px`;
    const context = canvas.getContext('2d');
    context.scale(dots, dots);
    context.font = '11px system-ui,sans-serif';
    for (const one of shapes(wide)) {
      if (one.label !== undefined) {
        context.fillStyle = colour(one.on ? `on-${one.on}` : one.ink);
        context.textAlign = {end: 'right', middle: 'center'}[one.anchor];
        context.fillText(one.anchor === 'end' ? shortened(one.label, 21) : one.label, one.x, one.y);
      } else if (one.line !== undefined) {
        context.fillStyle = colour('switch');
        context.fillRect(one.line, 18, 1, one.bottom - 18);
      } else {
        context.fillStyle = colour(one.kind);
        context.fillRect(one.x, one.y, one.width > 3 ? one.width - 1 : one.width, one.height);
      }
    }
    const [from, to] = view();
    span.textContent = `${choice.name}: ${from === 0 && to === 1 ? `all ${duration(choice.seconds)}` : `${duration(from * choice.seconds)} to ${duration(to * choice.seconds)} of ${duration(choice.seconds)}`}`;
    merged.textContent = choice.leftOut;
    merged.hidden = !choice.leftOut;
  }
  function picture() {
    const wide = 1000, drawn = draw('svg', {xmlns: SVG, width: wide, height: height(), 'font-family': 'system-ui,sans-serif', 'font-size': 11});
    for (const one of shapes(wide)) {
      if (one.label !== undefined) drawn.append(draw('text', {x: one.x, y: one.y, 'text-anchor': one.anchor, fill: tint(one.on ? `on-${one.on}` : one.ink)}, one.label));
      else if (one.line !== undefined) drawn.append(draw('path', {d: `M${one.line} 18V${one.bottom}`, stroke: tint('switch')}));
      else drawn.append(draw('rect', {x: one.x.toFixed(2), y: one.y, width: one.width.toFixed(2), height: one.height, fill: tint(one.kind)}));
    }
    return new XMLSerializer().serializeToString(drawn);
  }
  const csv = () => [['stream', 'task', 'kind', 'from (s)', 'to (s)', 'tasks', 'communication'], ...tasks(chosen()).flatMap((lane, place) =>
    lane.map(task => [chosen().lanes[place][0], names[task[2]], kinds[task[3]][0], task[0], task[1], task[5], task[4] >= 0 ? details[task[4]] : '']))];
  const share = event => { const box = canvas.getBoundingClientRect(); return (event.clientX - box.left - gutter) / (box.width - gutter - 8); };
  const timeAt = event => { const [from, to] = view(); return from + share(event) * (to - from); };
  let held = null;
  canvas.addEventListener('pointerdown', event => { held = [event.clientX, ...view()]; canvas.setPointerCapture(event.pointerId); });
  canvas.addEventListener('pointerup', () => { held = null; });
  canvas.addEventListener('pointermove', event => {
    if (held) {
      const moved = (event.clientX - held[0]) / (canvas.clientWidth - gutter - 8) * (held[2] - held[1]);
      look(held[1] - moved, held[2] - moved);
      return;
    }
    const lane = Math.floor((event.clientY - canvas.getBoundingClientRect().top - axis) / tall), time = timeAt(event) * chosen().seconds;
    const found = (tasks(chosen())[lane] || []).find(task => task[0] <= time && time <= task[1]);
    told.textContent = found ? words(found) : '';
  });
  canvas.addEventListener('wheel', event => { event.preventDefault(); zoom(event.deltaY > 0 ? 1.25 : 0.8, timeAt(event)); }, {passive: false});
  canvas.addEventListener('keydown', event => {
    const [from, to] = view(), by = (to - from) / 5;
    const acts = {ArrowLeft: () => look(from - by, to - by), ArrowRight: () => look(from + by, to + by), '+': () => zoom(0.5, middle()), '-': () => zoom(2, middle())};
    if (acts[event.key]) { event.preventDefault(); acts[event.key](); }
  });
  const select = choices.length > 1 ? make('select', {'aria-label': 'timeline', onchange: event => choose({row: Number(event.target.value)})},
    choices.map((choice, place) => make('option', {value: place}, choice.name))) : null;
  listeners.push(changes => { if (['row', 'from', 'to', 'theme'].some(key => key in changes)) paint(); if (select) select.value = Math.max(0, Math.min(choices.length - 1, state.row)); });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', paint);
  new ResizeObserver(paint).observe(canvas);
  if (select) select.value = Math.max(0, Math.min(choices.length - 1, state.row));
  const used = new Set(choices.flatMap(choice => choice.lanes.flatMap(([, packed]) => packed.filter((_, at) => at % 6 === 3))));
  return make('section', {id: 'lanes'},
    make('div', {class: 'bar'}, make('h2', {}, 'Timeline'), select, button('+', 'Nearer', () => zoom(0.5, middle())), button('\u2212', 'Farther', () => zoom(2, middle())),
      button('Whole', 'All of the time', () => look(0, 1)), button('Save SVG', 'What is seen', () => save('timeline.svg', 'image/svg+xml', picture())), button('Save CSV', '', () => saveCsv('timeline', csv())), span),
    canvas, keyOf(kinds.filter((_, kind) => used.has(kind)), ''), told, make('p', {class: 'quiet'}, values.lanes.note), merged);
}
