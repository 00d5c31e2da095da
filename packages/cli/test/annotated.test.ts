import { execFileSync, spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { defineProblem } from "@tilewright/core";
import { type Artifact, barePtx } from "@tilewright/ir";
import { describe, expect, test } from "vitest";
import { compiler } from "../src/compiler.ts";
import { cli } from "./harness.ts";
import { scratch } from "./scratch.ts";

const hasPtxas = spawnSync("ptxas", ["--version"]).status === 0;

/** One kernel of every backend; split ones have a second kernel, of which no statement is known. */
type Kernel = readonly [
  arch: "sm_70" | "sm_80" | "sm_90a" | "sm_100a",
  dtype: "f32" | "f16" | "bf16",
  sizes: { readonly m: number; readonly n: number; readonly k: number },
  schedule?: string,
];
const kernels: readonly Kernel[] = [
  ["sm_70", "f32", { m: 300, n: 200, k: 77 }],
  ["sm_80", "f16", { m: 128, n: 128, k: 4096 }, "split=4 reduction=kernel"],
  ["sm_90a", "bf16", { m: 512, n: 512, k: 512 }],
  ["sm_100a", "bf16", { m: 512, n: 512, k: 512 }],
] as const;

function made([arch, dtype, sizes, schedule]: Kernel): Artifact {
  const problem = defineProblem({ ...sizes, dtype });
  if (!problem.ok) throw new Error(JSON.stringify(problem.error));
  const artifact = compiler.compile({
    problem: problem.value,
    target: arch,
    ...(schedule === undefined ? {} : { schedule }),
  });
  if (!artifact.ok) throw new Error(JSON.stringify(artifact.error));
  return artifact.value;
}

/** Code and constants of an ELF file, by section. */
function codeOf(elf: Uint8Array): ReadonlyMap<string, string> {
  const view = new DataView(elf.buffer, elf.byteOffset, elf.byteLength);
  const [table, size] = [Number(view.getBigUint64(0x28, true)), view.getUint16(0x3a, true)];
  const at = (i: number, field: number) => Number(view.getBigUint64(table + i * size + field, true));
  const bytes = (i: number) => Buffer.from(elf.subarray(at(i, 0x18), at(i, 0x18) + at(i, 0x20)));
  const names = bytes(view.getUint16(0x3e, true)).toString("latin1");
  return new Map(
    Array.from({ length: view.getUint16(0x3c, true) }, (_, i) => {
      const start = view.getUint32(table + i * size, true);
      return [names.slice(start, names.indexOf("\0", start)), bytes(i).toString("hex")] as const;
    }).filter(([name]) => /^\.(text|nv\.constant|nv\.shared)/.test(name)),
  );
}

describe.each(kernels.map((kernel) => ({ name: `${kernel[0]} ${kernel[1]}`, kernel })))(
  "$name",
  ({ kernel }) => {
    const artifact = made(kernel);
    const { ptx, source } = artifact.annotated();

    test("without comments and .loc it is the text that is launched, byte for byte", () => {
      expect(ptx).not.toBe(artifact.ptx);
      expect(barePtx(ptx)).toBe(artifact.ptx);
      expect(barePtx(artifact.ptx)).toBe(artifact.ptx);
    });

    test("each comment is the statement of the line that .loc names, and every product has one", () => {
      const lines = source.text.split("\n");
      expect(source.text).toBe(artifact.textAt("machine"));
      const marks = [...ptx.matchAll(/^ {2}\/\/ (.*)\n {2}\.loc 1 (\d+) (\d+)$/gm)];
      for (const [, statement = "", line, column] of marks)
        expect(lines[Number(line) - 1]?.slice(Number(column) - 1)).toMatch(
          new RegExp(`^${statement.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")}( \\{)?$`),
        );
      // The line in force at each multiply-add of the main loop is one of `mma`.
      let inForce = "";
      const products = new Set<string>();
      for (const line of ptx.split("\n")) {
        inForce = /^ {2}\/\/ (\w+)/.exec(line)?.[1] ?? inForce;
        if (/^\s+(@\S+ )?(fma\.rn\.f32|mma\.sync|wgmma\.mma_async|tcgen05\.mma\.)/.test(line))
          products.add(inForce);
      }
      expect([...products]).toEqual(["mma"]);
    });

    test.skipIf(!hasPtxas || kernel[0] === "sm_70")("ptxas makes the same code of both", () => {
      using folder = scratch();
      const [bare, annotated] = [artifact.ptx, ptx].map((text, i) => {
        const [from, to] = [join(folder.path, `${i}.ptx`), join(folder.path, `${i}.cubin`)];
        writeFileSync(from, text);
        execFileSync("ptxas", ["-arch", kernel[0], from, "-o", to]);
        return codeOf(readFileSync(to));
      });
      expect([...(bare?.keys() ?? [])].filter((name) => name.startsWith(".text."))).not.toEqual([]);
      expect(annotated).toEqual(bare);
    });
  },
);

describe("the command", () => {
  const entry = "gemm_f32_nn_65x48x40";
  const problem = "--arch sm_70 -m 65 -n 48 -k 40";

  test("writes the text that .file names beside the PTX, once; --bare neither", async () => {
    using folder = scratch();
    const run = (flags: string) => cli(`compile ${problem} ${flags}`, { cwd: folder.path });
    expect((await run("--emit ptx")).code).toBe(0);
    const names = [`${entry}.machine.tile`, `${entry}.ptx`];
    expect(folder.list()).toEqual(names);
    const annotated = readFileSync(join(folder.path, `${entry}.ptx`), "utf8");
    expect(annotated).toContain(`.file 1 "${entry}.machine.tile"\n`);
    expect(readFileSync(join(folder.path, `${entry}.machine.tile`), "utf8")).toBe(
      (await run("--ir machine")).stdout,
    );
    expect((await run("-o -")).stdout).toBe(annotated);
    const said = JSON.parse((await run("-o - --json=line")).stdout.trim());
    expect(said).toMatchObject({
      ok: true,
      kernels: [{ entry, files: [{ format: "ptx", text: annotated }] }],
    });
    const bare = (await run("-o - --bare")).stdout;
    expect(bare).not.toMatch(/\.loc|\.file|\/\//);
    expect(barePtx(annotated)).toBe(bare);
    expect((await run("-o two --bare")).code).toBe(0);
    expect(folder.list()).toEqual([...names, "two", `two/${entry}.gemm.json`, `two/${entry}.ptx`]);
  });

  test("of several architectures, each text names its own", async () => {
    using folder = scratch();
    await cli("compile --arch sm_70,sm_80 -m 65 -n 48 -k 40 --emit ptx", { cwd: folder.path });
    for (const arch of ["sm_70", "sm_80"])
      expect(readFileSync(join(folder.path, `${entry}.${arch}.ptx`), "utf8")).toContain(
        `.file 1 "${entry}.${arch}.machine.tile"\n`,
      );
  });

  test("hazards name the statement that the instruction was made for", async () => {
    using folder = scratch();
    // Several chunks: the barrier between them runs.
    const { stdout: text } = await cli(`compile ${problem} --schedule tile=64x64x8 --ir machine`);
    const lines = text.split("\n");
    const barrier = lines.findLastIndex((line) => line.trim() === "barrier 0");
    expect(barrier).toBeGreaterThan(0);
    const edited = lines.filter((_, i) => i !== barrier).join("\n");
    writeFileSync(join(folder.path, "kernel.tile"), edited);
    const at = { cwd: folder.path };
    const told = await cli("run --from kernel.tile --unproven --device emulator", at);
    expect(told.code).toBe(5);
    const named = [...told.stderr.matchAll(/machine\.tile:(\d+)/g)].map(([, line]) => Number(line));
    expect(named.length).toBeGreaterThan(0);
    // What races without its barrier are copies between shared memory and registers.
    for (const line of named) expect(edited.split("\n")[line - 1]).toMatch(/^\s*copy .*%s[AB]/);
  });
});
