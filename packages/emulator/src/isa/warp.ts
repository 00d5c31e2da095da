/** Exchange among the lanes of a warp: PTX ISA 9.0, chapters 9.7.9.6 (shfl), 9.7.13.7 to 9.7.13.10 (vote, match, redux). */

import type { Operand, Operation, WaitOperation } from "../load/types.ts";
import { type Execution, hex, type Machine, registerWord, type Warp } from "../machine/state.ts";
import { binary, type Decoder, onWarp, type Row, type Table, unary } from "./row.ts";

/** The lanes of a mask, ascending. */
export function lanesOf(mask: number): number[] {
  const lanes: number[] = [];
  for (let l = 0; l < 32; l++) if ((mask >>> l) & 1) lanes.push(l);
  return lanes;
}

const firstLane = (mask: number): number => 31 - Math.clz32(mask & -mask);

/** Whether an operand is one written value in all lanes of `mask`: what is found out for one of them holds for all. */
export function alike(machine: Machine, operand: Operand, warp: Warp, mask: number): boolean {
  if (operand.kind === "immediate" || operand.kind === "symbol") return true;
  if (operand.kind !== "register") return false;
  const { register } = operand;
  const { words } = machine.arena;
  const lead = firstLane(mask);
  for (const part of register.bits === 64 ? ([0, 1] as const) : ([0] as const)) {
    const value = words[registerWord(warp, register, lead, part)];
    for (let l = lead + 1; l < 32; l++)
      if ((mask >>> l) & 1 && words[registerWord(warp, register, l, part)] !== value) return false;
  }
  if (register.written === null) return true;
  for (let l = lead; l < 32; l++)
    if ((mask >>> l) & 1 && words[registerWord(warp, register.written, l, 0)] !== 255) return false;
  return true;
}

/** A warp-level operation with a member mask: waits for the named lanes, then runs once for each group of them. */
function collective(
  members: Operand,
  bind: (machine: Machine) => (by: Execution, mask: number) => void,
): WaitOperation {
  return {
    kind: "wait",
    members,
    bind: (machine) => {
      const body = bind(machine);
      return (by, _group, mask) => {
        for (const part of partsOf(by, mask, members)) body(by, part);
        return true;
      };
    },
  };
}

/**
 * The groups of lanes that execute together: those that name the same lanes. They are disjoint, as match.any makes them, and all lanes name themselves; the
 * hardware takes one after the other. All at once where that is not so.
 */
function partsOf(by: Execution, mask: number, members: Operand): readonly number[] {
  const { machine, warp } = by;
  const parts: number[] = [];
  for (let left = mask; left !== 0; ) {
    const lead = firstLane(left);
    const named = machine.lane(warp, members, lead);
    let part = 0;
    for (const l of lanesOf(left)) if (machine.lane(warp, members, l) === named) part |= 1 << l;
    if (part !== (named & mask)) {
      const stray = lanesOf(part).find((l) => ((named >>> l) & 1) === 0);
      const [other = 0] = lanesOf(named & mask & ~part);
      by.report("H020", () =>
        stray === undefined
          ? `lane ${lead} names the lanes ${hex(named)}, and lane ${other} of them names ${hex(machine.lane(warp, members, other))}`
          : `lane ${stray} executes it, but its member mask is ${hex(named)}`,
      );
      return [mask];
    }
    parts.push(part);
    left &= ~part;
  }
  return parts;
}

/** Which bytes of an operand of 32 bits are defined: a mask, 255 for all. */
const definedBytes = ({ arena: { words } }: Machine, warp: Warp, operand: Operand, lane: number): number =>
  operand.kind === "register" && operand.register.written !== null
    ? (words[registerWord(warp, operand.register.written, lane, 0)] ?? 0)
    : 255;

const shfl: Row = (d) => {
  const mode = d.choice("up", "down", "bfly", "idx");
  const to = d.def(0);
  const from = d.use(1);
  const offset = d.use(2, "int");
  const clamp = d.use(3, "int");
  const members = d.use(4, "int");
  const value = to.kind === "pair" ? to.first : to;
  const predicate = to.kind === "pair" ? to.second : null;
  d.link(value, from);
  const values = new Int32Array(32);
  const defined = new Uint8Array(32);
  const inside = new Uint8Array(32);
  const exchange = collective(members, () => (by, mask) => {
    const { machine, warp } = by;
    for (let l = 0; l < 32; l++) {
      if (((mask >>> l) & 1) === 0) continue;
      const b = machine.lane(warp, offset, l) & 31;
      const c = machine.lane(warp, clamp, l);
      // c packs a segment mask (bits 8-12) and a clamp (bits 0-4); both bound the source lane within a segment.
      const segment = (c >>> 8) & 31;
      const bound = (l & segment) | (c & 31 & ~segment);
      const least = l & segment;
      let source: number;
      let ok: boolean;
      switch (mode) {
        case "up":
          source = l - b;
          ok = source >= bound;
          break;
        case "down":
          source = l + b;
          ok = source <= bound;
          break;
        case "bfly":
          source = l ^ b;
          ok = source <= bound;
          break;
        default:
          source = least | (b & ~segment);
          ok = source <= bound;
      }
      if (!ok) source = l;
      if (((mask >>> source) & 1) === 0)
        by.report("H021", () => `lane ${l} reads lane ${source}, which does not take part`);
      defined[l] = definedBytes(machine, warp, from, source);
      values[l] =
        defined[l] !== 255 && from.kind === "register"
          ? (machine.arena.words[registerWord(warp, from.register, source, 0)] ?? 0)
          : machine.lane(warp, from, source);
      inside[l] = ok ? 1 : 0;
    }
    for (let l = 0; l < 32; l++) {
      if (((mask >>> l) & 1) === 0) continue;
      machine.setLane(warp, value, l, values[l] ?? 0);
      if (value.kind === "register" && value.register.written !== null)
        machine.arena.words[registerWord(warp, value.register.written, l, 0)] = defined[l] ?? 0;
      if (predicate !== null) machine.setLane(warp, predicate, l, inside[l] ?? 0);
    }
  });
  return { ...exchange, handsOn: true };
};

const vote: Row = (d) => {
  const mode = d.choice("all", "any", "uni", "ballot");
  d.type();
  const to = d.def(0, "int");
  const predicate = d.predicate(1);
  const members = d.use(2, "int");
  return collective(members, () => ({ machine, warp }, mask) => {
    let ballot = 0;
    for (const l of lanesOf(mask)) if (machine.lane(warp, predicate, l) !== 0) ballot |= 1 << l;
    const result =
      mode === "ballot"
        ? ballot
        : mode === "all"
          ? Number(ballot === mask)
          : mode === "any"
            ? Number(ballot !== 0)
            : Number(ballot === 0 || ballot === mask);
    for (const l of lanesOf(mask)) machine.setLane(warp, to, l, result);
  });
};

const match = (d: Decoder, mode: "any" | "all"): Operation => {
  const type = d.type();
  const [to, from, members] = binary(d);
  const value = to.kind === "pair" ? to.first : to;
  const predicate = to.kind === "pair" ? to.second : null;
  return collective(members, () => ({ machine, warp }, mask) => {
    const lanes = lanesOf(mask);
    const keys = lanes.map(
      (l) => `${machine.lane(warp, from, l)}/${type === "b64" ? machine.lane(warp, from, l, 1) : 0}`,
    );
    const uniform = keys.every((key) => key === keys[0]);
    lanes.forEach((l, k) => {
      let equal = 0;
      lanes.forEach((other, j) => {
        if (keys[j] === keys[k]) equal |= 1 << other;
      });
      machine.setLane(warp, value, l, mode === "any" ? equal : uniform ? mask : 0);
      if (predicate !== null) machine.setLane(warp, predicate, l, uniform ? 1 : 0);
    });
  });
};

const redux: Row = (d) => {
  const op = d.choice("add", "min", "max", "and", "or", "xor");
  const magnitude = d.flag("abs");
  const nan = d.flag("NaN");
  const type = d.type();
  const [to, from, members] = binary(d);
  const scratch = new Float32Array(1);
  const bits = new Int32Array(scratch.buffer);
  const number = (word: number): number => {
    bits[0] = word;
    const x = scratch[0] ?? 0;
    return magnitude ? Math.abs(x) : x;
  };
  return collective(members, () => ({ machine, warp }, mask) => {
    const words = lanesOf(mask).map((l) => machine.lane(warp, from, l));
    let result = words[0] ?? 0;
    if (type === "f32") {
      const numbers = words.map(number);
      const usable = nan ? numbers : numbers.filter((x) => !Number.isNaN(x));
      scratch[0] = usable.length === 0 ? Number.NaN : Math[op === "min" ? "min" : "max"](...usable);
      result = Number.isNaN(scratch[0]) ? 0x7fffffff : (bits[0] ?? 0);
    } else
      for (const word of words.slice(1)) {
        const [a, b] = type === "u32" ? [result >>> 0, word >>> 0] : [result, word];
        switch (op) {
          case "add":
            result = (result + word) | 0;
            break;
          case "min":
            result = Math.min(a, b) | 0;
            break;
          case "max":
            result = Math.max(a, b) | 0;
            break;
          case "and":
            result &= word;
            break;
          case "or":
            result |= word;
            break;
          default:
            result ^= word;
        }
      }
    for (const l of lanesOf(mask)) machine.setLane(warp, to, l, result);
  });
};

const elect: Row = (d) => {
  const [to, members] = unary(d);
  const value = to.kind === "pair" ? to.first : null;
  const predicate = to.kind === "pair" ? to.second : to;
  return collective(members, () => ({ machine, warp }, mask) => {
    const leader = firstLane(mask);
    for (const l of lanesOf(mask)) {
      if (value !== null) machine.setLane(warp, value, l, leader);
      machine.setLane(warp, predicate, l, l === leader ? 1 : 0);
    }
  });
};

const activemask: Row = (d) => {
  const to = d.def(0, "int");
  return onWarp(({ machine, warp }, mask) => {
    for (const l of lanesOf(mask)) machine.setLane(warp, to, l, mask);
  });
};

export { collective, firstLane };

export const warpTable: Table = {
  "shfl.sync": shfl,
  "vote.sync": vote,
  "match.any.sync": (d) => match(d, "any"),
  "match.all.sync": (d) => match(d, "all"),
  "redux.sync": redux,
  "elect.sync": elect,
  activemask,
};
