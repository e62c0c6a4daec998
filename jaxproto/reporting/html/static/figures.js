const bare = { showgrid: false, zeroline: false };

// Partition: who has what.
function drawPartition() {
  const { partition, split } = by("divided").elements;
  const p = data.partitions[partition.value];
  const counts = p[split.value];
  const most = counts.flat().reduce((a, b) => Math.max(a, b), 1);
  const ticks = [1, 10, 100, 1000, 10000, 100000].filter((v) => v <= most);
  const height = Math.min(900, Math.max(300, 110 + 14 * p.clients.length));
  by("plot-partition").style.height = `${height}px`;
  draw("plot-partition", [{
    type: "heatmap", x: p.classes.map(plain), y: p.clients, customdata: counts,
    z: counts.map((row) => row.map((v) => (v > 0 ? Math.log10(v) : null))),
    zmin: 0, zmax: Math.max(1, Math.log10(most)), colorscale: SCALE, hoverongaps: false,
    colorbar: { thickness: 12, tickvals: ticks.map(Math.log10), ticktext: ticks,
      title: { text: "examples", side: "right" } },
    xgap: p.classes.length > 60 ? 0 : 1, ygap: p.clients.length > 60 ? 0 : 1,
    hovertemplate: "client %{y}, class %{x}: %{customdata} examples<extra></extra>",
  }], {
    height, xaxis: { title: { text: "class" }, type: "category", ...bare },
    yaxis: { title: { text: "client" }, autorange: "reversed", ...bare },
  });
  by("about-partition").textContent = `${p.runs}: ${p.title}. Empty cells: no example.`;
}

// Prototypes: angles between global ones, and where they are.
function drawPrototypes() {
  const p = data.prototypes[by("learnt").elements.run.value];
  drawAngles(p);
  drawPlane(p);
}

function drawAngles(p) {
  const known = p.angles.flat().filter((v) => v !== null);
  const few = p.angles.length <= 12;
  draw("plot-angles", [{
    type: "heatmap", z: p.angles, colorscale: SCALE, hoverongaps: false,
    texttemplate: few ? "%{z:.0f}" : "", xgap: few ? 1 : 0, ygap: few ? 1 : 0,
    colorbar: { thickness: 12, title: { text: "degrees", side: "right" } },
    hovertemplate: "classes %{y} and %{x}: %{z:.1f} degrees<extra></extra>",
  }], {
    xaxis: { title: { text: "class" }, ...bare, ...(few && { dtick: 1 }) },
    yaxis: { title: { text: "class" }, autorange: "reversed", ...bare,
      ...(few && { dtick: 1 }) },
  });
  const least = known.reduce((a, b) => Math.min(a, b), 180);
  const mean = known.reduce((a, b) => a + b, 0) / known.length;
  by("about-angles").textContent = known.length
    ? `Angles between global prototypes after round ${p.round}, ${p.dimensions} ` +
      `dimensions: smallest ${least.toFixed(1)}, mean ${mean.toFixed(1)} degrees.`
    : `After round ${p.round} no two classes have a global prototype.`;
}

function drawPlane(p) {
  const { place = [], label = [], client = [] } = p.points;
  const classes = unique(label).sort((a, b) => a - b);
  const hue = (c) =>
    classes.length <= COLOURS ? colour(c)
      : `hsl(${(360 * classes.indexOf(c)) / classes.length},65%,50%)`;
  const part = (own, name, marker) => {
    const rows = label.map((_, k) => k).filter((k) => (client[k] < 0) === own);
    return {
      type: "scatter", mode: own && classes.length <= 20 ? "markers+text" : "markers", name,
      x: rows.map((k) => place[k][0]), y: rows.map((k) => place[k][1]),
      text: rows.map((k) => label[k]), textposition: "top center",
      customdata: rows.map((k) => `class ${label[k]}${own ? "" : `, client ${client[k]}`}`),
      marker: { ...marker, color: rows.map((k) => hue(label[k])) },
      hovertemplate: `${name}, %{customdata}<extra></extra>`,
    };
  };
  const edge = { width: 1.5, color: style("fore") };
  const none = { showticklabels: false, zeroline: false };
  const two = p.dimensions === 2;
  draw("plot-plane", [
    part(false, "local prototype", { symbol: "triangle-up", size: 8, opacity: 0.7 }),
    part(true, "global prototype", { symbol: "star", size: 17, line: edge }),
  ], { hovermode: "closest", xaxis: two ? {} : none,
    yaxis: two ? { scaleanchor: "x" } : none });
  by("about-plane").textContent =
    `Stars: global prototypes; triangles: local ones, in the colour of their class; ${p.how}.`;
}

// Bytes and seconds of a round.
function drawCosts() {
  const rows = [...data.costs].reverse(); // the first on top
  const names = rows.map((row, i) => `${i}`);
  const height = `${Math.max(200, 110 + 26 * rows.length)}px`;
  const labels = rows.map((row) => brief(row.label));
  const short = rows.map((row) => brief(row.label, 24));
  const bar = (name, key, i) => ({
    type: "bar", orientation: "h", name, y: names, x: rows.map((row) => row[key]),
    text: labels, textposition: "none", marker: { color: colour(i) },
    hovertemplate: `%{text}<br>${name}: %{x:.4s}<extra></extra>`,
  });
  const more = (title) => ({
    xaxis: { title: { text: title }, exponentformat: "SI", rangemode: "tozero" },
    yaxis: { tickvals: names, ticktext: short, type: "category", ...bare },
    barmode: "stack", legend: { orientation: "h", y: 1.02, yanchor: "bottom", traceorder: "normal" },
  });
  by("plot-bytes").style.height = by("plot-seconds").style.height = height;
  draw("plot-bytes", [bar("up", "up", 0), bar("down", "down", 1)],
    { ...more("bytes of a round"), showlegend: true });
  draw("plot-seconds", [bar("seconds", "seconds", 2)], more("seconds of a round"));
}
