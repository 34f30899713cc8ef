// The table of examples. Only visible rows exist as elements, so a table of 100,000 rows scrolls smoothly.
const ROW_HEIGHT = 34, HEAD_HEIGHT = 40;
const COLUMNS = [
  { name: 'id', title: 'Id', right: true }, { name: 'run', title: 'Method' }, { name: 'attack', title: 'Attack', extra: true },
  { name: 'outcome', title: 'Outcome' }, { name: 'label', title: 'Class', extra: true }, { name: 'prediction', title: 'Predicted', extra: true },
  ...PACKED.map((metric, at) => ({ name: metric.name, title: metric.title, right: true, extra: at > 0 })),
];
const Grid = { order: new Uint32Array(0), sort: 'top_k', down: false, active: -1, pool: [] };

const pictureOf = new Map(DATA.pictures.flatMap((example, index) => example.shots.map((shot) => [shot.run + ' ' + example.id, index])));
const datasetCount = new Set(DATA.runs.map((run) => run.dataset)).size;
const runName = (run) => (datasetCount > 1 ? DATA.runs[run].dataset + ' · ' : '') + DATA.runs[run].label;

function cellText(name, row) {
  if (METRICS.has(name)) return show(name, similarity(name, row));
  if (name === 'run') return runName(ROWS.run[row]);
  if (name === 'attack') return DATA.rows.attacks[ROWS.attack[row]];
  if (name === 'outcome') return OUTCOME_TEXT[DATA.outcomes[ROWS.outcome[row]]];
  if (name === 'label' || name === 'prediction') return className(ROWS.run[row], ROWS[name][row]);
  return String(ROWS[name][row]);
}

function chosen() {
  const run = Number(byId('filter-run').value), attack = Number(byId('filter-attack').value), outcome = Number(byId('filter-outcome').value);
  const share = Number(byId('filter-damage').value) / 100;
  const limit = Math.round((share + 1) / 2 * (MISSING - 1));
  const found = new Uint32Array(ROWS.n);
  let n = 0;
  for (let row = 0; row < ROWS.n; row++) {
    if (run >= 0 && ROWS.run[row] !== run) continue;
    if (attack >= 0 && ROWS.attack[row] !== attack) continue;
    if (outcome >= 0 && ROWS.outcome[row] !== outcome) continue;
    if (share < 1 && ROWS.top_k[row] > limit) continue;
    found[n++] = row;
  }
  return found.subarray(0, n);
}

function arrange() {
  const column = ROWS[Grid.sort], way = Grid.down ? -1 : 1;
  const missing = METRICS.has(Grid.sort) ? MISSING : NaN;
  Grid.order = chosen().sort((a, b) => {
    if (column[a] === column[b]) return ROWS.id[a] - ROWS.id[b] || a - b;
    if (column[a] === missing) return 1;
    if (column[b] === missing) return -1;
    return way * (column[a] - column[b]);
  });
  Grid.active = -1;
  byId('grid').scrollTop = 0;
  byId('grid').setAttribute('aria-rowcount', String(Grid.order.length + 1));
  byId('grid').removeAttribute('aria-activedescendant');
  byId('grid-body').style.height = Grid.order.length * ROW_HEIGHT + 'px';
  byId('row-count').textContent = Grid.order.length.toLocaleString('en') + ' of ' + ROWS.n.toLocaleString('en') + ' rows';
  for (const head of byId('grid-head').children) {
    head.setAttribute('aria-sort', head.dataset.name !== Grid.sort ? 'none' : Grid.down ? 'descending' : 'ascending');
  }
  paint();
}

function fill(element, at) {
  const row = Grid.order[at];
  element.id = 'row-' + at;
  element.dataset.at = at;
  element.setAttribute('aria-rowindex', String(at + 2));
  element.setAttribute('aria-selected', String(at === Grid.active));
  element.classList.toggle('active', at === Grid.active);
  element.style.transform = 'translateY(' + at * ROW_HEIGHT + 'px)';
  COLUMNS.forEach((column, place) => {
    const cell = element.children[place], text = cellText(column.name, row);
    const target = column.name === 'run' ? cell.lastChild : cell;
    target.textContent = text;
    cell.title = text;
    if (column.name === 'run') cell.className = 'name c' + DATA.runs[ROWS.run[row]].look;
  });
}

function newRow() {
  const cells = COLUMNS.map((column) => {
    const cell = make('div', { role: 'gridcell', class: (column.right ? 'r ' : '') + (column.extra ? 'extra' : '') });
    if (column.name === 'run') cell.append(make('i', { class: 'swatch' }), make('span', {}));
    return cell;
  });
  return make('div', { class: 'row', role: 'row' }, ...cells);
}

function paint() {
  const grid = byId('grid');
  const first = Math.max(0, Math.floor(grid.scrollTop / ROW_HEIGHT) - 3);
  const count = Math.min(Grid.order.length - first, Math.ceil(grid.clientHeight / ROW_HEIGHT) + 6);
  while (Grid.pool.length < count) {
    Grid.pool.push(newRow());
    byId('grid-body').append(Grid.pool.at(-1));
  }
  Grid.pool.forEach((element, place) => {
    element.hidden = place >= count;
    if (place < count) fill(element, first + place);
    else element.removeAttribute('id');
  });
}

function activate(at) {
  const grid = byId('grid');
  Grid.active = Math.min(Math.max(at, 0), Grid.order.length - 1);
  if (Grid.active < 0) return;
  const top = Grid.active * ROW_HEIGHT, room = grid.clientHeight - HEAD_HEIGHT - ROW_HEIGHT;
  if (top < grid.scrollTop) grid.scrollTop = top;
  if (top > grid.scrollTop + room) grid.scrollTop = top - room;
  paint();
  grid.setAttribute('aria-activedescendant', 'row-' + Grid.active);
  detail(Grid.order[Grid.active]);
}

function detail(row) {
  const winner = DATA.rows.winners[ROWS.winner[row]];
  const list = COLUMNS.map((column) => [column.title, cellText(column.name, row)]);
  for (const metric of OTHERS) list.push([metric.title, show(metric.name, ROWS[metric.name][row])]);
  list.push(['Completeness gap', show('', ROWS.completeness_gap[row])]);
  if (winner) list.push(['Winning attack', winner]);
  const index = pictureOf.get(ROWS.run[row] + ' ' + ROWS.id[row]);
  const button = make('button', { type: 'button', disabled: index === undefined }, index === undefined ? 'No pictures were kept for this example' : 'Show pictures');
  button.addEventListener('click', () => showPictures(row));
  byId('detail').replaceChildren(entries(list), button);
}

function showPictures(row) {
  const index = pictureOf.get(ROWS.run[row] + ' ' + ROWS.id[row]);
  if (index === undefined) return;
  selectPicture(index, true);
  byId('pictures').scrollIntoView();
}

function gridKeys(event) {
  if (event.target !== byId('grid')) return;
  const page = Math.max(1, Math.floor(byId('grid').clientHeight / ROW_HEIGHT) - 2);
  const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
  if (event.key in steps) activate(Grid.active < 0 && event.key !== 'End' ? 0 : Grid.active + steps[event.key]);
  else if (event.key === 'Enter' && Grid.active >= 0) showPictures(Grid.order[Grid.active]);
  else return;
  event.preventDefault();
}

function options(id, all, names) {
  byId(id).replaceChildren(make('option', { value: '-1' }, all), ...names.map((name, at) => make('option', { value: String(at) }, name)));
}

function resetFilters() {
  byId('filter-run').value = byId('filter-outcome').value = '-1';
  byId('filter-attack').value = String(DATA.rows.attacks.indexOf(DATA.headline));
  byId('filter-damage').value = '100';
  byId('damage-text').textContent = '100 %';
}

function startRows() {
  byId('grid-head').append(...COLUMNS.map((column) => {
    const button = make('button', { type: 'button' }, column.title);
    button.addEventListener('click', () => {
      Grid.down = Grid.sort === column.name && !Grid.down;
      Grid.sort = column.name;
      arrange();
    });
    return make('div', { role: 'columnheader', class: (column.right ? 'r ' : '') + (column.extra ? 'extra' : ''), 'data-name': column.name }, button);
  }));
  options('filter-run', 'All methods', DATA.runs.map((_, at) => runName(at)));
  options('filter-attack', 'All attacks', DATA.rows.attacks);
  options('filter-outcome', 'All outcomes', DATA.outcomes.map((name) => OUTCOME_TEXT[name]));
  resetFilters();
  byId('filters').addEventListener('input', (event) => {
    if (event.target.id === 'filter-damage') byId('damage-text').textContent = event.target.value + ' %';
    arrange();
  });
  byId('filter-reset').addEventListener('click', () => { resetFilters(); arrange(); });
  byId('grid').addEventListener('scroll', () => requestAnimationFrame(paint), { passive: true });
  byId('grid').addEventListener('keydown', gridKeys);
  byId('grid-body').addEventListener('click', (event) => {
    const row = event.target.closest('.row');
    if (row) activate(Number(row.dataset.at));
  });
  window.addEventListener('resize', paint);
  arrange();
}
