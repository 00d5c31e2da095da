/** Writes of shared memory over another warp's that nothing orders: a race where they change what is there. */
import type { Warp } from "../machine/state.ts";
import type { Clocks } from "./clocks.ts";
import type { RaceReports } from "./race-reports.ts";
import { byteMasks, type Shadow } from "./shadow.ts";

/** Such a write, before it is known whether it changes anything. */
interface Overwrite {
  readonly warp: Warp;
  readonly q: number;
  readonly bytes: number;
  readonly site: number;
  readonly writer: number;
  readonly writeSite: number;
  readonly before: number;
}

export class Overwrites {
  readonly #shadow: Shadow;
  readonly #reports: RaceReports;
  /** The first window's first word in the arena's. */
  readonly #first: number;
  readonly #words: () => Int32Array;
  #open: Overwrite[] = [];

  constructor(shadow: Shadow, reports: RaceReports, base: number, words: () => Int32Array) {
    this.#shadow = shadow;
    this.#reports = reports;
    this.#first = base >> 2;
    this.#words = words;
  }

  /** A write of word q that is about to be made, over one that the warp may not know of. What an engine writes may be yet to come: that is a race in any case. */
  note(clocks: Clocks, warp: Warp, q: number, bytes: number, site: number): void {
    const writer = (this.#shadow.writer[q] ?? 0) - 1;
    const writeSite = this.#shadow.writeSite[q] ?? 0;
    if (writer >= clocks.warps) this.#reports.unordered(clocks, warp, q, site, true, "warp");
    else {
      const before = this.#words()[this.#first + q] ?? 0;
      this.#open.push({ warp, q, bytes, site, writer, writeSite, before });
    }
  }

  /** The step has been executed. Writes that have left every byte as it was are none: several warps that store one value agree. */
  settle(clocks: Clocks): void {
    if (this.#open.length === 0) return;
    const words = this.#words();
    for (const { warp, q, bytes, site, writer, writeSite, before } of this.#open)
      if (((before ^ (words[this.#first + q] ?? 0)) & byteMasks(bytes)) !== 0)
        this.#reports.unordered(clocks, warp, q, site, true, "warp", writer, writeSite);
    this.#open = [];
  }
}
