/// Weights in the order that kernels read, as `LIB_pack_weights` of LIB.h: bytes of `b` and elements of `sfb`, from n rows of k codes (`weights`: `DType::U8` of codes from 0 to 15, `DType::S8`
/// or `DType::E4m3` of such bytes) and n rows of k / group scales, the bits of elements of A's dtype (`DType::F16` or `DType::Bf16`), and of as many zero points where there are any.
pub fn pack_weights(
    [n, k]: [usize; 2],
    group: usize,
    weights: DType,
    dtype: DType,
    codes: &[u8],
    scales: &[u16],
    zeros: Option<&[u8]>,
) -> Result<(Vec<u8>, Vec<u16>), Error> {
    extern "C" {
        #[link_name = "LIB_pack_weights"]
        fn pack(
            n: i64,
            k: i64,
            group: i64,
            weights: c_int,
            dtype: c_int,
            codes: *const u8,
            scales: *const u16,
            zeros: *const u8,
            b: *mut u8,
            sfb: *mut u16,
        ) -> c_int;
    }
    let groups = if group == 0 { 0 } else { k / group };
    let whole = codes.len() == n * k && scales.len() == n * groups && zeros.map_or(true, |zeros| zeros.len() == n * groups);
    let (mut b, mut sfb) = (vec![0; if weights == DType::U8 { n * k / 2 } else { n * k }], vec![0; n * groups * if zeros.is_some() { 2 } else { 1 }]);
    let points = zeros.map_or(std::ptr::null(), |zeros| zeros.as_ptr());
    let (sizes, given, made) = ((n as i64, k as i64, group as i64), (codes.as_ptr(), scales.as_ptr()), (b.as_mut_ptr(), sfb.as_mut_ptr()));
    if whole && unsafe { pack(sizes.0, sizes.1, sizes.2, weights as c_int, dtype as c_int, given.0, given.1, points, made.0, made.1) } == 0 {
        return Ok((b, sfb));
    }
    let what = format!("{n} x {k} weights in groups of {group}: no whole blocks of 16 x 64, other lengths, codes or zero points that there are not, or scales from 2^19 on in bf16");
    Err(Error::BadArgument(what))
}
