/** A kernel library (`compile --library`) on a device: picks the kernel, makes its arguments and workspace, launches on a stream. */
import {
  type Checked,
  err,
  evaluateConstraints,
  type LaunchEnvironment,
  type LibraryIndex,
  launchEnvironment,
  leadingNames,
  type Manifest,
  ok,
  operandShape,
  packedStride,
  readLibraryIndex,
  readManifest,
  strideNames,
  workspaceBytes,
} from "@tilewright/core";
import { archOf, type ComputeCapability, parseArch } from "../arch.ts";
import { CudaBuffer } from "../cuda/buffer.ts";
import type { CudaStream } from "../cuda/stream.ts";
import type { Device, DeviceBuffer, DeviceModule, LaunchRequest } from "../device.ts";
import { fail } from "../diagnostics.ts";
import { disposeSymbol } from "../dispose.ts";
import { type KernelBuffers, launchRequest } from "../launch-kernel.ts";
import { type AttentionArguments, attentionBuffers, pickAttention } from "./attention.ts";
import { shortBuffers } from "./buffers.ts";
import { imageDevice, imagePath, imagesInOrder, runsFor } from "./images.ts";

/** Names that an operation's arguments may give besides its operands; what is left out is packed, one matrix, factor as compiled. */
const optionalNames = [
  ...["batch", "lda", "ldb", "ldc", "ldd"],
  ...["strideA", "strideB", "strideC", "strideD", "alpha", "beta"],
] as const;

/** Arguments of an operation: sizes, and what `optionalNames` lists, in elements. */
export type LibraryArguments = { readonly m: number; readonly n: number; readonly k: number } & Partial<
  Readonly<
    Record<
      | "batch"
      | `ld${"a" | "b" | "c" | "d"}`
      | `stride${"A" | "B" | "C" | "D"}`
      | "alpha"
      | "beta"
      | `epilogue${number}`,
      number
    >
  >
>;

export interface LibraryPick {
  /** Number in the index. */
  readonly artefact: number;
  readonly manifest: Manifest;
  readonly environment: LaunchEnvironment;
}

interface Loaded {
  readonly manifest: Manifest;
  readonly module: DeviceModule;
}

interface Workspace {
  readonly buffer: DeviceBuffer;
  readonly bytes: number;
  /** What used it last: a kernel leaves it zero where itself looks, so another one, or other sizes, need it zeroed again. */
  readonly user: string;
}

interface Kept {
  readonly pick: Checked<LibraryPick>;
  readonly buffers: ReadonlyMap<string, DeviceBuffer>;
  readonly requests: readonly LaunchRequest[];
}

/** Launches kept ready. */
const MOST_KEPT = 256;

export class KernelLibrary {
  readonly index: LibraryIndex;
  readonly #device: Device;
  readonly #capability: ComputeCapability;
  readonly #read: (path: string) => Uint8Array;
  readonly #manifests = new Map<number, Manifest>();
  readonly #loaded = new Map<number, Loaded>();
  /** Launches that come back with the same arguments and buffers: their tensor maps are encoded once. */
  readonly #kept = new Map<string, Kept>();
  /** By stream: launches of one stream follow each other, so they share one. */
  readonly #workspaces = new Map<CudaStream | null, Workspace>();

  private constructor(
    device: Device,
    capability: ComputeCapability,
    index: LibraryIndex,
    read: (path: string) => Uint8Array,
  ) {
    this.index = index;
    this.#device = device;
    this.#capability = capability;
    this.#read = read;
  }

  /**
   * A library on a device. `index` is the parsed `index.json`; `read` gives the bytes of a file by its path below the library's folder,
   * and is called when a kernel is first needed. Errors: TW1307 for an index that is none.
   */
  static open(device: Device, index: unknown, read: (path: string) => Uint8Array): Checked<KernelLibrary> {
    const checked = readLibraryIndex(index);
    if (!checked.ok) return checked;
    const parsed = parseArch(device.arch);
    if (parsed === null) return fail("deviceUnfit", "device.arch", `'${device.arch}' is no architecture`);
    return ok(new KernelLibrary(device, parsed.cc, checked.value, read));
  }

  /** The artefact that serves these arguments here, and the values of its expressions' names. Errors: there is none; arguments of another kind of operation. */
  pick(operation: string, given: LibraryArguments | AttentionArguments): Checked<LibraryPick> {
    const row = this.index.operations.find(({ name }) => name === operation);
    if (row === undefined) {
      const names = this.index.operations.map(({ name }) => name).join(", ");
      return fail("noKernel", "operation", `the library has no operation '${operation}'`, `it has ${names}`);
    }
    const [first] = row.dispatch;
    const model =
      first === undefined ? fail("noKernel", "operation", `'${operation}' is empty`) : this.#manifest(first);
    if (!model.ok) return model;
    if (model.value.tensors !== undefined) return this.#pickAttention(operation, row.dispatch, given);
    if (!("m" in given))
      return fail("operand", operation, `'${operation}' is a product`, "give the sizes m, n and k");
    const environment = this.#environment(model.value, given);
    let nearest: readonly string[] | null = null;
    for (const artefact of row.dispatch) {
      const entry = this.index.artefacts[artefact];
      if (entry === undefined || !runsFor(entry.device, this.#capability)) continue;
      const met = evaluateConstraints(entry.constraints, environment);
      if (met.ok) {
        const manifest = this.#manifest(artefact);
        return manifest.ok ? ok({ artefact, manifest: manifest.value, environment }) : manifest;
      }
      if (nearest === null || met.error.length < nearest.length)
        nearest = met.error.map(({ message }) => message.replace("this kernel needs ", ""));
    }
    const { m, n, k } = given;
    const why =
      nearest === null ? "its kernels are for other GPUs" : `the nearest needs ${nearest.join(", and ")}`;
    const message = `${operation} has no kernel for m=${m} n=${n} k=${k} batch=${environment.batch} on ${archOf(this.#capability)}: ${why}`;
    return fail("noKernel", "launch", message, "compile the library for these sizes and this GPU");
  }

  /**
   * Launch an operation: on `stream` without waiting, or without one and waiting (which the emulator does too).
   * `buffers`: `a`, `b`, `c`, `d`, `epilogueI`; of attention `q`, `k`, `v`, `out` and what it adds. Errors, all of one stage at once: no kernel, what does not fit, what the device says.
   */
  launch(
    operation: string,
    given: LibraryArguments | AttentionArguments,
    named: KernelBuffers,
    stream?: CudaStream,
  ): Checked<LibraryPick> {
    const key = keyOf(operation, given);
    const known = this.#kept.get(key);
    const picked = known === undefined ? this.pick(operation, given) : known.pick;
    if (!picked.ok) return picked;
    const { artefact, manifest } = picked.value;
    const loaded = this.#load(artefact, manifest);
    if (!loaded.ok) return loaded;
    const buffers = manifest.tensors === undefined ? ok(named) : attentionBuffers(operation, manifest, named);
    if (!buffers.ok) return buffers;
    const all = this.#withWorkspace(picked.value, buffers.value, stream ?? null);
    if (!all.ok) return all;
    const names = Object.keys(all.value);
    const same =
      names.length === known?.buffers.size &&
      names.every((name) => known.buffers.get(name) === all.value[name]);
    const requests =
      known !== undefined && same ? ok(known.requests) : this.#requests(operation, picked.value, all.value);
    if (!requests.ok) return requests;
    this.#kept.delete(key);
    this.#kept.set(key, {
      pick: picked,
      buffers: new Map(Object.entries(all.value)),
      requests: requests.value,
    });
    if (this.#kept.size > MOST_KEPT) this.#kept.delete([...this.#kept.keys()][0] ?? "");
    for (const [i, spec] of manifest.kernels.entries()) {
      const request = requests.value[i];
      const started =
        request === undefined ? ok(true) : start(loaded.value.module, spec.entry, request, stream);
      if (!started.ok) return started;
    }
    return picked;
  }

  /** The launches of an artefact on these buffers. Errors, all at once: buffers that are too short; then those of the launch. */
  #requests(
    operation: string,
    { manifest, environment }: LibraryPick,
    buffers: KernelBuffers,
  ): Checked<readonly LaunchRequest[]> {
    const found = shortBuffers(operation, manifest, environment, buffers);
    if (!found.ok) return found;
    if (found.value.length > 0) return err(found.value);
    const requests: LaunchRequest[] = [];
    for (const spec of manifest.kernels) {
      const request = launchRequest(spec, environment, buffers, (map) => this.#device.encodeTensorMap(map));
      if (!request.ok) return request;
      requests.push(request.value);
    }
    return ok(requests);
  }

  /** The same for attention, of which sizes are its tensors' own. */
  #pickAttention(
    operation: string,
    dispatch: readonly number[],
    given: LibraryArguments | AttentionArguments,
  ): Checked<LibraryPick> {
    if ("m" in given)
      return fail(
        "operand",
        operation,
        `'${operation}' is attention, and has no sizes m, n and k`,
        "give its tensors",
      );
    const kernels: { artefact: number; manifest: Manifest }[] = [];
    for (const artefact of dispatch) {
      const entry = this.index.artefacts[artefact];
      if (entry === undefined || !runsFor(entry.device, this.#capability)) continue;
      const manifest = this.#manifest(artefact);
      if (!manifest.ok) return manifest;
      kernels.push({ artefact, manifest: manifest.value });
    }
    const picked = pickAttention(operation, kernels, given, archOf(this.#capability));
    if (!picked.ok) return picked;
    const manifest = this.#manifest(picked.value);
    if (!manifest.ok) return manifest;
    const environment = launchEnvironment(manifest.value.request, this.#device);
    return ok({ artefact: picked.value, manifest: manifest.value, environment });
  }

  /** Give modules and workspaces back. */
  close(): void {
    for (const { buffer } of this.#workspaces.values()) buffer.free();
    for (const { module } of this.#loaded.values()) module.unload();
    this.#workspaces.clear();
    this.#loaded.clear();
    this.#kept.clear();
  }

  [disposeSymbol](): void {
    this.close();
  }

  /** Defaults are those of the operation's problem, packed to the sizes at hand. */
  #environment(model: Manifest, given: LibraryArguments): LaunchEnvironment {
    const { request } = model;
    const { m, n, k } = given;
    const sized = { ...request, m, n, k };
    const fitted = (which: "a" | "b" | "c" | "d") => {
      const operand = request[which];
      if (operand === null) return null;
      const inner = operand.layout === "row" ? 1 : 0;
      const packed =
        operand.ld === operandShape(request, which)[inner] ||
        request.symbolic?.[leadingNames[which]] !== undefined;
      const ld = given[`ld${which}`] ?? (packed ? operandShape(sized, which)[inner] : operand.ld);
      return { ...operand, ld };
    };
    const [a, b, c, d] = [
      fitted("a") ?? request.a,
      fitted("b") ?? request.b,
      fitted("c"),
      fitted("d") ?? request.d,
    ];
    const env: Record<string, number> = {
      ...launchEnvironment({ ...sized, a, b, c, d, batch: { kind: "none" } }, this.#device),
    };
    const { batch } = request;
    if (batch.kind !== "none") env.batch = batch.count;
    if (batch.kind === "strided")
      for (const operand of ["a", "b", "c", "d"] as const) {
        const name = strideNames[operand];
        const original = request[operand];
        if (
          original !== null &&
          request.symbolic?.[name] === undefined &&
          batch[name] !== packedStride(original, ...operandShape(request, operand))
        )
          env[name] = batch[name];
      }
    if (request.alpha === "runtime") env.alpha = 1;
    for (const name of optionalNames) {
      const value = given[name as keyof LibraryArguments];
      if (value !== undefined) env[name] = value;
    }
    for (const [name, value] of Object.entries(given))
      if (/^epilogue\d+$/.test(name) && typeof value === "number") env[name] = value;
    return env;
  }

  #manifest(artefact: number): Checked<Manifest> {
    const known = this.#manifests.get(artefact);
    if (known !== undefined) return ok(known);
    const row = this.index.artefacts[artefact];
    if (row === undefined) return fail("noKernel", "library", `the index has no artefact ${artefact}`);
    const manifest = readManifest(JSON.parse(new TextDecoder().decode(this.#read(row.manifest))));
    if (manifest.ok) this.#manifests.set(artefact, manifest.value);
    return manifest;
  }

  /** The first image that this device runs and its driver takes; the emulator takes PTX. */
  #load(artefact: number, manifest: Manifest): Checked<Loaded> {
    const known = this.#loaded.get(artefact);
    if (known !== undefined) return ok(known);
    const path = this.index.artefacts[artefact]?.manifest ?? "";
    let last: Checked<DeviceModule> = fail("noKernel", "library", "no image of the kernel runs on this GPU");
    for (const image of imagesInOrder(manifest.images)) {
      if (image.format === "cubin" && this.#device.kind !== "cuda") continue;
      if (!runsFor(imageDevice(image), this.#capability)) continue;
      const data = this.#read(imagePath(path, image));
      last = this.#device.load(image.format === "ptx" ? new TextDecoder().decode(data) : data);
      if (last.ok) {
        const loaded = { manifest, module: last.value };
        this.#loaded.set(artefact, loaded);
        return ok(loaded);
      }
    }
    return last.ok ? err([]) : last;
  }

  #withWorkspace(
    { artefact, manifest, environment }: LibraryPick,
    buffers: KernelBuffers,
    stream: CudaStream | null,
  ): Checked<KernelBuffers> {
    const size = workspaceBytes(manifest, environment);
    if (!size.ok) return size;
    if (size.value === 0 || buffers.workspace !== undefined) return ok(buffers);
    const user = `${artefact}:${size.value}`;
    const last = this.#workspaces.get(stream);
    const grown = last === undefined || last.bytes < size.value ? this.#grow(last, size.value) : ok(last);
    if (!grown.ok) return grown;
    const { buffer, bytes } = grown.value;
    this.#workspaces.set(stream, { buffer, bytes, user });
    const { init } = manifest.workspace;
    if (init === "zeroEach" || (init === "zeroOnce" && grown.value.user !== user)) {
      const zeroed =
        stream !== null && buffer instanceof CudaBuffer ? stream.fill(buffer, 0) : buffer.fill(0);
      if (!zeroed.ok) return zeroed;
    }
    return ok({ ...buffers, workspace: buffer });
  }

  #grow(last: Workspace | undefined, bytes: number): Checked<Workspace> {
    const made = this.#device.alloc(bytes);
    if (!made.ok) return made;
    last?.buffer.free();
    return ok({ buffer: made.value, bytes, user: "" });
  }
}

/** Arguments as a text; numbers to the bit: 0 is not -0 here, and NaN no infinity. */
const keyOf = (operation: string, given: LibraryArguments | AttentionArguments): string =>
  Object.entries(given).reduce(
    (text, [name, value]) =>
      `${text} ${name}=${typeof value === "object" ? JSON.stringify(value) : Object.is(value, -0) ? "-0" : value}`,
    operation,
  );

function start(
  module: DeviceModule,
  entry: string,
  request: LaunchRequest,
  stream: CudaStream | undefined,
): Checked<unknown> {
  const kernel = module.kernel(entry);
  if (!kernel.ok) return kernel;
  return stream === undefined ? kernel.value.launch(request) : stream.launch(kernel.value, request);
}
