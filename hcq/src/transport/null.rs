//! [`Null`]: a device that accepts everything and answers zeros, or what it was told to.

use super::access::{Access, Answer, Port, Verb};
use super::{Clock, Fault, VirtualClock};
use std::time::Duration;

/// Length of every BAR that is not configured.
const BAR_BYTES: u64 = 16 << 20;
/// Where its DMA memory seems to lie on the bus.
const BUS_BASE: u64 = 0x1_0000_0000;

/// Accepts writes; reads are zero, transfers complete, ioctls return 0, and time passes only by
/// sleeping.
pub struct Null {
    name: String,
    told: Vec<(Access, Result<Answer, Fault>)>,
    clock: VirtualClock,
}

impl Null {
    /// A device called `name`.
    pub fn new(name: &str) -> Null {
        Null {
            name: name.to_owned(),
            told: Vec::new(),
            clock: VirtualClock::new(),
        }
    }

    /// Answers accesses of this verb, these arguments and this name so. The data they carry may
    /// be any; of an ioctl's answer it stays as it came unless `answer` has some.
    #[must_use]
    pub fn with(mut self, access: Access, answer: Result<Answer, Fault>) -> Null {
        self.told.push((access, answer));
        self
    }
}

impl Port for Null {
    fn name(&self) -> &str {
        &self.name
    }

    fn access(&self, access: &Access) -> Result<Answer, Fault> {
        let same = |told: &Access| {
            told.verb == access.verb && told.args == access.args && told.name == access.name
        };
        if let Some((_, answer)) = self.told.iter().find(|(told, _)| same(told)) {
            let mut answer = answer.clone()?;
            if access.verb == Verb::Ioctl && answer.data.is_empty() {
                answer.data.clone_from(&access.data);
            }
            return Ok(answer);
        }
        let bytes = access.arg("bytes");
        Ok(match access.verb {
            Verb::Bar => Answer::value(BAR_BYTES),
            Verb::Read | Verb::ConfigRead | Verb::Number => Answer::value(0),
            Verb::ReadBytes | Verb::ControlIn | Verb::BulkIn => {
                Answer::data(vec![0; bytes as usize])
            }
            Verb::ControlOut | Verb::BulkOut => Answer::value(access.data.len() as u64),
            Verb::Dma => Answer {
                values: vec![BUS_BASE, bytes],
                ..Answer::default()
            },
            Verb::Ioctl => Answer {
                values: vec![0],
                data: access.data.clone(),
                view: None,
            },
            Verb::Irq => return Err(Fault::Unsupported("interrupts".into())),
            Verb::Now => Answer::value(self.clock.now_ns()),
            Verb::Sleep => {
                self.clock.sleep(Duration::from_nanos(access.arg("ns")));
                Answer::default()
            }
            Verb::Write
            | Verb::WriteBytes
            | Verb::Send
            | Verb::Flush
            | Verb::ConfigWrite
            | Verb::Reset
            | Verb::Mmap => Answer::default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::access::Over;
    use super::super::{DevFile, Pci};
    use super::*;

    #[test]
    fn answers_zeros_or_what_it_was_told() {
        let told = Access::new(Verb::Read, [0, 4, 4]);
        let null = Over::new(Null::new("null").with(told, Ok(Answer::value(7))));
        let bar = null.bar(0).unwrap();
        bar.write(4, 0xffu32).unwrap();
        assert_eq!(bar.read::<u32>(4), Ok(7));
        assert_eq!(bar.read::<u32>(8), Ok(0));
        assert!(bar.read::<u32>(BAR_BYTES).is_err());
        let dma = null.dma(100, 64).unwrap();
        assert_eq!(dma.view.len(), 100);
        let mut payload = [5];
        assert_eq!(null.ioctl(1, "IOC", &mut payload), Ok(0));
        assert_eq!(payload, [5]);
        null.sleep(Duration::from_nanos(9));
        assert_eq!(null.now_ns(), 9);
    }
}
