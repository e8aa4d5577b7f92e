//! What a program means, one operation at a time, over plain numbers.

use std::collections::HashMap;

use tensor::ops::random::threefry;

use super::program::{Kind, PARAMETERS, SLOTS, Statement};
use super::{MOST, N, Program, Value};

/// Where everything stands.
pub struct Model<'a> {
    program: &'a Program,
    /// By device.
    pub parameters: Vec<[Value; PARAMETERS]>,
    /// How many numbers were drawn, by device and generator.
    drawn: HashMap<(usize, usize), u32>,
    files: HashMap<(usize, usize), [Value; PARAMETERS]>,
}

/// Tensors of the main program or of a function, by device.
pub type Slots = Vec<[Option<Value>; SLOTS]>;

/// What a parameter holds at first.
pub fn start(device: usize, parameter: usize) -> Value {
    [0, 1, 2, 3].map(|i| (device * 10 + parameter * 3 + i) as i64)
}

/// The seed of a generator.
pub fn seed(device: usize, generator: usize) -> u64 {
    (device * 8 + generator) as u64
}

/// What an operation gives.
pub fn operation(kind: Kind, a: Value, b: Value) -> Value {
    let mut out = [0; N];
    for (i, out) in out.iter_mut().enumerate() {
        let value = match kind {
            Kind::Add => a[i] + b[i],
            Kind::Sub => a[i] - b[i],
            Kind::Max => a[i].max(b[i]),
            Kind::Flip => b[N - 1 - i],
            Kind::Sum => a.iter().sum::<i64>() + b[i],
        };
        *out = value.clamp(-MOST, MOST);
    }
    out
}

impl<'a> Model<'a> {
    /// Before the first statement.
    pub fn new(program: &'a Program) -> Model<'a> {
        let devices = 0..program.devices;
        let cells = |device| [0, 1, 2, 3].map(|parameter| start(device, parameter));
        Model {
            program,
            parameters: devices.map(cells).collect(),
            drawn: HashMap::new(),
            files: HashMap::new(),
        }
    }

    /// Does a statement; the number of values that it compares are those of `expected` afterwards.
    pub fn step(
        &mut self,
        statement: &Statement,
        device: &mut usize,
        slots: &mut Slots,
        expected: &mut Vec<Value>,
    ) {
        let at = *device;
        match statement {
            Statement::Data { dst, value } => slots[at][*dst] = Some(*value),
            Statement::Op {
                dst, kind, a, b, ..
            } => {
                if let (Some(a), Some(b)) = (slots[at][*a], slots[at][*b]) {
                    slots[at][*dst] = Some(operation(*kind, a, b));
                }
            }
            Statement::Get { dst, parameter } => {
                slots[at][*dst] = Some(self.parameters[at][*parameter]);
            }
            Statement::Set { parameter, a } => {
                if let Some(a) = slots[at][*a] {
                    self.parameters[at][*parameter] = a;
                }
            }
            Statement::Draw { dst, generator } => {
                slots[at][*dst] = Some(self.draw(at, *generator));
            }
            Statement::Minimize { dst, parameter, a } => {
                if let Some(a) = slots[at][*a] {
                    let cell = &mut self.parameters[at][*parameter];
                    let loss: i64 = cell.iter().zip(a).map(|(w, a)| w * a).sum();
                    slots[at][*dst] = Some([loss.clamp(-MOST, MOST); N]);
                    for (w, a) in cell.iter_mut().zip(a) {
                        *w -= a;
                    }
                    // Parameters stay small, too.
                    *cell = cell.map(|w| w.clamp(-MOST, MOST));
                }
            }
            Statement::Call {
                function,
                args,
                outs,
            } => {
                let function = &self.program.functions[*function];
                let mut own: Slots = vec![[None; SLOTS]; self.program.devices];
                let (Some(a), Some(b)) = (slots[at][args[0]], slots[at][args[1]]) else {
                    return;
                };
                (own[at][0], own[at][1]) = (Some(a), Some(b));
                let mut device = at;
                for statement in &function.body {
                    self.step(statement, &mut device, &mut own, &mut Vec::new());
                }
                for (i, &out) in outs.iter().enumerate() {
                    slots[at][out] = own[at][i];
                }
            }
            Statement::Read { a } => expected.extend(slots[at][*a]),
            Statement::ReadParameter { parameter } => {
                expected.push(self.parameters[at][*parameter]);
            }
            Statement::Drop { a } => slots[at][*a] = None,
            Statement::Move { dst, a } => {
                let to = (at + 1) % self.program.devices;
                if let Some(a) = slots[at][*a] {
                    slots[to][*dst] = Some(a);
                }
            }
            Statement::Switch => *device = (at + 1) % self.program.devices,
            Statement::Save { file } => {
                self.files.insert((at, *file), self.parameters[at]);
            }
            Statement::Load { file } => {
                if let Some(saved) = self.files.get(&(at, *file)) {
                    self.parameters[at] = *saved;
                }
            }
            Statement::Threads(a, b) => {
                // They share nothing that they change.
                for statement in a.iter().chain(b) {
                    self.step(statement, &mut at.clone(), slots, expected);
                }
            }
            Statement::Commit { .. } | Statement::Realize { .. } => {}
        }
    }

    /// Two bits of each of the next words.
    fn draw(&mut self, device: usize, generator: usize) -> Value {
        let at = self.drawn.entry((device, generator)).or_default();
        let (c, half) = (*at, N as u32 / 2);
        *at += N as u32;
        let key = [0, seed(device, generator) as u32];
        let block = |i: u32| threefry(key, [c + i, c + half + i]);
        let words = [block(0)[0], block(1)[0], block(0)[1], block(1)[1]];
        words.map(|word| i64::from(word & 3))
    }
}
