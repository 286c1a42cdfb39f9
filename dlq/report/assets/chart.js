// Arrivals over time, drawn by uPlot; the legend, the tip and the brush are the page's own.
const days = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", timeZone: "UTC" });
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const [minuteSeconds, hourSeconds, daySeconds] = [60, 3_600, 86_400];
const timeSteps = [
  ...[1, 5, 10, 15, 30],
  ...[1, 5, 10, 15, 30].map((minutes) => minutes * minuteSeconds),
  ...[1, 2, 3, 6, 12].map((hours) => hours * hourSeconds),
  ...[1, 2, 4, 7, 14, 30, 60, 90, 180, 365, 730, 1825, 3650].map((count) => count * daySeconds),
];
const halfLabel = 28; // pixels: a label is centred on its tick, and the last may stand at the edge
const wholeSteps = Array.from({ length: 10 }, (_, power) => [1, 2, 5].map((step) => step * 10 ** power)).flat();

class ArrivalsChart {
  constructor(holder) {
    this.holder = holder;
    this.emphasis = null; // the one pick that keeps its colour, while the pointer is on it
    this.tip = make("div", "tip");
    this.over = make("div", "over");
    this.range = make("div", "range");
    this.draw();
    new ResizeObserver(() => this.fit()).observe(holder);
    holder.addEventListener("keydown", (event) => this.read(event));
    holder.addEventListener("mouseleave", () => this.point(null));
    holder.addEventListener("blur", () => this.point(null));
  }

  draw() {
    this.plot?.destroy();
    this.layers = chartLayers();
    this.colours = Object.fromEntries(
      ["soft", "rule", ...this.layers.map((layer) => layer.colour)].map((name) => [name, colourOf(name)]),
    );
    const middles = data.starts.map((start) => start + data.seconds / 2);
    this.plot = new uPlot(
      this.options(),
      [middles, ...this.layers.map((layer) => layer.upper)],
      this.holder,
    );
    this.plot.over.append(this.over, this.range);
    this.holder.append(this.tip);
    this.point(null);
  }

  options() {
    const font = `12px ${getComputedStyle(document.body).fontFamily}`;
    const axis = { stroke: this.colours.soft, font };
    const end = data.starts.at(-1) + data.seconds;
    return {
      ...this.size(),
      legend: { show: false },
      padding: [8, halfLabel, 0, 0],
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
      cursor: { y: false, points: { show: false }, drag: { x: true, y: false, setScale: false, dist: 4 } },
      scales: {
        x: { time: true, range: () => [data.starts[0], end] },
        y: { range: (_, __, most) => [0, Math.max(1, most * 1.04)] },
      },
      axes: [
        {
          ...axis,
          size: 42,
          space: 72,
          incrs: timeSteps,
          grid: { show: false },
          ticks: { stroke: this.colours.rule, width: 1, size: 5 },
          values: (_, splits, __, ___, step) => splits.map((at, place) => timeLabel(at, place, step)),
        },
        {
          ...axis,
          size: 44,
          space: 36,
          incrs: wholeSteps,
          grid: { stroke: this.colours.rule, width: 1 },
          ticks: { show: false },
          values: (_, splits) => splits.map((value) => compact.format(value)),
        },
      ],
      series: [{}, ...this.layers.map((layer) => this.series(layer))],
      hooks: {
        draw: [() => this.showRange()],
        setCursor: [(plot) => this.point(plot.cursor.idx ?? null)],
        setSelect: [(plot) => this.brush(plot)],
      },
    };
  }

  series(layer) {
    const isMuted = () => this.emphasis !== null && this.emphasis !== layer.pick;
    return {
      width: 0,
      fill: () => (isMuted() ? this.colours.rule : this.colours[layer.colour]),
      points: { show: false },
      paths: uPlot.paths.bars({
        size: [0.86, Infinity],
        disp: { y0: { unit: 1, values: () => layer.lower }, y1: { unit: 1, values: () => layer.upper } },
      }),
    };
  }

  size() {
    return { width: Math.max(240, this.holder.clientWidth), height: Math.max(160, this.holder.clientHeight) };
  }

  fit() {
    const { width, height } = this.size();
    if (width === this.plot.width && height === this.plot.height) return;
    this.plot.setSize({ width, height });
  }

  emphasize(pick) {
    this.emphasis = pick;
    this.plot.redraw(false);
  }

  /** Stretch an element over buckets. */
  cover(element, first, last) {
    const left = this.plot.valToPos(data.starts[first], "x");
    element.style.left = `${left}px`;
    element.style.width = `${this.plot.valToPos(data.starts[last] + data.seconds, "x") - left}px`;
  }

  showRange() {
    this.range.hidden = !filters.range;
    if (filters.range) this.cover(this.range, ...filters.range);
  }

  /** Show a bucket's numbers beside it; null hides them. */
  point(bucket) {
    this.bucket = bucket;
    this.tip.hidden = this.over.hidden = bucket === null;
    if (bucket === null) return;
    this.cover(this.over, bucket, bucket);
    this.tip.replaceChildren(...this.tipLines(bucket));
    const middle = this.plot.valToPos(data.starts[bucket] + data.seconds / 2, "x") + this.plot.bbox.left / devicePixelRatio;
    const isRight = middle > this.holder.clientWidth / 2;
    const left = isRight ? middle - this.tip.offsetWidth - 12 : middle + 12;
    this.tip.style.left = `${Math.max(0, Math.min(left, this.holder.clientWidth - this.tip.offsetWidth))}px`;
  }

  tipLines(bucket) {
    const present = this.layers.filter((layer) => layer.counts[bucket] > 0).reverse();
    const total = sum(present.map((layer) => layer.counts[bucket]));
    const head = make("b", "", `${rangeText([bucket, bucket])}: ${grouped(total)}`);
    const lines = present.map((layer) => {
      const line = make("div");
      line.append(
        make("i", `swatch ${layer.colour}`),
        make("span", "", titleOf(layer.pick)),
        make("span", "n", grouped(layer.counts[bucket])),
      );
      return line;
    });
    return [head, ...lines];
  }

  brush(plot) {
    if (plot.select.width <= 0) return;
    const bucketAt = (left) => {
      const seconds = plot.posToVal(left, "x") - data.starts[0];
      return Math.max(0, Math.min(data.starts.length - 1, Math.floor(seconds / data.seconds)));
    };
    const range = [bucketAt(plot.select.left), bucketAt(plot.select.left + plot.select.width - 1)];
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    changeFilters({ range });
  }

  /** Arrow keys read the chart; Enter and Escape filter. */
  read(event) {
    const steps = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity };
    const last = data.starts.length - 1;
    if (event.key in steps) {
      const from = this.bucket ?? (steps[event.key] > 0 ? -1 : last + 1);
      this.point(Math.max(0, Math.min(last, from + steps[event.key])));
      say([...this.tip.children].map((line) => line.textContent).join(", "));
    } else if (event.key === "Enter" && this.bucket !== null) {
      changeFilters({ range: [this.bucket, this.bucket] });
    } else if (event.key === "Escape") {
      changeFilters({ range: null, picked: new Set() });
    } else return;
    event.preventDefault();
  }
}

function timeLabel(at, place, step) {
  const day = days.format(new Date(at * 1000));
  if (step >= daySeconds) return day;
  const clock = utcTime(at, step).slice(11);
  return place === 0 || at % daySeconds === 0 ? `${clock}\n${day}` : clock;
}

/** On paper the chart is light and as wide as a page. */
function printChart(chart) {
  let theme;
  addEventListener("beforeprint", () => {
    theme = root.dataset.theme;
    root.dataset.theme = "light";
    chart.draw();
    chart.plot.setSize({ width: 660, height: 180 });
  });
  addEventListener("afterprint", () => {
    if (theme === undefined) delete root.dataset.theme;
    else root.dataset.theme = theme;
    chart.draw();
  });
}

/** Pointing at an entry greys out the others; pressing it filters. */
function startLegend(chart) {
  const buttons = findAll("#legend button");
  const pickOf = (button) => (button.dataset.pick === "others" ? "others" : Number(button.dataset.pick));
  for (const button of buttons) {
    button.addEventListener("click", () => togglePick(pickOf(button)));
    for (const enter of ["mouseenter", "focus"]) button.addEventListener(enter, () => chart.emphasize(pickOf(button)));
    for (const leave of ["mouseleave", "blur"]) button.addEventListener(leave, () => chart.emphasize(null));
  }
  onFilters.push(() => {
    for (const button of buttons) button.setAttribute("aria-pressed", filters.picked.has(pickOf(button)));
  });
}

/** An open group can be shown alone in the large chart. */
function offerChart(chart, group) {
  const steps = find(".steps", group);
  if (!steps) return;
  const button = make("button", "link", "Show in the chart");
  button.type = "button";
  button.addEventListener("click", () => {
    changeFilters({ picked: new Set([Number(group.dataset.place)]) });
    chart.holder.scrollIntoView({ block: "center" });
  });
  steps.nextElementSibling.append(" ", button);
}

function startChart() {
  const holder = find("#chart");
  if (!holder) return;
  const chart = new ArrivalsChart(holder);
  startLegend(chart);
  onFirstOpen.push((group) => offerChart(chart, group));
  onFilters.push((change) => {
    if (!("picked" in change || "range" in change)) return;
    chart.emphasis = null;
    chart.draw();
  });
  onTheme.push(() => chart.draw());
  printChart(chart);
}
