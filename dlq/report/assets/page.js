// The numbers that the page has for its scripts.
const data = JSON.parse(document.getElementById("report-data").textContent);
