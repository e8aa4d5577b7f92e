//! AMD's and NVIDIA's machines, for who serves either.

use std::sync::Arc;

use twin::caller::Caller;
use twin::process::{Calls, Process as _};
use twin::rule::Journal;
use twin::tree::Node;
use twin_amd::kernel as amd;
use twin_nv::client::Memory;
use twin_nv::contents::{Contents, Piece};
use twin_nv::errno::Errno;
use twin_nv::kernel as nv;

use crate::peer::Peer;

/// See the front page.
pub trait Machine: Send + Sync {
    /// What its paths begin with: the host's own files there are not seen.
    fn owned(&self) -> &[&'static str];

    /// Its files.
    fn nodes(&self) -> Vec<(String, Node)>;

    /// A new process.
    fn attach(&self, peer: Arc<Peer>) -> Arc<dyn Calls>;

    /// What has happened.
    fn journal(&self) -> &Journal;
}

/// Files whose text changes.
pub const LIVE: [&str; 2] = ["mem_info_vram_used", "mem_info_gtt_used"];

/// A machine of a config string: the chip says whose.
pub fn of(config: &str) -> Result<Box<dyn Machine>, String> {
    let mut keys = config.split(',').filter_map(|part| part.split_once('='));
    let chip = keys.find(|(key, _)| *key == "chip");
    let first = chip.and_then(|(_, chips)| chips.split('+').next());
    if first.is_some_and(|chip| twin_nv::chip::Chip::by_name(chip).is_some()) {
        return Ok(Box::new(nv::Process::start(config)?));
    }
    Ok(Box::new(amd::Process::start(config)?))
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

    fn nodes(&self) -> Vec<(String, Node)> {
        let nodes = amd::Machine::nodes(self).map(|(path, node)| {
            let node = match node {
                amd::tree::Node::Folder => Node::Folder,
                amd::tree::Node::Text(text) => Node::Text(text.clone().into_bytes()),
                amd::tree::Node::Live(_) => Node::Text(b"0\n".to_vec()),
                amd::tree::Node::Link(to) => Node::Link(to.clone()),
                amd::tree::Node::Kfd => Node::Device {
                    major: KFD,
                    minor: 0,
                },
                amd::tree::Node::Render(gpu) => Node::Device {
                    major: DRM,
                    minor: amd::topology::FIRST_MINOR + *gpu as u32,
                },
            };
            (path.to_owned(), node)
        });
        nodes.collect()
    }

    fn attach(&self, peer: Arc<Peer>) -> Arc<dyn Calls> {
        self.attach_of(peer)
    }

    fn journal(&self) -> &Journal {
        &self.journal
    }
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

    fn nodes(&self) -> Vec<(String, Node)> {
        let nodes = nv::Machine::nodes(self).map(|(path, node)| {
            let node = match node {
                nv::Node::Folder => Node::Folder,
                nv::Node::Text(bytes) => Node::Text(bytes.clone()),
                _ => {
                    let (major, minor) = node.device().unwrap_or_default();
                    Node::Device { major, minor }
                }
            };
            (path.to_owned(), node)
        });
        nodes.collect()
    }

    fn attach(&self, peer: Arc<Peer>) -> Arc<dyn Calls> {
        nv::Machine::attach(self, Arc::new(Client(peer)))
    }

    fn journal(&self) -> &Journal {
        &self.journal
    }
}

/// A process as NVIDIA's driver sees it.
struct Client(Arc<Peer>);

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
