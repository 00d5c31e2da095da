/** What `bench` touches of the machine, so that its tests run on fakes. */
import { spawn } from "node:child_process";
import { type Checked, type Diagnostic, ok } from "@tilewright/core";
import {
  type Bench,
  type CublasLt,
  type FindOptions,
  openBench,
  openIsolatedBench,
  openKoffiCublasLt,
} from "@tilewright/runtime";
import { codes, failWith } from "../codes.ts";
import type { Session } from "../kit/command.ts";

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

export interface OpenBench {
  /** Which GPU. */
  readonly index: number;
  /** Path of libcublasLt; null without cuBLAS. */
  readonly cublas: string | null;
  /** In a process of its own. */
  readonly isolation: boolean;
  /** Seconds after which a job's process is given up. */
  readonly timeout: number;
}

export interface BenchPorts {
  /** A GPU that measures. */
  open(options: OpenBench): Promise<Checked<Bench>>;
  cublas(options: FindOptions): Promise<Checked<CublasLt>>;
  /** A peer's program. */
  program(command: string, input: string, timeoutMs: number): Promise<Ended>;
  today(): Date;
}

export const systemPorts: BenchPorts = {
  open: ({ index, cublas, isolation, timeout }) =>
    isolation ? openIsolatedBench({ index, cublas, timeout }) : openBench({ index, cublas }),
  cublas: (options) => openKoffiCublasLt(options),
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

export interface Peers {
  /** Path of libcublasLt; null without cuBLAS. */
  readonly cublas: string | null;
  readonly commands: readonly string[];
}

/** The peers asked for. cuBLAS that nobody asked for and that is not there is a note. */
export async function peersOf(
  session: Session,
  args: { readonly vs?: readonly string[] | undefined; readonly cublaslt?: string | undefined },
  ports: Pick<BenchPorts, "cublas">,
): Promise<Checked<Peers>> {
  const names = args.vs ?? ["cublas"];
  const commands = names.filter((name) => name !== "cublas" && name !== "none");
  if (names.includes("none") && names.length > 1)
    return failWith(codes.conflict, "--vs", "none stands alone", { hint: "leave it out" });
  if (!names.includes("cublas")) return ok({ cublas: null, commands });
  const found = await ports.cublas({ library: args.cublaslt, env: session.context.env });
  if (found.ok) return ok({ cublas: found.value.library, commands });
  if (args.vs !== undefined || args.cublaslt !== undefined) return found;
  session.note(`without cuBLAS: ${found.error.map((one) => one.message).join("; ")}`);
  return ok({ cublas: null, commands });
}

/** The runtime's hints name the emulator as the way on, and there is no speed to be had there. */
export const withoutEmulator = (problem: Diagnostic): Diagnostic => {
  const { hint = "", ...rest } = problem;
  const kept = hint.split("; ").filter((part) => !part.includes("--device emulator"));
  return { ...rest, hint: [...kept, "tilewright plan estimates without a GPU"].join("; ") };
};
