// The list of groups: search, sort, open, move with the keyboard, links into it.
const groupRows = groupElements.map((element, place) => ({ element, place, text: null }));

/** Told of each group when it is opened for the first time. */
const onFirstOpen = [equipGroup];

/** Names of source queues; none where all groups are of one. */
const queueNames = findAll("#queue option").map((option) => option.value);

const trends = { rising: 4, steady: 3, falling: 2, ended: 1 };
const orders = {
  count: (row) => Number(row.element.dataset.count),
  last: (row) => Number(row.element.dataset.last),
  first: (row) => Number(row.element.dataset.first),
  trend: (row) => trends[row.element.dataset.trend] ?? 0,
  score: (row) => Number(row.element.dataset.score),
  age: (row) => Number(row.element.dataset.age),
  // The options of the filter are in the order of the alphabet.
  queue: (row) => -queueNames.indexOf(row.element.dataset.queue),
};

const searchedParts = "h3, .part .title, .difference code, mark, .differences code, .tally th, .sample code, .attributes th, .attributes td";

/** What a search looks through: what came from messages, not the page's own words. */
function textOf(row) {
  row.text ??= [
    row.element.id,
    ...findAll(searchedParts, row.element)
      .map((element) => element.textContent),
  ].join("\n").toLowerCase();
  return row.text;
}

function isWanted(row) {
  const arrivals = data.arrivals[row.place];
  const [first, last] = filters.range ?? [0, -1];
  return (
    isPicked(row.place) &&
    (!filters.queue || row.element.dataset.queue === filters.queue) &&
    (!filters.range || sum(arrivals.slice(first, last + 1)) > 0) &&
    filters.words.every((word) => textOf(row).includes(word))
  );
}

function showGroups() {
  let shown = 0;
  for (const row of groupRows) {
    row.element.hidden = !isWanted(row);
    if (!row.element.hidden) shown += 1;
  }
  const matches = find("#matches");
  const all = counted(groupRows.length, matches.dataset.row);
  matches.textContent = shown === groupRows.length ? matches.dataset.all : `${grouped(shown)} of ${all}`;
  find("#no-match").hidden = shown > 0;
}

function sortGroups(by) {
  const key = orders[by];
  const sorted = [...groupRows].sort((a, b) => key(b) - key(a) || a.place - b.place);
  find("#rows").append(...sorted.map((row) => row.element));
}

function openAll(open) {
  for (const { element } of groupRows) if (!element.hidden) element.open = open;
}

/** The group that the address names; anybody can write one that names none, or nothing at all. */
function addressed() {
  try {
    const id = decodeURIComponent(location.hash.slice(1));
    return findAll("details.group, details.part").find((element) => element.id === id);
  } catch {
    return undefined;
  }
}

function followAddress() {
  const element = addressed();
  if (!element) return;
  const row = element.closest("details.group");
  if (row.hidden) clearFilters();
  row.open = true;
  element.open = true;
  find("summary", element).focus({ preventScroll: true });
  element.scrollIntoView({ block: "start" });
}

/** Up, Down, Home and End go from group to group while one has the focus. */
function moveFocus(event) {
  const summary = event.target.closest("details.group > summary");
  if (!summary || event.ctrlKey || event.metaKey || event.altKey) return;
  const summaries = findAll("details.group:not([hidden]) > summary");
  const place = summaries.indexOf(summary);
  const to = { ArrowDown: place + 1, ArrowUp: place - 1, Home: 0, End: summaries.length - 1 }[event.key];
  if (to === undefined || !summaries[to]) return;
  event.preventDefault();
  summaries[to].focus();
}

function startGroups() {
  const search = find("#search");
  search.addEventListener("input", () =>
    changeFilters({ words: search.value.toLowerCase().split(/\s+/).filter(Boolean) }));
  find("#sort").addEventListener("change", (event) => sortGroups(event.target.value));
  const queue = find("#queue");
  if (queue) {
    queue.addEventListener("change", () => changeFilters({ queue: queue.value }));
    onFilters.push(() => { queue.value = filters.queue; });
  }
  find("#expand").addEventListener("click", () => openAll(true));
  find("#collapse").addEventListener("click", () => openAll(false));
  find("[data-clear]").addEventListener("click", clearFilters);
  find("#rows").addEventListener("keydown", moveFocus);
  find("#rows").addEventListener("click", (event) => {
    const summary = event.target.closest("details.group > summary");
    // Not yet toggled when it is clicked: this click opens it, and the address can be shared.
    if (summary && !summary.parentElement.open) {
      history.replaceState(null, "", `#${encodeURIComponent(summary.parentElement.id)}`);
    }
  });
  const opened = new WeakSet();
  find("#rows").addEventListener("toggle", ({ target }) => {
    if (!target.open || !target.matches("details.group, details.part") || opened.has(target)) return;
    opened.add(target);
    if (target.matches(".part")) equipGroup(target);
    else onFirstOpen.forEach((tell) => tell(target));
  }, true);
  addEventListener("hashchange", followAddress);
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href^='#']");
    if (link && link.hash === location.hash) followAddress();
  });
  // The report of a look has no commands.
  const commands = find("#redrive");
  if (commands) equipCommands(commands);
  onFilters.push(showChips, showGroups);
  followAddress();
}
