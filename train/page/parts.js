"use strict";

// What every page is made of. Its own script follows, and reads `report`.
const report = JSON.parse(document.getElementById("data").textContent);
// Okabe and Ito's colours, told apart by readers who do not see red and green; then again with other marks.
const colours = ["#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#000000", "#999900"];
const marks = ["circle", "triangle", "rect", "rectRot", "star", "crossRot"];

function style_of(index) {
  const round = Math.floor(index / colours.length);
  return { colour: colours[index % colours.length], mark: marks[round % marks.length], dash: round === 0 ? [] : [4 * round, 3] };
}

function element(name, text, parent) {
  const made = document.createElement(name);
  if (text !== null) made.textContent = text;
  if (parent) parent.append(made);
  return made;
}

function section_for(id, title, caption, parent = document.getElementById("figures"), heading = "h2") {
  const section = element("section", null, parent);
  element(heading, title, section);
  const figure = element("figure", null, section);
  figure.id = id;
  element("figcaption", caption, figure);
  return figure;
}

// Whether anything was drawn: some pixel is not transparent.
function has_ink(canvas) {
  const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  return pixels.some((value, i) => i % 4 === 3 && value > 0);
}

function draw(figure, holder_class, configuration) {
  const holder = element("div", null, figure);
  holder.className = holder_class;
  const canvas = element("canvas", null, holder);
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", figure.querySelector("figcaption").textContent);
  new Chart(canvas, configuration);
  if (has_ink(canvas)) figure.dataset.drawn = "true";
}

function axis(title, scale = "linear") {
  return { type: scale, grace: scale === "linear" ? "5%" : 0, title: { display: true, text: title } };
}

// Datasets whose label starts with "_" have no entry of their own in the legend.
function options_for(x, y) {
  return {
    animation: false,
    responsive: true,
    maintainAspectRatio: false,
    devicePixelRatio: Math.max(2, window.devicePixelRatio || 1),
    parsing: false,
    scales: { x, y },
    plugins: {
      legend: {
        position: "bottom",
        labels: { usePointStyle: true, filter: (item) => !item.text.startsWith("_") },
        onClick: (event, item, legend) => {
          const name = legend.chart.data.datasets[item.datasetIndex].family;
          legend.chart.data.datasets.forEach((data, i) => {
            if (data.family === name) legend.chart.setDatasetVisibility(i, !legend.chart.isDatasetVisible(i));
          });
          legend.chart.update();
        },
      },
      tooltip: { callbacks: { label: (item) => `${item.dataset.family}: ${item.parsed.x}, ${item.parsed.y}` } },
    },
  };
}

function line_data(family, index, points, label, more = {}) {
  const style = style_of(index);
  return {
    type: "line", family, label, data: points, borderColor: style.colour, backgroundColor: style.colour,
    pointStyle: style.mark, borderDash: style.dash, borderWidth: 1.5, pointRadius: 0, ...more,
  };
}
