// The Rust module: a right call, and errors with the C launcher's words. MIXED names the module's file.
#[path = "@MIXED@"]
mod mixed;
use mixed::{DType, Library, Tensor};

fn call(library: &mut Library, dtype: DType, k: i64) -> Result<(), mixed::Error> {
    let mut args = Library::variable_defaults(64, 48, k);
    library.variable_take(&mut args, "a", Tensor::matrix(0x1000_0100, dtype, 64, k))?;
    library.variable_take(&mut args, "b", Tensor::matrix(0x1100_0000, DType::Bf16, 48, k))?;
    library.variable_take(&mut args, "d", Tensor::matrix(0x1200_0010, DType::Bf16, 64, 48))?;
    library.variable_take(&mut args, "bias", Tensor::vector(0x1300_0000, DType::F32, 48))?;
    unsafe { library.variable(&args, std::ptr::null_mut()) }
}

fn attend(library: &mut Library, queries: i64) -> Result<(), mixed::Error> {
    let mut args = Library::flash_defaults();
    for (name, at, heads, rows) in [("q", 0x1000_0100, 4, queries), ("k", 0x1100_0000, 2, 64), ("v", 0x1200_0000, 2, 64), ("out", 0x1300_0000, 4, queries)] {
        library.flash_take(&mut args, name, Tensor::heads(at, DType::F16, [2, heads, rows, 32]))?;
    }
    unsafe { library.flash(&args, std::ptr::null_mut()) }
}

fn main() {
    let folder = std::env::args().nth(1).unwrap();
    let mut library = Library::open(&folder, 0).unwrap();
    for (dtype, k) in [(DType::Bf16, 32), (DType::F16, 32), (DType::Bf16, 33)] {
        match call(&mut library, dtype, k) {
            Ok(()) => println!("ok"),
            Err(error) => println!("{error}"),
        }
    }
    for queries in [64, 100] {
        match attend(&mut library, queries) {
            Ok(()) => println!("ok"),
            Err(error) => println!("{error}"),
        }
    }
    println!("{}", Library::open(&folder, 7).err().unwrap());
}
