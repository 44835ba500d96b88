// Elements, numbers as people read them, and files to save. Text is only ever set as text.
const values = JSON.parse(document.getElementById('values').textContent);
const SVG = 'http://www.w3.org/2000/svg';

function filled(node, attributes, children) {
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key.startsWith('on')) node.addEventListener(key.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(key, value);
  }
  for (const child of children.flat()) if (child !== null) node.append(child);
  return node;
}
const make = (name, attributes, ...children) => filled(document.createElement(name), attributes, children);
const draw = (name, attributes, ...children) => filled(document.createElementNS(SVG, name), attributes, children);
const path = points => points.reduce((words, value, place) => words + (place % 2 ? ' ' : place ? 'L' : 'M') + value, '');
const text = (x, y, words, kind) => draw('text', {x, y, class: kind || ''}, String(words));
const button = (words, title, action) => make('button', {type: 'button', title, onclick: action}, words);

const digits = (value, most) => String(Number(value.toPrecision(most || 4)));
const percent = share => `${digits(100 * share, 3)}%`;
function bytes(size) {
  const power = Math.min(4, Math.floor(Math.log2(Math.max(1, size)) / 10));
  return digits(size / 1024 ** power) + ['B', 'KB', 'MB', 'GB', 'TB'][power];
}
function duration(seconds) {
  if (seconds === 0) return '0';
  if (seconds < 1e-3) return `${digits(seconds * 1e6)} us`;
  return seconds < 1 ? `${digits(seconds * 1e3)} ms` : `${digits(seconds)} s`;
}
const RATES = ['B/s', 'kB/s', 'MB/s', 'GB/s', 'TB/s'];
const rateUnit = most => Math.min(4, Math.max(0, Math.floor(Math.log10(Math.max(1, most)) / 3 + 1e-9)));
const rate = value => `${digits(value / 1000 ** rateUnit(value))} ${RATES[rateUnit(value)]}`;
const count = (number, noun) => `${number.toLocaleString('en')} ${noun}${number === 1 ? '' : 's'}`;
const fromBase64 = words => Uint8Array.from(atob(words), letter => letter.charCodeAt(0));

function save(name, kind, content) {
  const link = make('a', {href: URL.createObjectURL(new Blob([content], {type: kind})), download: name});
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
const saveCsv = (name, rows) => save(`${name}.csv`, 'text/csv', rows.map(row => row.map(cell => {
  const words = typeof cell === 'string' && /^[=+@\t\r-]./.test(cell) && isNaN(cell) ? `'${cell}` : String(cell);
  return /[",\n]/.test(words) ? `"${words.replaceAll('"', '""')}"` : words;
}).join(',')).join('\r\n') + '\r\n');

// What a picture looks like here, written into it, so that the file needs no style sheet.
const KEPT = ['fill', 'stroke', 'stroke-width', 'stroke-dasharray', 'opacity', 'font', 'text-anchor'];
function saveSvg(name, picture) {
  const copy = picture.cloneNode(true);
  const from = [picture, ...picture.querySelectorAll('*')], to = [copy, ...copy.querySelectorAll('*')];
  from.forEach((node, place) => {
    const style = getComputedStyle(node);
    for (const key of KEPT) {
      const value = style.getPropertyValue(key);
      if (value) to[place].setAttribute(key, value);
    }
    to[place].removeAttribute('class');
    to[place].removeAttribute('tabindex');
  });
  copy.setAttribute('xmlns', SVG);
  save(`${name}.svg`, 'image/svg+xml', new XMLSerializer().serializeToString(copy));
}
