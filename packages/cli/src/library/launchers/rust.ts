/** The Rust launcher: one module without crates; the driver is found at run time. */
import type { KernelSpec, LaunchExpr, ParamSpec } from "@tilewright/ir";
import { imageDevice, imagePath, imagesInOrder } from "@tilewright/runtime";
import { version } from "../../version.ts";
import { type ExpressionStyle, writeConstraint, writeExpr } from "../expressions.ts";
import type { Library, LibraryArtefact, LibraryOperation } from "../model.ts";
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
import { rustRuntime } from "./rust-runtime.ts";

const style: ExpressionStyle = {
  integer: (value) => (value < 0 ? `(${value}_i64)` : `${value}_i64`),
  real: (value) => (Number.isInteger(value) ? `${value}_f64` : `${value}f64`),
  name: (name) => {
    const step = stepOf(name);
    return name === "numSms" ? "(self.sms as i64)" : step === null ? `v.${name}` : `v.scale[${step}]`;
  },
  toReal: (text) => `(${text} as f64)`,
  call: (name, kind) =>
    name === "min" || name === "max" ? (kind === "real" ? `f64::${name}` : `i64::${name}`) : name,
};

const integer = (expr: LaunchExpr): string => writeExpr(expr, style, "integer");
const list = (values: readonly (string | number)[]): string => `[${values.join(", ")}]`;
const quote = (text: string): string => JSON.stringify(text);
const scalarTypes = { f32: "f32", f64: "f64", u32: "u32", s32: "i32", u64: "u64" } as const;
const zeroing = { none: "Never", zeroOnce: "Once", zeroEach: "Each" } as const;
const rules = { portable: "Portable", family: "Family", arch: "Arch" } as const;

const operandText = (name: string): string => {
  const step = stepOf(name);
  return step === null ? `v.${name}` : `v.epilogue[${step}]`;
};

function putParam(param: ParamSpec): string {
  switch (param.kind) {
    case "pointer":
      if (param.name === "workspace")
        return "                l.workspace_param = Some(l.params.len());\n                l.put(&[0; 8]);";
      return `                l.put_pointer(${quote(param.name)}, ${operandText(param.name)}, ${param.align})?;`;
    case "scalar": {
      const real = param.dtype === "f32" || param.dtype === "f64";
      const value = writeExpr(param.value, style, real ? "real" : "integer");
      return `                l.put(&((${value}) as ${scalarTypes[param.dtype]}).to_le_bytes());`;
    }
    case "tensorMap": {
      const { tensorMap: map } = param;
      const { type, interleave, swizzle, l2, oob } = mapNumbers(map);
      const sizes = (values: readonly LaunchExpr[]) =>
        list(values.map((value) => `(${integer(value)}) as u64`));
      const strides = sizes(map.strides.length === 0 ? [0] : map.strides);
      return `                l.put_map(&self.driver, ${quote(param.name)}, ${operandText(map.operand)}, &${sizes(map.dims)}, &${strides}, &${list(map.box)}, &${list(map.elementStrides)}, ${list([type, interleave, swizzle, l2, oob])})?;`;
    }
    default:
      return param satisfies never;
  }
}

const kernelRow = ({ entry, launch }: KernelSpec): string =>
  `Kernel { entry: ${quote(entry)}, block: ${list(launch.block)}, cluster: ${list(launch.cluster)}, dynamic_smem: ${launch.dynamicSmem}, cooperative: ${launch.cooperative} }`;

function launchText({ launch, params }: KernelSpec): string {
  return [
    `                let mut l = Launch::new(${list(launch.grid.map(integer))})?;`,
    ...inOrder(params).map(putParam),
    "                launches.push(l);",
  ].join("\n");
}

const planArm = ({ manifest }: LibraryArtefact, number: number): string =>
  `            // ${manifest.target.arch}: ${manifest.plan.schedule}
            ${number} => {
${manifest.kernels.map(launchText).join("\n")}
                Zero::${zeroing[manifest.workspace.init]}
            }`;

const fitsArm = ({ manifest, device }: LibraryArtefact, number: number): string => {
  const rule = `self.runs(Rule::${rules[device.rule]}, ${device.major}, ${device.minor})`;
  const conditions = manifest.constraints.map((constraint) => writeConstraint(constraint, style));
  return `            ${number} => ${[rule, ...conditions].join(" && ")},`;
};

function tables({ artefacts }: Library): string {
  const images = artefacts.map(({ manifest, path }, number) => {
    const rows = imagesInOrder(manifest.images).map((image) => {
      const { rule, major, minor } = imageDevice(image);
      return `Image { rule: Rule::${rules[rule]}, major: ${major}, minor: ${minor}, cubin: ${image.format === "cubin"}, path: ${quote(imagePath(path, image))} }`;
    });
    return `        ${number} => &[${rows.join(", ")}],`;
  });
  const kernels = artefacts.map(
    ({ manifest }, number) => `        ${number} => &[${manifest.kernels.map(kernelRow).join(", ")}],`,
  );
  const workspaces = artefacts.map(
    ({ manifest }, number) => `            ${number} => ${integer(manifest.workspace.bytes)},`,
  );
  return `
/// In the order in which they are tried.
fn images(artefact: usize) -> &'static [Image] {
    match artefact {
${images.join("\n")}
        _ => &[],
    }
}

fn kernels(artefact: usize) -> &'static [Kernel] {
    match artefact {
${kernels.join("\n")}
        _ => &[],
    }
}

impl Library {
    fn fits(&self, artefact: usize, v: &Args) -> bool {
        match artefact {
${artefacts.map(fitsArm).join("\n")}
            _ => false,
        }
    }

    #[allow(unused_variables)]
    fn workspace_bytes(&self, artefact: usize, v: &Args) -> i64 {
        match artefact {
${workspaces.join("\n")}
            _ => 0,
        }
    }

    fn plan(&self, artefact: usize, v: &Args) -> Result<Plan, Error> {
        let mut launches = Vec::new();
        let zero = match artefact {
${artefacts.map(planArm).join("\n")}
            _ => return Err(Error::NoKernel("there is no such artefact".into())),
        };
        Ok(Plan { workspace: self.workspace_bytes(artefact, v), zero, launches })
    }
}
`;
}

const strideNames = { a: "strideA", b: "strideB", c: "strideC", d: "strideD" } as const;

function operationText({ name, problem, dispatch }: LibraryOperation): string {
  const { batch, alpha, beta } = problem;
  const defaults = defaultsOf(problem).flatMap(({ operand, ld, stride }) => [
    `        args.ld${operand} = ${ld};`,
    `        args.${strideNames[operand]} = ${typeof stride === "number" ? stride : `args.ld${operand} * ${stride}`};`,
  ]);
  return `
impl Library {
    /// Arguments of \`${name}\` as they are unless told otherwise; operands are to be set.
    pub fn ${name}_defaults(m: i64, n: i64, k: i64) -> Args {
        let mut args = Args { m, n, k, batch: ${batch.kind === "none" ? 1 : batch.count}, alpha: ${style.real(alpha === "runtime" ? 1 : alpha)}, beta: ${style.real(beta === "runtime" ? 0 : beta)}, ..Args::default() };
${defaults.join("\n")}
        args
    }

    /// Bytes of workspace that a launch takes; \`None\` where no kernel serves the arguments.
    pub fn ${name}_workspace(&self, args: &Args) -> Option<u64> {
        let artefact = self.pick(&${list(dispatch)}, args)?;
        Some(self.workspace_bytes(artefact, args) as u64)
    }

    /// Queues the operation on a stream; does not wait.
    ///
${describeOperation(problem)
  .map((line) => `    /// * ${line}`)
  .join("\n")}
    ///
    /// # Safety
    /// The operands must be device memory of the extents that the arguments say, and live until the stream has come past.
    pub unsafe fn ${name}(&mut self, args: &Args, stream: Stream) -> Result<(), Error> {
        self.dispatch("${name}", &${list(dispatch)}, args, stream)
    }
}
`;
}

/** Text of `NAME.rs`. */
export function rustLauncher(library: Library): string {
  const { name, artefacts, operations } = library;
  return `//! Kernel library ${name}, made by tilewright ${version}. Generated: do not edit.
//!
//! \`mod ${name};\` in a crate, no dependency:
//! \`let mut library = ${name}::Library::open("folder of the library", 0)?;\`
//! \`let mut args = ${name}::Library::${operations[0]?.name}_defaults(m, n, k);\`, set its operands, then
//! \`unsafe { library.${operations[0]?.name}(&args, stream)? };\`
//! Rust 1.77 or later.
#![allow(dead_code, unused_parens, clippy::all)]

const STEPS: usize = ${mostSteps(library)};
const ARTEFACTS: usize = ${artefacts.length};
/// Bytes of dynamic shared memory, and blocks of a cluster, that a launch takes without opting in.
const PLAIN_SMEM: u32 = ${PLAIN_SMEM};
const PORTABLE_CLUSTER: u32 = ${PORTABLE_CLUSTER};

${rustRuntime}${tables(library)}${operations.map(operationText).join("")}`;
}
