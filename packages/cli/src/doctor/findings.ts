/** What `doctor` looks for, one function a part of the machine; each says what to do where something is missing. */
import { type Diagnostic, targets } from "@tilewright/core";
import { type CudaReport, describeCuda, openKoffiCublasLt, openKoffiNvml } from "@tilewright/runtime";
import { backends } from "../backends.ts";
import type { Context } from "../context.ts";
import { formatBytes } from "../output/format.ts";
import { getNvdisasm, nvdisasmVersion } from "../tools/nvdisasm.ts";
import { getPtxas, ptxasVersion } from "../tools/ptxas.ts";
import { findSanitizer, getSanitizer } from "../tools/sanitizer.ts";
import { version } from "../version.ts";

/** `ok`; `optional`: missing, and everything but what it is for works; `bad`: must be mended. */
export type Status = "ok" | "optional" | "bad";

export interface Finding {
  readonly what: string;
  readonly status: Status;
  readonly found: string;
  /** What to do, where something is missing. */
  readonly hint?: string;
}

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

const sentence = ({ message, hint }: Diagnostic): string =>
  hint === undefined ? message : `${message}; ${hint}`;

function cudaFindings(cuda: CudaReport): readonly Finding[] {
  const gpus = cuda.devices.map(
    (device, index) =>
      `${index}: ${device.name} (${device.arch}, ${device.numSms} SMs, ${formatBytes(device.memoryBytes)})`,
  );
  return [
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
          hint: [...cuda.problems.map(sentence), ...cuda.missed.map((line) => `tried ${line}`)].join(
            "\n    ",
          ),
        }
      : { what: "CUDA driver", status: "ok", found: `CUDA ${cuda.driver} (${cuda.library})` },
    gpus.length === 0
      ? {
          what: "GPU",
          status: "optional",
          found: "none: kernels run on the emulator",
          hint:
            cuda.driver === null
              ? "it needs the CUDA driver above"
              : cuda.problems.map(sentence).join("\n    "),
        }
      : { what: "GPU", status: "ok", found: gpus.join("; ") },
  ];
}

async function nvmlFinding(): Promise<Finding> {
  const what = "NVML";
  const hint =
    "it comes with the driver; without it bench measures, and leaves clocks, power and temperature out";
  const missing = (found: string): Finding => ({ what, status: "optional", found, hint });
  const opened = await openKoffiNvml();
  if (!opened.ok) return missing(opened.error.map(({ message }) => message).join("; "));
  const nvml = opened.value;
  const started = nvml.init();
  if (!started.ok) return missing(`${nvml.library} does not start: ${nvml.errorString(started.error)}`);
  const driver = nvml.driverVersion();
  nvml.shutdown();
  return { what, status: "ok", found: `driver ${driver.ok ? driver.value : "unknown"} (${nvml.library})` };
}

async function cublasFinding(context: Context): Promise<Finding> {
  const what = "cuBLASLt";
  const opened = await openKoffiCublasLt({ env: context.env });
  if (!opened.ok)
    return {
      what,
      status: "optional",
      found: opened.error.map(({ message }) => message).join("; "),
      hint: [
        ...opened.error.flatMap(({ hint }) => hint ?? []),
        "without it bench measures without its first peer",
      ].join("; "),
    };
  // 130100 is 13.1.0.
  const number = opened.value.version();
  const found = `${Math.floor(number / 10_000)}.${Math.floor(number / 100) % 100}.${number % 100}`;
  return { what, status: "ok", found: `${found} (${opened.value.library})` };
}

async function toolFindings(context: Context): Promise<readonly Finding[]> {
  const [ptxas, nvdisasm, sanitizer] = await Promise.all([
    ptxasVersion(context),
    nvdisasmVersion(context),
    findSanitizer(context),
  ]);
  return [
    ptxas === null
      ? {
          what: "ptxas",
          status: "optional",
          found: "not found: --emit cubin is not available",
          hint: getPtxas,
        }
      : { what: "ptxas", status: "ok", found: ptxas },
    nvdisasm === null
      ? {
          what: "nvdisasm",
          status: "optional",
          found: "not found: the explorer shows no SASS",
          hint: getNvdisasm,
        }
      : { what: "nvdisasm", status: "ok", found: nvdisasm },
    sanitizer === null
      ? { what: "compute-sanitizer", status: "optional", found: "not found", hint: getSanitizer }
      : { what: "compute-sanitizer", status: "ok", found: `${sanitizer.version} (${sanitizer.program})` },
  ];
}

/** Everything, and the report on CUDA that it rests on. */
export async function examine(
  context: Context,
): Promise<{ readonly findings: readonly Finding[]; readonly cuda: CudaReport }> {
  const [cuda, nvml, cublas, tools] = await Promise.all([
    describeCuda(),
    nvmlFinding(),
    cublasFinding(context),
    toolFindings(context),
  ]);
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
    ...cudaFindings(cuda),
    nvml,
    cublas,
    ...tools,
  ];
  return { findings, cuda };
}
