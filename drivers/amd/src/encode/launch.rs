//! A launch's data of a loaded kernel, in the form of [`hcq::Program::launch_words`].

use drivers_spec::amd::kd;
use hcq::GpuVa;

/// Facts of a loaded kernel. [`hcq::Program::entry`] is the address of its descriptor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Launch {
    /// Address of the first instruction, a multiple of 256.
    pub code: GpuVa,
    /// COMPUTE_PGM_RSRC1, 2 and 3 as registers get them: with what a driver adds, and the size of LDS.
    pub rsrc: [u32; 3],
    /// `kernel_code_properties` of the descriptor.
    pub properties: u16,
    /// `kernarg_preload` of the descriptor.
    pub preload: u16,
    /// Bytes of scratch of a lane.
    pub private_bytes: u32,
    /// Bytes of LDS of a workgroup.
    pub group_bytes: u32,
    /// Bytes of the argument block that the kernel may read.
    pub kernarg_bytes: u32,
    /// Alignment of the argument block.
    pub kernarg_align: u32,
    /// Where the block's hidden arguments begin, if it has some.
    pub hidden: Option<u32>,
    /// Work-items of a workgroup at most.
    pub max_threads: u32,
    /// Work-items of a workgroup in x, y, z, if it runs with no others.
    pub required: Option<[u32; 3]>,
}

/// How many words there are.
const WORDS: usize = 15;

impl Launch {
    /// The words.
    pub fn words(&self) -> Box<[u32]> {
        let [rsrc1, rsrc2, rsrc3] = self.rsrc;
        // An empty workgroup means any.
        let [x, y, z] = self.required.unwrap_or_default();
        let words: [u32; WORDS] = [
            self.code.lo(),
            self.code.hi(),
            rsrc1,
            rsrc2,
            rsrc3,
            u32::from(self.properties) | u32::from(self.preload) << 16,
            self.private_bytes,
            self.group_bytes,
            self.kernarg_bytes,
            self.kernarg_align,
            self.hidden.unwrap_or(u32::MAX),
            self.max_threads,
            x,
            y,
            z,
        ];
        Box::new(words)
    }

    /// From the words; `None` if they are not those of this driver.
    #[inline]
    pub fn from_words(words: &[u32]) -> Option<Launch> {
        let words: &[u32; WORDS] = words.try_into().ok()?;
        Some(Launch {
            code: GpuVa(u64::from(words[0]) | u64::from(words[1]) << 32),
            rsrc: [words[2], words[3], words[4]],
            properties: words[5] as u16,
            preload: (words[5] >> 16) as u16,
            private_bytes: words[6],
            group_bytes: words[7],
            kernarg_bytes: words[8],
            kernarg_align: words[9],
            hidden: Some(words[10]).filter(|&at| at != u32::MAX),
            max_threads: words[11],
            required: Some([words[12], words[13], words[14]]).filter(|&size| size != [0; 3]),
        })
    }

    /// Whether it runs in waves of 32 lanes.
    #[inline]
    pub fn wave32(&self) -> bool {
        kd::ENABLE_WAVEFRONT_SIZE32.get(u32::from(self.properties)) == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_hold_every_fact() {
        let launch = Launch {
            code: GpuVa(0x7e00_1234_5600),
            rsrc: [1, 2, 3],
            properties: 0x408,
            preload: 0x102,
            private_bytes: 16,
            group_bytes: 1024,
            kernarg_bytes: 40,
            kernarg_align: 16,
            hidden: Some(24),
            max_threads: 256,
            required: Some([16, 4, 1]),
        };
        for launch in [
            launch,
            Launch {
                hidden: None,
                required: None,
                ..launch
            },
        ] {
            assert_eq!(Launch::from_words(&launch.words()), Some(launch));
            assert!(launch.wave32());
        }
        assert_eq!(Launch::from_words(&[]), None);
    }
}
