/**
 * Peers by command: any program that multiplies. It gets one JSON object on standard input,
 * `{"version": 1, "problems": [...], "regime": "idle", "inputs": "normal", "seed": 1, "seconds": 1}`
 * (of experts with `"rows"`, those of each, of attention with `"attention"`, its sizes and masks), and prints one JSON line for each problem that it can do:
 * `{"m": 512, "n": 512, "k": 512, "name": "cutlass", "us": [microseconds of each sample]}`. It runs after our own measurement, in a process of its own:
 * its ratios are unpaired, and say so.
 */
import { type Checked, diagnosticsOfIssues, err, ok, type Problem } from "@tilewright/core";
import type { Attention } from "@tilewright/ir";
import { type Estimate, medianEstimate, type Regime, type Summary, summarise } from "@tilewright/runtime";
import { z } from "zod";
import { codes, failWith } from "../codes.ts";
import type { BenchPorts } from "./ports.ts";

const lineSchema = z.strictObject({
  m: z.int(),
  n: z.int(),
  k: z.int(),
  name: z.string().optional(),
  us: z.array(z.number().positive()).min(1),
  detail: z.string().optional(),
});

export interface CommandTime {
  readonly name: string;
  readonly detail: string;
  readonly us: Summary;
  readonly spread: Estimate;
}

export interface CommandWish {
  readonly regime: Regime;
  readonly inputs: string;
  readonly seed: number;
  readonly seconds: number;
  /** Rows of each expert, of a mixture of them. */
  readonly rows?: readonly number[];
  readonly attention?: Attention;
}

/** Ask a program for its time on one problem; null when it has none. Errors: TW7071. */
export async function askProgram(
  command: string,
  problem: Problem,
  wish: CommandWish,
  ports: BenchPorts,
  timeoutMs: number,
): Promise<Checked<CommandTime | null>> {
  const input = JSON.stringify({ version: 1, problems: [problem], ...wish });
  const ended = await ports.program(command, `${input}\n`, timeoutMs);
  const failure = (message: string) =>
    failWith(codes.peerFailed, `--vs ${command}`, message, {
      hint: "it reads one JSON object and prints one JSON line a problem; tilewright bench --help",
    });
  if (ended.kind === "failed") return failure(`the peer does not start: ${ended.reason}`);
  if (ended.kind === "hung") return failure(`the peer did not end within ${timeoutMs / 1000} s`);
  if (ended.code !== 0) {
    const last = ended.stderr.trim().split("\n").at(-1) ?? "";
    return failure(
      `the peer ended with ${ended.signal ?? `exit code ${ended.code}`}${last === "" ? "" : `: ${last}`}`,
    );
  }
  for (const line of ended.stdout.split("\n").filter((one) => one.trim() !== "")) {
    let value: unknown;
    try {
      value = JSON.parse(line);
    } catch {
      return failure(`the peer printed a line that is not JSON: ${line.slice(0, 80)}`);
    }
    const parsed = lineSchema.safeParse(value);
    if (!parsed.success)
      return err(
        diagnosticsOfIssues(parsed.error.issues, value, codes.peerFailed.code, `--vs ${command}`).map(
          (one) => ({ ...one, kind: codes.peerFailed.kind }),
        ),
      );
    const { m, n, k, us, name = command, detail = "" } = parsed.data;
    if (m === problem.m && n === problem.n && k === problem.k)
      return ok({ name, detail, us: summarise(us), spread: medianEstimate(us) });
  }
  return ok(null);
}
