// Tables of figures as values say: [heading, form] of each column, and rows.
const FORMS = {text: String, s: duration, B: bytes, rate, share: percent, n: value => value.toLocaleString('en'), x: value => digits(value, 4)};
const shownAs = (value, form) => value === null ? '\u2013' : FORMS[form](value);

// A row that can be chosen sets the state's `picks` to its number.
function picked(rows, picks) {
  const paint = () => rows.forEach((row, place) => {
    row.classList.toggle('chosen', state[picks] === place);
    row.setAttribute('aria-current', state[picks] === place);
  });
  rows.forEach((row, place) => {
    const pick = () => choose({[picks]: place});
    row.setAttribute('tabindex', 0);
    row.addEventListener('click', pick);
    row.addEventListener('keydown', event => { if (event.key === 'Enter') pick(); });
  });
  listeners.push(changes => { if (picks in changes) paint(); });
  paint();
}
function tablePanel(table) {
  const {id, title, note, columns, rows, picks, leftOut} = table;
  const right = form => form === 'text' ? '' : 'n';
  const shown = rows.map(row => make('tr', {}, row.map((value, place) => make('td', {class: right(columns[place][1])}, shownAs(value, columns[place][1])))));
  if (picks) picked(shown, picks);
  return make('section', {id}, make('div', {class: 'bar'}, make('h2', {}, title), note ? make('span', {class: 'quiet'}, note) : null,
    button('Save CSV', '', () => saveCsv(id, [columns.map(([words, form]) => words + (CSV_UNITS[form] || '')), ...rows.map(row => row.map(value => value ?? ''))]))),
  make('div', {class: 'scroll'}, make('table', {}, make('thead', {}, make('tr', {}, columns.map(([words, form]) => make('th', {class: right(form)}, words)))), make('tbody', {}, shown))),
  leftOut ? make('p', {class: 'quiet'}, leftOut) : null);
}
const CSV_UNITS = {s: ' (s)', B: ' (bytes)', rate: ' (bytes/s)'};
function factsTable(title, facts) {
  return make('section', {id: 'facts'}, make('div', {class: 'bar'}, make('h2', {}, title)),
    make('table', {}, make('tbody', {}, facts.map(([key, words]) => make('tr', {}, make('td', {class: 'quiet'}, key), make('td', {}, words))))));
}
