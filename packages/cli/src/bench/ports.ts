/** What `bench` touches of the machine, so that its tests run on fakes. */
import { spawn } from "node:child_process";
import type { Checked } from "@tilewright/ir";
import {
  type BenchMachine,
  type CublasLt,
  type CudaDriver,
  type FindOptions,
  type Nvml,
  openKoffiCublasLt,
  openKoffiDriver,
  openKoffiNvml,
  pciBusId,
} from "@tilewright/runtime";

/** How a program ended that was given its input. */
export type Ended =
  | {
      readonly kind: "exited";
      readonly code: number | null;
      readonly signal: string | null;
      readonly stdout: string;
      readonly stderr: string;
    }
  /** It was killed after the time it was given. */
  | { readonly kind: "hung"; readonly stdout: string; readonly stderr: string }
  | { readonly kind: "failed"; readonly reason: string };

export interface BenchPorts {
  driver(): Promise<Checked<CudaDriver>>;
  nvml(): Promise<Checked<Nvml>>;
  cublas(options: FindOptions): Promise<Checked<CublasLt>>;
  busId(driver: CudaDriver, device: number): Promise<string | null>;
  /** This program in a process of its own. */
  self(argv: readonly string[], input: string, timeoutMs: number): Promise<Ended>;
  /** A peer's program. */
  program(command: string, input: string, timeoutMs: number): Promise<Ended>;
  today(): Date;
  /** For tests: the stream that is measured on. */
  readonly stream?: BenchMachine["stream"];
}

export const systemPorts: BenchPorts = {
  driver: () => openKoffiDriver(),
  nvml: () => openKoffiNvml(),
  cublas: (options) => openKoffiCublasLt(options),
  busId: (driver, device) => pciBusId(driver.library, device),
  self: (argv, input, timeoutMs) => {
    // The file that this process was started with: bin/, the bundle's one file, or the source.
    const [, entry = ""] = process.argv;
    return runProgram(process.execPath, [...process.execArgv, entry, ...argv], input, timeoutMs);
  },
  program: (command, input, timeoutMs) => runProgram("/bin/sh", ["-c", command], input, timeoutMs),
  today: () => new Date(),
};

/** Run a program to its end, or kill it with all that it started. */
export function runProgram(
  file: string,
  argv: readonly string[],
  input: string,
  timeoutMs: number,
): Promise<Ended> {
  return new Promise((resolve) => {
    // A group of its own, so that a shell's children end with it.
    const child = spawn(file, argv, { detached: true, stdio: ["pipe", "pipe", "pipe"] });
    const out = { stdout: "", stderr: "" };
    let hung = false;
    const timer = setTimeout(() => {
      hung = true;
      if (child.pid !== undefined) process.kill(-child.pid, "SIGKILL");
    }, timeoutMs);
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      out.stdout += text;
    });
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      out.stderr += text;
    });
    // A program that does not read its input closes the pipe; its exit code says whether that was right.
    child.stdin.on("error", () => {});
    child.stdin.end(input);
    child.on("error", (error) => {
      clearTimeout(timer);
      resolve({ kind: "failed", reason: error.message });
    });
    child.on("close", (code, signal) => {
      clearTimeout(timer);
      resolve(hung ? { kind: "hung", ...out } : { kind: "exited", code, signal, ...out });
    });
  });
}
