//! How a bridge is, and what can go wrong with it.

use crate::pci::Function;

use super::clock::Rates;

/// How a bridge is.
#[derive(Clone, Debug)]
pub struct Config {
    /// Its port, as sysfs calls it.
    pub port: String,
    /// It is on USB2.
    pub usb2: bool,
    /// How fast it is; none for what is documented.
    pub rates: Option<Rates>,
    /// Bridges between it and the function, its own two with them: 1 to 4.
    pub hops: usize,
    /// Its firmware gives the function power by itself.
    pub powered: bool,
    /// How many looks at the link find it in training after power has come.
    pub training: u32,
    /// How many configuration requests the function wants again before it answers.
    pub retries: u32,
    /// How many looks at a packet's completion are in vain, by who looks at registers.
    pub looks: u32,
    /// It has its maker's firmware, which knows no vendor requests.
    pub stock: bool,
    /// Its firmware keeps a copy over a reset, as it did once.
    pub keeps: bool,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            port: "2-1".into(),
            usb2: false,
            rates: None,
            hops: 4,
            powered: false,
            training: 0,
            retries: 0,
            looks: 1,
            stock: false,
            keeps: false,
        }
    }
}

/// What goes wrong with a transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// It has no effect, and its endpoint halts.
    Stall,
    /// Half of its bytes move.
    Short,
    /// It has its effect, but the host has given up before it knows.
    Late,
    /// It has no effect, and the host hears nothing.
    Vanish,
    /// The cable is pulled out.
    Unplug,
}

/// A transfer that goes wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Trouble {
    /// How many go right before it.
    pub after: u64,
    /// How.
    pub what: What,
}

/// What has gone over the cable.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counts {
    /// Control transfers.
    pub control: u64,
    /// Bulk transfers.
    pub bulk: u64,
    /// How often the host has waited: once for what it queues at a time.
    pub round_trips: u64,
    /// Bytes of bulk transfers to the device.
    pub bytes_out: u64,
    /// Bytes of bulk transfers to the host.
    pub bytes_in: u64,
}

/// Gives a function as power leaves it, or an errno.
pub type Make = Box<dyn Fn() -> Result<Function, i32> + Send + Sync>;
