/** Does a module's `.version` and `.target` have what an instruction needs? */
import type { PtxVersion } from "@tilewright/ir";
import type { Requirement } from "./table/row.ts";

export interface PtxTarget {
  /** `sm_90a` is 90. */
  readonly sm: number;
  /** `a`: this architecture only; `f`: its family; "": all later ones too. */
  readonly suffix: "" | "a" | "f";
  readonly name: string;
}

/** `sm_90a` in parts; null for anything else. */
export function parseTarget(name: string): PtxTarget | null {
  const match = /^sm_(\d+)([af]?)$/.exec(name);
  if (!match) return null;
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
