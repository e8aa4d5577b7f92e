//! Parameters of the resource manager: bytes of a branch, whoever carries them to it, an ioctl or a message to GSP.

use super::abi::{Branch, Call, Struct};

/// A control, or a class of which an object is made, with its parameters as a branch has them. There are no addresses
/// in them that RM would read or write through.
#[derive(Clone, Debug)]
pub struct Parameters {
    call: Call,
    branch: Branch,
    bytes: Vec<u8>,
}

/// Whether a call takes such a struct on a branch, without addresses.
pub(super) fn takes<T: Struct>(call: &Call, branch: Branch) -> bool {
    let layout = call.layout.filter(|_| call.on.has(branch));
    let same = layout.is_some_and(|layout| layout.name == T::LAYOUT.name);
    same && T::LAYOUT.pointers.is_empty()
}

impl Parameters {
    /// Those of a call. None where the branch does not have it, where it takes another struct, or one with addresses.
    pub fn of<T: Struct>(call: &Call, branch: Branch, params: &T) -> Option<Parameters> {
        takes::<T>(call, branch).then(|| Parameters {
            call: *call,
            branch,
            bytes: params.encode(branch),
        })
    }

    /// A call without: one that takes none, or an object of a class whose parameters may be left out. None where the
    /// branch does not have it.
    pub fn none(call: &Call, branch: Branch) -> Option<Parameters> {
        call.on.has(branch).then(|| Parameters {
            call: *call,
            branch,
            bytes: Vec::new(),
        })
    }

    /// What they are for.
    pub fn call(&self) -> &Call {
        &self.call
    }

    /// Whose structs they are.
    pub fn branch(&self) -> Branch {
        self.branch
    }

    /// The struct, as the branch has it; empty for a call without.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The struct, for what RM answers: as many bytes.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// The struct. Zeros for one that it is not.
    pub fn decode<T: Struct>(&self) -> T {
        T::decode(self.branch, &self.bytes).unwrap_or_else(|_| T::new_zeroed())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{class, control, query};
    use super::*;

    #[test]
    fn calls_that_are_not_described_have_no_parameters() {
        let branch = Branch::R550;
        // Of another struct, of another branch, with addresses in it.
        let token = control::WorkSubmitToken::default();
        let schedule = &control::NVA06C_CTRL_CMD_GPFIFO_SCHEDULE;
        assert!(Parameters::of(schedule, branch, &token).is_none());
        let gr = class::GrAlloc::default();
        let blackwell = &class::BLACKWELL_COMPUTE_A;
        assert!(Parameters::of(blackwell, branch, &gr).is_none());
        assert!(Parameters::none(blackwell, branch).is_none());
        let list = query::ChannelList::default();
        let control = &control::NV0080_CTRL_CMD_FIFO_GET_CHANNELLIST;
        assert!(Parameters::of(control, branch, &list).is_none());
    }

    #[test]
    fn parameters_have_the_size_of_the_branch() {
        let control = &control::NVA06C_CTRL_CMD_GPFIFO_SCHEDULE;
        for branch in Branch::ALL {
            let schedule = control::GpfifoSchedule {
                enable: 1,
                ..Default::default()
            };
            let mut params = Parameters::of(control, branch, &schedule).unwrap();
            let expected = if branch == Branch::R580 { 3 } else { 2 };
            assert_eq!(params.bytes().len(), expected);
            assert_eq!(params.decode::<control::GpfifoSchedule>(), schedule);
            params.bytes_mut()[0] = 0;
            let cleared = params.decode::<control::GpfifoSchedule>();
            assert_eq!(cleared, control::GpfifoSchedule::default());
        }
    }
}
