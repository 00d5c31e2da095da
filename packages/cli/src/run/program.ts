/** What a program over named axes computes of a run's inputs, for the check of every element. */
import { type OperandData, type Reference, type ReferenceInputs, readElement } from "@tilewright/core";
import { type AxisProgram, anchorOf, measureProgram, type Parameter } from "@tilewright/ir";

/** The reference of a program that has been compiled: its parameters are operands of its product. */
export function referenceProgram(source: AxisProgram, { a, b, steps }: ReferenceInputs): Reference {
  const anchor = anchorOf(source);
  if (!anchor.ok) throw new TypeError("a program that was compiled has a product");
  const { operands, stored } = anchor.value;
  const inputs = new Map(
    source.params.flatMap((param) => {
      const operand = operands.get(param.name);
      const step = operand?.startsWith("epilogue") ? steps?.[Number(operand.slice(8))] : undefined;
      const data = operand === "a" ? a : operand === "b" ? b : step;
      return data === undefined || data === null || typeof data === "number"
        ? []
        : [[param.name, valuesOf(source, param, data)] as const];
    }),
  );
  const made = measureProgram(source, inputs).get(stored.param);
  if (made === undefined) throw new TypeError("a program stores its result");
  return {
    rows: Array.from({ length: made.rows }, (_, row) => row),
    d: { values: made.values, bounds: made.bounds },
    sumAbs: new Float64Array(0),
    steps: new Map(),
  };
}

/** A matrix row by row. */
function valuesOf({ axes }: AxisProgram, param: Parameter, data: OperandData): Float64Array {
  const extent = (name: string): number => axes.find((axis) => axis.name === name)?.extent ?? 1;
  const [rows = 1, columns = 1] = param.axes.map(extent);
  return Float64Array.from({ length: rows * columns }, (_, i) => {
    const [row, col] = [Math.floor(i / columns), i % columns];
    return readElement(param.dtype, data, param.layout === "row" ? i : col * rows + row);
  });
}
