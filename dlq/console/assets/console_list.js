// A range in the chart is two fields of the form above the list.
function startList() {
  const form = find("#find");
  const [from, to] = [find("#from"), find("#to")];
  if (from.value !== "") filters.range = [Number(from.value), Number(to.value)];
  onFilters.push(showChips, (change) => {
    if (!("range" in change)) return;
    [from.value, to.value] = filters.range ?? ["", ""];
    htmx.trigger(form, "range");
  });
  if (data?.starts.length) startChart();
  showChips();
}
