// Pictures: select an example and drag between clean and perturbed; all methods share one colour scale.
const Pictures = { current: -1, mode: 'wipe', mix: 50, stacks: [] };

function picture(address, colored, text) {
  const canvas = make('canvas', { class: 'picture', role: 'img', 'aria-label': text });
  draw(canvas, address, colored);
  return canvas;
}

function stack(clean, perturbed, colored, text) {
  const over = picture(perturbed, colored, text + ', perturbed');
  const edge = make('div', { class: 'edge' });
  const box = make('div', { class: 'stack drag' }, picture(clean, colored, text + ', clean'), over, edge);
  const drag = (event) => {
    const place = box.getBoundingClientRect();
    setMix(100 - Math.round(100 * (event.clientX - place.left) / place.width));
  };
  box.addEventListener('pointerdown', (event) => { box.setPointerCapture(event.pointerId); drag(event); });
  box.addEventListener('pointermove', (event) => { if (box.hasPointerCapture(event.pointerId)) drag(event); });
  Pictures.stacks.push({ over, edge });
  return box;
}

const captioned = (element, ...texts) => make('figure', {}, element, make('figcaption', {}, ...texts.map((text) => make('span', {}, text))));

function pair(example, shot) {
  if (Pictures.mode === 'side') {
    return make('div', { class: 'pair' },
      captioned(picture(example.clean, false, 'clean image'), 'Image'),
      captioned(picture(shot.perturbed, false, 'perturbed image'), 'Perturbed'),
      captioned(picture(shot.clean_map, true, 'clean map'), 'Map'),
      captioned(picture(shot.perturbed_map, true, 'perturbed map'), 'Map, perturbed'));
  }
  const names = (name) => Pictures.mode === 'wipe' ? [name + ', clean', 'perturbed'] : [name];
  return make('div', { class: 'pair' },
    captioned(stack(example.clean, shot.perturbed, false, 'image'), ...names('Image')),
    captioned(stack(shot.clean_map, shot.perturbed_map, true, 'map'), ...names('Map')));
}

function card(example, shot) {
  const run = DATA.runs[shot.run];
  const scores = DATA.metrics.filter((metric) => metric.level === 'headline').map((metric) => [metric.title, show(metric.name, shot[metric.name])]);
  scores.push(['Predicted', className(shot.run, shot.prediction)]);
  if (shot.outcome && shot.outcome !== 'attacked') scores.push(['Outcome', OUTCOME_TEXT[shot.outcome]]);
  const list = entries(scores);
  list.className = 'scores';
  return make('article', { class: 'card c' + run.look }, make('h3', {}, make('i', { class: 'swatch' }), make('span', {}, run.label)), pair(example, shot), list);
}

function selectPicture(index, focus = false) {
  const example = DATA.pictures[index];
  Pictures.current = index;
  Pictures.stacks = [];
  [...byId('picker').children].forEach((button, at) => {
    button.setAttribute('aria-checked', String(at === index));
    button.tabIndex = at === index ? 0 : -1;
    if (at === index && focus) button.focus();
    if (at === index) byId('picker').scrollLeft = button.offsetLeft - byId('picker').clientWidth / 2;  // scrolls the picker, not the page
  });
  const attacks = [...new Set(example.shots.map((shot) => shot.attack))].join(', ');
  const name = example.name ? ' (' + example.name + ')' : '';
  byId('picture-text').textContent = example.dataset + ', example ' + example.id + name + ', class ' + className(example.shots[0].run, example.label) + ', attack ' + attacks;
  byId('scale-text').textContent = example.scale.toFixed(1) + ' × the average pixel, or more';
  byId('cards').className = Pictures.mode === 'side' ? 'cards side' : 'cards';
  byId('cards').replaceChildren(...example.shots.map((shot) => card(example, shot)));
  setMix(Pictures.mix);
}

function setMix(percent) {
  Pictures.mix = Math.min(100, Math.max(0, percent));
  byId('mix').value = Pictures.mix;
  byId('mix-text').textContent = Pictures.mix + ' %';
  for (const { over, edge } of Pictures.stacks) {
    const wipe = Pictures.mode === 'wipe';
    over.style.clipPath = wipe ? 'inset(0 0 0 ' + (100 - Pictures.mix) + '%)' : 'none';
    over.style.opacity = wipe ? 1 : Pictures.mix / 100;
    edge.style.left = 100 - Pictures.mix + '%';
    edge.hidden = !wipe;
  }
}

function setMode(mode) {
  Pictures.mode = mode;
  for (const button of byId('modes').children) button.setAttribute('aria-pressed', String(button.dataset.mode === mode));
  byId('mix').disabled = mode === 'side';
  selectPicture(Pictures.current);
}

function pickerKeys(event) {
  const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  const n = DATA.pictures.length;
  const target = event.key === 'Home' ? 0 : event.key === 'End' ? n - 1 : step ? (Pictures.current + step + n) % n : -1;
  if (target < 0) return;
  event.preventDefault();
  selectPicture(target, true);
}

function startPictures() {
  byId('picker').append(...DATA.pictures.map((example, index) => {
    const image = make('img', { class: 'picture', src: example.clean, alt: '' });
    const button = make('button', { type: 'button', role: 'radio', 'aria-label': example.dataset + ', example ' + example.id }, image, '#' + example.id);
    button.addEventListener('click', () => selectPicture(index));
    return button;
  }));
  byId('picker').addEventListener('keydown', pickerKeys);
  byId('mix').addEventListener('input', (event) => setMix(Number(event.target.value)));
  byId('modes').addEventListener('click', (event) => { if (event.target.dataset.mode) setMode(event.target.dataset.mode); });
  const scale = byId('scale').getContext('2d');
  HEAT.forEach((color, level) => { scale.fillStyle = 'rgb(' + color.join(' ') + ')'; scale.fillRect(level, 0, 1, 1); });
  selectPicture(0);
}
