// Replaces each drawing by an interactive chart. Without this script the page is complete, too.
"use strict";
(() => {
  const { looks, charts } = JSON.parse(document.getElementById("figures").textContent);
  const built = new Map();
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const format = new Intl.NumberFormat("en-GB", { maximumSignificantDigits: 4 });
  const show = (value) => (value == null ? "–" : format.format(value));

  const ink = (curve) =>
    colour(curve.form === "reference" ? "--reference" : `--s${curve.style % looks.colours}`);
  const dashes = (curve) => {
    const all = curve.form === "reference" ? looks.references : looks.dashes;
    return all[curve.style % all.length].split(" ").map(Number).filter(Boolean);
  };
  const thickness = (curve) => (curve.form === "reference" ? 1.5 : 2);

  const hasLine = (curve) => curve.form !== "stated";

  // A marker of one of seven forms about a point; sizes are those of the drawings.
  const MARKERS = [
    (p, x, y, r) => { p.moveTo(x + r, y); p.arc(x, y, r, 0, 7); },
    (p, x, y, r) => p.rect(x - r * 0.85, y - r * 0.85, r * 1.7, r * 1.7),
    (p, x, y, r) => polygon(p, [[x, y - r * 1.2], [x + r * 1.1, y + r * 0.8], [x - r * 1.1, y + r * 0.8]]),
    (p, x, y, r) => polygon(p, [[x, y - r * 1.2], [x + r * 1.2, y], [x, y + r * 1.2], [x - r * 1.2, y]]),
    (p, x, y, r) => polygon(p, [[x, y + r * 1.2], [x + r * 1.1, y - r * 0.8], [x - r * 1.1, y - r * 0.8]]),
    (p, x, y, r) => { p.rect(x - r, y - r * 0.4, r * 2, r * 0.8); p.rect(x - r * 0.4, y - r, r * 0.8, r * 2); },
    (p, x, y, r) => p.rect(x - r * 1.2, y - r * 0.6, r * 2.4, r * 1.2),
  ];
  // Points that others have stated are hollow, so that they are not taken for measured ones.
  function fillMarkers(ctx, curve, scale) {
    if (curve.form !== "stated") return ctx.fill();
    ctx.fillStyle = colour("--paper");
    ctx.lineWidth = 1.5 * scale;
    ctx.fill();
    ctx.stroke();
  }
  function polygon(path, points) {
    points.forEach(([x, y], index) => (index ? path.lineTo(x, y) : path.moveTo(x, y)));
    path.closePath();
  }

  // The measured points of a curve, in pixels of the canvas.
  function places(plot, chart, curve) {
    const at = (value, scale) => plot.valToPos(value, scale, true);
    const bottom = plot.bbox.top + plot.bbox.height;
    return chart.places.flatMap((x, i) => curve.y[i] == null ? [] : [{
      x: at(x, "x"), y: at(curve.y[i], "y"),
      high: curve.high[i] == null ? at(curve.y[i], "y") : at(curve.high[i], "y"),
      low: curve.low[i] == null ? bottom : at(curve.low[i], "y"),
    }]);
  }

  function drawBandAndMarkers(chart) {
    return (plot, index) => {
      const curve = chart.curves[index - 1];
      if (!curve || !curve.low || !plot.series[index].show) return;
      const { ctx, bbox } = plot;
      const points = places(plot, chart, curve);
      ctx.save();
      ctx.beginPath();
      ctx.rect(bbox.left - 8, bbox.top - 8, bbox.width + 16, bbox.height + 16);
      ctx.clip();
      ctx.fillStyle = ctx.strokeStyle = ink(curve);
      ctx.setLineDash([]);
      ctx.lineWidth = devicePixelRatio;
      if (hasLine(curve)) {
        ctx.globalAlpha = 0.15;
        ctx.beginPath();
        polygon(ctx, points.map((p) => [p.x, p.high]).concat(points.map((p) => [p.x, p.low]).reverse()));
        ctx.fill();
        ctx.globalAlpha = 1;
      }
      ctx.beginPath();
      points.forEach((p) => { ctx.moveTo(p.x, p.high); ctx.lineTo(p.x, p.low); });
      ctx.stroke();
      ctx.beginPath();
      points.forEach((p) => MARKERS[curve.style % looks.markers](ctx, p.x, p.y, 4 * devicePixelRatio));
      fillMarkers(ctx, curve, devicePixelRatio);
      ctx.restore();
    };
  }

  function legendValue(curve) {
    return (plot, value, index, place) => {
      if (place == null || value == null) return "";
      if (!curve.low || curve.low[place] === curve.high[place]) return show(value);
      return `${show(value)} [${show(curve.low[place])}, ${show(curve.high[place])}]`;
    };
  }

  const FONT = "12px system-ui";
  const ruler = document.createElement("canvas").getContext("2d");
  function textWidth(text) {
    ruler.font = FONT;
    return ruler.measureText(text).width;
  }

  // Labels for which there is room: from the first on, those that do not reach into the one before.
  function apart(plot, side, values, labels) {
    let end = -Infinity;
    return labels.map((label, i) => {
      if (label == null) return null;
      const at = side === 2 ? plot.valToPos(values[i], "x") : -plot.valToPos(values[i], "y");
      const half = side === 2 ? textWidth(label) / 2 + 3 : 8;
      if (at - half < end) return null;
      end = at + half;
      return label;
    });
  }

  // An axis shows nothing beyond the ends of the data; while a part is selected, the vertical axis
  // follows it. The numbers of the vertical axis have the room that the widest needs.
  function axis(spec, side, least) {
    const written = (plot, values) => values.map((v) =>
      spec.log && (v == null || !/^[125]\.0*e/.test(v.toExponential(6))) ? null : show(v));
    const size = side === 2 ? least
      : (plot, values) => Math.max(least, ...(values || []).map((v) => textWidth(v ?? "") + 16));
    return {
      label: spec.label, side, size, labelSize: 22, labelFont: FONT, font: FONT,
      stroke: () => colour("--faint"), grid: { stroke: () => colour("--rule"), width: 1 },
      ticks: { show: false },
      ...(spec.names.length && { splits: () => spec.names.map(([place]) => place) }),
      values: spec.names.length ? (plot, values) => values.map((v) => cut(named(spec, v), plot.width / spec.names.length))
        : (plot, values) => apart(plot, side, values, written(plot, values)),
    };
  }

  function named(spec, value) {
    const known = spec.names.find(([place]) => place === value);
    return known ? known[1] : show(value);
  }

  // A name as far as there is room, with a sign where it is cut; the pointer shows it in full.
  function cut(name, room) {
    const letters = Math.floor(room / 7);
    return name.length <= letters ? name : name.slice(0, Math.max(letters - 1, 0)) + "…";
  }

  const height = (width) => Math.round(Math.min(400, Math.max(260, width * 0.55)));

  function options(chart, width) {
    const series = chart.curves.map((curve) => ({
      label: curve.label, stroke: ink(curve), width: thickness(curve), dash: dashes(curve),
      spanGaps: true, points: { show: false }, value: legendValue(curve),
      ...(!hasLine(curve) && { paths: () => null }),
    }));
    return {
      width, height: height(width),
      scales: {
        x: { time: false, distr: chart.x.log ? 3 : 1, range: (plot, low, high) =>
          low <= chart.places[0] && high >= chart.places.at(-1) ? chart.x.range : [low, high] },
        y: { distr: chart.y.log ? 3 : 1, range: fixedRange(chart) },
      },
      axes: [axis(chart.x, 2, 34), axis(chart.y, 3, 40)],
      series: [{ label: chart.x.label, value: (plot, value) => named(chart.x, value) }, ...series],
      cursor: { points: { size: 8 }, drag: { x: true, y: false }, dataIdx: nearest(chart) },
      legend: { live: true },
      hooks: { drawSeries: [drawBandAndMarkers(chart)], ready: [keyboard, swatches(chart)] },
    };
  }

  // With all curves shown the ends are those of the drawing; with some hidden, or a part selected,
  // those of the visible data.
  function fixedRange(chart) {
    const isWhole = ({ min, max }) => min == null || (min <= chart.places[0] && max >= chart.places.at(-1));
    return (plot, low, high) => {
      const all = isWhole(plot.scales.x) && plot.series.slice(1).every((series) => series.show);
      if (low == null || all) return chart.y.range;
      return chart.y.log ? [low / 1.2, high * 1.2] : [Math.min(0, low), high * 1.08 || 1];
    };
  }

  // Curves without a point at the pointer's place show their nearest one.
  function nearest(chart) {
    return (plot, index, place) => {
      if (index === 0) return place;
      const values = chart.curves[index - 1].y;
      for (let step = 0; step < values.length; step++) {
        if (values[place - step] != null) return place - step;
        if (values[place + step] != null) return place + step;
      }
      return place;
    };
  }

  // The sign before an entry of the legend is drawn like its curve: dashes, and its marker.
  function swatches(chart) {
    return (plot) => plot.root.querySelectorAll(".u-legend .u-series").forEach((row, index) => {
      if (index === 0) return;
      const curve = chart.curves[index - 1];
      const drawn = document.createElement("canvas");
      const [width, high] = [30, 12];
      drawn.width = width * devicePixelRatio;
      drawn.height = high * devicePixelRatio;
      drawn.className = "swatch";
      const ctx = drawn.getContext("2d");
      ctx.scale(devicePixelRatio, devicePixelRatio);
      ctx.fillStyle = ctx.strokeStyle = ink(curve);
      ctx.lineWidth = thickness(curve);
      if (hasLine(curve)) {
        ctx.setLineDash(dashes(curve));
        ctx.beginPath();
        ctx.moveTo(0, high / 2);
        ctx.lineTo(width, high / 2);
        ctx.stroke();
      }
      if (curve.low) {
        ctx.beginPath();
        MARKERS[curve.style % looks.markers](ctx, width / 2, high / 2, 4);
        fillMarkers(ctx, curve, 1);
      }
      row.querySelector(".u-marker").replaceWith(drawn);
    });
  }

  // The legend is a row of switches, which keys reach as well as the pointer.
  function keyboard(plot) {
    const legend = plot.root.querySelector(".u-legend");
    legend.setAttribute("role", "group");
    legend.setAttribute("aria-label", "Curves");
    plot.root.querySelectorAll(".u-legend .u-series").forEach((row, index) => {
      if (index === 0) return;
      const pressed = () => row.setAttribute("aria-pressed", String(plot.series[index].show));
      row.tabIndex = 0;
      row.setAttribute("role", "button");
      pressed();
      row.addEventListener("click", () => setTimeout(pressed));
      row.addEventListener("keydown", (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        plot.setSeries(index, { show: !plot.series[index].show });
        pressed();
      });
    });
  }

  function build(chart) {
    const place = document.querySelector(`.live[data-figure="${CSS.escape(chart.id)}"]`);
    const figure = place.closest("figure");
    figure.classList.add("is-live");
    built.get(chart.id)?.destroy();
    const data = [chart.places, ...chart.curves.map((curve) => curve.y)];
    const plot = new uPlot(options(chart, place.clientWidth), data, place);
    plot.over.closest(".u-wrap").setAttribute("role", "img");
    const values = figure.querySelector("table") ? ". The values are in the table below." : ".";
    plot.over.closest(".u-wrap").setAttribute("aria-label", chart.title + values);
    built.set(chart.id, plot);
    return place;
  }

  function fit(entries) {
    for (const { target } of entries) {
      const plot = built.get(target.dataset.figure);
      const width = target.clientWidth;
      if (width > 0 && width !== plot.width) plot.setSize({ width, height: height(width) });
    }
  }

  const watcher = new ResizeObserver(fit);
  charts.forEach((chart) => watcher.observe(build(chart)));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => charts.forEach(build));

  document.querySelectorAll("figure .cell").forEach((cell) => {
    const figure = cell.closest("figure");
    figure.classList.add("is-live", "heat");
    const tell = () => { figure.querySelector(".pointed").textContent = cell.dataset.about; };
    cell.setAttribute("tabindex", "0");
    cell.setAttribute("role", "img");
    // A chart whose parts can be focused one by one is not one image.
    cell.closest("svg").setAttribute("role", "group");
    cell.addEventListener("pointerenter", tell);
    cell.addEventListener("focus", tell);
  });

  // All that is folded is printed, and folded again afterwards.
  let unfolded = [];
  addEventListener("beforeprint", () => {
    unfolded = [...unfolded, ...document.querySelectorAll("details:not([open])")];
    unfolded.forEach((details) => { details.open = true; });
  });
  addEventListener("afterprint", () => {
    unfolded.forEach((details) => { details.open = false; });
    unfolded = [];
  });
  // Tests read the charts through this.
  window.ropewalkReport = { built };
})();
