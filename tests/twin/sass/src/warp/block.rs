//! A block: warps that share memory and meet at barriers.

use super::bulk::Flights;
use super::fault::{Cause, Fault};
use super::memory::{Memory, Windows};
use super::program::Program;
use super::state::Constants;
use super::threads::{Around, Threads, Turn};
use super::warpgroup;

/// How blocks of a grid are run.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    /// The program.
    pub program: &'a Program,
    /// Constant memory, in which the parameters are.
    pub constants: Constants<'a>,
    /// The threads of a block in each direction.
    pub threads: [u32; 3],
    /// Registers of a thread: an instruction that uses more is a fault.
    pub registers: u16,
    /// Barriers of a block: one beyond them is a fault.
    pub barriers: u8,
    /// Bytes of shared memory of a block.
    pub shared: usize,
    /// Bytes of local memory of a lane.
    pub local: usize,
    /// Where these lie among generic addresses.
    pub windows: Windows,
    /// Whether what control words promise is watched: a result that is used too early is a fault.
    pub watch: bool,
}

/// How many instructions a warp runs at a time.
const TURN: u64 = 4096;

/// Who has arrived at a barrier.
#[derive(Clone, Debug, Default)]
struct Barrier {
    /// Lanes, of each warp.
    arrived: Vec<u32>,
    /// How many threads it is for, if not for all.
    count: Option<u32>,
    votes: u32,
    /// Whether the result is that all say so, or that one does.
    kind: (bool, bool),
}

/// The barriers of a block.
pub(crate) struct Barriers {
    each: [Barrier; 16],
    warps: usize,
    /// How many the launch has.
    pub declared: u8,
}

impl Barriers {
    pub fn arrive(
        &mut self,
        number: u8,
        warp: usize,
        lanes: u32,
        count: Option<u32>,
        vote: u32,
        kind: (bool, bool),
    ) {
        let barrier = &mut self.each[usize::from(number)];
        barrier.arrived.resize(self.warps, 0);
        barrier.arrived[warp] |= lanes;
        barrier.count = count;
        barrier.votes += vote.count_ones();
        barrier.kind = kind;
    }
}

/// A block that runs.
pub struct Block<'a> {
    launch: Launch<'a>,
    place: [u32; 3],
    warps: Vec<Threads>,
    shared: Vec<u8>,
    flights: Flights,
    barriers: Barriers,
}

impl<'a> Block<'a> {
    /// A block at a place of its grid.
    ///
    /// # Errors
    /// When the program reads more of a bank of constant memory than there is.
    pub fn new(launch: Launch<'a>, place: [u32; 3]) -> Result<Self, Fault> {
        for (bank, &end) in (0..).zip(&launch.program.constants) {
            if launch.constants.bytes(bank, 0, end).is_none() {
                let cause = Cause::Constant {
                    lane: 0,
                    bank,
                    address: 0,
                    bytes: end,
                };
                return Err(Fault {
                    block: place,
                    warp: 0,
                    address: 0,
                    cause,
                });
            }
        }
        let threads = launch.threads.iter().product::<u32>();
        let warps: Vec<_> = (0..threads)
            .step_by(32)
            .map(|first| Threads::new(first, place, &launch))
            .collect();
        let barriers = Barriers {
            each: Default::default(),
            warps: warps.len(),
            declared: launch.barriers,
        };
        Ok(Self {
            launch,
            place,
            warps,
            shared: vec![0; launch.shared],
            flights: Flights::new(if launch.program.fences {
                launch.shared
            } else {
                0
            }),
            barriers,
        })
    }

    /// Runs it to its end. Returns how many instructions its warps ran.
    ///
    /// # Errors
    /// When a warp does what it must not, when none can go on, or when more than a number of
    /// instructions would be run.
    pub fn run(&mut self, global: &mut dyn Memory, limit: u64) -> Result<u64, Fault> {
        loop {
            if let Some(ran) = self.turn(global, u64::MAX, limit)? {
                return Ok(ran);
            }
        }
    }

    /// Runs some instructions of it. Returns how many it ran in all when it has come to its end.
    pub(crate) fn turn(
        &mut self,
        global: &mut dyn Memory,
        budget: u64,
        limit: u64,
    ) -> Result<Option<u64>, Fault> {
        let end = self.ran().saturating_add(budget);
        loop {
            let mut went = false;
            for number in 0..self.warps.len() {
                let warp = &mut self.warps[number];
                if warp.live == 0 {
                    continue;
                }
                let before = warp.identity.clock;
                let mut around = Around {
                    program: self.launch.program,
                    constants: &self.launch.constants,
                    global: &mut *global,
                    shared: &mut self.shared,
                    windows: self.launch.windows,
                    flights: &mut self.flights,
                    barriers: &mut self.barriers,
                    warp: number,
                    registers: self.launch.registers,
                };
                let turn = warp.run(&mut around, TURN);
                went |= warp.identity.clock != before;
                match turn {
                    Ok(Turn::Over | Turn::Waits | Turn::Done) => {}
                    Err(cause) => {
                        let address = 16 * u64::from(warp.at);
                        return Err(Fault {
                            block: self.place,
                            warp: number,
                            address,
                            cause,
                        });
                    }
                }
            }
            let ran = self.ran();
            if self.warps.iter().all(|warp| warp.live == 0) {
                return Ok(Some(ran));
            }
            went |= self.release_barriers();
            if self.launch.program.products {
                went |= self.multiply()?;
            }
            let first = self
                .warps
                .iter()
                .position(|warp| warp.live != 0)
                .unwrap_or(0);
            let cause = if !went {
                let waiting = self
                    .warps
                    .iter()
                    .enumerate()
                    .filter(|(_, warp)| warp.live != 0);
                let text: Vec<_> = waiting
                    .map(|(n, warp)| format!("warp {n}: {}", warp.waiting()))
                    .collect();
                Cause::Stuck(text.join("; "))
            } else if ran > limit {
                Cause::Limit(limit)
            } else if ran >= end {
                return Ok(None);
            } else {
                continue;
            };
            let address = 16 * u64::from(self.warps[first].at);
            return Err(Fault {
                block: self.place,
                warp: first,
                address,
                cause,
            });
        }
    }

    /// Computes what groups of warps wait for.
    fn multiply(&mut self) -> Result<bool, Fault> {
        let mut any = false;
        for (group, warps) in self.warps.chunks_mut(warpgroup::WARPS).enumerate() {
            let done =
                warpgroup::compute(warps, &self.shared, &self.flights, &self.launch.constants);
            any |= done.map_err(|(warp, at, cause)| Fault {
                block: self.place,
                warp: group * warpgroup::WARPS + warp,
                address: 16 * u64::from(at),
                cause,
            })?;
        }
        Ok(any)
    }

    /// Instructions so far.
    fn ran(&self) -> u64 {
        self.warps.iter().map(|warp| warp.identity.clock).sum()
    }

    /// Lets the warps go on that wait at a barrier at which all have arrived.
    fn release_barriers(&mut self) -> bool {
        let mut any = false;
        for (number, barrier) in (0..).zip(&mut self.barriers.each) {
            if barrier.arrived.iter().all(|&lanes| lanes == 0) {
                continue;
            }
            // A warp whose lanes are all there, or have ended, counts as a whole.
            let whole = |arrived: u32, live: u32| live & !arrived == 0;
            let each = || barrier.arrived.iter().zip(&self.warps);
            let complete = match barrier.count {
                None => each().all(|(&arrived, warp)| whole(arrived, warp.live)),
                Some(count) => {
                    let threads = each().map(|(&arrived, warp)| match arrived {
                        0 => 0,
                        arrived if whole(arrived, warp.live) => 32,
                        arrived => arrived.count_ones(),
                    });
                    threads.sum::<u32>() >= count
                }
            };
            if complete {
                let lanes: u32 = barrier.arrived.iter().map(|lanes| lanes.count_ones()).sum();
                let holds = match barrier.kind {
                    (true, _) => barrier.votes == lanes,
                    (_, or) => or && barrier.votes != 0,
                };
                for (warp, &arrived) in self.warps.iter_mut().zip(&barrier.arrived) {
                    warp.release(number);
                    if arrived != 0 {
                        warp.counted = (barrier.votes, holds);
                    }
                }
                *barrier = Barrier::default();
                any = true;
            }
        }
        any
    }
}
