/** `tilewright doctor`: what this machine has, what is missing, and what to do about it. */
import { formatDiagnostic, targets } from "@tilewright/ir";
import { describeCuda } from "@tilewright/runtime";
import { z } from "zod";
import { backends } from "../backends.ts";
import { defineCommand, type Session } from "../kit/command.ts";
import { exitCodes } from "../kit/exit.ts";
import type { Style } from "../output/colour.ts";
import { formatBytes } from "../output/format.ts";
import { renderTable } from "../output/table.ts";
import { getPtxas, ptxasVersion } from "../tools/ptxas.ts";
import { version } from "../version.ts";

/** `ok`; `optional`: missing, and everything but what it is for works; `bad`: must be mended. */
type Status = "ok" | "optional" | "bad";

interface Finding {
  readonly what: string;
  readonly status: Status;
  readonly found: string;
  /** What to do, where something is missing. */
  readonly hint?: string;
}

const styles: Record<Status, Style> = { ok: "green", optional: "yellow", bad: "red" };

/** Oldest Node that the packages run on (engines in package.json). */
const oldestNode = [20, 19] as const;

function nodeFinding(): Finding {
  const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
  const fine = major > oldestNode[0] || (major === oldestNode[0] && minor >= oldestNode[1]);
  const found = `${process.versions.node} on ${process.platform} ${process.arch}`;
  return fine
    ? { what: "Node", status: "ok", found }
    : { what: "Node", status: "bad", found, hint: `install Node ${oldestNode.join(".")} or newer` };
}

async function examine(
  session: Session,
): Promise<{ findings: Finding[]; cuda: Awaited<ReturnType<typeof describeCuda>> }> {
  const [ptxas, cuda] = await Promise.all([ptxasVersion(session.context), describeCuda()]);
  const gpus = cuda.devices.map(
    (device) => `${device.name} (${device.arch}, ${device.numSms} SMs, ${formatBytes(device.memoryBytes)})`,
  );
  const why = cuda.problems.map(
    (problem) => `${problem.message}${problem.hint === undefined ? "" : `; ${problem.hint}`}`,
  );
  const findings: Finding[] = [
    { what: "tilewright", status: "ok", found: version },
    nodeFinding(),
    {
      what: "backends",
      status: "ok",
      found: backends.map((backend) => `${backend.id} (${backend.summary})`).join("; "),
    },
    { what: "targets", status: "ok", found: targets.map((target) => target.arch).join(" ") },
    { what: "emulator", status: "ok", found: "runs every target" },
    cuda.koffi === null
      ? {
          what: "koffi",
          status: "optional",
          found: "not installed",
          hint: "npm install koffi, to reach a GPU's driver",
        }
      : { what: "koffi", status: "ok", found: cuda.koffi },
    cuda.driver === null
      ? {
          what: "CUDA driver",
          status: "optional",
          found: cuda.library === null ? "none" : `${cuda.library}, which does not start`,
          hint: [...why, ...cuda.missed.map((line) => `tried ${line}`)].join("\n    "),
        }
      : { what: "CUDA driver", status: "ok", found: `CUDA ${cuda.driver} (${cuda.library})` },
    gpus.length === 0
      ? { what: "GPU", status: "optional", found: "none: kernels run on the emulator" }
      : { what: "GPU", status: "ok", found: gpus.join("; ") },
    ptxas === null
      ? {
          what: "ptxas",
          status: "optional",
          found: "not found: --emit cubin is not available",
          hint: getPtxas,
        }
      : { what: "ptxas", status: "ok", found: ptxas },
  ];
  return { findings, cuda };
}

function render(session: Session, findings: readonly Finding[]): string {
  const rows = findings.map(({ what, status, found }) => [
    what,
    { text: status, style: styles[status] },
    found,
  ]);
  const hints = findings
    .filter(({ hint }) => hint !== undefined)
    .map(({ what, hint }) => `  ${what}: ${hint}`);
  const table = renderTable([{ head: "part" }, { head: "status" }, { head: "found" }], rows, session.paint);
  const todo = hints.length === 0 ? "" : `\nWhat to do, if you want what is missing:\n${hints.join("\n")}\n`;
  return `${table}${todo}\nNext: tilewright run --arch sm_70 -m 300 -n 200 -k 77\n`;
}

export const doctor = defineCommand({
  name: "doctor",
  summary: "what this machine has: Node, ptxas, CUDA driver, GPUs, backends",
  about: `Nothing but Node is needed: without a GPU kernels run on the emulator, without ptxas the driver compiles PTX.
Ends with exit code 4 only if something that everything needs is too old.`,
  args: z.strictObject({}),
  examples: [{ what: "what is here, what is missing, and what to do", line: "doctor" }],
  async run(session) {
    const { findings, cuda } = await examine(session);
    const ready = findings.every(({ status }) => status !== "bad");
    session.result(
      { ok: ready, findings, cuda: { ...cuda, problems: cuda.problems.map(formatDiagnostic) } },
      () => render(session, findings),
    );
    return ready ? exitCodes.ok : exitCodes.toolchain;
  },
});
