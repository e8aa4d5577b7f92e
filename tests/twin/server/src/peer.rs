//! A process of the host, as the kernel driver sees it.

use std::cell::RefCell;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use twin::caller::Caller;
use twin::errno::{Errno, Result};
use twin::host::{Identity, Mapping, Part, identity, user};
use twin::process::Wanted;
use twin::wire::{Kind, Message};

use crate::recorder::{Recorder, note};

thread_local! {
    /// The connection whose call this thread does: what has to be asked goes there.
    static CALLING: RefCell<Option<Arc<UnixStream>>> = const { RefCell::new(None) };
    /// Descriptors that the call has made, with the files that wake up who polls them.
    static MADE: RefCell<Vec<(i32, File)>> = const { RefCell::new(Vec::new()) };
}

/// Does a call that came through a connection.
pub fn calling<T>(through: &Arc<UnixStream>, call: impl FnOnce() -> T) -> T {
    CALLING.set(Some(through.clone()));
    let done = call();
    CALLING.set(None);
    done
}

/// Descriptors that the call of this thread has made since the last look, with the files that wake up who polls them.
pub fn made() -> Vec<(i32, File)> {
    MADE.take()
}

/// See the front page.
pub struct Peer {
    /// Its number in the system.
    pub pid: u32,
    /// Its number in a record, and that, if there is one.
    pub recorder: Option<(u32, Arc<Recorder>)>,
}

/// Asks the process whose call this thread does; `EFAULT` where it has gone, or where nobody calls.
fn ask(question: &Message) -> Result<Message> {
    let through = CALLING.with_borrow(Clone::clone).ok_or(Errno::EFAULT)?;
    question.send(&through).map_err(|_| Errno::EFAULT)?;
    match Message::receive(&through) {
        Ok(Some(answer)) if answer.kind == Kind::Done => Ok(answer),
        _ => Err(Errno::EFAULT),
    }
}

/// A descriptor of our own, which a message takes with it.
fn own(file: BorrowedFd<'_>) -> Result<std::os::fd::OwnedFd> {
    file.try_clone_to_owned().map_err(|_| Errno::EMFILE)
}

impl Caller for Peer {
    fn pid(&self) -> u32 {
        self.pid
    }

    fn read(&self, address: u64, out: &mut [u8]) -> Result {
        let done = user::read_of(self.pid, address, out);
        let words = [address, out.len() as u64, 0, 0, 0];
        note(Kind::Read, words, done.map(|()| 0), out);
        done
    }

    fn write(&self, address: u64, data: &[u8]) -> Result {
        let done = user::write_of(self.pid, address, data);
        let words = [address, data.len() as u64, 0, 0, 0];
        note(Kind::Write, words, done.map(|()| 0), data);
        done
    }

    fn pin(&self, address: u64, bytes: u64, write: bool) -> Result<Mapping> {
        let pinned = self.pinned(address, bytes, write);
        let (file, parts) = match &pinned {
            Ok((_, file, parts)) => (*file, &**parts),
            Err(_) => (0, &[][..]),
        };
        let done = pinned.as_ref().map(|_| 0).map_err(|errno| *errno);
        let words = [address, bytes, write.into(), file.into(), 0];
        note(Kind::Pin, words, done, parts);
        pinned.map(|(mapping, ..)| mapping)
    }

    fn map(&self, wanted: Wanted, of: &Mapping, offset: u64) -> Result<u64> {
        let end = offset.checked_add(wanted.bytes);
        if end.is_none_or(|end| end > of.bytes()) {
            return Err(Errno::EINVAL);
        }
        let (number, file) = match &self.recorder {
            Some((_, recorder)) => recorder.mapping(of, wanted.protection)?,
            None => (0, own(of.file().ok_or(Errno::EINVAL)?)?),
        };
        let Wanted {
            address,
            bytes,
            protection,
            flags,
        } = wanted;
        let words = [address, bytes, protection as u64, flags as u64, offset];
        let mut question = Message::new(Kind::Map, words);
        question.file = Some(file);
        let done = ask(&question).and_then(|answer| answer.result());
        let halves = u64::from(flags as u32) | u64::from(number) << 32;
        let words = [address, bytes, protection as u64, halves, offset];
        note(Kind::Map, words, done, &[]);
        if let (Some((process, recorder)), Ok(at)) = (&self.recorder, done) {
            recorder.mapped(*process, number, at, bytes);
        }
        done
    }

    fn unmap(&self, address: u64, bytes: u64) -> Result {
        let answer = ask(&Message::new(Kind::Unmap, [address, bytes]));
        let done = answer.and_then(|answer| answer.result());
        note(Kind::Unmap, [address, bytes, 0, 0, 0], done, &[]);
        if let (Some((process, recorder)), Ok(_)) = (&self.recorder, done) {
            recorder.unmapped(*process, address, bytes);
        }
        done.map(drop)
    }

    fn descriptor(&self, of: Option<BorrowedFd<'_>>) -> Result<Option<i32>> {
        let mut question = Message::new(Kind::Descriptor, []);
        question.file = of.map(own).transpose()?;
        let file = question.file.as_ref().and_then(|file| which(file.as_fd()));
        let done = ask(&question).and_then(|answer| {
            let fd = answer.result()?;
            let waking = answer.file.map(|waking| (fd as i32, File::from(waking)));
            MADE.with_borrow_mut(|made| made.extend(waking));
            Ok(fd)
        });
        note(Kind::Descriptor, [self.number(file), 0, 0, 0, 0], done, &[]);
        Ok(Some(done? as i32))
    }

    fn identity(&self, fd: i32) -> Option<Identity> {
        let found = ask(&Message::new(Kind::File, [fd as u64])).ok();
        let found = found.filter(|answer| answer.result().is_ok());
        let found = found.and_then(|answer| which(answer.file?.as_fd()));
        note(
            Kind::File,
            [fd as u64, self.number(found), 0, 0, 0],
            Ok(0),
            &[],
        );
        found
    }
}

/// Which file that is.
fn which(file: BorrowedFd<'_>) -> Option<Identity> {
    identity(&File::from(own(file).ok()?))
}

impl Peer {
    fn number(&self, of: Option<Identity>) -> u64 {
        let recorder = self.recorder.as_ref();
        recorder.map_or(0, |(_, recorder)| recorder.number(of).into())
    }

    /// Memory of the process; the number of its file, and the parts, as they came.
    fn pinned(&self, address: u64, bytes: u64, write: bool) -> Result<(Mapping, u32, Vec<u8>)> {
        let answer = ask(&Message::new(Kind::Pin, [address, bytes, write.into()]))?;
        answer.result()?;
        let words = answer.bytes.as_chunks::<8>().0;
        let words: Vec<u64> = words.iter().copied().map(u64::from_ne_bytes).collect();
        let part = |&[offset, bytes]: &[u64; 2]| Part { offset, bytes };
        let parts: Vec<Part> = words.as_chunks::<2>().0.iter().map(part).collect();
        let file = answer.file.as_ref().ok_or(Errno::EFAULT)?;
        let whole: u64 = parts.iter().map(|part| part.bytes).sum();
        if whole != bytes {
            return Err(Errno::EFAULT);
        }
        let mapping = Mapping::of_parts(file.as_fd(), &parts)?;
        let number = match &self.recorder {
            Some((process, recorder)) => recorder.pinned(*process, file.as_fd())?,
            None => 0,
        };
        Ok((mapping, number, answer.bytes))
    }
}
