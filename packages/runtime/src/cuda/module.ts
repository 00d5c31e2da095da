/** Loaded code and kernels on a GPU. */
import { type Checked, type Diagnostic, err, ok } from "@tilewright/core";
import { parseArch, unfitReason } from "../arch.ts";
import type { DeviceModule, Kernel } from "../device.ts";
import { diagnose, fail, useEmulator } from "../diagnostics.ts";
import { type Image, noEntry, readImage } from "../image.ts";
import type { PtxHeader } from "../ptx-header.ts";
import type { CudaContext } from "./context.ts";
import type { CudaDeviceInfo } from "./info.ts";
import { CudaKernel, readAttributes } from "./kernel.ts";
import { CudaResource } from "./resource.ts";
import { driverTooOld } from "./versions.ts";

/** Why a text made for `header` cannot run here: the driver's age and the device's capability, both at once. */
function textProblems(header: PtxHeader, info: CudaDeviceInfo): readonly Diagnostic[] {
  const problems: Diagnostic[] = [];
  const old = driverTooOld(header.version, info.driverVersion);
  if (old !== null) {
    problems.push(
      diagnose("driverTooOld", "device.load", old.message, `install ${old.needs}; or ${useEmulator}`),
    );
  }
  const arch = parseArch(header.target);
  const unfit = arch === null ? null : unfitReason(arch, info.computeCapability);
  if (unfit !== null) {
    problems.push(
      diagnose(
        "deviceUnfit",
        "device.load",
        `the text is for ${header.target} and does not run on ${info.name}: ${unfit}`,
        `compile with --arch ${info.arch} or what it runs (tilewright targets lists them); or ${useEmulator}`,
      ),
    );
  }
  return problems;
}

export class CudaModule extends CudaResource implements DeviceModule {
  readonly log: string;
  readonly #image: Image;
  readonly #module: bigint;

  private constructor(context: CudaContext, image: Image, module: bigint, log: string) {
    super(context, "module", (driver) => driver.moduleUnload(module));
    this.#image = image;
    this.#module = module;
    this.log = log;
  }

  /** Compile PTX for the device, or take what the cache has of it; a cubin as it is. */
  static load(context: CudaContext, source: string | Uint8Array): Checked<CudaModule> {
    const image = readImage(source);
    if (!image.ok) return image;
    if (image.value.kind === "ptx") {
      const problems = textProblems(image.value.header, context.info);
      if (problems.length > 0) return err(problems);
    }
    const { cache } = context;
    if (image.value.kind === "binary") return CudaModule.#fromBytes(context, image.value, image.value.bytes);
    const text = image.value;
    const bytes = new TextEncoder().encode(`${text.text}\0`);
    if (cache === null) return CudaModule.#fromBytes(context, text, bytes);
    const key = cache.key(text.text, context.info);
    const kept = cache.get(key);
    if (kept !== null) {
      const loaded = CudaModule.#fromBytes(context, text, kept);
      // Whatever is wrong with it, the text is still there; a device that is lost says so again.
      if (loaded.ok) return loaded;
      cache.drop(key);
    }
    const linked = CudaModule.#link(context, bytes);
    if (linked === null) return CudaModule.#fromBytes(context, text, bytes);
    const loaded = CudaModule.#fromBytes(context, text, linked.cubin, linked.log);
    if (loaded.ok) cache.put(key, linked.cubin);
    return loaded;
  }

  /** Machine code of a text; null where the linker cannot or will not: then the plain way says why, or does it. */
  static #link(
    context: CudaContext,
    bytes: Uint8Array,
  ): { readonly cubin: Uint8Array; readonly log: string } | null {
    let log = "";
    const linked = context.call("device.load", (driver) => {
      const link = driver.linkPtx(bytes);
      log = link.infoLog.trim();
      return link.result;
    });
    return linked.ok ? { cubin: linked.value, log } : null;
  }

  static #fromBytes(
    context: CudaContext,
    image: Image,
    bytes: Uint8Array,
    log?: string,
  ): Checked<CudaModule> {
    let info = "";
    let error = "";
    const loaded = context.call(
      "device.load",
      (driver) => {
        const load = driver.moduleLoadData(bytes);
        info = load.infoLog.trim();
        error = load.errorLog.trim();
        return load.result;
      },
      () => (error === "" ? "" : `:\n${error.replace(/^/gm, "    ")}`),
    );
    return loaded.ok ? ok(new CudaModule(context, image, loaded.value, log ?? info)) : loaded;
  }

  get unloaded(): boolean {
    return this.givenBack;
  }

  kernel(entry: string): Checked<Kernel> {
    if (this.givenBack) return fail("closed", "module.kernel", "the module is unloaded", "load it again");
    // The text is asked first, because its answer can name the entries that there are.
    if (this.#image.kind === "ptx" && !this.#image.entries.has(entry)) {
      return noEntry(entry, this.#image.entries.keys());
    }
    const context = this.context;
    const found = context.call(
      "module.kernel",
      (driver) => driver.moduleGetFunction(this.#module, entry),
      () => `: ${entry}`,
    );
    if (!found.ok) return found;
    const attributes = readAttributes(context, found.value);
    if (!attributes.ok) return attributes;
    const params = this.#image.kind === "ptx" ? (this.#image.entries.get(entry) ?? null) : null;
    return ok(new CudaKernel(context, this, entry, found.value, params, attributes.value));
  }

  unload(): void {
    this.release();
  }
}
