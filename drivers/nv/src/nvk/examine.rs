//! [`examine`]: which GPUs there are, and whether each computes for this process.

use hcq::transport::Machine;

use super::base::Base;
use super::session::Session;
use super::survey::{Survey, Unusable, survey};
use crate::rm::facts::Asked;

/// Looks at a machine as [`survey`] does, and asks each GPU whether it computes for this process: one for one program
/// at a time is reserved for a moment.
pub fn examine(machine: &dyn Machine) -> Survey {
    let mut all = survey(machine);
    if all.driver.is_err() {
        return all;
    }
    let session = match Session::new(machine, false) {
        Ok(session) => session,
        Err(why) => {
            all.driver = Err(why);
            return all;
        }
    };
    for found in all.gpus.iter_mut().filter(|gpu| gpu.unusable.is_none()) {
        let told = Base::new(machine, &session, found).and_then(|base| {
            let asked = Asked::of(&base.rm, &found.place, found.device_id);
            asked.facts().map_err(Unusable::from)
        });
        found.unusable = told.err();
    }
    all
}
