/** Architectures and compute capabilities: which device runs which text. */

/** Compute capability of a device, e.g. [9, 0]. */
export type ComputeCapability = readonly [major: number, minor: number];

export interface Arch {
  readonly cc: ComputeCapability;
  /** `sm_90`: 9.0 and every later device. `sm_100f`: this family. `sm_90a`: this device only. */
  readonly portability: "portable" | "family" | "arch";
}

const suffixes = { "": "portable", f: "family", a: "arch" } as const;

/** `sm_100a` → 10.0, arch-specific. The last digit is the minor version. Null when the text is no architecture. */
export function parseArch(text: string): Arch | null {
  const match = /^sm_(\d{1,2})(\d)([af]?)$/.exec(text);
  if (match === null) return null;
  const suffix = (match[3] ?? "") as keyof typeof suffixes;
  return { cc: [Number(match[1]), Number(match[2])], portability: suffixes[suffix] };
}

/** `sm_90` for [9, 0]. */
export const archOf = (cc: ComputeCapability): string => `sm_${cc[0]}${cc[1]}`;

/**
 * Whether a device of capability `device` runs text made for `target`; null when it does, else the reason.
 * Source: PTX ISA, `.target`: plain targets run on any later device, `a` on exactly its own, `f` within its major version from its minor up.
 */
export function unfitReason(target: Arch, device: ComputeCapability): string | null {
  const [major, minor] = device;
  const [needMajor, needMinor] = target.cc;
  const need = `${needMajor}.${needMinor}`;
  const have = `${major}.${minor}`;
  switch (target.portability) {
    case "portable":
      if (major > needMajor || (major === needMajor && minor >= needMinor)) return null;
      return `it has compute capability ${have} and the text needs ${need} or newer`;
    case "family":
      if (major === needMajor && minor >= needMinor) return null;
      return `it has compute capability ${have} and the text needs ${need} or a newer ${needMajor}.x`;
    case "arch":
      if (major === needMajor && minor === needMinor) return null;
      return `it has compute capability ${have} and architecture-specific text needs exactly ${need}`;
  }
}
