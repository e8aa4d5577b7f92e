//! Machine code compiled by this process; kernels with equal source share it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::Result;
use crate::recent::Recent;

/// One module that is being made: empty until somebody has compiled it.
type Cell = Arc<Mutex<Option<Arc<[u8]>>>>;

/// The most recently used modules, by content.
#[derive(Debug)]
pub struct Modules(Mutex<Table>);

#[derive(Debug)]
struct Table {
    made: Recent<[u8; 32], Arc<[u8]>>,
    making: HashMap<[u8; 32], Cell>,
}

impl Default for Modules {
    fn default() -> Modules {
        Modules::new(Modules::MOST)
    }
}

impl Modules {
    /// Default size in bytes.
    pub const MOST: u64 = 128 << 20;

    /// Keeps at most `most` bytes of modules; least recently used ones are dropped first.
    pub fn new(most: u64) -> Modules {
        Modules(Mutex::new(Table {
            made: Recent::new(most),
            making: HashMap::new(),
        }))
    }

    /// Number of modules, and their bytes.
    pub fn kept(&self) -> (usize, u64) {
        let table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (table.made.len(), table.made.weight())
    }

    /// The module of a content key. Of concurrent callers one compiles it and the others wait.
    ///
    /// # Errors
    /// Errors of compiling it; the next caller tries again.
    pub fn get(
        &self,
        key: &[u8; 32],
        make: impl FnOnce() -> Result<Arc<[u8]>>,
    ) -> Result<Arc<[u8]>> {
        let cell = {
            let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(module) = table.made.get(key) {
                return Ok(module.clone());
            }
            table.making.entry(*key).or_default().clone()
        };
        let mut module = cell.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(module) = &*module {
            return Ok(module.clone());
        }
        let made = make();
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        table.making.remove(key);
        let made = module.insert(made?).clone();
        let weight = made.len() as u64;
        table.made.insert(*key, made.clone(), weight);
        Ok(made)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    fn module(bytes: usize) -> Result<Arc<[u8]>> {
        Ok(vec![7; bytes].into())
    }

    #[test]
    fn modules_are_made_once_and_bounded_by_their_bytes() {
        let modules = Modules::new(100);
        let again = || unreachable!("it is kept");
        assert_eq!(modules.get(&[1; 32], || module(60)).unwrap().len(), 60);
        assert_eq!(modules.get(&[1; 32], again).unwrap().len(), 60);
        let failed = modules.get(&[2; 32], || {
            Err(Error::Invalid {
                kernel: "k".into(),
                what: "w".into(),
            })
        });
        assert!(failed.is_err());
        modules.get(&[2; 32], || module(30)).unwrap();
        assert_eq!(modules.kept(), (2, 90));
        modules.get(&[1; 32], again).unwrap();
        modules.get(&[3; 32], || module(20)).unwrap();
        assert_eq!(modules.kept(), (2, 80));
        assert_eq!(modules.get(&[2; 32], || module(31)).unwrap().len(), 31);
    }
}
