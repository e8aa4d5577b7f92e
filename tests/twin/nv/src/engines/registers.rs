//! What the methods of an engine have set.

use drivers_spec::nv::chip::Method;
use hcq::reg::Field;

use drivers_spec::nv::chip::Archs;

/// A word for each method of a class.
#[derive(Clone, Debug)]
pub(crate) struct Registers(Vec<u32>);

impl Registers {
    /// Zeros, for every method of a table.
    pub fn new(table: &[Method]) -> Self {
        let ends = table.iter().map(|method| method.dword() + method.count);
        Self(vec![0; ends.max().unwrap_or(0) as usize])
    }

    pub fn set(&mut self, dword: u32, value: u32) {
        if let Some(word) = self.0.get_mut(dword as usize) {
            *word = value;
        }
    }

    pub fn get(&self, method: &Method) -> u32 {
        self.word(method.dword())
    }

    pub fn word(&self, dword: u32) -> u32 {
        self.0.get(dword as usize).copied().unwrap_or_default()
    }

    pub fn field(&self, method: &Method, field: Field<Archs>) -> u32 {
        field.get(self.get(method))
    }

    /// Two methods, of which the first has the upper half; bits that are no field of it are cut off.
    pub fn long(&self, upper: &Method, lower: &Method, mask: u32) -> u64 {
        u64::from(self.get(upper) & mask) << 32 | u64::from(self.get(lower))
    }
}
