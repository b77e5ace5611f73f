// Data of the page, and functions that build elements. The files of this folder are joined into one
// script in the order of `SCRIPTS` in page.py.
const data = JSON.parse(document.getElementById("data").textContent);
const root = document.documentElement;
root.classList.add("js");
const SVG = "http://www.w3.org/2000/svg";
const USED = 1, UNAVAILABLE = 2;
const NAMES = ["east", "west", "south", "north"];
const LIMITS = { neurons: "neurons", synapses: "synapses", axons_in: "axons in",
  axons_out: "axons out", memory_bits: "bits of memory" };

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const number = value => Number.isInteger(value) || Math.abs(value) >= 1000
  ? whole.format(value) : String(Number(value.toPrecision(4)));
const percent = value => value === 1 ? "100 %" : (100 * value).toFixed(1) + " %";
const step = (value, scale, count) =>
  scale > 0 ? Math.min(Math.floor(value / scale * count), count - 1) : 0;
const sum = values => values.reduce((total, value) => total + value, 0);

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
// A button that opens the story of a "core", a "population" or a "link" of a mapping.
function jump(text, what, map, ...at) {
  const made = element("button", text, "jump");
  made.type = "button";
  made.dataset.jump = [what, map.index, ...at].join(":");
  return made;
}
function mark(map, population) {
  const made = element("span", undefined, "swatch");
  const colour = map.mapping.people.colour[population];
  made.classList.add(colour < 0 ? "px" : "p" + colour);
  return made;
}
// A table of rows of texts, numbers and elements; the first column names the rows.
function table(caption, heads, rows) {
  const made = element("table"), head = element("thead"), body = element("tbody");
  const top = element("tr");
  heads.forEach((name, i) => {
    const cell = element("th", name, i ? "n" : "");
    cell.scope = "col";
    top.append(cell);
  });
  head.append(top);
  for (const [first, ...rest] of rows) {
    const row = element("tr"), name = element("th");
    name.scope = "row";
    name.append(first);
    row.append(name);
    for (const value of rest) {
      const cell = element("td");
      if (typeof value === "number") {
        const exact = element("data", number(value));
        exact.value = value;
        cell.append(exact);
      } else cell.append(value);
      row.append(cell);
    }
    body.append(row);
  }
  made.append(element("caption", caption, "unseen"), head, body);
  const box = element("div", undefined, "tabled"), scroll = element("div", undefined, "scroll");
  scroll.tabIndex = 0;
  scroll.setAttribute("role", "group");
  scroll.setAttribute("aria-label", caption);
  scroll.append(made);
  const button = element("button", "CSV", "csv");
  button.type = "button";
  button.setAttribute("aria-label", `Save as CSV: ${caption}`);
  box.append(scroll, button);
  return box;
}
