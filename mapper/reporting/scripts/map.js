// The map: layers, values under the pointer, zoom, and the shapes of the present story. Draws the
// numbers in the data at the same positions and in the same colours as the static picture.
const tip = document.getElementById("tip");
// Links of a core (east, west, south, north): start of a stroke, and its length.
const STARTS = [[7, 5.1, 3, 0], [0, 1.9, -3, 0], [1.9, 7, 0, 3], [5.1, 0, 0, -3]];
const FULL = [0, 70, 0, 70]; // tenths of a unit: left, right, top and bottom of a square

const state = { layer: data.first, links: data.sent, zoom: "used" };
const maps = data.mappings.map((mapping, index) => makeMap(mapping, index));

function makeMap(mapping, index) {
  const box = document.querySelector(`.map[data-mapping="${index}"]`);
  const map = { index, mapping, box, board: box.querySelector(".board"), at: null, story: null,
    window: mapping.window, panel: document.querySelector(`.panel[data-mapping="${index}"]`) };
  for (const name of ["cursor", "chosen", "rays", "wire"])
    map[name + "Mark"] = box.querySelector("." + name);
  map.idle = [...map.panel.children];
  map.base = map.board.querySelector(".base");
  if (map.base.tagName === "CANVAS") {
    map.board.querySelector(".still").remove();
    map.base.hidden = false;
    map.canvas = true;
  }
  mapping.layers.fill = mapping.usage.neurons.map(
    (used, core) => used / limitOf(mapping, "neurons", core));
  return map;
}
// A limit of a core: one number for all cores, or a list where cores differ.
function limitOf(mapping, name, core) {
  const limit = mapping.limits[name];
  return Array.isArray(limit) ? limit[core] : limit;
}

const loadsOf = (map, d) => (map.mapping.links[state.links] ?? [])[d] ?? [];
const present = (map, kind) => map.story !== null && map.story.kind === kind ? map.story : null;

// Values of the cells, and the value of the strongest colour.
function shown(map) {
  const story = present(map, "core");
  if (!story) return { values: map.mapping.layers[state.layer], scale: data.scales[state.layer] };
  const values = new Array(map.mapping.state.length).fill(0);
  for (const [core, share] of destinations(map, story.core)) values[core] = share;
  return { values, scale: Math.max(...values), only: true };
}
function destinations(map, core) {
  const { kept, destination, share } = map.mapping, found = [];
  if (!kept) return found;
  for (let i = core * kept; i < (core + 1) * kept && share[i] > 0; i++)
    found.push([destination[i], share[i]]);
  return found;
}
// Populations of a cell with their neurons, most first.
function peopleOf(map, core) {
  const { start, population, neurons } = map.mapping.people, found = [];
  for (let i = start[core]; i < start[core + 1]; i++) found.push([population[i], neurons[i]]);
  return found;
}
// Rectangles of the populations in a cell, by colour: the same as `segments` of chipmap.py.
function segments(map, core) {
  const own = peopleOf(map, core), { colour } = map.mapping.people;
  const all = sum(own.map(([, count]) => count));
  const few = own.filter(([, count], i) => !i || (data.segments > 1 && i < data.segments
    && count >= 0.08 * all)).sort(([a], [b]) => a - b);
  const total = sum(few.map(([, count]) => count));
  let before = 0;
  return few.map(([population, count]) => {
    const left = Math.floor(70 * before / total + 0.5);
    before += count;
    return [colour[population], [left, Math.floor(70 * before / total + 0.5), 0, 70]];
  });
}

function sorted(map) { // squares by colour, links by strength
  const { mapping } = map, { columns } = mapping, cells = new Map(), empty = [], off = [];
  const draw = (name, core, place) => {
    if (!cells.has(name)) cells.set(name, []);
    cells.get(name).push([core, place]);
  };
  const layer = present(map, "population"), core = present(map, "core");
  const people = !core && (layer || state.layer === "population");
  const view = people ? null : shown(map);
  const router = !people && state.layer === "router" && !view.only; // spikes also visit empty cores
  mapping.state.forEach((kind, at) => {
    const passed = router && view.values[at] > 0;
    if (kind === UNAVAILABLE) off.push(at);
    if (kind === UNAVAILABLE && !passed) return;
    if (layer) {
      const own = peopleOf(map, at), mine = own.find(([p]) => p === layer.population);
      if (!mine) empty.push(at);
      else {
        const share = mine[1] / sum(own.map(([, count]) => count));
        const height = Math.max(14, Math.floor(70 * share + 0.5));
        const colour = mapping.people.colour[layer.population];
        draw(colour < 0 ? "px" : "p" + colour, at, [0, 70, 70 - height, 70]);
      }
    } else if (people && kind === USED) {
      for (const [colour, place] of segments(map, at))
        draw(colour < 0 ? "px" : "p" + colour, at, place);
    } else if (!people && (view.only ? view.values[at] > 0 : kind === USED || passed)) {
      draw("c" + step(view.values[at], view.scale, data.steps), at, FULL);
    } else empty.push(at);
  });
  const links = Array.from({ length: data.linkSteps }, () => []);
  const { loads, scale } = strengths(map, layer);
  loads.forEach((some, d) => some.forEach((load, at) => {
    if (load > 0) links[step(load, scale, data.linkSteps)].push([d, at % columns,
      Math.floor(at / columns)]);
  }));
  return { cells, empty, off, links };
}
// Loads of the links, or with a population its part of them.
function strengths(map, layer) {
  if (state.links === "none") return { loads: [], scale: 1 };
  const { mapping } = map;
  if (!layer || !mapping.people.linkPairs.length)
    return { loads: mapping.links[state.links], scale: data.scales["links " + state.links] };
  const [source] = mapping.people.pairs;
  const loads = mapping.people.linkPairs.map((cells, d) => cells.map((pairs, at) =>
    sum(pairs.map((pair, i) => source[pair] === layer.population
      ? mapping.people.linkTraffic[d][at][i] : 0))));
  return { loads, scale: Math.max(...loads.map(some => Math.max(...some))) };
}

function paint(map) {
  const parts = sorted(map), [x, y, wide, high] = map.window;
  for (const svg of map.board.querySelectorAll("svg"))
    svg.setAttribute("viewBox", `${10 * x} ${10 * y} ${10 * wide} ${10 * high}`);
  map.box.style.setProperty("--ratio", (wide / high).toFixed(4));
  map.box.style.setProperty("--most", `${96 * wide}px`);
  const { tile, width, height } = map.mapping;
  [[x, wide, width], [y, high, height]].forEach(([first, count, all], i) => {
    const [from, to] = map.box.querySelectorAll(i ? ".edge.y span" : ".edge.x span");
    from.textContent = `${i ? "y" : "x"} ${first * tile}`;
    if (to) to.textContent = Math.min((first + count) * tile, all) - 1;
  });
  if (map.canvas) paintCanvas(map, parts);
  else paintSvg(map, parts);
  const core = present(map, "core"), link = present(map, "link");
  map.board.classList.toggle("picked", core !== null);
  outline(map.chosenMark, map, core ? core.core : null);
  rays(map, core);
  wire(map, link);
  describe(map);
}

function paintSvg(map, { cells, empty, off, links }) {
  const { columns } = map.mapping;
  const draw = (kind, d) => map.base.querySelector(kind).setAttribute("d", d);
  const place = (core, [left, right, top, bottom]) => {
    const x = 100 * (core % columns) + left, y = 100 * Math.floor(core / columns) + top;
    const wide = (right - left) / 10, high = (bottom - top) / 10;
    return `M${x / 10} ${y / 10}h${wide}v${high}h${-wide}z`;
  };
  for (const path of map.base.querySelectorAll(".cells path")) {
    const drawn = cells.get(path.getAttribute("class")) ?? [];
    path.setAttribute("d", drawn.map(([core, where]) => place(core, where)).join(""));
  }
  draw(".empty", empty.map(core => place(core, FULL)).join(""));
  draw(".off", off.map(core => `M${10 * (core % columns) + 1.5} ${10 * Math.floor(core / columns)
    + 1.5}l4 4m0-4l-4 4`).join(""));
  links.forEach((strokes, i) => draw(".links .l" + i, strokes.map(([d, x, y]) => {
    const [left, top, dx, dy] = STARTS[d];
    return `M${10 * x + left} ${10 * y + top}${dx ? "h" + dx : "v" + dy}`;
  }).join("")));
  map.base.setAttribute("aria-label", `${data.titles[state.layer]} of every core`);
}

function paintCanvas(map, { cells, empty, off, links }) {
  const { columns } = map.mapping, [left, top, wide, high] = map.window;
  const pitch = map.pitch = Math.max(1, Math.min(16, Math.floor(2000 / Math.max(wide, high))));
  map.base.width = pitch * wide;
  map.base.height = pitch * high;
  const pen = map.base.getContext("2d");
  const style = getComputedStyle(root), colour = name => style.getPropertyValue(name).trim();
  pen.setTransform(pitch / 10, 0, 0, pitch / 10, -left * pitch, -top * pitch);
  // With a few pixels per cell, gaps would only dim it.
  const [inset, size] = pitch < 6 ? [0, 10] : [1.5, 7];
  const place = core => [10 * (core % columns) + inset, 10 * Math.floor(core / columns) + inset];
  if (pitch >= 6) {
    pen.globalAlpha = present(map, "core") ? 0.25 : 1;
    links.forEach((strokes, i) => {
      pen.strokeStyle = colour("--l" + i);
      pen.lineWidth = 0.5 + 1.7 * (i + 0.5) / data.linkSteps;
      pen.beginPath();
      for (const [d, x, y] of strokes) {
        const [startX, startY, dx, dy] = STARTS[d];
        pen.moveTo(10 * x + startX + 1.5, 10 * y + startY + 1.5);
        pen.lineTo(10 * x + startX + dx + 1.5, 10 * y + startY + dy + 1.5);
      }
      pen.stroke();
    });
    pen.globalAlpha = 1;
  }
  for (const [name, drawn] of cells) {
    pen.fillStyle = colour("--" + name);
    for (const [core, [from, to, above, below]] of drawn) {
      const [x, y] = place(core);
      pen.fillRect(x + from * size / 70, y + above * size / 70, (to - from) * size / 70,
        (below - above) * size / 70);
    }
  }
  pen.lineWidth = 0.5;
  pen.strokeStyle = colour("--hollow");
  for (const core of empty) pen.strokeRect(...place(core), size, size);
  pen.lineWidth = 1.1;
  pen.strokeStyle = colour("--soft");
  pen.beginPath();
  for (const core of off) {
    const x = 10 * (core % columns), y = 10 * Math.floor(core / columns);
    pen.moveTo(x + 3, y + 3); pen.lineTo(x + 7, y + 7);
    pen.moveTo(x + 7, y + 3); pen.lineTo(x + 3, y + 7);
  }
  pen.stroke();
}

function outline(shape, map, core) {
  shape.classList.toggle("show", core !== null);
  if (core === null) return;
  shape.setAttribute("x", 10 * (core % map.mapping.columns) + 0.7);
  shape.setAttribute("y", 10 * Math.floor(core / map.mapping.columns) + 0.7);
}
function wire(map, link) { // the selected link
  map.wireMark.classList.toggle("show", link !== null);
  if (link === null) return;
  const { columns } = map.mapping, [left, top, dx, dy] = STARTS[link.d];
  const x = 10 * (link.core % columns) + left + 1.5;
  const y = 10 * Math.floor(link.core / columns) + top + 1.5;
  map.wireMark.setAttribute("d", `M${x - dx / 2} ${y - dy / 2}l${2 * dx} ${2 * dy}`);
}
function rays(map, story) { // from the selected core, wider for more traffic
  map.raysMark.replaceChildren();
  if (story === null) return;
  const { columns } = map.mapping, centre = core =>
    [10 * (core % columns) + 5, 10 * Math.floor(core / columns) + 5];
  const [x, y] = centre(story.core), found = destinations(map, story.core).slice(0, 16);
  for (const [core, share] of found) {
    const [left, top] = centre(core), ray = document.createElementNS(SVG, "path");
    ray.setAttribute("d", `M${x} ${y}L${left} ${top}`);
    ray.setAttribute("stroke-width", (0.8 + 3 * share / found[0][1]).toFixed(2));
    map.raysMark.append(ray);
  }
}

function legends() {
  const cells = document.querySelector('[data-legend="cells"]');
  const links = document.querySelector('[data-legend="links"]');
  const cores = maps.filter(map => present(map, "core"));
  const layer = maps.length && present(maps[0], "population");
  const one = cores.length && maps.length === 1 ? shown(cores[0]) : null;
  const names = !one && (state.layer === "population" || layer);
  cells.hidden = Boolean(names);
  const top = one ? one.scale : data.scales[state.layer];
  const written = value => state.layer === "fill" && !one ? Math.round(100 * value) + "%"
    : number(value);
  cells.querySelector("figcaption").textContent = one
    ? `Traffic from core ${cores[0].story.core}` : data.titles[state.layer];
  cells.querySelectorAll(".ticks span").forEach((tick, i) => {
    tick.textContent = written(top * i / 2);
  });
  document.getElementById("hollow").textContent = cores.length
    ? "no neurons, or not one of its strongest destinations" : layer
      ? `no neurons of ${maps[0].mapping.people.names[layer.population]}` : "no neurons";
  links.hidden = state.links === "none";
  if (!links.hidden) {
    const scale = strengths(maps[0], maps.length === 1 ? layer : null).scale;
    links.querySelector("figcaption").textContent = layer && maps.length === 1
      ? "Link load from its neurons" : `Link load, ${state.links}`;
    links.querySelectorAll(".ticks span").forEach((tick, i) => {
      tick.textContent = number(scale * i / 2);
    });
  }
  const route = state.links === "none" ? "" : ` Links, ${state.links}: ${data.routes[state.links]}.`;
  const own = cores.length && maps.length > 1
    ? " The strongest destination of a selected core has the strongest colour." : "";
  document.getElementById("says").textContent =
    `${data.titles[state.layer]}: ${data.meanings[state.layer]}.${route}${own}`;
}
