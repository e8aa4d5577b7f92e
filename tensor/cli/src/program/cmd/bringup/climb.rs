//! [`Climb`]: what earlier steps have opened.

use std::sync::Arc;
use std::time::Duration;

use crate::{Opened, Setup};
use hcq::{AllocSpec, Buffer, Deadline, Device, MemoryKind, QueueKind, Stream};

use crate::program::error::Error;

/// How a step ended that did not fail.
pub enum Outcome {
    /// With what was seen.
    Passed(Vec<String>),
    /// The device lacks the feature: why.
    Skipped(String),
}

/// A device in bring-up.
pub struct Climb {
    /// Which device, and how its engines work.
    pub setup: Setup,
    /// Of each wait of this step.
    pub limit: Duration,
    /// Of the waits of any step: the driver takes one that is as long for a hang.
    least: Duration,
    // The engine before the device.
    opened: Option<Opened>,
    device: Option<Arc<dyn Device>>,
}

impl Climb {
    /// Nothing is open. No step waits less than so long.
    pub fn new(setup: Setup, least: Duration) -> Climb {
        Climb {
            setup,
            limit: least,
            least,
            opened: None,
            device: None,
        }
    }

    /// The device, opened by the first step that asks for it.
    pub fn device(&mut self) -> Result<Arc<dyn Device>, Error> {
        if let Some(device) = &self.device {
            return Ok(device.clone());
        }
        let device = self.setup.clone().timeout(self.least).device()?;
        Ok(self.device.insert(device).clone())
    }

    /// A wrong result with the file that holds all that is known of the device. Of faults and hangs the device keeps
    /// that by itself.
    pub fn kept(&self, step: &str, error: Error) -> Error {
        let (Error::Check(text), Some(device)) = (&error, &self.device) else {
            return error;
        };
        let cause = hcq::Error::Fault {
            device: device.info().id.clone(),
            unit: format!("bringup, step {step}"),
            what: text.clone(),
        };
        match device.bundle(&cause) {
            Some(path) => Error::Check(format!("{text} [doorbell explain {path}]")),
            None => error,
        }
    }

    /// The device with its compiler and an engine.
    pub fn opened(&mut self) -> Result<&Opened, Error> {
        let device = self.device()?;
        let opened = match self.opened.take() {
            Some(opened) => opened,
            None => self.patient().open_on(device)?,
        };
        Ok(self.opened.insert(opened))
    }

    /// The setup with the waits of this step.
    pub fn patient(&self) -> Setup {
        self.setup
            .clone()
            .timeout(self.limit)
            .within(self.limit * 2)
    }

    /// Ends an engine whose waits are those of another step.
    pub fn close_engine(&mut self) {
        self.opened = None;
    }

    /// The end of a wait that begins now. A step knows how long its work takes: a kernel that is seen to run on and
    /// on has
    /// failed as well.
    pub fn deadline(&self) -> Deadline {
        Deadline::after(self.limit).within(self.limit * 2)
    }

    /// The first compute queue.
    pub fn compute(&mut self) -> Result<Stream, Error> {
        Ok(Stream::new(self.device()?.queue(QueueKind::Compute, 0)?))
    }

    /// The first copy queue, if there is one.
    pub fn copies(&mut self) -> Result<Option<Stream>, Error> {
        let device = self.device()?;
        let mut queues = device.info().queues.iter();
        match queues.any(|&(kind, n)| kind == QueueKind::Copy && n > 0) {
            true => Ok(Some(Stream::new(device.queue(QueueKind::Copy, 0)?))),
            false => Ok(None),
        }
    }

    /// Zeroed memory that host and device reach.
    pub fn shared(&mut self, bytes: u64) -> Result<Buffer, Error> {
        Ok(self.device()?.alloc(AllocSpec {
            bytes,
            align: 64,
            kind: MemoryKind::Host,
            zeroed: true,
        })?)
    }

    /// Memory that holds these numbers.
    pub fn holding(&mut self, numbers: &[f32]) -> Result<Buffer, Error> {
        let bytes: Vec<u8> = numbers.iter().flat_map(|n| n.to_le_bytes()).collect();
        let buffer = self.shared(bytes.len() as u64)?;
        buffer.write(0, &bytes)?;
        Ok(buffer)
    }
}

/// The numbers in a buffer.
pub fn numbers(buffer: &Buffer) -> Result<Vec<f32>, Error> {
    let mut bytes = vec![0; buffer.bytes() as usize];
    buffer.read(0, &mut bytes)?;
    let words = bytes.chunks_exact(4);
    Ok(words
        .map(|w| f32::from_le_bytes([w[0], w[1], w[2], w[3]]))
        .collect())
}

/// Fails at the first element that is not what it should be.
pub fn compare<T: PartialEq + std::fmt::Debug>(
    what: &str,
    found: &[T],
    expected: &[T],
) -> Result<(), Error> {
    let wrong = |(_, (a, b)): &(usize, (&T, &T))| a != b;
    let mut all = found.iter().zip(expected).enumerate().filter(wrong);
    let Some((at, (a, b))) = all.next() else {
        return match found.len() == expected.len() {
            true => Ok(()),
            false => Err(Error::Check(format!(
                "{what}: {} elements, expected {}",
                found.len(),
                expected.len()
            ))),
        };
    };
    let more = all.count();
    Err(Error::Check(format!(
        "{what}: element {at} of {} is {a:?}, expected {b:?}; {more} more are wrong",
        expected.len()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_wrong_element_is_named() {
        compare("sum", &[1, 2], &[1, 2]).unwrap();
        let text = compare("sum", &[1, 5, 6], &[1, 2, 3])
            .unwrap_err()
            .to_string();
        assert_eq!(
            text,
            "sum: element 1 of 3 is 5, expected 2; 1 more are wrong"
        );
        let text = compare("sum", &[1], &[1, 2]).unwrap_err().to_string();
        assert_eq!(text, "sum: 1 elements, expected 2");
    }
}
