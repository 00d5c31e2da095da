/* Bits of a whole number from -128 to 127 in an element of A's dtype, a LIB_F16 or LIB_BF16. */
static inline uint16_t LIB_small(int dtype, int number) {
  const int mantissa = dtype == LIB_F16 ? 10 : 7, bias = dtype == LIB_F16 ? 15 : 127, sign = number < 0 ? 0x8000 : 0;
  int exponent = 0;
  if (number == 0) return 0;
  if (number < 0) number = -number;
  while (number >> (exponent + 1)) exponent++;
  return (uint16_t)(sign | ((bias + exponent) << mantissa) | ((number << (mantissa - exponent)) & ((1 << mantissa) - 1)));
}

/*
 * Weights in the order that kernels read. Of n rows of k codes, a byte each, and n rows of k / group scales, the bits of elements of A's dtype (LIB_F16 or
 * LIB_BF16), it makes b and sfb. Codes are LIB_U8: of s4 or e2m1, from 0 to 15, fragments-16x64, for b n * k / 2 bytes; LIB_S8 or LIB_E4M3: of that type,
 * fragments-16x32, n * k bytes. sfb has n * k / group elements, twice as many with zeros: n rows of k / group zero points, of s4 from 0 to 15, of s8 signed
 * bytes, or a null pointer, as for floats. All of it lies in the host's memory. LIB_BAD_ARGUMENT where n is no multiple of 16, k none of 64 and of group, a
 * code or zero point of s4 is beyond 15, e4m3 has zeros, one of its codes is a NaN, or a scale in bf16 is 2^19 or more, of which kernels would make infinity.
 */
LIB_LINKAGE int LIB_pack_weights(int64_t n, int64_t k, int64_t group, int weights, int dtype, const uint8_t *codes, const uint16_t *scales,
                                 const uint8_t *zeros, uint8_t *b, uint16_t *sfb) {
  const int64_t groups = group > 0 ? k / group : 0;
  /* Bits of a code, codes in half a word, and the length of a block along k. */
  const int bits = weights == LIB_U8 ? 4 : 8, fields = 16 / bits, length = 16 * fields;
  int64_t row, at;
  if (n <= 0 || k <= 0 || group <= 0 || n % 16 || k % 64 || k % group || (dtype != LIB_F16 && dtype != LIB_BF16)) return LIB_BAD_ARGUMENT;
  if ((weights != LIB_U8 && weights != LIB_S8 && weights != LIB_E4M3) || (weights == LIB_E4M3 && zeros)) return LIB_BAD_ARGUMENT;
  memset(b, 0, (size_t)(n * k * bits / 8));
  for (row = 0; row < n; row++) {
    for (at = 0; at < k; at++) {
      /* Blocks of 512 bytes; in one 16 for each lane, a word, or two, for each run of 16 along k. */
      const int pair = (int)(row % 16 / 8 + 2 * (at % 16 / 8)), code = codes[row * k + at];
      const int64_t lane = row % 8 * 4 + at % 8 / 2, run = at % length / 16 * (4 / fields) + pair / fields;
      const int64_t word = (row / 16 * (k / length) + at / length) * 128 + lane * 4 + run;
      const int bit = (int)(bits * (pair % fields) + 16 * (at % 2));
      if ((bits == 4 && code > 15) || (weights == LIB_E4M3 && (code & 127) == 127)) return LIB_BAD_ARGUMENT;
      b[4 * word + bit / 8] = (uint8_t)(b[4 * word + bit / 8] | code << bit % 8);
    }
    for (at = 0; at < groups; at++) {
      const int magnitude = scales[row * groups + at] & 0x7fff;
      /* From 2^19 to infinity. */
      if (dtype == LIB_BF16 && magnitude >= 0x4900 && magnitude <= 0x7f80) return LIB_BAD_ARGUMENT;
      sfb[at * n + row] = scales[row * groups + at];
      if (!zeros) continue;
      if (bits == 4 && zeros[row * groups + at] > 15) return LIB_BAD_ARGUMENT;
      sfb[(groups + at) * n + row] = LIB_small(dtype, bits == 4 ? zeros[row * groups + at] : (int8_t)zeros[row * groups + at]);
    }
  }
  return LIB_OK;
}
