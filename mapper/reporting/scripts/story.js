// Stories: who is on a core, where a population is and whom it sends to, what loads a link.
function title(map, core) {
  const { columns, width, tile } = map.mapping;
  const x = core % columns * tile, y = Math.floor(core / columns) * tile;
  return tile > 1 ? `Cores from x ${x}, y ${y}` : `Core ${y * width + x} (x ${x}, y ${y})`;
}
function linkTitle(map, d, core) {
  const { columns, tile } = map.mapping;
  return `Link from x ${core % columns * tile}, y ${Math.floor(core / columns) * tile} to the ${NAMES[d]}`;
}
function values(map, core, brief) {
  const { mapping } = map, rows = [], kind = mapping.state[core];
  if (kind !== USED) rows.push([kind === UNAVAILABLE ? "unavailable" : "no neurons", ""]);
  else {
    for (const [name, word] of Object.entries(LIMITS)) {
      if (!(name in mapping.usage)) continue;
      const limit = limitOf(mapping, name, core), used = number(mapping.usage[name][core]);
      if (!brief || name === "neurons" || limit !== null)
        rows.push([word, limit === null ? used : `${used} of ${number(limit)}`]);
    }
    rows.push(["outgoing traffic", number(mapping.layers.outgoing[core])],
      ["incoming traffic", number(mapping.layers.incoming[core])]);
    if (!brief) rows.push(["within the core", number(mapping.within[core])]);
    if (!brief && mapping.layers.hops) rows.push(["mean hops", number(mapping.layers.hops[core])]);
  }
  rows.push(["router load", number(mapping.layers.router[core])]);
  if (mapping.layers.cycles) rows.push(["cycles per tick", number(mapping.layers.cycles[core])]);
  if (brief) NAMES.forEach((name, d) => {
    if (loadsOf(map, d)[core] > 0) rows.push([`link ${name}`, number(loadsOf(map, d)[core])]);
  });
  return rows;
}

function showTip(map, core, link, left, top) {
  const { people } = map.mapping, parts = [];
  if (link) {
    parts.push(element("b", linkTitle(map, link.d, link.core)),
      list([["load", number(loadsOf(map, link.d)[link.core])]]));
    if (people) parts.push(list(pairsOn(map, link).slice(0, 3).map(([pair, load]) =>
      [`${people.names[people.pairs[0][pair]]} \u2192 ${people.names[people.pairs[1][pair]]}`,
        number(load)])));
  } else {
    parts.push(element("b", title(map, core)));
    if (people && map.mapping.state[core] === USED)
      parts.push(list(peopleOf(map, core).slice(0, 4).map(([p, count]) =>
        [people.names[p], number(count)])));
    parts.push(list(values(map, core, true)));
    const story = present(map, "core");
    if (story && story.core !== core) {
      const found = destinations(map, story.core).find(([target]) => target === core);
      parts.push(list([[`from core ${story.core}`, found ? number(found[1])
        : destinations(map, story.core).length < map.mapping.kept ? "0" : "not stored"]]));
    }
  }
  tip.replaceChildren(...parts);
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  const x = left + 18 + width > root.clientWidth - 8 ? left - width - 18 : left + 18;
  const y = top + 18 + height > innerHeight - 8 ? top - height - 18 : top + 18;
  tip.style.transform = `translate(${Math.round(Math.min(Math.max(8, x),
    Math.max(8, root.clientWidth - width - 8)))}px, ${Math.round(Math.max(8, y))}px)`;
}
function point(map, core, left, top, link) {
  map.at = core;
  outline(map.cursorMark, map, link ? null : core);
  if (core === null) tip.hidden = true;
  else showTip(map, core, link, left, top);
}

// Opens a story on a map, or none; a population is shown on all maps.
function open(map, story) {
  for (const each of story && story.kind === "population" ? maps : [map]) each.story = story;
  maps.forEach(paint);
  legends();
}
function choose(map, core) {
  const story = present(map, "core");
  const used = core !== null && map.mapping.state[core] === USED;
  open(map, !used || (story && story.core === core) ? null : { kind: "core", core });
}

function describe(map) { // the panel next to the map
  const { story } = map;
  if (story === null) { map.panel.replaceChildren(...map.idle); return; }
  const parts = { core: coreStory, population: populationStory, link: linkStory }[story.kind](map,
    story);
  const back = element("button", "Show all", "back");
  back.type = "button";
  back.addEventListener("click", () => {
    for (const each of maps) each.story = null;
    maps.forEach(paint);
    legends();
    map.board.focus();
  });
  map.panel.replaceChildren(back, ...parts);
}
function heading(text) {
  const made = element("h3", text);
  made.tabIndex = -1;
  return made;
}
function named(map, population) {
  const made = element("span", undefined, "row");
  made.append(mark(map, population),
    jump(map.mapping.people.names[population], "population", map, population));
  return made;
}

function coreStory(map, { core, note }) {
  const { mapping } = map, parts = [heading(title(map, core))];
  if (note) parts.push(element("p", note, "found"));
  if (mapping.people) {
    const own = peopleOf(map, core), all = mapping.usage.neurons ? sum(own.map(o => o[1])) : 1;
    parts.push(table("Populations on the core", ["On it", "Neurons", "Share"], own.map(([p, count]) =>
      [named(map, p), count, percent(count / all)])));
  }
  parts.push(list(values(map, core, false)));
  const found = destinations(map, core), total = mapping.layers.outgoing[core];
  const told = sum(found.map(([, share]) => share));
  const few = found.length < (mapping.kept ?? 0) || told >= total;
  const count = found.length;
  if (mapping.kept) parts.push(element("p", !count ? "No traffic leaves this core."
    : few && count <= 16 ? `Its traffic goes to ${count} other ${count === 1 ? "core" : "cores"}.`
      : few ? `Its traffic goes to ${count} other cores; the 16 strongest are listed.`
        : `Its ${count} strongest destinations are coloured; they receive ${percent(told / total)} of`
          + " its outgoing traffic.", "hint"));
  if (count) parts.push(table("Where its traffic goes", ["To core", "x, y", "Traffic", "Share"],
    found.slice(0, 16).map(([target, share]) => [jump(String(target), "core", map, target),
      `${target % mapping.columns}, ${Math.floor(target / mapping.columns)}`, share,
      percent(share / total)])));
  const links = NAMES.map((name, d) => [d, name, loadsOf(map, d)[core] ?? 0]).filter(l => l[2] > 0);
  if (links.length) parts.push(table("Its links", ["Link to the", "Load"], links.map(([d, name, load]) =>
    [jump(name, "link", map, d, core), load])));
  return parts;
}

function populationStory(map, { population: p }) {
  const { people } = map.mapping, { rows } = people, parts = [];
  const head = heading("");
  head.append(mark(map, p), people.names[p]);
  parts.push(head, list([
    ["neurons", number(rows.neurons[p])], ["cores", number(rows.cores[p])],
    ["out to other cores", number(rows.sent[p])], ["in from other cores", number(rows.received[p])],
    ["within cores", number(rows.within[p])], ["mean hops", number(rows.hops_mean[p])]]));
  const [source, target, traffic, hops] = people.pairs;
  const all = source.map((_, pair) => pair);
  for (const [mine, other, word] of [[source, target, "Sends to"], [target, source, "Receives from"]]) {
    const found = all.filter(pair => mine[pair] === p).sort((a, b) => traffic[b] - traffic[a]);
    if (found.length) parts.push(table(`${people.names[p]}: ${word.toLowerCase()}`,
      [word, "All traffic", "Mean hops"], found.slice(0, 12).map(pair =>
        [named(map, other[pair]), traffic[pair], number(hops[pair] / traffic[pair])])));
  }
  const cores = map.mapping.state.map((_, core) =>
    [core, (peopleOf(map, core).find(([q]) => q === p) ?? [p, 0])[1]]).filter(([, n]) => n > 0)
    .sort((a, b) => b[1] - a[1]);
  if (cores.length) parts.push(table("Cores with most of its neurons", ["Core", "x, y", "Neurons"],
    cores.slice(0, 6).map(([core, count]) => [jump(String(core), "core", map, core),
      `${core % map.mapping.columns}, ${Math.floor(core / map.mapping.columns)}`, count])));
  const links = [];
  people.linkPairs.forEach((cells, d) => cells.forEach((pairs, core) => {
    const load = sum(pairs.map((pair, i) => source[pair] === p ? people.linkTraffic[d][core][i] : 0));
    if (load > 0) links.push([d, core, load]);
  }));
  links.sort((a, b) => b[2] - a[2]);
  if (links.length) parts.push(table("Links that it loads most", ["Leaves x, y", "Its load"],
    links.slice(0, 6).map(([d, core, load]) => [jump(`${core % map.mapping.columns}, `
      + `${Math.floor(core / map.mapping.columns)} ${NAMES[d]}`, "link", map, d, core), load])));
  return parts;
}

// Pairs of populations on a link, with their traffic.
function pairsOn(map, { d, core }) {
  const { people } = map.mapping;
  const pairs = (people.linkPairs[d] ?? [])[core] ?? [];
  return pairs.map((pair, i) => [pair, people.linkTraffic[d][core][i]]);
}
function linkStory(map, { d, core }) {
  const { mapping } = map, sent = mapping.links[data.sent], load = sent[d][core];
  const every = sent.flat().filter(one => one > 0);
  const above = every.filter(one => one > load).length;
  const parts = [heading(linkTitle(map, d, core)), list([
    [`load, ${data.sent}`, number(load)], ["rank", above ? `${above + 1} of ${every.length}`
      : `the busiest of ${every.length}`],
    ["times the mean", number(load / mapping.linkMean)],
    ...Object.entries(mapping.links).filter(([name]) => name !== data.sent).map(([name, loads]) =>
      [`load, ${name}`, number(loads[d][core])])])];
  if (mapping.people) {
    const { names, pairs: [source, target] } = mapping.people, found = pairsOn(map, { d, core });
    const total = data.sent === "multicast" ? mapping.links["core-cast"][d][core] : load;
    const rows = found.map(([pair, amount]) => {
      const both = element("span", undefined, "pairing");
      both.append(named(map, source[pair]), " \u2192 ", named(map, target[pair]));
      return [both, amount, percent(amount / total)];
    });
    const rest = total - sum(found.map(([, amount]) => amount));
    if (rest > 1e-6 * total) rows.push(["other pairs", rest, percent(rest / total)]);
    if (rows.length) parts.push(table("Populations on the link", ["From, to", "Traffic", "Share"], rows));
    if (data.sent === "multicast") parts.push(element("p", "Packets to cores that arrive by this"
      + " link: a packet of a tree may serve several.", "hint"));
  }
  parts.push(list([["leaves", ""]]), jump(title(map, core), "core", map, core));
  parts.splice(-2, 1);
  return parts;
}
