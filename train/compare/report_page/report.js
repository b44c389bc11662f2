"use strict";

const by_accuracy = report.metric === "accuracy";
const run_of = new Map(report.runs.map((run) => [run.name, run]));

// The runs of a variant's best learning rate.
const shown_runs = (variant) => variant.best.runs.map((name) => run_of.get(name));

const diverged_in = (runs) => runs.filter((run) => run.status === "diverged").length;

// The variant as legends call it.
function legend_name(variant) {
  const diverged = diverged_in(shown_runs(variant));
  if (diverged === 0) return variant.name;
  return variant.best.runs.length === 1 ? `${variant.name} (diverged)` : `${variant.name} (${diverged} of ${variant.best.runs.length} diverged)`;
}

// The runs of a variant that diverged, by learning rate where it has several.
function diverged_words(variant) {
  const rates = variant.learning_rates.filter((setting) => setting.diverged_runs > 0);
  const words = rates.map((setting) => {
    const count = `${setting.diverged_runs} of ${setting.runs.length}`;
    return variant.learning_rates.length > 1 ? `lr ${setting.learning_rate}: ${count}` : count;
  });
  return words.length > 0 ? words.join(", ") : "–";
}

// Numbers and tables ---------------------------------------------------------------------------------------------

const format = (value, digits) => value === undefined || value === null ? "–" : value.toFixed(digits);

function with_deviation(statistic, digits) {
  if (!statistic) return "–";
  const mean = format(statistic.mean, digits);
  return statistic.deviation === undefined ? mean : `${mean} ± ${format(statistic.deviation, digits)}`;
}

// Columns: [title, cell of a row]; one without any value is not shown.
function fill_table(id, rows, columns) {
  const kept = columns.filter(([, cell]) => rows.some((row) => cell(row) !== "–"));
  const table = document.getElementById(id);
  const head = element("tr", null, element("thead", null, table));
  kept.forEach(([title]) => element("th", title, head));
  const body = element("tbody", null, table);
  for (const row of rows) {
    const line = element("tr", null, body);
    kept.forEach(([, cell]) => element("td", cell(row), line));
  }
}

function show_tables() {
  const several_rates = report.variants.some((variant) => variant.learning_rates.length > 1);
  fill_table("variants", report.variants, [
    ["variant", (v) => v.name],
    ["best learning rate", (v) => several_rates ? v.best.learning_rate : "–"],
    ["accuracy", (v) => with_deviation(v.best.accuracy, 4)],
    ["loss", (v) => with_deviation(v.best.loss, 4)],
    ["perplexity", (v) => with_deviation(v.best.perplexity, 3)],
    ["bits per byte", (v) => with_deviation(v.best.bits_per_byte, 4)],
    ["steps to 99 %", (v) => with_deviation(v.best.steps_to_99, 0)],
    ["ms a step", (v) => with_deviation(v.best.step_ms, 2)],
    ["parameters", (v) => v.best.parameters ? format(v.best.parameters.mean, 0) : "–"],
    ["runs", (v) => `${v.best.complete_runs} of ${v.best.runs.length}`],
    ["diverged", diverged_words],
  ]);
  const note = `The best ${report.metric} comes first. Numbers are of the test sequences at the end of training: means over ` +
    "the complete runs, ± their sample standard deviation.";
  document.getElementById("table-note").textContent =
    note + (several_rates ? " Of the learning rates tried, the one with the best mean is shown." : "");
  fill_table("runs", report.runs, [
    ["run", (r) => r.name],
    ["status", (r) => r.status],
    ["steps", (r) => format(r.steps, 0)],
    ["accuracy", (r) => format(r.accuracy, 4)],
    ["loss", (r) => format(r.loss, 4)],
    ["perplexity", (r) => format(r.perplexity, 3)],
    ["bits per byte", (r) => format(r.bits_per_byte, 4)],
    ["steps to 99 %", (r) => format(r.steps_to_99, 0)],
    ["ms a step", (r) => format(r.step_ms, 2)],
    ["parameters", (r) => format(r.parameters, 0)],
  ]);
}

function show_configs() {
  const place = document.getElementById("configs");
  for (const run of report.runs) {
    const details = element("details", null, place);
    element("summary", run.name, details);
    element("pre", run.config, details);
  }
}

// Figures --------------------------------------------------------------------------------------------------------

function leave_out(id, why) {
  const item = element("li", why, document.getElementById("left-out"));
  item.dataset.leftOut = id;
}

const unit = by_accuracy ? "test accuracy" : "test loss (nats)";

// One curve a run of each variant's best learning rate. That of a run that diverged ends in a cross, and is in the legend
// even where nothing is left to draw.
function show_curves(id, title, split, value_of, y_title) {
  const datasets = [];
  report.variants.forEach((variant, index) => {
    shown_runs(variant).forEach((run, nth) => {
      const points = run.curves[split].map((p) => ({ x: p.step, y: value_of(p) })).filter((p) => Number.isFinite(p.y));
      const has_diverged = run.status === "diverged";
      if (points.length < 2 && !has_diverged) return;
      const is_first = !datasets.some((data) => data.family === variant.name);
      const end = (context) => context.dataIndex === points.length - 1;
      const cross = { pointRadius: (c) => end(c) ? 5 : 0, pointStyle: (c) => end(c) ? "crossRot" : style_of(index).mark };
      datasets.push(line_data(variant.name, index, points, is_first ? legend_name(variant) : `_${nth}`, has_diverged ? cross : {}));
    });
  });
  if (!datasets.some((data) => data.data.length > 1)) {
    leave_out(id, `${title}: no run has written two such points.`);
    return;
  }
  const figure = section_for(id, title, "One curve a run; the runs of one variant have one colour. One that diverged ends in a cross.");
  draw(figure, "plot", { data: { datasets }, options: options_for({ ...axis("step"), grace: 0 }, axis(y_title)) });
}

// What the attention of the runs says about itself, whatever that is called: a figure a name.
function show_attention() {
  const points = report.runs.flatMap((run) => run.curves.test);
  for (const name of new Set(points.flatMap((p) => Object.keys(p.attention ?? {})))) {
    show_curves(`attention-${name}`, `Attention: ${name}`, "test", (p) => p.attention?.[name], "mean over heads and layers");
  }
}

// Variants that differ in one key alone are one line: their names differ in that key's part.
function family_of(name, key) {
  const part = key.split(".").pop();
  return name.replace(new RegExp(`(^|-)${part}=[^-]*`), "") || "all";
}

const metric_of = (object) => object && (by_accuracy ? object.accuracy : object.loss);

// Points {family, x, y} -> a line a family through the means, with every run as a small mark. `labels`: what the legend
// calls a family, also one without points, where that is not its name.
function show_against(id, title, points, x_axis, caption, is_line, labels = new Map()) {
  const families = [...new Set([...points.map((p) => p.family), ...labels.keys()])];
  const datasets = [];
  families.forEach((family, index) => {
    const mine = points.filter((p) => p.family === family);
    const xs = [...new Set(mine.map((p) => p.at))].sort((a, b) => a - b);
    const means = xs.map((x) => {
      const here = mine.filter((p) => p.at === x);
      const mean = (key) => here.reduce((sum, p) => sum + p[key], 0) / here.length;
      return { x: mean("x"), y: mean("y") };
    });
    datasets.push(line_data(family, index, means, labels.get(family) || family, { pointRadius: 5, showLine: is_line }));
    datasets.push(line_data(family, index, mine, "_" + family, { pointRadius: 2, showLine: false }));
  });
  const figure = section_for(id, title, caption + " Large marks are means, small ones single runs.");
  draw(figure, "plot", { data: { datasets }, options: options_for(x_axis, axis(unit)) });
}

const distinct = (points) => new Set(points.map((p) => p.at)).size;

// Returns a point for every x that `read` finds in a complete run.
function points_of(key, read) {
  const points = [];
  for (const variant of report.variants) {
    for (const run of shown_runs(variant).filter((candidate) => candidate.is_complete)) {
      for (const [x, y] of read(run)) {
        if (Number.isFinite(x) && Number.isFinite(y)) points.push({ family: family_of(variant.name, key), at: x, x, y });
      }
    }
  }
  return points;
}

function show_pairs() {
  const in_groups = (run) => Object.entries(run.groups || {}).map(([name, score]) => {
    const found = /n_pairs=(\d+)/.exec(name);
    return [found ? Number(found[1]) : NaN, metric_of(score)];
  });
  const in_runs = (run) => [[Number(run.values["task.n_pairs"]), metric_of(run)]];
  const of_groups = points_of("task.n_pairs", in_groups);
  const points = of_groups.length > 0 ? of_groups : points_of("task.n_pairs", in_runs);
  const title = `${by_accuracy ? "Accuracy" : "Loss"} against number of pairs`;
  if (distinct(points) < 2) {
    leave_out("pairs", `${title}: the runs were tested on one number of pairs, or have none.`);
    return;
  }
  show_against("pairs", title, points, axis("key-value pairs in a sequence"), "More pairs are more to remember.", true);
}

function show_width() {
  const points = points_of("model.d_model", (run) => [[Number(run.values["model.d_model"]), metric_of(run)]]);
  const title = `${by_accuracy ? "Accuracy" : "Loss"} against width`;
  if (distinct(points) < 2) {
    leave_out("width", `${title}: all runs have the same model.d_model.`);
    return;
  }
  show_against("width", title, points, axis("d_model"), "The width of the model.", true);
}

// A mark a variant: what it costs and what it reaches. Runs of a variant share their place in the mean.
function show_cost(id, title, key, x_title) {
  const points = [];
  report.variants.forEach((variant, index) => {
    for (const run of shown_runs(variant)) {
      const y = metric_of(run);
      if (run.is_complete && Number.isFinite(y) && Number.isFinite(run[key])) points.push({ family: variant.name, at: index, x: run[key], y });
    }
  });
  if (new Set(points.map((p) => p.family)).size < 2) {
    leave_out(id, `${title}: fewer than two variants have a complete run.`);
    return;
  }
  const diverged = report.variants.filter((variant) => diverged_in(shown_runs(variant)) > 0);
  const labels = new Map(diverged.map((variant) => [variant.name, legend_name(variant)]));
  show_against(id, title, points, axis(x_title), "What a variant costs, and what it reaches.", false, labels);
}

function show_learning_rates() {
  const points = [];
  for (const variant of report.variants) {
    for (const setting of variant.learning_rates) {
      for (const name of setting.runs) {
        const run = run_of.get(name);
        const x = Number(setting.learning_rate), y = metric_of(run);
        if (run.is_complete && Number.isFinite(y)) points.push({ family: variant.name, at: x, x, y });
      }
    }
  }
  const tried = report.variants.some((variant) => variant.learning_rates.length > 1);
  if (!tried || distinct(points) < 2) {
    leave_out("learning-rates", "Learning rates: no variant has complete runs with more than one.");
    return;
  }
  show_against("learning-rates", "Learning rates", points, axis("optimizer.lr", "logarithmic"),
    "All that were tried; the best of each variant is in the other figures.", true);
}

// A square a weight, darker where it is larger.
function map_configuration(weights, size) {
  const n = weights.length;
  const cells = weights.flatMap((row, i) => row.map((weight, j) => ({ x: j, y: i, weight })));
  const largest = Math.max(...cells.map((cell) => cell.weight)) || 1;
  const shade = (context) => {
    const share = context.raw ? Math.max(0, context.raw.weight) / largest : 0;
    return `rgba(0, 65, 120, ${share.toFixed(3)})`;
  };
  const positions = { min: -0.5, max: n - 0.5, ticks: { callback: (value) => Number.isInteger(value) ? value : "" } };
  const options = options_for({ ...axis("key"), ...positions }, { ...axis("query"), ...positions, reverse: true });
  options.plugins.legend.display = false;
  options.plugins.tooltip.callbacks.label = (item) => `query ${item.raw.y}, key ${item.raw.x}: ${item.raw.weight}`;
  const radius = (size / n) / Math.SQRT2;  // of a square mark: from its centre to a corner
  return {
    data: { datasets: [{ type: "scatter", label: "weight", family: "weight", data: cells, pointStyle: "rect", radius, hoverRadius: radius, borderWidth: 0, backgroundColor: shade }] },
    options,
  };
}

function show_maps() {
  let shown = 0;
  for (const variant of report.variants) {
    const run = shown_runs(variant).find((candidate) => candidate.attention_maps);
    if (!run) continue;
    const figure = section_for(`maps-${shown}`, `Attention maps of ${variant.name}`,
      `Weights of ${run.name} on the first ${run.attention_maps.positions} positions of its first test sequence, the largest darkest: ` +
      "a row a query, a column a key.");
    const grid = element("div", null, figure);
    grid.className = "maps";
    run.attention_maps.layers.forEach((heads, layer) => heads.forEach((weights, head) => {
      if (!weights) return;  // not chosen
      const cell = element("div", null, grid);
      element("div", `layer ${layer + 1}, head ${head + 1}`, cell);
      const holder = element("div", null, cell);
      holder.className = "map";
      const canvas = element("canvas", null, holder);
      new Chart(canvas, map_configuration(weights, holder.clientWidth - 50));
      if (has_ink(canvas)) figure.dataset.drawn = "true";
    }));
    ++shown;
  }
  if (shown === 0) {
    leave_out("maps", "Attention maps: no run wrote them; eval.attention_maps: true asks a run to.");
  }
}

function show_all() {
  document.getElementById("title").textContent = `Comparison of ${report.variants.length} variant${report.variants.length === 1 ? "" : "s"}`;
  const complete = report.runs.filter((run) => run.is_complete).length;
  const diverged = diverged_in(report.runs);
  document.getElementById("lead").textContent =
    `${complete} of ${report.runs.length} runs are complete` + (diverged > 0 ? `, ${diverged} diverged.` : ".");
  show_tables();
  show_configs();
  show_curves("curves-accuracy", "Test accuracy", "test", (p) => p.accuracy, "test accuracy");
  show_curves("curves-loss", "Test loss", "test", (p) => p.loss, "test loss (nats)");
  show_curves("curves-train", "Training loss", "train", (p) => p.loss, "loss of a batch (nats)");
  show_attention();
  show_pairs();
  show_width();
  const metric = by_accuracy ? "Accuracy" : "Loss";
  show_cost("cost-time", `${metric} against step time`, "step_ms", "time of a training step (ms)");
  show_cost("cost-parameters", `${metric} against parameters`, "parameters", "parameters");
  show_learning_rates();
  show_maps();
  const left_out = document.getElementById("left-out");
  if (!left_out.hasChildNodes()) left_out.parentElement.remove();
}

// On paper everything is open.
window.addEventListener("beforeprint", () => document.querySelectorAll("#configs details").forEach((d) => { d.open = true; }));
show_all();
document.documentElement.dataset.ready = "true";
