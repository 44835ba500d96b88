// Wholes and their parts: a bar a row, a part a segment with its name in it or under the pointer.
function barsPanel(bars) {
  const {id, title, note, form, kinds, rows, picks, limit} = bars;
  const W = 760, left = 190, right = 92, tall = 24, step = 32, H = rows.length * step + 12;
  const most = Math.max(...rows.map(row => row[1].reduce((sum, value) => sum + value, 0)), limit || 0) || 1;
  const scale = (W - left - right) / most;
  const told = make('p', {class: 'told', 'aria-live': 'polite'});
  const picture = draw('svg', {class: 'chart', viewBox: `0 0 ${W} ${H}`, role: 'img', 'aria-label': title});
  const groups = rows.map(([name, parts], place) => {
    const y = 6 + place * step, whole = parts.reduce((sum, value) => sum + value, 0);
    const group = draw('g', {class: 'row'}, draw('rect', {class: 'back', x: 0, y: y - 4, width: W, height: step, rx: 5}),
      text(left - 10, y + 16, shortened(name, 27), 'end'), text(left + whole * scale + 8, y + 16, shownAs(whole, form), 'start'));
    let from = 0;
    parts.forEach((value, kind) => {
      if (!value) return;
      const width = value * scale, [words, letters, style] = kinds[kind];
      group.append(draw('rect', {class: `seg f${style}`, x: left + from * scale, y, width, height: tall},
        draw('title', {}, `${name}: ${words} ${shownAs(value, form)}`)));
      if (width > letters.length * 8 + 4) group.append(text(left + from * scale + width / 2, y + 16, letters, `on-${style}`));
      from += value;
    });
    group.addEventListener('pointerenter', () => { told.textContent = `${name}: ` + parts.flatMap((value, kind) => value ? [`${kinds[kind][0]} ${shownAs(value, form)}`] : []).join(', '); });
    picture.append(group);
    return group;
  });
  if (limit) picture.append(draw('path', {class: 'bound', d: `M${left + limit * scale} 0V${H}`}, draw('title', {}, shownAs(limit, form))));
  if (picks) picked(groups, picks);
  const used = kinds.filter((_, kind) => rows.some(row => row[1][kind]));
  return make('section', {id}, make('div', {class: 'bar'}, make('h2', {}, title), note ? make('span', {class: 'quiet'}, note) : null,
    button('Save SVG', '', () => saveSvg(id, picture)),
    button('Save CSV', '', () => saveCsv(id, [['', ...kinds.map(([words]) => words + (CSV_UNITS[form] || ''))], ...rows.map(([name, parts]) => [name, ...parts])]))),
  picture, keyOf(used, limit ? bars.limitWords : ''), told);
}
const shortened = (words, most) => words.length > most ? words.slice(0, most - 1) + '\u2026' : words;
function keyOf(kinds, line) {
  return make('div', {class: 'legend'}, kinds.map(([words, letters, style]) => make('span', {},
    draw('svg', {width: 14, height: 12}, draw('rect', {class: `f${style}`, width: 14, height: 12, rx: 2})), letters.length > 3 ? words : `${letters} ${words}`)),
  line ? make('span', {}, draw('svg', {class: 'chart key', width: 26, height: 12}, draw('path', {class: 'bound', d: 'M0 6h26'})), line) : null);
}
