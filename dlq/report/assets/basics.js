// What every part of the page uses.
const root = document.documentElement;

const find = (selector, within = document) => within.querySelector(selector);
const findAll = (selector, within = document) => [...within.querySelectorAll(selector)];

/** Make an element; text goes in as text, never as markup. */
function make(tag, className = "", text = "") {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text) element.textContent = text;
  return element;
}

const grouped = new Intl.NumberFormat("en").format;
const counted = (number, thing) => `${grouped(number)} ${thing}${number === 1 ? "" : "s"}`;

/** A moment as people read it; to the second only where times lie less than a minute apart. */
function utcTime(seconds, apart) {
  return new Date(seconds * 1000).toISOString().slice(0, apart < 60 ? 19 : 16).replace("T", " ");
}

const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);

/** Tell those who listen instead of look. */
function say(text) {
  find("#said").textContent = text;
}

/** The colour that a class of swatch has now, resolved for a canvas. */
function colourOf(name) {
  const swatch = make("i", `swatch ${name}`);
  document.body.append(swatch);
  const colour = getComputedStyle(swatch).backgroundColor;
  swatch.remove();
  return colour;
}
