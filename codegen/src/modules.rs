//! Machine code that this process has made: kernels that are made of the same text share it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::Result;

/// One module: empty until somebody has compiled it.
type Cell = Arc<Mutex<Option<Arc<[u8]>>>>;

/// The modules that were compiled so far, by content.
#[derive(Default, Debug)]
pub struct Modules(Mutex<HashMap<[u8; 32], Cell>>);

impl Modules {
    /// The module of a content key. Of those who ask for it at the same time one makes it, the others wait.
    ///
    /// # Errors
    /// Those of making it; the next one who asks tries again.
    pub fn get(
        &self,
        key: &[u8; 32],
        make: impl FnOnce() -> Result<Arc<[u8]>>,
    ) -> Result<Arc<[u8]>> {
        let cell = {
            let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            known.entry(*key).or_default().clone()
        };
        let mut module = cell.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(module) = &*module {
            return Ok(module.clone());
        }
        Ok(module.insert(make()?).clone())
    }
}
