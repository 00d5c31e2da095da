/** The C launcher: one header without any dependency; the driver is found at run time. */
import type { KernelSpec, LaunchExpr, ParamSpec } from "@tilewright/ir";
import { imageDevice, imagePath, imagesInOrder } from "@tilewright/runtime";
import { version } from "../../version.ts";
import { type ExpressionStyle, writeConstraint, writeExpr } from "../expressions.ts";
import type { Library, LibraryArtefact, LibraryOperation } from "../model.ts";
import { cHead, cTail } from "./c-runtime.ts";
import {
  defaultsOf,
  describeOperation,
  inOrder,
  mapNumbers,
  mostSteps,
  PLAIN_SMEM,
  PORTABLE_CLUSTER,
  stepOf,
} from "./common.ts";

/** Literals are suffixed by their type, so that no product is taken in int. */
const style: ExpressionStyle = {
  integer: (value) => `INT64_C(${value})`,
  real: (value) => (Number.isInteger(value) && Math.abs(value) < 1e15 ? `${value}.0` : String(value)),
  name: (name) => {
    const step = stepOf(name);
    return name === "numSms" ? "(int64_t)lib->sms" : step === null ? `v->${name}` : `v->scale[${step}]`;
  },
  toReal: (text) => `(double)(${text})`,
  call: (name, kind) => `LIB_${name}${kind === "real" ? "_real" : ""}`,
};

const integer = (expr: LaunchExpr): string => writeExpr(expr, style, "integer");
const list = (values: readonly (string | number)[]): string => `{${values.join(", ")}}`;
const quote = (text: string): string => JSON.stringify(text);

const scalarTypes = {
  f32: "float",
  f64: "double",
  u32: "uint32_t",
  s32: "int32_t",
  u64: "uint64_t",
} as const;
const zeroing = { none: 0, zeroOnce: 1, zeroEach: 2 } as const;

const operandText = (name: string): string => {
  const step = stepOf(name);
  return step === null ? `v->${name}` : `v->epilogue[${step}]`;
};

/** Statements that put one parameter into its slot. */
function putParam(param: ParamSpec, index: number): string {
  switch (param.kind) {
    case "pointer":
      if (param.name === "workspace") return `  l->workspace_param = ${index};\n  l->params++;`;
      return `  if ((status = LIB_put_pointer(lib, l, ${quote(param.name)}, ${operandText(param.name)}, ${param.align})) != LIB_OK) return status;`;
    case "scalar": {
      const type = scalarTypes[param.dtype];
      const real = param.dtype === "f32" || param.dtype === "f64";
      const value = writeExpr(param.value, style, real ? "real" : "integer");
      return `  { ${type} value = (${type})(${value}); LIB_put(l, &value, sizeof value); }`;
    }
    case "tensorMap": {
      const { tensorMap: map } = param;
      const { type, interleave, swizzle, l2, oob } = mapNumbers(map);
      const sizes = (values: readonly LaunchExpr[]) =>
        list(values.map((value) => `(uint64_t)(${integer(value)})`));
      return [
        "  {",
        `    const uint64_t dims[] = ${sizes(map.dims)};`,
        `    const uint64_t strides[] = ${sizes(map.strides.length === 0 ? [0] : map.strides)};`,
        `    const uint32_t box[] = ${list(map.box)};`,
        `    const uint32_t steps[] = ${list(map.elementStrides)};`,
        `    const int tune[] = ${list([type, interleave, swizzle, l2, oob])};`,
        `    if ((status = LIB_put_map(lib, l, ${quote(param.name)}, ${operandText(map.operand)}, ${map.dims.length}, dims, strides, box, steps, tune)) != LIB_OK) return status;`,
        "  }",
      ].join("\n");
    }
    default:
      return param satisfies never;
  }
}

const kernelRow = ({ entry, launch }: KernelSpec): string =>
  `{${quote(entry)}, ${list(launch.block)}, ${list(launch.cluster)}, ${launch.dynamicSmem}, ${launch.cooperative ? 1 : 0}}`;

function launchText({ launch, params }: KernelSpec, index: number): string {
  const [x, y, z] = launch.grid.map(integer);
  return [
    `  l = &p->launch[${index}];`,
    "  l->workspace_param = -1;",
    `  if ((status = LIB_grid(lib, l, ${x}, ${y}, ${z})) != LIB_OK) return status;`,
    ...inOrder(params).map(putParam),
  ].join("\n");
}

const ruleLetters = { portable: "'p'", family: "'f'", arch: "'a'" } as const;

/** Functions of one artefact: whether it fits, and its launches. */
function artefactText({ manifest, device }: LibraryArtefact, number: number): string {
  const { kernels, workspace, constraints, plan, target } = manifest;
  const rule = `LIB_runs(lib, ${ruleLetters[device.rule]}, ${device.major}, ${device.minor})`;
  const conditions = [rule, ...constraints.map((constraint) => writeConstraint(constraint, style))];
  return `
/* ${target.arch}: ${plan.schedule} */
static inline int LIB_fits_${number}(const LIB_library *lib, const LIB_args *v) {
  return ${conditions.join(" &&\n         ")};
}
static inline int64_t LIB_workspace_${number}(const LIB_library *lib, const LIB_args *v) {
  (void)lib, (void)v;
  return ${integer(workspace.bytes)};
}
static inline int LIB_plan_${number}(LIB_library *lib, const LIB_args *v, LIB_plan *p) {
  LIB_launch *l;
  int status;
  p->workspace = LIB_workspace_${number}(lib, v);
  p->zero = ${zeroing[workspace.init]};
  p->launches = ${kernels.length};
${kernels.map(launchText).join("\n")}
  return LIB_OK;
}
`;
}

/** `switch` over the artefacts' numbers. */
const selection = (library: Library, make: (number: number) => string, otherwise: string): string =>
  [
    "  switch (artefact) {",
    ...library.artefacts.map((_, number) => `  case ${number}: ${make(number)}`),
    `  default: ${otherwise}`,
    "  }",
  ].join("\n");

function tables(library: Library): string {
  const images = library.artefacts.flatMap(({ manifest, path }, artefact) =>
    imagesInOrder(manifest.images).map((image, i) => {
      const { rule, major, minor } = imageDevice(image);
      const row = `{${artefact}, ${i}, {${ruleLetters[rule]}, ${major}, ${minor}, ${image.format === "cubin" ? 1 : 0}, ${quote(imagePath(path, image))}}}`;
      return `      ${row},`;
    }),
  );
  const kernels = library.artefacts.map(
    ({ manifest }, i) =>
      `  static const LIB_kernel kernels_${i}[] = ${list(manifest.kernels.map(kernelRow))};`,
  );
  return `
typedef struct LIB_image {
  char rule;
  int major, minor, cubin;
  const char *path; /* below the library's folder */
} LIB_image;

/* Image i of an artefact, in the order in which they are tried; 0 behind the last. */
static inline int LIB_image_of(int artefact, int i, LIB_image *image) {
  static const struct {
    int artefact, i;
    LIB_image image;
  } images[] = {
${images.join("\n")}
  };
  size_t at;
  for (at = 0; at < sizeof images / sizeof images[0]; at++)
    if (images[at].artefact == artefact && images[at].i == i) {
      *image = images[at].image;
      return 1;
    }
  return 0;
}

static inline const LIB_kernel *LIB_kernels(int artefact, int *count) {
${kernels.join("\n")}
${selection(library, (i) => `*count = ${library.artefacts[i]?.manifest.kernels.length}; return kernels_${i};`, "*count = 0; return 0;")}
}
${library.artefacts.map(artefactText).join("")}
static inline int LIB_fits(const LIB_library *lib, int artefact, const LIB_args *v) {
${selection(library, (i) => `return LIB_fits_${i}(lib, v);`, "return 0;")}
}
static inline int64_t LIB_workspace_bytes(const LIB_library *lib, int artefact, const LIB_args *v) {
${selection(library, (i) => `return LIB_workspace_${i}(lib, v);`, "return 0;")}
}
static inline int LIB_make_plan(LIB_library *lib, int artefact, const LIB_args *v, LIB_plan *p) {
${selection(library, (i) => `return LIB_plan_${i}(lib, v, p);`, "return LIB_NO_KERNEL;")}
}
`;
}

const extent = (value: number | string): string => (typeof value === "number" ? `INT64_C(${value})` : value);
const strideNames = { a: "strideA", b: "strideB", c: "strideC", d: "strideD" } as const;
const fixedOr = (value: number | "runtime", otherwise: number): number =>
  value === "runtime" ? otherwise : value;

function operationText({ name, problem, dispatch }: LibraryOperation): string {
  const { batch, alpha, beta } = problem;
  const defaults = defaultsOf(problem).flatMap(({ operand, ld, stride }) => [
    `  args->ld${operand} = ${extent(ld)};`,
    `  args->${strideNames[operand]} = ${typeof stride === "number" ? extent(stride) : `args->ld${operand} * ${stride}`};`,
  ]);
  return `
/*
 * ${name}
${describeOperation(problem)
  .map((line) => ` *   ${line}`)
  .join("\n")}
 */
static inline void LIB_${name}_defaults(LIB_args *args, int64_t m, int64_t n, int64_t k) {
  memset(args, 0, sizeof *args);
  args->m = m;
  args->n = n;
  args->k = k;
  args->batch = ${batch.kind === "none" ? 1 : batch.count};
${defaults.join("\n")}
  args->alpha = ${style.real(fixedOr(alpha, 1))};
  args->beta = ${style.real(fixedOr(beta, 0))};
}
static inline const int *LIB_${name}_artefacts(int *count) {
  static const int artefacts[] = ${list(dispatch)};
  *count = ${dispatch.length};
  return artefacts;
}
/* Bytes of workspace that a launch with these arguments takes; 0 where no kernel serves them. */
static inline int64_t LIB_${name}_workspace(LIB_library *lib, const LIB_args *args) {
  int count;
  const int *artefacts = LIB_${name}_artefacts(&count);
  return LIB_workspace_of(lib, artefacts, count, args);
}
/* Queues the operation on stream; does not wait. */
static inline int LIB_${name}(LIB_library *lib, const LIB_args *args, LIB_stream stream) {
  int count;
  const int *artefacts = LIB_${name}_artefacts(&count);
  return LIB_dispatch(lib, "${name}", artefacts, count, args, stream);
}
`;
}

/** Text of `NAME.h`. */
export function cLauncher(library: Library): string {
  const { name, artefacts, operations } = library;
  const kernels = artefacts.flatMap(({ manifest }) => manifest.kernels);
  const guard = `${name.toUpperCase()}_TILEWRIGHT_H`;
  const text = `/*
 * Kernel library ${name}, made by tilewright ${version}. Generated: do not edit.
 *
 *   LIB_library lib;
 *   LIB_args args;
 *   LIB_open(&lib, "folder of this file", 0);
 *   LIB_${operations[0]?.name}_defaults(&args, m, n, k);
 *   args.a = ...; args.b = ...; args.d = ...;
 *   if (LIB_${operations[0]?.name}(&lib, &args, stream) != LIB_OK) puts(LIB_last_error(&lib));
 *   LIB_close(&lib);
 *
 * C99 or C++11; link with -ldl where dlopen is not in libc. No CUDA header or library is needed.
 */
#ifndef ${guard}
#define ${guard}

#define LIB_STEPS ${mostSteps(library)}
#define LIB_ARTEFACTS ${artefacts.length}
#define LIB_KERNELS ${Math.max(...artefacts.map(({ manifest }) => manifest.kernels.length))}
#define LIB_PARAMS ${Math.max(1, ...kernels.map(({ params }) => params.length))}
#define LIB_PLAIN_SMEM ${PLAIN_SMEM}
#define LIB_PORTABLE_CLUSTER ${PORTABLE_CLUSTER}

${cHead}${tables(library)}${cTail}${operations.map(operationText).join("")}
#ifdef __cplusplus
}
#endif
#endif
`;
  return text.replaceAll("LIB_", `${name}_`);
}
