//! Tensors in npy files. For safetensors see [`crate::nn::state`].

use std::path::Path;

use crate::error::Result;
use crate::graph::{Engine, Tensor};
use crate::io::npy;

impl Tensor {
    /// The array of an `.npy` file.
    ///
    /// # Errors
    /// File system errors, or a file that is not an npy array.
    pub fn read_npy(engine: &Engine, path: impl AsRef<Path>) -> Result<Tensor> {
        let array = npy::read(path).map_err(Box::new)?;
        Tensor::from_bytes(engine, array.data, &array.shape, array.dtype)
    }

    /// Writes the values as an `.npy` file, atomically replacing `path`.
    ///
    /// # Errors
    /// A type that numpy has no name for (bf16, 8-bit floats); from computing or reading the values; file system
    /// errors.
    pub fn write_npy(&self, path: impl AsRef<Path>) -> Result<()> {
        let bytes = self.to_bytes()?;
        npy::write(path, self.dtype(), self.shape(), &bytes).map_err(Box::new)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_come_back_as_they_were() {
        let engine = Engine::reference();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.npy");
        let x = Tensor::new(&engine, [[1i64, 2], [3, 4], [5, 6]]).unwrap();
        x.write_npy(&path).unwrap();
        let y = Tensor::read_npy(&engine, &path).unwrap();
        assert_eq!((y.shape(), y.dtype()), (x.shape(), x.dtype()));
        assert_eq!(y.to_bytes().unwrap(), x.to_bytes().unwrap());
        let error = Tensor::read_npy(&engine, folder.path().join("z.npy"));
        let error = error.unwrap_err().to_string();
        assert!(error.contains("z.npy: open failed"), "{error}");
        let narrow = x.cast(codegen::DType::BF16).unwrap();
        let error = narrow.write_npy(&path).unwrap_err().to_string();
        assert!(error.contains("x.npy"), "{error}");
    }
}
