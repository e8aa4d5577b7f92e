//! C.
use super::{Renderer, Source};
use crate::error::Result;
use crate::lower::Program;
use crate::target::Target;
/// C.
pub struct CRenderer;
impl Renderer for CRenderer {
    fn name(&self) -> &'static str { "c" }
    fn render(&self, p: &Program, t: &Target) -> Result<Source> { super::LlvmRenderer.render(p, t) }
}
