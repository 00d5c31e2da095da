/** `tilewright targets`: architectures with their limits, what serves them, and named GPUs. */
import { gpus, targets } from "@tilewright/core";
import { z } from "zod";
import { backends } from "../backends.ts";
import { defineCommand, type Session } from "../kit/command.ts";
import { exitCodes } from "../kit/exit.ts";
import { toggle } from "../kit/flags.ts";
import { type Column, renderTable } from "../output/table.ts";

const right = (head: string): Column => ({ head, align: "right" });

function archTable(session: Session): string {
  const columns = [
    { head: "arch" },
    { head: "generation" },
    { head: "runs on" },
    right("PTX"),
    right("threads"),
    right("regs/SM"),
    right("smem/block"),
    right("smem/SM"),
    right("cluster"),
    { head: "backends" },
  ];
  const runsOn = { portable: "and later", family: "family", arch: "this only" } as const;
  const rows = targets.map(({ arch, generation, portability, minPtx, limits }, i) => [
    arch,
    generation,
    runsOn[portability],
    minPtx.join("."),
    String(limits.maxThreadsPerBlock),
    String(limits.registersPerSm),
    String(limits.maxSmemPerBlock),
    String(limits.smemPerSm),
    String(limits.maxClusterSize),
    supporters(i).join(" ") || "none yet",
  ]);
  return renderTable(columns, rows, session.paint);
}

/** Names of the backends that support a row of the target table. */
function supporters(index: number): readonly string[] {
  const target = targets[index];
  return target === undefined
    ? []
    : backends.filter((backend) => backend.supports(target).ok).map(({ id }) => id);
}

function gpuTable(session: Session): string {
  const dtypes = [...new Set(gpus.flatMap((gpu) => Object.keys(gpu.peakTflops)))];
  const columns = [
    { head: "GPU" },
    { head: "arch" },
    right("SMs"),
    right("MHz"),
    right("GB/s"),
    ...dtypes.map(right),
  ];
  const rows = gpus.map((gpu) => [
    gpu.name,
    gpu.arch,
    String(gpu.sms),
    String(gpu.boostMHz),
    String(gpu.memoryGBs),
    ...dtypes.map((dtype) => String(gpu.peakTflops[dtype] ?? "-")),
  ]);
  return `${renderTable(columns, rows, session.paint)}Peaks are dense TFLOP/s (TOP/s for integers) by dtype of A and B.\n`;
}

export const targetsCommand = defineCommand({
  name: "targets",
  args: z.strictObject({ gpus: toggle("named GPUs with their peaks, as the planner knows them") }),
  run(session, args) {
    const rows = targets.map((target, i) => ({ ...target, backends: supporters(i) }));
    session.result({ targets: rows, gpus }, () => (args.gpus ? gpuTable(session) : archTable(session)));
    return exitCodes.ok;
  },
});
