//! A machine with KGSL or msm, as far as a driver without shaders needs them: memory, submissions, times. It runs the
//! packets that write and wait as they come; it checks nothing, which is the twin's task.
#![allow(dead_code, clippy::unwrap_used)] // A test may panic, and has its own half.

pub mod kgsl;
pub mod msm;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use drivers_spec::qcom::packet::{self, Packet, event_write_0, op};
use hcq::mem::view::View;
use hcq::transport::errno::ENOENT;
use hcq::transport::{DevFile, Fault, Machine, PerProcess, Request, Reserved, TransportError};
use zerocopy::{FromBytes, IntoBytes};

/// Memory of the GPU by its address.
#[derive(Default)]
pub struct Memory {
    objects: Mutex<BTreeMap<u64, View>>,
    next: Mutex<u64>,
}

impl Memory {
    /// New memory.
    pub fn add(&self, bytes: u64, align: u64) -> (u64, View) {
        let mut next = self.next.lock().unwrap();
        let at = (*next)
            .max(0x50_0000_0000)
            .next_multiple_of(align.max(4096));
        *next = at + bytes;
        let view = View::alloc(bytes as usize, 4096).unwrap();
        self.objects.lock().unwrap().insert(at, view.clone());
        (at, view)
    }

    pub fn remove(&self, at: u64) {
        self.objects.lock().unwrap().remove(&at).unwrap();
    }

    /// Objects that are there.
    pub fn count(&self) -> usize {
        self.objects.lock().unwrap().len()
    }

    fn at(&self, va: u64) -> (View, usize) {
        let objects = self.objects.lock().unwrap();
        let (start, view) = objects.range(..=va).next_back().unwrap();
        let offset = (va - start) as usize;
        assert!(offset < view.len(), "{va:#x} is nobody's");
        (view.clone(), offset)
    }

    fn write(&self, va: u64, value: u32) {
        let (view, offset) = self.at(va);
        view.write(offset, value).unwrap();
    }

    /// Runs packets. Returns whether they have come to their end: else a wait holds them.
    pub fn run(&self, at: u64, dwords: u32) -> bool {
        let (view, offset) = self.at(at);
        let mut words = vec![0u32; dwords as usize];
        view.read_words(offset, &mut words).unwrap();
        let wide = |body: &[u32], at: usize| u64::from(body[at]) | u64::from(body[at + 1]) << 32;
        // Packets before this one are left out.
        let mut next = 0;
        for packet in packet::packets(&words) {
            let (place, packet) = packet.unwrap();
            let Packet::Command { op, body } = packet else {
                continue;
            };
            if place < next {
                continue;
            }
            packet::check(op, body).unwrap();
            match (op, body.len()) {
                (op::COND_EXEC, _) => {
                    let word = |at| {
                        let (view, offset) = self.at(wide(body, at));
                        view.read::<u32>(offset).unwrap()
                    };
                    if word(0) == 0 || word(2) >= body[4] {
                        next = place + 1 + body.len() + body[5] as usize;
                    }
                }
                (op::INDIRECT_BUFFER, _) if !self.run(wide(body, 0), body[2]) => return false,
                (op::EVENT_WRITE, 4) => {
                    assert!(packet::event_writes(event_write_0::EVENT.get(body[0])));
                    self.write(wide(body, 1), body[3]);
                }
                (op::MEM_WRITE, _) => {
                    for (i, word) in body[2..].iter().enumerate() {
                        self.write(wide(body, 0) + i as u64 * 4, *word);
                    }
                }
                (op::REG_TO_MEM, _) => {
                    self.write(wide(body, 1), 1234);
                    self.write(wide(body, 1) + 4, 0);
                }
                (op::WAIT_REG_MEM, _) => {
                    let (view, offset) = self.at(wide(body, 1));
                    // At least: what waits for signals has.
                    if view.read::<u32>(offset).unwrap() & body[4] < body[3] {
                        return false;
                    }
                }
                _ => {}
            }
        }
        true
    }
}

/// An argument of a call, read and written back; and what is behind it.
pub fn edit<T: FromBytes + IntoBytes + Copy>(
    request: &mut Request<'_, '_>,
    change: impl FnOnce(&mut T, &mut [u8]),
) {
    let mut data = request.data();
    let (argument, rest) = data.split_at_mut(size_of::<T>());
    let mut value = T::read_from_bytes(argument).unwrap();
    change(&mut value, rest);
    argument.copy_from_slice(value.as_mut_bytes());
    request.set_data(&data).unwrap();
}

/// A machine of device files.
pub struct Mock {
    pub files: BTreeMap<&'static str, Arc<dyn DevFile>>,
    kept: PerProcess,
}

impl Mock {
    /// Of these files.
    pub fn machine(
        files: impl IntoIterator<Item = (&'static str, Arc<dyn DevFile>)>,
    ) -> Arc<dyn Machine> {
        Arc::new(Mock {
            files: files.into_iter().collect(),
            kept: PerProcess::default(),
        })
    }
}

impl Machine for Mock {
    fn open(&self, path: &str) -> Result<Arc<dyn DevFile>, TransportError> {
        let missing = || TransportError::new(path, "open", Fault::Errno(ENOENT));
        self.files.get(path).cloned().ok_or_else(missing)
    }

    fn read(&self, path: &str) -> Result<String, TransportError> {
        match path {
            "/proc/meminfo" => Ok("MemTotal:        1048576 kB\nMemFree: 1 kB\n".into()),
            _ => Err(TransportError::new(path, "read", Fault::Errno(ENOENT))),
        }
    }

    fn list(&self, path: &str) -> Result<Vec<String>, TransportError> {
        let names = self
            .files
            .keys()
            .filter_map(|name| name.strip_prefix(path)?.strip_prefix('/'));
        Ok(names.map(str::to_owned).collect())
    }

    fn reserve(&self, _: u64, _: u64, _: u64) -> Result<Reserved, TransportError> {
        Err(TransportError::new(
            "mock",
            "reserve",
            Fault::Unsupported("not asked for".into()),
        ))
    }

    fn memory(&self, bytes: u64, align: u64) -> Result<View, TransportError> {
        Ok(View::alloc(bytes as usize, align as usize).unwrap())
    }

    fn per_process(&self) -> &PerProcess {
        &self.kept
    }
}
