// Draws the rope of the first page: strands side by side on the right, laid into one on the left,
// with the top (the grooved cone that keeps them apart) travelling between.

const BANDS = 9; // horizontal slices of one strand, for its roundness
const COLUMN = 2; // pixels
const WALK_MS = 4200;
const YARN = { light: "#c8402a", dark: "#ef6a50" };

/** Shades of hemp from its shadow to its light. */
function hemp(dark) {
  const [from, to] = dark ? [[58, 44, 24], [236, 203, 140]] : [[84, 60, 28], [232, 200, 142]];
  return Array.from({ length: 32 }, (_, i) => {
    const mix = from.map((low, channel) => Math.round(low + (to[channel] - low) * (i / 31)));
    return `rgb(${mix.join(" ")})`;
  });
}

function smoothstep(x) {
  const t = Math.min(1, Math.max(0, x));
  return t * t * (3 - 2 * t);
}

class Rope {
  constructor(canvas) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    this.strands = 3;
    this.turns = 9;
    this.rogue = true;
    this.laid = 1; // how much of the walk is done
    this.dark = matchMedia("(prefers-color-scheme: dark)");
  }

  draw() {
    const { canvas, context } = this;
    const scale = window.devicePixelRatio || 1;
    const { clientWidth: width, clientHeight: height } = canvas;
    if (canvas.width !== width * scale || canvas.height !== height * scale) {
      canvas.width = width * scale;
      canvas.height = height * scale;
    }
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, width, height);
    const shades = hemp(this.dark.matches);
    const top = this.laid * (width + 260) - 60;
    for (let x = 0; x < width; x += COLUMN) {
      for (const strand of this.column(x, top, width, height)) {
        this.slice(x, strand, shades);
      }
    }
    this.cone(top, height);
  }

  /** Where every strand is at `x`, the farthest first. */
  column(x, top, width, height) {
    const radius = height * 0.24;
    const round = Math.sin(Math.PI / this.strands);
    const thickness = (radius * round) / (1 + round);
    const orbit = radius - thickness;
    const spread = smoothstep((x - top) / 240);
    const pitch = (this.turns * 2 * Math.PI) / Math.max(width, 640);
    const strands = [];
    for (let i = 0; i < this.strands; i += 1) {
      const angle = Math.min(x, top) * pitch + (i * 2 * Math.PI) / this.strands;
      const lane = (i - (this.strands - 1) / 2) * ((height * 0.86) / this.strands);
      strands.push({
        i,
        y: height / 2 + orbit * Math.sin(angle) * (1 - spread) + lane * spread,
        depth: Math.cos(angle) * (1 - spread) + spread,
        slope: orbit * pitch * Math.cos(angle) * (1 - smoothstep((x - top + 70) / 110)),
        thickness,
      });
    }
    return strands.sort((a, b) => a.depth - b.depth);
  }

  /** One column of one strand: bands from its upper edge to its lower one. */
  slice(x, { i, y, depth, slope, thickness }, shades) {
    const half = thickness * Math.min(1.35, Math.sqrt(1 + slope * slope));
    const band = (2 * half) / BANDS;
    for (let j = 0; j < BANDS; j += 1) {
      const across = ((j + 0.5) / BANDS) * 2 - 1;
      const roundness = Math.sqrt(1 - across * across);
      // Yarns are twisted against the lay of the strands.
      const fibre = Math.sin(x * 0.32 - across * 5.2 * Math.sign(slope || 1) + i * 2) * 0.09;
      const light = 0.16 + roundness * 0.62 - across * 0.2 + fibre;
      const shade = light * (0.62 + 0.38 * smoothstep((depth + 1) / 1.6));
      const index = Math.round(Math.min(1, Math.max(0, shade)) * (shades.length - 1));
      const marked = this.rogue && i === 0 && j === (BANDS >> 1);
      this.context.fillStyle = marked ? YARN[this.dark.matches ? "dark" : "light"] : shades[index];
      this.context.fillRect(x, y - half + j * band, COLUMN + 0.4, band + 0.6);
    }
  }

  cone(top, height) {
    const { context } = this;
    const length = 34;
    context.fillStyle = this.dark.matches ? "#8b9a94" : "#33423f";
    context.beginPath();
    context.moveTo(top + 6, height / 2 - height * 0.07);
    context.lineTo(top + 6 + length, height / 2 - height * 0.2);
    context.lineTo(top + 6 + length, height / 2 + height * 0.2);
    context.lineTo(top + 6, height / 2 + height * 0.07);
    context.fill();
  }

  /** Walks the top from one end to the other. */
  walk() {
    cancelAnimationFrame(this.frame);
    let start;
    const turn = (now) => {
      start ??= now;
      this.laid = Math.min(1, (now - start) / WALK_MS);
      this.draw();
      if (this.laid < 1) this.frame = requestAnimationFrame(turn);
    };
    this.frame = requestAnimationFrame(turn);
  }
}

function connect(figure) {
  const rope = new Rope(figure.querySelector("canvas"));
  for (const input of figure.querySelectorAll("input")) {
    const output = input.parentElement.querySelector("output");
    const apply = () => {
      rope[input.name] = input.type === "checkbox" ? input.checked : Number(input.value);
      if (output) output.textContent = input.value;
      rope.draw();
    };
    input.addEventListener("input", apply);
    apply();
  }
  figure.querySelector("button").addEventListener("click", () => rope.walk());
  rope.dark.addEventListener("change", () => rope.draw());
  new ResizeObserver(() => rope.draw()).observe(rope.canvas);
  rope.laid = 0.62;
  rope.draw();
}

for (const figure of document.querySelectorAll("[data-rope]")) connect(figure);
