// Accuracy: curves and clients, which share their controls.
const form = by("show");
const chosen = (name) => form.elements[name].value;
const average = () =>
  chosen("average") === "pooled" ? "pooled over test examples" : "mean over clients";
const unit = () => (chosen("measure") === "accuracy" ? " %" : "");
const boxes = () => [...by("methods").querySelectorAll("input")];
const here = (line) => line.dataset === chosen("dataset");
const on = () =>
  boxes().filter((box) => box.checked).map((box) => Number(box.value))
    .filter((i) => here(data.lines[i]));
const of = (line, rule = chosen("rule")) =>
  line.values[chosen("measure")]?.[rule]?.[chosen("average")];

function method(line, i) {
  const label = document.createElement("label");
  const box = document.createElement("input");
  const swatch = document.createElement("span");
  box.type = "checkbox";
  box.value = i;
  box.checked = true;
  swatch.className = "swatch";
  swatch.style.borderTopColor = `var(--c${i % COLOURS})`;
  swatch.style.borderTopStyle = { solid: "solid", dash: "dashed" }[dash(i)] ?? "dotted";
  const seeds = line.seeds.length > 1 ? ` (${line.seeds.length} seeds)` : "";
  const name = document.createElement("span");
  name.className = "name";
  name.textContent = name.title = `${line.label}${seeds}`;
  label.append(box, swatch, name);
  return label;
}

// Measures, then rules, that one of the lines has; the rule of most lines comes first.
function choices() {
  const measures = unique(data.lines.flatMap((line) => Object.keys(line.values)));
  const first = ["accuracy"].filter((name) => measures.includes(name));
  fill(form.elements.measure, unique([...first, ...measures]));
  fill(form.elements.dataset, unique(data.lines.map((line) => line.dataset)));
  by("methods").replaceChildren(...data.lines.map(method));
  rules();
  by("of-published").hidden = !data.lines.some((line) => line.published.length);
}

function rules() {
  const before = chosen("rule");
  const all = data.lines.filter(here)
    .flatMap((line) => Object.keys(line.values[chosen("measure")] ?? {}));
  const times = (rule) => all.filter((name) => name === rule).length;
  const sorted = unique(all).sort((a, b) => times(b) - times(a));
  fill(form.elements.rule, sorted);
  if (sorted.includes(before)) form.elements.rule.value = before;
  boxes().forEach((box, i) => {
    box.closest("label").hidden = !here(data.lines[i]);
  });
}

const at = (line) =>
  of(line).mean.map((_, i) => i)
    .filter((i) => of(line).mean[i] !== null && line[chosen("x")][i] !== null);

function band(line, i) {
  const rows = at(line);
  if (!rows.some((k) => of(line).n[k] > 1)) return [];
  const x = rows.map((k) => line[chosen("x")][k]);
  const high = rows.map((k) => of(line).high[k]);
  const low = rows.map((k) => of(line).low[k]);
  return [{
    x: [...x, ...x.reverse()], y: [...high, ...low.reverse()], fill: "toself",
    fillcolor: faint(colour(i)), line: { width: 0 }, mode: "lines", type: "scatter",
    hoverinfo: "skip",
  }];
}

function curve(line, i) {
  const rows = at(line);
  const told = (k) => {
    const { n, low, high } = of(line);
    const between = `${low[k].toFixed(2)} to ${high[k].toFixed(2)}`;
    return n[k] > 1 ? ` (${n[k]} seeds, ${between})` : "";
  };
  return {
    x: rows.map((k) => line[chosen("x")][k]), y: rows.map((k) => of(line).mean[k]),
    text: rows.map(told), name: plain(line.label), type: "scatter",
    mode: rows.length > 40 ? "lines" : "lines+markers", marker: { size: 5 },
    line: { color: colour(i), dash: dash(i), width: 2 },
    hovertemplate: `${brief(line.label)}: %{y:.2f}${unit()}%{text}<extra></extra>`,
  };
}

function printed(line, i, end) {
  const wanted = chosen("measure") === "accuracy" && form.elements.published.checked;
  return (wanted ? line.published : [])
    .filter((p) => p.rule === chosen("rule") && p.average === chosen("average"))
    .map((p) => ({
      x: [0, end], y: [p.value, p.value], type: "scatter", mode: "lines",
      line: { color: colour(i), dash: "dot", width: 1.5 }, name: "published",
      hovertemplate: `${brief(line.label)}, published: ${plain(p.text)}<extra></extra>`,
    }));
}

function drawCurves() {
  const [shown, x] = [on(), chosen("x")];
  const there = shown.filter((i) => of(data.lines[i]));
  const ends = there.flatMap((i) => data.lines[i][x].filter((v) => v !== null));
  const end = ends.reduce((a, b) => Math.max(a, b), 0);
  const traces = there.flatMap((i) => [
    ...band(data.lines[i], i), curve(data.lines[i], i), ...printed(data.lines[i], i, end),
  ]);
  draw("plot-curves", traces, {
    hovermode: x === "round" ? "x unified" : "closest",
    hoverdistance: x === "round" ? -1 : 20, // the nearest round, however far
    xaxis: { title: { text: AXES[x] }, unifiedhovertitle: { text: "round %{x}" },
      ...(x === "round" && end <= 10 && { dtick: 1 }), rangemode: "tozero", exponentformat: "SI" },
    yaxis: { title: { text: `test ${plain(chosen("measure"))}${unit() && " (%)"}` } },
  });
  by("about-curves").textContent = aboutCurves(shown, there);
}

function aboutCurves(shown, there) {
  const lacking = shown.filter((i) => !there.includes(i)).map((i) => data.lines[i].label);
  const parts = [`Rule ${chosen("rule")}, ${average()}.`];
  if (there.some((i) => data.lines[i].seeds.length > 1))
    parts.push("Line: mean over the seeds that have come so far; band: least to largest.");
  if (lacking.length) parts.push(`Without this rule: ${lacking.join(", ")}.`);
  if (by("plot-curves").data.some((trace) => trace.name === "published"))
    parts.push("Dotted and level: what papers print for the same setting.");
  return parts.join(" ");
}

function drawClients() {
  if (!by("plot-clients")) return;
  const shown = on();
  const mine = data.clients.filter((c) => shown.includes(c.line) && c.rules[chosen("rule")]);
  const traces = mine.map((c) => ({
    x: c.train, y: c.rules[chosen("rule")], type: "scatter", mode: "markers",
    name: plain(c.run), customdata: c.id.map((id, k) => [id, c.test[k]]),
    marker: { color: colour(c.line), size: 8, opacity: 0.75, symbol: c.line % 30,
      line: { width: 0.5, color: style("back") } },
    hovertemplate: `${brief(c.run)}, client %{customdata[0]}: %{y:.2f} %<br>` +
      "%{x} training, %{customdata[1]} test examples<extra></extra>",
  }));
  const ticks = [0, 1, 2, 3, 4, 5, 6].flatMap((k) => [1, 2, 5].map((n) => n * 10 ** k));
  draw("plot-clients", traces, {
    hovermode: "closest",
    xaxis: { title: { text: "training examples of the client" }, type: "log",
      tickvals: ticks, ticktext: ticks.map((n) => n.toLocaleString("en")) },
    yaxis: { title: { text: "test accuracy (%)" } },
  });
  const rounds = unique(mine.map((c) => c.round)).sort((a, b) => a - b).join(", ");
  by("about-clients").textContent = mine.length
    ? `Rule ${chosen("rule")}, after round ${rounds}.`
    : `None of the methods that are chosen has clients by rule ${chosen("rule")}.`;
}
