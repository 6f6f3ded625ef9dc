// Draws the charts and loss maps of a report from the numbers embedded in it, and plays the sounds next to it. Fetches nothing
// else, stores only the theme.
(function () {
  "use strict";
  const root = document.documentElement;
  const one = (selector, from) => (from || document).querySelector(selector);
  const all = (selector, from) => Array.from((from || document).querySelectorAll(selector));
  const make = (tag, className, text) => {
    const element = document.createElement(tag);
    if (className) element.className = className;
    if (text !== undefined) element.textContent = text;
    return element;
  };
  // Asked once for each theme: a long run has a hundred thousand cells.
  const palette = new Map();
  const colour = (name) => {
    if (!palette.has(name)) palette.set(name, getComputedStyle(root).getPropertyValue("--" + name).trim());
    return palette.get(name);
  };
  const seriesColour = (n) => (n === null || n === undefined ? colour("ink") : colour("s" + (n % 8)));

  // --- numbers -----------------------------------------------------------------------------------------------
  // The reverse of encode.rs: base-128 integers, one up; 0 is no value; else a zig-zag difference.
  function decode([quantum, text]) {
    const bytes = atob(text);
    const out = [];
    let last = 0, value = 0, factor = 1;
    for (let i = 0; i < bytes.length; i++) {
      const b = bytes.charCodeAt(i);
      value += (b & 127) * factor;
      if (b & 128) { factor *= 128; continue; }
      if (value === 0) out.push(null);
      else {
        const z = value - 1;
        last += z % 2 ? -(z + 1) / 2 : z / 2;
        out.push(last * quantum);
      }
      value = 0;
      factor = 1;
    }
    return out;
  }
  // Plays what was heard at a place of the loss map; set by the player.
  let listener = null;

  const raw = JSON.parse(one("#columns").textContent);
  const decoded = [];
  const column = (i) => decoded[i] || (decoded[i] = decode(raw[i]));
  const specOf = (figure) => JSON.parse(one("script", figure).textContent);

  function figureText(value) {
    if (value === null || value === undefined) return "\u2013";
    const size = Math.abs(value);
    const decimals = size === 0 || size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3;
    return value.toFixed(size >= 100 ? 1 : decimals);
  }
  function shareText(share) {
    if (share === null || share === undefined) return "none";
    const percent = share * 100;
    return percent.toFixed(percent >= 10 ? 0 : percent >= 1 ? 1 : percent >= 0.1 ? 2 : 3) + "\u202f%";
  }
  const plain = (v) => String(+v.toPrecision(6)).replace("-", "\u2212");

  // The last index whose x is not above `at`.
  function indexAt(xs, at) {
    let low = 0, high = xs.length - 1, found = -1;
    while (low <= high) {
      const mid = (low + high) >> 1;
      if (xs[mid] <= at) { found = mid; low = mid + 1; } else high = mid - 1;
    }
    return found;
  }

  // --- charts ------------------------------------------------------------------------------------------------
  const LANE = 9;
  const Y_SIZE = (share) => (share ? 78 : 62);
  const charts = [];

  function splits125(min, max) {
    const out = [];
    for (let e = Math.floor(Math.log10(min)) - 1; e <= Math.ceil(Math.log10(max)); e++) {
      for (const m of [1, 2, 5]) {
        const v = m * Math.pow(10, e);
        if (v >= min * 0.999 && v <= max * 1.001) out.push(v);
      }
    }
    return out;
  }
  function decades(min, max) {
    const out = [];
    for (let e = Math.floor(Math.log10(min)); e <= 0; e++) {
      const v = Math.pow(10, e);
      if (v >= min * 0.999 && v <= max * 1.001) out.push(v);
    }
    return out;
  }
  const oneIn = (share) => (share >= 0.999 ? "all" : "1 in " + Math.round(1 / share).toString().replace(/\B(?=(\d{3})+$)/g, (g, d, at, all) => (all.length > 4 ? "\u202f" : "")));

  function dots(size) {
    return (u, index, from, to) => {
      const path = new Path2D();
      const [xs, ys] = [u.data[0], u.data[index]];
      const scaleY = u.series[index].scale;
      const [lowX, highX] = [u.scales.x.min, u.scales.x.max];
      const px = size * devicePixelRatio;
      for (let i = from; i <= to; i++) {
        const y = ys[i];
        if (y === null || y === undefined || xs[i] < lowX || xs[i] > highX) continue;
        const cx = u.valToPos(xs[i], "x", true), cy = u.valToPos(y, scaleY, true);
        path.rect(cx - px / 2, cy - px / 2, px, px);
      }
      return { stroke: null, fill: path };
    };
  }

  function chart(figure) {
    const spec = specOf(figure);
    const box = one(".plot", figure), legend = one(".legend", figure);
    const series = spec.series.map((s) => ({
      ...s, xs: column(s.x), ys: column(s.y), ticksAt: column(s.ticks), bars: column(s.bars), shown: true,
    }));
    const state = { log: spec.y.scale !== "linear", panels: spec.panels && series.length > 1, plots: [] };
    const ticked = series.some((s) => s.ticksAt.length);
    // The ends of the bars count as values, but for a lower one that a logarithm can't show.
    const ends = (s) => s.bars.flatMap((b, i) => (b === null || s.ys[i] === null ? [] : [s.ys[i] - b, s.ys[i] + b]));
    const values = series.flatMap((s) => s.ys.filter((y) => y !== null));
    const least = values.reduce((a, y) => (y > 0 ? Math.min(a, y) : a), Infinity);
    const ys = values.concat(series.flatMap(ends).filter((y) => spec.y.scale === "linear" && !spec.logToggle || y >= least / 3));
    const low = ys.reduce((a, y) => (y > 0 ? Math.min(a, y) : a), Infinity);
    const high = ys.reduce((a, y) => Math.max(a, y), -Infinity);
    const lastX = Math.max(0, ...series.filter((s) => s.xs.length).map((s) => s.xs[s.xs.length - 1]));
    const floor = ys.reduce((a, y) => Math.min(a, y), 0);
    const marked = spec.marks.filter((mark) => mark.axis === "y").map((mark) => mark.at);
    const near = { low: Math.min(low, ...marked), high: Math.max(high, ...marked) };
    // Where all is the same, some of its height stays above and below.
    const margin = 0.08 * Math.max(near.high - near.low, 0.2 * Math.abs(near.high));
    const firstX = Math.min(lastX, ...series.filter((s) => s.xs.length).map((s) => s.xs[0]));

    function axis(side) {
      return {
        stroke: colour("muted"), grid: { stroke: colour("rule"), width: 1 }, ticks: { show: false },
        font: "12px " + getComputedStyle(document.body).fontFamily, labelFont: "12px " + getComputedStyle(document.body).fontFamily,
        side, labelGap: 2,
      };
    }
    const named = (a) => a.label + (a.unit ? " (" + a.unit + ")" : "");

    function options(width, group, last, name) {
      const lanes = ticked ? group.length : 0;
      const share = spec.y.scale === "share";
      // The quantity stands above the plot; every value bears its unit, however far the reader has scrolled.
      const unit = spec.y.unit && spec.y.unit.length < 4 ? "\u202f" + spec.y.unit : "";
      const yAxis = { ...axis(3), size: Y_SIZE(share), space: state.panels ? 20 : 36 };
      if (share) {
        yAxis.splits = (u, i, min, max) => decades(min, max);
        yAxis.filter = (u, s) => s;
        yAxis.values = (u, s) => s.map(oneIn);
      } else if (state.log) {
        yAxis.splits = (u, i, min, max) => splits125(min, max);
        yAxis.filter = (u, s) => s;
        yAxis.values = (u, s) => s.map((v) => plain(v) + unit);
      } else yAxis.values = (u, s) => s.map((v) => plain(v) + unit);
      const empty = !(high > -Infinity), positive = low < Infinity;
      const range = share ? [Math.min(positive ? low * 0.7 : 1, 0.07), 1.15]
        : state.log ? (positive ? [low * 0.9, high * 1.12] : [1, 10])
        : empty || high === floor ? [floor, floor + 1]
        : spec.y.near ? [near.low - margin, near.high + margin] : [floor, high + (high - floor) * 0.05];
      const xLog = spec.x.scale === "log" && firstX > 0;
      const xSplits = xLog ? { splits: (u, i, min, max) => splits125(min, max), filter: (u, s) => s } : {};
      return {
        width, height: (state.panels ? 138 + (last ? 32 : 0) : Math.max(240, Math.min(380, Math.round(width * 0.42)))) + lanes * LANE,
        padding: [lanes * LANE + (name ? 20 : 14) + markRows(width) * 16, 20, last ? 0 : 4, 0],
        legend: { show: false },
        focus: { alpha: 0.08 },
        cursor: { sync: { key: state.key }, y: false, points: { show: false }, drag: { x: true, y: false, setScale: true } },
        scales: {
          x: { time: false, distr: xLog ? 3 : 1, range: (u, min, max) => (min === null ? [0, 1] : [min, max === min ? min + 1 : max]) },
          y: { distr: state.log ? 3 : 1, range: () => range },
        },
        axes: [
          { ...axis(2), ...xSplits, label: last ? named(spec.x) : undefined, labelSize: 20, size: last ? 30 : 4, values: (u, s) => s.map((v) => (last ? plain(v) : "")) },
          yAxis,
        ],
        series: [{}].concat(group.map((s) => ({
          scale: "y", show: s.shown || state.panels, stroke: seriesColour(s.colour), fill: s.style === "points" ? seriesColour(s.colour) : undefined,
          width: s.style === "points" ? 0 : 2, alpha: s.style === "points" ? 0.8 : 1, dash: s.style === "dashed" ? [7, 5] : undefined,
          // A lone value has no line to show it: full, or hollow where it is printed.
          points: { show: (s.style === "line" && s.xs.length < 60) || (s.style === "dashed" && s.xs.length === 1), size: s.xs.length === 1 ? 10 : 6, width: 2, fill: s.style === "dashed" ? "transparent" : seriesColour(s.colour) },
          paths: s.style === "points" ? dots(width < 500 ? 1.6 : 2.2) : s.style === "steps" ? uPlot.paths.stepped({ align: 1 }) : undefined,
        }))),
        hooks: {
          draw: [(u) => drawBars(u, group), (u) => drawMarks(u, group), (u) => drawLanes(u, group, name)],
          setCursor: [(u) => readout(u)], setScale: [zoomed],
        },
      };
    }

    // How sure each value is: its 95 % interval, cut off where the plot ends.
    function drawBars(u, group) {
      const c = u.ctx, r = devicePixelRatio, { left, top, width, height } = u.bbox;
      c.save();
      c.beginPath();
      c.rect(left, top, width, height);
      c.clip();
      c.lineWidth = 1.5 * r;
      for (const [n, s] of group.entries()) {
        if (!u.series[n + 1].show) continue;
        c.strokeStyle = seriesColour(s.colour);
        s.bars.forEach((bar, i) => {
          const y = s.ys[i];
          if (bar === null || y === null || (state.log && y <= 0)) return;
          const at = Math.round(u.valToPos(s.xs[i], "x", true)), cap = 4 * r;
          const end = (v) => (state.log && v <= 0 ? top + height + cap : u.valToPos(v, "y", true));
          const [low, high] = [end(y - bar), end(y + bar)];
          c.beginPath();
          c.moveTo(at, low); c.lineTo(at, high);
          for (const edge of [low, high]) { c.moveTo(at - cap, edge); c.lineTo(at + cap, edge); }
          c.stroke();
        });
      }
      c.restore();
    }

    // Labels of upright marks stand above the plot, in as many rows as keep them apart; marks beyond the values take no room.
    const uprights = spec.marks.filter((m) => m.axis === "x" && m.at >= firstX && m.at <= lastX);
    const ruler = make("canvas").getContext("2d");
    function markRows(width) {
      ruler.font = "12px " + getComputedStyle(document.body).fontFamily;
      const scale = (width - Y_SIZE(spec.y.scale === "share") - 20) / (lastX - firstX || 1), ends = [];
      for (const mark of [...uprights].sort((a, b) => a.at - b.at)) {
        const half = ruler.measureText(mark.label).width / 2 + 6;
        const centre = Math.max((mark.at - firstX) * scale, half);
        let row = ends.findIndex((end) => end <= centre - half);
        if (row < 0) row = ends.length;
        ends[row] = centre + half;
        mark.row = row;
      }
      return ends.length;
    }
    function drawMarks(u, group) {
      const c = u.ctx, r = devicePixelRatio;
      c.save();
      c.font = 12 * r + "px " + getComputedStyle(document.body).fontFamily;
      c.textAlign = "left";
      c.textBaseline = "alphabetic";
      c.lineWidth = 1.5 * r;
      c.setLineDash([6 * r, 4 * r]);
      spec.marks.forEach((mark, i) => {
        const vertical = mark.axis === "x";
        const scale = u.scales[vertical ? "x" : "y"];
        if (state.panels && mark.colour !== null && !group.some((s) => s.colour === mark.colour)) return;
        if (mark.at < scale.min || mark.at > scale.max) return;
        const at = Math.round(u.valToPos(mark.at, vertical ? "x" : "y", true));
        const { left, top, width, height } = u.bbox;
        c.strokeStyle = c.fillStyle = seriesColour(mark.colour);
        c.beginPath();
        if (vertical) { c.moveTo(at, top); c.lineTo(at, top + height); } else { c.moveTo(left, at); c.lineTo(left + width, at); }
        c.stroke();
        // Said once where all panels share it.
        if (state.panels && mark.colour === null && group[0] !== series.find((s) => s.shown)) return;
        const words = mark.label, wide = c.measureText(words).width;
        let x, y;
        if (vertical) {
          // Above the plot, where no curve runs; several one above the other.
          y = top - (ticked ? group.length * LANE * r : 0) - (6 + 16 * (mark.row || 0)) * r;
          x = Math.max(left, Math.min(at - wide / 2, left + width - wide));
        } else {
          x = left + width - wide - 6 * r - (i % 2) * (wide + 16 * r);
          y = at - 6 * r;
        }
        c.save();
        c.setLineDash([]);
        c.lineWidth = 4 * r;
        c.strokeStyle = colour("surface");
        c.strokeText(words, x, y);
        c.restore();
        c.fillText(words, x, y);
      });
      c.restore();
    }

    // Ticks of what never came, one lane per series above the plot.
    function drawLanes(u, group, name) {
      const c = u.ctx, r = devicePixelRatio, { left, top } = u.bbox, lanes = group.length;
      const family = getComputedStyle(document.body).fontFamily;
      c.save();
      if (name) {
        c.fillStyle = seriesColour(group[0].colour);
        c.font = "600 " + 13 * r + "px " + family;
        c.textAlign = "left";
        c.textBaseline = "alphabetic";
        c.strokeStyle = colour("surface");
        c.lineWidth = 4 * r;
        c.strokeText(name, left + 6 * r, top + 12 * r);
        c.fillText(name, left + 6 * r, top + 12 * r);
      }
      if (!ticked) { c.restore(); return; }
      group.forEach((s, i) => {
        if (!s.shown) return;
        const y = top - (lanes - i) * LANE * r - 3 * r;
        c.fillStyle = seriesColour(s.colour);
        for (const x of s.ticksAt) {
          if (x < u.scales.x.min || x > u.scales.x.max) continue;
          c.fillRect(Math.round(u.valToPos(x, "x", true)) - r * 0.75, y, 1.5 * r, (LANE - 2) * r);
        }
      });
      c.fillStyle = colour("muted");
      c.font = 11 * r + "px " + family;
      c.textAlign = "right";
      c.textBaseline = "middle";
      if (group[0] === series.find((s) => s.shown) || !state.panels) c.fillText(spec.ticksLabel, left - 8 * r, top - (lanes * LANE * r) / 2 - 4 * r);
      c.restore();
    }

    const entries = [];
    const position = make("span", "position muted");
    const reset = make("button", "", "Show all");
    function buildLegend() {
      legend.textContent = "";
      series.forEach((s, i) => {
        const button = make("button", "entry");
        button.type = "button";
        button.setAttribute("aria-pressed", "true");
        button.title = "Show or hide " + s.name;
        const key = make("i", "swatch c" + (s.colour % 8) + (s.style === "dashed" ? " dashed" : ""));
        const value = make("span", "value");
        button.append(key, make("span", "", s.name), value);
        button.onclick = () => {
          s.shown = !s.shown;
          button.setAttribute("aria-pressed", s.shown);
          if (state.panels) draw();
          else state.plots[0].setSeries(i + 1, { show: s.shown });
        };
        // Pointed at or focused, a series stands out from the others.
        const focus = (on) => { if (!state.panels) state.plots[0].setSeries(on ? i + 1 : null, { focus: on }); };
        button.onpointerenter = button.onfocus = () => focus(true);
        button.onpointerleave = button.onblur = () => focus(false);
        entries.push(value);
        legend.append(button);
      });
      legend.append(position);
      if (spec.logToggle) {
        const toggle = make("button", "tool", state.log ? "Linear scale" : "Log scale");
        toggle.type = "button";
        toggle.onclick = () => { state.log = !state.log; toggle.textContent = state.log ? "Linear scale" : "Log scale"; draw(); };
        legend.append(toggle);
      }
      if (spec.panels && series.length > 1) {
        const split = make("button", "tool", state.panels ? "All in one" : "One panel each");
        split.type = "button";
        split.onclick = () => { state.panels = !state.panels; split.textContent = state.panels ? "All in one" : "One panel each"; draw(); };
        legend.append(split);
      }
      // Fingers scroll the page, so they get buttons for what the mouse does by dragging.
      for (const [key, sign, label] of [["ArrowLeft", "\u2039", "Earlier"], ["-", "\u2212", "Zoom out"], ["+", "+", "Zoom in"], ["ArrowRight", "\u203a", "Later"]]) {
        const button = make("button", "tool touch", sign);
        button.type = "button";
        button.setAttribute("aria-label", label);
        button.onclick = () => act(key);
        legend.append(button);
      }
      reset.type = "button";
      reset.className = "tool";
      reset.hidden = true;
      reset.onclick = showAll;
      legend.append(reset);
    }
    function readout(u) {
      const at = u.cursor.left >= 0 ? u.posToVal(u.cursor.left, "x") : null;
      position.textContent = at === null ? "" : "at " + figureText(at) + (spec.x.unit ? "\u202f" + spec.x.unit : "");
      series.forEach((s, i) => {
        const index = at === null ? -1 : indexAt(s.xs, at);
        const value = index < 0 ? null : s.ys[index];
        entries[i].textContent = at === null ? "" : index < 0 ? "\u2013"
          : spec.y.scale === "share" ? shareText(value)
          : value === null ? (spec.ticksLabel || "\u2013") : figureText(value) + (spec.y.unit ? "\u202f" + spec.y.unit : "");
      });
    }
    const isZoomed = (u) => u.scales.x.min > firstX + (lastX - firstX) * 1e-6 || u.scales.x.max < lastX - (lastX - firstX) * 1e-6;
    // Zooming one panel zooms them all.
    function zoomed(u, key) {
      if (key !== "x") return;
      reset.hidden = !isZoomed(u);
      const { min, max } = u.scales.x;
      for (const other of state.plots) {
        const { min: low, max: high } = other.scales.x;
        // Only what differs is set, or two panels would go on telling each other for ever.
        if (low !== min || high !== max) other.setScale("x", { min, max });
      }
    }
    const moveTo = (min, max) => state.plots[0].setScale("x", { min, max });
    function showAll() { moveTo(firstX, lastX); }

    function draw() {
      const first = state.plots[0];
      const zoom = first && isZoomed(first) ? { ...first.scales.x } : null;
      for (const plot of state.plots) plot.destroy();
      const seen = series.filter((s) => s.shown);
      const groups = state.panels && seen.length ? seen.map((s) => [s]) : [series];
      state.plots = [];
      for (const [i, group] of groups.entries()) {
        const data = uPlot.join(group.map((s) => [s.xs, s.ys]));
        const name = state.panels && seen.length ? group[0].name : "";
        state.plots.push(new uPlot(options(Math.max(280, box.clientWidth), group, i === groups.length - 1, name), data, box));
      }
      for (const plot of state.plots) plot.setScale("x", { min: zoom ? zoom.min : firstX, max: zoom ? zoom.max : lastX });
    }
    function act(key) {
      const { min, max } = state.plots[0].scales.x, span = max - min;
      const to = (a, b) => {
        const wide = Math.min(b - a, lastX - firstX), start = Math.max(firstX, Math.min(a, lastX - wide));
        moveTo(start, start + wide);
      };
      if (key === "+" || key === "=") to(min + span / 4, max - span / 4);
      else if (key === "-") to(min - span / 2, max + span / 2);
      else if (key === "ArrowLeft") to(min - span / 5, max - span / 5);
      else if (key === "ArrowRight") to(min + span / 5, max + span / 5);
      else if (key === "Escape" || key === "0") showAll();
      else return false;
      return true;
    }
    box.onkeydown = (event) => { if (!event.ctrlKey && !event.metaKey && act(event.key)) event.preventDefault(); };
    if (!series.length) return;
    state.key = "chart" + charts.length;
    buildLegend();
    draw();
    charts.push(draw);
  }

  // --- loss map ----------------------------------------------------------------------------------------------
  const WORDS = { R: "received", V: "recovered", T: "late", X: "expired", L: "lost", C: "concealed" };

  // Shape tells what colour may not: full for lost, half for late, hollow for expired, a dot for concealed.
  function cell(c, fate, x, y, w, h) {
    c.fillStyle = colour("received");
    if (fate !== "L") c.fillRect(x, y, w, h);
    c.fillStyle = c.strokeStyle = colour("fate-" + fate);
    if (fate === "L") c.fillRect(x, y, w, h);
    else if (fate === "T") {
      c.beginPath();
      c.moveTo(x, y + h); c.lineTo(x + w, y); c.lineTo(x + w, y + h);
      c.fill();
    } else if (fate === "X") {
      const line = Math.max(1, Math.min(w, h) * 0.25);
      c.lineWidth = line;
      c.strokeRect(x + line / 2, y + line / 2, w - line, h - line);
    } else if (fate === "C") c.fillRect(x + w * 0.28, y + h * 0.28, w * 0.44, h * 0.44);
    else if (fate === "V") c.fillRect(x, y + h * 0.35, w, h * 0.3);
  }

  function lossMap(figure) {
    const spec = specOf(figure);
    const readout = one(".readout", figure);
    const strips = spec.strips.map((s, i) => {
      const fates = [];
      for (const run of s.fates.matchAll(/([A-Z])(\d+)/g)) for (let n = +run[2]; n > 0; n--) fates.push(run[1]);
      return { name: s.name, fates, xs: column(s.x), ys: column(s.y), box: one('[data-strip="' + i + '"]', figure), at: -1 };
    }).filter((s) => s.box && s.fates.length);

    function describe(s) {
      const seconds = s.xs[s.at], latency = s.ys[s.at];
      readout.textContent = s.name + ": packet " + s.at
        + (seconds === undefined || seconds === null ? "" : ", sent at " + seconds.toFixed(3) + "\u202fs")
        + ", " + WORDS[s.fates[s.at]]
        + (latency === null || latency === undefined ? "" : ", " + spec.latency + " " + figureText(latency) + "\u202fms");
    }
    function hear(s) {
      const seconds = s.xs[s.at];
      if (!(seconds >= 0)) return;
      if (!listener || !listener(s.name, seconds)) readout.textContent = "The sound of " + s.name + " can't be played from here.";
    }

    function draw(s) {
      const width = Math.max(240, s.box.clientWidth), ratio = devicePixelRatio || 1;
      const gutter = 44;
      const want = width < 500 ? 4.6 : 5.6;
      const perRow = [25, 50, 75, 100, 125, 150, 200, 250, 300, 400].filter((n) => (width - gutter) / n >= want).pop() || 25;
      const rows = Math.ceil(s.fates.length / perRow), pad = 3;
      // Browsers draw nothing on a canvas of more than some 32 000 lines; hours of stream get flatter cells.
      const w = (width - gutter) / perRow, h = Math.min(width < 500 ? 7 : 9, 30000 / ratio / rows), gap = h * ratio > 3 ? 1 : 0;
      s.box.textContent = "";
      const canvas = make("canvas");
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round((rows * h + 2 * pad) * ratio);
      canvas.style.width = width + "px";
      canvas.style.height = rows * h + 2 * pad + "px";
      s.box.append(canvas);
      const c = canvas.getContext("2d");
      const edge = (v) => Math.round(v * ratio);
      const place = (i) => {
        const col = i % perRow, row = Math.floor(i / perRow);
        const x = edge(gutter + col * w), y = edge(pad + row * h);
        return [x, y, edge(gutter + (col + 1) * w) - x - gap, edge(pad + (row + 1) * h) - y - gap];
      };
      s.fates.forEach((fate, i) => cell(c, fate, ...place(i)));
      c.fillStyle = colour("muted");
      c.font = 11 * ratio + "px " + getComputedStyle(document.body).fontFamily;
      c.textAlign = "right";
      c.textBaseline = "middle";
      const every = Math.max(1, Math.ceil(14 / h));
      for (let row = 0; row < rows; row += every) {
        const seconds = s.xs[row * perRow];
        if (seconds === undefined || seconds === null) break;
        c.fillText(seconds.toFixed(1) + "\u202fs", (gutter - 7) * ratio, (pad + (row + 0.5) * h) * ratio);
      }
      const cursor = make("i", "cell-cursor");
      cursor.hidden = true;
      s.box.append(cursor);
      s.move = (index) => {
        s.at = Math.max(0, Math.min(s.fates.length - 1, index));
        const [x, y, cw, ch] = place(s.at).map((v) => v / ratio);
        Object.assign(cursor.style, { left: x - 2 + "px", top: y - 2 + "px", width: cw + 4 + "px", height: ch + 4 + "px" });
        cursor.hidden = false;
        describe(s);
      };
      s.perRow = perRow;
      s.indexOf = (event) => {
        const area = canvas.getBoundingClientRect();
        const col = Math.floor((event.clientX - area.left - gutter) / w), row = Math.floor((event.clientY - area.top - pad) / h);
        const index = row * perRow + col;
        return col < 0 || col >= perRow || index < 0 || index >= s.fates.length ? -1 : index;
      };
    }

    for (const s of strips) {
      draw(s);
      // What is folded has no width to draw for.
      const fold = s.box.closest("details");
      if (fold) fold.addEventListener("toggle", () => { if (fold.open) draw(s); });
      s.box.onpointermove = (event) => { const i = s.indexOf(event); if (i >= 0) s.move(i); };
      s.box.onclick = (event) => { const i = s.indexOf(event); if (i >= 0) { s.move(i); hear(s); } };
      s.box.onkeydown = (event) => {
        const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: s.perRow, ArrowUp: -s.perRow }[event.key];
        if (step) { s.move(s.at < 0 ? 0 : s.at + step); one(".cell-cursor", s.box).scrollIntoView({ block: "nearest" }); }
        else if (event.key === "Enter" && s.at >= 0) hear(s);
        else return;
        event.preventDefault();
      };
    }
    const keys = () => all("canvas.key", figure).forEach((key) => {
      const ratio = devicePixelRatio || 1;
      key.width = key.height = 14 * ratio;
      cell(key.getContext("2d"), key.dataset.fate, 0, 0, key.width, key.height);
    });
    const redraw = () => { strips.forEach(draw); keys(); };
    keys();
    charts.push(redraw);
  }

  // --- the player --------------------------------------------------------------------------------------------
  const WAVE = { top: 4, height: 92, lane: 14, axis: 18 };
  // The ear needs a moment before a loss to know what it misses.
  const LEAD = 0.4;
  const clock = (t) => Math.floor(t / 60) + ":" + (t % 60 < 9.95 ? "0" : "") + (t % 60).toFixed(1);

  function listen(box) {
    const wave = one(".wave", box), status = one(".playing", box), time = one(".time", box);
    const [play, previous, next] = [".play", ".previous", ".next"].map((name) => one(name, box));
    const radios = all("input[name=listen]", box);
    const clips = specOf(box).clips.map((clip, i) => ({
      ...clip, peaks: column(clip.peaks), from: column(clip.from), to: column(clip.to), audio: one('audio[data-clip="' + i + '"]', box),
    }));
    const playable = clips.filter((clip) => clip.audio);
    if (!playable.length) { for (const part of all(".js", box)) part.hidden = true; one(".files", box).open = true; return; }
    // Of what was sent nothing is lost: there, the marks are of the transport heard last.
    let now = playable.find((clip) => clip.strip) || playable[0], marked = now;
    const longest = Math.max(0.1, ...clips.map((clip) => clip.seconds));
    const canvas = make("canvas"), head = make("i", "playhead");
    wave.append(canvas, head);

    // The loss last gone to, while its surroundings play: from there, buttons go on by one, however close the next is.
    let last = -1;
    const lossAt = (seconds) => {
      for (let i = marked.from.length - 1; i >= 0; i--) if (marked.from[i] <= seconds) return i;
      return -1;
    };
    function tell(loss) {
      const losses = marked.from.length;
      if (loss >= 0 && loss < losses) {
        const wide = (marked.to[loss] - marked.from[loss]) * 1000;
        status.textContent = (now === marked ? now.name : now.name + ", at a loss of " + marked.name) + ": loss " + (loss + 1) + " of " + losses
          + ", at " + clock(marked.from[loss]) + ", " + wide.toFixed(wide < 10 ? 1 : 0) + "\u202fms long.";
      } else status.textContent = now.name + (now === marked ? (losses ? ": " + losses + (losses === 1 ? " loss" : " losses") + " marked." : ": nothing is missing.") + (now.note ? " " + now.note : "") : ": what was sent. The marks are of " + marked.name + ".");
    }
    function place() {
      const t = now.audio.currentTime;
      head.style.left = (100 * t) / longest + "%";
      time.textContent = clock(t) + " / " + clock(now.seconds);
      wave.setAttribute("aria-valuenow", t.toFixed(1));
      wave.setAttribute("aria-valuetext", t.toFixed(1) + " seconds of " + now.name);
      previous.disabled = last >= 0 ? last === 0 : lossAt(t) < 0;
      next.disabled = !marked.from.length || (last >= 0 ? last === marked.from.length - 1 : marked.from[marked.from.length - 1] <= t);
    }
    function follow() {
      if (last >= 0 && now.audio.currentTime > marked.from[last] + 2) last = -1;
      place();
      if (!now.audio.paused) requestAnimationFrame(follow);
    }
    const start = () => now.audio.play().catch(() => { status.textContent = missing; });
    const missing = "The sound files are not next to this page. Keep the page and its sound files in one folder to listen.";
    const seek = (seconds) => { last = -1; now.audio.currentTime = Math.max(0, Math.min(seconds, now.seconds || longest)); place(); };
    function choose(clip) {
      if (!clip.audio || clip === now) return;
      const at = now.audio.currentTime, playing = !now.audio.paused;
      now.audio.pause();
      now = clip;
      if (clip.strip) marked = clip;
      radios[clips.indexOf(now)].checked = true;
      seek(at);
      if (playing) start();
      tell(-1);
      draw();
    }
    function jump(forward) {
      const t = now.audio.currentTime, from = marked.from;
      const near = last >= 0 && t >= from[last] - LEAD - 0.1 && t < from[last] + 2;
      const loss = near ? last + (forward ? 1 : -1) : forward ? from.findIndex((at) => at > t) : lossAt(t);
      if (!(loss in from)) return;
      seek(from[loss] - LEAD);
      last = loss;
      tell(loss);
      start();
      place();
    }

    function draw() {
      const width = Math.max(240, wave.clientWidth), ratio = devicePixelRatio || 1;
      const { top, height, lane, axis } = WAVE, middle = top + height / 2;
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round((top + height + lane + axis) * ratio);
      canvas.style.width = width + "px";
      canvas.style.height = top + height + lane + axis + "px";
      const c = canvas.getContext("2d");
      c.scale(ratio, ratio);
      const x = (seconds) => (width * seconds) / longest;
      c.fillStyle = colour("fate-L");
      const lost = new Set();
      marked.from.forEach((from, i) => {
        const left = x(from), wide = Math.max(1.5, x(marked.to[i]) - left);
        if (now === marked) {
          c.globalAlpha = 0.22;
          c.fillRect(left - 0.75, top, wide + 1.5, height);
          for (let column = Math.floor(left); column <= left + wide; column++) lost.add(column);
        }
        c.globalAlpha = now === marked ? 1 : 0.4;
        c.fillRect(left, top + height + 3, wide, lane - 5);
      });
      c.globalAlpha = 1;
      c.fillStyle = seriesColour(now.colour);
      const peaks = now.peaks, scale = peaks.length ? x(now.seconds) / peaks.length : 0;
      const loudest = Math.max(0.05, ...clips.map((clip) => clip.peaks.reduce((a, p) => Math.max(a, p), 0)));
      for (let left = 0; left < width; left++) {
        const first = Math.floor(left / scale), last = Math.max(first + 1, Math.ceil((left + 1) / scale));
        let peak = 0;
        for (let i = first; i < Math.min(last, peaks.length); i++) peak = Math.max(peak, peaks[i]);
        const tall = Math.max(0.5, (peak / loudest) * (height / 2 - 1));
        if (first >= peaks.length) break;
        c.fillStyle = lost.has(left) ? colour("fate-L") : seriesColour(now.colour);
        c.fillRect(left, middle - tall, 1, 2 * tall);
      }
      c.fillStyle = colour("muted");
      c.font = "11px " + getComputedStyle(document.body).fontFamily;
      c.textBaseline = "alphabetic";
      const step = [0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600].find((s) => x(s) > 56) || 7200;
      for (let t = 0; t < longest; t += step) {
        const words = t + "\u202fs", wide = c.measureText(words).width;
        c.fillText(words, Math.max(0, Math.min(x(t) - wide / 2, width - wide)), top + height + lane + axis - 5);
      }
      place();
    }

    const at = (event) => ((event.clientX - wave.getBoundingClientRect().left) / wave.clientWidth) * longest;
    wave.onpointerdown = (event) => { if (event.button === 0) { seek(at(event)); tell(-1); } };
    wave.onpointermove = (event) => { if (event.buttons & 1) seek(at(event)); };
    play.onclick = () => { if (now.audio.paused) start(); else now.audio.pause(); };
    next.onclick = () => jump(true);
    previous.onclick = () => jump(false);
    radios.forEach((radio, i) => { radio.onchange = () => choose(clips[i]); });
    box.onkeydown = (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("details, .clips")) return;
      const t = now.audio.currentTime, onWave = event.target === wave;
      const digit = "123456789".indexOf(event.key);
      if (event.key === "n") jump(true);
      else if (event.key === "p") jump(false);
      else if (digit >= 0 && event.key.length === 1 && clips[digit]) choose(clips[digit]);
      else if (onWave && (event.key === " " || event.key === "Enter")) play.click();
      else if (onWave && (event.key === "ArrowLeft" || event.key === "ArrowDown")) seek(t - 1);
      else if (onWave && (event.key === "ArrowRight" || event.key === "ArrowUp")) seek(t + 1);
      else if (onWave && event.key === "PageDown") seek(t - 5);
      else if (onWave && event.key === "PageUp") seek(t + 5);
      else if (onWave && event.key === "Home") seek(0);
      else if (onWave && event.key === "End") seek(now.seconds - 1);
      else return;
      event.preventDefault();
    };
    for (const clip of playable) {
      clip.audio.addEventListener("play", () => {
        if (clip !== now) { const other = now.audio; choose(clip); other.pause(); start(); }
        play.textContent = "Pause";
        // From now on switching must not wait.
        for (const other of playable) other.audio.preload = "auto";
        follow();
      });
      for (const name of ["pause", "ended"]) clip.audio.addEventListener(name, () => { if (clip === now) { play.textContent = "Play"; place(); } });
      clip.audio.addEventListener("seeked", () => { if (clip === now) place(); });
      clip.audio.addEventListener("error", () => { if (clip === now) status.textContent = missing; });
    }
    listener = (strip, seconds) => {
      const clip = playable.find((clip) => clip.strip === strip);
      if (!clip) return false;
      choose(clip);
      seek(seconds - LEAD);
      last = lossAt(seconds + 0.001);
      if (last >= 0 && marked.to[last] < seconds) last = -1;
      tell(last);
      start();
      return true;
    };
    radios[clips.indexOf(now)].checked = true;
    wave.setAttribute("aria-valuemax", longest.toFixed(1));
    tell(-1);
    draw();
    charts.push(draw);
  }

  // --- the page ----------------------------------------------------------------------------------------------
  function themes() {
    const button = one("#theme");
    const system = matchMedia("(prefers-color-scheme: dark)");
    const dark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
    const name = () => { button.textContent = dark() ? "Light" : "Dark"; button.setAttribute("aria-label", "Switch to the " + button.textContent.toLowerCase() + " theme"); };
    button.hidden = false;
    name();
    button.onclick = () => {
      root.dataset.theme = dark() ? "light" : "dark";
      try { localStorage.setItem("antiphon-theme", root.dataset.theme); } catch { /* not remembered */ }
      name();
      redraw();
    };
    system.addEventListener("change", () => { name(); redraw(); });
    // Paper is white: charts are pictures, and would keep the dark theme's ink.
    let before;
    addEventListener("beforeprint", () => { before = root.dataset.theme; root.dataset.theme = "light"; redraw(); });
    addEventListener("afterprint", () => { if (before) root.dataset.theme = before; else delete root.dataset.theme; redraw(); });
  }
  function copying() {
    for (const button of all(".copy")) {
      const code = one("code", button.parentNode);
      button.hidden = false;
      button.onclick = () => {
        getSelection().selectAllChildren(code);
        const done = () => { button.textContent = "Copied"; setTimeout(() => { button.textContent = "Copy"; }, 1500); };
        if (navigator.clipboard) navigator.clipboard.writeText(code.textContent).then(done, () => {});
      };
    }
  }
  function redraw() { palette.clear(); for (const draw of charts) draw(); }
  let width = innerWidth, waiting;
  addEventListener("resize", () => {
    if (innerWidth === width) return;
    width = innerWidth;
    clearTimeout(waiting);
    waiting = setTimeout(redraw, 120);
  });

  themes();
  copying();
  for (const box of all("[data-figure=listen]")) listen(box);
  for (const figure of all("figure[data-figure=chart]")) chart(figure);
  for (const figure of all("figure[data-figure=map]")) lossMap(figure);
  // Footnotes live in a closed list; following one opens it.
  addEventListener("hashchange", openTarget);
  function openTarget() {
    const target = location.hash && document.getElementById(location.hash.slice(1));
    const list = target && target.closest("details");
    if (list && !list.open) { list.open = true; target.scrollIntoView({ block: "center" }); }
  }
})();
