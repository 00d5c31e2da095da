/** The runtime's diagnostics: one row per code. TW6xxx, each for one meaning. */
import type { Diagnostic, DiagnosticKind } from "@tilewright/core";

interface Row {
  readonly code: `TW6${string}`;
  readonly kind: DiagnosticKind;
  /** Shown when a call gives no hint of its own. */
  readonly hint?: string;
}

/** Every way on from "no usable GPU" is this one. */
export const useEmulator = "run it on the emulator: --device emulator";

export const rows = {
  bindingMissing: { code: "TW6001", kind: "toolchain", hint: `npm install koffi; or ${useEmulator}` },
  libraryMissing: {
    code: "TW6002",
    kind: "toolchain",
    hint: `install NVIDIA's driver (520 or newer); or ${useEmulator}`,
  },
  functionMissing: {
    code: "TW6003",
    kind: "toolchain",
    hint: `update NVIDIA's driver to 520 or newer; or ${useEmulator}`,
  },
  driverStart: { code: "TW6004", kind: "toolchain", hint: useEmulator },
  noDevice: {
    code: "TW6005",
    kind: "toolchain",
    hint: `check nvidia-smi and CUDA_VISIBLE_DEVICES; or ${useEmulator}`,
  },
  indexRange: { code: "TW6006", kind: "invalid" },
  driverTooOld: { code: "TW6007", kind: "toolchain" },
  deviceUnfit: { code: "TW6008", kind: "unsupported" },
  archText: { code: "TW6009", kind: "invalid", hint: "an architecture is written sm_70, sm_90a or sm_100f" },
  jit: { code: "TW6010", kind: "toolchain" },
  image: { code: "TW6011", kind: "invalid" },
  entry: { code: "TW6012", kind: "invalid" },
  memory: { code: "TW6013", kind: "toolchain" },
  shape: { code: "TW6014", kind: "invalid" },
  args: { code: "TW6015", kind: "invalid" },
  call: { code: "TW6016", kind: "toolchain" },
  fault: { code: "TW6017", kind: "check" },
  buffer: { code: "TW6018", kind: "invalid" },
  closed: { code: "TW6019", kind: "invalid" },
  lost: { code: "TW6020", kind: "toolchain" },
  operand: { code: "TW6021", kind: "invalid" },
  parameter: { code: "TW6022", kind: "unsupported" },
  tensorMap: { code: "TW6023", kind: "invalid" },
  hang: { code: "TW6024", kind: "check" },
  crash: { code: "TW6025", kind: "check" },
  worker: { code: "TW6026", kind: "toolchain" },
  pipe: { code: "TW6027", kind: "unsupported" },
  noKernel: { code: "TW6028", kind: "unsupported" },
} as const satisfies Record<string, Row>;

export type RuntimeCode = keyof typeof rows;

/** A diagnostic of the row `what`; `hint` replaces the row's own. */
export function diagnose(what: RuntimeCode, at: string, message: string, hint?: string): Diagnostic {
  const row: Row = rows[what];
  const says = hint ?? row.hint;
  return { code: row.code, kind: row.kind, at, message, ...(says === undefined ? {} : { hint: says }) };
}

/** A failed `Checked` of one diagnostic. */
export function fail(what: RuntimeCode, at: string, message: string, hint?: string) {
  return { ok: false, error: [diagnose(what, at, message, hint)] } as const;
}
