"use strict";
// Moves, searches and explains the graphs that the page holds as SVG. Nothing is loaded: all texts are in #data.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const $ = (id) => document.getElementById(id);

  // Elements ------------------------------------------------------------------------------------------------------

  /** An element with attributes, whose children are elements and texts. Texts are never read as HTML. */
  function make(tag, attributes, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes ?? {})) {
      if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else element.setAttribute(name, value);
    }
    element.append(...children.filter((child) => child !== null && child !== ""));
    return element;
  }

  /** The line that stands for a Format in the legend. */
  const swatch = (layout) => $("legend").querySelector(`[data-layout="${layout}"] svg`).cloneNode(true);

  const nameOf = (node) => [node.kind === "copy" ? "copy" : node.label, node.name].filter(Boolean).join(" ");
  const layoutText = (number) => (number === null ? "" : data.layouts[number].text);

  // Panes ---------------------------------------------------------------------------------------------------------

  const NEAREST = 4, FARTHEST = 0.01, TEXTS = 0.42;

  /** One graph in its window: `x` and `y` are where its left upper corner is, `scale` its pixels per pixel. */
  class Pane {
    constructor(section, graph) {
      this.section = section;
      this.graph = graph;
      this.svg = section.querySelector("svg");
      this.root = this.svg.querySelector("g");
      this.map = section.querySelector("canvas");
      this.bands = [...this.svg.querySelectorAll(".band")].map((element) => ({
        element, top: Number(element.dataset.top), bottom: Number(element.dataset.bottom), shown: true,
      }));
      this.nodes = [];
      for (const element of this.svg.querySelectorAll("[data-n]")) this.nodes[element.dataset.n] = element;
      this.edges = [];
      for (const element of this.svg.querySelectorAll("[data-e]")) this.edges[element.dataset.e] = element;
      this.byId = new Map(graph.nodes.map((node, number) => [node.id, number]));
      this.of = graph.nodes.map(() => ({ reads: [], writes: [] }));
      graph.edges.forEach((edge, number) => {
        this.of[edge.source].writes.push(number);
        this.of[edge.target].reads.push(number);
      });
      this.hits = [];
      this.scale = 1;
      this.x = this.y = 0;
      this.pending = false;
      this.listen();
      new ResizeObserver(() => this.resized()).observe(section);
    }

    get size() { return [this.svg.clientWidth - this.map.clientWidth, this.svg.clientHeight]; }

    resized() {
      if (!this.svg.clientWidth) return;
      if (!this.placed) this.start();
      this.overview = null;
      this.changed();
    }

    /** The top of the graph at a size that can be read, its first node in the middle. */
    start() {
      this.placed = true;
      const [width] = this.size;
      const widest = Math.max(...Object.values(data.graphs).map((graph) => graph.width));
      this.scale = Math.min(1, Math.max(0.7, width / widest));
      const first = this.graph.nodes[0];
      this.x = this.graph.width * this.scale <= width ? (width - this.graph.width * this.scale) / 2
        : width / 2 - (first ? first.x : 0) * this.scale;
      this.y = first ? Math.min(34, 34 + (120 - first.y) * this.scale) : 34;
      this.changed();
    }

    /** The whole graph. */
    fit() {
      const [width, height] = this.size;
      this.scale = Math.max(FARTHEST, Math.min(1, width / this.graph.width, height / this.graph.height));
      this.x = (width - this.graph.width * this.scale) / 2;
      this.y = (height - this.graph.height * this.scale) / 2;
      this.changed();
    }

    zoom(factor, x = this.size[0] / 2, y = this.size[1] / 2) {
      const scale = Math.min(NEAREST, Math.max(FARTHEST, this.scale * factor));
      this.x = x - (x - this.x) * (scale / this.scale);
      this.y = y - (y - this.y) * (scale / this.scale);
      this.scale = scale;
      this.changed();
    }

    move(dx, dy) {
      this.x += dx;
      this.y += dy;
      this.changed();
    }

    /** Brings a point of the graph to the middle, at a size at which texts can be read. */
    centre(x, y) {
      const [width, height] = this.size;
      this.scale = Math.max(this.scale, 0.8);
      this.x = width / 2 - x * this.scale;
      this.y = height / 2 - y * this.scale;
      this.changed();
    }

    changed() {
      if (this.pending) return;
      this.pending = true;
      requestAnimationFrame(() => {
        this.pending = false;
        this.draw();
      });
    }

    draw() {
      const [width, height] = this.size;
      if (width <= 0) return;
      // Some of the graph stays in sight.
      this.x = Math.min(width - 40, Math.max(40 - this.graph.width * this.scale, this.x));
      this.y = Math.min(height - 40, Math.max(40 - this.graph.height * this.scale, this.y));
      this.root.setAttribute("transform", `translate(${this.x} ${this.y}) scale(${this.scale})`);
      this.root.classList.toggle("far", this.scale < TEXTS);
      const top = -this.y / this.scale, bottom = top + height / this.scale;
      for (const band of this.bands) {
        const shown = band.bottom >= top && band.top <= bottom;
        if (shown !== band.shown) {
          band.element.style.display = shown ? "" : "none";
          band.shown = shown;
        }
      }
      this.drawMap(width, height);
    }

    /** The whole graph as a strip: copies in their colour, what search found, the window. */
    drawMap(width, height) {
      const ratio = devicePixelRatio, canvas = this.map;
      const w = Math.round(canvas.clientWidth * ratio), h = Math.round(canvas.clientHeight * ratio);
      if (!w || !h) return;
      const sx = w / this.graph.width, sy = h / this.graph.height;
      if (!this.overview) {
        const style = getComputedStyle(document.documentElement);
        this.overview = document.createElement("canvas");
        this.overview.width = w;
        this.overview.height = h;
        const context = this.overview.getContext("2d");
        const mark = (nodes, colour, mw, mh) => {
          context.fillStyle = colour;
          for (const node of nodes) context.fillRect(node.x * sx - mw / 2, node.y * sy - mh / 2, mw, mh);
        };
        const [faint, copy, hit] = ["--faint", "--copy", "--hit"].map((name) => style.getPropertyValue(name));
        mark(this.graph.nodes, faint, 2 * ratio, Math.max(1, Math.min(4 * ratio, 20 * sy)));
        mark(this.hits.map((number) => this.graph.nodes[number]), hit, 16 * ratio, 4 * ratio);
        mark(this.graph.nodes.filter((node) => node.kind === "copy"), copy, 9 * ratio, 3 * ratio);
      }
      canvas.width = w;
      canvas.height = h;
      const context = canvas.getContext("2d");
      context.drawImage(this.overview, 0, 0);
      context.strokeStyle = getComputedStyle(canvas).color;
      context.lineWidth = ratio;
      const s = this.scale;
      context.strokeRect(-this.x / s * sx, -this.y / s * sy, width / s * sx, Math.max(3, height / s * sy));
    }

    /** The node or edge at a place of the screen: lines are thin, so a few pixels beside them count. */
    at(event) {
      for (const [dx, dy] of [[0, 0], [-3, 0], [3, 0], [0, -3], [0, 3], [-6, 0], [6, 0]]) {
        const element = document.elementFromPoint(event.clientX + dx, event.clientY + dy)?.closest("[data-n],[data-e]");
        if (element && this.svg.contains(element)) {
          const isNode = element.dataset.n !== undefined;
          return { pane: this, isNode, number: Number(isNode ? element.dataset.n : element.dataset.e) };
        }
      }
      return null;
    }

    listen() {
      const pointers = new Map();
      let moved = 0;
      this.svg.addEventListener("pointerdown", (event) => {
        pointers.set(event.pointerId, event);
        if (pointers.size === 1) moved = 0;
      });
      this.svg.addEventListener("pointermove", (event) => {
        const before = pointers.get(event.pointerId);
        if (!before) return hover(this.at(event), event);
        const dx = event.clientX - before.clientX, dy = event.clientY - before.clientY;
        moved += Math.abs(dx) + Math.abs(dy);
        if (moved < 4) return;
        if (!this.svg.hasPointerCapture(event.pointerId)) this.svg.setPointerCapture(event.pointerId);
        this.svg.classList.add("moving");
        hover(null);
        const others = [...pointers.values()].filter((other) => other.pointerId !== event.pointerId);
        if (others.length) {
          const [other] = others, box = this.svg.getBoundingClientRect();
          const distance = (e) => Math.hypot(e.clientX - other.clientX, e.clientY - other.clientY) || 1;
          const factor = distance(event) / distance(before);
          this.zoom(factor, other.clientX - box.left, other.clientY - box.top);
        } else this.move(dx, dy);
        pointers.set(event.pointerId, event);
      });
      const up = (event) => {
        if (pointers.delete(event.pointerId) && event.type === "pointerup" && moved < 4) choose(this.at(event));
        if (!pointers.size) this.svg.classList.remove("moving");
      };
      this.svg.addEventListener("pointerup", up);
      this.svg.addEventListener("pointercancel", up);
      this.svg.addEventListener("pointerleave", () => hover(null));
      this.svg.addEventListener("wheel", (event) => {
        event.preventDefault();
        hover(null);
        const unit = event.deltaMode === 1 ? 18 : event.deltaMode === 2 ? this.size[1] : 1;
        const box = this.svg.getBoundingClientRect();
        if (event.ctrlKey || event.metaKey) {
          const factor = Math.exp(-Math.max(-60, Math.min(60, event.deltaY * unit)) / 160);
          this.zoom(factor, event.clientX - box.left, event.clientY - box.top);
        } else if (event.shiftKey && !event.deltaX) this.move(-event.deltaY * unit, 0);
        else this.move(-event.deltaX * unit, -event.deltaY * unit);
      }, { passive: false });
      this.svg.addEventListener("keydown", (event) => {
        const keys = {
          "+": () => this.zoom(1.25), "=": () => this.zoom(1.25), "-": () => this.zoom(0.8), "0": () => this.fit(),
          "1": () => this.start(), ArrowLeft: () => this.move(60, 0), ArrowRight: () => this.move(-60, 0),
          ArrowUp: () => this.move(0, 60), ArrowDown: () => this.move(0, -60),
          PageUp: () => this.move(0, this.size[1] * 0.9), PageDown: () => this.move(0, -this.size[1] * 0.9),
        };
        if (event.ctrlKey || event.metaKey || event.altKey || !(event.key in keys)) return;
        event.preventDefault();
        keys[event.key]();
      });
      const jump = (event) => {
        if (!event.buttons) return;
        const box = this.map.getBoundingClientRect(), [width, height] = this.size;
        this.x = width / 2 - (event.clientX - box.left) / box.width * this.graph.width * this.scale;
        this.y = height / 2 - (event.clientY - box.top) / box.height * this.graph.height * this.scale;
        this.changed();
      };
      this.map.addEventListener("pointerdown", (event) => { this.map.setPointerCapture(event.pointerId); jump(event); });
      this.map.addEventListener("pointermove", jump);
      for (const button of this.section.querySelectorAll(".zoom button")) {
        button.addEventListener("click", () => ({ in: () => this.zoom(1.25), out: () => this.zoom(0.8), fit: () => this.fit() })[button.value]());
      }
    }

    mark(what, style, on) {
      const list = what.isNode ? this.nodes : this.edges;
      list[what.number].classList.toggle(style, on);
      if (what.isNode && style === "hot") {
        for (const edge of [...this.of[what.number].reads, ...this.of[what.number].writes]) {
          this.edges[edge].classList.toggle(style, on);
        }
      }
    }

    show(what) {
      const ends = what.isNode ? [this.graph.nodes[what.number]]
        : [this.graph.nodes[this.graph.edges[what.number].source], this.graph.nodes[this.graph.edges[what.number].target]];
      const middle = (axis) => ends.reduce((sum, node) => sum + node[axis], 0) / ends.length;
      this.centre(middle("x"), middle("y"));
    }

    find(text) {
      for (const number of this.hits) this.nodes[number].classList.remove("hit");
      this.hits = [];
      if (text) {
        this.graph.nodes.forEach((node, number) => {
          if (`${nameOf(node)} ${node.label}`.toLowerCase().includes(text)) this.hits.push(number);
        });
        for (const number of this.hits) this.nodes[number].classList.add("hit");
      }
      this.overview = null;
      this.changed();
    }
  }

  const panes = [...document.querySelectorAll(".pane")].map((section) => new Pane(section, data.graphs[section.dataset.graph]));
  const after = panes[panes.length - 1];
  const named = (pane) => panes.length > 1 ? ` ${pane.section.dataset.graph}` : "";

  // Hovering ------------------------------------------------------------------------------------------------------

  let hot = null;

  function hover(what, event) {
    if (hot && (!what || hot.pane !== what.pane || hot.isNode !== what.isNode || hot.number !== what.number)) {
      hot.pane.mark(hot, "hot", false);
      hot = null;
    }
    const tip = $("tip");
    tip.hidden = !what;
    if (!what) return;
    if (!hot) {
      hot = what;
      what.pane.mark(what, "hot", true);
      const { graph } = what.pane;
      tip.textContent = what.isNode ? nodeTip(what.pane, graph.nodes[what.number]) : edgeTip(graph.edges[what.number]);
    }
    const right = event.clientX + 14, below = event.clientY + 14;
    tip.style.left = `${Math.max(0, Math.min(right, innerWidth - tip.offsetWidth - 6))}px`;
    tip.style.top = `${below + tip.offsetHeight > innerHeight ? Math.max(0, event.clientY - tip.offsetHeight - 8) : below}px`;
  }

  const cut = (text) => (text.length > 400 ? `${text.slice(0, 200)} … ${text.slice(-199)}` : text);

  function nodeTip(pane, node) {
    const lines = [cut(nameOf(node))];
    if (node.kind === "copy") lines.push(`moves ${node.bytes}: ${change(pane, node)}`);
    return [...lines, cut(node.reason), cut(node.detail)].filter(Boolean).join("\n");
  }

  const edgeTip = (edge) => [cut(edge.value), [edge.shape, edge.type].filter(Boolean).join(" "), layoutText(edge.layout)].filter(Boolean).join("\n");

  /** Of a copy, "source -> destination". */
  function change(pane, node) {
    const { reads, writes } = pane.of[pane.byId.get(node.id)];
    const one = (edges) => (edges.length ? layoutText(pane.graph.edges[edges[0]].layout) : "") || "?";
    return `${one(reads)} → ${one(writes)}`;
  }

  // Choosing ------------------------------------------------------------------------------------------------------

  let chosen = null;

  function choose(what) {
    if (chosen) chosen.pane.mark(chosen, "chosen", false);
    document.querySelectorAll("#remaining .chosen").forEach((row) => row.classList.remove("chosen"));
    oneFormat(null);
    chosen = what;
    if (!what) return;
    const { pane } = what;
    pane.mark(what, "chosen", true);
    if (what.isNode) {
      if (pane === after) {
        const row = document.querySelector(`#remaining tr[data-n="${what.number}"]`);
        row?.classList.add("chosen");
        row?.scrollIntoView({ block: "nearest" });
      }
      // The same op in the other graph.
      for (const other of panes) {
        const number = other === pane ? undefined : other.byId.get(pane.graph.nodes[what.number].id);
        if (number !== undefined && !other.section.hidden) other.show({ isNode: true, number });
      }
      showNode(pane, what.number);
    } else showEdge(pane, what.number);
  }

  /** Chooses a node and brings it to the middle. */
  function go(pane, number) {
    if (pane.section.hidden) display(panes.filter((other) => other === pane || !other.section.hidden));
    choose({ pane, isNode: true, number });
    pane.show({ isNode: true, number });
  }

  function details(title, rows, layouts) {
    const list = make("dl");
    for (const [name, value] of rows) if (value) list.append(make("dt", {}, name), make("dd", {}, value));
    $("details").replaceChildren(make("h2", {}, title), list, ...layouts.map(picture).filter(Boolean));
    $("details").scrollTop = 0;
  }

  function formatLine(number) {
    if (number === null) return "";
    return make("button", { type: "button", onclick: () => chooseFormat(number) }, swatch(number), " ", layoutText(number));
  }

  function picture(number) {
    if (number === null || !data.layouts[number].picture) return null;
    const source = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(data.layouts[number].picture)}`;
    const text = layoutText(number);
    const image = make("img", {
      src: source, alt: `memory of a tensor in ${text}`, tabindex: "0", role: "button",
      onclick: () => enlarge(source, text),
      onkeydown: (event) => { if (event.key === "Enter") enlarge(source, text); },
    });
    return make("figure", {}, make("figcaption", {}, swatch(number), " ", text), image);
  }

  function enlarge(source, text) {
    const image = $("large").querySelector("img");
    image.src = source;
    image.alt = `memory of a tensor in ${text}`;
    $("large").showModal();
  }
  $("large").addEventListener("click", () => $("large").close());

  function values(pane, numbers, end) {
    if (!numbers.length) return "";
    return make("ul", {}, ...numbers.slice(0, 50).map((number) => {
      const edge = pane.graph.edges[number];
      const text = [edge.value, edge.shape, edge.type, layoutText(edge.layout)].filter(Boolean).join("  ");
      return make("li", {}, edge.layout === null ? "" : swatch(edge.layout),
        make("button", { type: "button", title: cut(nameOf(pane.graph.nodes[edge[end]])), onclick: () => go(pane, edge[end]) }, text || "value"));
    }), ...(numbers.length > 50 ? [make("li", {}, `and ${numbers.length - 50} more`)] : []));
  }

  function showNode(pane, number) {
    const node = pane.graph.nodes[number], { reads, writes } = pane.of[number];
    const layouts = (node.kind === "copy" ? [...reads, ...writes] : writes).map((edge) => pane.graph.edges[edge].layout);
    details(nameOf(node), [
      ["moves", node.kind === "copy" ? node.bytes : ""], ["change", node.kind === "copy" ? change(pane, node) : ""],
      ["because", node.reason], ["reads", values(pane, reads, "source")], ["writes", values(pane, writes, "target")],
      ["detail", node.detail],
    ], [...new Set(layouts)].slice(0, 2));
  }

  function showEdge(pane, number) {
    const edge = pane.graph.edges[number];
    const end = (node) => make("button", { type: "button", onclick: () => go(pane, node) }, nameOf(pane.graph.nodes[node]));
    details(edge.value || "value", [
      ["shape", edge.shape], ["type", edge.type], ["Format", formatLine(edge.layout)],
      ["from", end(edge.source)], ["to", end(edge.target)],
    ], [edge.layout]);
  }

  /** Lets only the edges of one Format stand out; null: all. */
  function oneFormat(number) {
    for (const button of $("legend").querySelectorAll("button")) {
      button.setAttribute("aria-pressed", String(number !== null && button.dataset.layout === String(number)));
    }
    for (const pane of panes) {
      pane.svg.classList.toggle("one-format", number !== null);
      pane.graph.edges.forEach((edge, k) => pane.edges[k].classList.toggle("shown", number !== null && edge.layout === number));
    }
  }

  function chooseFormat(number) {
    choose(null);
    oneFormat(number);
    const count = (pane) => String(pane.graph.edges.filter((edge) => edge.layout === number).length);
    details(layoutText(number), panes.map((pane) => [`values${named(pane)}`, count(pane)]), [number]);
  }

  $("legend").addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    if (button.getAttribute("aria-pressed") === "true") oneFormat(null);
    else chooseFormat(Number(button.dataset.layout));
  });

  $("remaining").addEventListener("click", (event) => {
    const row = event.target.closest("tr[data-n]");
    if (row) go(after, Number(row.dataset.n));
  });

  // Searching -----------------------------------------------------------------------------------------------------

  let next = -1;

  function search() {
    const text = $("find").value.trim().toLowerCase();
    next = -1;
    for (const pane of panes) pane.find(text);
    $("found").textContent = text ? panes.map((pane) => `${pane.hits.length}${named(pane)}`).join(", ") : "";
  }

  function showNext(step) {
    const shown = panes.filter((pane) => !pane.section.hidden && pane.hits.length);
    if (!shown.length) return;
    const pane = shown.includes(after) ? after : shown[0];
    next = next < 0 && step < 0 ? pane.hits.length - 1 : (next + step + pane.hits.length) % pane.hits.length;
    go(pane, pane.hits[next]);
    $("found").textContent = `${next + 1} of ${pane.hits.length}${named(pane)}`;
  }

  $("find").addEventListener("input", search);
  $("find").addEventListener("keydown", (event) => {
    if (event.key === "Enter") showNext(event.shiftKey ? -1 : 1);
    if (event.key === "Escape") { $("find").value = ""; search(); }
  });
  addEventListener("keydown", (event) => {
    if (event.key === "/" && !(event.target instanceof HTMLInputElement)) {
      event.preventDefault();
      $("find").select();
    }
  });

  // Which graphs are shown ----------------------------------------------------------------------------------------

  function display(shown) {
    for (const pane of panes) pane.section.hidden = !shown.includes(pane);
    for (const button of $("panes").children) {
      const wanted = button.value.split(" ");
      const same = wanted.length === shown.length && shown.every((pane) => wanted.includes(pane.section.dataset.graph));
      button.setAttribute("aria-pressed", String(same));
    }
  }

  if (panes.length > 1) {
    for (const [value, text] of [["before after", "both"], ["before", "before"], ["after", "after"]]) {
      $("panes").append(make("button", {
        type: "button", value, onclick: () => display(panes.filter((pane) => value.split(" ").includes(pane.section.dataset.graph))),
      }, text));
    }
    display(innerWidth > 1100 ? panes : [after]);
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => panes.forEach((pane) => pane.resized()));
  document.documentElement.dataset.ready = "true";
})();
