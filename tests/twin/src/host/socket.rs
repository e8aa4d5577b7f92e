//! Bytes through a socket, with a descriptor that goes with them.

use std::io::{self, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

/// Room for one descriptor, aligned as its header has to be.
#[repr(align(8))]
struct Control([u8; 24]);

const DESCRIPTOR: u32 = size_of::<RawFd>() as u32;

/// A message of one piece of memory, with room for a descriptor.
fn message(piece: &mut libc::iovec, control: &mut Control) -> libc::msghdr {
    // SAFETY: zeros are a valid msghdr.
    let mut message: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    message.msg_iov = piece;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = control.0.len();
    message
}

/// Sends all of the bytes.
///
/// # Errors
/// What the system says.
pub fn send(mut to: &UnixStream, bytes: &[u8], file: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let mut control = Control([0; 24]);
    let mut piece = libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    };
    let mut message = message(&mut piece, &mut control);
    match file {
        Some(file) => {
            // SAFETY: computes a size.
            debug_assert_eq!(unsafe { libc::CMSG_SPACE(DESCRIPTOR) }, 24);
            // SAFETY: `control` has room for the header and one descriptor, and is aligned.
            unsafe {
                let header = libc::CMSG_FIRSTHDR(&raw const message);
                (*header).cmsg_level = libc::SOL_SOCKET;
                (*header).cmsg_type = libc::SCM_RIGHTS;
                (*header).cmsg_len = libc::CMSG_LEN(DESCRIPTOR) as usize;
                let data = libc::CMSG_DATA(header).cast::<RawFd>();
                data.write_unaligned(file.as_raw_fd());
            }
        }
        None => message.msg_controllen = 0,
    }
    let sent = loop {
        // SAFETY: the message is made of memory that lives until the call is over and is only read.
        let sent = unsafe { libc::sendmsg(to.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL) };
        match usize::try_from(sent) {
            Ok(sent) => break sent,
            Err(_) => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => {}
                error => return Err(error),
            },
        }
    };
    to.write_all(&bytes[sent..])
}

/// Receives as many bytes as there is room for, and the descriptor that came with the first of them. False
/// where the other side has gone.
///
/// # Errors
/// What the system says.
pub fn receive(mut from: &UnixStream, out: &mut [u8]) -> io::Result<(bool, Option<OwnedFd>)> {
    let mut control = Control([0; 24]);
    let mut piece = libc::iovec {
        iov_base: out.as_mut_ptr().cast(),
        iov_len: out.len(),
    };
    let mut message = message(&mut piece, &mut control);
    let flags = libc::MSG_CMSG_CLOEXEC;
    let received = loop {
        // SAFETY: the message is made of memory that is ours to write until the call is over.
        let received = unsafe { libc::recvmsg(from.as_raw_fd(), &raw mut message, flags) };
        match usize::try_from(received) {
            Ok(received) => break received,
            Err(_) => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => {}
                error => return Err(error),
            },
        }
    };
    // SAFETY: the system has filled `control` as far as the message says; the first entry, if it is a
    // descriptor, is a new one of this process, and nobody else's.
    let file = unsafe {
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        let is_descriptor = !header.is_null()
            && (*header).cmsg_level == libc::SOL_SOCKET
            && (*header).cmsg_type == libc::SCM_RIGHTS;
        is_descriptor.then(|| {
            let data = libc::CMSG_DATA(header).cast::<RawFd>();
            OwnedFd::from_raw_fd(data.read_unaligned())
        })
    };
    if received > 0 {
        from.read_exact(&mut out[received..])?;
    }
    Ok((received > 0, file))
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Seek, SeekFrom};
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn a_descriptor_goes_with_bytes() {
        let (one, two) = UnixStream::pair().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, b"text").unwrap();
        let file = File::open(&path).unwrap();
        send(&one, &[1, 2, 3], Some(file.as_fd())).unwrap();
        send(&one, &[4], None).unwrap();
        let mut bytes = [0; 3];
        let (there, other) = receive(&two, &mut bytes).unwrap();
        assert!(there && bytes == [1, 2, 3]);
        let mut text = String::new();
        let mut other = File::from(other.unwrap());
        other.seek(SeekFrom::Start(0)).unwrap();
        other.read_to_string(&mut text).unwrap();
        assert_eq!(text, "text");
        let (there, none) = receive(&two, &mut bytes[..1]).unwrap();
        assert!(there && bytes[0] == 4 && none.is_none());
        drop(one);
        assert!(!receive(&two, &mut bytes).unwrap().0);
    }
}
