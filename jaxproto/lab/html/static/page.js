// Shows the traces and elements whose choices are those of the controls. Choices are
// {name of a control: value}; an element has a list of them in data-when, a trace in
// meta, and one of the list must hold.
"use strict";
const all = (selector, within = document) => [...within.querySelectorAll(selector)];
const NOTHING = { text: "Nothing to show for these choices", showarrow: false,
  x: 0.5, y: 0.5, xref: "paper", yref: "paper" };
const drawn = new Map(); // figure -> what it shows, as JSON

function choices() {
  const chosen = {};
  for (const control of all(".controls [name]")) {
    chosen[control.name] ??= [];
    if (control.type !== "checkbox" || control.checked) chosen[control.name].push(control.value);
  }
  return chosen;
}

const holds = (when, chosen) => when.some((one) =>
  Object.entries(one).every(([name, value]) => chosen[name].includes(value)));

function draw(figure, chosen) {
  const { x, layout = {} } = figure.layout.meta ?? {};
  const visible = figure.data.map((trace) => holds(trace.meta.when, chosen));
  const change = Object.assign(
    { annotations: visible.includes(true) ? [] : [NOTHING],
      "xaxis.autorange": true, "yaxis.autorange": true },
    ...Object.entries(layout).map(([name, values]) => values[chosen[name][0]]));
  const state = JSON.stringify([visible, change]);
  if (drawn.get(figure) === state) return;
  drawn.set(figure, state);
  const style = { visible };
  if (x) style.x = figure.data.map((trace) => x[trace.meta.x][chosen.against[0]]);
  Plotly.update(figure, style, change);
}

function show() {
  const chosen = choices();
  for (const element of all("[data-when]"))
    element.hidden = element.disabled = !holds(JSON.parse(element.dataset.when), chosen);
  const gone = document.querySelector("option:checked[hidden]");
  const other = gone?.parentElement.querySelector("option:not([hidden])");
  if (other) { // select the first option that is offered
    other.selected = true;
    return show();
  }
  for (const figure of all(".js-plotly-plot")) draw(figure, chosen);
}

for (const button of all("button[value]"))
  button.addEventListener("click", () => {
    for (const box of all("input", button.closest("fieldset"))) box.checked = button.value === "all";
    show();
  });
for (const form of document.forms) form.addEventListener("submit", (event) => event.preventDefault());
document.addEventListener("input", show);
show();
