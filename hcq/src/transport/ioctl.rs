//! [`IoctlOf`]: an ioctl with the type of its argument, and what in the argument is an address.
//!
//! An argument often holds addresses of memory that the kernel is to read or write. Safe code never
//! writes one: it hands over the memory, and the file fills in address and length for the time of the
//! call. So a call can be made neither with the argument of another ioctl nor with an address that
//! means nothing. What types cannot prove is the same as everywhere: addresses that a *device* will
//! use are numbers to the kernel.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

use zerocopy::{FromBytes, IntoBytes};

use super::Fault;

/// An ioctl: its name in the header, and its request code.
///
/// Source: Linux, include/uapi/asm-generic/ioctl.h: a request is direction (2 bits), size (14), type
/// (8), number (8).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ioctl {
    /// The name in the header.
    pub name: &'static str,
    /// The request code, with the size of the argument of the newest header.
    pub request: u32,
}

impl Ioctl {
    /// The client writes, the kernel reads (`_IOW`).
    pub const WRITE: u32 = 1 << 30;
    /// The client reads, the kernel writes (`_IOR`).
    pub const READ: u32 = 2 << 30;

    /// An ioctl from the parts of its request code.
    pub const fn new(name: &'static str, direction: u32, kind: u8, nr: u32, size: usize) -> Ioctl {
        let request = direction | (size as u32) << 16 | (kind as u32) << 8 | nr;
        Ioctl { name, request }
    }

    /// The number in a request.
    pub const fn nr_of(request: u32) -> u32 {
        request & 0xff
    }

    /// The type in a request.
    pub const fn kind_of(request: u32) -> u8 {
        (request >> 8) as u8
    }

    /// The size in a request.
    pub const fn size_of(request: u32) -> usize {
        (request >> 16 & 0x3fff) as usize
    }

    /// The number.
    pub const fn nr(self) -> u32 {
        Ioctl::nr_of(self.request)
    }

    /// Bytes of the argument.
    pub const fn size(self) -> usize {
        Ioctl::size_of(self.request)
    }

    /// The kernel reads the argument.
    pub const fn reads(self) -> bool {
        self.request & Ioctl::WRITE != 0
    }

    /// The kernel writes the argument.
    pub const fn writes(self) -> bool {
        self.request & Ioctl::READ != 0
    }
}

/// Two fields of an argument: 8 bytes with the address of an array, and the number of its elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pointer {
    /// Where the address is in the argument.
    pub at: usize,
    /// Where the number is.
    pub count_at: usize,
    /// Bytes of the number: 4 or 8; 0 if the kernel knows the number.
    pub count_bytes: usize,
    /// Bytes of an element.
    pub element: usize,
}

/// An ioctl whose argument is a `T`.
pub struct IoctlOf<T> {
    ioctl: Ioctl,
    /// `None` if addresses in the argument are not described: calls are refused.
    pointers: Option<&'static [Pointer]>,
    of: PhantomData<fn(T)>,
}

impl<T> Clone for IoctlOf<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for IoctlOf<T> {}

impl<T> fmt::Debug for IoctlOf<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.ioctl.fmt(f)
    }
}

impl<T> Deref for IoctlOf<T> {
    type Target = Ioctl;

    fn deref(&self) -> &Ioctl {
        &self.ioctl
    }
}

impl<T> From<IoctlOf<T>> for Ioctl {
    fn from(typed: IoctlOf<T>) -> Ioctl {
        typed.ioctl
    }
}

impl<T> IoctlOf<T> {
    /// From a table of facts.
    ///
    /// # Panics
    /// At compile time, when the argument is not as long as the request says, or a pointer lies
    /// outside of it.
    ///
    /// # Safety
    /// As in the kernel's header: the ioctl takes a `T`, and every address in it that the kernel itself
    /// uses is one of `pointers`, with the length that the kernel takes it to have.
    #[allow(unsafe_code)]
    pub const unsafe fn new(ioctl: Ioctl, pointers: &'static [Pointer]) -> IoctlOf<T> {
        assert!(
            size_of::<T>() == ioctl.size(),
            "an argument of another size"
        );
        let mut i = 0;
        while i < pointers.len() {
            let p = pointers[i];
            assert!(p.at + 8 <= size_of::<T>() && p.count_at + p.count_bytes <= size_of::<T>());
            assert!(p.element > 0 && (p.count_bytes == 4 || p.count_bytes == 8));
            i += 1;
        }
        IoctlOf {
            ioctl,
            pointers: Some(pointers),
            of: PhantomData,
        }
    }

    /// An ioctl with addresses in its argument that are not described: it can be named and modelled,
    /// but calls are refused.
    pub const fn undescribed(ioctl: Ioctl) -> IoctlOf<T> {
        IoctlOf {
            ioctl,
            pointers: None,
            of: PhantomData,
        }
    }

    /// Without the type.
    pub const fn ioctl(self) -> Ioctl {
        self.ioctl
    }
}

impl<T: IntoBytes + FromBytes> IoctlOf<T> {
    /// A call of it. `memory` is what the addresses in the argument name, in the order of the table;
    /// those that are left out are null, with a length of 0.
    pub fn with<'a, 'm>(
        self,
        argument: &'a mut T,
        memory: &'a mut [&'m mut [u8]],
    ) -> Request<'a, 'm> {
        Request {
            ioctl: self.ioctl,
            bytes: self.ioctl.size(),
            pointers: self.pointers,
            argument: argument.as_mut_bytes(),
            memory,
            is_wait: false,
        }
    }
}

/// A call of an ioctl.
pub struct Request<'a, 'm> {
    ioctl: Ioctl,
    /// Bytes of the argument as the kernel takes it.
    bytes: usize,
    pointers: Option<&'static [Pointer]>,
    argument: &'a mut [u8],
    memory: &'a mut [&'m mut [u8]],
    is_wait: bool,
}

impl<'a, 'm> Request<'a, 'm> {
    /// A call of anything, for tests and for tools.
    ///
    /// # Safety
    /// What the kernel does with the argument, and with every address in it, must be allowed.
    #[allow(unsafe_code)]
    pub unsafe fn raw(ioctl: Ioctl, argument: &'a mut [u8]) -> Request<'a, 'm> {
        Request {
            ioctl,
            bytes: ioctl.size(),
            pointers: Some(&[]),
            argument,
            memory: &mut [],
            is_wait: false,
        }
    }

    /// A call with an argument that is laid out at run time, for tables with several layouts. The
    /// request need not contain the size: requests of some drivers are plain numbers.
    ///
    /// # Safety
    /// The kernel takes no more of the argument than there is, and every address in it that the kernel
    /// itself uses is one of `pointers`, with the length that the kernel takes it to have.
    #[allow(unsafe_code)]
    pub unsafe fn described(
        ioctl: Ioctl,
        pointers: &'static [Pointer],
        argument: &'a mut [u8],
        memory: &'a mut [&'m mut [u8]],
    ) -> Request<'a, 'm> {
        Request {
            ioctl,
            bytes: argument.len(),
            pointers: Some(pointers),
            argument,
            memory,
            is_wait: false,
        }
    }

    /// The call waits: when a signal interrupts it, the file returns EINTR, and does not make it again. The limits of some
    /// waits start anew with each call, and the caller has a deadline.
    pub fn waiting(self) -> Self {
        Request {
            is_wait: true,
            ..self
        }
    }

    /// Whether the call waits: see [`Request::waiting`].
    pub fn is_wait(&self) -> bool {
        self.is_wait
    }

    /// Which ioctl.
    pub fn ioctl(&self) -> Ioctl {
        self.ioctl
    }

    /// Argument and memory as bytes, one after the other, with zeros for the addresses.
    pub fn data(&self) -> Vec<u8> {
        let mut data = self.argument.to_vec();
        for pointer in self.pointers.unwrap_or_default() {
            if let Some(address) = data.get_mut(pointer.at..pointer.at + 8) {
                address.fill(0);
            }
        }
        self.memory.iter().for_each(|part| data.extend(&**part));
        data
    }

    /// Replaces argument and memory.
    ///
    /// # Errors
    /// [`Fault::Short`] for another length.
    pub fn set_data(&mut self, data: &[u8]) -> Result<(), Fault> {
        let parts = self.memory.iter().map(|part| part.len());
        let wanted = self.argument.len() + parts.sum::<usize>();
        if data.len() != wanted {
            let moved = data.len();
            return Err(Fault::Short { wanted, moved });
        }
        let (argument, mut rest) = data.split_at(self.argument.len());
        self.argument.copy_from_slice(argument);
        for part in self.memory.iter_mut() {
            let (now, later) = rest.split_at(part.len());
            part.copy_from_slice(now);
            rest = later;
        }
        Ok(())
    }

    /// Makes the call: `call` gets the argument with addresses and lengths filled in, for as long as it
    /// runs. For files.
    ///
    /// # Errors
    /// [`Fault::Short`] if the length of the argument differs from the request, or if memory is no
    /// whole number of elements; [`Fault::Unsupported`] for addresses that are not described.
    pub fn perform<R>(&mut self, call: impl FnOnce(u32, &mut [u8]) -> R) -> Result<R, Fault> {
        let (wanted, moved) = (self.bytes, self.argument.len());
        if moved != wanted {
            return Err(Fault::Short { wanted, moved });
        }
        let Some(pointers) = self.pointers else {
            let why = format!("no description of the pointers in {}", self.ioctl.name);
            return Err(Fault::Unsupported(why));
        };
        if self.memory.len() > pointers.len() {
            let why = format!("{} takes {} addresses", self.ioctl.name, pointers.len());
            return Err(Fault::Unsupported(why));
        }
        for (i, pointer) in pointers.iter().enumerate() {
            let (address, count) = match self.memory.get_mut(i) {
                Some(part) if !part.len().is_multiple_of(pointer.element) => {
                    let wanted = part.len().next_multiple_of(pointer.element);
                    let moved = part.len();
                    return Err(Fault::Short { wanted, moved });
                }
                Some(part) => {
                    let address = part.as_mut_ptr().expose_provenance() as u64;
                    (address, part.len() / pointer.element)
                }
                None => (0, 0),
            };
            let count = &(count as u64).to_ne_bytes()[..];
            // A length that does not fit is cut to less, never to more.
            let count = match cfg!(target_endian = "little") {
                true => &count[..pointer.count_bytes],
                false => &count[8 - pointer.count_bytes..],
            };
            self.argument[pointer.at..pointer.at + 8].copy_from_slice(&address.to_ne_bytes());
            self.argument[pointer.count_at..pointer.count_at + pointer.count_bytes]
                .copy_from_slice(count);
        }
        let result = call(self.ioctl.request, self.argument);
        for pointer in pointers {
            self.argument[pointer.at..pointer.at + 8].fill(0);
        }
        Ok(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(zerocopy::FromBytes, zerocopy::IntoBytes, Default)]
    #[repr(C)]
    struct Args {
        at: u64,
        other: u32,
        count: u32,
    }

    const POINTERS: &[Pointer] = &[Pointer {
        at: 0,
        count_at: 12,
        count_bytes: 4,
        element: 4,
    }];
    const CODE: Ioctl = Ioctl::new("IOC_TEST", Ioctl::READ | Ioctl::WRITE, b'x', 7, 16);
    // SAFETY: no kernel is asked here.
    #[allow(unsafe_code)]
    const TEST: IoctlOf<Args> = unsafe { IoctlOf::new(CODE, POINTERS) };

    #[test]
    fn a_request_is_taken_apart() {
        assert_eq!(TEST.request, 0xc010_7807);
        assert_eq!((TEST.nr(), TEST.size()), (7, 16));
        assert!(TEST.reads() && TEST.writes());
        assert_eq!(Ioctl::kind_of(TEST.request), b'x');
    }

    #[test]
    fn addresses_are_there_during_the_call_only() {
        let mut memory = [1u32, 2, 3];
        let base = memory.as_ptr().addr() as u64;
        let mut args = Args {
            at: 0xdead,
            other: 9,
            count: 1000,
        };
        let mut parts = [memory.as_mut_bytes()];
        let mut request = TEST.with(&mut args, &mut parts);
        let seen = request.perform(|code, argument| {
            let seen = Args::read_from_bytes(argument).unwrap();
            argument[8] = 5;
            (code, seen.at, seen.other, seen.count)
        });
        assert_eq!(seen, Ok((TEST.request, base, 9, 3)));
        let data = request.data();
        assert_eq!(data.len(), 16 + 12);
        assert_eq!((args.at, args.other, args.count), (0, 5, 3));
        // Without memory there is nothing.
        let mut request = TEST.with(&mut args, &mut []);
        let seen = request.perform(|_, argument| argument.to_vec()).unwrap();
        assert_eq!(seen, [0, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn a_bare_number_takes_an_argument_of_any_length() {
        const ONE: &[Pointer] = &[Pointer {
            at: 0,
            count_at: 0,
            count_bytes: 0,
            element: 1,
        }];
        let bare = Ioctl {
            name: "BARE",
            request: 73,
        };
        let (mut argument, mut memory) = ([9; 24], [1, 2, 3]);
        let base = memory.as_ptr().addr() as u64;
        let mut parts = [&mut memory[..]];
        // SAFETY: no kernel is asked here.
        #[allow(unsafe_code)]
        let mut request = unsafe { Request::described(bare, ONE, &mut argument, &mut parts) };
        let seen = request.perform(|code, argument| (code, argument.to_vec()));
        let (code, bytes) = seen.unwrap();
        assert_eq!((code, &bytes[..8]), (73, &base.to_ne_bytes()[..]));
        assert!(
            bytes[8..].iter().all(|&byte| byte == 9),
            "no length is written"
        );
        assert_eq!(argument[..8], [0; 8]);
    }

    #[test]
    fn what_does_not_fit_is_refused_before_the_call() {
        let never = |_: u32, _: &mut [u8]| panic!("called");
        let mut short = [0; 8];
        // SAFETY: no kernel is asked here.
        #[allow(unsafe_code)]
        let mut request = unsafe { Request::raw(CODE, &mut short) };
        let short = Fault::Short {
            wanted: 16,
            moved: 8,
        };
        assert_eq!(request.perform(never), Err(short));
        let mut args = Args::default();
        let mut odd = [0; 5];
        let mut parts = [&mut odd[..]];
        assert!(TEST.with(&mut args, &mut parts).perform(never).is_err());
        let (mut a, mut b) = ([0; 4], [0; 4]);
        let mut parts = [&mut a[..], &mut b[..]];
        assert!(TEST.with(&mut args, &mut parts).perform(never).is_err());
        let unknown = IoctlOf::<Args>::undescribed(CODE);
        let refused = unknown.with(&mut args, &mut []).perform(never);
        assert!(matches!(refused, Err(Fault::Unsupported(_))));
    }
}
