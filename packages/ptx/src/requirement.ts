/** Does a module's `.version` and `.target` have what an instruction needs? */
import type { PtxVersion } from "@tilewright/core";
import { closest } from "./distance.ts";
import type { Requirement } from "./table/row.ts";

export interface PtxTarget {
  /** `sm_90a` is 90. */
  readonly sm: number;
  /** `a`: this architecture only; `f`: its family; "": all later ones too. */
  readonly suffix: "" | "a" | "f";
  readonly name: string;
}

/** All architectures of `.target`, and the PTX version that brought each (PTX ISA 9.0, chapter 11.1.2, and what ptxas 13.0 takes). */
const architectures: Readonly<Record<string, PtxVersion>> = {
  ...{ sm_10: [1, 0], sm_11: [1, 0], sm_12: [1, 2], sm_13: [1, 2], sm_20: [2, 0] },
  ...{ sm_30: [3, 0], sm_32: [4, 0], sm_35: [3, 1], sm_37: [4, 1] },
  ...{ sm_50: [4, 0], sm_52: [4, 1], sm_53: [4, 2], sm_60: [5, 0], sm_61: [5, 0], sm_62: [5, 0] },
  ...{
    sm_70: [6, 0],
    sm_72: [6, 1],
    sm_75: [6, 3],
    sm_80: [7, 0],
    sm_86: [7, 1],
    sm_87: [7, 4],
    sm_88: [7, 8],
  },
  ...{ sm_89: [7, 8], sm_90: [7, 8], sm_90a: [8, 0] },
  ...{ sm_100: [8, 6], sm_100a: [8, 6], sm_100f: [8, 8], sm_101: [8, 6], sm_101a: [8, 6], sm_101f: [8, 8] },
  ...{ sm_103: [8, 8], sm_103a: [8, 8], sm_103f: [8, 8], sm_110: [9, 0], sm_110a: [9, 0], sm_110f: [9, 0] },
  ...{ sm_120: [8, 7], sm_120a: [8, 7], sm_120f: [8, 8], sm_121: [8, 8], sm_121a: [8, 8], sm_121f: [8, 8] },
};

/** The PTX version that a target needs; null for what is no target. */
export const versionOfTarget = (name: string): PtxVersion | null =>
  Object.hasOwn(architectures, name) ? (architectures[name] ?? null) : null;

/** What to say of a `.target` that is none. */
export function noTarget(name: string): { readonly message: string; readonly hint: string } {
  const near = closest(name, Object.keys(architectures));
  const like = "a target is sm_70, sm_80, sm_90a, sm_100a and the like";
  return { message: `no target ${name}`, hint: near === null ? like : `did you mean ${near}?` };
}

/** `sm_90a` in parts; null for what is no target. */
export function parseTarget(name: string): PtxTarget | null {
  const match = /^sm_(\d+)([af]?)$/.exec(name);
  if (!match || versionOfTarget(name) === null) return null;
  const suffix = match[2] === "a" ? "a" : match[2] === "f" ? "f" : "";
  return { sm: Number(match[1]), suffix, name };
}

/** Why a requirement is not met, or null. `what` names the instruction or modifier. */
export function unmet(
  what: string,
  requirement: Requirement,
  version: PtxVersion,
  target: PtxTarget,
): { readonly code: "TW4010" | "TW4011"; readonly message: string; readonly hint: string } | null {
  const [major, minor, sm] = requirement.since;
  if (requirement.only) {
    if (!requirement.only.includes(target.name)) {
      return {
        code: "TW4011",
        message: `${what} is not in .target ${target.name}`,
        hint: `it is in ${requirement.only.join(", ")}`,
      };
    }
  } else if (target.sm < sm) {
    return {
      code: "TW4011",
      message: `${what} needs sm_${sm}, the module has .target ${target.name}`,
      hint: `use .target sm_${sm} or later`,
    };
  }
  if (version[0] < major || (version[0] === major && version[1] < minor)) {
    return {
      code: "TW4010",
      message: `${what} needs PTX ${major}.${minor}, the module has .version ${version[0]}.${version[1]}`,
      hint: `use .version ${major}.${minor} or later`,
    };
  }
  return null;
}
