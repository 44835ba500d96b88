// The fabric: its picture, what is laid over it, and the choices above it.
const fabric = values.fabric, scenes = values.scenes || null;
const LOADS = [['idle', 'idle'], ['low', 'up to 15%'], ['half', 'up to 50%'], ['high', 'up to 100%'], ['full', 'busy all the time']];
const nameOf = mark => fabric.marks[mark][6];
const lineName = line => `${nameOf(line[0])} \u2013 ${nameOf(line[1])}`;

function lineTitle(number) {
  const line = fabric.lines[number], ways = [];
  if (line[3]) ways.push(`${line[3]} there, ${rate(line[5])}`);
  if (line[4]) ways.push(`${line[4]} back, ${rate(line[6])}`);
  const load = values.load ? `; the busier way ${percent(values.load.share[number])} busy` : '';
  return `${lineName(line)}: ${ways.join(', ')}${load}`;
}

function fabricPanel() {
  const over = draw('g'), lines = draw('g'), marks = draw('g'), hits = draw('g');
  const view = draw('g', {}, draw('g', {}, fabric.frames.map(frame => [
    draw('rect', {class: 'frame', x: frame[1], y: frame[2], width: frame[3], height: frame[4], rx: 8}),
    text(frame[1] + 8, frame[5] + 4, frame[0], 'start quiet')]).flat()), lines, over, marks, hits);
  const picture = draw('svg', {class: 'fabric', viewBox: `0 0 ${fabric.width} ${fabric.height}`, role: 'img', 'aria-label': values.title}, view);
  const paths = fabric.lines.map(line => {
    const drawn = draw('path', {d: line[2].map(path).join(''), class: 'faint'});
    lines.append(drawn);
    return drawn;
  });
  fabric.lines.forEach((line, number) => hits.append(draw('path', {d: line[2].map(path).join(''), class: 'hit'},
    draw('title', {}, lineTitle(number)))));
  const rankOf = new Map(values.marksOfRanks.map((mark, rank) => [mark, rank]).reverse());
  const boxes = fabric.marks.map((mark, number) => {
    const [label, shape, x, y, width, height, name] = mark, parts = [];
    const kind = ['rank', 'switch', 'group', 'more'][shape];
    const rank = rankOf.get(number);
    let box = null;
    if (kind !== 'more') {
      box = draw('rect', {class: kind, x: x - width / 2, y: y - height / 2, width, height,
        rx: kind === 'rank' ? height / 2 : 4}, draw('title', {}, name));
      if (scenes && rank !== undefined && rank < scenes.roots.length) {
        box.classList.add('pick');
        box.setAttribute('tabindex', 0);
        const pick = () => pickRank(rank);
        box.addEventListener('click', pick);
        box.addEventListener('keydown', event => { if (event.key === 'Enter') pick(); });
      }
      parts.push(box);
    }
    if (label) parts.push(text(x, y + 4, label));
    parts.forEach(part => part.tagName === 'text' && (part.style.pointerEvents = 'none'));
    marks.append(...parts);
    return box;
  });
  view.append(marks);

  const told = make('p', {class: 'told', 'aria-live': 'polite'}), legend = make('div', {class: 'legend'});
  const tabs = [['load', 'Load', values.load], ['cut', 'Bottleneck', values.cut],
    ['scene', {tree: 'Trees', step: 'Steps', route: 'Routes'}[scenes && scenes.kind], scenes]].filter(tab => tab[2]);
  const tabButtons = tabs.map(([key, words]) => [key, button(words, '', () => choose({show: key, frame: -1, line: 0}))]);
  const controls = scenes ? sceneControls() : null;
  const moving = movable(picture, view);
  const shown = () => tabs.some(tab => tab[0] === state.show) ? state.show : tabs.length ? tabs[0][0] : '';

  function paint() {
    over.replaceChildren();
    for (const drawn of paths) drawn.setAttribute('class', 'faint');
    for (const box of boxes) if (box) box.classList.remove('cut', 'chosen');
    const show = shown();
    for (const [key, tab] of tabButtons) tab.setAttribute('aria-pressed', key === show);
    if (controls) controls.bar.hidden = show !== 'scene';
    told.textContent = '';
    if (show === 'load') paintLoad();
    else if (show === 'cut') paintCut();
    else if (show === 'scene') paintScene();
    else legend.replaceChildren();
    const line = Math.abs(state.line);
    if (line && fabric.lines[line - 1]) {
      over.append(draw('path', {d: fabric.lines[line - 1][2].map(path).join(''), class: 'spot'}));
      told.textContent = lineTitle(line - 1);
    }
  }
  function legendOf(entries) {
    legend.replaceChildren(...entries.map(([kind, words]) => make('span', {},
      draw('svg', {width: 24, height: 8}, draw('path', {class: kind, d: 'M0 4h24'})), words)));
  }
  function paintLoad() {
    const used = new Set();
    values.load.share.forEach((share, number) => {
      const level = values.load.full[number] ? 4 : share === 0 ? 0 : share <= 0.15 ? 1 : share <= 0.5 ? 2 : 3;
      used.add(level);
      paths[number].setAttribute('class', LOADS[level][0]);
    });
    legendOf(LOADS.filter((_, level) => used.has(level)));
  }
  function paintCut() {
    for (const number of values.cut.lines) paths[number - 1].setAttribute('class', 'cut');
    for (const number of values.cut.marks) if (boxes[number]) boxes[number].classList.add('cut');
    told.textContent = values.cut.words;
    legendOf([['cut', 'bottleneck cut']]);
  }
  function paintScene() {
    const frames = controls.frames(), last = controls.last();
    const seen = new Map();
    frames.slice(0, last + 1).forEach((frame, place) => frame.forEach(line => seen.has(line) || seen.set(line, place)));
    for (const [line, place] of seen) {
      const number = Math.abs(line) - 1, strokes = fabric.lines[number][2];
      const kind = `hop${Math.min(place + 1, 5)}`;
      over.append(draw('path', {class: kind, d: strokes.map(path).join('') + arrow(line)}));
      if (frames.length > 1 && seen.size <= 120) over.append(...tag(strokes[0], place + 1));
    }
    const home = values.marksOfRanks[state.root];
    if (boxes[home]) boxes[home].classList.add('chosen');
    told.textContent = controls.words();
    const what = {tree: 'hop', step: 'step', route: 'link'}[scenes.kind];
    legendOf(Array.from({length: Math.min(frames.length, 5)}, (_, place) =>
      [`hop${place + 1}`, `${what} ${place + 1}${place === 4 && frames.length > 5 ? ' and later' : ''}`]));
  }
  function arrow(line) {
    const strokes = fabric.lines[Math.abs(line) - 1][2];
    const points = line > 0 ? strokes[strokes.length - 1] : strokes[0];
    const size = points.length;
    let [ax, ay, bx, by] = line > 0 ? points.slice(size - 4) : [points[2], points[3], points[0], points[1]];
    const length = Math.max(Math.hypot(bx - ax, by - ay), 1e-6), ux = (bx - ax) / length, uy = (by - ay) / length;
    const mark = fabric.marks[fabric.lines[Math.abs(line) - 1][line > 0 ? 1 : 0]];
    const back = Math.abs(bx - mark[2]) + Math.abs(by - mark[3]) < 1 ? mark[5] / 2 + 1 : 1;
    bx -= back * ux;
    by -= back * uy;
    const wing = side => [bx - 7 * ux + side * 3.5 * uy, by - 7 * uy - side * 3.5 * ux];
    return path([...wing(1), bx, by, ...wing(-1)]);
  }
  function tag(points, number) {
    const x = (points[0] + points[2]) / 2, y = (points[1] + points[3]) / 2;
    return [draw('circle', {class: 'tag', cx: x, cy: y, r: 6.5}), text(x, y + 4, number)];
  }
  function pickRank(rank) {
    if (scenes.kind === 'route' && shown() === 'scene' && rank !== state.root) choose({target: rank, scene: 0, frame: -1, line: 0});
    else choose({show: 'scene', root: rank, scene: 0, frame: -1, line: 0});
  }

  listeners.push(paint);
  paint();
  return make('section', {id: 'fabric'},
    make('div', {class: 'bar'}, make('h2', {}, 'Fabric'), tabButtons.map(([, tab]) => tab),
      moving, button('Save SVG', 'Save the picture as it is', () => saveSvg('fabric', picture))),
    controls ? controls.bar : null, picture, legend, told,
    fabric.leftOut ? make('p', {class: 'quiet'}, `Drawn: ${fabric.leftOut}.`) : null,
    scenes && scenes.leftOut ? make('p', {class: 'quiet'}, `${scenes.leftOut}.`) : null);
}

// Which data, and how far they have come.
function sceneControls() {
  const isRoute = scenes.kind === 'route';
  const options = (size, words) => Array.from({length: size}, (_, place) => make('option', {value: place}, words(place)));
  const rank = place => values.ranks[place];
  const select = (key, words) => make('select', {'aria-label': words, onchange: event =>
    choose({[key]: Number(event.target.value), ...(key === 'scene' ? {} : {scene: 0}), frame: -1, line: 0})});
  const root = select('root', isRoute ? 'from rank' : 'rank'), target = select('target', 'to rank'), scene = select('scene', 'which of them');
  root.append(...options(scenes.roots.length, rank));
  target.append(...options(isRoute ? values.ranks.length : 0, rank));
  const slider = make('input', {type: 'range', min: 0, 'aria-label': 'how far', oninput: event => choose({frame: Number(event.target.value), line: 0})});
  const place = make('span', {class: 'quiet'});
  let timer = 0;
  const stop = () => { clearInterval(timer); timer = 0; play.textContent = 'Play'; };
  const play = button('Play', 'Hop by hop', () => {
    if (timer) return stop();
    play.textContent = 'Stop';
    choose({frame: 0, line: 0});
    timer = setInterval(() => last() + 1 < frames().length ? choose({frame: last() + 1}) : stop(), 900);
  });

  const within = (number, size) => Math.max(0, Math.min(number, size - 1));
  function list() {
    const row = scenes.roots[within(state.root, scenes.roots.length)];
    return isRoute ? row[within(state.target, row.length)] : row;
  }
  const chosen = () => list()[within(state.scene, list().length)];
  const frames = () => chosen() ? chosen()[1] : [];
  const last = () => state.frame < 0 ? frames().length - 1 : within(state.frame, frames().length);
  function words() {
    const name = rank(within(state.root, scenes.roots.length));
    if (!chosen()) return isRoute ? `${name} sends itself nothing over the network.` : `Nothing of ${name} moves.`;
    const to = isRoute ? ` to ${rank(within(state.target, values.ranks.length))}` : '';
    return `${name}${to}: ${chosen()[0]}.`;
  }
  function update() {
    root.value = within(state.root, scenes.roots.length);
    if (isRoute) target.value = within(state.target, values.ranks.length);
    scene.replaceChildren(...options(list().length, number => list()[number][0]));
    scene.value = within(state.scene, list().length);
    slider.max = Math.max(0, frames().length - 1);
    slider.value = last();
    place.textContent = frames().length ? `${last() + 1} of ${frames().length}` : '';
  }
  listeners.push(update);
  update();
  const bar = make('div', {class: 'bar'}, make('label', {}, isRoute ? 'from' : 'rank', root),
    isRoute ? make('label', {}, 'to', target) : null, scene, play, slider, place);
  return {bar, frames, last, words};
}

// Wheel or buttons zoom, dragging moves.
function movable(picture, view) {
  let scale = 1, x = 0, y = 0, from = null;
  const place = () => view.setAttribute('transform', `translate(${x} ${y}) scale(${scale})`);
  const at = event => {
    const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(picture.getScreenCTM().inverse());
    return [point.x, point.y];
  };
  function zoom(factor, [cx, cy]) {
    const next = Math.max(0.5, Math.min(12, scale * factor));
    x = cx - (cx - x) * next / scale;
    y = cy - (cy - y) * next / scale;
    scale = next;
    place();
  }
  const middle = [fabric.width / 2, fabric.height / 2];
  picture.addEventListener('wheel', event => { event.preventDefault(); zoom(event.deltaY < 0 ? 1.2 : 1 / 1.2, at(event)); }, {passive: false});
  picture.addEventListener('pointerdown', event => { from = at(event); });
  window.addEventListener('pointermove', event => {
    if (!from) return;
    const now = at(event);
    x += now[0] - from[0];
    y += now[1] - from[1];
    from = now;
    place();
  });
  window.addEventListener('pointerup', () => { from = null; });
  return [button('+', 'Larger', () => zoom(1.4, middle)), button('\u2212', 'Smaller', () => zoom(1 / 1.4, middle)),
    button('Whole', 'The whole picture', () => { scale = 1; x = y = 0; place(); })];
}
