import { formatDiagnostic } from "@tilewright/core";
import { describe, expect, test } from "vitest";
import { checkModule, type PtxModule, parseModule, printModule } from "../src/index.ts";
import { assembling, corpus, neutral, refused } from "./support/corpus.ts";
import { assemble, hasPtxas, slow } from "./support/ptxas.ts";

function parsed(text: string, file: string): PtxModule {
  const result = parseModule(text, { file });
  if (!result.ok) throw new Error(result.error.map(formatDiagnostic).join("\n"));
  return result.value;
}

describe("what ptxas assembles", () => {
  test("the corpus is there", () => {
    expect(assembling.length).toBeGreaterThan(300);
    expect(corpus.length - assembling.length).toBe(refused.length);
  });

  test.each(assembling)("$name: parses, checks, prints and parses back to the same", ({ name, text }) => {
    const module = parsed(text, name);
    expect(checkModule(module).map(formatDiagnostic)).toEqual([]);
    const printed = printModule(module);
    const again = parsed(printed, `${name} (printed)`);
    expect(neutral(again)).toEqual(neutral(module));
    expect(printModule(again)).toBe(printed);
  });

  // All under TILEWRIGHT_SLOW=1; by default whatever nvcc made, whole kernels, and a sample of the single forms.
  const chosen = assembling.filter(
    ({ name }, i) =>
      slow ||
      name.startsWith("nvcc/") ||
      name.startsWith("golden/") ||
      /best_|skel_|tcgen05_/.test(name) ||
      i % 5 === 0,
  );
  test.skipIf(!hasPtxas).each(chosen)("$name: printed text gives the same cubin", async ({ name, text }) => {
    const module = parsed(text, name);
    // Debug data points into the PTX text, so both sides go without; the original's is taken out as text.
    const bare = text
      .replace(/^\s*\.loc\b.*$/gm, "")
      .replace(/^\s*\.file\b.*$/gm, "")
      .replace(/\.section\s+\.\w+\s*\{[^}]*\}/g, "")
      .replace(/^(\.target\s+\w+),\s*debug/m, "$1");
    const [a, b] = await Promise.all([assemble(bare), assemble(printModule(neutral(module, false)))]);
    expect([a.cubin === null ? a.log : "", b.cubin === null ? b.log : ""]).toEqual(["", ""]);
    expect(a.cubin !== null && b.cubin !== null && a.cubin.equals(b.cubin)).toBe(true);
  });
});

describe("what ptxas refuses is refused here, at the same line", () => {
  test.each(refused)("$file: $ptxas", ({ file, line, code }) => {
    const module = corpus.find((m) => m.name === `hand/${file}`);
    const result = parseModule(module?.text ?? "", { file });
    const diagnostics = result.ok ? checkModule(result.value) : result.error;
    expect(diagnostics.map((d) => d.code)).toContain(code);
    expect(diagnostics.map((d) => d.location?.line)).toContain(line);
  });
});
