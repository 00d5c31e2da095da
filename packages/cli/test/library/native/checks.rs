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

fn main() {
    let folder = std::env::args().nth(1).unwrap();
    let mut library = Library::open(&folder, 0).unwrap();
    for (dtype, k) in [(DType::Bf16, 32), (DType::F16, 32), (DType::Bf16, 33)] {
        match call(&mut library, dtype, k) {
            Ok(()) => println!("ok"),
            Err(error) => println!("{error}"),
        }
    }
    println!("{}", Library::open(&folder, 7).err().unwrap());
}
