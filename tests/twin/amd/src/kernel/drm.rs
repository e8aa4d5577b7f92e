//! The ioctls of a render node that compute clients use.
//!
//! Source: Linux 6.12, drm_ioctl.c; amdgpu/amdgpu_kms.c, `amdgpu_info_ioctl`; amdgpu/amdgpu_gem.c.

use drivers_spec::amd::drm::{
    self, Domains, GemClose, GemCreate, GemCreateIn, GemMmapIn, GemVa, GetCap, HeapInfo, Info,
    InfoDevice, InfoFirmware, InfoHwIp, InfoVramGtt, MemoryInfo, Pages, PrimeHandle, Version,
    gem_va, hw_ip, info,
};
use drivers_spec::amd::kfd::Alloc;
use hcq::sync::lock;
use hcq::transport::Ioctl;
use twin::rule::{Proof, Rule};
use zerocopy::IntoBytes;

use crate::config::Bar;
use crate::mem::{Kind as MemKind, Object, Rights};

use super::Process;
use super::errno::{Errno, Result};
use super::files::{Dmabuf, File, Gem, Render};
use super::ioctl::Call;
use super::memory::mtype;
use super::topology::SMALL_BAR;

static UNKNOWN: Rule = Rule {
    name: "DRM-UNKNOWN-IOCTL",
    text: "an ioctl of a render node is one that compute clients use; others are not modelled",
    source: "this twin",
    proof: Proof::Twin,
};

static QUERY: Rule = Rule {
    name: "DRM-UNKNOWN-QUERY",
    text: "the twin knows the query of AMDGPU_INFO",
    source: "this twin",
    proof: Proof::Twin,
};

type Handler = fn(&Process, &File, &Render, &mut Call) -> Result;

static TABLE: &[(Ioctl, Handler)] = &[
    (drm::VERSION.ioctl(), Process::drm_version),
    (drm::GEM_CLOSE.ioctl(), Process::gem_close),
    (drm::GET_CAP.ioctl(), Process::get_cap),
    (drm::PRIME_HANDLE_TO_FD.ioctl(), Process::prime_handle_to_fd),
    (drm::PRIME_FD_TO_HANDLE.ioctl(), Process::prime_fd_to_handle),
    (drm::AMDGPU_GEM_CREATE.ioctl(), Process::gem_create),
    (drm::AMDGPU_GEM_MMAP.ioctl(), Process::gem_mmap),
    (drm::AMDGPU_INFO.ioctl(), Process::amdgpu_info),
    (drm::AMDGPU_GEM_VA.ioctl(), Process::gem_va),
];

/// The names without prefix.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    TABLE.iter().map(|(ioctl, _)| name(ioctl))
}

fn name(ioctl: &Ioctl) -> &'static str {
    ioctl.name.strip_prefix("DRM_IOCTL_").unwrap_or(ioctl.name)
}

/// A register that clients may read, as libdrm does when it opens a device.
const GB_ADDR_CONFIG: u32 = 0x263e;

/// The ticks of the GPU's counter, in kHz.
const COUNTER_KHZ: u32 = 100_000;

impl Process {
    pub(super) fn drm_ioctl(
        &self,
        file: &File,
        render: &Render,
        request: u32,
        argument: u64,
    ) -> Result {
        if self.machine.gone(render.gpu) {
            return self.fail(Errno::ENODEV, || format!("{}: the GPU has gone", file.path));
        }
        let nr = Ioctl::nr_of(request);
        let known = TABLE
            .iter()
            .find(|(ioctl, _)| ioctl.nr() == nr && Ioctl::kind_of(request) == drm::KIND);
        let Some((ioctl, handler)) = known else {
            self.broken(
                &UNKNOWN,
                format!("request {request:#010x}, number {nr:#x}, on {}", file.path),
            );
            return Err(Errno::ENOTTY);
        };
        let result = self.call(*ioctl, Ioctl::size_of(request), argument, |data| {
            self.machine.injector.ioctl(name(ioctl))?;
            handler(self, file, render, &mut Call { data })
        });
        let outcome = result
            .as_ref()
            .err()
            .map_or("0".into(), |errno| errno.to_string());
        self.note(|| format!("{} = {outcome}", name(ioctl)));
        result
    }

    fn drm_version(&self, _: &File, _: &Render, call: &mut Call) -> Result {
        let args: &mut Version = call.args()?;
        (
            args.version_major,
            args.version_minor,
            args.version_patchlevel,
        ) = match self.machine.config.kernel {
            crate::config::Version::Linux6_8 => (3, 57, 0),
            crate::config::Version::Linux6_12 => (3, 59, 0),
        };
        for (text, address, length) in [
            ("amdgpu", args.name, &mut args.name_len),
            ("20150101", args.date, &mut args.date_len),
            ("AMD GPU", args.desc, &mut args.desc_len),
        ] {
            let room = (*length as usize).min(text.len());
            *length = text.len() as u64;
            if address != 0 {
                self.caller.write(address, &text.as_bytes()[..room])?;
            }
        }
        Ok(())
    }

    fn get_cap(&self, _: &File, _: &Render, call: &mut Call) -> Result {
        let args: &mut GetCap = call.args()?;
        args.value = match args.capability {
            // Import and export.
            drm::CAP_PRIME => 3,
            drm::CAP_SYNCOBJ | drm::CAP_SYNCOBJ_TIMELINE => 1,
            _ => {
                return self.fail(Errno::EINVAL, || {
                    format!("capability {:#x}", args.capability)
                });
            }
        };
        Ok(())
    }

    fn gem(&self, render: &Render, handle: u32) -> Result<Gem> {
        match lock(&render.gems).get(&handle) {
            Some(gem) => Ok(gem.clone()),
            None => self.fail(Errno::ENOENT, || {
                format!("no memory has GEM handle {handle}")
            }),
        }
    }

    fn new_gem(render: &Render, gem: Gem) -> u32 {
        let mut gems = lock(&render.gems);
        let handle = (1..).find(|handle| !gems.contains_key(handle)).unwrap_or(0);
        gems.insert(handle, gem);
        handle
    }

    fn gem_close(&self, _: &File, render: &Render, call: &mut Call) -> Result {
        let args: &GemClose = call.args()?;
        let gem = lock(&render.gems).remove(&args.handle);
        let Some(gem) = gem else {
            return self.fail(Errno::EINVAL, || {
                format!("no memory has GEM handle {}", args.handle)
            });
        };
        lock(&self.machine.nodes[render.gpu].areas).remove(gem.offset);
        Ok(())
    }

    fn gem_create(&self, file: &File, render: &Render, call: &mut Call) -> Result {
        let args: GemCreateIn = *call.args()?;
        let domains = match Domains::from_bits(args.domains) {
            Some(domains) if !domains.is_empty() => domains,
            _ => {
                let all = Domains::from_bits_retain(args.domains);
                return self.fail(Errno::EINVAL, || format!("domains {all:?}"));
            }
        };
        let node = &self.machine.nodes[render.gpu];
        let kind = if domains.contains(Domains::VRAM) {
            let create = GemCreate::from_bits_retain(args.domain_flags);
            let public =
                !create.contains(GemCreate::NO_CPU_ACCESS) && self.machine.config.bar == Bar::Large;
            MemKind::Vram { public }
        } else {
            MemKind::Gtt
        };
        let name = format!("GEM memory of GPU {}", render.gpu);
        let object = match Object::new(&node.gmc, &self.machine.system, kind, args.bo_size, &name) {
            Ok(object) => object,
            Err(errno) => return self.fail(errno.into(), || format!("{:#x} bytes", args.bo_size)),
        };
        let offset = lock(&node.areas).add(&object, file.id);
        let handle = Self::new_gem(render, Gem { object, offset });
        // The answer: a handle, and 4 bytes of zero.
        call.data[..8].copy_from_slice(&u64::from(handle).to_ne_bytes());
        Ok(())
    }

    fn gem_mmap(&self, _: &File, render: &Render, call: &mut Call) -> Result {
        let args: GemMmapIn = *call.args()?;
        let gem = self.gem(render, args.handle)?;
        call.data[..8].copy_from_slice(&gem.offset.to_ne_bytes());
        Ok(())
    }

    fn gem_va(&self, _: &File, render: &Render, call: &mut Call) -> Result {
        let args: GemVa = *call.args()?;
        match args.operation {
            gem_va::MAP => {
                let gem = self.gem(render, args.handle)?;
                let pages = Pages::from_bits_retain(args.flags);
                let rights = Rights {
                    write: pages.contains(Pages::WRITEABLE),
                    execute: pages.contains(Pages::EXECUTABLE),
                };
                let flags = match gem.object.kind {
                    MemKind::Vram { .. } => Alloc::VRAM,
                    _ => Alloc::GTT,
                };
                let mtype = mtype(self.machine.config.chip.generation, flags, true);
                let (va, offset, bytes) = (args.va_address, args.offset_in_bo, args.map_size);
                let mapped = render
                    .space
                    .map(va, &gem.object, offset, bytes, rights, mtype);
                mapped.or_else(|errno| self.fail(errno, || format!("{va:#x}, {bytes:#x} bytes")))
            }
            gem_va::UNMAP => {
                let unmapped = render.space.unmap(args.va_address);
                unmapped.or_else(|errno| {
                    self.fail(errno, || {
                        format!("nothing starts at {:#x}", args.va_address)
                    })
                })
            }
            operation => self.fail(Errno::EINVAL, || format!("operation {operation}")),
        }
    }

    fn prime_handle_to_fd(&self, _: &File, render: &Render, call: &mut Call) -> Result {
        let args: &mut PrimeHandle = call.args()?;
        let gem = self.gem(render, args.handle)?;
        let flags = match gem.object.kind {
            MemKind::Vram { .. } => Alloc::VRAM,
            _ => Alloc::GTT,
        };
        args.fd = self.export(Dmabuf {
            gpu: render.gpu,
            object: gem.object,
            flags,
            offset: gem.offset,
        })?;
        Ok(())
    }

    fn prime_fd_to_handle(&self, file: &File, render: &Render, call: &mut Call) -> Result {
        let args: &mut PrimeHandle = call.args()?;
        let dmabuf = self.dmabuf(args.fd)?;
        if dmabuf.gpu == render.gpu {
            lock(&self.machine.nodes[render.gpu].areas).share(dmabuf.offset, file.id);
        }
        let (object, offset) = (dmabuf.object, dmabuf.offset);
        args.handle = Self::new_gem(render, Gem { object, offset });
        Ok(())
    }

    fn amdgpu_info(&self, _: &File, render: &Render, call: &mut Call) -> Result {
        let args: Info = *call.args()?;
        let node = &self.machine.nodes[render.gpu];
        let (config, chip) = (&self.machine.config, self.machine.config.chip);
        let visible = match config.bar {
            Bar::Large => config.vram,
            Bar::Small => config.vram.min(SMALL_BAR),
        };
        let used = config.vram - node.gmc.vram.available();
        let gtt_used = config.gtt - self.machine.system.available();
        let block = args.arguments[0];
        let answer: Vec<u8> = match args.query {
            info::ACCEL_WORKING => 1u32.as_bytes().into(),
            info::TIMESTAMP => node.gpu.clock().as_bytes().into(),
            info::VRAM_USAGE => used.as_bytes().into(),
            info::VIS_VRAM_USAGE => used.min(visible).as_bytes().into(),
            info::GTT_USAGE => gtt_used.as_bytes().into(),
            info::VRAM_LOST_COUNTER => 0u32.as_bytes().into(),
            info::VRAM_GTT => InfoVramGtt {
                vram_size: config.vram,
                vram_cpu_accessible_size: visible,
                gtt_size: config.gtt,
            }
            .as_bytes()
            .into(),
            info::MEMORY => {
                // Three quarters may be one buffer: amdgpu_kms.c.
                let heap = |total: u64, used| HeapInfo {
                    total_heap_size: total,
                    usable_heap_size: total,
                    heap_usage: used,
                    max_allocation: total * 3 / 4,
                };
                MemoryInfo {
                    vram: heap(config.vram, used),
                    cpu_accessible_vram: heap(visible, used.min(visible)),
                    gtt: heap(config.gtt, gtt_used),
                }
                .as_bytes()
                .into()
            }
            info::HW_IP_COUNT | info::HW_IP_INFO if block >= hw_ip::NUM => {
                return self.fail(Errno::EINVAL, || format!("block {block}"));
            }
            info::HW_IP_COUNT => u32::from(block <= hw_ip::DMA).as_bytes().into(),
            info::HW_IP_INFO => {
                let version = match block {
                    hw_ip::GFX | hw_ip::COMPUTE => chip.gc,
                    hw_ip::DMA => chip.sdma,
                    _ => [0; 3],
                };
                let [major, minor, revision] = version.map(u32::from);
                let exists = block <= hw_ip::DMA;
                InfoHwIp {
                    hw_ip_version_major: major,
                    hw_ip_version_minor: minor,
                    capabilities_flags: 0,
                    ib_start_alignment: if exists { 32 } else { 0 },
                    ib_size_alignment: if exists { 32 } else { 0 },
                    available_rings: match block {
                        hw_ip::GFX => u32::from(!chip.xgmi),
                        hw_ip::COMPUTE => 0xf,
                        hw_ip::DMA => (1 << chip.sdma_engines) - 1,
                        _ => 0,
                    },
                    ip_discovery_version: major << 16 | minor << 8 | revision,
                }
                .as_bytes()
                .into()
            }
            info::FW_VERSION => InfoFirmware {
                ver: chip.mec_firmware,
                feature: 0,
            }
            .as_bytes()
            .into(),
            info::DEV_INFO => self.device_info().as_bytes().into(),
            info::READ_MMR_REG if args.arguments[..2] == [GB_ADDR_CONFIG, 1] => {
                // The kernel answers with what it has read at its start: nv.c, soc15.c.
                chip.gb_addr_config().as_bytes().into()
            }
            info::READ_MMR_REG => {
                return self.fail(Errno::EINVAL, || {
                    format!("registers from {block:#x} on may not be read, or are not modelled")
                });
            }
            query => {
                self.broken(&QUERY, format!("query {query:#x}"));
                return Err(Errno::EINVAL);
            }
        };
        let room = answer.len().min(args.return_size as usize);
        self.caller.write(args.return_pointer, &answer[..room])
    }

    fn device_info(&self) -> InfoDevice {
        let chip = self.machine.config.chip;
        let mut cu_bitmap = [[0; 4]; 4];
        for engine in 0..chip.engines {
            for array in 0..chip.arrays {
                // Engines 4 and above have the upper columns of the first ones.
                let (row, column) = (engine % 4, array + engine / 4 * 2);
                let bits = chip.array_bits(engine * chip.arrays + array);
                cu_bitmap[row as usize][column as usize] = bits;
            }
        }
        InfoDevice {
            device_id: chip.device_id.into(),
            external_rev: chip.external_revision,
            pci_rev: chip.pci_revision.into(),
            family: chip.family,
            num_shader_engines: chip.engines,
            num_shader_arrays_per_engine: chip.arrays,
            gpu_counter_freq: COUNTER_KHZ,
            max_engine_clock: u64::from(chip.engine_mhz) * 1000,
            max_memory_clock: u64::from(chip.memory_mhz) * 1000,
            min_engine_clock: 500_000,
            min_memory_clock: 96_000,
            cu_active_number: chip.all_cus(),
            cu_bitmap,
            num_hw_gfx_contexts: 8,
            pcie_gen: 4,
            pcie_num_lanes: 16,
            virtual_address_offset: 1 << 21,
            virtual_address_max: 0x8000_0000_0000,
            high_va_offset: 0xffff_8000_0000_0000,
            high_va_max: 0xffff_ffff_ffe0_0000,
            virtual_address_alignment: 4096,
            pte_fragment_size: 2 << 20,
            gart_page_size: 4096,
            vram_type: if chip.xgmi { 6 } else { 9 },
            vram_bit_width: chip.vram_bits,
            wave_front_size: chip.wave_front_size(),
            num_shader_visible_vgprs: if chip.xgmi { 256 } else { 1024 },
            num_cu_per_sh: chip.cus_per_array,
            num_tcc_blocks: chip.l2_kib / 256,
            tcp_cache_size: chip.tcp_kib(),
            num_sqc_per_wgp: 1,
            sqc_data_cache_size: 16,
            sqc_inst_cache_size: if chip.xgmi { 64 } else { 32 },
            gl1c_cache_size: chip.gl1_kib(),
            gl2c_cache_size: chip.l2_kib,
            mall_size: u64::from(chip.l3_kib) << 10,
            ..InfoDevice::default()
        }
    }
}
