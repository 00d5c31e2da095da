/** The IR is the truth: the text of any stage leads to the kernel that it was printed from. */
import { formatDiagnostic } from "@tilewright/core";
import { type Artifact, type Backend, createCompiler, printProgram, type TileProgram } from "@tilewright/ir";

/** The last program of each stage that an artefact went through, in their order. */
export const stagePrograms = ({ trace }: Artifact): readonly TileProgram[] => [
  ...new Map(trace.map(({ program }) => [program.stage, program])).values(),
];

/**
 * What is wrong with the texts of an artefact's stages, each fed back to the compiler: reasons why one is refused, or that its PTX is another. All stages
 * with `all`, else one, by the seed.
 */
export function truthFaults(
  backend: Backend,
  artifact: Artifact,
  seed: number,
  all: boolean,
): readonly string[] {
  const programs = stagePrograms(artifact);
  const compiler = createCompiler({ backends: [backend] });
  return programs.flatMap((program, i) => {
    if (!all && i !== seed % programs.length) return [];
    const again = compiler.compile({ from: printProgram(program), target: artifact.target });
    const where = `text of stage ${program.stage}`;
    if (!again.ok) return again.error.map((found) => `${where}: ${formatDiagnostic(found)}`);
    return again.value.ptx === artifact.ptx ? [] : [`${where}: leads to other PTX`];
  });
}
