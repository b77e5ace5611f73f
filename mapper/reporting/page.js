// Layers, values under the pointer and selected cores. Draws the numbers in #data at the same
// positions and in the same colours as the static picture of the page.
(() => {
  "use strict";
  const data = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;
  root.classList.add("js");
  const tip = document.getElementById("tip");
  const says = document.getElementById("says");
  const SVG = "http://www.w3.org/2000/svg";
  const USED = 1, UNAVAILABLE = 2;
  // Links of a core (east, west, south, north): start of a stroke, and its length.
  const STARTS = [[7, 5.1, 3, 0], [0, 1.9, -3, 0], [1.9, 7, 0, 3], [5.1, 0, 0, -3]];
  const NAMES = ["east", "west", "south", "north"];
  const LIMITS = { neurons: "neurons", synapses: "synapses", axons_in: "axons in",
    axons_out: "axons out", memory_bits: "bits of memory" };

  const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
  const number = value => Number.isInteger(value) || Math.abs(value) >= 1000
    ? whole.format(value) : String(Number(value.toPrecision(4)));
  const percent = value => value === 1 ? "100 %" : (100 * value).toFixed(1) + " %";
  const step = (value, scale, count) =>
    scale > 0 ? Math.min(Math.floor(value / scale * count), count - 1) : 0;

  function element(name, content, kind) {
    const made = document.createElement(name);
    if (content !== undefined) made.textContent = content;
    if (kind) made.className = kind;
    return made;
  }
  function list(rows) {
    const made = element("dl");
    for (const [name, value] of rows) made.append(element("dt", name), element("dd", value));
    return made;
  }

  const state = { layer: "fill", links: data.sent };
  const maps = data.mappings.map((mapping, index) => makeMap(mapping, index));

  function makeMap(mapping, index) {
    const box = document.querySelector(`.map[data-mapping="${index}"]`);
    const map = { mapping, board: box.querySelector(".board"), at: null, chosen: null,
      panel: document.querySelector(`.panel[data-mapping="${index}"]`) };
    for (const name of ["cursor", "chosen", "rays"])
      map[name + "Mark"] = box.querySelector("." + name);
    map.idle = [...map.panel.children];
    map.base = map.board.querySelector(".base");
    if (map.base.tagName === "CANVAS") {
      map.board.querySelector(".still").remove();
      map.base.hidden = false;
      const pitch = Math.max(1, Math.min(16, Math.floor(2000 / Math.max(mapping.columns,
        mapping.rows))));
      map.base.width = pitch * mapping.columns;
      map.base.height = pitch * mapping.rows;
      map.pitch = pitch;
    }
    mapping.layers.fill = mapping.usage.neurons.map(used => used / mapping.limits.neurons);
    listen(map);
    return map;
  }

  // Values of the cells, and the value of the strongest colour.
  function shown(map) {
    if (map.chosen === null) {
      return { values: map.mapping.layers[state.layer], scale: data.scales[state.layer] };
    }
    const values = new Array(map.mapping.state.length).fill(0);
    for (const [core, share] of destinations(map, map.chosen)) values[core] = share;
    return { values, scale: Math.max(...values), only: true };
  }
  function destinations(map, core) {
    const { kept, destination, share } = map.mapping, found = [];
    for (let i = core * kept; i < (core + 1) * kept && share[i] > 0; i++)
      found.push([destination[i], share[i]]);
    return found;
  }

  function sorted(map) { // cells by colour, links by strength
    const { mapping } = map, { columns } = mapping, view = shown(map);
    const cells = Array.from({ length: data.steps }, () => []), empty = [], off = [];
    const router = state.layer === "router" && !view.only; // spikes also visit unused cores
    mapping.state.forEach((kind, core) => {
      if (kind === UNAVAILABLE && !(router && view.values[core] > 0)) off.push(core);
      else if (view.only ? view.values[core] > 0 : kind === USED || (router && view.values[core]))
        cells[step(view.values[core], view.scale, data.steps)].push(core);
      else empty.push(core);
      if (kind === UNAVAILABLE && router && view.values[core] > 0) off.push(core);
    });
    const links = Array.from({ length: data.linkSteps }, () => []);
    if (state.links !== "none") {
      const scale = data.scales["links " + state.links];
      mapping.links[state.links].forEach((loads, d) => loads.forEach((load, core) => {
        if (load > 0) links[step(load, scale, data.linkSteps)].push([d, core % columns,
          Math.floor(core / columns)]);
      }));
    }
    return { cells, empty, off, links };
  }

  function paint(map) {
    const parts = sorted(map);
    if (map.pitch) paintCanvas(map, parts);
    else paintSvg(map, parts);
    map.board.classList.toggle("picked", map.chosen !== null);
    mark(map.chosenMark, map, map.chosen);
    rays(map);
    describe(map);
  }

  function paintSvg(map, { cells, empty, off, links }) {
    const { columns } = map.mapping;
    const squares = cores => cores.map(core =>
      `M${10 * (core % columns)} ${10 * Math.floor(core / columns)}h7v7h-7z`).join("");
    const draw = (kind, d) => map.base.querySelector(kind).setAttribute("d", d);
    cells.forEach((cores, i) => draw(".cells .c" + i, squares(cores)));
    draw(".empty", squares(empty));
    draw(".off", off.map(core => `M${10 * (core % columns) + 1.5} ${10 * Math.floor(core / columns)
      + 1.5}l4 4m0-4l-4 4`).join(""));
    links.forEach((strokes, i) => draw(".links .l" + i, strokes.map(([d, x, y]) => {
      const [left, top, dx, dy] = STARTS[d];
      return `M${10 * x + left} ${10 * y + top}${dx ? "h" + dx : "v" + dy}`;
    }).join("")));
    map.base.setAttribute("aria-label", `${data.titles[state.layer]} of every core`);
  }

  function paintCanvas(map, { cells, empty, off, links }) {
    const { columns } = map.mapping, { pitch } = map, pen = map.base.getContext("2d");
    const style = getComputedStyle(root), colour = name => style.getPropertyValue(name).trim();
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.clearRect(0, 0, map.base.width, map.base.height);
    pen.setTransform(pitch / 10, 0, 0, pitch / 10, 0, 0);
    // With a few pixels per cell, gaps would only dim it.
    const [inset, size] = pitch < 6 ? [0, 10] : [1.5, 7];
    const place = core => [10 * (core % columns) + inset, 10 * Math.floor(core / columns) + inset];
    if (pitch >= 6) {
      pen.globalAlpha = map.chosen === null ? 1 : 0.25;
      links.forEach((strokes, i) => {
        pen.strokeStyle = colour("--l" + i);
        pen.lineWidth = 0.5 + 1.7 * (i + 0.5) / data.linkSteps;
        pen.beginPath();
        for (const [d, x, y] of strokes) {
          const [left, top, dx, dy] = STARTS[d];
          pen.moveTo(10 * x + left + 1.5, 10 * y + top + 1.5);
          pen.lineTo(10 * x + left + dx + 1.5, 10 * y + top + dy + 1.5);
        }
        pen.stroke();
      });
      pen.globalAlpha = 1;
    }
    cells.forEach((cores, i) => {
      pen.fillStyle = colour("--c" + i);
      for (const core of cores) pen.fillRect(...place(core), size, size);
    });
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

  function mark(shape, map, core) {
    shape.classList.toggle("show", core !== null);
    if (core === null) return;
    shape.setAttribute("x", 10 * (core % map.mapping.columns) + 0.7);
    shape.setAttribute("y", 10 * Math.floor(core / map.mapping.columns) + 0.7);
  }

  function rays(map) { // from the selected core, wider for more traffic
    map.raysMark.replaceChildren();
    if (map.chosen === null) return;
    const { columns } = map.mapping, centre = core =>
      [10 * (core % columns) + 5, 10 * Math.floor(core / columns) + 5];
    const [x, y] = centre(map.chosen), found = destinations(map, map.chosen).slice(0, 16);
    for (const [core, share] of found) {
      const [left, top] = centre(core), ray = document.createElementNS(SVG, "path");
      ray.setAttribute("d", `M${x} ${y}L${left} ${top}`);
      ray.setAttribute("stroke-width", (0.8 + 3 * share / found[0][1]).toFixed(2));
      map.raysMark.append(ray);
    }
  }

  function title(map, core) {
    const { columns, width, tile } = map.mapping;
    const x = core % columns * tile, y = Math.floor(core / columns) * tile;
    return tile > 1 ? `Cores from x ${x}, y ${y}` : `Core ${y * width + x} (x ${x}, y ${y})`;
  }
  function values(map, core, brief) {
    const { mapping } = map, rows = [], kind = mapping.state[core];
    if (kind !== USED) rows.push([kind === UNAVAILABLE ? "unavailable" : "no neurons", ""]);
    else {
      for (const [name, word] of Object.entries(LIMITS)) {
        if (!(name in mapping.usage)) continue;
        const limit = mapping.limits[name], used = number(mapping.usage[name][core]);
        if (!brief || name === "neurons" || limit !== null)
          rows.push([word, limit === null ? used : `${used} of ${number(limit)}`]);
      }
      rows.push(["outgoing traffic", number(mapping.layers.outgoing[core])],
        ["incoming traffic", number(mapping.layers.incoming[core])]);
      if (!brief) rows.push(["within the core", number(mapping.within[core])]);
    }
    rows.push(["router load", number(mapping.layers.router[core])]);
    if (mapping.layers.cycles) rows.push(["cycles per tick", number(mapping.layers.cycles[core])]);
    if (state.links !== "none") {
      mapping.links[state.links].forEach((loads, d) => {
        if (loads[core] > 0) rows.push([`link ${NAMES[d]}`, number(loads[core])]);
      });
    }
    return rows;
  }

  function showTip(map, core, left, top) {
    const parts = [element("b", title(map, core)), list(values(map, core, true))];
    if (map.chosen !== null && map.chosen !== core) {
      const found = destinations(map, map.chosen).find(([target]) => target === core);
      parts.push(list([[`from core ${map.chosen}`, found ? number(found[1])
        : destinations(map, map.chosen).length < map.mapping.kept ? "0" : "not stored"]]));
    }
    tip.replaceChildren(...parts);
    tip.hidden = false;
    const { width, height } = tip.getBoundingClientRect();
    const x = left + 18 + width > root.clientWidth - 8 ? left - width - 18 : left + 18;
    const y = top + 18 + height > innerHeight - 8 ? top - height - 18 : top + 18;
    tip.style.transform = `translate(${Math.round(Math.min(Math.max(8, x),
      Math.max(8, root.clientWidth - width - 8)))}px, ${Math.round(Math.max(8, y))}px)`;
  }
  function point(map, core, left, top) {
    map.at = core;
    mark(map.cursorMark, map, core);
    if (core === null) tip.hidden = true;
    else showTip(map, core, left, top);
  }
  function choose(map, core) {
    if (!map.mapping.kept) return;
    map.chosen = core === map.chosen || (core !== null && map.mapping.state[core] !== USED)
      ? null : core;
    paint(map);
    legends();
  }

  function describe(map) { // the panel next to the map
    const core = map.chosen, { mapping } = map;
    if (core === null) { map.panel.replaceChildren(...map.idle); return; }
    const found = destinations(map, core), total = mapping.layers.outgoing[core];
    const told = found.reduce((sum, [, share]) => sum + share, 0);
    const few = found.length < mapping.kept || told >= total;
    const back = element("button", "Show all cores");
    back.type = "button";
    back.addEventListener("click", () => { choose(map, null); map.board.focus(); });
    const table = element("table"), head = element("thead"), body = element("tbody");
    const heads = element("tr");
    for (const name of ["To core", "x, y", "Traffic", "Share"]) {
      const cell = element("th", name);
      cell.scope = "col";
      heads.append(cell);
    }
    head.append(heads);
    for (const [target, share] of found.slice(0, 16)) {
      const row = element("tr"), first = element("th", String(target));
      first.scope = "row";
      row.append(first, element("td", `${target % mapping.columns}, ${Math.floor(target
        / mapping.columns)}`), element("td", number(share)), element("td", percent(share / total)));
      body.append(row);
    }
    table.append(element("caption", "Where its traffic goes", "unseen"), head, body);
    const count = found.length;
    const note = !count ? "No traffic leaves this core." : few && count <= 16
      ? `Its traffic goes to ${count} other ${count === 1 ? "core" : "cores"}.`
      : few ? `Its traffic goes to ${count} other cores; the 16 strongest are listed.`
        : `Its ${count} strongest destinations are coloured; they receive ${percent(told / total)} of`
          + " its outgoing traffic.";
    map.panel.replaceChildren(element("h3", title(map, core)), list(values(map, core, false)),
      element("p", note, "hint"), ...(count ? [table] : []), back);
  }

  function legends() {
    const cells = document.querySelector('[data-legend="cells"]');
    const links = document.querySelector('[data-legend="links"]');
    const chosen = maps.filter(map => map.chosen !== null);
    const one = chosen.length && maps.length === 1 ? shown(chosen[0]) : null;
    const top = one ? one.scale : data.scales[state.layer];
    const written = value => state.layer === "fill" && !one ? Math.round(100 * value) + "%"
      : number(value);
    cells.querySelector("figcaption").textContent = one
      ? `Traffic from core ${chosen[0].chosen}` : data.titles[state.layer];
    cells.querySelectorAll(".ticks span").forEach((tick, i) => {
      tick.textContent = written(top * i / 2);
    });
    document.getElementById("hollow").textContent = chosen.length
      ? "no neurons, or not one of its strongest destinations" : "no neurons";
    links.style.display = state.links === "none" ? "none" : "";
    if (state.links !== "none") {
      links.querySelector("figcaption").textContent = `Link load, ${state.links}`;
      links.querySelectorAll(".ticks span").forEach((tick, i) => {
        tick.textContent = number(data.scales["links " + state.links] * i / 2);
      });
    }
    const route = state.links === "none" ? "" : ` Links, ${state.links}: ${data.routes[state.links]}.`;
    const own = chosen.length && maps.length > 1
      ? " The strongest destination of a selected core has the strongest colour." : "";
    says.textContent = (one ? "" : `${data.titles[state.layer]}: ${data.meanings[state.layer]}.`)
      + route + own;
  }

  function listen(map) {
    const { board, mapping } = map, { columns, rows } = mapping;
    const coreAt = event => {
      const box = board.getBoundingClientRect();
      const x = Math.floor((event.clientX - box.left) / box.width * columns);
      const y = Math.floor((event.clientY - box.top) / box.height * rows);
      return x < 0 || y < 0 || x >= columns || y >= rows ? null : y * columns + x;
    };
    board.addEventListener("pointermove", event => {
      if (event.pointerType !== "touch") point(map, coreAt(event), event.clientX, event.clientY);
    });
    board.addEventListener("pointerleave", () => point(map, null));
    board.addEventListener("click", event => {
      const core = coreAt(event);
      if (core !== null) choose(map, core);
    });
    board.addEventListener("blur", () => point(map, null));
    board.addEventListener("keydown", event => {
      const moves = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] };
      if (event.key === "Escape") {
        choose(map, null);
        point(map, null);
      } else if (event.key === "Enter" || event.key === " ") {
        choose(map, map.at);
      } else if (moves[event.key]) {
        const [dx, dy] = moves[event.key];
        const from = map.at ?? map.chosen;
        const x = from === null ? 0 : Math.min(Math.max(from % columns + dx, 0), columns - 1);
        const y = from === null ? 0
          : Math.min(Math.max(Math.floor(from / columns) + dy, 0), rows - 1);
        const box = board.getBoundingClientRect();
        point(map, y * columns + x, box.left + (x + 0.5) / columns * box.width,
          box.top + (y + 0.5) / rows * box.height);
      } else return;
      event.preventDefault();
    });
  }

  document.querySelector(".toolbar").addEventListener("change", event => {
    state[event.target.name] = event.target.value;
    if (event.target.name === "layer") for (const map of maps) map.chosen = null;
    maps.forEach(paint);
    legends();
  });
  // A canvas does not follow the theme; repaint it when the theme changes.
  for (const query of ["(prefers-color-scheme: dark)", "print"])
    matchMedia(query).addEventListener("change", () =>
      maps.filter(map => map.pitch).forEach(paint));
  maps.filter(map => map.pitch).forEach(paint);
  legends();
})();
