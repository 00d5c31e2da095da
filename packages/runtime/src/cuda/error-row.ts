/** One CUDA error for people: what the row says, and the kinds of rows there are. */
import type { RuntimeCode } from "../diagnostics.ts";
import { useEmulator } from "../diagnostics.ts";

export interface CudaErrorRow {
  readonly name: string;
  readonly meaning: string;
  /** What to do next. */
  readonly next: string;
  /** The diagnostic that it becomes. */
  readonly as: RuntimeCode;
  /** True where the context is unusable afterwards: every later call in this process gives the same error. */
  readonly sticky: boolean;
}

export const driverRow = (name: string, meaning: string, next: string): CudaErrorRow => ({
  name,
  meaning,
  next: `${next}; or ${useEmulator}`,
  as: "driverStart",
  sticky: false,
});
export const callRow = (name: string, meaning: string, next: string): CudaErrorRow => ({
  name,
  meaning,
  next,
  as: "call",
  sticky: false,
});
/** A fault of the kernel; the emulator shows the instruction, which the driver does not. */
export const faultRow = (name: string, meaning: string, next: string): CudaErrorRow => ({
  name,
  meaning,
  next: `${next}; this process has lost the GPU, start a new one`,
  as: "fault",
  sticky: true,
});
export const jitRow = (name: string, meaning: string, next: string): CudaErrorRow => ({
  name,
  meaning,
  next,
  as: "jit",
  sticky: false,
});

export const seeEmulator = "find the instruction with --device emulator (all checks on)";
export const bug = "this is a bug of the runtime: report the command with the output of `tilewright doctor`";
