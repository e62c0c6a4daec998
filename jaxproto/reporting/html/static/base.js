// Shared by the scripts beside it, which `document.py` joins in one function.
// Figures are drawn from the JSON of #data. Texts of users reach plotly through `plain`,
// and elements of the page as text alone.
"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const by = (id) => document.getElementById(id);
const plain = (text) =>
  String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
const brief = (text, most = 70) =>
  plain(text.length > most ? `${text.slice(0, most - 1)}…` : text);
const unique = (values) => [...new Set(values)];
const config = {
  responsive: true,
  displaylogo: false,
  modeBarButtonsToRemove: ["lasso2d", "select2d", "autoScale2d"],
};
// Of heatmaps: every colour is apart from a light and from a dark page.
const SCALE = [[0, "#7b4fa3"], [0.35, "#3b82c4"], [0.7, "#2fb47c"], [1, "#e8c51c"]];
const DASHES = ["solid", "dash", "dot", "dashdot"];
const COLOURS = 8; // --c0 to --c7 of the style sheet
const AXES = { round: "round", bytes: "bytes sent", seconds: "seconds of training" };

// What the style sheet says, in the light or the dark.
const style = (name) =>
  getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const colour = (i) => style(`c${i % COLOURS}`);
const dash = (i) => DASHES[Math.floor(i / COLOURS) % DASHES.length];
const faint = (hex) => `${hex}2e`;

function layout(more) {
  const axis = { gridcolor: style("rule"), zerolinecolor: style("rule"), automargin: true };
  const { xaxis, yaxis, ...rest } = more;
  return {
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { color: style("fore"), size: 13, family: "system-ui, sans-serif" },
    margin: { l: 55, r: 15, t: 30, b: 45 },
    hoverlabel: { bgcolor: style("panel"), bordercolor: style("rule"),
      font: { color: style("fore") }, namelength: -1 },
    modebar: { bgcolor: "rgba(0,0,0,0)", color: style("soft"), activecolor: style("fore") },
    showlegend: false,
    ...rest,
    xaxis: { ...axis, ...xaxis },
    yaxis: { ...axis, ...yaxis },
  };
}

const draw = (id, traces, more) => Plotly.react(by(id), traces, layout(more), config);

function fill(select, values, texts = values) {
  select.replaceChildren(...values.map((value, i) => new Option(texts[i], value)));
  const label = select.closest("label");
  if (label.id) label.hidden = values.length < 2;
}
