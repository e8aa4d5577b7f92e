//! The files that the machine has: devices, and sysfs.

/// What a path is.
pub type Node = twin::tree::Node<Own>;

/// All files.
pub type Tree = twin::tree::Nodes<Own>;

/// A file that is more than a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Own {
    /// Its text is made when it is read.
    Live(Live),
    /// `/dev/kfd`.
    Kfd,
    /// The render node of that GPU.
    Render(usize),
}

/// A file whose text changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Live {
    /// Bytes of VRAM in use, of that GPU.
    VramUsed(usize),
    /// Bytes of system memory in use.
    GttUsed,
    /// What a sensor of that GPU shows.
    Sensor(usize, Sensor),
}

/// A sensor of a card, by the file that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sensor {
    /// `gpu_busy_percent`.
    Busy,
    /// `temp1_input`, in thousandths of a degree Celsius.
    Edge,
    /// `power1_average`, in millionths of a watt.
    Power,
    /// `freq1_input`, in Hz.
    Shaders,
    /// `freq2_input`, in Hz.
    Memory,
    /// `fan1_input`, in turns a minute.
    Fan,
}
