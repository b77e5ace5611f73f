// Every table can be saved as a csv file.
(() => {
  // Spreadsheets evaluate texts that begin with one of these, unless they are numbers.
  const EVALUATED = /^('*)[=+\-@\t\r]/, NUMBER = /^[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?$/;

  function cell(node) {
    const exact = node.querySelector("data");
    let text = exact ? exact.value : (node.dataset.text ?? node.innerText ?? "").trim()
      .replace(/\s+/g, " ");
    if (text === "\u2013") text = "";
    if (EVALUATED.test(text) && !NUMBER.test(text)) text = "'" + text;
    return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  }
  function textOf(table) {
    return [...table.rows].map(row => [...row.cells].map(cell).join(",")).join("\n") + "\n";
  }
  document.addEventListener("click", event => {
    const button = event.target.closest("button.csv");
    if (!button) return;
    const table = button.parentElement.querySelector("table");
    const name = table.caption.textContent.toLowerCase().replace(/[^a-z0-9]+/g, "-")
      .replace(/^-|-$/g, "");
    const link = element("a");
    link.href = URL.createObjectURL(new Blob([textOf(table)], { type: "text/csv" }));
    link.download = `${name || "table"}.csv`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  });
})();
