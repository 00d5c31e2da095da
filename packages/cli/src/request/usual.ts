/** The architecture where nobody names one. */
import { findTarget, type Problem } from "@tilewright/core";
import type { Compiler } from "@tilewright/ir";

/** That of the first backend that serves the problem where it is best shown. */
export const usualArch =
  (compiler: Compiler) =>
  (problem: Problem): string | null => {
    const backend = compiler.backends.find(({ id, showcase }) => {
      const target = findTarget(showcase.arch);
      return target.ok && compiler.plan(problem, target.value, { backend: id }).ok;
    });
    return (backend ?? compiler.backends[0])?.showcase.arch ?? null;
  };
