//! Doorbells: what is rung runs, and nothing else; and what was not rung is missed.

use std::time::{Duration, Instant};

use drivers_spec::nv::push::{userd, usermode};
use drivers_spec::nv::{class, status};
use twin::fires::fires;
use twin_nv::client::Memory;

use super::bench::{Bench, RING, RING_BYTES, shared};

/// Where the doorbell is mapped.
const DOORBELL: u64 = 0x50_0000_0000;
/// Where push buffers are, behind the ring and USERD.
const PUSH: u64 = RING + 0x2_0000;
/// Semaphores.
pub const DATA: u64 = RING + 0x10_0000;

/// A client that rings.
pub struct Client {
    pub bench: Bench,
    /// Places of USERD and the ring of each channel, and how many entries it has put.
    pub channels: Vec<(u32, u64, u64, u32)>,
    push: u64,
}

impl Client {
    pub fn new(config: &str) -> Client {
        let bench = Bench::with_channel(config);
        assert_eq!(bench.map_cpu(bench.gpu, bench.ring, 0, RING_BYTES), 0);
        let wanted = shared(Some(RING), RING_BYTES);
        bench.process.mmap(wanted, bench.gpu, 0).unwrap();
        let usermode = bench.machine.config.chips[0].facts().usermode;
        let object = bench.must::<class::GrAlloc>(bench.subdevice, usermode, None);
        let file = bench.process.open("/dev/nvidia0").unwrap();
        assert_eq!(bench.map_cpu(file, object, 0, usermode::BYTES), 0);
        let wanted = shared(Some(DOORBELL), usermode::BYTES);
        bench.process.mmap(wanted, file, 0).unwrap();
        let token = bench.machine.state().channels().next().unwrap().token;
        Client {
            bench,
            channels: vec![(token, RING + 0x1_0000, RING, 0)],
            push: PUSH,
        }
    }

    /// Another channel in the group, with a ring of its own.
    pub fn another(&mut self) {
        let mut params = self.bench.channel_params();
        params.gp_fifo_offset = RING + 0x8000;
        params.userd_offset[0] = 0x1_1000;
        let (status, channel) = self.bench.channel(&mut params);
        assert_eq!(status, status::NV_OK);
        let known = self.bench.register_channel(channel, 0x30_0000_0000);
        assert_eq!(known, status::NV_OK);
        let state = self.bench.machine.state();
        let token = state
            .channels()
            .find(|one| one.handle == channel)
            .unwrap()
            .token;
        drop(state);
        let userd = RING + 0x1_1000;
        self.channels.push((token, userd, RING + 0x8000, 0));
    }

    pub fn write(&self, at: u64, data: &[u8]) {
        self.bench.memory.write(at, data).unwrap();
    }

    pub fn long(&self, at: u64) -> u64 {
        let mut bytes = [0; 8];
        self.bench.memory.read(at, &mut bytes).unwrap();
        u64::from_le_bytes(bytes)
    }

    /// Puts words into a ring.
    pub fn push(&mut self, channel: usize, words: &[u32]) {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.write(self.push, &bytes);
        let entry = self.push | (words.len() as u64) << 42;
        self.push += bytes.len() as u64;
        let (_, _, ring, put) = self.channels[channel];
        self.write(ring + u64::from(put) * 8, &entry.to_le_bytes());
        self.channels[channel].3 += 1;
    }

    /// A semaphore: SEM_ADDR_LO to SEM_EXECUTE.
    pub fn semaphore(&mut self, channel: usize, at: u64, payload: u64, execute: u32) {
        let header = 1 << 29 | 5 << 16 | (0x5c >> 2);
        let (low, high) = (payload as u32, (payload >> 32) as u32);
        let execute = execute | 1 << 24;
        self.push(
            channel,
            &[header, at as u32, (at >> 32) as u32, low, high, execute],
        );
    }

    fn put(&self, channel: usize, put: u32) {
        let at = self.channels[channel].1 + userd::GP_PUT;
        self.write(at, &put.to_le_bytes());
    }

    fn ring(&self, token: u32) {
        let at = DOORBELL + usermode::NOTIFY_CHANNEL_PENDING;
        self.write(at, &token.to_le_bytes());
    }

    /// Moves GPPut, and rings.
    pub fn go(&self, channel: usize) {
        let (token, _, _, put) = self.channels[channel];
        self.put(channel, put);
        self.ring(token);
    }

    pub fn schedule(&self) {
        assert_eq!(self.bench.schedule(self.bench.group), status::NV_OK);
    }

    /// Whether a word comes to be so.
    pub fn comes(&self, at: u64, value: u64) -> bool {
        let end = Instant::now() + Duration::from_secs(10);
        while Instant::now() < end {
            if self.long(at) == value {
                return true;
            }
            std::thread::yield_now();
        }
        false
    }

    /// Waits until a rule is broken.
    fn breaks(&self) -> Vec<&'static str> {
        let end = Instant::now() + Duration::from_secs(10);
        while self.bench.broken().is_empty() && Instant::now() < end {
            std::thread::yield_now();
        }
        self.bench.broken()
    }
}

const RELEASE: u32 = 1;

#[test]
fn what_is_rung_runs() {
    for chip in ["ga102", "ad102", "h100", "gb202"] {
        let mut client = Client::new(&format!("chip={chip}"));
        client.schedule();
        for i in 1..=100 {
            client.semaphore(0, DATA, i, RELEASE);
            client.go(0);
            assert!(client.comes(DATA, i), "{chip}");
        }
        let gp_get = client.channels[0].1 + userd::GP_GET;
        assert_eq!(client.long(gp_get), 100 | 100 << 32, "{chip}");
        client.bench.process.exit();
        assert!(client.bench.broken().is_empty(), "{chip}");
    }
}

#[test]
fn channels_wait_for_each_other() {
    let mut client = Client::new("");
    client.another();
    client.schedule();
    // The first waits for the second, which waits for the client.
    client.semaphore(0, DATA, 1, 0);
    client.semaphore(0, DATA + 16, 5, RELEASE);
    client.go(0);
    client.semaphore(1, DATA + 32, 1, 0);
    client.semaphore(1, DATA, 1, RELEASE);
    client.go(1);
    std::thread::sleep(Duration::from_millis(5));
    assert_eq!((client.long(DATA), client.long(DATA + 16)), (0, 0));
    client.write(DATA + 32, &1_u64.to_le_bytes());
    assert!(client.comes(DATA + 16, 5));
    assert!(client.bench.broken().is_empty());
}

/// The times at which two channels release semaphores, that a store of the client sets off.
fn times(config: &str) -> Vec<u64> {
    const EACH: u64 = 40;
    let mut client = Client::new(config);
    client.another();
    client.schedule();
    let place = |channel: usize, i: u64| DATA + 0x1000 + (channel as u64 * EACH + i) * 16;
    for channel in [0, 1] {
        client.semaphore(channel, DATA, 1, 0);
        for i in 0..EACH {
            client.semaphore(channel, place(channel, i), 1, RELEASE | 1 << 25);
        }
        client.go(channel);
        let gp_get = client.channels[channel].1 + userd::GP_GET;
        assert!(client.comes(gp_get, 1 | (EACH + 1) << 32));
    }
    std::thread::sleep(Duration::from_millis(1));
    client.write(DATA, &1_u64.to_le_bytes());
    let all = [0, 1]
        .into_iter()
        .flat_map(|c| (0..EACH).map(move |i| place(c, i)));
    let all: Vec<u64> = all.collect();
    assert!(client.comes(all[EACH as usize - 1], 1) && client.comes(all[2 * EACH as usize - 1], 1));
    let mut times: Vec<u64> = all.iter().map(|at| client.long(at + 8)).collect();
    let first = times.iter().min().copied().unwrap();
    times.iter_mut().for_each(|time| *time -= first);
    times
}

#[test]
fn a_seed_gives_the_same_order_again() {
    let first = times("seed=7");
    for _ in 0..20 {
        assert_eq!(times("seed=7"), first);
    }
    assert_ne!(times("seed=8"), first);
}

#[test]
fn two_rings_at_once_are_two() {
    for _ in 0..50 {
        let mut client = Client::new("");
        client.another();
        client.schedule();
        for channel in [0, 1] {
            client.semaphore(channel, DATA + 16 * channel as u64, 7, RELEASE);
            client.go(channel);
        }
        assert!(client.comes(DATA, 7) && client.comes(DATA + 16, 7));
    }
}

#[test]
fn doorbells_are_of_channels_that_run() {
    let mut client = Client::new("chip=gb202");
    let token = client.channels[0].0;
    assert_eq!(token >> 30, 1);
    client.semaphore(0, DATA, 1, RELEASE);
    client.put(0, 1);
    client.ring(token);
    fires("HOST-DOORBELL-SCHEDULED").only(&client.breaks());

    let client = Client::new("");
    client.schedule();
    client.ring(client.channels[0].0 ^ 1);
    fires("HOST-DOORBELL-TOKEN").only(&client.breaks());

    let client = Client::new("");
    client.schedule();
    client.put(0, 1024);
    client.ring(client.channels[0].0);
    fires("HOST-GP-PUT").only(&client.breaks());
}

#[test]
fn what_nobody_has_rung_for_is_missed() {
    let mut client = Client::new("");
    client.schedule();
    client.semaphore(0, DATA, 1, RELEASE);
    client.put(0, 1);
    std::thread::sleep(Duration::from_millis(5));
    assert_eq!(client.long(DATA), 0);
    assert_eq!(client.bench.free(client.bench.channel), status::NV_OK);
    fires("HOST-DOORBELL-MISSING").only(&client.breaks());
}

#[test]
fn a_channel_that_only_others_are_rung_for_is_named() {
    let mut client = Client::new("");
    client.another();
    client.schedule();
    client.semaphore(0, DATA, 1, RELEASE);
    client.put(0, 1);
    client.ring(client.channels[1].0);
    assert!(client.comes(DATA, 1));
    assert_eq!(client.bench.free(client.bench.channel), status::NV_OK);
    fires("HOST-DOORBELL-OTHER").only(&client.breaks());
}

#[test]
fn a_channel_that_waits_for_ever_is_named_at_its_end() {
    let mut client = Client::new("");
    client.schedule();
    client.semaphore(0, DATA, 1, 0);
    client.go(0);
    let gp_get = client.channels[0].1 + userd::GP_GET;
    assert!(client.comes(gp_get, 1 | 1 << 32));
    std::thread::sleep(Duration::from_millis(5));
    client.bench.process.exit();
    fires("HOST-DEADLOCK").only(&client.breaks());
}
