// Fills the controls, and draws all of it.
const parts = [];
if (form) {
  choices();
  form.addEventListener("input", (event) => {
    if (["measure", "dataset"].includes(event.target.name)) rules();
    drawCurves();
    drawClients();
  });
  for (const id of ["all", "none"])
    by(id).addEventListener("click", () => {
      boxes().forEach((box) => { box.checked = id === "all"; });
      drawCurves();
      drawClients();
    });
  parts.push(drawCurves, drawClients, drawCosts);
}
if (by("divided")) {
  const { partition } = by("divided").elements;
  fill(partition, data.partitions.map((_, i) => i), data.partitions.map((p) => p.runs));
  by("divided").addEventListener("input", drawPartition);
  parts.push(drawPartition);
}
if (by("learnt")) {
  const { run } = by("learnt").elements;
  fill(run, data.prototypes.map((_, i) => i), data.prototypes.map((p) => p.run));
  by("learnt").addEventListener("input", drawPrototypes);
  parts.push(drawPrototypes);
}
for (const form_ of document.forms)
  form_.addEventListener("submit", (event) => event.preventDefault());
const everything = () => parts.forEach((part) => part());
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", everything);
everything();
