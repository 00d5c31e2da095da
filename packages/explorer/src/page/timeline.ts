/** Rings, warps and engines of one block over time, as the emulator's log has them; a cursor steps through what happens to barriers. */

import type { BlockTimeline, Slice } from "@tilewright/emulator";
import { scaleLinear } from "d3-scale";
import { namesIn } from "../model/steps.ts";
import type { TimelineView } from "../worker/timeline.ts";
import { bytesText, download, fill, h, table } from "./dom.ts";
import type { Session } from "./session.ts";
import type { StagesPanel } from "./stages.ts";

/** Pixels of a track, of the names before the tracks, and most of a canvas. */
const size = { track: 16, names: 128, widest: 16_000 } as const;

interface Track {
  readonly name: string;
  /** Operations under way together show through one another. */
  readonly alpha: number;
  readonly slices: readonly (Slice & { readonly colour: string })[];
}

const colours = {
  filling: "--warn",
  full: "--good",
  wait: "--line",
  work: "--accent",
  store: "--code-declaration",
};

/** Rows of the picture: slots of each ring first, then warps by role, engines by kind. */
function tracksOf(
  timeline: BlockTimeline,
  { barriers, role: roleOf }: ReturnType<typeof namesIn>,
): readonly Track[] {
  const as = (colour: string) => (slice: Slice) => ({ ...slice, colour });
  const slots = timeline.slots.map(({ states, full }, k) => ({
    ...{ name: barriers.get(full)?.replace("_full", "") ?? `slot ${k}`, alpha: 1 },
    slices: states.map((state) => ({ ...state, colour: colours[state.state] })),
  }));
  const warps = timeline.warps.map(({ warp, role, from, to, waits, stores }) => {
    const life: Slice = { name: role, from, to, line: null, detail: "", log: 0, open: false };
    return {
      alpha: 1,
      name: `warp ${warp} ${roleOf(warp) ?? (role === "other" ? "" : role)}`,
      slices: [life].map(as(colours.work)).concat(waits.map(as(colours.wait)), stores.map(as(colours.store))),
    };
  });
  const engines = [...new Set(timeline.operations.map(({ engine }) => engine))].map((engine) => ({
    ...{ name: engine, alpha: 0.35 },
    slices: timeline.operations.filter((o) => o.engine === engine).map(as(colours.work)),
  }));
  return [...slots, ...warps, ...engines];
}

export class TimelinePanel {
  readonly root = h("section", { class: "timeline", "aria-label": "Timeline", hidden: true });
  readonly #session: Session;
  readonly #stages: StagesPanel;
  readonly #block = h("select", { "aria-label": "Block shown" });
  readonly #zoom = h(
    "select",
    { "aria-label": "Zoom" },
    [1, 2, 4, 8, 16].map((zoom) => h("option", { value: zoom }, `${zoom}x`)),
  );
  readonly #canvas = h("canvas", { role: "img" });
  readonly #scroll = h("div", {
    class: "scroll",
    tabindex: 0,
    role: "region",
    "aria-label": "Tracks over time",
  });
  readonly #at = h("input", { type: "range", min: 0, value: 0, "aria-label": "Step of the log" });
  readonly #said = h("p", { class: "said", "aria-live": "polite" });
  readonly #barriers = h("div", {});
  #view: TimelineView | null = null;
  #tracks: readonly Track[] = [];
  #names = namesIn("");

  constructor(session: Session, stages: StagesPanel) {
    this.#session = session;
    this.#stages = stages;
    const step = (by: number): void => {
      this.#at.valueAsNumber += by;
      this.#step(true);
    };
    const button = (label: string, act: () => void) => h("button", { type: "button", onclick: act }, label);
    fill(this.#scroll, this.#canvas);
    fill(
      this.root,
      h(
        "div",
        { class: "bar" },
        h("h2", {}, "Timeline"),
        h("label", {}, "block ", this.#block),
        h("label", {}, "zoom ", this.#zoom),
        button("Perfetto trace", () => void this.#save()),
      ),
      h(
        "p",
        { class: "hint legend" },
        ...(["filling", "full", "work", "wait", "store"] as const).map((name) =>
          h("span", {}, h("i", { style: `background: var(${colours[name]})` }), ` ${name} `),
        ),
        "Ticks count instructions, with round figures for engines: order and waits, not speed.",
      ),
      this.#scroll,
      h(
        "div",
        { class: "bar" },
        button("Step back", () => step(-1)),
        button("Step", () => step(1)),
        this.#at,
      ),
      this.#said,
      this.#barriers,
    );
    this.#block.addEventListener("change", () => void this.show(Number(this.#block.value)));
    this.#zoom.addEventListener("change", () => this.#step(true));
    this.#at.addEventListener("input", () => this.#step(true));
    new ResizeObserver(() => this.#draw()).observe(this.#scroll);
  }

  hide(): void {
    this.root.hidden = true;
  }

  /** Show a block of the run that the worker keeps. */
  async show(block = 0): Promise<void> {
    const view = await this.#session.runner.call("timeline", block);
    this.#view = view;
    this.root.hidden = view === null;
    if (view === null) return;
    const { kernel } = this.#session;
    this.#names = namesIn(kernel?.steps.at(-1)?.text ?? "");
    this.#tracks = tracksOf(view.timeline, this.#names);
    fill(
      this.#block,
      view.blocks.map((name, value) => h("option", { value }, name)),
    );
    this.#block.value = String(view.shown);
    this.#at.max = String(view.steps.length - 1);
    this.#at.valueAsNumber = 0;
    this.#step(false);
  }

  async #save(): Promise<void> {
    const trace = await this.#session.runner.call("perfetto", undefined);
    download(`${this.#session.kernel?.entry ?? "kernel"}.trace.json`, "application/json", trace);
  }

  #named(text: string): string {
    return text.replace(/\{(\d+)\}/g, (_, offset) => {
      const name = this.#names.barriers.get(Number(offset));
      return name ?? `mbarrier ${offset}`;
    });
  }

  /** Say where the cursor is; `follow` scrolls the picture to it. */
  #step(follow: boolean): void {
    const view = this.#view;
    const at = this.#at.valueAsNumber;
    const now = view?.steps[at];
    if (view === null || now === undefined) return;
    fill(
      this.#said,
      `${at + 1} of ${view.steps.length}, tick ${now.time}: ${this.#named(now.text)} `,
      now.line === 0
        ? null
        : h(
            "button",
            { type: "button", class: "link", onclick: () => this.#stages.gotoPtx(now.line) },
            `PTX line ${now.line}`,
          ),
    );
    const states = new Map<number, (typeof view.steps)[number]["barrier"]>();
    for (const { barrier } of view.steps.slice(0, at + 1))
      if (barrier !== null) states.set(barrier.offset, barrier);
    const rows = [...states]
      .toSorted(([a], [b]) => a - b)
      .map(([offset, state]) => {
        const slot = view.timeline.slots.find(({ full }) => full === offset);
        const held = slot?.states.find(({ from, to }) => from <= now.time && to > now.time);
        return [
          this.#named(`{${offset}}`),
          String(state?.phase ?? 0),
          String(state?.pending ?? 0),
          bytesText(state?.tx ?? 0),
          slot === undefined ? "" : (held?.state ?? "free"),
        ];
      });
    fill(
      this.#barriers,
      rows.length === 0
        ? null
        : table(
            "mbarriers at this step",
            ["mbarrier", "phase", "arrivals to come", "bytes to come", "slot"],
            rows,
          ),
    );
    this.#draw();
    if (follow) {
      const { from, to } = view.timeline;
      const x = scaleLinear([from, Math.max(from + 1, to)], [size.names, this.#canvas.clientWidth])(now.time);
      if (
        x < this.#scroll.scrollLeft + size.names ||
        x > this.#scroll.scrollLeft + this.#scroll.clientWidth - 40
      )
        this.#scroll.scrollLeft = x - this.#scroll.clientWidth / 2;
    }
  }

  #draw(): void {
    const view = this.#view;
    if (view === null || this.root.hidden) return;
    const { from, to, findings } = view.timeline;
    // A canvas knows no variables, and these depend on the theme.
    const probe = h("span", {});
    this.root.append(probe);
    const known = new Map<string, string>();
    const colour = (name: string): string => {
      const found = known.get(name);
      if (found !== undefined) return found;
      probe.style.color = `var(${name})`;
      const { color } = getComputedStyle(probe);
      known.set(name, color);
      return color;
    };
    const room = Math.max(240, this.#scroll.clientWidth);
    const width = Math.min(size.widest, size.names + (room - size.names) * Number(this.#zoom.value));
    const height = this.#tracks.length * size.track + 4;
    const canvas = this.#canvas;
    const scale = Math.min(devicePixelRatio, size.widest / width);
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    canvas.setAttribute(
      "aria-label",
      `${view.timeline.name}: ${this.#tracks.map(({ name }) => name).join(", ")}`,
    );
    const context = canvas.getContext("2d");
    if (context === null) return;
    context.scale(scale, scale);
    const x = scaleLinear([from, Math.max(from + 1, to)], [size.names, width - 2]);
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    this.#tracks.forEach(({ name, slices, alpha }, row) => {
      const y = row * size.track;
      context.fillStyle = colour("--text");
      context.fillText(name, 2, y + size.track / 2, size.names - 6);
      context.globalAlpha = alpha;
      for (const slice of slices) {
        context.fillStyle = colour(slice.open ? "--bad" : slice.colour);
        context.fillRect(x(slice.from), y + 2, Math.max(1, x(slice.to) - x(slice.from)), size.track - 4);
      }
      context.globalAlpha = 1;
    });
    const mark = (time: number, name: string): void => {
      context.fillStyle = colour(name);
      context.fillRect(Math.round(x(time)), 0, 2, height);
    };
    for (const { time, other } of findings) {
      mark(time, "--bad");
      if (other !== null && other.block === view.timeline.block) mark(other.time, "--bad");
    }
    const now = view.steps[this.#at.valueAsNumber];
    if (now !== undefined) mark(now.time, "--text");
    probe.remove();
  }
}
