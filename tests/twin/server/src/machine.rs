//! AMD's, NVIDIA's and Qualcomm's machines, for who serves one.

mod qcom;

use std::sync::Arc;

use drivers_spec::amd::kfd::{self, WaitEventsArgs, wait_result};
use drivers_spec::nv::push::usermode;
use hcq::transport::Ioctl;
use twin::caller::Caller;
use twin::host::Mapping;
use twin::process::{Calls, Process as _};
use twin::rule::Journal;
use twin::tree::{Device, Node};
use twin::watch::{Moment, Watch};
use twin_amd::kernel as amd;
use twin_nv::client::Memory;
use twin_nv::contents::{Contents, Piece};
use twin_nv::errno::Errno;
use twin_nv::kernel as nv;
use zerocopy::FromBytes;

/// What a doorbell does when it has been seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bells {
    /// It keeps what was written, 64 bits.
    Kept,
    /// There is one, of 32 bits at that place, and it is all ones then.
    Taken(u64),
}

/// See the front page.
pub trait Machine: Send + Sync {
    /// What its paths begin with: the host's own files there are not seen.
    fn owned(&self) -> &[&'static str];

    /// What its devices are in the variable DEV.
    fn vendor(&self) -> &'static str;

    /// Its files.
    fn nodes(&self) -> Vec<(String, Node)>;

    /// A new process.
    fn attach(&self, caller: Arc<dyn Caller>) -> Arc<dyn Calls>;

    /// What has happened.
    fn journal(&self) -> &Journal;

    /// What of its config follows from the host, as part of a config.
    fn of_host(&self) -> String;

    /// Has somebody watch its engines.
    fn watch(&self, watch: Box<dyn Watch>);

    /// Holds its engines until [`Self::go_on`]; one caller at a time.
    fn pause(&self) -> Moment;

    /// See [`Self::pause`].
    fn go_on(&self);

    /// Whether an ioctl waits for something that other calls, or engines, may do meanwhile.
    fn waits(&self, request: u32) -> bool;

    /// An ioctl that waited comes as long after what it waited for as it did: its argument before and after,
    /// as they were, are changed so that it does not depend on how long that takes.
    fn wait_as_long(&self, before: &mut [u8], after: &mut [u8]);

    /// Whether an ioctl answers what is never the same.
    fn tells_time(&self, request: u32) -> bool;

    /// Takes what a process has written to a text, if that may be written, and its errors are nobody's; whether it may.
    fn store(&self, path: &str, text: &[u8]) -> bool {
        let _ = (path, text);
        false
    }

    /// What kind of doorbells memory is that is mapped from that offset of a file; none where it is none.
    fn bells(&self, offset: u64, memory: &Mapping) -> Option<Bells>;
}

/// Files whose text changes.
pub const LIVE: [&str; 6] = [
    "mem_info_vram_used",
    "mem_info_gtt_used",
    "gpubusy",
    "gpu_busy_percentage",
    "reset_count",
    "idle_timer",
];

/// A machine of a config string: the chip says whose.
pub fn of(config: &str) -> Result<Arc<dyn Machine>, String> {
    let mut keys = config.split(',').filter_map(|part| part.split_once('='));
    let chip = keys.find(|(key, _)| *key == "chip");
    let first = chip.and_then(|(_, chips)| chips.split('+').next());
    if first.is_some_and(|chip| twin_nv::chip::Chip::by_name(chip).is_some()) {
        return Ok(Arc::new(nv::Process::start(config)?));
    }
    if first.is_some_and(|chip| twin_qcom::chip::Chip::by_name(chip).is_some()) {
        if config.split(',').any(|part| part.trim() == "pages=cached") {
            return Err(
                "pages=cached: expected coherent: the instructions by which a program cleans its caches are not seen from another \
                 process, so all that it writes would be old"
                    .into(),
            );
        }
        return Ok(Arc::new(twin_qcom::kernel::Process::start(config)?));
    }
    let mut known: Vec<&str> = twin_amd::chip::CHIPS.iter().map(|chip| chip.name).collect();
    if let Some(chip) = first.filter(|chip| !known.contains(chip)) {
        known.dedup();
        known.extend(twin_nv::chip::CHIPS.iter().map(|chip| chip.name));
        return Err(format!(
            "no chip '{chip}'; known: {}, {}",
            known.join(", "),
            twin_qcom::chip::Chip::names()
        ));
    }
    Ok(Arc::new(amd::Process::start(config)?))
}

/// KFD's number is one that the kernel had left; that of DRM is fixed (Linux, admin-guide/devices.txt).
const KFD: u32 = 511;
const DRM: u32 = 226;

impl Machine for Arc<amd::Machine> {
    fn owned(&self) -> &[&'static str] {
        &[
            "/dev/kfd",
            "/dev/dri",
            "/proc/modules",
            "/sys/bus/pci",
            "/sys/class/drm",
            "/sys/class/kfd",
            "/sys/dev/char/226:",
            "/sys/devices/pci",
            "/sys/devices/virtual/kfd",
            "/sys/module/amdgpu",
        ]
    }

    fn vendor(&self) -> &'static str {
        "AMD"
    }

    fn nodes(&self) -> Vec<(String, Node)> {
        let nodes = amd::Machine::nodes(self).map(|(path, node)| {
            let node = node.map(|own| match *own {
                amd::tree::Own::Live(_) => Node::line(0),
                amd::tree::Own::Kfd => Node::Own(Device {
                    major: KFD,
                    minor: 0,
                }),
                amd::tree::Own::Render(gpu) => Node::Own(Device {
                    major: DRM,
                    minor: amd::topology::FIRST_MINOR + gpu as u32,
                }),
            });
            (path.to_owned(), node)
        });
        nodes.collect()
    }

    fn attach(&self, caller: Arc<dyn Caller>) -> Arc<dyn Calls> {
        self.attach_of(caller)
    }

    fn journal(&self) -> &Journal {
        &self.journal
    }

    fn of_host(&self) -> String {
        format!("gtt={}", self.config.gtt)
    }

    fn watch(&self, watch: Box<dyn Watch>) {
        amd::Machine::watch(self, watch);
    }

    fn pause(&self) -> Moment {
        amd::Machine::pause(self)
    }

    fn go_on(&self) {
        amd::Machine::go_on(self);
    }

    fn waits(&self, request: u32) -> bool {
        is(request, kfd::WAIT_EVENTS.ioctl())
    }

    fn wait_as_long(&self, before: &mut [u8], after: &mut [u8]) {
        let (Ok((before, _)), Ok((after, _))) = (
            WaitEventsArgs::mut_from_prefix(before),
            WaitEventsArgs::mut_from_prefix(after),
        ) else {
            return;
        };
        let timeout = match after.wait_result {
            wait_result::TIMEOUT => 0,
            _ => u32::MAX,
        };
        (before.timeout, after.timeout) = (timeout, timeout);
    }

    fn tells_time(&self, request: u32) -> bool {
        is(request, kfd::GET_CLOCK_COUNTERS.ioctl())
    }

    fn bells(&self, offset: u64, _: &Mapping) -> Option<Bells> {
        let is_bell = offset & kfd::mmap::TYPE_MASK == kfd::mmap::DOORBELL;
        is_bell.then_some(Bells::Kept)
    }
}

/// Whether a request is one for that ioctl; KFD looks at the number alone.
fn is(request: u32, ioctl: Ioctl) -> bool {
    Ioctl::kind_of(request) == kfd::KIND && Ioctl::nr_of(request) == ioctl.nr()
}

impl Machine for Arc<nv::Machine> {
    fn owned(&self) -> &[&'static str] {
        &[
            "/dev/nvidia",
            "/dev/char/195:",
            "/proc/driver/nvidia",
            "/proc/devices",
            "/sys/module/nvidia",
            "/sys/bus/pci/devices",
        ]
    }

    fn vendor(&self) -> &'static str {
        "NV"
    }

    fn nodes(&self) -> Vec<(String, Node)> {
        let nodes = nv::Machine::nodes(self);
        let nodes = nodes.map(|(path, node)| (path.to_owned(), node.map(|own| own.device())));
        nodes.collect()
    }

    fn attach(&self, caller: Arc<dyn Caller>) -> Arc<dyn Calls> {
        nv::Machine::attach(self, Arc::new(Client(caller)))
    }

    fn journal(&self) -> &Journal {
        &self.journal
    }

    fn of_host(&self) -> String {
        String::new()
    }

    fn watch(&self, watch: Box<dyn Watch>) {
        nv::Machine::watch(self, watch);
    }

    fn pause(&self) -> Moment {
        nv::Machine::pause(self)
    }

    fn go_on(&self) {
        nv::Machine::go_on(self);
    }

    fn waits(&self, _: u32) -> bool {
        false
    }

    fn wait_as_long(&self, _: &mut [u8], _: &mut [u8]) {}

    fn tells_time(&self, _: u32) -> bool {
        false
    }

    fn bells(&self, _: u64, memory: &Mapping) -> Option<Bells> {
        let memory = memory.identity()?;
        let mut all = self.doorbells().map(Mapping::identity);
        let at = usermode::NOTIFY_CHANNEL_PENDING;
        all.any(|page| page == Some(memory))
            .then_some(Bells::Taken(at))
    }
}

/// A process as NVIDIA's driver sees it.
struct Client(Arc<dyn Caller>);

impl Memory for Client {
    fn read(&self, address: u64, out: &mut [u8]) -> Result<(), Errno> {
        self.0.read(address, out)
    }

    fn write(&self, address: u64, data: &[u8]) -> Result<(), Errno> {
        self.0.write(address, data)
    }

    fn pin(&self, address: u64, bytes: u64, write: bool) -> Result<Contents, Errno> {
        let pages = self.0.pin(address, bytes, write)?;
        Ok(Contents::whole(Arc::new(pages)))
    }

    fn map(&self, wanted: twin::process::Wanted, piece: &Piece) -> Result<u64, Errno> {
        self.0.map(wanted, &piece.of, piece.offset)
    }

    fn unmap(&self, at: u64, bytes: u64) -> Result<(), Errno> {
        self.0.unmap(at, bytes)
    }
}
