/**
 * Public surface of `tilewright`: a product in one call, the compiler with all backends, and the command line as a function.
 * `main` takes its whole outside as a `Context`, so it can be embedded and tested without a process.
 */
/** Numbers to the memory of an element type (`pack("bf16", numbers)`), and back. */
export { decodeArray as unpack, encodeArray as pack } from "@tilewright/core";
export type { Numbers } from "./api/data.ts";
export { type GemmCall, type GemmOutcome, gemm } from "./api/gemm.ts";
export { backends } from "./backends.ts";
export { compiler } from "./compiler.ts";
export type { Context, Sink } from "./context.ts";
// What describes a kernel and judges a run, for programs that show them.
export { Launcher } from "./emulation/launches.ts";
export { archOf, checkLaunch } from "./emulation/prepare.ts";
export { exitCodes } from "./kit/exit.ts";
export { attentionLadder, programLadder } from "./ladder/program.ts";
export { type ArrayLoader, npyArray } from "./launch/arrays.ts";
export { loadBackend } from "./loadBackend.ts";
export { main } from "./main.ts";
export { type BankMap, type BankPicture, bankMaps, bankPicture } from "./plan/bankMaps.ts";
export { type Plan, planOf } from "./plan/plan.ts";
export { lossOf, programKernels } from "./plan/runnersUp.ts";
export { type Check, checkResult } from "./run/check.ts";
export { type Inputs, randomInputs } from "./run/inputs.ts";
export { version } from "./version.ts";
