// Pictures of numbers over time, by uPlot; each has its latest numbers beside its title, and all of them as a table.
import { add, fill, freshId, h } from "./dom.js";
import { duration, number, size, speed, time } from "./format.js";
import { t } from "./texts.js";

const MOST_POINTS = 180;

// Where an axis may have its lines: sizes at powers of two, times at what clocks count in, counts at whole numbers.
const DECIMAL = [...Array(16).keys()].flatMap((power) => [1, 2, 5].map((digit) => digit * 10 ** power));
const BYTES = [...Array(50).keys()].map((power) => 2 ** power);
const SECOND = 1000, MINUTE = 60 * SECOND, HOUR = 60 * MINUTE, DAY = 24 * HOUR;
const TIMES = [...[...Array(6).keys()].flatMap((power) => [1, 2, 5].map((digit) => digit * 10 ** (power - 3))),
  ...[1, 2, 5, 10, 15, 30].map((each) => each * SECOND), ...[1, 2, 5, 10, 15, 30].map((each) => each * MINUTE),
  ...[1, 2, 3, 6, 12].map((each) => each * HOUR), ...DECIMAL.slice(0, 12).map((each) => each * DAY)];
const STEPS = new Map([[size, BYTES], [speed, BYTES], [duration, TIMES], [number, DECIMAL]]);

function color(name) { return getComputedStyle(document.documentElement).getPropertyValue(name).trim(); }

// Wide enough for the longest text beside it.
function axisWidth(plot, texts) { return Math.max(40, 14 + 6.5 * Math.max(...(texts ?? [""]).map((text) => text.length))); }

// series: [{ label, show: value => text }]
export class Chart {
  constructor(title, series, { note = "" } = {}) {
    this.series = series;
    this.data = [[], ...series.map(() => [])];
    this.numbers = h("span", { class: "chart-now" });
    this.box = h("div", { class: "chart-box", role: "img", "aria-label": title }, h("div", { class: "empty" }, t("chart.soon")));
    this.table = h("table", { class: "small" });
    const details = h("details", { class: "chart-numbers", ontoggle: () => this.drawTable() },
      h("summary", {}, t("chart.numbers")), h("div", { class: "scroll", tabindex: "0" }, this.table));
    this.details = details;
    const id = freshId();
    this.element = h("section", { class: "card chart", "aria-labelledby": id },
      h("header", {}, h("h3", { id }, title), this.numbers), note && h("p", { class: "note" }, note), this.box, details);
    this.resize = new ResizeObserver(() => this.draw());
    this.resize.observe(this.box);
    this.themes = new MutationObserver(() => { this.plot?.destroy(); this.plot = null; this.draw(); });
    this.themes.observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
  }

  push(at, values) {
    this.data[0].push(at / 1000);
    values.forEach((value, place) => this.data[place + 1].push(value ?? null));
    if (this.data[0].length > MOST_POINTS) for (const each of this.data) each.shift();
    fill(this.numbers, ...this.series.map((series, place) => h("span", { class: `key key${place}` },
      `${series.label} `, h("b", {}, series.show(values[place])))));
    this.draw();
    this.drawTable();
  }

  draw() {
    const width = Math.floor(this.box.clientWidth);
    if (!width || !window.uPlot || this.data[0].length < 2) return;
    if (!this.plot) {
      fill(this.box);
      const axis = { stroke: color("--faint"), grid: { stroke: color("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui" };
      this.plot = new window.uPlot({
        width, height: 120, cursor: { y: false }, legend: { show: false }, padding: [8, 4, 0, 0],
        scales: { y: { range: (_, low, high) => [0, high > 0 ? high * 1.1 : 1] } },
        axes: [{ ...axis, size: 24, space: 70, values: (_, all) => all.map((each) => time(each * 1000, { date: false, millis: false })) },
          { ...axis, size: axisWidth, space: 32, incrs: STEPS.get(this.series[0].show), values: (_, all) => all.map((each) => this.series[0].show(each)) }],
        series: [{}, ...this.series.map((_, place) => ({ stroke: color(`--series${place}`), width: 1.5, points: { show: (plot) => plot.data[0].length < 10, size: 4, fill: color(`--series${place}`) }, spanGaps: true }))],
      }, this.data, this.box);
    } else {
      if (this.plot.width !== width) this.plot.setSize({ width, height: 120 });
      this.plot.setData(this.data);
    }
  }

  drawTable() {
    if (!this.details.open) return;
    const rows = this.data[0].map((at, place) => [at, place]).slice(-20).reverse();
    fill(this.table, h("thead", {}, h("tr", {}, h("th", {}, t("time")), ...this.series.map((each) => h("th", { class: "num" }, each.label)))),
      add(h("tbody"), rows.map(([at, place]) => h("tr", {}, h("td", {}, time(at * 1000, { date: false, millis: false })),
        ...this.series.map((each, which) => h("td", { class: "num" }, each.show(this.data[which + 1][place])))))));
  }

  close() { this.resize.disconnect(); this.themes.disconnect(); this.plot?.destroy(); }
}

// Bars of counts, each with its number.
export function bars(title, rows, note = "") {
  const most = Math.max(...rows.map(([, count]) => count), 1);
  return h("section", { class: "card" }, h("header", {}, h("h3", {}, title)), note && h("p", { class: "note" }, note),
    h("table", { class: "bars" }, add(h("tbody"), rows.map(([label, count]) => h("tr", {}, h("th", { scope: "row" }, label),
      h("td", {}, h("meter", { min: "0", max: String(most), value: String(count), "aria-label": label })), h("td", { class: "num" }, String(count)))))));
}
