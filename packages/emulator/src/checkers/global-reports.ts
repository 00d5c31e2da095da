/** What the checker of global memory says: which rule a pair of accesses breaks, and in which words. */
import { placeOf, type Warp } from "../machine/state.ts";
import { type Arena, globalTag } from "../memory/arena.ts";
import type { AccessRecord } from "./histories.ts";
import type { Race } from "./race.ts";
import type { RaceReport } from "./race-reports.ts";
import type { RuleId } from "./rules.ts";

export type AccessKind = "read" | "write";

/** The block and the warp in it of an agent of a cluster, by the cluster's number; the warp is null for an engine. */
export type Place = (
  cluster: number,
  agent: number,
) => { readonly block: readonly [number, number, number]; readonly warp: number | null };

const rulesOf: Readonly<Record<`${AccessKind} after ${AccessKind}`, RuleId>> = {
  "read after write": "H092",
  "write after read": "H093",
  "write after write": "H094",
  "read after read": "H092",
};

const verbs: Readonly<Record<AccessKind, string>> = { read: "read", write: "overwritten" };

export class GlobalReports {
  readonly #arena: Arena;
  readonly #report: RaceReport;
  readonly #place: Place;

  constructor(arena: Arena, report: RaceReport, place: Place) {
    this.#arena = arena;
    this.#report = report;
    this.#place = place;
  }

  /** Arena offset `x` as an address and as a place in its allocation. */
  #where(x: number): string {
    const found = this.#arena.find(x, 1);
    const of =
      found === undefined
        ? ""
        : ` (byte ${x - found.offset} of ${found.name ?? `an allocation of ${found.size} bytes`})`;
    return `global address 0x${globalTag.toString(16)}${x.toString(16).padStart(8, "0")}${of}`;
  }

  /** Who made an access, seen from `from`. */
  #who(record: AccessRecord, from: Warp): string {
    const { block, warp } = this.#place(record.cluster, record.agent);
    const actor = warp === null ? "an asynchronous operation" : `warp ${warp}`;
    const here = placeOf(from).block;
    return block.every((b, k) => b === here[k]) ? actor : `${actor} of block ${block.join(",")}`;
  }

  /** An access of w, or of an operation that it issues, conflicts with one that it does not come after. */
  conflict(
    race: Race,
    w: Warp,
    x: number,
    site: number,
    other: AccessRecord,
    narrow: boolean,
    does: AccessKind,
    did: AccessKind,
  ): void {
    const [rule, why] = this.#verdict(race, w, other, narrow, does, did);
    const seen = other.cluster === 0 ? -1 : other.site;
    this.#report(rule, w, site, seen, () => `${this.#where(x)} is ${verbs[does]} by warp ${w.id}${why()}`);
  }

  #verdict(
    race: Race,
    w: Warp,
    other: AccessRecord,
    narrow: boolean,
    does: AccessKind,
    did: AccessKind,
  ): readonly [RuleId, () => string] {
    const who = (): string => this.#who(other, w);
    if (other.cluster === 0)
      return ["H099", () => ` before griddepcontrol.wait, while the grid before may still ${did} it`];
    if (narrow)
      return [
        "H096",
        () =>
          `; it and the access by ${who()} are strong, but the scope of one does not reach the other's thread`,
      ];
    if (other.agent >= race.clocks.warps && did === "write")
      return [
        "H097",
        () =>
          `, which does not know that the store by ${who()} is complete (cp.async.bulk.wait_group without .read, and what hands that on)`,
      ];
    return [rulesOf[`${does} after ${did}`], () => ` with no synchronisation after the ${did} by ${who()}`];
  }

  /** Two lanes of one warp touch the same bytes with nothing between. */
  lanes(
    w: Warp,
    x: number,
    site: number,
    other: AccessRecord,
    lane: number,
    otherLane: number,
    verb: string,
    did: string,
  ): void {
    const who = otherLane > 31 ? "other lanes" : `lane ${otherLane}`;
    this.#report(
      "H095",
      w,
      site,
      other.site,
      () =>
        `lane ${lane} of warp ${w.id} ${verb} ${this.#where(x)}, which ${who} ${did} with no bar.warp.sync between`,
    );
  }

  /** A write in the generic proxy is ordered before an operation of the async proxy but has not been made visible to it. */
  unfenced(race: Race, w: Warp, x: number, site: number, other: AccessRecord, does: AccessKind): void {
    if (other.agent >= race.clocks.warps && other.cluster !== race.cluster) return;
    this.#report(
      "H098",
      w,
      site,
      other.site,
      () =>
        `${this.#where(x)} is ${verbs[does]} by an operation of the async proxy with no fence.proxy.async after the write by ${this.#who(other, w)}`,
    );
  }

  /** A read through the non-coherent path of what the launch has written. */
  stale(w: Warp, x: number, site: number, other: AccessRecord): void {
    this.#report(
      "H100",
      w,
      site,
      other.site,
      () =>
        `${this.#where(x)} is read by ld.global.nc after ${this.#who(other, w)} wrote it in the same launch`,
    );
  }
}
