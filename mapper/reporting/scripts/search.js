// Search for a population, a neuron or a core.
const finder = (() => {
  const box = document.getElementById("search"), results = document.getElementById("results");
  const told = document.getElementById("told"), MOST = 8;
  const first = maps[0];

  // The core of every neuron of a map; null if the page does not hold it.
  async function coresOf(map) {
    const { packed } = map.mapping;
    if (!packed.cores || !("DecompressionStream" in window)) return null;
    if (!map.cores) {
      const raw = Uint8Array.from(atob(packed.cores), letter => letter.charCodeAt(0));
      const stream = new Blob([raw]).stream().pipeThrough(new DecompressionStream("deflate"));
      const bytes = await new Response(stream).arrayBuffer();
      map.cores = packed.bytes === 2 ? new Uint16Array(bytes) : new Uint32Array(bytes);
    }
    return map.cores;
  }
  // The population of a neuron and its number there; null if it is unknown.
  function placeOf(neuron) {
    const { people } = first.mapping;
    if (!people || !people.first.length) return null;
    let range = people.first.length - 1;
    while (people.first[range] > neuron) range--;
    let index = neuron - people.first[range];
    for (let i = 0; i < range; i++)
      if (people.of[i] === people.of[range]) index += people.first[i + 1] - people.first[i];
    return [people.of[range], index];
  }
  // The id of a neuron by its number in a population; null if there is none.
  function neuronOf(population, index) {
    const { people, packed } = first.mapping;
    for (let i = 0; i < people.first.length; i++) {
      if (people.of[i] !== population) continue;
      const size = (people.first[i + 1] ?? packed.neurons) - people.first[i];
      if (index < size) return people.first[i] + index;
      index -= size;
    }
    return null;
  }
  function called(neuron) {
    const place = placeOf(neuron);
    return place ? `Neuron ${place[1]} of ${first.mapping.people.names[place[0]]} (${neuron})`
      : `Neuron ${neuron}`;
  }

  async function openNeuron(neuron) {
    for (const map of maps) {
      const cores = await coresOf(map);
      if (cores === null) {
        told.textContent = "This page does not hold the cores of single neurons: the network is large,"
          + " or the browser is old. mapping.npz has them.";
        return;
      }
      const { columns, width, tile } = map.mapping, core = cores[neuron];
      const cell = Math.floor(Math.floor(core / width) / tile) * columns
        + Math.floor(core % width / tile);
      open(map, { kind: "core", core: cell, note: `${called(neuron)} is on core ${core}.` });
      told.textContent = `${called(neuron)} is on core ${core}.`;
    }
  }
  function found(text) {
    const words = text.trim().toLowerCase(), { people, packed, width, height, columns, tile }
      = first.mapping, hits = [];
    if (!words) return hits;
    const cell = (x, y) => Math.floor(y / tile) * columns + Math.floor(x / tile);
    const core = /^(?:core|c)\s*#?(\d+)$/.exec(words), place = /^x?\s*(\d+)\s*,\s*y?\s*(\d+)$/.exec(words);
    const at = core ? [Number(core[1]) % width, Math.floor(core[1] / width)]
      : place ? [Number(place[1]), Number(place[2])] : null;
    if (at && at[0] < width && at[1] < height)
      hits.push([`Core ${at[1] * width + at[0]} (x ${at[0]}, y ${at[1]})`,
        () => open(first, { kind: "core", core: cell(...at) })]);
    const id = /^(?:neuron\s*)?(\d+)$/.exec(words);
    if (id && Number(id[1]) < packed.neurons)
      hits.push([called(Number(id[1])), () => openNeuron(Number(id[1]))]);
    if (!people) return hits;
    const matching = name => people.names.map((one, p) => [one.toLowerCase(), p])
      .filter(([one]) => one.includes(name)).sort((a, b) => (b[0] === name) - (a[0] === name)
        || b[0].startsWith(name) - a[0].startsWith(name)).map(([, p]) => p);
    for (const p of matching(words).slice(0, MOST))
      hits.push([people.names[p], () => open(first, { kind: "population", population: p })]);
    const inside = /^(.+?)[\s:#[]+(\d+)\]?$/.exec(words);
    const turned = /^(?:neuron\s*)?(\d+)\s+of\s+(.+)$/.exec(words);
    const [name, index] = turned ? [turned[2], Number(turned[1])]
      : inside ? [inside[1], Number(inside[2])] : ["", 0];
    if (name && packed.neurons) for (const p of matching(name).slice(0, 2)) {
      const neuron = neuronOf(p, index);
      if (neuron !== null) hits.push([called(neuron), () => openNeuron(neuron)]);
    }
    return hits.slice(0, MOST);
  }
  function show() {
    const hits = found(box.value);
    results.replaceChildren(...hits.map(([text, act]) => {
      const item = element("li"), button = element("button", text, "jump");
      button.type = "button";
      button.addEventListener("click", act);
      item.append(button);
      return item;
    }));
    told.textContent = box.value.trim() ? hits.length ? "" : "Nothing found." : "";
  }
  box.addEventListener("input", show);
  box.form.addEventListener("submit", event => {
    event.preventDefault();
    const hits = found(box.value);
    if (hits.length) hits[0][1]();
    else told.textContent = "Nothing found.";
  });
  return { found };
})();
