"use strict";

// A number as readers want it: four digits, whole ones in full.
function short_number(value) {
  if (Number.isInteger(value) && Math.abs(value) <= 1e6) return String(value);
  return Number(value.toPrecision(4)).toString();
}

function cell_text(cell) {
  if (cell === null) return "not finite";
  return typeof cell === "number" ? short_number(cell) : cell;
}

function show_table(title, columns, rows, place, holder_class = "wide") {
  if (title !== null) element("h3", title, place);
  const holder = element("div", null, place);
  holder.className = holder_class;
  const table = element("table", null, holder);
  const head = element("tr", null, element("thead", null, table));
  columns.forEach((column) => element("th", column, head));
  const body = element("tbody", null, table);
  for (const row of rows) {
    const line = element("tr", null, body);
    row.forEach((cell) => element("td", cell_text(cell), line));
  }
}

// Points that the axes can show; a gap in a line is a point without y.
function points_of(series, figure) {
  const fits = (value, scale) => value !== null && (scale === "linear" || value > 0);
  return series.x
    .map((x, i) => ({ x, y: fits(series.y[i], figure.y.axis) ? series.y[i] : NaN }))
    .filter((point) => fits(point.x, figure.x.axis));
}

// An axis with short numbers; a logarithmic one of several decades names the decades alone.
function numbered_axis(label, scale) {
  const named = scale === "linear" ? short_number : (value, index, ticks) => {
    const lead = value / 10 ** Math.floor(Math.log10(value) + 1e-9);
    const is_wide = ticks[ticks.length - 1].value / ticks[0].value >= 100;
    const is_named = [1, ...(is_wide ? [] : [2, 5])].some((digit) => Math.abs(lead - digit) < 1e-6);
    return is_named ? short_number(value) : "";
  };
  return { ...axis(label, scale), ticks: { callback: (value, index, ticks) => named(value, index, ticks) } };
}

function show_figure(study, figure, place) {
  const few = 30;
  const is_line = figure.mark === "lines";
  const has_marks = !is_line || figure.series.every((series) => series.x.length <= few);
  const datasets = figure.series.map((series, index) => {
    const data = points_of(series, figure);
    return line_data(series.name, index, data, series.name, { pointRadius: has_marks ? 3 : 0, showLine: is_line });
  });
  const shown = section_for(`${study.experiment}-${figure.name}`, figure.title, `${figure.y.label} against ${figure.x.label}`, place, "h3");
  if (datasets.every((dataset) => dataset.data.every((point) => Number.isNaN(point.y)))) {
    element("p", "There is no point that the axes can show.", shown);
    return;
  }
  const options = options_for({ ...numbered_axis(figure.x.label, figure.x.axis), grace: 0 }, numbered_axis(figure.y.label, figure.y.axis));
  draw(shown, "plot", { data: { datasets }, options });
}

function show_study(study) {
  const section = element("section", null, document.getElementById("studies"));
  element("h2", study.experiment, section);
  element("p", study.question, section);
  const findings = element("ul", null, section);
  study.findings.forEach((finding) => element("li", finding, findings));
  if (study.claims.length > 0) {
    const rows = study.claims.map((claim) => [claim.statement, claim.measured, claim.holds ? "yes" : "no"]);
    show_table(null, ["claimed", "measured", "holds"], rows, section, "sentences");
  }
  study.figures.forEach((figure) => show_figure(study, figure, section));
  study.tables.forEach((table) => show_table(table.title, table.columns, table.rows, section));
  element("p", `Seed ${study.seed}, version ${study.version}, ${study.processor}. This repeats it:`, section);
  element("pre", study.command, section);
}

document.getElementById("title").textContent = report.length === 1 ? `Experiment ${report[0].experiment}` : "Experiments";
const claims = report.flatMap((study) => study.claims);
document.getElementById("lead").textContent =
  claims.length === 0 ? "" : `${claims.filter((claim) => claim.holds).length} of ${claims.length} claims hold.`;
report.forEach(show_study);
document.documentElement.dataset.ready = "true";
