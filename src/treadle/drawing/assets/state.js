// What is chosen, kept in the address so that a link shows the same; `first` is the page's own.
const state = {...first};
const listeners = [];

function readAddress() {
  Object.assign(state, first);
  for (const [key, value] of new URLSearchParams(location.hash.slice(1))) {
    if (!(key in state)) continue;
    if (typeof first[key] === 'string') state[key] = value;
    else if (/^-?[0-9]{1,6}$/.test(value)) state[key] = Number(value);
  }
}
function choose(changes) {
  Object.assign(state, changes);
  const words = new URLSearchParams();
  for (const key of Object.keys(first)) if (state[key] !== first[key]) words.set(key, state[key]);
  history.replaceState(null, '', `#${words}`);
  for (const listener of listeners) listener(changes);
}
window.addEventListener('hashchange', () => {
  readAddress();
  for (const listener of listeners) listener(state);
});
readAddress();
