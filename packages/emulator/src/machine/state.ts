/** What a running launch consists of: blocks, warps and their groups of lanes. The scheduler moves them (schedule.ts). */
import { entryOf } from "@tilewright/core";
import type { Place } from "../checkers/findings.ts";
import type { AsyncOp, Carried, Race } from "../checkers/race.ts";
import type { RuleId } from "../checkers/rules.ts";
import type { AddressOperand, Instruction, Operand, Register } from "../load/types.ts";
import type { Arena } from "../memory/arena.ts";
import type { ExactSums } from "../numerics/exact-sums.ts";
import type { TensorArithmetic } from "../numerics/tensorcore.ts";
import type { Recorder, Traced } from "../trace/recorder.ts";
import type { Barrier } from "./barriers.ts";
import type { EventQueue } from "./events.ts";
import type { Mbarrier } from "./mbarriers.ts";
import type { Polls, Sleep } from "./polls.ts";

/** Lanes of a warp that are at the same place. */
export interface Group {
  /** Index of the basic block they are in. */
  at: number;
  /** Lanes, bit l for lane l. */
  mask: number;
  /** Step of the block's body that comes next: a warp may be preempted within it. */
  step: number;
  /** The block's body has run; its terminator is what they wait at. */
  atTerminator: boolean;
  /** It polls, and what it has read is still so; null where it is awake. */
  sleep: Sleep | null;
  /** State that a wait operation keeps while the group is blocked; null when it has not been asked yet. */
  wait: WaitState | null;
}

/** What a blocked group waits for. */
export interface WaitState {
  /** For deadlock reports: `barrier 0, 64 of 128 threads have arrived`. */
  describe: () => string;
  /** Barrier generation to pass, or another number that the operation compares. */
  generation: number;
}

/** One `cp.async` of a warp; `lanes` are those that have not committed it yet. */
export interface AsyncCopy {
  done: boolean;
  lanes: number;
  /** The lanes that issued it. */
  readonly issued: number;
  /** An mbarrier tracks it (cp.async.mbarrier.arrive). */
  tracked: boolean;
  readonly instruction: Instruction;
  /** One operation of the warp's copy engine per lane of the instruction; null where races are not checked. */
  readonly op: AsyncOp | null;
  readonly traced: Traced | null;
}

/** A committed group; `lanes` are those that have not waited for it yet. */
export interface AsyncGroup {
  lanes: number;
  readonly copies: readonly AsyncCopy[];
}

export class Warp {
  readonly block: Block;
  /** Index in the block. */
  readonly id: number;
  /** First word of the register file in the arena. */
  readonly registers: number;
  /** Byte offset of the block's shared window in the arena. */
  readonly sharedBase: number;
  /** Shared address of byte 0 of the window: the block's rank in the top byte. */
  readonly sharedAddress: number;
  readonly sharedSize: number;
  /** Arena offset of lane 0's local memory; lanes follow at the stride `localStride`. */
  readonly localBase: number;
  readonly localStride: number;
  readonly paramBase: number;
  readonly paramSize: number;
  /** First offset past global memory. */
  readonly globalTop: number;
  /** Linear number of lane 0's thread in the block. */
  readonly firstThread: number;
  /** Number in the race checker. */
  readonly agent: number;
  /** Where the bank sampler records addresses, -1 when this warp is not sampled. */
  bank = -1;
  groups: Group[];
  /** Lanes that exist: the last warp of a block may have fewer than 32. */
  readonly lanes: number;
  done = false;
  /** Its time in the event log; 0 without one. */
  clock = 0;
  /** Steps taken while lanes have been apart; see step.ts. */
  turns = 0;
  /** Whether shared accesses of this warp are recorded for the bank counters. */
  sampling = false;
  /** Copies not committed yet, and committed groups not waited for, oldest first. */
  openCopies: AsyncCopy[] = [];
  committed: AsyncGroup[] = [];
  /** Agent of the warp's cp.async engine in the race checker; -1 before its first copy. */
  copyEngine = -1;
  /** False answers in a row that mbarrier.try_wait has given the warp. */
  spurious = 0;
  /** Registers per thread, and the setmaxnreg instructions executed. */
  registerCount: number;
  readonly registerSteps: Instruction[] = [];
  /** Per lane: generation of the cluster barrier in which it has arrived without waiting yet, plus one; 0 for none. */
  readonly clusterArrivals = new Int32Array(32);

  constructor(fields: WarpFields) {
    this.block = fields.block;
    this.id = fields.id;
    this.registers = fields.registers;
    this.sharedBase = fields.sharedBase;
    this.sharedAddress = fields.sharedAddress;
    this.sharedSize = fields.sharedSize;
    this.localBase = fields.localBase;
    this.localStride = fields.localStride;
    this.paramBase = fields.paramBase;
    this.paramSize = fields.paramSize;
    this.globalTop = fields.globalTop;
    this.firstThread = fields.id * 32;
    this.agent = fields.agent;
    this.lanes = fields.lanes;
    this.registerCount = fields.registerCount;
    this.groups = [{ at: 0, mask: fields.lanes, step: 0, atTerminator: false, sleep: null, wait: null }];
  }

  /** Lanes that have not exited. */
  get live(): number {
    let mask = 0;
    for (const group of this.groups) mask |= group.mask;
    return mask;
  }
}

export interface WarpFields {
  readonly block: Block;
  readonly id: number;
  readonly registers: number;
  readonly sharedBase: number;
  readonly sharedAddress: number;
  readonly sharedSize: number;
  readonly localBase: number;
  readonly localStride: number;
  readonly paramBase: number;
  readonly paramSize: number;
  readonly globalTop: number;
  readonly agent: number;
  readonly lanes: number;
  readonly registerCount: number;
}

/** A thread block (CTA) that is resident. */
export interface Block {
  readonly index: readonly [number, number, number];
  readonly threads: number;
  /** Place among the resident blocks, and how many places there are. */
  readonly slot: number;
  readonly slots: number;
  /** Rank in its cluster and the cluster's coordinates. */
  readonly rank: number;
  readonly inCluster: readonly [number, number, number];
  readonly clusterIndex: readonly [number, number, number];
  readonly explicitCluster: number;
  readonly dynamicShared: number;
  /** Of its shared window, what the system reserves. */
  readonly reservedShared: number;
  readonly warps: Warp[];
  readonly barriers: Map<number, Barrier>;
  /** Registers per thread of one warp that setmaxnreg.inc may take. */
  readonly pool: { free: number };
  readonly cluster: ClusterState;
  /** Arena offset of its shared window. */
  readonly sharedBase: number;
  readonly sharedSize: number;
  /** Warps that have not exited. */
  live: number;
  /** All its threads have exited: nobody may touch its shared memory any more. */
  exited: boolean;
  /** The cluster's race checker, null when the check is off. */
  readonly race: Race | null;
}

/** Blocks that run together; a launch without clusters has one block in each. */
export interface ClusterState {
  readonly index: number;
  /** Place among the resident clusters. */
  readonly slot: number;
  /** By rank. */
  readonly blocks: readonly Block[];
  /** One checker for all windows of the cluster, null when the check is off. */
  readonly race: Race | null;
  /** Valid mbarriers by arena offset. */
  readonly mbarriers: Map<number, Mbarrier>;
  readonly barrier: ClusterBarrier;
  /** What engines keep for the cluster, by their own names: tensor memories, for instance. */
  readonly engines: Map<string, unknown>;
}

/** The barrier of a cluster (barrier.cluster). */
interface ClusterBarrier {
  /** Lanes of each warp that have arrived in this generation. */
  readonly arrived: Map<Warp, number>;
  generation: number;
  /** What those who arrived hand on, and what the last completed generation handed on. */
  carried: Carried | null;
  completed: Carried | null;
  /** In the event log: the latest arrival, and that of the last completed generation. */
  gathered: number;
  completedAt: number;
}

/** A place in the shared windows of a cluster. */
export interface SharedPlace {
  readonly block: Block;
  /** Arena offset. */
  readonly at: number;
}

/** What instructions bound to a launch may use. */
export interface Machine {
  readonly arena: Arena;
  readonly events: EventQueue;
  readonly order: "eager" | "lazy" | "random";
  /** The instruction of a warp that is being executed, which findings about its operands name. */
  at: Instruction | null;
  /** Some check runs: without one, nothing has to be looked into that only a finding would tell. */
  readonly checked: boolean;
  /** Makes the event log; null without one. */
  readonly trace: Recorder | null;
  /** How tensor cores compute: those of the launch's architecture. */
  readonly arithmetic: TensorArithmetic;
  /** Of a launch whose floating-point reductions add exactly. */
  readonly sums: ExactSums | null;
  /** 32-bit word of `operand` in one lane; `part` 1 is the high word of a 64-bit value. */
  lane(warp: Warp, operand: Operand, lane: number, part?: 0 | 1): number;
  /** Write a register in one lane; `high` is the high word of a 64-bit register. */
  setLane(warp: Warp, operand: Operand, lane: number, value: number, high?: number): void;
  /** Low word of an address operand in one lane, offset added. */
  address(warp: Warp, operand: AddressOperand, lane: number): number;
  report(rule: RuleId, instruction: Instruction | null, place: Warp | Place, message: () => string): void;
  /** Ends the launch. */
  stop(): never;
  /** The slow path of a global access: arena offset to use. See environment.ts. */
  global(
    warp: Warp,
    lane: number,
    instruction: Instruction,
    low: number,
    high: number,
    size: number,
    mode: number,
    alignment: number,
  ): number;
  /** The same for a shared address. */
  shared(
    warp: Warp,
    lane: number,
    instruction: Instruction,
    address: number,
    size: number,
    mode: number,
  ): number;
  /**
   * Resolve a shared::cluster or shared::cta address: the block whose window it names (the top byte is its rank) and the
   * arena offset of `size` bytes there. An address outside the windows, in a block that has exited or no multiple of `align`
   * is reported and ends the launch; null when its check is off and the access is to be left out.
   */
  window(by: Execution, address: number, size: number, align?: number): SharedPlace | null;
  /** Cancel the launch of a cluster that has not started: index of its first block, null when there is none to be had. */
  cancelCluster(): readonly [number, number, number] | null;
  /** Number from 0 to 1 of the launch's random sequence. */
  random(): number;
  /** What the iteration of a polling loop that is running has read. */
  readonly polls: Polls;
  /** State that others wait for has changed: what is blocked may go on. */
  touch(): void;
  /** Rises when nothing could move and bounded waits (try_wait) ran into their limit. */
  readonly expired: number;
  /** Text of a device printf. */
  print(text: string): void;
  countBarrier(): void;
  /** Note the bank conflicts of a shared access by all lanes of a sampled warp: `bytes` at each address, -1 for lanes left out. */
  countBanks(warp: Warp, instruction: Instruction, addresses: Int32Array, bytes: number): void;
  /** A phase of an mbarrier has completed. */
  countPhase(block: Block, at: number): void;
  countTraffic(space: "global" | "shared" | "tensor", read: number, written: number): void;
}

/** An instruction that lanes of a warp execute. */
export class Execution {
  readonly machine: Machine;
  readonly warp: Warp;
  readonly instruction: Instruction;

  constructor(machine: Machine, warp: Warp, instruction: Instruction) {
    this.machine = machine;
    this.warp = warp;
    this.instruction = instruction;
  }

  /** A finding about it. */
  report(rule: RuleId, message: () => string): void {
    this.machine.report(rule, this.instruction, this.warp, message);
  }

  /** See {@link Machine.window}. */
  window(address: number, size: number, align?: number): SharedPlace | null {
    return this.machine.window(this, address, size, align);
  }
}

/** A lane that executes an instruction. */
export class Issuer extends Execution {
  readonly lane: number;

  constructor({ machine, warp, instruction }: Execution, lane: number) {
    super(machine, warp, instruction);
    this.lane = lane;
  }

  /** The lane's word of an operand; `part` 1 is the high word of a 64-bit value. */
  value(operand: Operand, part?: 0 | 1): number {
    return this.machine.lane(this.warp, operand, this.lane, part);
  }

  /** Low word of an address operand, offset added. */
  address(operand: AddressOperand): number {
    return this.machine.address(this.warp, operand, this.lane);
  }
}

/** First word of a register's slot for a lane. */
export const registerWord = (warp: Warp, register: Register, lane: number, part: 0 | 1): number =>
  register.cls === "f64"
    ? warp.registers + register.slot * 32 + lane * 2 + part
    : warp.registers + (register.slot + part) * 32 + lane;

export const placeOf = (place: Warp | Place): Place =>
  place instanceof Warp ? { block: place.block.index, warp: place.id } : place;

/** Number of set bits. */
export function popcount(mask: number): number {
  let x = mask - ((mask >>> 1) & 0x55555555);
  x = (x & 0x33333333) + ((x >>> 2) & 0x33333333);
  return Math.imul((x + (x >>> 4)) & 0x0f0f0f0f, 0x01010101) >>> 24;
}

export const hex = (value: number): string => `0x${(value >>> 0).toString(16)}`;

/** What an engine keeps for the cluster of a block, by its own name; made when first asked for. */
export const engineOf = <T extends {}>({ cluster }: Block, name: string, make: () => T): T =>
  entryOf(cluster.engines as Map<string, T>, name, make);
