/** The machine of each GPU: its data file's datasheet and constants as the model takes them. */
import {
  type Gpu,
  type GpuData,
  gpuFor,
  gpus,
  hasFeature,
  type ModelConstant,
  type Target,
} from "@tilewright/core";
import { type Engine, engines, type Machine } from "./machine.ts";

/** A constant with the GPU whose data file states it. */
export interface UsedConstant extends ModelConstant {
  readonly name: string;
  readonly gpu: string;
}

const dataOf = (name: string): GpuData => {
  const found = gpus.find((gpu) => gpu.name === name);
  if (found === undefined) throw new RangeError(`no data of a GPU ${name}`);
  return found;
};

/** Rates of instructions, and clusters that fit, are a chip's own: a GPU has the engines whose rates its file states. */
const isOwn = (name: string): boolean => /Flops$|^clusters\d/.test(name);

/** The constants that the model uses for a GPU, its own before those of the GPU that it is like. */
export function constantsOf(name: string): readonly UsedConstant[] {
  const { model } = dataOf(name);
  const own = Object.entries(model.constants).map(([key, constant]) => ({
    ...constant,
    name: key,
    gpu: name,
  }));
  if (model.like === null) return own;
  const stated = new Set(own.map((constant) => constant.name));
  return [...own, ...constantsOf(model.like).filter((c) => !stated.has(c.name) && !isOwn(c.name))];
}

function machineFrom({ name, sms, boostMHz, memoryGBs, l2Bytes }: GpuData): Machine {
  const values = new Map(constantsOf(name).map((constant) => [constant.name, constant.value]));
  const of = (key: string): number => {
    const value = values.get(key);
    if (typeof value !== "number") throw new RangeError(`the data of ${name} has no ${key}`);
    return value;
  };
  const byEngine = (suffix: string): Partial<Record<Engine, number>> =>
    Object.fromEntries(
      engines.flatMap((engine) => {
        const value = values.get(`${engine}${suffix}`);
        return typeof value === "number" ? [[engine, value]] : [];
      }),
    );
  const counted = (prefix: string): readonly (readonly [of: number, count: number])[] =>
    [...values].flatMap(([key, value]) => {
      const digits = key.startsWith(prefix) ? key.slice(prefix.length) : "";
      return /^\d+$/.test(digits) && value !== null ? [[Number(digits), value] as const] : [];
    });
  return {
    gpu: name,
    sms,
    boostGHz: boostMHz / 1000,
    flopsPerCycle: byEngine("Flops"),
    sustained: byEngine("Sustained"),
    sharedBytes: of("sharedBytes"),
    intakeBytes: of("intakeBytes"),
    distinctBytes: of("distinctBytes"),
    unalignedRows: of("unalignedRows"),
    storeBytes: of("storeBytes"),
    copyRequests: of("copyRequests"),
    tensorMemoryBytes: of("tensorMemoryBytes"),
    loadNs: of("loadNs"),
    handOverNs: of("handOverNs"),
    barrierNs: of("barrierNs"),
    chunkNs: of("chunkNs"),
    loneNs: of("loneNs"),
    togetherNs: of("togetherNs"),
    besideNs: of("besideNs"),
    l2Rate: of("l2Rate"),
    clusterNs: of("clusterNs"),
    launchNs: of("launchNs"),
    fillNs: of("fillNs"),
    startNs: of("startNs"),
    nextNs: of("nextNs"),
    fetchNs: of("fetchNs"),
    memoryGBs,
    memoryShare: of("memoryShare"),
    l2Bytes,
    clusters: Object.fromEntries(counted("clusters")),
    gpcs: counted("gpcs").map(([of, count]) => ({ sms: of, count })),
    powerCap: values.get("powerCap") ?? null,
    powerRestUs: of("powerRestUs"),
    idleWatts: of("idleWatts"),
    energy: {
      flop: byEngine("Picojoules"),
      sharedByte: of("sharedPicojoules"),
      l2Byte: of("l2Picojoules"),
      memoryByte: of("memoryPicojoules"),
    },
  };
}

/** Every machine of the model, oldest first. */
export const machines: readonly Machine[] = gpus.map(machineFrom);

/** The machine of a GPU; a RangeError (a bug) for one that is not in the table. */
export function machineOf({ name }: Pick<Gpu, "name">): Machine {
  const found = machines.find((machine) => machine.gpu === name);
  if (found === undefined) throw new RangeError(`no machine of a GPU ${name}`);
  return found;
}

/** The GPU of the target's own tensor memory, or its kin's; of other targets the one on which the backends were measured, whatever text they ran there. */
const MEASURED = "H200";
const KIN = "B200";

/** The machine that schedules are ranked for where no GPU is named. */
export function usualMachine(target: Target): Machine {
  if (!hasFeature(target, "tcgen05")) return machineOf({ name: MEASURED });
  const own = gpuFor(target.arch);
  const machine = own === null ? null : machineOf(own);
  return machine === null || machine.tensorMemoryBytes === 0 ? machineOf({ name: KIN }) : machine;
}
