//! What a program is made of, and how one is drawn from a seed.

use super::Value;

/// Slots for tensors that the main program and a function have on each device.
pub const SLOTS: usize = 6;
/// Parameters on each device. In threads, the last one is only read.
pub const PARAMETERS: usize = 4;
/// Generators on each device, one for each of two threads.
pub const GENERATORS: usize = 2;
/// Files for parameters.
pub const FILES: usize = 2;

/// An elementwise operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// The sum.
    Add,
    /// The difference.
    Sub,
    /// The larger one.
    Max,
    /// The second one, back to front.
    Flip,
    /// The sum of all elements of the first one, in each, and the second one.
    Sum,
}

/// One step; slots and parameters are those of the device that the program is on. A step that needs a
/// tensor that is not there is left out.
#[allow(
    missing_docs,
    reason = "fields are slots, parameters, generators, files by number"
)]
#[derive(Clone, PartialEq, Debug)]
pub enum Statement {
    /// New numbers.
    Data { dst: usize, value: Value },
    /// An operation; unless `fused`, its result is a value in memory when it is computed.
    Op {
        dst: usize,
        kind: Kind,
        a: usize,
        b: usize,
        fused: bool,
    },
    /// What a parameter holds.
    Get { dst: usize, parameter: usize },
    /// A new value for it.
    Set { parameter: usize, a: usize },
    /// Computes what all parameters of the device wait for that are named.
    Commit { parameters: Vec<usize> },
    /// Random bits.
    Draw { dst: usize, generator: usize },
    /// A step of an optimizer down the sum of a parameter times a tensor; the loss before.
    Minimize {
        dst: usize,
        parameter: usize,
        a: usize,
    },
    /// A call of a captured function.
    Call {
        function: usize,
        args: [usize; 2],
        outs: [usize; 2],
    },
    /// Compares.
    Read { a: usize },
    /// Compares.
    ReadParameter { parameter: usize },
    /// Computes.
    Realize { a: usize },
    /// Gives a tensor up.
    Drop { a: usize },
    /// Brings a tensor to the other device.
    Move { dst: usize, a: usize },
    /// From here on, steps are on the other device.
    Switch,
    /// Writes parameters to a file.
    Save { file: usize },
    /// Reads them again; left out if nothing was saved.
    Load { file: usize },
    /// Two programs at the same time, which share no state that they change.
    Threads(Vec<Statement>, Vec<Statement>),
}

/// A captured function of two tensors with two results, which are the slots 0 and 1 at its end.
#[derive(Clone, PartialEq, Debug)]
pub struct Function {
    /// Its device.
    pub device: usize,
    /// Its steps.
    pub body: Vec<Statement>,
}

/// Functions, and the main program. A function calls only those before it.
#[derive(Clone, PartialEq, Debug)]
pub struct Program {
    /// The functions.
    pub functions: Vec<Function>,
    /// The steps.
    pub main: Vec<Statement>,
    /// Devices.
    pub devices: usize,
}

/// Where a drawn statement stands, and what it may touch.
#[derive(Clone)]
struct Place {
    device: usize,
    slots: std::ops::Range<usize>,
    /// Parameters that may change.
    own: Vec<usize>,
    generators: std::ops::Range<usize>,
    /// Inside of a function.
    inside: bool,
    /// Inside of a thread.
    thread: bool,
    /// Functions that may be called.
    functions: Vec<usize>,
}

/// Numbers from a seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ z >> 31) % n as u64) as usize
    }

    fn of<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    fn within(&mut self, range: &std::ops::Range<usize>) -> usize {
        range.start + self.below(range.len())
    }
}

impl Program {
    /// The program of a seed over some devices.
    pub fn random(seed: u64, devices: usize) -> Program {
        let mut dice = Dice(seed);
        let mut program = Program {
            functions: Vec::new(),
            main: Vec::new(),
            devices,
        };
        for _ in 0..1 + dice.below(3) {
            let device = dice.below(devices);
            // What threads may call has to keep to what one of them may touch.
            let own = dice.of(&[&[0, 1][..], &[2], &[0, 1, 2, 3]]).to_vec();
            let place = Place {
                device,
                slots: 0..SLOTS,
                generators: match own[..] {
                    [0, 1] => 0..1,
                    [2] => 1..2,
                    _ => 0..GENERATORS,
                },
                functions: program.callable(device, &own),
                own,
                inside: true,
                thread: false,
            };
            let length = 1 + dice.below(7);
            let body = (0..length).map(|_| program.statement(&mut dice, &place));
            let body = body.collect();
            program.functions.push(Function { device, body });
        }
        let mut place = Place {
            device: 0,
            slots: 0..SLOTS,
            own: (0..PARAMETERS).collect(),
            generators: 0..GENERATORS,
            inside: false,
            thread: false,
            functions: Vec::new(),
        };
        let mut main = Vec::new();
        for slot in 0..3 {
            let value = [0; super::N].map(|_| dice.below(21) as i64 - 10);
            main.push(Statement::Data { dst: slot, value });
        }
        for _ in 0..8 + dice.below(24) {
            place.functions = program.callable(place.device, &place.own);
            let next = program.statement(&mut dice, &place);
            if next == Statement::Switch {
                place.device = (place.device + 1) % devices;
            }
            main.push(next);
        }
        program.main = main;
        program
    }

    /// Functions on a device that change no parameter but these.
    fn callable(&self, device: usize, own: &[usize]) -> Vec<usize> {
        let fits = |f: &usize| {
            let function = &self.functions[*f];
            function.device == device && self.changes(&function.body, own)
        };
        (0..self.functions.len()).filter(fits).collect()
    }

    /// Whether statements change no parameter but these, and use the generators that go with them.
    fn changes(&self, body: &[Statement], own: &[usize]) -> bool {
        let generators = match own {
            [0, 1] => 0..1,
            [2] => 1..2,
            _ => 0..GENERATORS,
        };
        body.iter().all(|s| match s {
            Statement::Set { parameter, .. }
            | Statement::Get { parameter, .. }
            | Statement::Minimize { parameter, .. } => own.contains(parameter),
            Statement::Commit { parameters } => parameters.iter().all(|p| own.contains(p)),
            Statement::Draw { generator, .. } => generators.contains(generator),
            Statement::Call { function, .. } => self.changes(&self.functions[*function].body, own),
            _ => true,
        })
    }

    fn statement(&self, dice: &mut Dice, place: &Place) -> Statement {
        let mut slot = || dice.within(&place.slots);
        let (dst, a, b) = (slot(), slot(), slot());
        let parameter = dice.of(&place.own);
        let everywhere = match dice.below(12) {
            0 => Some(Statement::Data {
                dst,
                value: [0; super::N].map(|_| dice.below(21) as i64 - 10),
            }),
            1..=3 => Some(Statement::Op {
                dst,
                kind: dice.of(&[Kind::Add, Kind::Sub, Kind::Max, Kind::Flip, Kind::Sum]),
                a,
                b,
                fused: dice.below(8) == 0,
            }),
            4 | 5 => Some(Statement::Get {
                dst,
                parameter: match place.thread && dice.below(4) == 0 {
                    true => PARAMETERS - 1,
                    false => parameter,
                },
            }),
            6 => Some(Statement::Set { parameter, a }),
            7 => Some(Statement::Draw {
                dst,
                generator: dice.within(&place.generators),
            }),
            8 => Some(Statement::Minimize { dst, parameter, a }),
            9 if !place.functions.is_empty() => Some(Statement::Call {
                function: dice.of(&place.functions),
                args: [a, b],
                outs: [dst, dice.within(&place.slots)],
            }),
            10 if dice.below(2) == 0 => Some(Statement::Commit {
                parameters: place.own.clone(),
            }),
            _ => None,
        };
        if let Some(statement) = everywhere {
            return statement;
        }
        if place.inside {
            return Statement::Set { parameter, a };
        }
        match dice.below(12) {
            0 | 1 => Statement::Read { a },
            2 | 3 => Statement::ReadParameter { parameter },
            4 => Statement::Realize { a },
            5 => Statement::Drop { a },
            6..=8 if !place.functions.is_empty() => Statement::Call {
                function: dice.of(&place.functions),
                args: [a, b],
                outs: [dst, dice.within(&place.slots)],
            },
            _ if place.thread => Statement::Read { a },
            6 if self.devices > 1 => Statement::Move { dst, a },
            7 if self.devices > 1 => Statement::Switch,
            8 => Statement::Save {
                file: dice.below(FILES),
            },
            9 => Statement::Load {
                file: dice.below(FILES),
            },
            10 => {
                let mut side = |slots: std::ops::Range<usize>, own: &[usize], generator| {
                    let place = Place {
                        device: place.device,
                        slots,
                        own: own.to_vec(),
                        generators: generator..generator + 1,
                        inside: false,
                        thread: true,
                        functions: self.callable(place.device, own),
                    };
                    let length = 2 + dice.below(6);
                    (0..length).map(|_| self.statement(dice, &place)).collect()
                };
                Statement::Threads(side(0..3, &[0, 1], 0), side(3..SLOTS, &[2], 1))
            }
            _ => Statement::ReadParameter { parameter },
        }
    }

    /// The program without one statement, by its number among all; `None` behind the last.
    pub fn without(&self, mut at: usize) -> Option<Program> {
        let mut program = self.clone();
        if removed(&mut program.main, &mut at) {
            return Some(program);
        }
        let mut bodies = program.functions.iter_mut();
        bodies
            .any(|function| removed(&mut function.body, &mut at))
            .then_some(program)
    }
}

fn removed(list: &mut Vec<Statement>, at: &mut usize) -> bool {
    for i in 0..list.len() {
        if *at == 0 {
            list.remove(i);
            return true;
        }
        *at -= 1;
        if let Statement::Threads(a, b) = &mut list[i]
            && (removed(a, at) || removed(b, at))
        {
            return true;
        }
    }
    false
}
