/* Bits of a whole number from 0 to 15 in an element of A's dtype, a LIB_F16 or LIB_BF16. */
static inline uint16_t LIB_small(int dtype, int number) {
  const int mantissa = dtype == LIB_F16 ? 10 : 7, bias = dtype == LIB_F16 ? 15 : 127;
  int exponent = 0;
  if (number == 0) return 0;
  while (number >> (exponent + 1)) exponent++;
  return (uint16_t)(((bias + exponent) << mantissa) | ((number << (mantissa - exponent)) & ((1 << mantissa) - 1)));
}

/*
 * Weights in the order that kernels read, fragments-16x64. Of n rows of k codes from 0 to 15, a byte each, and n rows of k / group scales, the bits of
 * elements of A's dtype (LIB_F16 or LIB_BF16), it makes b, n * k / 2 bytes, and sfb, n * k / group elements, twice as many with zeros: n rows of k / group
 * zero points from 0 to 15, or a null pointer. All of it lies in the host's memory. LIB_BAD_ARGUMENT where n is no multiple of 16, k none of 64 and of
 * group, or a code or zero point beyond 15.
 */
LIB_LINKAGE int LIB_pack_weights(int64_t n, int64_t k, int64_t group, int dtype, const uint8_t *codes, const uint16_t *scales, const uint8_t *zeros,
                                 uint8_t *b, uint16_t *sfb) {
  const int64_t groups = group > 0 ? k / group : 0;
  int64_t row, at;
  if (n <= 0 || k <= 0 || group <= 0 || n % 16 || k % 64 || k % group || (dtype != LIB_F16 && dtype != LIB_BF16)) return LIB_BAD_ARGUMENT;
  memset(b, 0, (size_t)(n * k / 2));
  for (row = 0; row < n; row++) {
    for (at = 0; at < k; at++) {
      /* Blocks of 16 rows by 64 along k, 512 bytes; in one 16 bytes for each lane, a word for each run of 16 along k. */
      const int64_t lane = row % 8 * 4 + at % 8 / 2, word = (row / 16 * (k / 64) + at / 64) * 128 + lane * 4 + at % 64 / 16;
      const int bit = (int)(4 * (row % 16 / 8 + 2 * (at % 16 / 8)) + 16 * (at % 2)), code = codes[row * k + at];
      if (code > 15) return LIB_BAD_ARGUMENT;
      b[4 * word + bit / 8] = (uint8_t)(b[4 * word + bit / 8] | code << bit % 8);
    }
    for (at = 0; at < groups; at++) {
      sfb[at * n + row] = scales[row * groups + at];
      if (!zeros) continue;
      if (zeros[row * groups + at] > 15) return LIB_BAD_ARGUMENT;
      sfb[(groups + at) * n + row] = LIB_small(dtype, zeros[row * groups + at]);
    }
  }
  return LIB_OK;
}
