/** What a launch knows the parameters of a program over named axes as. */
import { type ManifestTensor, storedIn } from "@tilewright/core";
import { anchorOf } from "./anchor.ts";
import { type AxisProgram, axisOf, memoryExtent } from "./types.ts";

/** The parameters, in the order of the program: operands, and axes with extents and strides in elements. Empty where the program is none that is scheduled. */
export function tensorsOf(program: AxisProgram): readonly ManifestTensor[] {
  const anchor = anchorOf(program);
  if (!anchor.ok) return [];
  return program.params.flatMap(({ name, dtype, memory }): readonly ManifestTensor[] => {
    const operand = anchor.value.operands.get(name);
    const axes = memory.map(({ axis, stride }) => ({
      name: axis,
      extent: memoryExtent(axisOf(program, axis)),
      stride,
    }));
    if (operand === undefined) return [];
    return [{ name, operand: storedIn(anchor.value.launched, operand), dtype, axes }];
  });
}
