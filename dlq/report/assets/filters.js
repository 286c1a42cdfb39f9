// Which groups the reader wants to see. Each part that depends on it listens to onFilters, and is
// told what changed.
const groupElements = findAll("details.group");
const filters = {
  words: [],
  picked: new Set(), // groups by their place, or "others" for those without a colour
  range: null, // first and last bucket
  queue: "", // a source queue's name; empty for all
};
const onFilters = [];

function changeFilters(change) {
  Object.assign(filters, change);
  onFilters.forEach((tell) => tell(change));
}

function clearFilters() {
  find("#search").value = "";
  changeFilters({ words: [], picked: new Set(), range: null, queue: "" });
}

function togglePick(pick) {
  const picked = new Set(filters.picked);
  if (!picked.delete(pick)) picked.add(pick);
  changeFilters({ picked });
}

const isPicked = (place) =>
  filters.picked.size === 0 ||
  filters.picked.has(place) ||
  (place >= data.colours && filters.picked.has("others"));

function rangeText([first, last]) {
  const start = utcTime(data.starts[first], data.seconds);
  const end = utcTime(data.starts[last] + data.seconds, data.seconds);
  const isSameDay = start.slice(0, 10) === end.slice(0, 10);
  return `${start} to ${isSameDay ? end.slice(11) : end}`;
}

const titleOf = (pick) =>
  pick === "others" ? "other groups" : `${queueOf(pick)}${nameOf(pick).textContent}`;

/** The source queue of a group where there are several; in a legend it is a part of the name. */
function queueOf(pick) {
  const queue = groupElements[pick]?.dataset.queue;
  return queue ? `${queue}: ` : "";
}

/** A group's own title, or that of the legend where the page has no element for each group. */
const nameOf = (pick) =>
  groupElements[pick] ? find("h3", groupElements[pick]) : find(`#legend [data-pick="${pick}"] .name`);

/** One button for each filter that is on, which turns it off. */
function showChips() {
  const chips = [];
  const add = (text, off) => {
    const item = make("li");
    const button = make("button", "", `${text} ×`);
    button.type = "button";
    button.setAttribute("aria-label", `Remove the filter: ${text}`);
    button.addEventListener("click", off);
    item.append(button);
    chips.push(item);
  };
  if (filters.range) add(rangeText(filters.range), () => changeFilters({ range: null }));
  if (filters.queue) add(`queue ${filters.queue}`, () => changeFilters({ queue: "" }));
  for (const pick of filters.picked) add(titleOf(pick), () => togglePick(pick));
  if (chips.length > 1) add("all filters", clearFilters);
  find("#chips").replaceChildren(...chips);
  find("#chips").hidden = chips.length === 0;
}
