// What every page has: its head, its theme, its columns.
const isDark = () => document.documentElement.dataset.theme ? document.documentElement.dataset.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
function headPanel() {
  const theme = button('\u25d0', 'Light or dark', () => choose({theme: isDark() ? 'light' : 'dark'}));
  theme.id = 'theme';
  return make('header', {}, make('div', {}, make('h1', {}, values.title), values.lede ? make('p', {class: 'quiet'}, values.lede) : null),
    make('div', {class: 'tiles'}, values.tiles.map(([big, small, kind]) => make('div', {class: `tile ${kind}`}, make('b', {}, big), make('span', {}, small))), theme));
}
function paintTheme() {
  if (state.theme === 'light' || state.theme === 'dark') document.documentElement.dataset.theme = state.theme;
  else delete document.documentElement.dataset.theme;
}
function fillPage(left, right) {
  listeners.push(paintTheme);
  paintTheme();
  document.getElementById('page').replaceChildren(headPanel(), left, right);
  document.documentElement.dataset.ready = Math.round(performance.now());
}
