//! Copies and fills, by the driver's kernels.

use hcq::command_buffer::Part;
use hcq::{CommandBuffer, Result, Val};

use super::Encoder;
use super::builtin::{GROUP, Kernel, OPEN_LEAST};
use super::exec::put_data;
use super::span::{self, plus};

/// Groups of a launch.
const GROUPS: u64 = 1 << 15;

/// Bytes of a launch of units of 16 bytes.
const WIDE: u64 = GROUPS * GROUP as u64 * 16;

/// What a kernel is given beside addresses: c0.z of fills, c1.x and c1.y of shifts.
#[derive(Clone, Copy)]
enum With {
    Source(Val),
    Shifted(Val, u32),
    Open(Val, u64),
    Word(u32),
}

impl Encoder {
    /// Copies, in units of 16 bytes but for the ends. Of addresses that are given later the kernel finds the ends; few bytes
    /// are copied one by one there.
    pub(super) fn copy(
        &self,
        dst: Val,
        src: Val,
        bytes: u64,
        out: &mut CommandBuffer,
    ) -> Result<()> {
        span::check_copy(&self.setup, dst, src, bytes, WIDE)?;
        let (Val::Const(to), Val::Const(from)) = (dst, src) else {
            return match bytes < OPEN_LEAST {
                true => self.run(Kernel::CopyByte, dst, With::Source(src), bytes, out),
                false => self.open(dst, src, bytes, out),
            };
        };
        let head = (to.wrapping_neg() % 16).min(bytes);
        let body = (bytes - head) / 16 * 16;
        let tail = bytes - head - body;
        self.run(Kernel::CopyByte, dst, With::Source(src), head, out)?;
        let middle = from + head;
        let (kernel, with) = match middle % 4 {
            0 => (Kernel::CopyWide, With::Source(Val::Const(middle))),
            odd => (
                Kernel::CopyShift,
                With::Shifted(Val::Const(middle - odd), odd as u32 * 8),
            ),
        };
        self.run(kernel, plus(dst, head), with, body, out)?;
        let end = With::Source(Val::Const(middle + body));
        self.run(Kernel::CopyByte, plus(dst, head + body), end, tail, out)
    }

    /// Fills. An address that is given later is a multiple of 4 alone.
    pub(super) fn fill(
        &self,
        at: Val,
        value: u32,
        bytes: u64,
        out: &mut CommandBuffer,
    ) -> Result<()> {
        span::check_fill(&self.setup, at, bytes, WIDE)?;
        let head = match at {
            Val::Const(at) => (at.wrapping_neg() % 16).min(bytes),
            Val::Slot(..) => bytes,
        };
        let body = (bytes - head) / 16 * 16;
        let tail = bytes - head - body;
        let with = With::Word(value);
        self.run(Kernel::FillWord, at, with, head, out)?;
        self.run(Kernel::FillWide, plus(at, head), with, body, out)?;
        self.run(Kernel::FillWord, plus(at, head + body), with, tail, out)
    }

    /// Copies between addresses that the kernel finds the ends of: launches write nothing twice.
    fn open(&self, dst: Val, src: Val, bytes: u64, out: &mut CommandBuffer) -> Result<()> {
        let mut done = 0;
        while done < bytes {
            let left = bytes - done;
            // What is left is enough for another launch.
            let piece = match left <= WIDE / 2 + OPEN_LEAST {
                true => left,
                false => WIDE / 2,
            };
            let groups = (piece / Kernel::CopyOpen.unit()).div_ceil(GROUP.into());
            self.one(
                Kernel::CopyOpen,
                (plus(dst, done), With::Open(src, piece), done),
                (groups as u32, GROUP),
                out,
            )?;
            done += piece;
        }
        Ok(())
    }

    /// Launches a kernel for whole units, as often as it takes.
    fn run(
        &self,
        kernel: Kernel,
        dst: Val,
        with: With,
        bytes: u64,
        out: &mut CommandBuffer,
    ) -> Result<()> {
        let unit = kernel.unit();
        let (units, group) = (bytes / unit, u64::from(GROUP));
        let mut done = 0;
        while done < units {
            let left = units - done;
            let (groups, fibers) = match left / group {
                0 => (1, left),
                groups => (groups.min(GROUPS), group),
            };
            self.one(
                kernel,
                (plus(dst, done * unit), with, done * unit),
                (groups as u32, fibers as u32),
                out,
            )?;
            done += groups * fibers;
        }
        Ok(())
    }

    /// One launch.
    fn one(
        &self,
        kernel: Kernel,
        (dst, with, done): (Val, With, u64),
        (groups, fibers): (u32, u32),
        out: &mut CommandBuffer,
    ) -> Result<()> {
        let refused = |why: String| self.setup.refused(format!("{kernel:?}"), why);
        let launch = self.builtin.launch(kernel);
        let launch = launch.ok_or_else(|| refused("the driver's kernel is not loaded".into()))?;
        self.put(&launch, ([groups, 1, 1], [fibers, 1, 1]), out)
            .map_err(refused)?;
        let start = (out.data.len() - launch.data.len()) as u32 * 4;
        put_data(out, start, Part::Whole, dst);
        match with {
            With::Source(src) => put_data(out, start + 8, Part::Whole, plus(src, done)),
            With::Shifted(src, right) => {
                put_data(out, start + 8, Part::Whole, plus(src, done));
                let left = 32 - right;
                put_data(out, start + 16, Part::Low, Val::Const(right.into()));
                put_data(out, start + 20, Part::Low, Val::Const(left.into()));
            }
            With::Open(src, bytes) => {
                put_data(out, start + 8, Part::Whole, plus(src, done));
                put_data(out, start + 16, Part::Low, Val::Const(bytes));
            }
            With::Word(word) => put_data(out, start + 8, Part::Low, Val::Const(word.into())),
        }
        Ok(())
    }
}
