// The chart above the list of groups: what it picks changes the chart, a range of time also the list.
const data = JSON.parse(find("#report-data")?.textContent ?? "null");
const onFirstOpen = [];
