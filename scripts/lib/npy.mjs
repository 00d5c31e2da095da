/** A float32 matrix as numpy.save writes it: magic, version 1.0, the header's length, the header, the elements. @param {number} rows @param {number} columns */
export function npy(rows, columns) {
  const text = `{'descr': '<f4', 'fortran_order': False, 'shape': (${rows}, ${columns}), }`;
  const header = Buffer.from(`${text.padEnd(117)}\n`);
  const numbers = Float32Array.from({ length: rows * columns }, (_, i) => i % 7);
  return Buffer.concat([
    Buffer.from("\x93NUMPY\x01\x00v\x00", "latin1"),
    header,
    new Uint8Array(numbers.buffer),
  ]);
}
