//! A process of a record, as the kernel driver sees it: it answers what it is asked as it did.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, Weak};

use hcq::sync::lock;
use twin::caller::Caller;
use twin::errno::{Errno, Result};
use twin::host::{Identity, Mapping, Part, identity, memory_file};
use twin::process::Wanted;
use twin::record::Frame;
use twin::wire::{Kind, Message};

use crate::machine::Machine;
use crate::place::Place;

/// Files of a record, by their numbers there.
#[derive(Default)]
pub struct Files {
    /// Memory that devices and processes share.
    pub places: BTreeMap<u32, Place>,
    /// Doorbells.
    pub bells: BTreeMap<u32, Place>,
    /// Which files of the host stand for them here.
    identities: BTreeMap<u32, Identity>,
    /// Which process has mapped which file where: process, file, address, bytes.
    mapped: Vec<(u32, u32, u64, u64)>,
}

impl Files {
    fn map(&mut self, file: u32, of: &Mapping, is_bell: bool, protection: i32) -> Result {
        let Some(fd) = of.file() else {
            return Err(Errno::EINVAL);
        };
        let all = if is_bell {
            &mut self.bells
        } else {
            &mut self.places
        };
        if !all.contains_key(&file) && protection != 0 {
            let own = fd.try_clone_to_owned().map_err(|_| Errno::EMFILE)?;
            all.insert(file, Place::new(own.into())?);
        }
        if let Some(identity) = of.identity() {
            self.identities.insert(file, identity);
        }
        Ok(())
    }

    fn pin(&mut self, process: u32, number: u32, parts: &[Part]) -> Result<Mapping> {
        let end = parts.iter().map(|part| part.offset + part.bytes).max();
        let end = end.ok_or(Errno::EFAULT)?;
        if !self.places.contains_key(&number) {
            let file = memory_file()?;
            file.set_len(end).map_err(|_| Errno::ENOMEM)?;
            if let Some(identity) = identity(&file) {
                self.identities.insert(number, identity);
            }
            self.places.insert(number, Place::new(file)?);
            self.mapped.push((process, number, u64::MAX, 0));
        }
        let place = self.places.get_mut(&number).ok_or(Errno::EFAULT)?;
        let now = place.file().metadata().map_err(|_| Errno::EIO)?.len();
        if now < end {
            place.file().set_len(end).map_err(|_| Errno::ENOMEM)?;
            place.grown()?;
        }
        Ok(Mapping::of_parts(place.file().as_fd(), parts)?)
    }

    fn unmap(&mut self, process: u32, at: u64, bytes: u64) {
        let end = at.saturating_add(bytes);
        self.mapped.retain(|&(of, _, first, bytes)| {
            of != process || first < at || first.saturating_add(bytes) > end
        });
        self.forget();
    }

    /// A process has ended.
    pub fn exit(&mut self, process: u32) {
        self.mapped.retain(|one| one.0 != process);
        self.forget();
    }

    fn forget(&mut self) {
        let mapped = &self.mapped;
        self.places
            .retain(|number, _| mapped.iter().any(|(_, file, ..)| file == number));
    }
}

/// What a call asked, and was answered.
pub struct Script {
    process: u32,
    questions: VecDeque<Frame>,
    /// The offset of a file that it maps.
    offset: u64,
    tells_time: bool,
    /// The first thing that is not as it was.
    otherwise: Option<String>,
}

thread_local! {
    /// That of the call that this thread makes.
    static CALL: RefCell<Option<Script>> = const { RefCell::new(None) };
}

impl Script {
    /// That of a call, which may answer what is never the same.
    pub fn new(call: &Frame, questions: Vec<Frame>, tells_time: bool) -> Script {
        Script {
            process: call.process,
            questions: questions.into(),
            offset: call.words[5],
            tells_time,
            otherwise: None,
        }
    }

    /// Makes the call. What it returns, and the first thing that it did otherwise.
    pub fn run(self, call: impl FnOnce() -> Result<u64>) -> (Result<u64>, Option<String>) {
        CALL.set(Some(self));
        let done = call();
        let script = CALL.take();
        let otherwise = script.and_then(|mut script| {
            let left = script.questions.pop_front();
            let left = left.map(|one| format!("{} is not asked", question(one.kind, &one.words)));
            script.otherwise.or(left)
        });
        (done, otherwise)
    }

    fn differs(&mut self, what: impl FnOnce() -> String) {
        self.otherwise.get_or_insert_with(what);
    }

    /// The answer to a question.
    fn answer(&mut self, kind: Kind, words: &[u64]) -> Result<Frame> {
        let is_it = |one: &Frame| one.kind == kind && one.words.starts_with(words);
        let found = self.questions.iter().position(is_it);
        if found != Some(0) {
            let next = self.questions.front();
            let next = next.map_or("nothing".into(), |one| question(one.kind, &one.words));
            self.differs(|| format!("{} is asked; in the record {next}", question(kind, words)));
        }
        let found = found.and_then(|at| self.questions.remove(at));
        found.ok_or(Errno::EFAULT)
    }
}

fn question(kind: Kind, words: &[u64]) -> String {
    match kind {
        Kind::Read | Kind::Write | Kind::Pin | Kind::Unmap => {
            format!("{kind:?} of {:#x} bytes at {:#x}", words[1], words[0])
        }
        _ => format!("{kind:?}"),
    }
}

/// Asks the call that this thread makes; nobody answers a device.
fn ask<T>(with: impl FnOnce(&mut Script) -> Result<T>) -> Result<T> {
    CALL.with_borrow_mut(|call| call.as_mut().ok_or(Errno::EFAULT).and_then(with))
}

fn result(answer: &Frame) -> Result<u64> {
    Message::new(Kind::Done, [answer.words[5]]).result()
}

/// See the front page.
pub struct Ghost {
    /// Its number in the system, then.
    pub pid: u32,
    /// Knows which memory is doorbells.
    pub machine: Weak<dyn Machine>,
    /// The files of the record.
    pub files: Arc<Mutex<Files>>,
}

impl Caller for Ghost {
    fn pid(&self) -> u32 {
        self.pid
    }

    fn read(&self, address: u64, out: &mut [u8]) -> Result {
        ask(|script| {
            let answer = script.answer(Kind::Read, &[address, out.len() as u64])?;
            result(&answer)?;
            if answer.bytes.len() != out.len() {
                return Err(Errno::EFAULT);
            }
            out.copy_from_slice(&answer.bytes);
            Ok(())
        })
    }

    fn write(&self, address: u64, data: &[u8]) -> Result {
        ask(|script| {
            let answer = script.answer(Kind::Write, &[address, data.len() as u64])?;
            if answer.bytes != data && !script.tells_time {
                let mut both = answer.bytes.iter().zip(data);
                let first = both.position(|(was, is)| was != is).unwrap_or(0);
                script.differs(|| {
                    format!("it answers other bytes, from byte {first} of {address:#x} on")
                });
            }
            result(&answer).map(drop)
        })
    }

    fn pin(&self, address: u64, bytes: u64, write: bool) -> Result<Mapping> {
        ask(|script| {
            let answer = script.answer(Kind::Pin, &[address, bytes, write.into()])?;
            result(&answer)?;
            let words = answer.bytes.as_chunks::<8>().0;
            let words: Vec<u64> = words.iter().copied().map(u64::from_le_bytes).collect();
            let part = |&[offset, bytes]: &[u64; 2]| Part { offset, bytes };
            let parts: Vec<Part> = words.as_chunks::<2>().0.iter().map(part).collect();
            let file = answer.words[3] as u32;
            lock(&self.files).pin(script.process, file, &parts)
        })
    }

    fn map(&self, wanted: Wanted, of: &Mapping, offset: u64) -> Result<u64> {
        ask(|script| {
            let words = [wanted.address, wanted.bytes, wanted.protection as u64];
            let answer = script.answer(Kind::Map, &words)?;
            let [_, _, _, halves, from, _] = answer.words;
            if from != offset || halves as u32 != wanted.flags as u32 {
                script
                    .differs(|| format!("it maps from {offset:#x}; in the record from {from:#x}"));
            }
            let at = result(&answer)?;
            let file = (halves >> 32) as u32;
            let mut files = lock(&self.files);
            let machine = self.machine.upgrade();
            let bells = machine.and_then(|machine| machine.bells(script.offset, of));
            files.map(file, of, bells.is_some(), wanted.protection)?;
            let mapped = (script.process, file, at, wanted.bytes);
            files.mapped.push(mapped);
            Ok(at)
        })
    }

    fn unmap(&self, address: u64, bytes: u64) -> Result {
        ask(|script| {
            let answer = script.answer(Kind::Unmap, &[address, bytes])?;
            result(&answer)?;
            lock(&self.files).unmap(script.process, address, bytes);
            Ok(())
        })
    }

    fn descriptor(&self, of: Option<BorrowedFd<'_>>) -> Result<Option<i32>> {
        ask(|script| {
            let answer = script.answer(Kind::Descriptor, &[])?;
            let fd = result(&answer)?;
            let own = of.and_then(|of| of.try_clone_to_owned().ok());
            if let Some(identity) = own.and_then(|own| identity(&own.into())) {
                let number = answer.words[0] as u32;
                lock(&self.files).identities.insert(number, identity);
            }
            Ok(Some(fd as i32))
        })
    }

    fn identity(&self, fd: i32) -> Option<Identity> {
        let answer = ask(|script| script.answer(Kind::File, &[fd as u64])).ok()?;
        let number = answer.words[1] as u32;
        lock(&self.files).identities.get(&number).copied()
    }
}
