//! Groups of ranges of managed memory: they are made and go; nothing is in them, since there is no managed
//! memory.
//!
//! Source: open-gpu-kernel-modules 550.163.01, kernel-open/nvidia-uvm/uvm_range_group.c.

use drivers_spec::nv::{status, uvm};
use twin::rule::{Proof, Rule};

use crate::errno::Result;

use super::On;

static GROUP: Rule = Rule {
    name: "UVM-RANGE-GROUP",
    text: "a destroyed range group exists",
    source: "open-gpu-kernel-modules, uvm_range_group.c, uvm_api_destroy_range_group: NV_ERR_OBJECT_NOT_FOUND",
    proof: Proof::Sourced,
};

impl On<'_> {
    pub(super) fn new_group(&self, args: &mut uvm::CreateRangeGroup) -> Result {
        let mut state = self.machine.state();
        let va = self.va(&mut state)?;
        args.range_group_id = va.groups.last().map_or(1, |last| last + 1);
        va.groups.insert(args.range_group_id);
        Ok(())
    }

    pub(super) fn end_group(&self, args: &uvm::DestroyRangeGroup) -> Result {
        let mut state = self.machine.state();
        let va = self.va(&mut state)?;
        if va.groups.remove(&args.range_group_id) {
            return Ok(());
        }
        let what = format!("group {}", args.range_group_id);
        self.refuse(&GROUP, status::NV_ERR_OBJECT_NOT_FOUND, what)
    }
}
