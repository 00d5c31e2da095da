//! Attention from Rust: a right call and a wrong one, beside numbers computed in double precision.
//!
//!   tilewright compile --library out --kernels examples/attention/library.json
//!   python examples/attention/data.py data
//!   cp examples/attention/client.rs out && cc -O2 -c -o heads.o out/heads.c
//!   rustc -O --edition 2021 -C link-arg=heads.o -o client out/client.rs && ./client out data
mod heads;
use heads::{DType, Error, Library, Pointer, Tensor};
use std::ffi::{c_char, c_int, c_void};

const BATCH: i64 = 2;
const HEADS: i64 = 4;
const SHARED: i64 = 2;
const QUERIES: i64 = 64;
const KEYS: i64 = 128;
const DIM: i64 = 64;

extern "C" {
    fn dlopen(name: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// What the client itself takes from the driver: memory and copies.
struct Memory {
    alloc: unsafe extern "C" fn(*mut Pointer, usize) -> c_int,
    put: unsafe extern "C" fn(Pointer, *const c_void, usize) -> c_int,
    get: unsafe extern "C" fn(*mut c_void, Pointer, usize) -> c_int,
}

impl Memory {
    /// Of the driver, which an open library has loaded.
    unsafe fn of_driver() -> Memory {
        let driver = dlopen(c"libcuda.so.1".as_ptr(), 2);
        Memory {
            alloc: std::mem::transmute(dlsym(driver, c"cuMemAlloc_v2".as_ptr())),
            put: std::mem::transmute(dlsym(driver, c"cuMemcpyHtoD_v2".as_ptr())),
            get: std::mem::transmute(dlsym(driver, c"cuMemcpyDtoH_v2".as_ptr())),
        }
    }

    fn upload(&self, data: &[u8], heads: i64, rows: i64) -> Tensor {
        let mut at: Pointer = 0;
        assert_eq!((data.len() as i64, unsafe { (self.alloc)(&mut at, data.len()) }), (BATCH * heads * rows * DIM * 2, 0));
        assert_eq!(unsafe { (self.put)(at, data.as_ptr().cast(), data.len()) }, 0);
        Tensor::heads(at, DType::F16, [BATCH, heads, rows, DIM])
    }
}

fn half(bits: u16) -> f64 {
    let (sign, exponent, fraction) = (if bits >> 15 == 1 { -1.0 } else { 1.0 }, i32::from(bits >> 10 & 31), f64::from(bits & 1023));
    match exponent {
        0 => sign * fraction * 2f64.powi(-24),
        31 => f64::NAN,
        _ => sign * (fraction + 1024.0) * 2f64.powi(exponent - 25),
    }
}

fn attend(library: &mut Library, [q, k, v, out]: [Tensor; 4]) -> Result<(), Error> {
    let mut args = Library::flash_defaults();
    for (name, tensor) in [("q", q), ("k", k), ("v", v), ("out", out)] {
        library.flash_take(&mut args, name, tensor)?;
    }
    unsafe { library.flash(&args, std::ptr::null_mut()) }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let [library, data] = [1, 2].map(|i| std::env::args().nth(i).expect("client LIBRARY DATA"));
    let mut library = Library::open(library, 0)?;
    let memory = unsafe { Memory::of_driver() };
    let read = |name: &str| std::fs::read(format!("{data}/{name}"));
    let want: Vec<f64> = read("out.f64")?.chunks_exact(8).map(|bytes| f64::from_le_bytes(bytes.try_into().unwrap())).collect();
    let mut made = vec![0xffu8; want.len() * 2];
    let mut q = memory.upload(&read("q.f16")?, HEADS, QUERIES);
    let [k, v] = [memory.upload(&read("k.f16")?, SHARED, KEYS), memory.upload(&read("v.f16")?, SHARED, KEYS)];
    let out = memory.upload(&made, HEADS, QUERIES);
    // Twice: the second launch is a known one.
    attend(&mut library, [q, k, v, out])?;
    attend(&mut library, [q, k, v, out])?;
    assert_eq!(unsafe { (memory.get)(made.as_mut_ptr().cast(), out.data, made.len()) }, 0);
    let values = made.chunks_exact(2).map(|bytes| half(u16::from_le_bytes([bytes[0], bytes[1]])));
    let error = values.zip(&want).map(|(value, want)| (value - want).abs()).fold(0.0, |worst, off| if off <= worst { worst } else { off });
    q.shape[2] = QUERIES / 2;
    let refused = attend(&mut library, [q, k, v, out]);
    if let Err(wrong) = &refused {
        println!("refused: {wrong}");
    }
    println!("{} outputs, largest error {error:.2e}", want.len());
    std::process::exit(i32::from(!(error < 0.004 && matches!(refused, Err(Error::NoKernel(_))))));
}
