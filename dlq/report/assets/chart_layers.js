// What the chart stacks: a layer for each group with a colour and one for the others, or what the
// reader picked.

/** Layers from the bottom up: { pick, colour, counts, lower, upper }. */
function chartLayers() {
  const places = data.arrivals.map((_, place) => place);
  const coloured = places.filter((place) => place < data.colours || filters.picked.has(place));
  const others = places.filter((place) => place >= data.colours && !filters.picked.has(place));
  const layers = coloured.filter(isPicked).map((place) => ({
    pick: place,
    colour: place < data.colours ? `c${place + 1}` : "accent",
    counts: data.arrivals[place],
  }));
  if (others.length > 0 && (filters.picked.size === 0 || filters.picked.has("others"))) {
    layers.push({ pick: "others", colour: "c0", counts: totals(others) });
  }
  return stacked(layers);
}

function totals(places) {
  const counts = data.starts.map(() => 0);
  for (const place of places) {
    data.arrivals[place].forEach((count, bucket) => (counts[bucket] += count));
  }
  return counts;
}

function stacked(layers) {
  let lower = data.starts.map(() => 0);
  return layers.map((layer) => {
    const upper = lower.map((height, bucket) => height + layer.counts[bucket]);
    const placed = { ...layer, lower, upper };
    lower = upper;
    return placed;
  });
}
