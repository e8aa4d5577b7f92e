//! What comes through a connection.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use twin::caller::Caller;
use twin::errno::{Errno, Result};
use twin::process::{Calls, Wanted};
use twin::tree::plain;
use twin::wire::{Kind, Message, PROOF};

use crate::State;
use crate::machine::LIVE;
use crate::peer::{Peer, calling, made};

/// Serves until the other side has gone, or says what makes no sense.
pub fn serve(state: &State, stream: UnixStream) {
    let stream = Arc::new(stream);
    let Ok(Some(first)) = Message::receive(&stream) else {
        return;
    };
    match first.kind {
        Kind::Process => {
            let pid = first.words[0] as u32;
            let peer = Peer {
                pid,
                recorder: None,
            };
            let caller: &dyn Caller = &peer;
            match caller.get::<u64>(first.words[1]) {
                Ok(PROOF) => process(state, &stream, pid),
                // It is told, or has gone.
                _ => drop(Message::done(Err(Errno::EPERM)).send(&stream)),
            }
        }
        Kind::Calls => {
            let number = first.words[0] as u32;
            let process = state.processes().get(&number).cloned();
            if let Some(process) = process {
                calls(state, &stream, number, &*process);
            }
        }
        _ => {}
    }
}

/// A process, for as long as it lives.
fn process(state: &State, stream: &UnixStream, pid: u32) {
    let number = state.begin(pid);
    let mut answer = Message::done(Ok(number.into()));
    answer.bytes = about(state).into_bytes();
    if answer.send(stream).is_ok() {
        // Nothing comes but the end.
        let _ = Message::receive(stream);
    }
    let ended = state.processes().remove(&number);
    if let Some(process) = ended {
        state.end(number, &*process);
    }
}

/// What a process has to know of the machine: see [`Kind::Process`].
fn about(state: &State) -> String {
    let owned = state
        .machine
        .owned()
        .iter()
        .map(|path| format!("owned {path}\n"));
    let devices = state.tree.devices();
    let devices = devices.map(|(path, (major, minor))| format!("device {major} {minor} {path}\n"));
    let live = LIVE.iter().map(|name| format!("live {name}\n"));
    owned.chain(devices).chain(live).collect()
}

fn calls(state: &State, stream: &Arc<UnixStream>, number: u32, process: &dyn Calls) {
    while let Ok(Some(message)) = Message::receive(stream) {
        let (kind, words, bytes) = (message.kind, message.words, message.bytes.clone());
        let run = || call(Some(state), process, message);
        let result = calling(stream, || match &state.recorder {
            Some(recorder) => recorder.call(number, (kind, words, &bytes), run),
            None => run(),
        });
        if Message::done(result).send(stream).is_err() {
            return;
        }
    }
}

/// Makes a call. Where nobody reads texts there is no state.
pub fn call(state: Option<&State>, calls: &dyn Calls, message: Message) -> Result<u64> {
    let [a, b, c, d, e, f] = message.words;
    let path = || {
        let text = std::str::from_utf8(&message.bytes);
        text.map(plain).map_err(|_| Errno::ENOENT)
    };
    match message.kind {
        Kind::Open => {
            calls.open_as(&path()?, b as i32, a as i32)?;
            if let Some(state) = state {
                state.opened.store(true, Ordering::Relaxed);
            }
            if let Some(file) = message.file {
                let file = File::from(file);
                calls.watch(a as i32, Box::new(move |ready| signal(&file, ready)))?;
            }
        }
        Kind::Close => calls.close(a as i32)?,
        Kind::Dup => calls.dup_as(a as i32, b as i32)?,
        Kind::Ioctl => {
            let done = calls.ioctl(a as i32, b as u32, c);
            for (fd, file) in made() {
                // One that a failed call has made is nobody's.
                let _ = calls.watch(fd, Box::new(move |ready| signal(&file, ready)));
            }
            done?;
        }
        Kind::Mmap => {
            let wanted = Wanted {
                address: a,
                bytes: b,
                protection: c as i32,
                flags: d as i32,
            };
            return calls.mmap(wanted, e as i32, f);
        }
        Kind::Munmap => calls.munmap(a, b)?,
        Kind::Ready => return calls.ready(a as i32).map(u64::from),
        Kind::Text => text(state, calls, &path()?)?,
        _ => return Err(Errno::EINVAL),
    }
    Ok(0)
}

/// Wakes up who polls the file, or puts him to sleep again: a counter, which is 0 or more.
fn signal(mut file: &File, ready: bool) {
    let mut word = 1_u64.to_ne_bytes();
    // One that is full or empty stays as it is.
    let _ = match ready {
        true => file.write(&word),
        false => file.read(&mut word),
    };
}

/// Writes the text of a file, as it is now, where processes read it; takes what one has written there before.
fn text(state: Option<&State>, calls: &dyn Calls, path: &str) -> Result {
    let mut now = read(calls, path)?;
    let Some(state) = state else {
        return Ok(());
    };
    let at = state.tree.path(path);
    let other = fs::read(&at).ok().filter(|there| *there != now);
    if other.is_some_and(|there| state.machine.store(path, &there)) {
        now = read(calls, path)?;
    }
    fs::write(at, now).map_err(|_| Errno::EIO)
}

fn read(calls: &dyn Calls, path: &str) -> Result<Vec<u8>> {
    const RDONLY: i32 = 0;
    let fd = calls.open(path, RDONLY)?;
    let mut bytes = vec![0; 4096];
    let read = calls.read(fd, 0, &mut bytes);
    calls.close(fd)?;
    bytes.truncate(read?);
    Ok(bytes)
}
