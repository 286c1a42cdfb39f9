// Everything is defined: begin. Where nothing is left to decide there is no list and no chart.

/** Say how long ago the analysis was. */
function showAgo() {
  const ago = new Intl.RelativeTimeFormat("en", { numeric: "auto" });
  const units = [["day", 86_400], ["hour", 3_600], ["minute", 60]];
  const time = find("time.ago");
  const seconds = (Date.parse(time.dateTime) - Date.now()) / 1000;
  const [unit, length] = units.find(([, one]) => Math.abs(seconds) >= one) ?? units.at(-1);
  find(".how-long").textContent = `(${ago.format(Math.round(seconds / length), unit)})`;
}

startTheme();
showAgo();
setInterval(showAgo, 60_000);
if (groupElements.length > 0) {
  startGroups();
  startMarks();
  startChart();
}
