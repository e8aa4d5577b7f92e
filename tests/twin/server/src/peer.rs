//! A process of the host, as the kernel driver sees it.

use std::cell::RefCell;
use std::fs::File;
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use twin::caller::Caller;
use twin::errno::{Errno, Result};
use twin::host::{Identity, Mapping, Part, identity, user};
use twin::process::Wanted;
use twin::wire::{Kind, Message};

thread_local! {
    /// The connection whose call this thread does: what has to be asked goes there.
    static CALLING: RefCell<Option<Arc<UnixStream>>> = const { RefCell::new(None) };
}

/// Does a call that came through a connection.
pub fn calling<T>(through: &Arc<UnixStream>, call: impl FnOnce() -> T) -> T {
    CALLING.set(Some(through.clone()));
    let done = call();
    CALLING.set(None);
    done
}

/// See the front page.
pub struct Peer(pub u32);

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
        self.0
    }

    fn read(&self, address: u64, out: &mut [u8]) -> Result {
        user::read_of(self.0, address, out)
    }

    fn write(&self, address: u64, data: &[u8]) -> Result {
        user::write_of(self.0, address, data)
    }

    fn pin(&self, address: u64, bytes: u64, write: bool) -> Result<Mapping> {
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
        Ok(Mapping::of_parts(std::os::fd::AsFd::as_fd(file), &parts)?)
    }

    fn map(&self, wanted: Wanted, of: &Mapping, offset: u64) -> Result<u64> {
        let end = offset.checked_add(wanted.bytes);
        if end.is_none_or(|end| end > of.bytes()) {
            return Err(Errno::EINVAL);
        }
        let Wanted {
            address,
            bytes,
            protection,
            flags,
        } = wanted;
        let words = [address, bytes, protection as u64, flags as u64, offset];
        let mut question = Message::new(Kind::Map, words);
        question.file = Some(own(of.file().ok_or(Errno::EINVAL)?)?);
        ask(&question)?.result()
    }

    fn unmap(&self, address: u64, bytes: u64) -> Result {
        ask(&Message::new(Kind::Unmap, [address, bytes]))?.result()?;
        Ok(())
    }

    fn descriptor(&self, of: Option<BorrowedFd<'_>>) -> Result<Option<i32>> {
        let mut question = Message::new(Kind::Descriptor, []);
        question.file = of.map(own).transpose()?;
        let fd = ask(&question)?.result()?;
        Ok(Some(fd as i32))
    }

    fn identity(&self, fd: i32) -> Option<Identity> {
        let answer = ask(&Message::new(Kind::File, [fd as u64])).ok()?;
        answer.result().ok()?;
        identity(&File::from(answer.file?))
    }
}
