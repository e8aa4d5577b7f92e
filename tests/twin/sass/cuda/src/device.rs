//! The device: memory, modules, launches.

use std::collections::BTreeMap;
use std::ffi::{CStr, c_int};
use std::time::Duration;

use drivers_spec::nv::cubin::{Cubin, CubinKernel, SHARED_RESERVED, bank0, shared_is_reserved};
use twin_sass::Chip;
use twin_sass::warp::{Block, Constants, Denied, Launch, Memory, Program, Windows};

/// Where memory is given from; allocations lie apart, so that what is beyond the end of one is no other's.
const FIRST: u64 = 0x7f00_0000_0000;
const APART: u64 = 1 << 32;
const WINDOWS: Windows = Windows {
    shared: 0x7e00_0000_0000,
    local: 0x7e00_0100_0000,
};
/// Instructions of a block at most.
const LIMIT: u64 = 100_000_000;
/// `CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR` and the one after it.
const MAJOR: c_int = 75;
/// `CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES`, and `..._MAX_DYNAMIC_SHARED_SIZE_BYTES`.
const SHARED: c_int = 1;
const MOST_SHARED: c_int = 8;

macro_rules! errors {
    ($($name:ident $code:literal $vendor:literal $text:literal)*) => {
        /// What calls return.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Error {
            $(#[doc = $text] $name = $code,)*
        }

        impl Error {
            pub fn of(code: c_int) -> Option<Self> {
                match code {
                    $($code => Some(Self::$name),)*
                    _ => None,
                }
            }

            pub fn name(self) -> &'static CStr {
                match self {
                    $(Self::$name => $vendor,)*
                }
            }

            pub fn text(self) -> &'static CStr {
                match self {
                    $(Self::$name => c_text($text),)*
                }
            }
        }
    };
}

/// A text that ends as C wants it.
const fn c_text(text: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(text.as_bytes()) {
        Ok(text) => text,
        Err(_) => c"",
    }
}

// Source: CUDA driver API, "Data types used by CUDA driver", CUresult.
errors! {
    InvalidValue 1 c"CUDA_ERROR_INVALID_VALUE" "invalid argument\0"
    OutOfMemory 2 c"CUDA_ERROR_OUT_OF_MEMORY" "out of memory\0"
    NotInitialized 3 c"CUDA_ERROR_NOT_INITIALIZED" "initialization error\0"
    NoDevice 100 c"CUDA_ERROR_NO_DEVICE" "no CUDA-capable device is detected\0"
    InvalidDevice 101 c"CUDA_ERROR_INVALID_DEVICE" "invalid device ordinal\0"
    InvalidImage 200 c"CUDA_ERROR_INVALID_IMAGE" "device kernel image is invalid\0"
    NoBinary 209 c"CUDA_ERROR_NO_BINARY_FOR_GPU" "no kernel image is available for execution on the device\0"
    InvalidHandle 400 c"CUDA_ERROR_INVALID_HANDLE" "invalid resource handle\0"
    NotFound 500 c"CUDA_ERROR_NOT_FOUND" "named symbol not found\0"
    IllegalAddress 700 c"CUDA_ERROR_ILLEGAL_ADDRESS" "an illegal memory access was encountered\0"
    LaunchOutOfResources 701 c"CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES" "too many resources requested for launch\0"
    LaunchFailed 719 c"CUDA_ERROR_LAUNCH_FAILED" "unspecified launch failure\0"
}

impl Error {
    pub fn code(self) -> c_int {
        self as c_int
    }
}

/// Allocations, by where they begin.
#[derive(Default)]
struct Global(BTreeMap<u64, Vec<u8>>);

impl Global {
    fn part(&mut self, address: u64, len: usize) -> Result<&mut [u8], Denied> {
        let (first, bytes) = self
            .0
            .range_mut(..=address)
            .next_back()
            .ok_or(Denied::Unmapped)?;
        let at = (address - first) as usize;
        let end = at.checked_add(len).ok_or(Denied::Unmapped)?;
        bytes.get_mut(at..end).ok_or(Denied::Unmapped)
    }
}

impl Memory for Global {
    fn read(&mut self, address: u64, bytes: &mut [u8]) -> Result<(), Denied> {
        bytes.copy_from_slice(self.part(address, bytes.len())?);
        Ok(())
    }

    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Denied> {
        self.part(address, bytes.len())?.copy_from_slice(bytes);
        Ok(())
    }
}

/// A kernel of a module.
struct Function {
    module: usize,
    kernel: CubinKernel,
    program: Program,
    image: Vec<u8>,
}

/// A device with what a process has made on it.
pub struct Device {
    chip: Option<Chip>,
    sm: u32,
    started: bool,
    /// The call that fails, and the how manieth.
    fails: Option<(String, u32)>,
    calls: BTreeMap<String, u32>,
    next: usize,
    memory: Global,
    modules: BTreeMap<usize, Cubin>,
    functions: BTreeMap<usize, Function>,
    /// What a launch ended with, until somebody waits for it; everything fails from then on.
    fault: Option<Error>,
}

/// How long an ELF file is: its section headers come last.
pub fn bytes_of(head: &[u8]) -> Result<usize, Error> {
    let field = |at: usize, len: usize| {
        let bytes = head[at..at + len].iter().rev();
        bytes.fold(0, |value, &byte| value << 8 | usize::from(byte))
    };
    if head[..4] != *b"\x7fELF" {
        return Err(Error::InvalidImage);
    }
    let programs = field(0x20, 8) + field(0x36, 2) * field(0x38, 2);
    Ok(programs.max(field(0x28, 8) + field(0x3a, 2) * field(0x3c, 2)))
}

impl Device {
    /// The device that the environment names.
    pub fn new() -> Self {
        let name = std::env::var("TWIN_CUDA_CHIP").unwrap_or_else(|_| "sm_90".into());
        let fails = std::env::var("TWIN_CUDA_FAIL").ok().map(|text| {
            let (call, count) = text.split_once(':').unwrap_or((&text, "1"));
            (call.into(), count.parse().unwrap_or(1))
        });
        Self {
            chip: Chip::ALL.into_iter().find(|chip| chip.name() == name),
            sm: name.trim_start_matches("sm_").parse().unwrap_or(0),
            started: false,
            fails,
            calls: BTreeMap::new(),
            next: 0x10,
            memory: Global::default(),
            modules: BTreeMap::new(),
            functions: BTreeMap::new(),
            fault: None,
        }
    }

    /// A call begins.
    pub fn enter(&mut self, call: &str) -> Result<(), Error> {
        let count = self.calls.entry(call.into()).or_default();
        *count += 1;
        if let Some((which, at)) = &self.fails {
            if which == call && at == count {
                self.fault = (call == "cuCtxSynchronize").then_some(Error::IllegalAddress);
                return Err(match call {
                    "cuInit" => Error::NoDevice,
                    "cuMemAlloc_v2" => Error::OutOfMemory,
                    "cuCtxSynchronize" => Error::IllegalAddress,
                    _ => Error::LaunchOutOfResources,
                });
            }
            if call == "cuLaunchKernel" && at == count {
                match which.as_str() {
                    "crash" => std::process::abort(),
                    "hang" => std::thread::sleep(Duration::from_secs(3600)),
                    _ => {}
                }
            }
        }
        if !self.started && !["cuInit", "cuDriverGetVersion"].contains(&call) {
            return Err(Error::NotInitialized);
        }
        self.fault.map_or(Ok(()), Err)
    }

    pub fn start(&mut self) -> Result<(), Error> {
        self.started = true;
        Ok(())
    }

    pub fn attribute(&self, which: c_int) -> Result<c_int, Error> {
        match which {
            MAJOR => Ok((self.sm / 10).cast_signed()),
            which if which == MAJOR + 1 => Ok((self.sm % 10).cast_signed()),
            _ => Err(Error::InvalidValue),
        }
    }

    fn number(&mut self) -> usize {
        self.next += 0x10;
        self.next
    }

    pub fn load(&mut self, bytes: &[u8]) -> Result<usize, Error> {
        let cubin = Cubin::parse(bytes).map_err(|error| {
            eprintln!("twin-cuda: {error}");
            Error::InvalidImage
        })?;
        if cubin.sm != self.sm {
            return Err(Error::NoBinary);
        }
        let number = self.number();
        self.modules.insert(number, cubin);
        Ok(number)
    }

    pub fn unload(&mut self, module: usize) -> Result<(), Error> {
        self.functions
            .retain(|_, function| function.module != module);
        let module = self.modules.remove(&module);
        module.map(|_| ()).ok_or(Error::InvalidHandle)
    }

    pub fn function(&mut self, module: usize, name: &str) -> Result<usize, Error> {
        let cubin = self.modules.get(&module).ok_or(Error::InvalidHandle)?;
        let kernel = cubin.kernel(name).map_err(|_| Error::NotFound)?.clone();
        let chip = self.chip.ok_or(Error::NoBinary)?;
        // Nothing in the image is reached by its address: code is fetched by the model.
        let image = cubin.at(FIRST - APART).into_owned();
        let code = kernel.entry as usize..(kernel.entry + kernel.code_bytes) as usize;
        let words = image.get(code).ok_or(Error::InvalidImage)?.chunks_exact(16);
        let words: Vec<u128> = words
            .map(|word| {
                word.iter()
                    .rev()
                    .fold(0, |all, &byte| all << 8 | u128::from(byte))
            })
            .collect();
        let number = self.number();
        let function = Function {
            module,
            kernel,
            program: Program::new(chip, &words),
            image,
        };
        self.functions.insert(number, function);
        Ok(number)
    }

    pub fn kernel_attribute(&self, function: usize, which: c_int) -> Result<c_int, Error> {
        let function = self.functions.get(&function).ok_or(Error::InvalidHandle)?;
        match which {
            SHARED | MOST_SHARED => Ok(function.kernel.shared_bytes.cast_signed()),
            _ => Err(Error::InvalidValue),
        }
    }

    pub fn allocate(&mut self, bytes: usize) -> Result<u64, Error> {
        if bytes == 0 || bytes as u64 > APART / 2 {
            return Err(if bytes == 0 {
                Error::InvalidValue
            } else {
                Error::OutOfMemory
            });
        }
        let last = self.memory.0.keys().next_back();
        let at = last.map_or(FIRST, |last| last + APART);
        self.memory.0.insert(at, vec![0; bytes]);
        Ok(at)
    }

    pub fn free(&mut self, address: u64) -> Result<(), Error> {
        let memory = self.memory.0.remove(&address);
        memory.map(|_| ()).ok_or(Error::InvalidValue)
    }

    pub fn bytes(&mut self, address: u64, bytes: usize) -> Result<&mut [u8], Error> {
        let part = self.memory.part(address, bytes);
        part.map_err(|_| Error::InvalidValue)
    }

    pub fn synchronize(&mut self) -> Result<(), Error> {
        self.fault.map_or(Ok(()), Err)
    }

    /// The sizes of a kernel's parameters.
    pub fn parameters(&self, function: usize) -> Result<impl Iterator<Item = usize>, Error> {
        let function = self.functions.get(&function).ok_or(Error::InvalidHandle)?;
        let sizes: Vec<_> = function
            .kernel
            .params
            .iter()
            .map(|p| p.size as usize)
            .collect();
        Ok(sizes.into_iter())
    }

    pub fn launch(
        &mut self,
        function: usize,
        grid: [u32; 3],
        threads: [u32; 3],
        shared: u32,
        parameters: &[Vec<u8>],
    ) -> Result<(), Error> {
        let function = self.functions.get(&function).ok_or(Error::InvalidHandle)?;
        let layout = bank0(self.sm).ok_or(Error::NoBinary)?;
        let kernel = &function.kernel;
        let count: u64 = threads.iter().map(|&n| u64::from(n)).product();
        if !(1..=1024).contains(&count) || grid.contains(&0) {
            return Err(Error::InvalidValue);
        }
        let local = kernel.local_bytes.next_multiple_of(16);
        let mut bank = vec![0; (kernel.bank0_bytes as usize).max(0x400)];
        let mut put = |at: u32, bytes: &[u8]| {
            if let Some(place) = bank.get_mut(at as usize..at as usize + bytes.len()) {
                place.copy_from_slice(bytes);
            }
        };
        for (k, (threads, blocks)) in (0..).zip(threads.iter().zip(grid)) {
            put(layout.block + 4 * k, &threads.to_le_bytes());
            put(layout.grid + 4 * k, &blocks.to_le_bytes());
        }
        if let Some(at) = layout.shared_window {
            put(at, &WINDOWS.shared.to_le_bytes());
        }
        put(layout.local_window, &WINDOWS.local.to_le_bytes());
        put(layout.stack, &local.to_le_bytes());
        for (param, value) in kernel.params.iter().zip(parameters) {
            put(kernel.param_base + param.offset, value);
        }
        let mut constants = Constants::new().with(0, &bank);
        for (number, place) in &kernel.banks {
            let bytes = function.image.get(place.start as usize..place.end as usize);
            constants = constants.with(*number, bytes.ok_or(Error::InvalidImage)?);
        }
        let reserved = if shared_is_reserved(self.sm) {
            SHARED_RESERVED
        } else {
            0
        };
        let launch = Launch {
            program: &function.program,
            constants,
            threads,
            registers: u16::try_from(kernel.registers).map_err(|_| Error::InvalidImage)?,
            barriers: u8::try_from(kernel.barriers).map_err(|_| Error::InvalidImage)?,
            shared: (kernel.shared_bytes + shared + reserved) as usize,
            local: local as usize,
            windows: WINDOWS,
            watch: true,
        };
        let [x, y, z] = grid;
        let places = (0..z).flat_map(|z| (0..y).flat_map(move |y| (0..x).map(move |x| [x, y, z])));
        for place in places {
            let memory = &mut self.memory;
            let ran = Block::new(launch, place).and_then(|mut block| block.run(memory, LIMIT));
            if let Err(fault) = ran {
                // As on a card, who waits is told, and hardly anything.
                eprintln!("twin-cuda: {}: {fault}", kernel.name);
                self.fault = Some(Error::LaunchFailed);
                break;
            }
        }
        Ok(())
    }
}
