/** `compile --library`: what it writes and what it refuses; the clients of examples/ that need no GPU. */
import { execFileSync, spawn, spawnSync } from "node:child_process";
import { readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import {
  bytesOfStorage,
  decodeArray,
  encodeArray,
  packWeights,
  readLibraryIndex,
  readManifest,
} from "@tilewright/core";
import { describe, expect, test } from "vitest";
import { sha256 } from "../../src/files/hash.ts";
import { cli } from "../harness.ts";
import { scratch } from "../scratch.ts";
import { opened } from "./opened.ts";

const root = fileURLToPath(new URL("../../../..", import.meta.url));
const examples = join(root, "examples");
const has = (command: string): boolean =>
  process.platform === "linux" && spawnSync(command, ["--version"]).status === 0;

/** The library of examples/library.json in `out` of a folder. */
const demo = (cwd: string) =>
  cli(["compile", "--library", "out", "--kernels", join(examples, "library.json")], { cwd });

describe("the library of examples/library.json", () => {
  test("kernels, index and launchers; the index names files that are there, by their hashes", async () => {
    using folder = scratch();
    const { code, stdout, stderr } = await demo(folder.path);
    expect([code, stderr]).toEqual([0, ""]);
    expect(stdout).toContain("5 kernels");
    const file = (path: string) => readFileSync(join(folder.path, "out", path));
    const index = readLibraryIndex(JSON.parse(String(file("index.json"))));
    if (!index.ok) throw new Error(JSON.stringify(index.error));
    expect(index.value.operations).toEqual([
      { name: "linear_gelu", dispatch: [0, 1, 2] },
      // The later GPU's kernel first.
      { name: "gemm_f32", dispatch: [4, 3] },
    ]);
    for (const artefact of index.value.artefacts) {
      const text = file(artefact.manifest);
      expect(sha256(text)).toBe(artefact.sha256);
      const manifest = readManifest(JSON.parse(String(text)));
      if (!manifest.ok) throw new Error(JSON.stringify(manifest.error));
      expect(manifest.value).toMatchObject({ id: artefact.id, constraints: artefact.constraints });
      for (const image of manifest.value.images)
        expect(sha256(file(`kernels/${image.path}`))).toBe(image.sha256);
    }
    const launchers = folder.list().filter((path) => /^out\/demo\./.test(path));
    expect(launchers).toEqual(["c", "d.ts", "h", "hpp", "js", "py", "rs"].map((x) => `out/demo.${x}`));
  });

  test("the same request, the same bytes", async () => {
    using one = scratch();
    using two = scratch();
    await demo(one.path);
    await demo(two.path);
    const files = one.list().filter((path) => /\.\w+$/.test(path));
    expect(files.length).toBeGreaterThan(15);
    for (const path of files)
      expect(readFileSync(join(two.path, path)).equals(readFileSync(join(one.path, path)))).toBe(true);
  });

  test("--launchers writes those alone; a problem of the flags is a library of one operation", async () => {
    using folder = scratch();
    const argv = "compile --library out --launchers c --arch sm_70,sm_80 -m 16 -n 16 -k 16 --json";
    const { code, stdout } = await cli(argv, { cwd: folder.path });
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({
      ...{ ok: true, name: "kernels", launchers: ["out/kernels.h", "out/kernels.hpp", "out/kernels.c"] },
      operations: [{ name: "gemm", kernels: [{ arch: "sm_80" }, { arch: "sm_70" }] }],
    });
  });
});

test("a kernel whose sizes come with the launch serves what no other fits", async () => {
  using folder = scratch();
  const library = {
    name: "sized",
    archs: ["sm_70"],
    operations: [
      {
        name: "gemm",
        problem: { dtype: "f32", epilogue: [{ kind: "residual", operand: {} }] },
        sizes: [
          { m: 64, n: 64, k: 64, symbolic: { m: {}, n: { multiple: 4 }, k: { max: 128 } } },
          { m: 16, n: 16, k: 16 },
        ],
      },
    ],
  };
  const made = await cli("compile --library out --kernels -", {
    cwd: folder.path,
    stdin: JSON.stringify(library),
  });
  expect([made.code, made.stderr]).toEqual([0, ""]);
  const { device, library: kernels, buffer: bytesIn } = await opened(folder, "sm_70");
  expect(kernels.index.operations).toEqual([{ name: "gemm", dispatch: [1, 0] }]);
  const buffer = (values: Float32Array) => bytesIn(new Uint8Array(values.buffer));
  for (const { m, n, k, artefact } of [
    { m: 16, n: 16, k: 16, artefact: 1 },
    { m: 5, n: 12, k: 7, artefact: 0 },
    { m: 70, n: 4, k: 33, artefact: 0 },
  ]) {
    const ones = (count: number) => buffer(new Float32Array(count).fill(1));
    const d = buffer(new Float32Array(m * n));
    const launched = kernels.launch(
      "gemm",
      { m, n, k },
      { a: ones(m * k), b: ones(k * n), d, epilogue0: ones(m * n) },
    );
    expect(launched.ok ? launched.value.artefact : launched.error).toBe(artefact);
    const bytes = d.read();
    expect(bytes.ok && new Set(new Float32Array(bytes.value.buffer))).toEqual(new Set([k + 1]));
  }
  for (const sizes of [
    { m: 5, n: 6, k: 7 },
    { m: 5, n: 12, k: 129 },
  ])
    expect(kernels.launch("gemm", sizes, {})).toMatchObject({ ok: false, error: [{ code: "TW6028" }] });
  device.close();
});

describe("refusals: all at once, and no file", () => {
  const refused = async (library: object | string, flags: readonly string[] = []) => {
    using folder = scratch();
    const stdin = typeof library === "string" ? library : JSON.stringify(library);
    const argv = ["compile", "--library", "out", "--kernels", "-", ...flags];
    const { code, stderr } = await cli(argv, { cwd: folder.path, stdin });
    expect(folder.list()).toEqual([]);
    expect(code).toBeGreaterThan(0);
    return stderr;
  };
  const gemm = { name: "gemm", problem: { m: 8, n: 8, k: 8 } };

  test("JSON, unknown fields, names that a language keeps for itself", async () => {
    expect(await refused("{")).toContain("TW7012");
    const stderr = await refused({
      name: "Lib",
      operations: [{ ...gemm, name: "lambda" }, { ...gemm, name: "x_workspace", problm: {} }, gemm],
    });
    expect(stderr).toContain("'lambda' means something else in one of the launchers' languages");
    expect(stderr).toContain("'x_workspace' means something else");
    expect(stderr).toContain('"Lib" is no name');
    expect(stderr).toContain("problm");
  });

  test("missing architectures and sizes, wrong problems, operations of one name", async () => {
    const stderr = await refused({
      name: "lib",
      operations: [
        gemm,
        { ...gemm, archs: ["sm_80", "sm_81"] },
        { name: "other", archs: ["sm_80"], problem: { m: 3, k: -1 } },
      ],
    });
    expect(stderr).toContain("TW7080 (invalid) at operations: there are two operations 'gemm'");
    expect(stderr).toContain("TW7004 (invalid) at operations[0].archs: no architecture is named");
    expect(stderr).toContain("operations[1].archs: there is no target 'sm_81'");
    expect(stderr).toContain("operation other has no n");
  });

  test("an epilogue as on the command line, wrong in one step", async () => {
    const problem = { m: 16, n: 16, k: 16, epilogue: "bias(n,f32)|rulu" };
    const stderr = await refused({ name: "lib", archs: ["sm_80"], operations: [{ ...gemm, problem }] });
    expect(stderr).toContain("at operations[0].epilogue[1]: 'rulu' is not an epilogue step");
  });

  test("kernels that hide one another, and problems that no backend serves", async () => {
    const hidden = await refused({
      ...{ name: "lib", archs: ["sm_80"] },
      operations: [
        {
          name: "gemm",
          problem: {},
          sizes: [
            { m: [8, 16], n: 8, k: 8 },
            { m: 8, n: 8, k: 8 },
          ],
        },
      ],
    });
    expect(hidden).toContain(
      "TW7080 (invalid) at operations[0].sizes[1]: gemm has two kernels for 8 x 8 x 8 on sm_80",
    );
    const unserved = await refused(
      { name: "lib", operations: [{ ...gemm, problem: { ...gemm.problem, dtype: "e4m3" } }] },
      ["--arch", "sm_70"],
    );
    expect(unserved).toContain("operations[0] on sm_70:");
  });

  test("groups and scale factors, which launchers have no place for", async () => {
    const grouped = { batch: { kind: "grouped", count: 3 } };
    const stderr = await refused({
      ...{ name: "lib", archs: ["sm_80"] },
      operations: [
        { name: "groups", problem: { dtype: "f16", m: 64, n: 64, k: 64, ...grouped } },
        { name: "factors", archs: ["sm_100a"], problem: { dtype: "nvf4", m: 128, n: 128, k: 64 } },
        {
          ...{ name: "weights" },
          problem: { m: 16, n: 32, k: 128, weights: {}, batch: { kind: "strided", count: 2 } },
        },
      ],
    });
    expect(stderr).toContain("TW7083 (unsupported) at operations[0]");
    expect(stderr).toContain("groups is grouped, and launchers have no place for a table of groups");
    expect(stderr).toContain("TW7082 (unsupported) at operations[1]");
    expect(stderr).toContain("factors multiplies nvf4");
    expect(stderr).toContain("weights multiplies weights of a batch");
  });

  test.each([
    ["s4", (i: number) => (i * 7) % 16, (code: number) => code - 8],
    ["s8", (i: number) => ((i * 7) % 256) - 128, (code: number) => code],
    // The first codes of e4m3 are eighths of 2^-6.
    ["e4m3", (i: number) => i % 16, (code: number) => code * 2 ** -9],
  ] as const)(
    "packed weights of %s: a launch takes what packWeights makes; a wheel has no place for it",
    async (dtype, codeAt, numberOf) => {
      using folder = scratch();
      const [m, n, k] = [16, 64, 128];
      const problem = { ...{ m, n, k }, weights: { dtype, group: 64 }, d: { dtype: "f32" } };
      const request = { name: "lib", archs: ["sm_80"], operations: [{ name: "linear", problem }] };
      writeFileSync(join(folder.path, "kernels.json"), JSON.stringify(request));
      const flags = ["compile", "--library", "out", "--kernels", "kernels.json"];
      const { code, stderr } = await cli(flags, { cwd: folder.path });
      expect([code, stderr]).toEqual([0, ""]);
      const refusal = await cli([...flags, "--wheel"], { cwd: folder.path });
      expect(refusal.code).toBe(3);
      expect(refusal.stderr).toContain(
        "linear multiplies weights, and wheels have no place for its scale factors",
      );

      const { library, buffer } = await opened(folder, "sm_80");
      const codes = Array.from({ length: n * k }, (_, i) => codeAt(i));
      const scales = new Float32Array((n * k) / 64).fill(0.5);
      const made = packWeights({ n, k, group: 64, weights: dtype, codes, scales, dtype: "bf16" });
      const ones = bytesOfStorage(encodeArray("bf16", new Float64Array(m * k).fill(1)));
      const buffers = {
        a: buffer(ones),
        b: buffer(made.b),
        sfb: buffer(made.sfb),
        d: buffer(new Uint8Array(4 * m * n)),
      };
      expect(library.launch("linear", { m, n, k }, buffers)).toMatchObject({ ok: true });
      const out = buffers.d.read();
      if (!out.ok) throw new Error("memory");
      const sum = (column: number) =>
        codes.slice(column * k, (column + 1) * k).reduce((total, code) => total + numberOf(code) / 2, 0);
      expect([...new Float32Array(out.value.slice().buffer, 0, n)]).toEqual(
        Array.from({ length: n }, (_, j) => sum(j)),
      );
      const short = library.launch("linear", { m, n, k }, { ...buffers, sfb: buffer(new Uint8Array(16)) });
      expect(short).toMatchObject({
        ok: false,
        error: [{ message: expect.stringContaining("sfb has 16 bytes") }],
      });
    },
  );

  test("a quantised D, whose scales are an operand of the epilogue, with m at launch", async () => {
    using folder = scratch();
    const problem = {
      ...{
        m: 64,
        n: 128,
        k: 32,
        dtype: "bf16",
        b: { layout: "col" },
        d: { dtype: "mxf8" },
        symbolic: { m: {} },
      },
      epilogue: "quantize(32,u8)",
    };
    const request = { name: "lib", archs: ["sm_80"], operations: [{ name: "linear", problem }] };
    writeFileSync(join(folder.path, "kernels.json"), JSON.stringify(request));
    const flags = ["compile", "--library", "out", "--kernels", "kernels.json"];
    const { code, stderr } = await cli(flags, { cwd: folder.path });
    expect([code, stderr]).toEqual([0, ""]);
    expect((await cli([...flags, "--wheel"], { cwd: folder.path })).stderr).toContain(
      "linear quantises D, and wheels have no place for its scale factors",
    );
    const { library, buffer } = await opened(folder, "sm_80");
    const ones = (count: number) =>
      buffer(bytesOfStorage(encodeArray("bf16", new Float64Array(count).fill(1))));
    const [m, n, k] = [130, 128, 32];
    const buffers = {
      a: ones(m * k),
      b: ones(n * k),
      d: buffer(new Uint8Array(m * n)),
      epilogue0: buffer(new Uint8Array(1024)),
    };
    expect(library.launch("linear", { m, n, k }, buffers)).toMatchObject({ ok: true });
    const scales = buffers.epilogue0.read();
    if (!scales.ok) throw new Error("memory");
    // Sums of 32 are 256 times 2 to the -3; row 129 is the second of the second line of blocks.
    expect([scales.value[0], scales.value[512 + 16], scales.value[512 + 32]]).toEqual([124, 124, 0]);
  });

  test("flags that say nothing about a library, and flags of a library without one", async () => {
    const stderr = await refused({ name: "lib", operations: [gemm] }, ["-m", "3", "-o", "x"]);
    expect(stderr).toContain("TW7005 (invalid) at --library: --out, -m says nothing about a library");
    const { code, stderr: orphan } = await cli("compile --arch sm_70 -m 1 -n 1 -k 1 --launchers c");
    expect(code).toBe(2);
    expect(orphan).toContain("--launchers belongs to a library");
  });
});

describe("clients", () => {
  test.skipIf(!has("gcc"))("C: compiles without warnings, and launches what its sizes need", async () => {
    using folder = scratch();
    await demo(folder.path);
    const at = (path: string) => join(folder.path, path);
    const stub = fileURLToPath(new URL("stub-cuda.c", import.meta.url));
    execFileSync("gcc", ["-shared", "-fPIC", "-o", at("libcuda.so.1"), stub]);
    const flags = ["-std=c99", "-O2", "-Wall", "-Wextra", "-Werror", "-I", at("out"), "-o", at("client")];
    execFileSync("gcc", [...flags, join(examples, "c/main.c"), "-ldl"], { stdio: "pipe" });
    const env = { ...process.env, LD_LIBRARY_PATH: folder.path, STUB_LOG: at("journal") };
    const { stdout } = spawnSync(at("client"), [at("out")], { env, encoding: "utf8" });
    // The stub computes nothing: the client notices.
    expect(stdout).toBe("D[0] = 0.0000, 65536 of 65536 elements wrong\n");
    const launches = readFileSync(at("journal"), "utf8")
      .split("\n")
      .filter((line) => line.includes('"launch"'));
    expect(launches).toHaveLength(1);
    expect(JSON.parse(launches[0] ?? "")).toMatchObject({ entry: "gemm_f16_nt_256x256x192", stream: 0 });
  });

  test.skipIf(!has("python3"))(
    "Python: they parse; the CuPy client's geometry is that of the manifest",
    async () => {
      using folder = scratch();
      for (const path of [
        ...["pytorch/linear_gelu.py", "inductor/models.py"],
        ...["cupy/raw_module.py", "python/call.py"],
      ])
        execFileSync("python3", [
          "-c",
          "import ast, sys; ast.parse(open(sys.argv[1]).read())",
          join(examples, path),
        ]);
      await cli("compile --arch sm_80 -m 512 -n 384 -k 256 --dtype f32 --schedule split=1 -o .", {
        cwd: folder.path,
      });
      const path = folder.list().find((file) => file.endsWith(".gemm.json")) ?? "";
      const script = `import json, sys; sys.path.insert(0, sys.argv[1]); sys.dont_write_bytecode = True
import raw_module; print(json.dumps(list(raw_module.launches(json.load(open(sys.argv[2]))))))`;
      const said = execFileSync("python3", ["-c", script, join(examples, "cupy"), join(folder.path, path)], {
        encoding: "utf8",
      });
      const manifest = readManifest(JSON.parse(readFileSync(join(folder.path, path), "utf8")));
      if (!manifest.ok) throw new Error("manifest");
      const [kernel] = manifest.value.kernels;
      expect(JSON.parse(said)).toEqual([
        [
          kernel?.entry,
          kernel?.launch.grid,
          kernel?.launch.block,
          kernel?.launch.dynamicSmem,
          ["a", "b", "d"],
        ],
      ]);
    },
  );

  test.skipIf(!has("gcc") || !has("python3"))("plain Python: launches what its sizes need", async () => {
    using folder = scratch();
    await demo(folder.path);
    const at = (path: string) => join(folder.path, path);
    const stub = fileURLToPath(new URL("stub-cuda.c", import.meta.url));
    execFileSync("gcc", ["-shared", "-fPIC", "-o", at("libcuda.so.1"), stub]);
    const client = [join(examples, "python/call.py"), at("out")];
    const env = { ...process.env, PYTHONDONTWRITEBYTECODE: "1" };
    const run = (more: NodeJS.ProcessEnv) =>
      spawnSync("python3", client, { env: { ...env, ...more }, encoding: "utf8" });
    // The stub computes nothing: the client notices.
    const launched = run({ LD_LIBRARY_PATH: folder.path, STUB_LOG: at("journal") });
    expect(launched.stdout).toMatch(/^D\[0\] = 0\.0000, 65536 of 65536 elements wrong/);
    expect(launched.status).toBe(1);
    expect(readFileSync(at("journal"), "utf8")).toContain('"gemm_f16_nt_256x256x192"');
  });

  test("the library of the PyTorch client compiles", async () => {
    using folder = scratch();
    const argv = [
      "compile",
      "--library",
      "out",
      "--launchers",
      "python",
      "--kernels",
      join(examples, "pytorch/library.json"),
    ];
    expect(await cli(argv, { cwd: folder.path })).toMatchObject({ code: 0, stderr: "" });
  });

  test("Node: the server answers with numbers, and says what it has no kernel for", async () => {
    using folder = scratch();
    await demo(folder.path);
    // The library and the server find the packages as an installed project would.
    symlinkSync(join(root, "node_modules"), join(folder.path, "node_modules"));
    writeFileSync(join(folder.path, "package.json"), '{"type":"module"}');
    writeFileSync(join(folder.path, "server.mjs"), readFileSync(join(examples, "node/server.mjs")));
    const argv = ["--conditions=@tilewright/source", "server.mjs", "out", "0"];
    const env = { ...process.env, TILEWRIGHT_DEVICE: "emulator", CUDA_VISIBLE_DEVICES: "-1" };
    const server = spawn(process.execPath, argv, { cwd: folder.path, env });
    try {
      const port = await new Promise<string>((resolve, reject) => {
        let said = "";
        server.stdout.on("data", (data) => {
          said += data;
          const found = /port (\d+)/.exec(said)?.[1];
          if (found !== undefined) resolve(found);
        });
        server.stderr.on("data", (data) => reject(new Error(String(data))));
      });
      const ask = (rows: number) => {
        const a = encodeArray("f16", new Float32Array(rows * 192).fill(1));
        const body = new Uint8Array(a.buffer as ArrayBuffer);
        return fetch(`http://localhost:${port}/linear_gelu`, { method: "POST", body });
      };
      const answer = await ask(128);
      expect(answer.status).toBe(200);
      const d = decodeArray("f16", new Uint16Array(await answer.arrayBuffer()));
      expect(d).toHaveLength(128 * 256);
      // gelu(192 / 64 + 0.5), and half a unit of f16 there.
      for (const value of d) expect(Math.abs(value - 3.499186)).toBeLessThan(0.001);
      const unserved = await ask(77);
      expect(unserved.status).toBe(400);
      expect(await unserved.text()).toContain("linear_gelu has no kernel for m=77 n=256 k=192");
    } finally {
      server.kill();
    }
  });
});
