//! [`FaultInject`]: makes the n-th access fail, as planned, and all others pass.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use crate::sync::lock;

use super::Fault;
use super::access::{Access, Answer, Verb};
use super::tap::Tap;

/// What happens instead of an access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inject {
    /// It fails with this errno.
    Errno(i32),
    /// It answers once like a device that has left the bus: see [`Inject::Vanish`].
    AllOnes,
    /// It times out, without waiting.
    Timeout,
    /// The device leaves the bus from here on: reads of BARs and config space are all ones, writes to
    /// them are silently lost, all other calls fail with [`Fault::Gone`].
    Vanish,
}

/// A planned fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Which accesses count; all, if none is given.
    pub verb: Option<Verb>,
    /// Only ioctls, files and folders of this name count, if one is given.
    pub name: Option<String>,
    /// Which of them it is, from 1.
    pub nth: u64,
    /// What happens to it.
    pub inject: Inject,
}

/// Lets accesses pass but for those of a plan.
pub struct FaultInject(Mutex<State>);

struct State {
    /// Each rule with how many accesses it has counted.
    plan: Vec<(Rule, u64)>,
    gone: bool,
    injected: usize,
}

impl FaultInject {
    /// Faults by `plan`. If several rules hit one access, the first counts.
    pub fn new(plan: impl IntoIterator<Item = Rule>) -> Arc<FaultInject> {
        let plan = plan.into_iter().map(|rule| (rule, 0)).collect();
        Arc::new(FaultInject(Mutex::new(State {
            plan,
            gone: false,
            injected: 0,
        })))
    }

    /// Rules that have hit: a test checks that its plan was reached.
    pub fn injected(&self) -> usize {
        self.state().injected
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while the lock is held.
        lock(&self.0)
    }
}

impl State {
    fn next(&mut self, access: &Access) -> Option<Inject> {
        let mut hit = None;
        for (rule, counted) in &mut self.plan {
            let verb = rule.verb.is_none_or(|verb| verb == access.verb);
            let name = rule.name.as_ref().is_none_or(|name| *name == access.name);
            if verb && name {
                *counted += 1;
                if *counted == rule.nth && hit.is_none() {
                    hit = Some(rule.inject);
                    self.injected += 1;
                }
            }
        }
        if hit == Some(Inject::Vanish) {
            self.gone = true;
        }
        if self.gone { Some(Inject::Vanish) } else { hit }
    }
}

/// What a device that is off the bus answers.
fn off_the_bus(access: &Access) -> Result<Answer, Fault> {
    let bytes = access.arg("bytes");
    match access.verb {
        Verb::Read | Verb::ConfigRead => {
            let bits = 8 * bytes.clamp(1, 8) as u32;
            Ok(Answer::value(u64::MAX >> (64 - bits)))
        }
        Verb::ReadBytes => Ok(Answer::data(vec![0xff; bytes as usize])),
        Verb::Write | Verb::WriteBytes | Verb::Send | Verb::Flush | Verb::ConfigWrite => {
            Ok(Answer::default())
        }
        _ => Err(Fault::Gone),
    }
}

impl Tap for FaultInject {
    fn before(&self, _: &str, access: &mut Access) -> Option<Result<Answer, Fault>> {
        let inject = self.state().next(access)?;
        Some(match inject {
            Inject::Errno(errno) => Err(Fault::Errno(errno)),
            Inject::Timeout => Err(Fault::TimedOut(Duration::ZERO)),
            Inject::AllOnes | Inject::Vanish => off_the_bus(access),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::Pci;
    use super::super::tap::Tapped;
    use super::super::tests::Zeros;
    use super::*;
    use crate::mem::window::AccessWidth;

    fn rule(verb: Verb, nth: u64, inject: Inject) -> Rule {
        Rule {
            verb: Some(verb),
            name: None,
            nth,
            inject,
        }
    }

    fn pci(plan: Vec<Rule>) -> (Arc<dyn Pci>, Arc<FaultInject>) {
        let faults = FaultInject::new(plan);
        (Tapped::pci(Arc::new(Zeros), faults.clone()), faults)
    }

    #[test]
    fn the_nth_access_of_a_name_fails_once() {
        let plan = Rule {
            verb: Some(Verb::Ioctl),
            name: Some("IOC_B".into()),
            nth: 2,
            inject: Inject::Errno(12),
        };
        let faults = FaultInject::new([plan]);
        let seen: Vec<_> = ["IOC_B", "IOC_A", "IOC_B", "IOC_B"]
            .map(|name| {
                let mut access = Access::new(Verb::Ioctl, [1]).named(name);
                faults.before("x", &mut access).map(|a| a.unwrap_err())
            })
            .into();
        assert_eq!(seen, [None, None, Some(Fault::Errno(12)), None]);
        assert_eq!(faults.injected(), 1);
    }

    #[test]
    fn all_ones_once() {
        let (pci, _) = pci(vec![rule(Verb::Read, 2, Inject::AllOnes)]);
        let bar = pci.bar(0).unwrap();
        let seen = [bar.read::<u16>(0), bar.read::<u16>(0), bar.read::<u16>(0)];
        assert_eq!(seen, [Ok(0), Ok(0xffff), Ok(0)]);
    }

    #[test]
    fn a_transfer_times_out_without_waiting() {
        let faults = FaultInject::new([rule(Verb::BulkIn, 1, Inject::Timeout)]);
        let usb = Tapped::usb(Arc::new(Zeros), faults);
        let error = usb
            .bulk_in(0x81, &mut [0; 4], Duration::from_secs(3600))
            .unwrap_err();
        assert_eq!(error.fault, Fault::TimedOut(Duration::ZERO));
        assert_eq!(usb.bulk_in(0x81, &mut [0; 4], Duration::ZERO), Ok(4));
    }

    #[test]
    fn a_vanished_device_stays_away() {
        let (pci, faults) = pci(vec![rule(Verb::Write, 2, Inject::Vanish)]);
        let bar = pci.bar(0).unwrap();
        bar.write(0, 1u32).unwrap();
        assert_eq!(bar.read::<u32>(0), Ok(1));
        bar.write(0, 2u32).unwrap();
        let mut bytes = [0; 3];
        bar.read_bytes(1, &mut bytes).unwrap();
        assert_eq!((bar.read::<u32>(0), bytes), (Ok(u32::MAX), [0xff; 3]));
        assert_eq!(bar.read::<u64>(0), Ok(u64::MAX));
        assert_eq!(pci.config_read(0, AccessWidth::W16), Ok(0xffff));
        assert!(bar.flush().is_ok());
        assert_eq!(pci.dma(1, 1).unwrap_err().fault, Fault::Gone);
        assert_eq!(faults.injected(), 1);
    }
}
