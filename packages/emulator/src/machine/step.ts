/**
 * Moves one warp: runs the bodies of basic blocks for its groups of lanes, and their terminators. The group at the lowest
 * block goes first, which lets the others catch up and merge with it at the point of reconvergence.
 */
import { unawaitedStores } from "../bulk/groups.ts";
import { type Findings, LaunchStopped } from "../checkers/findings.ts";
import type { Guard, Instruction, Operand } from "../load/types.ts";
import type { Arena } from "../memory/arena.ts";
import type { Recorder } from "../trace/recorder.ts";
import { tryComplete, tryCompleteCluster } from "./barriers.ts";
import type { RunnableBlock } from "./compiled.ts";
import { absorb, beginAt, goTo, readyLanes, split } from "./lane-groups.ts";
import type { Polls } from "./polls.ts";
import { type Group, hex, placeOf, popcount, registerWord, type Warp } from "./state.ts";

/** Blocks a warp runs before another gets its turn. */
const slice = 64;
/** Turns after which groups of a diverged warp take the lead in rotation: a lane may spin until another lane of the warp acts. */
const patience = 256;

export interface StepHooks {
  readonly arena: Arena;
  readonly findings: Findings;
  readonly blocks: readonly RunnableBlock[];
  /** Take warp-instructions off the fuel; throws when it is used up. */
  burn(count: number, warp: Warp, at: Instruction | null): void;
  /** Something other than polling happened. */
  progress(): void;
  /** All lanes of a warp have exited. */
  exited(warp: Warp): void;
  /** A warp ran a block that only polls. */
  polled(): void;
  /** What polling loops read; null where a schedule decides who runs. */
  readonly polls: Polls | null;
  /** Asked before a step that others may see, but for the first of a turn: whether the warp has to let others go first. Null: never. */
  readonly pause: (() => boolean) | null;
  readonly trace: Recorder | null;
  /** Called before and after a region of a sampled warp. */
  sample(warp: Warp, mask: number, block: RunnableBlock, step: number): void;
}

export class Stepper {
  readonly #hooks: StepHooks;
  readonly #blocks: readonly RunnableBlock[];
  /** The warp has run a step in this turn; it is to stop before the next. */
  #begun = false;
  #paused = false;
  /** The group whose reads are noted. */
  #polling: Group | null = null;
  /** All groups have been roused: the next one to run polls for its whole turn. */
  #roused = false;

  constructor(hooks: StepHooks) {
    this.#hooks = hooks;
    this.#blocks = hooks.blocks;
  }

  /** Run `warp` until it blocks, ends or has had its share. Returns whether it moved. */
  run(warp: Warp): boolean {
    let progress = false;
    this.#begun = false;
    this.#polling = null;
    for (let budget = slice; budget > 0 && !warp.done; budget--) {
      const { groups } = warp;
      let lead = 0;
      if (groups.length > 1) {
        warp.turns += 1;
        lead = Math.floor(warp.turns / patience) % groups.length;
      } else warp.turns = 0;
      let moved = false;
      for (let k = 0; k < groups.length && !moved; k++) {
        const group = groups[(lead + k) % groups.length];
        if (group !== undefined) moved = this.#advance(warp, group);
      }
      if (!moved) break;
      progress = true;
      if (this.#paused) {
        this.#paused = false;
        break;
      }
    }
    if (progress) this.#roused = false;
    return progress;
  }

  /** Wake the groups of these warps that sleep. Returns whether there were any. */
  rouse(warps: Iterable<Warp>): boolean {
    let any = false;
    for (const { groups } of warps)
      for (const group of groups) {
        if (group.sleep !== null) any = true;
        group.sleep = null;
      }
    this.#roused = any;
    return any;
  }

  /** One block of one group. Returns false when the group is blocked at the terminator. */
  #advance(warp: Warp, group: Group): boolean {
    const block = this.#blocks[group.at];
    if (block === undefined) throw new LaunchStopped("ran off the program");
    if (group.sleep !== null) {
      if (group.sleep.lasts(this.#hooks.arena.words)) return false;
      group.sleep = null;
    }
    if (!group.atTerminator) {
      if (!this.#body(warp, group, block)) {
        this.#paused = true;
        return true;
      }
      group.step = 0;
      group.atTerminator = true;
    }
    return this.#terminate(warp, group, block);
  }

  /** The instruction that the warp is about to execute, as far as it is known before it is asked. */
  next(warp: Warp): Instruction | null {
    const [group] = warp.groups;
    const block = group === undefined ? undefined : this.#blocks[group.at];
    if (group === undefined || block === undefined) return null;
    return (
      block.steps[group.atTerminator ? block.steps.length : group.step]?.instructions[0] ?? block.terminator
    );
  }

  /** Returns whether the body has been run to its end. */
  #body(warp: Warp, group: Group, block: RunnableBlock): boolean {
    const { steps } = block;
    const hooks = this.#hooks;
    if (block.basic.polls && this.#polling !== group) {
      hooks.polls?.begin();
      this.#polling = group;
    }
    if (group.step === 0) {
      if (block.basic.polls) hooks.polled();
      else hooks.progress();
    }
    for (let k = group.step; k < steps.length; k++) {
      const step = steps[k];
      if (step === undefined) continue;
      if (hooks.pause !== null && step.seen) {
        if (this.#begun && hooks.pause()) {
          group.step = k;
          return false;
        }
        this.#begun = true;
      }
      let { mask } = group;
      const [first] = step.instructions;
      if (step.kind === "warp" && first !== undefined && first.guard !== null)
        mask = this.#holds(warp, first, first.guard, mask);
      hooks.burn(step.instructions.length, warp, first ?? null);
      step.executions += 1;
      step.lanes += mask === -1 ? 32 : popcount(mask);
      if (mask === 0) continue;
      hooks.trace?.stepped(warp, step.instructions, popcount(mask));
      if (step.touches !== null) step.touches(warp);
      if (warp.sampling && step.sampled.length > 0) hooks.sample(warp, mask, block, k);
      else step.run(warp, mask);
      warp.block.race?.settle();
    }
    return true;
  }

  #terminate(warp: Warp, group: Group, block: RunnableBlock): boolean {
    const { terminator, basic } = block;
    if (terminator === null) {
      goTo(warp, group, basic.id + 1);
      return true;
    }
    const { operation, guard } = terminator;
    if (operation.kind === "wait") return this.#wait(warp, group, block, terminator);
    block.terminations += 1;
    this.#hooks.burn(1, warp, terminator);
    const taken = guard === null ? group.mask : this.#holds(warp, terminator, guard, group.mask);
    switch (operation.kind) {
      case "branch":
        if (operation.uniform && taken !== 0 && taken !== group.mask)
          this.#hooks.findings.add(
            "H023",
            terminator,
            placeOf(warp),
            () => `taken by lanes ${hex(taken)} of ${hex(group.mask)}`,
          );
        split(warp, group, taken, block.target, basic.id + 1);
        if (basic.polls && block.target <= basic.id && group.at === block.target) this.#again(group);
        return true;
      case "indexed-branch":
        this.#indexed(warp, group, taken, block, operation.index, basic.id + 1);
        return true;
      case "exit":
        if (operation.trap && taken !== 0) {
          this.#hooks.findings.add(
            "H032",
            terminator,
            placeOf(warp),
            () => `lanes ${hex(taken)} of warp ${warp.id}`,
          );
          throw new LaunchStopped("trap");
        }
        this.#exit(warp, group, taken, basic.id + 1);
        return true;
      case "lane":
      case "warp":
        return true;
    }
  }

  /** A group begins another iteration of a loop: where it polls, it sleeps until it would read something else. */
  #again(group: Group): void {
    if (this.#roused || this.#polling !== group || this.#blocks[group.at]?.basic.polls !== true) return;
    group.sleep = this.#hooks.polls?.sleep() ?? null;
    this.#polling = null;
  }

  /** Lanes of `mask` in which a guard holds. */
  #holds(warp: Warp, instruction: Instruction, guard: Guard, mask: number): number {
    const { words } = this.#hooks.arena;
    const { written, name } = guard.register;
    if (written !== null) {
      const marks = registerWord(warp, written, 0, 0);
      for (let l = 0; l < 32; l++)
        if ((mask >>> l) & 1 && words[marks + l] !== 255) {
          this.#hooks.findings.add(
            "H008",
            instruction,
            placeOf(warp),
            () => `lane ${l} reads ${name}, which it has not written`,
          );
          break;
        }
    }
    const base = registerWord(warp, guard.register, 0, 0);
    let result = 0;
    for (let l = 0; l < 32; l++) if ((mask >>> l) & 1 && words[base + l] !== 0) result |= 1 << l;
    return guard.negated ? mask & ~result : result;
  }

  #indexed(
    warp: Warp,
    group: Group,
    taken: number,
    block: RunnableBlock,
    index: Operand,
    next: number,
  ): void {
    const { words } = this.#hooks.arena;
    let rest = taken;
    while (rest !== 0) {
      const lane = 31 - Math.clz32(rest & -rest);
      const value = (l: number): number =>
        index.kind === "register" ? (words[registerWord(warp, index.register, l, 0)] ?? 0) >>> 0 : 0;
      const chosen = value(lane);
      const target = block.targets[chosen];
      if (target === undefined) {
        this.#hooks.findings.add(
          "H032",
          block.terminator,
          placeOf(warp),
          () => `lane ${lane} branches to entry ${chosen} of ${block.targets.length}`,
        );
        throw new LaunchStopped("branch index");
      }
      let same = 0;
      for (let l = 0; l < 32; l++) if ((rest >>> l) & 1 && value(l) === chosen) same |= 1 << l;
      rest &= ~same;
      if (same === group.mask) {
        goTo(warp, group, target);
        return;
      }
      beginAt(warp, target, same);
      group.mask &= ~same;
    }
    goTo(warp, group, next);
  }

  #exit(warp: Warp, group: Group, taken: number, next: number): void {
    if (taken === 0) {
      goTo(warp, group, next);
      return;
    }
    if (taken === group.mask) warp.groups.splice(warp.groups.indexOf(group), 1);
    else {
      group.mask &= ~taken;
      goTo(warp, group, next);
    }
    const { block } = warp;
    if (warp.groups.length === 0) {
      warp.done = true;
      block.live -= 1;
      this.#hooks.exited(warp);
      // A group that was committed empty has nothing to wait for: rings commit past their last chunk to keep the count fixed.
      const untracked = warp.openCopies.filter((c) => !c.tracked);
      const open = untracked.length + warp.committed.filter((g) => g.copies.some((c) => !c.tracked)).length;
      if (open > 0)
        this.#hooks.findings.add(
          "H016",
          this.#lastCopy(warp),
          placeOf(warp),
          () => `warp ${warp.id} exits with ${open} groups of copies that it has not waited for`,
        );
    }
    if (warp.done) this.#storesLeft(warp);
    const { trace } = this.#hooks;
    for (const barrier of block.barriers.values())
      if (tryComplete(block, barrier)) trace?.barrier(warp, null, "complete", barrier.id, barrier);
    if (tryCompleteCluster(block.cluster))
      trace?.barrier(warp, null, "complete", "cluster", block.cluster.barrier);
  }

  #storesLeft(warp: Warp): void {
    const stores = unawaitedStores(warp);
    const [first] = stores;
    if (first === undefined) return;
    this.#hooks.findings.add(
      "H054",
      first.instruction,
      placeOf(warp),
      () =>
        `lane ${first.lane} of warp ${warp.id} exits with no cp.async.bulk.wait_group for ${stores.length} stores`,
    );
  }

  #lastCopy(warp: Warp): Instruction | null {
    const copies = [...warp.openCopies, ...warp.committed.flatMap((g) => g.copies)];
    return copies.at(-1)?.instruction ?? null;
  }

  #wait(warp: Warp, group: Group, block: RunnableBlock, instruction: Instruction): boolean {
    const { operation, guard } = instruction;
    if (operation.kind !== "wait" || block.wait === null) return true;
    const next = block.basic.id + 1;
    if (group.wait === null) {
      // Lanes that the guard excludes go on; lanes that have caught up at the same instruction join.
      if (operation.members !== "none") absorb(warp, group);
      const held = guard === null ? group.mask : this.#holds(warp, instruction, guard, group.mask);
      if (held === 0) {
        goTo(warp, group, next);
        return true;
      }
      if (held !== group.mask) {
        beginAt(warp, next, group.mask & ~held);
        group.mask = held;
      }
      const ready = readyLanes(warp, group, operation.members, this.#hooks.arena.words);
      if (ready === 0) return false;
      if (ready !== group.mask) {
        warp.groups.push({ ...group, mask: group.mask & ~ready });
        group.mask = ready;
      }
      block.terminations += 1;
      this.#hooks.burn(1, warp, instruction);
      if (block.touches !== null) block.touches(warp);
    }
    const { trace } = this.#hooks;
    if (!block.wait(warp, group, group.mask)) {
      trace?.blocked(warp, group, instruction);
      return false;
    }
    trace?.stepped(warp, [instruction], popcount(group.mask));
    trace?.passed(warp, group, instruction);
    warp.block.race?.settle();
    this.#hooks.progress();
    goTo(warp, group, next);
    return true;
  }
}
