//! A simulated machine in another process (`twin-server`): calls go there, and what is asked in between is
//! answered here. See [`twin::wire`].

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use hcq::sync::lock;
use twin::errno::Errno;
use twin::tree::{Node, Tree};
use twin::wire::{Kind, Message, PROOF, socket_of, tree_of};

use crate::driver::{Driver, Map, Result};
use crate::own::Own;
use crate::system;

/// See the front page.
pub struct Remote {
    folder: PathBuf,
    /// What the server knows this process by: while it is open.
    process: UnixStream,
    number: u64,
    about: About,
    /// Connections that wait for a call.
    idle: Mutex<Vec<UnixStream>>,
    own: Mutex<Own>,
    /// What is mapped of devices: first addresses and ends.
    mapped: Mutex<BTreeMap<u64, u64>>,
    /// Descriptors that calls have made, and nobody has asked for yet.
    made: Mutex<Vec<i32>>,
    /// Whether this is a child that has let go of it.
    left: AtomicBool,
}

/// What the server says of its machine.
#[derive(Default)]
struct About {
    owned: Vec<String>,
    live: Vec<String>,
    devices: BTreeMap<String, (u32, u32)>,
}

impl About {
    fn of(text: &str) -> About {
        let mut about = About::default();
        for line in text.lines() {
            let mut words = line.splitn(4, ' ');
            match (words.next(), words.next(), words.next(), words.next()) {
                (Some("owned"), Some(path), ..) => about.owned.push(path.into()),
                (Some("live"), Some(name), ..) => about.live.push(name.into()),
                (Some("device"), Some(major), Some(minor), Some(path)) => {
                    if let (Ok(major), Ok(minor)) = (major.parse(), minor.parse()) {
                        about.devices.insert(path.into(), (major, minor));
                    }
                }
                _ => {}
            }
        }
        about
    }
}

/// Where the server has gone, no call is answered.
const GONE: i32 = libc::ENODEV;

/// The errno of a call that could not be passed on: what this process lacks, by its name, or that the server has gone.
fn lacks(error: &io::Error) -> i32 {
    match error.raw_os_error() {
        Some(errno @ (libc::EMFILE | libc::ENFILE | libc::ENOMEM)) => errno,
        _ => GONE,
    }
}

impl Remote {
    /// Connects to the server of a folder.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn new(folder: &Path) -> std::result::Result<Remote, String> {
        let failed = |what: &dyn std::fmt::Display| {
            let at = socket_of(folder);
            format!("{}: no simulated machine answers: {what}", at.display())
        };
        let stream = UnixStream::connect(socket_of(folder)).map_err(|error| failed(&error))?;
        system::be_looked_at_by_all();
        let proof = PROOF;
        let words = [std::process::id().into(), &raw const proof as u64];
        let hello = Message::new(Kind::Process, words);
        hello.send(&stream).map_err(|error| failed(&error))?;
        let answer = Message::receive(&stream).map_err(|error| failed(&error))?;
        let answer = answer.ok_or_else(|| failed(&"it has ended"))?;
        let number = answer.result().map_err(|errno| match errno {
            Errno::EPERM => failed(
                &"the system does not let it read the memory of this process, as a driver does; who forbids \
                 process_vm_readv (a filter of system calls, kernel.yama.ptrace_scope, another namespace of \
                 processes)?",
            ),
            errno => failed(&errno),
        })?;
        Ok(Remote {
            folder: folder.to_owned(),
            process: stream,
            number,
            about: About::of(&String::from_utf8_lossy(&answer.bytes)),
            idle: Mutex::default(),
            own: Mutex::new(Own::new().map_err(|errno| failed(&Errno(errno)))?),
            mapped: Mutex::default(),
            made: Mutex::default(),
            left: AtomicBool::new(false),
        })
    }

    fn connect(&self) -> Result<UnixStream> {
        if let Some(idle) = lock(&self.idle).pop() {
            return Ok(idle);
        }
        let stream = UnixStream::connect(socket_of(&self.folder)).map_err(|error| lacks(&error))?;
        let hello = Message::new(Kind::Calls, [self.number]);
        hello.send(&stream).map_err(|_| GONE)?;
        Ok(stream)
    }

    /// Makes a call, and answers what it asks.
    fn call(&self, call: &Message) -> Result<u64> {
        let stream = self.connect()?;
        call.send(&stream).map_err(|_| GONE)?;
        loop {
            let message = Message::receive(&stream).ok().flatten().ok_or(GONE)?;
            if message.kind == Kind::Done {
                lock(&self.idle).push(stream);
                return message.result().map_err(|errno| errno.0);
            }
            self.answer(message).send(&stream).map_err(|_| GONE)?;
        }
    }

    fn answer(&self, question: Message) -> Message {
        let [a, b, c, ..] = question.words;
        let word = match question.kind {
            Kind::Pin => return self.pin(a, b, c != 0),
            Kind::Map => self.map(question),
            Kind::Unmap => {
                lock(&self.mapped).retain(|&at, end| *end <= a || at >= a.saturating_add(b));
                let done = system::munmap(a, b).map(|_| 0);
                if done.is_ok() {
                    lock(&self.own).forget(a, b);
                }
                done
            }
            Kind::Descriptor => return self.descriptor(question.file),
            Kind::File => {
                return match system::another(a as i32) {
                    Ok(file) => {
                        let mut answer = Message::done(Ok(0));
                        answer.file = Some(file);
                        answer
                    }
                    Err(errno) => Message::done(Err(Errno(errno))),
                };
            }
            _ => Err(libc::EINVAL),
        };
        Message::done(word.map_err(Errno))
    }

    fn pin(&self, at: u64, bytes: u64, write: bool) -> Message {
        let mut own = lock(&self.own);
        let pinned = own.pin(at, bytes, write);
        let file = pinned.and_then(|parts| Ok((parts, system::another(own.file().as_raw_fd())?)));
        match file {
            Ok((parts, file)) => {
                let mut answer = Message::done(Ok(0));
                let words = parts.iter().flat_map(|part| [part.offset, part.bytes]);
                answer.bytes = words.flat_map(u64::to_ne_bytes).collect();
                answer.file = Some(file);
                answer
            }
            Err(errno) => Message::done(Err(Errno(errno))),
        }
    }

    fn map(&self, question: Message) -> Result<u64> {
        let [at, bytes, protection, flags, offset, _] = question.words;
        let file = question.file.ok_or(libc::EINVAL)?;
        let map = Map {
            at,
            bytes,
            protection: protection as i32,
            flags: flags as i32,
            offset,
        };
        let at = system::mmap(file.as_raw_fd(), map)?;
        lock(&self.mapped).insert(at, at + bytes);
        Ok(at)
    }

    fn descriptor(&self, file: Option<OwnedFd>) -> Message {
        let made = match file {
            Some(file) => Ok((file.into_raw_fd(), None)),
            None => waking(),
        };
        match made {
            Ok((fd, file)) => {
                lock(&self.made).push(fd);
                let mut answer = Message::done(Ok(fd as u64));
                answer.file = file;
                answer
            }
            Err(errno) => Message::done(Err(Errno(errno))),
        }
    }
}

/// A placeholder, and the file that wakes up who polls it.
fn waking() -> Result<(i32, Option<OwnedFd>)> {
    let fd = system::placeholder(libc::O_CLOEXEC)?;
    match system::another(fd) {
        Ok(file) => Ok((fd, Some(file))),
        Err(errno) => {
            system::close(fd)?;
            Err(errno)
        }
    }
}

impl Driver for Remote {
    fn owns(&self, path: &str) -> bool {
        self.about.owned.iter().any(|owned| path.starts_with(owned))
    }

    fn nodes(&self) -> Vec<(String, Node)> {
        Vec::new()
    }

    fn tree(&self) -> Option<Tree> {
        let devices = self.about.devices.clone();
        Some(Tree::at(&tree_of(&self.folder), devices))
    }

    fn refresh(&self, path: &str) {
        let name = path.rsplit('/').next().unwrap_or_default();
        if self.about.live.iter().any(|live| live == name) {
            let mut call = Message::new(Kind::Text, []);
            call.bytes = path.into();
            // What was there is read then.
            let _ = self.call(&call);
        }
    }

    fn is_device(&self, path: &str) -> bool {
        self.about.devices.contains_key(path)
    }

    fn open(&self, path: &str, flags: i32) -> Result<i32> {
        let fd = system::placeholder(flags)?;
        let mut call = Message::new(Kind::Open, [fd as u64, flags as u64]);
        call.bytes = path.into();
        call.file = Some(system::another(fd)?);
        match self.call(&call) {
            Ok(_) => Ok(fd),
            Err(errno) => {
                system::close(fd)?;
                Err(errno)
            }
        }
    }

    fn duplicated(&self, from: i32, to: i32) {
        // It is open, and `to` is nobody's.
        let _ = self.call(&Message::new(Kind::Dup, [from as u64, to as u64]));
    }

    fn closing(&self, fd: i32) {
        // It is open.
        let _ = self.call(&Message::new(Kind::Close, [fd as u64]));
    }

    fn ready(&self, fd: i32) -> bool {
        self.call(&Message::new(Kind::Ready, [fd as u64])) == Ok(1)
    }

    fn ioctl(&self, fd: i32, request: u32, argument: u64) -> Result<i32> {
        let words = [fd as u64, request.into(), argument];
        self.call(&Message::new(Kind::Ioctl, words)).map(|_| 0)
    }

    fn made(&self) -> Vec<i32> {
        std::mem::take(&mut *lock(&self.made))
    }

    fn mmap(&self, fd: i32, map: Map) -> Result<u64> {
        let Map {
            at,
            bytes,
            protection,
            flags,
            offset,
        } = map;
        let (protection, flags) = (protection as u64, flags as u64);
        let words = [at, bytes, protection, flags, fd as u64, offset];
        self.call(&Message::new(Kind::Mmap, words))
    }

    fn knows(&self, at: u64, bytes: u64) -> bool {
        let end = at.saturating_add(bytes);
        let of_device = lock(&self.mapped).range(..end).any(|(_, last)| *last > at);
        of_device || lock(&self.own).has(at, bytes)
    }

    fn munmap(&self, at: u64, bytes: u64) -> Result<bool> {
        if !self.knows(at, bytes) {
            return Ok(false);
        }
        self.call(&Message::new(Kind::Munmap, [at, bytes]))?;
        Ok(true)
    }

    fn version(&self) -> Option<String> {
        None
    }

    fn broken(&self) -> Vec<String> {
        // The server says it, once everybody has ended.
        Vec::new()
    }

    fn finish(&self) {}

    fn forked(&self) {
        if self.left.swap(true, Ordering::Relaxed) {
            return;
        }
        // The parent's connections: it alone decides when they end.
        let _ = system::close(self.process.as_raw_fd());
        if let Ok(idle) = self.idle.try_lock() {
            for stream in idle.iter() {
                let _ = system::close(stream.as_raw_fd());
            }
        }
        if let Ok(own) = self.own.try_lock() {
            own.keep_for_child();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_server_says_is_read() {
        let text = "owned /dev/x\ndevice 511 0 /dev/x y\nlive used\nnonsense\n";
        let about = About::of(text);
        assert_eq!(about.owned, ["/dev/x"]);
        assert_eq!(about.live, ["used"]);
        assert_eq!(about.devices.get("/dev/x y"), Some(&(511, 0)));
    }
}
