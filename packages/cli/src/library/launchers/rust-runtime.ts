/** The part of a Rust launcher that does not depend on its kernels. */
export const rustRuntime = `use std::ffi::{c_char, c_int, c_void, CStr, CString};
use std::fmt;
use std::path::{Path, PathBuf};

/// Address in device memory: a CUdeviceptr.
pub type Pointer = u64;
/// A CUstream; null is the default stream.
pub type Stream = *mut c_void;

/// Why a launch was not made.
#[derive(Debug, Clone, PartialEq)]
pub enum Error {
    /// No kernel of the library serves these arguments on this GPU.
    NoKernel(String),
    /// An operand is missing or not aligned, or the workspace is too small.
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

/// Arguments of every operation; start from the operation's defaults.
#[derive(Debug, Clone, Default)]
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
    pub a: Pointer,
    pub b: Pointer,
    pub c: Pointer,
    pub d: Pointer,
    /// What step i of the epilogue reads or writes.
    pub epilogue: [Pointer; STEPS],
    pub alpha: f64,
    pub beta: f64,
    /// The number of step i, where it takes one.
    pub scale: [f64; STEPS],
    /// Optional: address and bytes. Without it every launch allocates on its stream. 
    /// Zero it before its first use, and when another operation or other sizes come to use it; one launch at a time may do so.
    pub workspace: Option<(Pointer, u64)>,
}

#[derive(Clone, Copy, PartialEq)]
enum Rule {
    Portable,
    Family,
    Arch,
}

struct Image {
    rule: Rule,
    major: i32,
    minor: i32,
    cubin: bool,
    /// Below the library's folder.
    path: &'static str,
}

struct Kernel {
    entry: &'static str,
    block: [u32; 3],
    cluster: [u32; 3],
    dynamic_smem: u32,
    cooperative: bool,
}

/// Bytes of one parameter; tensor maps are the widest, and the driver wants them aligned to 64.
#[repr(C, align(64))]
struct Slot([u8; 128]);

struct Launch {
    grid: [u32; 3],
    params: Vec<Slot>,
    workspace_param: Option<usize>,
}

#[derive(PartialEq)]
enum Zero {
    Never,
    Once,
    Each,
}

struct Plan {
    workspace: i64,
    zero: Zero,
    launches: Vec<Launch>,
}

/// CUlaunchAttribute and CUlaunchConfig of cuda.h.
#[repr(C)]
#[derive(Default, Clone, Copy)]
struct Attribute {
    id: u32,
    pad: u32,
    value: [u32; 16],
}
#[repr(C)]
struct Config {
    grid: [u32; 3],
    block: [u32; 3],
    dynamic_smem: u32,
    stream: Stream,
    attributes: *const Attribute,
    count: u32,
}

#[cfg(unix)]
extern "C" {
    fn dlopen(name: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}
#[cfg(windows)]
#[link(name = "kernel32")]
extern "system" {
    fn LoadLibraryA(name: *const c_char) -> *mut c_void;
    fn GetProcAddress(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

#[cfg(unix)]
unsafe fn open_driver() -> *mut c_void {
    dlopen(c"libcuda.so.1".as_ptr(), 2) // RTLD_NOW
}
#[cfg(windows)]
unsafe fn open_driver() -> *mut c_void {
    LoadLibraryA(c"nvcuda.dll".as_ptr())
}
#[cfg(unix)]
unsafe fn symbol(library: *mut c_void, name: &CStr) -> *mut c_void {
    dlsym(library, name.as_ptr())
}
#[cfg(windows)]
unsafe fn symbol(library: *mut c_void, name: &CStr) -> *mut c_void {
    GetProcAddress(library, name.as_ptr())
}

/// Declares the driver's functions: a struct of pointers, and how they are found.
macro_rules! driver {
    ($($name:ident: fn($($argument:ty),*)),* $(,)?) => {
        #[allow(non_snake_case)]
        struct Driver { $($name: Option<unsafe extern "C" fn($($argument),*) -> c_int>),* }
        impl Driver {
            fn open() -> Result<Driver, Error> {
                unsafe {
                    let library = open_driver();
                    if library.is_null() {
                        return Err(Error::NoDriver("no NVIDIA driver: libcuda cannot be loaded".into()));
                    }
                    // The driver exports the second version of this function under another name.
                    Ok(Driver { $($name: {
                        let name = match stringify!($name) { "cuDevicePrimaryCtxRelease" => "cuDevicePrimaryCtxRelease_v2", other => other };
                        let found = symbol(library, &CString::new(name).unwrap_or_default());
                        if found.is_null() { None } else { Some(std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($argument),*) -> c_int>(found)) }
                    }),* })
                }
            }
        }
    };
}

driver! {
    cuInit: fn(u32),
    cuDeviceGet: fn(*mut c_int, c_int),
    cuDeviceGetAttribute: fn(*mut c_int, c_int, c_int),
    cuDevicePrimaryCtxRetain: fn(*mut *mut c_void, c_int),
    cuDevicePrimaryCtxRelease: fn(c_int),
    cuCtxSetCurrent: fn(*mut c_void),
    cuModuleLoadData: fn(*mut *mut c_void, *const c_void),
    cuModuleUnload: fn(*mut c_void),
    cuModuleGetFunction: fn(*mut *mut c_void, *mut c_void, *const c_char),
    cuFuncSetAttribute: fn(*mut c_void, c_int, c_int),
    cuLaunchKernelEx: fn(*const Config, *mut c_void, *mut *mut c_void, *mut *mut c_void),
    cuMemAllocAsync: fn(*mut u64, usize, Stream),
    cuMemFreeAsync: fn(u64, Stream),
    cuMemsetD8Async: fn(u64, u8, usize, Stream),
    cuTensorMapEncodeTiled: fn(*mut c_void, c_int, u32, *mut c_void, *const u64, *const u64, *const u32, *const u32, c_int, c_int, c_int, c_int),
    cuGetErrorString: fn(c_int, *mut *const c_char),
}

/// Calls a function of the driver; what is not 0 is an error.
macro_rules! cuda {
    ($driver:expr, $name:ident($($argument:expr),*)) => {
        match $driver.$name {
            None => Err(Error::NoDriver(concat!("the driver lacks ", stringify!($name)).into())),
            Some(function) => match unsafe { function($($argument),*) } {
                0 => Ok(()),
                status => Err($driver.error(stringify!($name), status)),
            },
        }
    };
}

impl Driver {
    fn error(&self, what: &str, status: c_int) -> Error {
        let mut text: *const c_char = std::ptr::null();
        if let Some(function) = self.cuGetErrorString {
            unsafe { function(status, &mut text) };
        }
        let said = if text.is_null() { "CUDA error".into() } else { unsafe { CStr::from_ptr(text) }.to_string_lossy() };
        Error::Cuda(status, format!("{what}: {said}"))
    }
}

struct Module {
    handle: *mut c_void,
    functions: Vec<*mut c_void>,
}

/// The kernels of the library on one GPU. They are loaded at their first launch; one thread at a time may use it.
pub struct Library {
    driver: Driver,
    folder: PathBuf,
    device: c_int,
    major: i32,
    minor: i32,
    sms: i32,
    modules: Vec<Option<Module>>,
}

fn floor_div(a: i64, b: i64) -> i64 {
    a.div_euclid(b)
}
fn ceil_div(a: i64, b: i64) -> i64 {
    -(-a).div_euclid(b)
}
fn floor_mod(a: i64, b: i64) -> i64 {
    a.rem_euclid(b)
}

impl Launch {
    fn new(grid: [i64; 3]) -> Result<Launch, Error> {
        let most = [2147483647, 65535, 65535];
        if grid.iter().zip(most).any(|(&extent, most)| extent < 1 || extent > most) {
            return Err(Error::BadArgument(format!("no GPU launches a grid of {grid:?}")));
        }
        Ok(Launch { grid: grid.map(|extent| extent as u32), params: Vec::new(), workspace_param: None })
    }

    fn put(&mut self, bytes: &[u8]) {
        let mut slot = Slot([0; 128]);
        slot.0[..bytes.len()].copy_from_slice(bytes);
        self.params.push(slot);
    }

    fn put_pointer(&mut self, name: &str, value: Pointer, align: u64) -> Result<(), Error> {
        if value == 0 {
            return Err(Error::BadArgument(format!("an operand is missing: {name}")));
        }
        if value % align != 0 {
            return Err(Error::BadArgument(format!("{name} is not aligned to {align} bytes, as the kernel needs it")));
        }
        self.put(&value.to_le_bytes());
        Ok(())
    }

    /// tune: CUtensorMapDataType, interleave, swizzle, L2 promotion, fill.
    #[allow(clippy::too_many_arguments)]
    fn put_map(&mut self, driver: &Driver, name: &str, base: Pointer, dims: &[u64], strides: &[u64], box_: &[u32], steps: &[u32], tune: [c_int; 5]) -> Result<(), Error> {
        if base == 0 {
            return Err(Error::BadArgument(format!("an operand is missing: {name}")));
        }
        let mut slot = Slot([0; 128]);
        cuda!(driver, cuTensorMapEncodeTiled(slot.0.as_mut_ptr().cast(), tune[0], dims.len() as u32, base as *mut c_void,
            dims.as_ptr(), strides.as_ptr(), box_.as_ptr(), steps.as_ptr(), tune[1], tune[2], tune[3], tune[4]))?;
        self.params.push(slot);
        Ok(())
    }
}

impl Library {
    /// Opens the library that lies in folder, for GPU number device; its primary context becomes the current one.
    pub fn open(folder: impl AsRef<Path>, device: i32) -> Result<Library, Error> {
        let driver = Driver::open()?;
        let (mut number, mut context) = (0, std::ptr::null_mut());
        cuda!(driver, cuInit(0))?;
        cuda!(driver, cuDeviceGet(&mut number, device))?;
        cuda!(driver, cuDevicePrimaryCtxRetain(&mut context, number))?;
        cuda!(driver, cuCtxSetCurrent(context))?;
        // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, _MINOR, _MULTIPROCESSOR_COUNT
        let mut found = [0; 3];
        for (value, attribute) in found.iter_mut().zip([75, 76, 16]) {
            cuda!(driver, cuDeviceGetAttribute(value, attribute, number))?;
        }
        let [major, minor, sms] = found;
        let modules = (0..ARTEFACTS).map(|_| None).collect();
        Ok(Library { driver, folder: folder.as_ref().into(), device: number, major, minor, sms, modules })
    }

    fn runs(&self, rule: Rule, major: i32, minor: i32) -> bool {
        match rule {
            Rule::Portable => (self.major, self.minor) >= (major, minor),
            Rule::Family => self.major == major && self.minor >= minor,
            Rule::Arch => (self.major, self.minor) == (major, minor),
        }
    }

    fn load(&mut self, artefact: usize) -> Result<(), Error> {
        if self.modules[artefact].is_some() {
            return Ok(());
        }
        let mut failure = Error::NoKernel("no image of the kernel runs on this GPU".into());
        for image in images(artefact) {
            if !self.runs(image.rule, image.major, image.minor) {
                continue;
            }
            let path = self.folder.join(image.path);
            let mut data = std::fs::read(&path).map_err(|error| Error::NoFile(format!("{}: {error}", path.display())))?;
            data.push(0); // ends PTX
            let mut handle = std::ptr::null_mut();
            match cuda!(self.driver, cuModuleLoadData(&mut handle, data.as_ptr().cast())) {
                Ok(()) => return self.keep(artefact, handle),
                // A driver may be too old for a cubin and still take the PTX.
                Err(error) if image.cubin => failure = error,
                Err(error) => return Err(error),
            }
        }
        Err(failure)
    }

    fn keep(&mut self, artefact: usize, handle: *mut c_void) -> Result<(), Error> {
        let mut functions = Vec::new();
        for kernel in kernels(artefact) {
            let mut function = std::ptr::null_mut();
            let entry = CString::new(kernel.entry).unwrap_or_default();
            cuda!(self.driver, cuModuleGetFunction(&mut function, handle, entry.as_ptr()))?;
            // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, _NON_PORTABLE_CLUSTER_SIZE_ALLOWED
            if kernel.dynamic_smem > PLAIN_SMEM {
                cuda!(self.driver, cuFuncSetAttribute(function, 8, kernel.dynamic_smem as c_int))?;
            }
            if kernel.cluster.iter().product::<u32>() > PORTABLE_CLUSTER {
                cuda!(self.driver, cuFuncSetAttribute(function, 14, 1))?;
            }
            functions.push(function);
        }
        self.modules[artefact] = Some(Module { handle, functions });
        Ok(())
    }

    fn start(&self, kernel: &Kernel, function: *mut c_void, launch: &mut Launch, stream: Stream) -> Result<(), Error> {
        let mut attributes = [Attribute::default(); 2];
        let mut count = 0;
        if kernel.cluster.iter().product::<u32>() > 1 {
            attributes[count].id = 4; // CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
            attributes[count].value[..3].copy_from_slice(&kernel.cluster);
            count += 1;
        }
        if kernel.cooperative {
            attributes[count].id = 2; // CU_LAUNCH_ATTRIBUTE_COOPERATIVE
            attributes[count].value[0] = 1;
            count += 1;
        }
        let config = Config {
            grid: launch.grid,
            block: kernel.block,
            dynamic_smem: kernel.dynamic_smem,
            stream,
            attributes: attributes.as_ptr(),
            count: count as u32,
        };
        let mut params: Vec<*mut c_void> = launch.params.iter_mut().map(|slot| slot.0.as_mut_ptr().cast()).collect();
        cuda!(self.driver, cuLaunchKernelEx(&config, function, params.as_mut_ptr(), std::ptr::null_mut()))
    }

    fn run(&mut self, artefact: usize, args: &Args, stream: Stream) -> Result<(), Error> {
        let mut plan = self.plan(artefact, args)?;
        self.load(artefact)?;
        let bytes = plan.workspace.max(0) as u64;
        let mut own = 0;
        let workspace = match args.workspace {
            _ if bytes == 0 => 0,
            None => {
                cuda!(self.driver, cuMemAllocAsync(&mut own, bytes as usize, stream))?;
                own
            }
            Some((_, given)) if given < bytes => {
                return Err(Error::BadArgument(format!("the workspace has {given} bytes and {bytes} are needed")));
            }
            Some((address, _)) => address,
        };
        let done = self.run_on(artefact, &mut plan, workspace, own != 0, stream);
        if own != 0 {
            let freed = cuda!(self.driver, cuMemFreeAsync(own, stream));
            return done.and(freed);
        }
        done
    }

    fn run_on(&self, artefact: usize, plan: &mut Plan, workspace: Pointer, own: bool, stream: Stream) -> Result<(), Error> {
        if workspace != 0 && (plan.zero == Zero::Each || (plan.zero == Zero::Once && own)) {
            cuda!(self.driver, cuMemsetD8Async(workspace, 0, plan.workspace as usize, stream))?;
        }
        let Some(module) = &self.modules[artefact] else { return Ok(()) };
        for ((kernel, launch), &function) in kernels(artefact).iter().zip(&mut plan.launches).zip(&module.functions) {
            if let Some(slot) = launch.workspace_param {
                launch.params[slot].0[..8].copy_from_slice(&workspace.to_le_bytes());
            }
            self.start(kernel, function, launch, stream)?;
        }
        Ok(())
    }

    /// The first artefact that this GPU runs and whose constraints hold.
    fn pick(&self, artefacts: &[usize], args: &Args) -> Option<usize> {
        artefacts.iter().copied().find(|&artefact| self.fits(artefact, args))
    }

    fn dispatch(&mut self, operation: &str, artefacts: &[usize], args: &Args, stream: Stream) -> Result<(), Error> {
        match self.pick(artefacts, args) {
            Some(artefact) => self.run(artefact, args, stream),
            None => Err(Error::NoKernel(format!(
                "{operation} has no kernel for m={} n={} k={} batch={} on compute capability {}.{}",
                args.m, args.n, args.k, args.batch, self.major, self.minor
            ))),
        }
    }
}

impl Drop for Library {
    /// Unloads the kernels: the streams that they were launched on must have come past.
    fn drop(&mut self) {
        for module in self.modules.iter().flatten() {
            let _ = cuda!(self.driver, cuModuleUnload(module.handle));
        }
        let _ = cuda!(self.driver, cuDevicePrimaryCtxRelease(self.device));
    }
}
`;
