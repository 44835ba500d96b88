// The page of a step of training, or of a plan that shards a model.
const panels = side => make('div', {class: 'column'}, values[side].map(one => ({
  lanes: lanesPanel, bars: () => barsPanel(one), table: () => tablePanel(one), facts: () => factsTable(one.title, one.rows),
})[one.panel]()));
fillPage(panels('left'), panels('right'));
