// Pointer, keys and switches.
function listen(map) {
  const { board, mapping } = map, { columns } = mapping;
  // The cell under the pointer, and the link if it is in a gap between cores.
  const hit = event => {
    const box = board.getBoundingClientRect(), [left, top, wide, high] = map.window;
    const x = (event.clientX - box.left) / box.width * wide + left;
    const y = (event.clientY - box.top) / box.height * high + top;
    if (x < left || y < top || x >= left + wide || y >= top + high) return { core: null };
    const column = Math.floor(x), row = Math.floor(y), core = row * columns + column;
    const right = 10 * (x - column), down = 10 * (y - row);
    const aside = right < 1.5 || right >= 8.5, above = down < 1.5 || down >= 8.5;
    if (state.links === "none" || aside === above || box.width / wide < 12) return { core };
    const next = right < 1.5 || down < 1.5 ? -1 : 1;
    const ways = aside ? [0, 1] : [2, 3]; // ahead: east, south; back: west, north
    const ahead = aside ? down >= 5 : right < 5;
    const other = core + next * (aside ? 1 : columns);
    const owner = ahead === (next > 0) ? core : other, d = ways[ahead ? 0 : 1];
    return (loadsOf(map, d)[owner] ?? 0) > 0 ? { core, link: { d, core: owner } } : { core };
  };
  board.addEventListener("pointermove", event => {
    const { core, link } = hit(event);
    if (event.pointerType !== "touch") point(map, core, event.clientX, event.clientY, link);
  });
  board.addEventListener("pointerleave", () => point(map, null));
  board.addEventListener("click", event => {
    const { core, link } = hit(event);
    if (link) open(map, { kind: "link", ...link });
    else if (core !== null) choose(map, core);
  });
  board.addEventListener("blur", () => point(map, null));
  board.addEventListener("keydown", event => {
    const moves = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] };
    if (event.key === "Escape") {
      open(map, null);
      point(map, null);
    } else if (event.key === "Enter" || event.key === " ") {
      choose(map, map.at);
    } else if (moves[event.key]) {
      const [dx, dy] = moves[event.key], [left, top, wide, high] = map.window;
      const from = map.at ?? (present(map, "core") ?? {}).core ?? null;
      const bound = (value, least, count) => Math.min(Math.max(value, least), least + count - 1);
      const x = from === null ? left : bound(from % columns + dx, left, wide);
      const y = from === null ? top : bound(Math.floor(from / columns) + dy, top, high);
      const box = board.getBoundingClientRect();
      point(map, y * columns + x, box.left + (x - left + 0.5) / wide * box.width,
        box.top + (y - top + 0.5) / high * box.height);
    } else return;
    event.preventDefault();
  });
}
document.addEventListener("click", event => {
  const button = event.target.closest("[data-jump]");
  if (!button) return;
  const [kind, index, ...at] = button.dataset.jump.split(":").map((part, i) => i ? Number(part) : part);
  const map = maps[index];
  open(map, kind === "core" ? { kind, core: at[0] } : kind === "link"
    ? { kind, d: at[0], core: at[1] } : { kind, population: at[0] });
  const head = map.panel.querySelector("h3"), wide = matchMedia("(min-width: 1001px)").matches;
  if (head) head.focus({ preventScroll: wide || kind === "population" });
  if (!wide && kind === "population") map.box.scrollIntoView({ block: "nearest" });
});
document.querySelector(".toolbar").addEventListener("change", event => {
  state[event.target.name] = event.target.value;
  for (const map of maps) {
    const { window: used, columns, rows } = map.mapping;
    map.window = state.zoom === "used" ? used : [0, 0, columns, rows];
    if (event.target.name === "layer") map.story = null;
  }
  maps.forEach(paint);
  legends();
});
maps.forEach(listen);
// A canvas does not follow the theme; repaint it when the theme changes.
for (const query of ["(prefers-color-scheme: dark)", "print"])
  matchMedia(query).addEventListener("change", () => maps.filter(map => map.canvas).forEach(paint));
maps.filter(map => map.canvas).forEach(paint);
legends();
