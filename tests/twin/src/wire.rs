//! System calls of a process, and what a twin in another process has to ask of it to answer them, as
//! messages through a socket.
//!
//! A process connects once for itself: the end of that connection is its own. Each call goes through a
//! further one, which nobody else uses meanwhile: [`Kind::Done`] is the answer, and before it the twin may
//! ask in turn ([`Kind::Pin`] and those behind it). Memory goes along as a descriptor of the file that it is.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use crate::errno::{Errno, Result};
use crate::host::socket;

/// The variable that names the folder of a server: what [`socket_of`] and [`tree_of`] lie in.
pub const VARIABLE: &str = "DOORBELL_TWIN_SERVER";

/// Where a server listens.
pub fn socket_of(folder: &Path) -> PathBuf {
    folder.join("socket")
}

/// Where the files of its machine are, as files of the host.
pub fn tree_of(folder: &Path) -> PathBuf {
    folder.join("files")
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What a message says, with its words, its bytes and its file.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Kind {
            $($(#[$doc])* $name,)*
        }

        impl Kind {
            const ALL: &[Kind] = &[$(Kind::$name),*];

            /// That of a number.
            pub fn of(number: u64) -> Option<Kind> {
                let number = usize::try_from(number).ok()?;
                Kind::ALL.get(number).copied()
            }
        }
    };
}

kinds! {
    /// A process: its number, and an address where [`PROOF`] is. Answered with `EPERM` where that cannot be
    /// read, with a number for [`Kind::Calls`], and a line of bytes for each path
    /// that belongs to the machine (`owned PATH`), each device (`device MAJOR MINOR PATH`), and each name of
    /// files whose text changes (`live NAME`).
    Process,
    /// A connection for calls of the process with that number.
    Calls,
    /// open: descriptor, flags; the path. With a file that wakes up whoever polls the descriptor.
    Open,
    /// close: descriptor.
    Close,
    /// dup: descriptor, and the new one.
    Dup,
    /// ioctl: descriptor, request, argument.
    Ioctl,
    /// mmap: address, bytes, protection, flags, descriptor, offset.
    Mmap,
    /// munmap: address, bytes.
    Munmap,
    /// Whether poll finds it ready: descriptor.
    Ready,
    /// The text of a file is wanted as it is now: the path. Answered when it is in the tree.
    Text,
    /// The answer: what a call returns, an errno negative.
    Done,
    /// Memory of the process, for a device: address, bytes, whether to be written. Answered with a file,
    /// and its parts as pairs of words in bytes.
    Pin,
    /// Map the file: address, bytes, protection, flags, offset. Answered with the address.
    Map,
    /// Unmap: address, bytes.
    Unmap,
    /// A new descriptor, of the file if there is one. Answered with it, and where there is none with a file that wakes
    /// up whoever polls the descriptor.
    Descriptor,
    /// The file of that descriptor. Answered with it.
    File,
    /// Of records alone, see [`crate::record`]: the end of a process.
    Exit,
    /// What a call has read of the process: address.
    Read,
    /// What a call has written there: address.
    Write,
    /// What has become of memory that devices and processes share: the number of its file.
    Memory,
    /// A rule was broken.
    Broken,
    /// The end.
    End,
}

/// What a process has where it says so: whoever can read it there can read what calls lead to.
pub const PROOF: u64 = 0x446f_6f72_6265_6c6c;

/// Words of a message.
pub const WORDS: usize = 6;

/// A message.
#[derive(Debug)]
pub struct Message {
    /// What it says.
    pub kind: Kind,
    /// With which numbers.
    pub words: [u64; WORDS],
    /// With which bytes.
    pub bytes: Vec<u8>,
    /// With which file.
    pub file: Option<OwnedFd>,
}

/// Kind, words, and how many bytes follow.
const HEAD: usize = 8 * (WORDS + 2);
/// More than any path, text or list of parts has.
const MOST: u64 = 16 << 20;

impl Message {
    /// A message of numbers.
    pub fn new<const N: usize>(kind: Kind, words: [u64; N]) -> Message {
        let mut all = [0; WORDS];
        all[..N].copy_from_slice(&words);
        Message {
            kind,
            words: all,
            bytes: Vec::new(),
            file: None,
        }
    }

    /// The answer to a call.
    pub fn done(result: Result<u64>) -> Message {
        let word = match result {
            Ok(value) => value,
            Err(errno) => -i64::from(errno.0) as u64,
        };
        Message::new(Kind::Done, [word])
    }

    /// What an answer says.
    ///
    /// # Errors
    /// The errno that it says.
    pub fn result(&self) -> Result<u64> {
        match self.words[0] as i64 {
            errno @ -4095..=-1 => Err(Errno(-errno as i32)),
            _ => Ok(self.words[0]),
        }
    }

    /// Sends it.
    ///
    /// # Errors
    /// What the system says.
    pub fn send(&self, to: &UnixStream) -> io::Result<()> {
        let head = [self.kind as u64].into_iter().chain(self.words);
        let head = head.chain([self.bytes.len() as u64]);
        let mut bytes: Vec<u8> = head.flat_map(u64::to_ne_bytes).collect();
        bytes.extend_from_slice(&self.bytes);
        socket::send(to, &bytes, self.file.as_ref().map(AsFd::as_fd))
    }

    /// Receives one; none where the other side has gone.
    ///
    /// # Errors
    /// What the system says; `InvalidData` for what is no message.
    pub fn receive(from: &UnixStream) -> io::Result<Option<Message>> {
        let mut head = [0; HEAD];
        let (there, file) = socket::receive(from, &mut head)?;
        if !there {
            return Ok(None);
        }
        let mut all = [0; WORDS + 2];
        for (word, bytes) in all.iter_mut().zip(head.as_chunks::<8>().0) {
            *word = u64::from_ne_bytes(*bytes);
        }
        let [kind, words @ .., length] = all;
        let (Some(kind), true) = (Kind::of(kind), length <= MOST) else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        let mut bytes = vec![0; length as usize];
        if !bytes.is_empty() {
            let (there, _) = socket::receive(from, &mut bytes)?;
            if !there {
                return Ok(None);
            }
        }
        Ok(Some(Message {
            kind,
            words,
            bytes,
            file,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_as_they_were_sent() {
        let (one, two) = UnixStream::pair().unwrap();
        let mut open = Message::new(Kind::Open, [3, 2]);
        open.bytes = b"/dev/kfd".to_vec();
        open.send(&one).unwrap();
        Message::done(Err(Errno::ENOENT)).send(&one).unwrap();
        Message::done(Ok(0x7fff_0000_1000)).send(&one).unwrap();
        let next = || Message::receive(&two).unwrap();
        let seen = next().unwrap();
        assert_eq!((seen.kind, seen.words), (Kind::Open, [3, 2, 0, 0, 0, 0]));
        assert_eq!(seen.bytes, b"/dev/kfd");
        assert_eq!(next().unwrap().result(), Err(Errno::ENOENT));
        assert_eq!(next().unwrap().result(), Ok(0x7fff_0000_1000));
        drop(one);
        assert!(next().is_none());
    }
}
