/** The C launcher: `launchers/c/launcher.h` with the tables of a library in it. */
import {
  type CallerTensor,
  callerTensors,
  type KernelSpec,
  type LaunchExpr,
  launchEnvironment,
  type Manifest,
  type ParamSpec,
  strideNames,
} from "@tilewright/core";
import { imageDevice, imagePath, imagesInOrder } from "@tilewright/runtime";
import type { OutputFile } from "../../files/atomic.ts";
import { constraintText, type ExpressionStyle, namesOf, writeConstraint, writeExpr } from "../expressions.ts";
import type { Library, LibraryArtefact, LibraryOperation } from "../model.ts";
import {
  defaultsOf,
  describeOperation,
  filled,
  hostType,
  inOrder,
  mapNumbers,
  mostSteps,
  mostTensors,
  type OperandRow,
  operandRows,
  packsWeights,
  sizesOf,
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

const integer = (expr: LaunchExpr, as: ExpressionStyle = style): string => writeExpr(expr, as, "integer");

/** How expressions of a kernel are written, and what callers call its operands. */
interface Naming {
  readonly style: ExpressionStyle;
  readonly labelOf: (operand: string) => string;
}

/** Of attention, whose sizes are its kernel's own, values stand for names. */
function namingOf({ request, tensors }: Manifest): Naming {
  if (tensors === undefined) return { style, labelOf: (operand) => operand };
  const values = launchEnvironment(request, { numSms: 0 });
  const labels = new Map<string, string>(
    callerTensors(tensors).map(({ operand, label }) => [operand, label]),
  );
  return {
    style: {
      ...style,
      name: (name) => (name === "numSms" ? style.name(name) : style.integer(values[name] ?? 0)),
    },
    labelOf: (operand) => labels.get(operand) ?? operand,
  };
}
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

/** Where in `LIB_args` an operand's address stands. */
const pointerAt = (name: string): string => {
  const step = stepOf(name);
  return step === null
    ? `offsetof(LIB_args, ${name})`
    : `offsetof(LIB_args, epilogue) + ${step} * sizeof(LIB_pointer)`;
};

/** Statements that put one parameter into its slot. */
function putParam(param: ParamSpec, index: number, { style, labelOf }: Naming): string {
  switch (param.kind) {
    case "pointer":
      if (param.name === "workspace") return `  l->workspace_param = ${index};\n  l->params++;`;
      return `  if ((status = LIB_put_pointer(lib, p, l, ${quote(labelOf(param.name))}, ${pointerAt(param.name)}, ${param.align})) != LIB_OK) return status;`;
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
        list(values.map((value) => `(uint64_t)(${integer(value, style)})`));
      return [
        "  {",
        `    const uint64_t dims[] = ${sizes(map.dims)};`,
        `    const uint64_t strides[] = ${sizes(map.strides.length === 0 ? [0] : map.strides)};`,
        `    const uint32_t box[] = ${list(map.box)};`,
        `    const uint32_t steps[] = ${list(map.elementStrides)};`,
        `    const int tune[] = ${list([type, interleave, swizzle, l2, oob])};`,
        `    if ((status = LIB_put_map(lib, p, l, ${quote(labelOf(map.operand))}, ${pointerAt(map.operand)}, ${map.at ?? 0}, ${map.dims.length}, dims, strides, box, steps, tune)) != LIB_OK) return status;`,
        "  }",
      ].join("\n");
    }
  }
}

const kernelRow = ({ entry, launch }: KernelSpec): string =>
  `{${quote(entry)}, ${list(launch.block)}, ${list(launch.cluster)}, ${launch.dynamicSmem}, ${launch.cooperative ? 1 : 0}}`;

function launchText({ launch, params }: KernelSpec, index: number, naming: Naming): string {
  const [x, y, z] = launch.grid.map((extent) => integer(extent, naming.style));
  return [
    `  l = &p->launch[${index}];`,
    "  l->workspace_param = -1;",
    `  if ((status = LIB_grid(lib, l, ${x}, ${y}, ${z})) != LIB_OK) return status;`,
    ...inOrder(params).map((param, i) => putParam(param, i, naming)),
  ].join("\n");
}

const ruleLetters = { portable: "'p'", family: "'f'", arch: "'a'" } as const;

const extentsRow = ({ shape, strides }: CallerTensor): string => {
  const four = (values: readonly number[]) => list([0, 1, 2, 3].map((i) => values[i] ?? 0));
  return list([shape.length, four(shape), four(strides)]);
};

/** Functions of one artefact: whether it fits, and its launches. */
function artefactText({ manifest, device }: LibraryArtefact, number: number): string {
  const { kernels, workspace, constraints, plan, target } = manifest;
  const rule = `LIB_runs(lib, ${ruleLetters[device.rule]}, ${device.major}, ${device.minor})`;
  const naming = namingOf(manifest);
  const tensors = callerTensors(manifest.tensors ?? []);
  const extents = `static const LIB_extents LIB_extents_${number}[] = ${list(tensors.map(extentsRow))};\n`;
  const lies = [`  if (!LIB_are(v, why, LIB_extents_${number}, ${tensors.length})) return 0;`];
  const wants =
    tensors.length > 0
      ? lies
      : constraints.map((constraint, met) => {
          const [name = ""] = namesOf(constraint);
          const value = name === "" ? "0" : `(double)${style.name(name)}`;
          return `  if (!(${writeConstraint(constraint, style)})) return LIB_unmet(why, ${met}, ${quote(constraintText(constraint))}, ${quote(name)}, ${value});`;
        });
  return `
/* ${target.arch}: ${plan.schedule} */
${tensors.length > 0 ? extents : ""}static inline int LIB_fits_${number}(const LIB_library *lib, const LIB_args *v, LIB_why *why) {
  (void)v, (void)why;
  if (!${rule}) return 0;
${wants.join("\n")}
  return 1;
}
static inline int64_t LIB_workspace_${number}(const LIB_library *lib, const LIB_args *v) {
  (void)lib, (void)v;
  return ${integer(workspace.bytes, naming.style)};
}
static inline int LIB_plan_${number}(LIB_library *lib, const LIB_args *v, LIB_plan *p) {
  LIB_launch *l;
  int status;
  p->workspace = LIB_workspace_${number}(lib, v);
  p->zero = ${zeroing[workspace.init]};
  p->launches = ${kernels.length};
${kernels.map((kernel, i) => launchText(kernel, i, naming)).join("\n")}
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
static inline const LIB_extents *LIB_extents_of(int artefact) {
${selection(library, (i) => `return ${library.artefacts[i]?.manifest.tensors === undefined ? 0 : `LIB_extents_${i}`};`, "return 0;")}
}
static inline int LIB_fits(const LIB_library *lib, int artefact, const LIB_args *v, LIB_why *why) {
${selection(library, (i) => `return LIB_fits_${i}(lib, v, why);`, "return 0;")}
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
const fixedOr = (value: number | "runtime", otherwise: number): number =>
  value === "runtime" ? otherwise : value;

const dtypeText = (dtype: OperandRow["dtype"]): string =>
  dtype === null ? "0" : `LIB_${dtype.toUpperCase()}`;
const extentText = (name: string | null): string => (name === null ? "0" : `'${name}'`);
const memberText = (name: string | null): string => (name === null ? "0" : `offsetof(LIB_args, ${name})`);

function operandText(row: OperandRow) {
  const { name, label, dtype, outer, inner, columnMajor, ld, ldName, strideName } = row;
  const { shared = false, rows = 0 } = row;
  const extents = [extentText(outer), extentText(inner), columnMajor ? 1 : 0, shared ? 1 : 0, ld, rows];
  const members = [pointerAt(name), memberText(ldName), memberText(strideName)];
  return `      ${list([quote(name), quote(label), dtypeText(dtype), ...extents, ...members, 0])},`;
}

const tensorText = ({ operand, label, dtype, axes }: CallerTensor): string =>
  `      ${list([quote(operand), quote(label), dtypeText(hostType(dtype)), 0, 0, 0, 0, 0, 0, pointerAt(operand), 0, 0, quote(axes.join(", "))])},`;

/** What sets a product's arguments; attention's have no sizes. */
function defaultsText({ problem, tensors }: LibraryOperation): readonly string[] {
  if (tensors !== undefined) return ["  args->batch = 1;"];
  const { batch, alpha, beta } = problem;
  const defaults = defaultsOf(problem).flatMap(({ operand, ld, stride }) => [
    `  args->ld${operand} = ${extent(ld)};`,
    `  args->${strideNames[operand]} = ${typeof stride === "number" ? extent(stride) : `args->ld${operand} * ${stride}`};`,
  ]);
  return [
    ...["  args->m = m;", "  args->n = n;", "  args->k = k;"],
    `  args->batch = ${batch.kind === "none" ? 1 : batch.count};`,
    ...defaults,
    `  args->alpha = ${style.real(fixedOr(alpha, 1))};`,
    `  args->beta = ${style.real(fixedOr(beta, 0))};`,
  ];
}

function operationText(operation: LibraryOperation): string {
  const { name, problem, tensors, dispatch } = operation;
  const sizes = sizesOf(operation).map((size) => `, int64_t ${size}`);
  return `
/*
 * ${name}
${describeOperation(operation)
  .map((line) => ` *   ${line}`)
  .join("\n")}
 */
static inline const LIB_operation *LIB_${name}_operation(void) {
  static const int artefacts[] = ${list(dispatch)};
  static const LIB_operand operands[] = {
${(tensors?.map(tensorText) ?? operandRows(problem).map(operandText)).join("\n")}
  };
  static const LIB_operation operation = {${quote(name)}, artefacts, ${dispatch.length}, operands, (int)(sizeof operands / sizeof operands[0])};
  return &operation;
}
LIB_LINKAGE void LIB_${name}_defaults(LIB_args *args${sizes.join("")}) {
  memset(args, 0, sizeof *args);
${defaultsText(operation).join("\n")}
}
/* Sets an operand to a tensor, which is checked. */
LIB_LINKAGE int LIB_${name}_take(LIB_library *lib, LIB_args *args, const char *operand, LIB_tensor tensor) {
  return LIB_take(lib, LIB_${name}_operation(), args, operand, tensor);
}
/* Bytes of workspace that a launch with these arguments takes; 0 where no kernel serves them. */
LIB_LINKAGE int64_t LIB_${name}_workspace(LIB_library *lib, const LIB_args *args) {
  return LIB_workspace_of(lib, LIB_${name}_operation(), args);
}
/* Queues the operation on stream; does not wait. */
LIB_LINKAGE int LIB_${name}(LIB_library *lib, const LIB_args *args, LIB_stream stream) {
  return LIB_dispatch(lib, LIB_${name}_operation(), args, stream);
}
`;
}

/** `NAME.h`, `NAME.hpp` and `NAME.c`. */
export function cLauncher(library: Library): readonly OutputFile[] {
  const { name, artefacts, operations } = library;
  const kernels = artefacts.flatMap(({ manifest }) => manifest.kernels);
  const limits = [
    `#define LIB_STEPS ${mostSteps(library)}`,
    `#define LIB_TENSORS ${mostTensors(library)}`,
    `#define LIB_ARTEFACTS ${artefacts.length}`,
    `#define LIB_KERNELS ${Math.max(...artefacts.map(({ manifest }) => manifest.kernels.length))}`,
    `#define LIB_PARAMS ${Math.max(1, ...kernels.map(({ params }) => params.length))}`,
  ];
  const methods = operations.map(
    (operation) => `  LIB_${operation.tensors === undefined ? "OPERATION" : "ATTENTION"}(${operation.name})`,
  );
  const [first] = operations;
  const usage = {
    SIZES: sizesOf(first)
      .map((size) => `, ${size}`)
      .join(""),
    EXTENTS: sizesOf(first)
      .map((size) => `${size}, `)
      .join(""),
    TAKEN:
      first?.tensors === undefined
        ? '"a", LIB_matrix(address, LIB_F16, m, k)'
        : `"q", LIB_heads(address, LIB_BF16, batch, heads, queries, head_dim)`,
  };
  return [
    {
      path: `${name}.h`,
      data: filled("c/launcher.h", library, {
        ...usage,
        LIMITS: limits.join("\n"),
        TABLES: tables(library),
        WEIGHTS: packsWeights(library) ? filled("c/weights.h", library, {}) : "",
        OPERATIONS: operations.map(operationText).join(""),
      }),
    },
    {
      path: `${name}.hpp`,
      data: filled("c/launcher.hpp", library, { ...usage, METHODS: methods.join("\n") }),
    },
    { path: `${name}.c`, data: filled("c/launcher.c", library, {}) },
  ];
}
