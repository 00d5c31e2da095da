import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { serveExplorer } from "../src/explore/serve.ts";
import { disassemble, parseSass } from "../src/tools/nvdisasm.ts";
import { contextIn } from "./harness.ts";
import { scratch } from "./scratch.ts";

const fixture = (name: string): string => fileURLToPath(new URL(`fixtures/${name}`, import.meta.url));
const recorded = fixture("nvdisasm-13.1.txt");
const text = readFileSync(recorded, "utf8");

test("what nvdisasm 13.1 printed of a kernel: instructions with address and line of PTX, without the padding at the end", () => {
  const lines = parseSass(text, "");
  expect(lines[0]).toEqual({ text: "f:", address: null, ptx: 0 });
  expect(lines).toContainEqual({ text: "@P0 EXIT", address: 0x40, ptx: 13 });
  expect(lines).toContainEqual({ text: "ISETP.GE.U32.AND P0, PT, R5, R0, PT", address: 0x30, ptx: 12 });
  expect(lines).toContainEqual({ text: "STG.E desc[UR4][R2.64], R0", address: 0x80, ptx: 20 });
  expect(lines.at(-1)).toEqual({ text: "EXIT", address: 0x90, ptx: 22 });
  expect(lines).toHaveLength(11);
});

test("a branch in front of the padding stays, and lines of data sections are no code", () => {
  const loop = text.replace("EXIT ;\n.L_x_0", "BRA `(.L_x_9) ;\n        /*0094*/   EXIT ;\n.L_x_0");
  expect(parseSass(loop, "").map((line) => line.text)).toContain("BRA `(.L_x_9)");
  expect(parseSass("\t.section\t.nv.info\n        /*0000*/ .word 1 ;\n", "")).toEqual([]);
});

describe("what nvdisasm 13.0 printed of a kernel for Hopper that this compiler wrote", () => {
  const sass = readFileSync(fixture("nvdisasm-13.0-wgmma.txt"), "utf8");
  const ptx = readFileSync(fixture("nvdisasm-13.0-wgmma.ptx"), "utf8");
  const lines = parseSass(sass, ptx);
  const made = lines.filter(({ address }) => address !== null);

  test("every instruction in front of the padding, each with a line of the PTX", () => {
    const end = sass.indexOf("\n.L_x_16:");
    expect(made).toHaveLength(sass.slice(0, end).match(/^ +\/\*[0-9a-f]{4}\*\//gm)?.length ?? 0);
    expect(made.map(({ address }) => address)).toEqual(made.map((_, i) => 16 * i));
    // The last one is a branch back out of a loop that waits.
    expect(made.at(-1)).toEqual({ text: "BRA `(.L_x_15)", address: 0x12f0, ptx: 223 });
    const last = ptx.trimEnd().split("\n").length;
    expect(made.filter((line) => line.ptx < 1 || line.ptx > last)).toEqual([]);
  });

  test("machine instructions stand with the PTX that they do", () => {
    const of = ptx.split("\n");
    const wanted = [
      [/^HGMMA\./, /wgmma\.mma_async/, 8],
      [/^UTMALDG\./, /cp\.async\.bulk\.tensor.*shared::cluster/, 4],
      [/UTMASTG\./, /cp\.async\.bulk\.tensor.*global\.shared::cta/, 1],
      [/^SYNCS\.PHASECHK\..* P\d, \[R\d+\+URZ\+0x310[04]0\]/, /mbarrier\.try_wait|mad\.lo/, 4],
      [/^WARPGROUP\.ARRIVE/, /wgmma\.fence/, 1],
      [/^EXIT$/, /^ *ret;/, 1],
    ] as const;
    for (const [machine, source, count] of wanted) {
      const found = made.filter((line) => machine.test(line.text));
      expect(found.length, String(machine)).toBe(count);
      for (const line of found) expect(of[line.ptx - 1], line.text).toMatch(source);
    }
  });

  test("products of which ptxas has made more than stand in the text have no line", () => {
    const fewer = ptx.replace("wgmma.mma_async.", "wgmma.other.");
    const products = parseSass(sass, fewer).filter((line) => line.text.startsWith("HGMMA"));
    expect(products.map((line) => line.ptx)).toEqual(products.map(() => 0));
  });
});

/** Programs that say what the real ones say. */
function fakes(folder: string, nvdisasm: string) {
  const write = (name: string, body: string): string => {
    const path = join(folder, name);
    const version = `[ "$1" = --version ] && echo "Cuda compilation tools, release 13.1, V13.1.80" && exit 0`;
    writeFileSync(path, `#!/bin/sh\n${version}\n${body}\n`, { mode: 0o755 });
    return path;
  };
  return {
    ...contextIn(folder),
    env: {
      PATH: process.env.PATH,
      // The last argument is the output; line information is asked for, or there is none to print.
      TILEWRIGHT_PTXAS: write("ptxas", 'case "$*" in *-lineinfo*) ;; *) exit 1;; esac\necho code > "$6"'),
      TILEWRIGHT_NVDISASM: write("nvdisasm", nvdisasm),
    },
  };
}

describe.skipIf(process.platform === "win32")("with programs that print what was recorded", () => {
  test("a text becomes its machine code", async () => {
    using folder = scratch();
    const context = fakes(folder.path, `[ "$1 $2" = "-c -gp" ] && cat ${recorded}`);
    const made = await disassemble(context, ".version 8.0", "sm_90a");
    expect(made.ok && made.value).toEqual(parseSass(text, ""));
  });

  test("a disassembler that knows no such cubin: TW7052 with what it said", async () => {
    using folder = scratch();
    const context = fakes(folder.path, 'echo "nvdisasm fatal   : Unknown SM version in $3" >&2; exit 255');
    const made = await disassemble(context, ".version 8.0", "sm_90a");
    expect(made.ok ? [] : made.error.map(({ code, message }) => [code, message])).toEqual([
      ["TW7052", "nvdisasm fatal   : Unknown SM version in kernel.cubin"],
    ]);
  });
});

test("the explorer's own page gets it, no other page does, and without the programs nobody is offered any", async () => {
  using folder = scratch();
  writeFileSync(join(folder.path, "index.html"), "<head></head>");
  const asked: string[] = [];
  const served = await serveExplorer(0, [`${folder.path}/`], async (ptx, arch) => {
    asked.push(`${arch} ${ptx}`);
    return { ok: true, value: [{ text: "EXIT", address: 0, ptx: 1 }] };
  });
  if (!served.ok) throw new Error("it does not listen");
  const { url, server } = served.value;
  const ask = async (origin: string, body: string) => {
    const response = await fetch(new URL("sass", url), { method: "POST", headers: { origin }, body });
    return [response.status, await response.text()] as const;
  };
  const own = new URL(url).origin;
  const request = JSON.stringify({ ptx: "ret;", arch: "sm_90a" });
  expect(await (await fetch(url)).text()).toContain('<meta name="sass" content="yes" />');
  expect(await ask(own, request)).toEqual([200, '{"lines":[{"text":"EXIT","address":0,"ptx":1}]}']);
  expect((await ask("https://example.com", request))[0]).toBe(403);
  for (const wrong of ["{", '{"ptx":"ret;"}', '{"ptx":"ret;","arch":"-o /etc/passwd"}'])
    expect((await ask(own, wrong))[0]).toBe(400);
  expect(asked).toEqual(["sm_90a ret;"]);
  await new Promise((resolve) => server.close(resolve));

  const without = await serveExplorer(0, [`${folder.path}/`]);
  if (!without.ok) throw new Error("it does not listen");
  expect(await (await fetch(without.value.url)).text()).toBe("<head></head>");
  await new Promise((resolve) => without.value.server.close(resolve));
});
