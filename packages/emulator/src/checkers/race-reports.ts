/** What the race checker says: which rule an unordered pair of accesses breaks, and in which words. */
import type { Warp } from "../machine/state.ts";
import type { Clocks } from "./clocks.ts";
import type { RuleId } from "./rules.ts";
import { clockShift, type Shadow, severalLanes } from "./shadow.ts";

/** Takes a finding: `instruction` and `other` are indices in the kernel, `other` the earlier access. */
export type RaceReport = (
  rule: RuleId,
  warp: Warp,
  instruction: number,
  other: number,
  message: () => string,
) => void;

/** Who makes an access: a warp, or an operation that it has issued. */
export type Actor = "warp" | "operation";

export class RaceReports {
  readonly #report: RaceReport;
  readonly #shadow: Shadow;
  /** Bytes from one block's window to the next's. */
  readonly #stride: number;
  readonly #warpsPerBlock: number;

  constructor(shadow: Shadow, stride: number, warpsPerBlock: number, report: RaceReport) {
    this.#shadow = shadow;
    this.#stride = stride;
    this.#warpsPerBlock = warpsPerBlock;
    this.#report = report;
  }

  /** Word q as a kernel of a single block, or another block's as a shared::cluster address. */
  address(q: number): string {
    const bytes = q * 4;
    const rank = Math.floor(bytes / this.#stride);
    return `0x${(rank * 2 ** 24 + (bytes % this.#stride)).toString(16)}`;
  }

  /** A warp by its number in the block, with the block's rank where it is not the one of `from`. */
  warp(agent: number, from: Warp): string {
    const rank = Math.floor(agent / this.#warpsPerBlock);
    const id = agent % this.#warpsPerBlock;
    return rank === from.block.rank ? `warp ${id}` : `warp ${id} of block ${rank} of the cluster`;
  }

  /** The last writer of word q is not covered by w's clock. */
  unordered(
    clocks: Clocks,
    w: Warp,
    q: number,
    site: number,
    write: boolean,
    actor: Actor,
    writer = (this.#shadow.writer[q] as number) - 1,
    other = this.#shadow.writeSite[q] as number,
  ): void {
    const verb = write ? "overwritten" : "read";
    const who = actor === "warp" ? `warp ${w.id}` : `an operation of warp ${w.id}`;
    if (writer < clocks.warps) {
      this.#report(
        write ? "H011" : "H009",
        w,
        site,
        other,
        () =>
          `shared address ${this.address(q)} is ${verb} by ${who} with no synchronisation after the write by ${this.warp(writer, w)}`,
      );
      return;
    }
    const { owner } = clocks.traits(writer);
    // cp.async has an owner whose wait counts; everything else is waited for at an mbarrier or a group.
    if (owner === undefined) {
      this.#report(
        write ? "H014" : "H034",
        w,
        site,
        other,
        () =>
          `shared address ${this.address(q)} is ${verb} by ${who}, which has not seen the end of the asynchronous operation that writes it`,
      );
      return;
    }
    const clock = (this.#shadow.written[q] as number) >> clockShift;
    const issuer = owner;
    if (clocks.knows(issuer, writer, clock))
      this.#report(
        "H015",
        w,
        site,
        other,
        () =>
          `shared address ${this.address(q)} is ${verb} by ${who} with no barrier after ${this.warp(issuer, w)}'s wait for the copy that wrote it`,
      );
    else
      this.#report(
        write ? "H014" : "H013",
        w,
        site,
        other,
        () =>
          `shared address ${this.address(q)} is ${verb} by ${who} while a copy issued by ${this.warp(issuer, w)} is still in flight`,
      );
  }

  /** A read of word q by `agent` is not covered by the clock of w, which overwrites it. */
  overwritten(clocks: Clocks, w: Warp, q: number, site: number, agent: number, actor: Actor): void {
    const who = actor === "warp" ? `warp ${w.id}` : `an operation of warp ${w.id}`;
    const other = this.#shadow.readSite[q] as number;
    if (agent < clocks.warps)
      this.#report(
        "H010",
        w,
        site,
        other,
        () =>
          `shared address ${this.address(q)} is overwritten by ${who} while ${this.warp(agent, w)} may still read it`,
      );
    else
      this.#report(
        "H035",
        w,
        site,
        other,
        () =>
          `shared address ${this.address(q)} is overwritten by ${who} while an asynchronous operation may still read it`,
      );
  }

  /** A write in the generic proxy is ordered before an operation of the async proxy but has not been made visible to it. */
  unfenced(clocks: Clocks, w: Warp, q: number, site: number, write: boolean): void {
    const writer = (this.#shadow.writer[q] as number) - 1;
    this.#report("H033", w, site, this.#shadow.writeSite[q] as number, () => {
      const by = writer < clocks.warps ? ` by ${this.warp(writer, w)}` : "";
      return `shared address ${this.address(q)} is ${write ? "overwritten" : "read"} by an operation of the async proxy with no fence.proxy.async after the write${by}`;
    });
  }

  /** A read in the generic proxy is ordered before a write of the async proxy that needs a proxy fence after reads too. */
  unfencedRead(w: Warp, q: number, site: number, agent: number): void {
    this.#report(
      "H033",
      w,
      site,
      this.#shadow.readSite[q] as number,
      () =>
        `shared address ${this.address(q)} is overwritten by an operation of the async proxy with no fence.proxy.async after the read by ${this.warp(agent, w)}`,
    );
  }

  /** Reads by `agent` are ordered before a bulk copy, but nothing has waited for their data. */
  overtaken(w: Warp, q: number, site: number, agent: number): void {
    this.#report(
      "H090",
      w,
      site,
      this.#shadow.readSite[q] as number,
      () =>
        `shared address ${this.address(q)} is overwritten by a bulk copy of warp ${w.id}, and ${this.warp(agent, w)}'s load from it may still be under way: nothing between it and the arrival that hands the place over waits for its result`,
    );
  }

  /** Another lane of the same warp issued the copy; its wait has to be published by bar.warp.sync or a barrier. */
  unpublished(w: Warp, q: number, lane: number, site: number): void {
    const written = this.#shadow.written[q] as number;
    this.#report(
      "H015",
      w,
      site,
      this.#shadow.writeSite[q] as number,
      () =>
        `shared address ${this.address(q)} was copied by lane ${written & 63} of warp ${w.id} and is used by lane ${lane} with no bar.warp.sync or barrier after the wait`,
    );
  }

  /** Two lanes of one warp touch word q with nothing between. */
  lanes(
    w: Warp,
    q: number,
    lane: number,
    site: number,
    otherLane: number,
    verb: string,
    did: string,
    other: number,
  ): void {
    const who = otherLane === severalLanes ? "other lanes" : `lane ${otherLane}`;
    this.#report(
      "H012",
      w,
      site,
      other,
      () =>
        `lane ${lane} of warp ${w.id} ${verb} shared address ${this.address(q)}, which ${who} ${did} with no bar.warp.sync between`,
    );
  }

  /** `block` may have exited before the access by `agent` that its own exit does not wait for. */
  exited(w: Warp, site: number, agent: number, clocks: Clocks): void {
    this.#report("H043", w, site, -1, () => {
      const who = agent < clocks.warps ? this.warp(agent, w) : "an asynchronous operation of another block";
      return `block ${w.block.rank} of the cluster exits with nothing that orders its exit after this access to its shared memory by ${who}`;
    });
  }
}
