//! Kernel library LIB, made by tilewright @VERSION@. Generated: do not edit.
//!
//! `mod LIB;` in a crate that links LIB.c, which lies beside this file (`cc::Build::new().file("LIB.c").compile("LIB")` in build.rs, or
//! `cc -O2 -c LIB.c`):
//! `let mut library = LIB::Library::open("folder of the library", 0)?;`
//! `let mut args = LIB::Library::@FIRST@_defaults(@SIZES@);`, set its operands, then
//! `unsafe { library.@FIRST@(&args, stream)? };`
//! Rust 1.77 or later.
#![allow(dead_code)]

use std::ffi::{c_char, c_int, c_void, CStr, CString};
use std::fmt;
use std::path::Path;

/// Steps of the longest epilogue.
const STEPS: usize = @STEPS@;
/// Tensors of the attention with the most, at least 1.
const TENSORS: usize = @TENSORS@;

/// Address in device memory: a CUdeviceptr.
pub type Pointer = u64;
/// A CUstream; null is the default stream.
pub type Stream = *mut c_void;

/// Why a launch was not made.
#[derive(Debug, Clone, PartialEq)]
pub enum Error {
    /// No kernel of the library serves these arguments on this GPU.
    NoKernel(String),
    /// An operand is missing, not what the kernels take, or not aligned; or the workspace is too small.
    BadArgument(String),
    /// An image cannot be read.
    NoFile(String),
    /// No libcuda, or one without a function that is needed.
    NoDriver(String),
    /// What the driver says: a CUresult.
    Cuda(i32, String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NoKernel(text) | Error::BadArgument(text) | Error::NoFile(text) | Error::NoDriver(text) => write!(f, "{text}"),
            Error::Cuda(status, text) => write!(f, "{text} (CUDA error {status})"),
        }
    }
}

impl std::error::Error for Error {}

/// Types of elements, by the numbers of LIB.h.
#[repr(i32)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum DType {
    F16 = 1,
    Bf16,
    F32,
    F64,
    S8,
    U8,
    S32,
    E4m3,
    E5m2,
}

/// Device memory with what is known of it. Strides are in elements; of a batch the first dimension counts matrices.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Tensor {
    pub data: Pointer,
    pub dtype: DType,
    /// The GPU's number, or -1 where it is not known.
    pub device: c_int,
    pub rank: c_int,
    pub shape: [i64; 4],
    pub stride: [i64; 4],
}

impl Tensor {
    /// A row-major matrix without padding.
    pub fn matrix(data: Pointer, dtype: DType, rows: i64, columns: i64) -> Tensor {
        Tensor { data, dtype, device: -1, rank: 2, shape: [rows, columns, 0, 0], stride: [columns, 1, 0, 0] }
    }
    pub fn vector(data: Pointer, dtype: DType, length: i64) -> Tensor {
        Tensor { data, dtype, device: -1, rank: 1, shape: [length, 0, 0, 0], stride: [1, 0, 0, 0] }
    }
    /// Batch, heads, rows and columns, packed.
    pub fn heads(data: Pointer, dtype: DType, shape: [i64; 4]) -> Tensor {
        let [_, heads, rows, columns] = shape;
        Tensor { data, dtype, device: -1, rank: 4, shape, stride: [heads * rows * columns, rows * columns, columns, 1] }
    }
}

/// Shape and strides of a tensor, in elements.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Extents {
    pub rank: i64,
    pub shape: [i64; 4],
    pub stride: [i64; 4],
}

/// Arguments of every operation, `LIB_args` of LIB.h; start from the operation's defaults.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
#[allow(non_snake_case)]
pub struct Args {
    pub m: i64,
    pub n: i64,
    pub k: i64,
    pub batch: i64,
    /// Leading dimensions, in elements.
    pub lda: i64,
    pub ldb: i64,
    pub ldc: i64,
    pub ldd: i64,
    /// Elements between matrices of a batch.
    pub strideA: i64,
    pub strideB: i64,
    pub strideC: i64,
    pub strideD: i64,
    /// Of attention's operands, as they were taken; of rank 0 they are a kernel's own.
    pub tensor: [Extents; TENSORS],
    pub a: Pointer,
    pub b: Pointer,
    pub c: Pointer,
    pub d: Pointer,
    /// Scale factors; of packed weights `sfb`.
    pub sfa: Pointer,
    pub sfb: Pointer,
    /// Of experts: an int32 each, where its rows end, or how many there are.
    pub groups: Pointer,
    /// What step i of the epilogue reads or writes.
    pub epilogue: [Pointer; STEPS],
    pub alpha: f64,
    pub beta: f64,
    /// The number of step i, where it takes one.
    pub scale: [f64; STEPS],
    /// Optional, else 0: every launch then allocates on its stream. Zero it before its first use, and when another operation or other sizes
    /// come to use it; one launch at a time may do so.
    pub workspace: Pointer,
    pub workspace_bytes: u64,
}

/// `LIB_library`, whose size is LIB.c's business.
#[repr(C)]
struct Raw {
    _private: [u8; 0],
}

extern "C" {
    #[link_name = "LIB_new"]
    fn raw_new() -> *mut Raw;
    #[link_name = "LIB_delete"]
    fn raw_delete(library: *mut Raw);
    #[link_name = "LIB_open"]
    fn raw_open(library: *mut Raw, folder: *const c_char, device: c_int) -> c_int;
    #[link_name = "LIB_last_error"]
    fn raw_last_error(library: *const Raw) -> *const c_char;
}

/// The kernels of the library on one GPU. They are loaded at their first launch; one thread at a time may use it.
pub struct Library {
    raw: *mut Raw,
}

impl Library {
    /// Opens the library that lies in folder, for GPU number device; its primary context becomes the current one.
    pub fn open(folder: impl AsRef<Path>, device: i32) -> Result<Library, Error> {
        let path = CString::new(folder.as_ref().to_string_lossy().as_bytes()).map_err(|error| Error::NoFile(error.to_string()))?;
        let raw = unsafe { raw_new() };
        if raw.is_null() {
            return Err(Error::NoFile("there is no memory for a library".into()));
        }
        let library = Library { raw };
        library.checked(unsafe { raw_open(raw, path.as_ptr(), device) })?;
        Ok(library)
    }

    /// A status of LIB.h as a result.
    fn checked(&self, status: c_int) -> Result<(), Error> {
        if status == 0 {
            return Ok(());
        }
        let text = unsafe { CStr::from_ptr(raw_last_error(self.raw)) }.to_string_lossy().into_owned();
        Err(match status {
            -1 => Error::NoKernel(text),
            -2 => Error::BadArgument(text),
            -3 => Error::NoFile(text),
            -4 => Error::NoDriver(text),
            status => Error::Cuda(status, text),
        })
    }
}

impl Drop for Library {
    /// Unloads the kernels: the streams that they were launched on must have come past.
    fn drop(&mut self) {
        unsafe { raw_delete(self.raw) };
    }
}

/// An operation: its functions here, and the names that LIB.c gives them.
macro_rules! operation {
    ($(#[$about:meta])* $launch:ident($($size:ident),*) $defaults:ident $take:ident $workspace:ident: $c_launch:literal $c_defaults:literal $c_take:literal $c_workspace:literal) => {
        impl Library {
            /// Arguments as they are unless told otherwise; operands are to be set.
            pub fn $defaults($($size: i64),*) -> Args {
                extern "C" {
                    #[link_name = $c_defaults]
                    fn defaults(args: *mut Args $(, $size: i64)*);
                }
                let mut args = Args::default();
                unsafe { defaults(&mut args $(, $size)*) };
                args
            }

            /// Sets an operand ("a", "d", "epilogue0", ..., or its label) to a tensor, whose dtype, GPU, shape and strides are checked.
            pub fn $take(&mut self, args: &mut Args, operand: &str, tensor: Tensor) -> Result<(), Error> {
                extern "C" {
                    #[link_name = $c_take]
                    fn take(library: *mut Raw, args: *mut Args, operand: *const c_char, tensor: Tensor) -> c_int;
                }
                let name = CString::new(operand).unwrap_or_default();
                self.checked(unsafe { take(self.raw, args, name.as_ptr(), tensor) })
            }

            /// Bytes of workspace that a launch takes; 0 where no kernel serves the arguments.
            pub fn $workspace(&self, args: &Args) -> u64 {
                extern "C" {
                    #[link_name = $c_workspace]
                    fn workspace(library: *mut Raw, args: *const Args) -> i64;
                }
                unsafe { workspace(self.raw, args) as u64 }
            }

            /// Queues the operation on a stream; does not wait.
            ///
            $(#[$about])*
            ///
            /// # Safety
            /// The operands must be device memory of the extents that the arguments say, and live until the stream has come past.
            pub unsafe fn $launch(&mut self, args: &Args, stream: Stream) -> Result<(), Error> {
                extern "C" {
                    #[link_name = $c_launch]
                    fn launch(library: *mut Raw, args: *const Args, stream: Stream) -> c_int;
                }
                self.checked(launch(self.raw, args, stream))
            }
        }
    };
}

// @WEIGHTS@

// @OPERATIONS@
